//! The layout of `rings.bin`, of pieces of rings, of blocks and of records. All numbers are
//! little-endian.

/// Length of a block.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Length of a block's header: number, base, current thread, CPU.
pub(super) const BLOCK_HEADER_BYTES: usize = 24;
pub(super) const MAGIC: &[u8; 8] = b"UNHRINGS";
/// Of whole rings, as a save has them.
pub(super) const VERSION: u32 = 1;
/// Of pieces of rings, as they were written while recording.
pub(super) const VERSION_OF_PIECES: u32 = 2;
/// Length of the header, and of each ring's entry that follows it.
pub(super) const HEADER_BYTES: usize = 24;
pub(super) const ENTRY_BYTES: usize = 24;

/// Types of a record, in bits 32 to 34 of its first word.
pub(super) mod kind {
    pub(crate) const SWITCH: u64 = 1;
    pub(crate) const WAKING: u64 = 2;
    pub(crate) const LONG: u64 = 3;
    /// Kinds of long records.
    pub(crate) const STACK: u64 = 1;
    pub(crate) const WAIT: u64 = 2;
    pub(crate) const WAKER: u64 = 3;
    pub(crate) const SAMPLE: u64 = 4;
    pub(crate) const REPAIR: u64 = 5;
    pub(crate) const PRIORITY: u64 = 6;
    pub(crate) const DESCRIPTOR: u64 = 7;
    pub(crate) const FACT: u64 = 8;
}

/// First of the four bits of a switch that are the state in which its thread left, and of the two bits
/// of a wake-up that are its context.
pub(super) const SWITCH_STATE_SHIFT: u32 = 22;
pub(super) const WAKING_CONTEXT_SHIFT: u32 = 22;
/// First of the three bits of a switch and of a wake-up that number its place, and of the flags that
/// number that of a stack.
pub(super) const SWITCH_PLACE_SHIFT: u32 = 26;
pub(super) const WAKING_PLACE_SHIFT: u32 = 24;
pub(super) const FLAGS_PLACE_SHIFT: u32 = 2;
/// Bit of a wait: its stacks were not taken.
pub(super) const STACKS_OVER_BUDGET: u64 = 1;
/// Bit of a waker: in a soft interrupt that the thread itself caused.
pub(super) const BY_THREAD: u64 = 2;
/// Bit of a wait: its owner had the lock when the thread was back.
pub(super) const OWNER_AT_RETURN: u64 = 32;

/// The copy of one CPU's ring.
#[derive(Clone, Copy, Debug)]
pub struct RingPart<'a> {
    /// The CPU.
    pub cpu: u16,
    /// Position of the ring's end in bytes, counted since the recording started.
    pub end: u64,
    /// Whole blocks, oldest first; the last one is the one that `end` is in.
    pub blocks: &'a [u8],
}

impl<'a> RingPart<'a> {
    /// Without what was not written yet.
    pub fn piece(&self) -> RingPiece<'a> {
        let count = self.blocks.len() / BLOCK_BYTES;
        RingPiece::of_blocks(self.cpu, self.end, count as u64, self.blocks)
    }
}

/// A stretch of one CPU's ring. It begins and ends between two records.
#[derive(Clone, Copy, Debug)]
pub struct RingPiece<'a> {
    /// The CPU.
    pub cpu: u16,
    /// Position of its first byte, counted since the recording started.
    pub start: u64,
    /// What the ring holds from there on.
    pub bytes: &'a [u8],
}

impl<'a> RingPiece<'a> {
    /// The last `count` blocks of a ring that ends at `end`; `blocks` may end early.
    fn of_blocks(cpu: u16, end: u64, count: u64, blocks: &'a [u8]) -> Self {
        let first = (end / BLOCK_BYTES as u64 + 1).saturating_sub(count);
        let start = first.saturating_mul(BLOCK_BYTES as u64);
        let len = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        Self { cpu, start, bytes: blocks.get(..len).unwrap_or(blocks) }
    }

    /// Its blocks, and parts of blocks.
    pub(super) fn fragments(&self) -> impl Iterator<Item = Fragment<'a>> + use<'a> {
        let Self { cpu, mut start, mut bytes } = *self;
        std::iter::from_fn(move || {
            let offset = (start % BLOCK_BYTES as u64) as usize;
            let len = bytes.len().min(BLOCK_BYTES - offset);
            let (own, rest) = bytes.split_at(len);
            let fragment = Fragment { cpu, number: start / BLOCK_BYTES as u64, offset, bytes: own };
            (start, bytes) = (start.saturating_add(len as u64), rest);
            (!own.is_empty()).then_some(fragment)
        })
    }
}

/// A block of a ring, or a part of one.
#[derive(Clone, Copy)]
pub(super) struct Fragment<'a> {
    pub(super) cpu: u16,
    /// The block's position in the ring, by blocks, from 0.
    pub(super) number: u64,
    /// Where in the block it begins.
    pub(super) offset: usize,
    pub(super) bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// True if it begins with its block's header, and that is of this block.
    pub(super) fn has_own_header(&self) -> bool {
        // The first block has number 1.
        self.offset == 0
            && self.bytes.len() >= BLOCK_HEADER_BYTES
            && u64_at(self.bytes, 0) == self.number.wrapping_add(1)
            && u32_at(self.bytes, 20) == u32::from(self.cpu)
    }

    pub(super) fn records(&self) -> Records<'a> {
        let offset = if self.offset == 0 { BLOCK_HEADER_BYTES } else { 0 };
        Records { bytes: self.bytes, offset, damaged: false }
    }

    /// The position of a record in the ring, in words.
    pub(super) fn position(&self, record: &Record<'_>) -> u64 {
        let words = BLOCK_BYTES as u64 / 8;
        self.number.wrapping_mul(words).wrapping_add((self.offset + record.offset) as u64 / 8)
    }
}

