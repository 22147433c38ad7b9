//! Writes `rings.bin`, and pieces of rings.

use super::layout::{
    BLOCK_BYTES, ENTRY_BYTES, HEADER_BYTES, MAGIC, RingPart, RingPiece, VERSION, VERSION_OF_PIECES,
};
use super::sleepers::{self, SleeperPart};

/// The content of `rings.bin`.
pub fn encode(rings: &[RingPart<'_>], sleepers: &[SleeperPart]) -> Vec<u8> {
    let len: usize = rings.iter().map(|ring| ENTRY_BYTES + ring.blocks.len()).sum();
    let mut out = Vec::with_capacity(HEADER_BYTES + len);
    header(&mut out, VERSION, rings.len(), sleepers.len());
    for ring in rings {
        let blocks = (ring.blocks.len() / BLOCK_BYTES) as u32;
        entry(&mut out, ring.cpu, blocks, [ring.end, 0]);
    }
    rings.iter().for_each(|ring| out.extend(ring.blocks));
    sleepers::encode(sleepers, &mut out);
    out
}

/// Pieces of rings as they are written while recording: what comes before their bytes, which follow
/// in the same order.
pub fn encode_pieces(pieces: &[RingPiece<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + pieces.len() * ENTRY_BYTES);
    header(&mut out, VERSION_OF_PIECES, pieces.len(), 0);
    for piece in pieces {
        let end = piece.start + piece.bytes.len() as u64;
        entry(&mut out, piece.cpu, 0, [piece.start, end]);
    }
    out
}

/// The threads that were asleep when the recording ended, as a last piece without rings.
pub fn encode_sleepers(sleepers: &[SleeperPart]) -> Vec<u8> {
    let mut out = Vec::new();
    header(&mut out, VERSION_OF_PIECES, 0, sleepers.len());
    sleepers::encode(sleepers, &mut out);
    out
}

fn header(out: &mut Vec<u8>, version: u32, rings: usize, sleepers: usize) {
    out.extend(MAGIC);
    for word in [version, BLOCK_BYTES as u32, rings as u32, sleepers as u32] {
        out.extend(word.to_le_bytes());
    }
}

fn entry(out: &mut Vec<u8>, cpu: u16, blocks: u32, positions: [u64; 2]) {
    out.extend(u32::from(cpu).to_le_bytes());
    out.extend(blocks.to_le_bytes());
    positions.iter().for_each(|position| out.extend(position.to_le_bytes()));
}
