//! A ring written by hand, as `ring.h` says.

use super::layout::{BLOCK_BYTES, BLOCK_HEADER_BYTES, kind};
use super::{RingPart, SleeperPart, decode, encode};
use unhitch_model::{TaskState, WakeFlags, Warnings};

const LONG_STACK: usize = 3;

fn word(delta_ns: u64, of_type: u64, payload: u64) -> Vec<u8> {
    (delta_ns | of_type << 32 | payload << 35).to_le_bytes().to_vec()
}

fn long(delta_ns: u64, of_kind: u64, flags: u64, words: &[u64]) -> Vec<u8> {
    let len = words.len() as u64 + 1;
    let mut bytes = word(delta_ns, kind::LONG, of_kind | len << 5 | flags << 15);
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// Thread 7 waits from 100 to 300 ns for thread 8, which wakes it at 200 ns; then again, at the same
/// place.
fn ring() -> (Vec<u8>, u64) {
    let mut block = Vec::new();
    for word in [1_u64, 1_000, 7] {
        block.extend(word.to_le_bytes());
    }
    let mut at = |record: Vec<u8>| {
        let position = block.len() as u64 / 8;
        block.extend(record);
        position
    };
    at(word(100, kind::SWITCH, 8 | 2 << 22));
    at(word(200, kind::WAKING, 7));
    let kernel = at(long(
        205,
        kind::STACK,
        0,
        &[(LONG_STACK as u64) << 32, 1 << 63 | 1, 1 << 63 | 2, 1 << 63 | 3],
    ));
    let user = at(long(205, kind::STACK, 1, &[2 << 32 | 70, 0x1000, 0x2000]));
    let stacks = kernel | user << 32;
    at(long(206, kind::WAKER, 1 << 2, &[stacks, 0]));
    at(word(300, kind::SWITCH, 7 | 1 << 22));
    at(long(301, kind::WAIT, 1 << 2, &[1_100, stacks, 202 | 8 << 32, 0xabc, 128, 0]));
    at(word(400, kind::SWITCH, 8 | 2 << 22 | 1 << 26));
    at(word(450, kind::WAKING, 7 | 1 << 24));
    at(long(460, kind::REPAIR, 0, &[9]));
    at(long(470, kind::SAMPLE, 0, &[kernel]));
    let end = block.len() as u64;
    block.resize(BLOCK_BYTES, 0);
    (block, end)
}

fn rings() -> Vec<u8> {
    let (blocks, end) = ring();
    let sleeper = SleeperPart {
        tid: 7,
        pid: 70,
        left_ns: 1_400,
        owner: 8,
        syscall: 202,
        arguments: [0xabc, 128],
        kernel_lock: 0,
        kernel_stack: vec![1 << 63 | 1],
        user_stack: vec![0x1000],
        user_end: 1,
    };
    encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[sleeper])
}

#[test]
fn waits_and_wake_ups_have_their_stacks() {
    let mut warnings = Warnings::default();
    let bytes = rings();
    let decoded = decode(&bytes, &mut warnings);
    assert!(warnings.is_empty(), "{warnings:?}");
    let switches = &decoded.rows.switches;
    let seen: Vec<_> = switches.iter().map(|row| (row.time, row.of.prev, row.of.next)).collect();
    assert_eq!(seen, [(1_100, 7, 8), (1_300, 8, 7), (1_400, 7, 8)]);
    assert_eq!(switches[0].of.prev_state, TaskState::Sleeping);
    // The second wait has the stack that was taken at the save, and not that of its place.
    let stacks: Vec<u32> = switches.iter().map(|row| row.stack).collect();
    assert_eq!(stacks, [1, 0, 3]);
    assert_eq!(decoded.chains[0].words.len(), 8 * (1 + LONG_STACK + 1 + 2));
    // Its user part is cut, which takes one word more.
    assert_eq!(decoded.chains[2].words.len(), 8 * (2 + 2 + 1));
    let wakings = &decoded.rows.wakings;
    assert_eq!(wakings.iter().map(|row| row.stack).collect::<Vec<_>>(), [1, 1]);
    assert_eq!((wakings[0].of.waker, wakings[0].of.flags), (8, WakeFlags::default()));
    assert_eq!(decoded.rows.samples[0].of.tid, 9, "the repaired one");
    let kept: Vec<_> = decoded.rows.kept_waits.iter().map(|row| (row.time, row.of.owner)).collect();
    assert_eq!(kept, [(1_100, 8), (1_400, 8)]);
}

#[test]
fn damage_is_reported_and_costs_only_what_follows() {
    let bytes = rings();
    let whole = decode(&bytes, &mut Warnings::default()).rows.switches.len();
    for at in 0..bytes.len().min(24 + 24 + BLOCK_HEADER_BYTES + 400) {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // Whatever it holds, nothing panics, and no row is invented.
            assert!(decode(&damaged, &mut Warnings::default()).rows.switches.len() <= whole + 40);
        }
    }
    for len in [0, 8, 23, 24, 40, 48, 100, bytes.len() - 1] {
        let _ = decode(&bytes[..len], &mut Warnings::default());
    }
    let mut warnings = Warnings::default();
    let mut other = bytes;
    other[24 + 24] ^= 1;
    assert!(decode(&other, &mut warnings).rows.switches.is_empty());
    assert!(warnings.lines().any(|line| line.contains("damaged block")), "{warnings:?}");
}