/// A record of a block.
pub(super) struct Record<'a> {
    /// Where it is in the fragment.
    pub(super) offset: usize,
    /// All of it, its first word included.
    pub(super) bytes: &'a [u8],
    pub(super) word: u64,
}

impl Record<'_> {
    /// One of [`kind`]: switch, wake-up or long.
    pub(super) fn of_type(&self) -> u64 {
        self.word >> 32 & 7
    }

    /// True for a long record of this kind.
    pub(super) fn is_long(&self, of_kind: u64) -> bool {
        self.of_type() == kind::LONG && self.payload() & 31 == of_kind
    }

    pub(super) fn payload(&self) -> u64 {
        self.word >> 35
    }

    /// Nanoseconds since the block's base.
    pub(super) fn delta_ns(&self) -> u64 {
        self.word & 0xffff_ffff
    }
}

/// The records of a block, or of a part of one.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
    /// True if something is no record: it and what follows is left out.
    pub(super) damaged: bool,
}

impl<'a> Records<'a> {
    pub(super) fn none() -> Self {
        Self { bytes: &[], offset: 0, damaged: false }
    }

    /// The first word of the next record, which is passed.
    #[inline]
    pub(super) fn next_word(&mut self) -> Option<u64> {
        let rest = self.bytes.get(self.offset..)?;
        let word = u64::from_le_bytes(*rest.first_chunk()?);
        let words = match word >> 32 & 7 {
            kind::SWITCH | kind::WAKING => 1,
            0 => return None,
            kind::LONG => (word >> 40 & 0x3ff) as usize,
            _ => 0,
        };
        if words == 0 || words * 8 > rest.len() {
            self.damaged = true;
            return None;
        }
        self.offset += words * 8;
        Some(word)
    }

    /// Passes the switches and wake-ups up to the next other record.
    #[inline]
    pub(super) fn pass_short(&mut self, mut pass: impl FnMut(u64)) {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let words = rest.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let is_short = |word: &u64| matches!(word >> 32 & 7, kind::SWITCH | kind::WAKING);
        for word in words.take_while(is_short) {
            pass(word);
            self.offset += 8;
        }
    }

    /// The record that [`next_word`](Self::next_word) passed, whose first word is at `offset`.
    pub(super) fn passed(&self, offset: usize) -> &'a [u8] {
        self.bytes.get(offset..self.offset).unwrap_or_default()
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let offset = self.offset;
        let word = self.next_word()?;
        Some(Record { offset, bytes: &self.bytes[offset..self.offset], word })
    }
}

/// Number of records of a piece.
pub fn count(piece: &RingPiece<'_>) -> usize {
    piece.fragments().map(|fragment| fragment.records().count()).sum()
}

/// When the first of these blocks begins, in nanoseconds of the trace's clock; `None` if there is
/// none.
pub fn started_ns(blocks: &[u8]) -> Option<u64> {
    (blocks.len() >= BLOCK_HEADER_BYTES).then(|| u64_at(blocks, 8))
}

/// True for what [`read`] reads.
pub(crate) fn is_rings(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The rings or their pieces in `bytes`, true if they are pieces, and the bytes of the sleepers. A
/// ring that ends early has what is there.
pub(super) fn read(bytes: &[u8]) -> Result<(Vec<RingPiece<'_>>, bool, &[u8]), String> {
    let header = bytes.get(..HEADER_BYTES).filter(|header| is_rings(header));
    let header = header.ok_or("it does not begin with the rings' header")?;
    let (version, block_bytes, count) = (u32_at(header, 8), u32_at(header, 12), u32_at(header, 16));
    if ![VERSION, VERSION_OF_PIECES].contains(&version) || block_bytes as usize != BLOCK_BYTES {
        return Err(format!("its version {version} with blocks of {block_bytes} bytes is unknown"));
    }
    let entries = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let entries_len = (count as usize).saturating_mul(ENTRY_BYTES);
    let (entries, mut rest) = entries.split_at_checked(entries_len).ok_or("it is cut off")?;
    let mut pieces = Vec::with_capacity(count as usize);
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let cpu = u16::try_from(u32_at(entry, 0)).map_err(|_| "a CPU's number is too large")?;
        let (blocks, first, second) = (u32_at(entry, 4), u64_at(entry, 8), u64_at(entry, 16));
        let len = match version {
            VERSION => u64::from(blocks).saturating_mul(BLOCK_BYTES as u64),
            _ => second.saturating_sub(first),
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
        let (own, others) = rest.split_at(len);
        pieces.push(match version {
            VERSION => RingPiece::of_blocks(cpu, first, u64::from(blocks), own),
            _ => RingPiece { cpu, start: first, bytes: own },
        });
        rest = others;
    }
    Ok((pieces, version == VERSION_OF_PIECES, rest))
}

/// The number at `offset`; 0 beyond the end.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let word = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// The number at `offset`; 0 beyond the end.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let word = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}
