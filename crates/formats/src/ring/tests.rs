//! A ring written by hand, as `ring.h` says.

use super::layout::{self, BLOCK_BYTES, BLOCK_HEADER_BYTES, kind};
use super::{
    Decoded, Gap, RingPart, RingPiece, SleeperPart, encode, encode_pieces, encode_sleepers,
};
use crate::perf_data::rows::{Row, Switch, Waking};
use crate::perf_data::{self, EventAttr, EventDesc, Features, record};
use crate::scope::Scope;
use unhitch_model::{DescriptorKind, StackId, TaskState, WakeFlags, Warnings};

const LONG_STACK: usize = 3;

fn decode<'a>(bytes: &'a [u8], warnings: &mut Warnings) -> Decoded<'a> {
    super::decode(&[bytes], Scope::All, warnings)
}

/// The words of a chain, counted from 0.
fn chain<'d>(decoded: &'d Decoded<'_>, at: usize) -> &'d [u8] {
    decoded.chains.iter().nth(at).unwrap().1
}

/// The numbers that chains have in no other table.
fn own_numbers(decoded: &Decoded<'_>) -> Vec<u32> {
    (0..=decoded.chains.iter().len() as u32).collect()
}

/// The switches of all CPUs; their stacks are numbers of chains.
fn switch_rows(decoded: &Decoded<'_>) -> Vec<Row<Switch>> {
    decoded.replay.switches(&own_numbers(decoded)).into_iter().flatten().collect()
}

fn waking_rows(decoded: &Decoded<'_>) -> Vec<Row<Waking>> {
    decoded.replay.wakings(&own_numbers(decoded)).into_iter().flatten().collect()
}

fn switches(decoded: &Decoded<'_>) -> usize {
    let rows = switch_rows(decoded).len();
    assert_eq!(rows, decoded.replay.switch_count());
    rows
}

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
    at(long(206, kind::WAKER, 1 << 2, &[stacks, 0xabc]));
    at(word(300, kind::SWITCH, 7 | 1 << 22));
    at(long(301, kind::WAIT, 1 << 2, &[1_100, stacks, 202 | 8 << 32, 0xabc, 128, 0]));
    at(long(302, kind::DESCRIPTOR, 0, &descriptor(3)));
    at(long(303, kind::FACT, 1, &[7 | kernel << 32, user, 19 | 8 << 32]));
    at(word(400, kind::SWITCH, 8 | 2 << 22 | 1 << 26));
    at(word(450, kind::WAKING, 7 | 1 << 24));
    at(long(460, kind::REPAIR, 0, &[9]));
    at(long(470, kind::SAMPLE, 0, &[kernel]));
    let end = block.len() as u64;
    block.resize(BLOCK_BYTES, 0);
    (block, end)
}

/// A pipe that is polled, to read.
fn descriptor(fd: u64) -> [u64; 11] {
    let mut words = [0; 11];
    (words[0], words[1], words[4]) = (fd | 0o010_600 << 32, 4711, 1);
    words
}

fn rings() -> Vec<u8> {
    let (blocks, end) = ring();
    encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &whole_sleepers())
}

/// Stacks are numbered by where their words are, see `StackTable::union`.
#[test]
fn stacks_have_the_same_order_whenever_they_are_read() {
    let bytes = rings();
    let decoded = decode(&bytes, &mut Warnings::default());
    let places: Vec<_> = decoded.chains.iter().map(|(_, words)| words.as_ptr()).collect();
    assert!(places.len() > 1 && places.is_sorted());
}

/// Function names need the stacks only.
#[test]
fn stacks_are_there_without_the_events() {
    let bytes = rings();
    let [all, stacks] = [Scope::All, Scope::Stacks]
        .map(|scope| super::decode(&[&bytes], scope, &mut Warnings::default()));
    assert!(switches(&all) > 0 && switches(&stacks) == 0);
    let words = |decoded: &Decoded| -> Vec<Vec<u8>> {
        decoded.chains.iter().map(|(_, words)| words.to_vec()).collect()
    };
    assert_eq!(words(&all), words(&stacks));
}

