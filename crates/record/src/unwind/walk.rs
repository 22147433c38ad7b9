//! Unwinds the user stack of a thread that is asleep, by the same rules as the kernel's part
//! (`bpf/unwind.h`), and by reading its memory.

use super::MAPPING_BYTES;
use crate::sys::SharedArray;

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

/// The tables that the kernel's part searches.
pub(crate) struct Walker<'a> {
    pub(crate) mappings: &'a SharedArray,
    pub(crate) rows: &'a SharedArray,
}

impl Walker<'_> {
    /// The return addresses of a thread with these registers (`rip`, `rsp`, `rbp`), leaf first, and
    /// how the stack ends. `own` are the process's mappings: the first, and their number.
    pub(crate) fn walk(
        &self,
        registers: [u64; 3],
        own: Option<[u32; 2]>,
        word_at: impl FnMut(u64) -> Option<u64>,
    ) -> (Vec<u64>, StackEnd) {
        let (frames, end) = self.frames(registers, own, word_at);
        // However it ended: by frame pointers alone, callers may be missing.
        let end = match own {
            None => StackEnd::WithoutTables,
            Some(own) if self.mapping_at(own, registers[0]).is_none() => StackEnd::OutsideCode,
            Some(_) => end,
        };
        (frames, end)
    }

    fn frames(
        &self,
        [mut ip, mut sp, mut bp]: [u64; 3],
        own: Option<[u32; 2]>,
        mut word_at: impl FnMut(u64) -> Option<u64>,
    ) -> (Vec<u64>, StackEnd) {
        let mut frames = Vec::new();
        let mut is_leaf = true;
        while frames.len() < MAX_FRAMES {
            let pc = if is_leaf { ip } else { ip.wrapping_sub(1) };
            let mapping = own.and_then(|own| self.mapping_at(own, pc));
            if mapping.is_none() && own.is_some() && !is_leaf {
                return (frames, StackEnd::OutsideCode);
            }
            frames.push(ip);
            is_leaf = false;
            let row = mapping.as_ref().and_then(|mapping| self.row_at(mapping, pc));
            let row = row.unwrap_or(u64::from(NONE) << 56);
            let offset = i64::from((row >> 32) as i16) * 8;
            let mut saved_bp = i64::from((row >> 48) as i8) * 8;
            let cfa = match (row >> 56) as u8 {
                SP => sp.wrapping_add_signed(offset),
                BP => bp.wrapping_add_signed(offset),
                PLT => sp.wrapping_add(if pc & 15 >= 11 { 16 } else { 8 }),
                END => return (frames, StackEnd::Start),
                SIGNAL => {
                    // struct ucontext: rip, rbp, rsp of its registers.
                    let mut register = |at| word_at(sp.wrapping_add(at));
                    let (Some(new_ip), Some(new_bp), Some(new_sp)) =
                        (register(168), register(120), register(160))
                    else {
                        return (frames, StackEnd::UnreadMemory);
                    };
                    (ip, bp, sp, is_leaf) = (new_ip, new_bp, new_sp, true);
                    continue;
                }
                NONE if bp == 0 && mapping.is_some() => return (frames, StackEnd::Start),
                NONE if bp < sp || !bp.is_multiple_of(8) => return (frames, StackEnd::OutsideCode),
                NONE => {
                    saved_bp = -16;
                    bp.wrapping_add(16)
                }
                _ => return (frames, StackEnd::WithoutRule),
            };
            if cfa <= sp {
                return (frames, StackEnd::OutsideCode);
            }
            let Some(caller) = word_at(cfa.wrapping_sub(8)) else {
                return (frames, StackEnd::UnreadMemory);
            };
            if saved_bp != 0 {
                let Some(saved) = word_at(cfa.wrapping_add_signed(saved_bp)) else {
                    return (frames, StackEnd::UnreadMemory);
                };
                bp = saved;
            }
            (ip, sp) = (caller, cfa);
            if caller < LOWEST_CODE {
                return (frames, StackEnd::Start);
            }
        }
        (frames, StackEnd::TooDeep)
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

/// The first of `len` indices for which `is_before` is false.
fn partition_point(len: u32, is_before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
