//! The layout of `rings.bin`, blocks and records. All numbers are little-endian.

/// Length of a block.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Length of a block's header: number, base, current thread, CPU.
pub(super) const BLOCK_HEADER_BYTES: usize = 24;
pub(super) const MAGIC: &[u8; 8] = b"UNHRINGS";
pub(super) const VERSION: u32 = 1;
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
}

/// First of the three bits of a switch and of a wake-up that number its place, and of the flags that
/// number that of a stack.
pub(super) const SWITCH_PLACE_SHIFT: u32 = 26;
pub(super) const WAKING_PLACE_SHIFT: u32 = 24;
pub(super) const FLAGS_PLACE_SHIFT: u32 = 2;
/// Bit of a wait and of a waker: its stacks were not taken.
pub(super) const STACKS_OVER_BUDGET: u64 = 1;
/// Bit of a waker: in a soft interrupt that the thread itself caused.
pub(super) const BY_THREAD: u64 = 2;

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
    /// The blocks with their positions in the ring, and each without what was not written yet.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let (end, cpu) = (self.end, self.cpu);
        let last = end / BLOCK_BYTES as u64;
        let blocks = self.blocks.chunks_exact(BLOCK_BYTES);
        let first = (last + 1).saturating_sub(blocks.len() as u64);
        let begun = move |index: &u64| index * (BLOCK_BYTES as u64) < end;
        (first..).take_while(begun).zip(blocks).map(move |(index, block)| {
            // The first block has number 1.
            let is_own = u64_at(block, 0) == index + 1 && u32_at(block, 20) == u32::from(cpu);
            let used = match index == last {
                _ if !is_own => 0,
                true => (end % BLOCK_BYTES as u64) as usize,
                false => BLOCK_BYTES,
            };
            (index, &block[..used])
        })
    }
}

/// A record of a block.
pub(super) struct Record<'a> {
    /// Where it is in the block.
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

    pub(super) fn payload(&self) -> u64 {
        self.word >> 35
    }

    /// Nanoseconds since the block's base.
    pub(super) fn delta_ns(&self) -> u64 {
        self.word & 0xffff_ffff
    }
}

/// The records of a block.
pub(super) struct Records<'a> {
    block: &'a [u8],
    offset: usize,
    /// True if something is no record: it and what follows is left out.
    pub(super) damaged: bool,
}

impl<'a> Records<'a> {
    pub(super) fn new(block: &'a [u8]) -> Self {
        Self { block, offset: BLOCK_HEADER_BYTES, damaged: false }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let rest = self.block.get(self.offset..).filter(|rest| rest.len() >= 8)?;
        let word = u64_at(rest, 0);
        let words = match word >> 32 & 7 {
            0 => return None,
            kind::SWITCH | kind::WAKING => 1,
            kind::LONG => word >> 40 & 0x3ff,
            _ => 0,
        };
        let Some(bytes) = rest.get(..words as usize * 8).filter(|_| words > 0) else {
            self.damaged = true;
            return None;
        };
        let offset = self.offset;
        self.offset += bytes.len();
        Some(Record { offset, bytes, word })
    }
}

/// Number of records of a ring.
pub fn count(ring: &RingPart<'_>) -> usize {
    ring.numbered().map(|(_, block)| Records::new(block).count()).sum()
}

/// When the first of these blocks begins, in nanoseconds of the trace's clock; `None` if there is
/// none.
pub fn started_ns(blocks: &[u8]) -> Option<u64> {
    (blocks.len() >= BLOCK_HEADER_BYTES).then(|| u64_at(blocks, 8))
}

/// The rings in `bytes`, and the bytes of the sleepers. A ring that ends early has the blocks that
/// are there.
pub(super) fn read(bytes: &[u8]) -> Result<(Vec<RingPart<'_>>, &[u8]), String> {
    let header = bytes.get(..HEADER_BYTES).filter(|header| header.starts_with(MAGIC));
    let header = header.ok_or("it does not begin with the rings' header")?;
    let (version, block_bytes, count) = (u32_at(header, 8), u32_at(header, 12), u32_at(header, 16));
    if version != VERSION || block_bytes as usize != BLOCK_BYTES {
        return Err(format!("its version {version} with blocks of {block_bytes} bytes is unknown"));
    }
    let entries = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let entries_len = (count as usize).saturating_mul(ENTRY_BYTES);
    let (entries, mut blocks) = entries.split_at_checked(entries_len).ok_or("it is cut off")?;
    let mut rings = Vec::with_capacity(count as usize);
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let cpu = u16::try_from(u32_at(entry, 0)).map_err(|_| "a CPU's number is too large")?;
        let len = (u32_at(entry, 4) as usize).saturating_mul(BLOCK_BYTES).min(blocks.len());
        let (own, rest) = blocks.split_at(len);
        rings.push(RingPart { cpu, end: u64_at(entry, 8), blocks: own });
        blocks = rest;
    }
    Ok((rings, blocks))
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