/// Of a long recording, the newest part can be read first: the same events, threads and stacks, and
/// the waits that had begun before.
#[test]
fn the_newest_part_is_the_end_of_the_whole() {
    let (first, _) = ring();
    // A block that refers to the stacks of the first.
    let mut second = Vec::new();
    for word in [2_u64, 9_000, 7] {
        second.extend(word.to_le_bytes());
    }
    second.extend(word(100, kind::SWITCH, 8 | 2 << 22 | 1 << 26));
    second.extend(word(200, kind::WAKING, 7 | 1 << 24));
    second.extend(word(300, kind::SWITCH, 7 | 8 << 22));
    let end = (BLOCK_BYTES + second.len()) as u64;
    second.resize(BLOCK_BYTES, 0);
    let blocks = [first, second].concat();
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &whole_sleepers());
    let of = |scope| super::decode(&[&bytes], scope, &mut Warnings::default());
    let (all, newest) = (of(Scope::All), of(Scope::Newest(BLOCK_BYTES as u64)));
    assert_eq!((all.since, newest.since), (0, 9_000));
    let later = |rows: Vec<Row<Switch>>| {
        let rows = rows.into_iter().filter(|row| row.time >= 9_000);
        rows.map(|row| (row.time, row.stack, row.of.prev, row.of.next)).collect::<Vec<_>>()
    };
    assert_eq!(switch_rows(&newest).len(), 2);
    assert_eq!(later(switch_rows(&newest)), later(switch_rows(&all)));
    assert!(switch_rows(&newest)[0].stack != 0, "its stack is in the first block");
    let wakes = |of: &Decoded<'_>| {
        let rows = waking_rows(of).into_iter().filter(|row| row.time >= 9_000);
        rows.map(|row| (row.time, row.stack, row.of.wakee)).collect::<Vec<_>>()
    };
    assert_eq!((wakes(&newest).len(), wakes(&newest)), (1, wakes(&all)));
    assert_eq!((&newest.exits, &newest.births), (&all.exits, &all.births));
    assert_eq!(own_numbers(&newest), own_numbers(&all));
    let events = |of: &Decoded<'_>| -> [usize; 2] {
        [
            of.rows.iter().map(|rows| rows.samples.len()).sum(),
            of.rows.iter().map(|rows| rows.facts.len()).sum(),
        ]
    };
    assert_eq!((events(&newest), events(&all)), ([0, 0], [1, 1]));
    // A short one is left to who reads all of it.
    let short = of(Scope::Newest(2 * BLOCK_BYTES as u64));
    assert_eq!((short.since, short.covered.len()), (0, 0));
}

