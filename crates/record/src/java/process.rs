//! [`Java`]: the virtual machine of one process.

use unhitch_formats::scripts::{ScriptFrame, id_of_code};
use unhitch_symbols::java::{FIELDS, Field, FieldOffset, JavaRuntime};

/// Length of `struct java` of `java.h`, in words.
pub(crate) const JAVA_WORDS: usize = 2 + 4 * CODE_HEAPS + 3;
/// Maximum number of heaps of code: for what is no method, for methods that are still observed, and
/// for others; or one for all.
const CODE_HEAPS: usize = 3;
/// As in `java.h`.
const FREE_SEGMENT: u8 = 0xff;
const MAX_SEGMENT_HOPS: usize = 12;
const NMETHOD: u64 = u64::from_le_bytes(*b"nmethod\0");
const NATIVE_NMETHOD: u64 = u64::from_le_bytes(*b"native n");
const INTERPRETED_METHOD: u64 = 24;
const INTERPRETED_SENDER_SP: u64 = 8;
const MAX_FRAME_WORDS: u32 = 0xffff;
const MAX_ARGUMENT_BYTES: u64 = 1 << 20;
/// Sizes of segments that HotSpot may choose: 32 bytes to 64 KiB.
const SEGMENT_BITS: std::ops::RangeInclusive<u32> = 5..=16;

/// Where the fields of HotSpot's structures are, and how large some of those are, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Offsets([u16; FIELDS]);

impl Offsets {
    fn read(
        runtime: &JavaRuntime,
        base_avma: u64,
        mut word_at: impl FnMut(u64) -> Option<u64>,
    ) -> Option<Self> {
        let mut offsets = [0; FIELDS];
        for (to, offset) in offsets.iter_mut().zip(runtime.offsets()) {
            *to = match offset {
                FieldOffset::Known(size) => size,
                FieldOffset::At(svma) => {
                    u16::try_from(word_at(base_avma.wrapping_add(svma))?).ok()?
                }
            };
        }
        Some(Self(offsets))
    }

    pub(super) fn of(&self, field: Field) -> u64 {
        self.0[field as usize].into()
    }
}

/// A heap of compiled code.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct CodeHeap {
    start: u64,
    end: u64,
    map: u64,
    segment_bits: u32,
}

impl CodeHeap {
    fn contains(&self, avma: u64) -> bool {
        (self.start..self.end).contains(&avma)
    }
}

/// The virtual machine of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Java {
    offsets: Offsets,
    interpreter: [u64; 2],
    heaps: [CodeHeap; CODE_HEAPS],
}

/// Where the name of a piece of code is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MethodPlace {
    /// A method: its `ConstantPool`, and the index of its name there.
    Method { pool: u64, name_index: u16 },
    /// Something else that the virtual machine made: the address of a text.
    Stub { name: u64 },
}

/// How to leave a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// By its frame pointer.
    FramePointer,
    /// Likewise; this is the caller's stack pointer.
    Interpreted(Option<u64>),
    /// Its size in bytes is known.
    Bytes(u64),
}

impl Java {
    /// The machine in a process that has `runtime`'s file at `base_avma`; `None` if it is not there
    /// yet.
    pub(crate) fn read(
        runtime: JavaRuntime,
        base_avma: u64,
        mut word_at: impl FnMut(u64) -> Option<u64>,
    ) -> Option<Self> {
        let offsets = Offsets::read(&runtime, base_avma, &mut word_at)?;
        let mut fields = Fields { offsets: &offsets, word_at };
        let queue = fields.word(base_avma.wrapping_add(runtime.interpreter_svma))?;
        let start = fields.at(queue, Field::InterpreterStart)?;
        let end = start.checked_add(fields.half_at(queue, Field::InterpreterBytes)?.into())?;
        let list = fields.word(base_avma.wrapping_add(runtime.heaps_svma))?;
        let len = fields.half_at(list, Field::ArrayLen)? as usize;
        let first = fields.at(list, Field::ArrayData)?;
        let mut heaps = [CodeHeap::default(); CODE_HEAPS];
        for (index, heap) in heaps.iter_mut().enumerate().take(len) {
            let at = fields.word(first.wrapping_add(index as u64 * 8))?;
            let [memory, map] =
                [Field::HeapMemory, Field::HeapMap].map(|space| at.wrapping_add(offsets.of(space)));
            *heap = CodeHeap {
                start: fields.at(memory, Field::SpaceLow)?,
                end: fields.at(memory, Field::SpaceHigh)?,
                map: fields.at(map, Field::SpaceLow)?,
                segment_bits: fields.half_at(at, Field::HeapSegmentBits)?,
            };
            if !SEGMENT_BITS.contains(&heap.segment_bits) {
                return None;
            }
        }
        (len > 0 && start < end).then_some(Self { offsets, interpreter: [start, end], heaps })
    }

    /// `struct java` of `java.h`.
    pub(crate) fn for_kernel(&self) -> [u64; JAVA_WORDS] {
        let mut words = [0; JAVA_WORDS];
        words[..2].copy_from_slice(&self.interpreter);
        for (to, heap) in words[2..].chunks_exact_mut(4).zip(&self.heaps) {
            to.copy_from_slice(&[heap.start, heap.end, heap.map, heap.segment_bits.into()]);
        }
        let fields = [
            [Field::BlockHeaderSize, Field::BlobName, Field::BlobFrameWords, Field::CompiledMethod],
            [Field::MethodConst, Field::ConstPool, Field::ConstName, Field::PoolSize],
            [Field::PoolClass, Field::ClassName, Field::SymbolLen, Field::SymbolText],
        ];
        for (to, four) in words[2 + 4 * CODE_HEAPS..].iter_mut().zip(fields) {
            let offsets = four.map(|field| self.offsets.of(field));
            *to = offsets.into_iter().rev().fold(0, |word, offset| word << 16 | offset);
        }
        words
    }

