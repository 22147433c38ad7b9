//! The rings of the BPF recorder, in a container that is otherwise valid: the whole member, and the
//! records of two rings.

use crate::{check, zips};
use unhitch_formats::read_bytes;
use unhitch_formats::ring::{RingPiece, encode_pieces};

pub(super) fn member(bytes: &[u8]) {
    let trace = read_bytes(&zips::with_rings(bytes)).expect("rings make no container unreadable");
    check::trace(&trace);
}

/// The first two bytes are how many of the others are of the first ring.
pub(super) fn records(bytes: &[u8]) {
    let Some((len, records)) = bytes.split_first_chunk() else { return };
    let (first, second) = records.split_at(records.len().min(u16::from_le_bytes(*len).into()));
    let blocks = [(0, first), (1, second)].map(|(cpu, records)| (cpu, block(records)));
    let pieces = blocks.each_ref().map(|(cpu, bytes)| RingPiece { cpu: *cpu, start: 0, bytes });
    let mut rings = encode_pieces(&pieces);
    pieces.iter().for_each(|piece| rings.extend(piece.bytes));
    member(&rings);
}

/// The first block of a ring: its number, its time, and the thread that ran when it began.
fn block(records: &[u8]) -> Vec<u8> {
    let header = [1_u64, 1_000, 100].into_iter().flat_map(u64::to_le_bytes);
    header.chain(records.iter().copied()).collect()
}