/// Waits that began before the first time that all rings hold.
#[test]
fn waits_that_began_earlier_have_their_stacks() {
    let mut warnings = Warnings::default();
    let (mut blocks, end) = ring();
    // The wait of thread 7, from 1,100 to 1,300 ns, began before what another ring holds.
    let mut later = vec![0; BLOCK_BYTES];
    for (at, word) in [1_u64, 1_200, 9 | 1 << 32].into_iter().enumerate() {
        later[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
    }
    blocks.extend(&later);
    let (first, second) = blocks.split_at(BLOCK_BYTES);
    let rings = [
        RingPart { cpu: 0, end, blocks: first },
        RingPart { cpu: 1, end: BLOCK_HEADER_BYTES as u64, blocks: second },
    ];
    let unseen =
        SleeperPart { tid: 11, left_ns: 0, is_estimate: true, state: 3, ..SleeperPart::default() };
    let bytes = encode(&rings, &[whole_sleepers().remove(0), unseen]);
    let decoded = decode(&bytes, &mut warnings);
    let earlier: Vec<_> = decoded
        .rows
        .iter()
        .flat_map(|rows| &rows.earlier_waits)
        .map(|row| (row.of.tid, row.of.since, row.of.until, row.of.state, row.stack != 0))
        .collect();
    assert_eq!(
        earlier,
        [
            (7, 1_100, 1_301, TaskState::Sleeping, true),
            (11, 0, u64::MAX, TaskState::DiskSleep, false),
        ]
    );
    assert!(warnings.is_empty(), "{warnings:?}");
}

fn whole_sleepers() -> Vec<SleeperPart> {
    vec![SleeperPart {
        tid: 7,
        pid: 70,
        left_ns: 1_400,
        is_estimate: false,
        state: 2,
        owner: 8,
        syscall: 202,
        arguments: [0xabc, 128],
        kernel_lock: 0,
        kernel_stack: vec![1 << 63 | 1],
        user_stack: vec![0x1000],
        user_end: 1,
        descriptor: descriptor(5).iter().flat_map(|word| word.to_le_bytes()).collect(),
    }]
}

#[test]
fn waits_and_wake_ups_have_their_stacks() {
    let mut warnings = Warnings::default();
    let bytes = rings();
    let decoded = decode(&bytes, &mut warnings);
    assert!(warnings.is_empty(), "{warnings:?}");
    let (rows, switches) = (&decoded.rows[0], switch_rows(&decoded));
    let seen: Vec<_> = switches.iter().map(|row| (row.time, row.of.prev, row.of.next)).collect();
    assert_eq!(seen, [(1_100, 7, 8), (1_300, 8, 7), (1_400, 7, 8)]);
    assert_eq!(switches[0].of.prev_state, TaskState::Sleeping);
    // The second wait has the stack that was taken at the save, and not that of its place.
    let stacks: Vec<u32> = switches.iter().map(|row| row.stack).collect();
    assert_eq!(stacks, [1, 0, 3]);
    assert_eq!(chain(&decoded, 0).len(), 8 * (1 + LONG_STACK + 1 + 2));
    // Its user part is cut, which takes one word more.
    assert_eq!(chain(&decoded, 2).len(), 8 * (2 + 2 + 1));
    let wakings = waking_rows(&decoded);
    assert_eq!(wakings.iter().map(|row| row.stack).collect::<Vec<_>>(), [1, 1]);
    assert_eq!((wakings[0].of.waker, wakings[0].of.flags), (8, WakeFlags::default()));
    assert_eq!(rows.samples[0].of.tid, 9, "the repaired one");
    let kept: Vec<_> = decoded
        .rows
        .iter()
        .flat_map(|rows| &rows.kept_waits)
        .map(|row| (row.time, row.of.owner))
        .collect();
    assert_eq!(kept, [(1_100, 8), (1_400, 8)]);
    let all = decoded.rows.iter().flat_map(|rows| &rows.kept_waits);
    let pipes: Vec<_> = all
        .filter_map(|row| row.of.descriptor.as_deref())
        .map(|pipe| (pipe.fd, pipe.kind(), pipe.inode, pipe.polled))
        .collect();
    assert_eq!(pipes, [3, 5].map(|fd| (fd, DescriptorKind::Pipe, 4711, 1)));
    let fact = &rows.facts[0];
    assert_eq!((fact.time, fact.of.tid, fact.of.number), (1_303, 7, 1));
    assert_eq!((fact.of.payload[0], fact.stack), (19 | 8 << 32, 1), "SIGSTOP to thread 8");
}

#[test]
fn damage_is_reported_and_costs_only_what_follows() {
    let bytes = rings();
    let whole = switches(&decode(&bytes, &mut Warnings::default()));
    for at in 0..bytes.len().min(24 + 24 + BLOCK_HEADER_BYTES + 400) {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // Whatever it holds, nothing panics, and no row is invented.
            assert!(switches(&decode(&damaged, &mut Warnings::default())) <= whole + 40);
        }
    }
    for len in [0, 8, 23, 24, 40, 48, 100, bytes.len() - 1] {
        let _ = decode(&bytes[..len], &mut Warnings::default());
    }
    let mut warnings = Warnings::default();
    let mut other = bytes;
    other[24 + 24] ^= 1;
    assert_eq!(switches(&decode(&other, &mut warnings)), 0);
    assert!(warnings.lines().any(|line| line.contains("damaged block")), "{warnings:?}");
}