    /// Where its code is and will be.
    pub(crate) fn code(&self) -> impl Iterator<Item = std::ops::Range<u64>> {
        self.heaps.iter().map(|heap| heap.start..heap.end).filter(|code| !code.is_empty())
    }

    pub(super) fn offsets(&self) -> &Offsets {
        &self.offsets
    }

    /// If a frame of Java is at `pc`: how to leave it, and the word and the place of its method, if
    /// that can be read.
    pub(crate) fn enter(
        &self,
        pc: u64,
        bp: u64,
        word_at: impl FnMut(u64) -> Option<u64>,
    ) -> Option<(Exit, Option<(u64, MethodPlace)>)> {
        let mut fields = Fields { offsets: &self.offsets, word_at };
        let [start, end] = self.interpreter;
        if (start..end).contains(&pc) {
            let sp = fields.word(bp.wrapping_sub(INTERPRETED_SENDER_SP));
            let above = bp.wrapping_add(16);
            let is_sender =
                |sp: &u64| sp.checked_sub(above).is_some_and(|bytes| bytes < MAX_ARGUMENT_BYTES);
            let method = fields.method(bp.wrapping_sub(INTERPRETED_METHOD));
            return Some((Exit::Interpreted(sp.filter(is_sender)), method));
        }
        let heap = self.heaps.iter().find(|heap| heap.contains(pc))?;
        let block = fields.block_at(heap, pc)?;
        let blob = block.wrapping_add(self.offsets.of(Field::BlockHeaderSize));
        let name = fields.at(blob, Field::BlobName)?;
        let words = fields.half_at(blob, Field::BlobFrameWords)?;
        let exit = match words {
            1..=MAX_FRAME_WORDS => Exit::Bytes(u64::from(words) * 8),
            _ => Exit::FramePointer,
        };
        // The text lies in HotSpot's file, which may not be readable from here. Most code is of methods.
        let is_method = match self.heaps[1] == CodeHeap::default() {
            true => matches!(fields.text_word(name), None | Some(NMETHOD | NATIVE_NMETHOD)),
            false => !heap.contains(self.interpreter[0]),
        };
        let method = match is_method {
            true => fields.method(blob.wrapping_add(self.offsets.of(Field::CompiledMethod))),
            false => Some((word_of(id_of_code(name, [0; 4])), MethodPlace::Stub { name })),
        };
        Some((exit, method))
    }
}

fn word_of(id: u64) -> u64 {
    ScriptFrame { id, unit: 0, is_outermost: false, is_method: true }.to_word()
}

/// Reads the fields of HotSpot's structures.
struct Fields<'a, F> {
    offsets: &'a Offsets,
    word_at: F,
}

impl<F: FnMut(u64) -> Option<u64>> Fields<'_, F> {
    fn word(&mut self, avma: u64) -> Option<u64> {
        (self.word_at)(avma)
    }

    /// A pointer.
    fn at(&mut self, base: u64, field: Field) -> Option<u64> {
        self.word(base.wrapping_add(self.offsets.of(field)))
    }

    /// A number of 32 bits.
    fn half_at(&mut self, base: u64, field: Field) -> Option<u32> {
        let avma = base.wrapping_add(self.offsets.of(field));
        let word = self.word(avma & !7)?;
        (avma % 8 <= 4).then_some((word >> (avma % 8 * 8)) as u32)
    }

    /// Eight bytes of a text, which need not be aligned; those that cannot be read are 0.
    fn text_word(&mut self, avma: u64) -> Option<u64> {
        let (first, shift) = (self.word(avma & !7)?, avma % 8 * 8);
        let next = if shift == 0 { 0 } else { self.word((avma & !7).wrapping_add(8)).unwrap_or(0) };
        Some(((u128::from(next) << 64 | u128::from(first)) >> shift) as u64)
    }

    /// Where the block of code begins that `pc` is in.
    fn block_at(&mut self, heap: &CodeHeap, pc: u64) -> Option<u64> {
        let mut segment = (pc - heap.start) >> heap.segment_bits;
        for _ in 0..MAX_SEGMENT_HOPS {
            let avma = heap.map.wrapping_add(segment);
            match (self.word(avma & !7)? >> (avma % 8 * 8)) as u8 {
                0 => return Some(heap.start.wrapping_add(segment << heap.segment_bits)),
                FREE_SEGMENT => return None,
                hop => segment = segment.checked_sub(hop.into())?,
            }
        }
        None
    }

    /// The method that a pointer at `avma` leads to.
    fn method(&mut self, avma: u64) -> Option<(u64, MethodPlace)> {
        let method = self.word(avma)?;
        let constants = self.at(method, Field::MethodConst)?;
        let pool = self.at(constants, Field::ConstPool)?;
        let at = constants.wrapping_add(self.offsets.of(Field::ConstName));
        let index = self.word(at & !7)? >> (at % 8 * 8) & 0xffff;
        let id = id_of_code(method, [constants, pool, index, 0]);
        Some((word_of(id), MethodPlace::Method { pool, name_index: index as u16 }))
    }
}
