//! The layout of `rings.bin`, blocks and records. All numbers are little-endian.

use std::io::{self, Write};

/// Length of a block.
pub const BLOCK_BYTES: usize = 32 << 10;
/// Length of a block's header: number, base, current thread, CPU.
pub(super) const BLOCK_HEADER_BYTES: usize = 24;
const MAGIC: &[u8; 8] = b"UNHRINGS";
const VERSION: u32 = 1;
/// Length of the header, and of each ring's entry that follows it.
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 24;

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

/// When the first of these blocks begins, in nanoseconds of the trace's clock; `None` if there is
/// none.
pub fn started_ns(blocks: &[u8]) -> Option<u64> {
    (blocks.len() >= BLOCK_HEADER_BYTES).then(|| u64_at(blocks, 8))
}

/// Writes `rings.bin`.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, rings: &[RingPart<'_>]) -> io::Result<()> {
    out.write_all(MAGIC)?;
    for word in [VERSION, BLOCK_BYTES as u32, rings.len() as u32, 0] {
        out.write_all(&word.to_le_bytes())?;
    }
    for ring in rings {
        out.write_all(&u32::from(ring.cpu).to_le_bytes())?;
        out.write_all(&((ring.blocks.len() / BLOCK_BYTES) as u32).to_le_bytes())?;
        out.write_all(&ring.end.to_le_bytes())?;
        out.write_all(&0_u64.to_le_bytes())?;
    }
    rings.iter().try_for_each(|ring| out.write_all(ring.blocks))
}

/// The rings in `bytes`. A ring that ends early has the blocks that are there.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<RingPart<'_>>, String> {
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
    Ok(rings)
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