/// A ring that is written piece by piece, with a gap of one block.
#[test]
fn pieces_make_the_same_rows_as_the_whole_ring() {
    let (block, end) = ring();
    let rings = rings();
    let whole = decode(&rings, &mut Warnings::default());
    let sleepers = whole_sleepers();
    // Pieces end where the kernel had written to: between two records.
    let mut cuts = vec![0, end as usize];
    let mut at = BLOCK_HEADER_BYTES;
    while at < end as usize {
        cuts.push(at);
        let word = u64::from_le_bytes(block[at..at + 8].try_into().unwrap());
        at += if word >> 32 & 7 == kind::LONG { (word >> 40 & 0x3ff) as usize * 8 } else { 8 };
    }
    cuts.sort_unstable();
    for width in 1..cuts.len() {
        let bounds: Vec<usize> =
            cuts.iter().copied().step_by(width).chain([end as usize]).collect();
        let mut parts: Vec<Vec<u8>> = bounds
            .windows(2)
            .map(|ends| {
                let bytes = &block[ends[0]..ends[1]];
                let piece = RingPiece { cpu: 0, start: ends[0] as u64, bytes };
                [encode_pieces(&[piece]), bytes.to_vec()].concat()
            })
            .collect();
        parts.push(encode_sleepers(&sleepers));
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut warnings = Warnings::default();
        let decoded = super::decode(&parts, Scope::All, &mut warnings);
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!((&decoded.counts, &decoded.covered), (&whole.counts, &whole.covered));
        let stacks = |of: &Decoded<'_>| {
            switch_rows(of).iter().map(|row| (row.time, row.stack)).collect::<Vec<_>>()
        };
        assert_eq!(stacks(&decoded), stacks(&whole));
    }
}

#[test]
fn what_was_overwritten_before_it_was_written_is_a_loss() {
    let (mut block, end) = ring();
    let first = encode_one(&block[..end as usize], 0);
    block[..8].copy_from_slice(&4_u64.to_le_bytes());
    block[8..16].copy_from_slice(&9_000_u64.to_le_bytes());
    let third = encode_one(&block[..end as usize], 3 * BLOCK_BYTES as u64);
    let mut warnings = Warnings::default();
    let decoded = super::decode(&[&first, &third], Scope::All, &mut warnings);
    assert_eq!(switches(&decoded), 6);
    // Two pieces of `end` bytes have 26 records; what is missing would have had so many.
    let missing = 3 * BLOCK_BYTES as u64 - end;
    let events = missing * decoded.counts.values().sum::<u64>() / (2 * end);
    assert_eq!(decoded.gaps, [Gap { cpu: 0, from: 1_470, to: 9_000, events }]);
    let lines: Vec<String> = warnings.lines().collect();
    assert!(lines[0].contains("CPU 0 lost 95.6 KiB of events, in 1 place"), "{lines:?}");
    // The last block refers to stacks of the first.
    let wakings = waking_rows(&decoded);
    assert_eq!(wakings.len(), 4);
    assert_eq!(wakings[2].stack, wakings[0].stack);
}

fn encode_one(bytes: &[u8], start: u64) -> Vec<u8> {
    [encode_pieces(&[RingPiece { cpu: 0, start, bytes }]), bytes.to_vec()].concat()
}

#[test]
fn what_was_overwritten_before_the_first_piece_is_a_loss() {
    let (mut block, end) = ring();
    block[..8].copy_from_slice(&4_u64.to_le_bytes());
    let late = encode_one(&block[..end as usize], 3 * BLOCK_BYTES as u64);
    let mut warnings = Warnings::default();
    let decoded = super::decode(&[&late], Scope::All, &mut warnings);
    let gap = decoded.gaps[0];
    assert_eq!((gap.cpu, gap.from, gap.to), (0, 1_000, 1_000));
    assert!(gap.events > 100, "{gap:?}");
    assert!(warnings.lines().any(|line| line.contains("CPU 0 lost 96 KiB")), "{warnings:?}");
    // A save has what the ring still held.
    let mut warnings = Warnings::default();
    let end = 3 * BLOCK_BYTES as u64 + end;
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &block }], &[]);
    let saved = decode(&bytes, &mut warnings);
    assert_eq!((switches(&saved), saved.gaps.len(), warnings.lines().count()), (3, 0, 1));
}

