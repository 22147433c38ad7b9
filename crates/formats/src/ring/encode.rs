//! Writes `rings.bin`.

use super::layout::{BLOCK_BYTES, ENTRY_BYTES, HEADER_BYTES, MAGIC, RingPart, VERSION};
use super::sleepers::{self, SleeperPart};

/// The content of `rings.bin`.
pub fn encode(rings: &[RingPart<'_>], sleepers: &[SleeperPart]) -> Vec<u8> {
    let len: usize = rings.iter().map(|ring| ENTRY_BYTES + ring.blocks.len()).sum();
    let mut out = Vec::with_capacity(HEADER_BYTES + len);
    out.extend(MAGIC);
    for word in [VERSION, BLOCK_BYTES as u32, rings.len() as u32, sleepers.len() as u32] {
        out.extend(word.to_le_bytes());
    }
    for ring in rings {
        out.extend(u32::from(ring.cpu).to_le_bytes());
        out.extend(((ring.blocks.len() / BLOCK_BYTES) as u32).to_le_bytes());
        out.extend(ring.end.to_le_bytes());
        out.extend(0_u64.to_le_bytes());
    }
    rings.iter().for_each(|ring| out.extend(ring.blocks));
    sleepers::encode(sleepers, &mut out);
    out
}
