//! Unwinds the user stack of a thread that is asleep, by the same rules as the kernel's part
//! (`bpf/unwind.h`), and by reading its memory.

use super::MAPPING_BYTES;
use crate::java::{Exit, Java, MethodPlace};
use crate::sys::SharedArray;
use unhitch_formats::scripts::ScriptFrame;

/// Maximum number of frames.
const MAX_FRAMES: usize = 96;
/// `enum rule` of `unwind.h`.
const SP: u8 = 0;
const BP: u8 = 1;
const PLT: u8 = 2;
const END: u8 = 3;
const SIGNAL: u8 = 4;
const NONE: u8 = 5;
/// Addresses below this are no code.
const LOWEST_CODE: u64 = 4096;

/// How a stack ends: `enum stack_end` of `ring.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum StackEnd {
    Start = 0,
    UnreadMemory = 1,
    WithoutRule = 2,
    TooDeep = 3,
    OutsideCode = 4,
    WithoutTables = 5,
}

/// `struct mapping` of `unwind.h`.
struct Mapping {
    start: u64,
    end: u64,
    base: u64,
    first_row: u32,
    rows: u32,
}

/// What unwinding a stack gives: its frames, leaf first, each a return address or the word of a method
/// of Java; how it ends; and the methods, by their ids.
pub(crate) struct Walked {
    pub(crate) frames: Vec<u64>,
    pub(crate) end: StackEnd,
    pub(crate) methods: Vec<(u64, MethodPlace)>,
}

/// The tables that the kernel's part searches.
pub(crate) struct Walker<'a> {
    pub(crate) mappings: &'a SharedArray,
    pub(crate) rows: &'a SharedArray,
}

impl Walker<'_> {
    /// The stack of a thread with these registers (`rip`, `rsp`, `rbp`). `own` are the mappings of its
    /// process: the first, and their number.
    pub(crate) fn walk(
        &self,
        registers: [u64; 3],
        own: Option<[u32; 2]>,
        java: Option<&Java>,
        mut word_at: impl FnMut(u64) -> Option<u64>,
    ) -> Walked {
        let (mut frames, mut methods) = (Vec::new(), Vec::new());
        let mut is_leaf = true;
        let [mut ip, mut sp, mut bp] = registers;
        let end = loop {
            if frames.len() >= MAX_FRAMES {
                break StackEnd::TooDeep;
            }
            let pc = if is_leaf { ip } else { ip.wrapping_sub(1) };
            let mapping = own.and_then(|own| self.mapping_at(own, pc));
            if mapping.is_none() && own.is_some() && !is_leaf {
                break StackEnd::OutsideCode;
            }
            let compiled = mapping.as_ref().is_none_or(|mapping| mapping.rows == 0);
            let entered =
                java.filter(|_| compiled).and_then(|java| java.enter(pc, bp, &mut word_at));
            let (exit, method) = entered.unzip();
            let method = method.flatten();
            frames.push(method.map_or(ip, |(word, _)| word));
            methods.extend(method);
            is_leaf = false;
            let row = mapping.as_ref().and_then(|mapping| self.row_at(mapping, pc));
            let row = row.unwrap_or(u64::from(NONE) << 56);
            let offset = i64::from((row >> 32) as i16) * 8;
            let mut saved_bp = i64::from((row >> 48) as i8) * 8;
            let cfa = match (exit, (row >> 56) as u8) {
                (Some(Exit::Bytes(bytes)), _) => {
                    saved_bp = -16;
                    sp.wrapping_add(bytes)
                }
                (_, SP) => sp.wrapping_add_signed(offset),
                (_, BP) => bp.wrapping_add_signed(offset),
                (_, PLT) => sp.wrapping_add(if pc & 15 >= 11 { 16 } else { 8 }),
                (_, END) => break StackEnd::Start,
                (_, SIGNAL) => {
                    // struct ucontext: rip, rbp, rsp of its registers.
                    let mut register = |at| word_at(sp.wrapping_add(at));
                    let (Some(new_ip), Some(new_bp), Some(new_sp)) =
                        (register(168), register(120), register(160))
                    else {
                        break StackEnd::UnreadMemory;
                    };
                    (ip, bp, sp, is_leaf) = (new_ip, new_bp, new_sp, true);
                    continue;
                }
                (_, NONE) if bp == 0 && mapping.is_some() => break StackEnd::Start,
                (_, NONE) if bp < sp || !bp.is_multiple_of(8) => break StackEnd::OutsideCode,
                (_, NONE) => {
                    saved_bp = -16;
                    bp.wrapping_add(16)
                }
                _ => break StackEnd::WithoutRule,
            };
            if cfa <= sp {
                break StackEnd::OutsideCode;
            }
            let Some(caller) = word_at(cfa.wrapping_sub(8)) else { break StackEnd::UnreadMemory };
            if saved_bp != 0 {
                let Some(saved) = word_at(cfa.wrapping_add_signed(saved_bp)) else {
                    break StackEnd::UnreadMemory;
                };
                bp = saved;
            }
            sp = match exit {
                Some(Exit::Interpreted(Some(sender_sp))) => sender_sp,
                _ => cfa,
            };
            ip = caller;
            if caller < LOWEST_CODE {
                break StackEnd::Start;
            }
        };
        // However it ended: by frame pointers alone, callers may be missing.
        let end = match own {
            None => StackEnd::WithoutTables,
            Some(own) if self.mapping_at(own, registers[0]).is_none() => StackEnd::OutsideCode,
            Some(_) => end,
        };
        let methods = methods.into_iter().filter_map(|(word, place)| Some((id_of(word)?, place)));
        Walked { frames, end, methods: methods.collect() }
    }

    fn mapping_at(&self, [first, count]: [u32; 2], avma: u64) -> Option<Mapping> {
        let starts = |index: u32| self.mapping(first + index).start <= avma;
        let index = partition_point(count, starts).checked_sub(1)?;
        let found = self.mapping(first + index);
        (avma < found.end).then_some(found)
    }

    fn mapping(&self, index: u32) -> Mapping {
        let word = |at| self.mappings.load(index as usize * MAPPING_BYTES + at);
        let rows = word(24);
        Mapping {
            start: word(0),
            end: word(8),
            base: word(16),
            first_row: rows as u32,
            rows: (rows >> 32) as u32,
        }
    }

    fn row_at(&self, mapping: &Mapping, avma: u64) -> Option<u64> {
        let pc = avma.wrapping_sub(mapping.base) as u32;
        let row = |index: u32| self.rows.load((mapping.first_row + index) as usize * 8);
        let index = partition_point(mapping.rows, |index| row(index) as u32 <= pc);
        Some(row(index.checked_sub(1)?))
    }
}

fn id_of(word: u64) -> Option<u64> {
    ScriptFrame::from_word(word).map(|frame| frame.id)
}

/// The first of `len` indices for which `is_before` is false.
fn partition_point(len: u32, is_before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