#[test]
fn many_cpus_that_lost_events_are_counted() {
    let header = |cpu: u64, number: u64| {
        let words = [number, 1_000, 7, cpu << 32].map(u64::to_le_bytes).concat();
        [&words[..20], &(cpu as u32).to_le_bytes()].concat()
    };
    let part = |cpu: u64| {
        let bytes = header(cpu, 9);
        let piece = RingPiece { cpu: cpu as u16, start: 8 * BLOCK_BYTES as u64, bytes: &bytes };
        [encode_pieces(&[piece]), bytes.clone()].concat()
    };
    let parts: Vec<Vec<u8>> = (0..100).map(part).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let mut warnings = Warnings::default();
    let decoded = super::decode(&parts, Scope::All, &mut warnings);
    assert_eq!((decoded.gaps.len(), warnings.lines().count()), (100, 65));
    assert!(warnings.lines().any(|line| line.starts_with("36 more CPUs lost events")));
}

/// Blocks of these records, one after the other.
fn ring_of(records: &[Vec<u8>]) -> (Vec<u8>, u64) {
    let mut ring: Vec<u8> = Vec::new();
    for record in records {
        let room = ring.len().next_multiple_of(BLOCK_BYTES) - ring.len();
        if room < record.len() {
            ring.resize(ring.len() + room, 0);
            let number = (ring.len() / BLOCK_BYTES) as u64 + 1;
            [number, 1_000, 7].iter().for_each(|word| ring.extend(word.to_le_bytes()));
        }
        ring.extend(record);
    }
    let end = ring.len() as u64;
    ring.resize(ring.len().next_multiple_of(BLOCK_BYTES), 0);
    (ring, end)
}

fn stack(is_user: u64, frames: u64) -> Vec<u8> {
    let words: Vec<u64> =
        std::iter::once(frames << 32 | 70).chain(0x1000..0x1000 + frames).collect();
    long(1, kind::STACK, is_user, &words)
}

#[test]
fn regression_short_records_make_no_endless_stacks() {
    let mut records = vec![stack(0, 1_000)];
    records.extend((0..300).map(|_| stack(1, 127)));
    let (definitions, _) = ring_of(&records);
    let long_at = BLOCK_HEADER_BYTES as u64 / 8;
    let is_stack = |at: &u64| {
        let at = *at as usize * 8;
        definitions[at..at + 4] == [1, 0, 0, 0] && definitions[at + 4] & 7 == kind::LONG as u8
    };
    let users: Vec<u64> =
        (long_at + 1_000..definitions.len() as u64 / 8).filter(is_stack).collect();
    assert!(users.len() >= 300);
    // Each record of 16 bytes names another pair: kernel stacks are taken from the user's, too.
    let pairs =
        users[..300].iter().flat_map(|user| users[..200].iter().map(move |one| (user, one)));
    records.extend(pairs.map(|(user, one)| long(2, kind::SAMPLE, 0, &[one | user << 32])));
    records.extend((0..2).map(|_| long(3, kind::SAMPLE, 0, &[long_at | users[0] << 32])));
    let (blocks, end) = ring_of(&records);
    let mut warnings = Warnings::default();
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[]);
    let decoded = decode(&bytes, &mut warnings);
    let len: usize = decoded.chains.iter().map(|(_, words)| words.len()).sum();
    assert!(len <= 64 << 20 && len > 60 << 20, "{len}");
    assert!(warnings.lines().any(|line| line.contains("take too much memory")), "{warnings:?}");

    let (blocks, end) = ring_of(&records[..1]);
    let mut few = blocks[..end as usize].to_vec();
    few.extend(long(3, kind::SAMPLE, 0, &[long_at]));
    let end = few.len() as u64;
    few.resize(BLOCK_BYTES, 0);
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &few }], &[]);
    let decoded = decode(&bytes, &mut Warnings::default());
    assert_eq!(chain(&decoded, 0).len(), 8 * (1 + 127 + 1), "marker, frames, cut");
}

#[test]
fn a_stack_is_one_chain_in_all_segments() {
    let at = BLOCK_HEADER_BYTES as u64 / 8;
    let mut records = vec![stack(0, 3)];
    // 5 MiB, which are two segments.
    records.extend((0..5 << 16).map(|_| long(2, kind::SAMPLE, 0, &[at])));
    records.extend((0..3).map(|_| long(3, kind::SAMPLE, 0, &[at + 1])));
    let (blocks, end) = ring_of(&records);
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[]);
    let mut warnings = Warnings::default();
    let decoded = decode(&bytes, &mut warnings);
    assert_eq!(
        (decoded.chains.iter().len(), decoded.rows.len()),
        (1, 3),
        "two segments and the sleepers"
    );
    let lines: Vec<String> = warnings.lines().collect();
    assert_eq!(lines, ["missing, because the ring had overwritten it: 1 stack"]);
}

/// A record names the definition before the last one, which the ring has overwritten.
#[test]
fn an_overwritten_definition_is_that_of_the_next() {
    let first_at = BLOCK_HEADER_BYTES as u64 / 8;
    let sample = |at: u64| long(1, kind::SAMPLE, 0, &[at]);
    let before = first_at - 1;
    let words = [3 << 32, 1 << 63 | 1, 1 << 63 | 2, 1 << 63 | 3, before];
    let definition = long(1, kind::STACK, 0, &words);
    let records = [definition, sample(first_at), sample(before)];
    let (blocks, end) = ring_of(&records);
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[]);
    let mut warnings = Warnings::default();
    let decoded = decode(&bytes, &mut warnings);
    assert_eq!(warnings.lines().count(), 0, "{warnings:?}");
    let [one, other] = [0, 1].map(|at| chain(&decoded, at));
    assert_eq!(one.len(), 8 * (1 + 3), "marker, frames");
    assert_eq!(one, other);
}

/// A place has the number of an earlier one, and its own stack is overwritten: a later wait there has
/// none, and not that of the earlier place.
#[test]
fn a_place_without_its_stack_does_not_get_that_of_another() {
    let wait = |at, left: u64, stack: u64| {
        long(at, kind::WAIT, 1 << 2, &[1_000 + left, stack << 32, 202 | 8 << 32, 0xabc, 128, 0])
    };
    let leaves = |at, place: u64| word(at, kind::SWITCH, 8 | 2 << 22 | place << 26);
    let comes = |at| word(at, kind::SWITCH, 7 | 2 << 22);
    let at = BLOCK_HEADER_BYTES as u64 / 8;
    let of = |second: u64| {
        let records = [
            long(1, kind::STACK, 1, &[2 << 32 | 70, 0x1000, 0x2000]),
            comes(5),
            leaves(10, 0),
            comes(20),
            wait(21, 10, at),
            leaves(30, 0),
            comes(40),
            wait(41, 30, second),
            leaves(50, 1),
        ];
        let (blocks, end) = ring_of(&records);
        let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[]);
        let decoded = decode(&bytes, &mut Warnings::default());
        let left = switch_rows(&decoded).into_iter().filter(|row| row.of.prev == 7).skip(1);
        left.map(|row| row.stack != 0).collect::<Vec<_>>()
    };
    assert_eq!(of(at), [true, true, true]);
    assert_eq!(of(at - 1), [true, false, false], "not the stack of the first wait");
}

/// Before the first record of its priority, a thread had the one that the record says it had before;
/// recorders that do not say so noted it when they first saw the thread.
#[test]
fn priorities_count_from_their_records_on() {
    let switch = |at, next: u64| word(at, kind::SWITCH, next | 2 << 22);
    let priority = |at, prio: u64, before| long(at, kind::PRIORITY, before, &[7 | prio << 32]);
    let of = |records: &[Vec<u8>]| -> Vec<i16> {
        let (blocks, end) = ring_of(records);
        let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[]);
        let decoded = decode(&bytes, &mut Warnings::default());
        let came = switch_rows(&decoded).into_iter().filter(|row| row.of.next == 7);
        came.map(|row| row.of.next_prio).collect()
    };
    let changes = |before| {
        [switch(10, 7), switch(20, 8), priority(30, 98, before), switch(40, 7), switch(50, 8)]
    };
    assert_eq!(of(&changes(120 + 2)), [120, 98]);
    assert_eq!(of(&changes(0)), [98, 98]);
    let deadline = u64::from(u32::MAX);
    assert_eq!(of(&[priority(5, deadline, 0), switch(10, 7)]), [-1]);
}

#[test]
fn ends_of_rings_are_not_believed() {
    let (blocks, _) = ring();
    let bytes = encode(&[RingPart { cpu: 0, end: u64::MAX, blocks: &blocks }], &[]);
    let _ = decode(&bytes, &mut Warnings::default());
}

/// The trace of [`ring`]; thread 8 belongs to the process `pid_of_8`.
fn trace(pid_of_8: u32) -> unhitch_model::Trace {
    let (block, end) = ring();
    trace_of(&block[..end as usize], pid_of_8)
}

fn trace_of(ring: &[u8], pid_of_8: u32) -> unhitch_model::Trace {
    let attr = EventAttr::on_clock(1);
    let id = record::SampleId { id: 1, ..record::SampleId::default() };
    let sample_type = perf_data::attr::sample::IDENTIFIER
        | perf_data::attr::sample::TID
        | perf_data::attr::sample::TIME
        | perf_data::attr::sample::CPU;
    let event = EventDesc::side_band(&attr, sample_type, 1);
    let mut records = Vec::new();
    record::comm(&mut records, 70, 7, b"waiter", false, &id);
    record::comm(&mut records, pid_of_8, 8, b"owner", false, &id);
    record::auxtrace(&mut records, 48 + ring.len() as u64);
    records.extend(encode_one(ring, 0));
    let mut file = Vec::new();
    perf_data::write(&mut file, &[event], &Features::default(), &[&records]).unwrap();
    crate::read_bytes(&file).unwrap()
}

#[test]
fn only_a_thread_of_the_same_process_owns_a_lock() {
    let owner = |pid| trace(pid).kept_waits[0].owner.map(|owner| owner.index());
    assert!(owner(70).is_some());
    assert_eq!(owner(80), None, "in a container, 8 is the id of another thread");
}

#[test]
fn a_wake_up_has_the_futex_at_which_it_woke() {
    let trace = trace(70);
    let kept: Vec<_> = trace.kept_wakes.iter().map(|wake| (wake.time, wake.futex_avma)).collect();
    assert_eq!(kept, [(trace.wakings.time[0], 0xabc)]);
    assert_eq!(trace.kept_wakes[0].wakee, trace.wakings.wakee[0]);
}

#[test]
fn a_wait_without_a_stack_says_why() {
    let wait = |flags| {
        let records = [
            word(100, kind::SWITCH, 8 | 2 << 22),
            word(300, kind::SWITCH, 7 | 1 << 22),
            long(301, kind::WAIT, flags, &[1_100, 0, 202 | 8 << 32, 0xabc, 128, 0]),
        ];
        let (blocks, _) = ring_of(&records);
        let end = BLOCK_HEADER_BYTES + records.concat().len();
        let trace = trace_of(&blocks[..end], 70);
        (trace.switches.stack[0], trace.kept_waits[0].is_owner_at_return)
    };
    assert_eq!(wait(layout::STACKS_OVER_BUDGET), (StackId::OVER_BUDGET, false));
    assert_eq!(wait(layout::OWNER_AT_RETURN), (StackId::EMPTY, true), "its place has one");
}

#[test]
fn records_are_counted_once() {
    let trace = trace(70);
    let counts = &trace.by_kind;
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    let of_ring = ["switch", "wake-up", "wait", "sample", "signal_generate"].map(of);
    assert_eq!(of_ring, [3, 2, 1, 1, 1], "{counts:?}");
    assert_eq!(of("stack in the kernel"), 0, "that is no record of its own");
    assert_eq!(trace.stack_counts["stack in the kernel"], 1);
}

/// Damage can make a record later than the next: the rows are in order of time all the same, and the
/// stacks are those of their own.
#[test]
fn records_that_are_out_of_order_are_sorted() {
    let switch = |at, next: u64| word(at, kind::SWITCH, next | 2 << 22);
    let records =
        [switch(30, 7), switch(10, 8), word(20, kind::WAKING, 9), word(5, kind::WAKING, 10)];
    let (blocks, end) = ring_of(&records);
    let bytes = encode(&[RingPart { cpu: 0, end, blocks: &blocks }], &[]);
    let decoded = decode(&bytes, &mut Warnings::default());
    let seen: Vec<_> = switch_rows(&decoded).iter().map(|row| (row.of.prev, row.of.next)).collect();
    assert_eq!(seen, [(7, 8), (7, 7)]);
    let woken: Vec<u32> = waking_rows(&decoded).iter().map(|row| row.of.wakee).collect();
    assert_eq!(woken, [10, 9]);
}
