//! Facts: what happened beside switches and wake-ups. Each has a record in the ring, `enum fact` of
//! `ring.h`, and becomes an event of the trace, named as the kernel's tracepoint.

use super::layout::{Fragment, RingPiece, kind, u32_at, u64_at};
use super::sleepers::SleeperPart;
use crate::perf_data::rows::{Descriptor, Fact, MAX_FACT_WORDS, Row};
use std::collections::{BTreeMap, BTreeSet};
use unhitch_model::{
    DescriptorKind, EventHead, EventKind, Field, FieldType, KindId, Layout, StackId, ThreadId,
    Time, Trace, ValueMap,
    linux::{self, EventName},
};

/// Offset of a fact's payload in its record.
const PAYLOAD_AT: usize = 24;
/// Length of a name in a payload.
const NAME_BYTES: usize = 20;
/// Maximum number of different devices and operations that are named.
const MAX_TEXTS: usize = 4096;

/// One kind of fact.
struct Kind {
    event: EventName,
    /// The payload's fields in their order.
    fields: &'static [(&'static str, FieldType)],
}

const U32: FieldType = FieldType::Int { bytes: 4, signed: false, hex: false };
const U64: FieldType = FieldType::Int { bytes: 8, signed: false, hex: false };
const HEX32: FieldType = FieldType::Int { bytes: 4, signed: false, hex: true };

/// All kinds, by number from 1. Names of events are those of the tracepoints at which they end.
const KINDS: [Kind; 9] = [
    Kind { event: linux::SIGNAL, fields: &[("sig", U32), ("tid", U32)] },
    Kind {
        event: linux::REQUEST,
        fields: &[
            ("dev", HEX32),
            ("op", HEX32),
            ("sector", U64),
            ("bytes", U32),
            ("status", U32),
            ("queued_ns", U64),
            ("device_ns", U64),
            ("cgroup", U64),
        ],
    },
    Kind {
        event: ("irq", "irq_handler_exit"),
        fields: &[("ns", U64), ("irq", U32), ("name", FieldType::Ansi)],
    },
    Kind { event: ("irq", "softirq_exit"), fields: &[("ns", U64), ("vec", U32)] },
    Kind {
        event: ("vmscan", "mm_vmscan_direct_reclaim_end"),
        fields: &[("ns", U64), ("pages", U64)],
    },
    Kind { event: ("compaction", "mm_compaction_end"), fields: &[("ns", U64)] },
    Kind { event: linux::DIRTIED, fields: &[("bytes", U64), ("dev", HEX32)] },
    Kind { event: linux::FLOCK, fields: REFUSED },
    Kind { event: linux::POSIX_LOCK, fields: REFUSED },
];

/// Of a lock on a file that was refused.
const REFUSED: &[(&str, FieldType)] =
    &[("holder", U32), ("dev", HEX32), ("inode", U64), ("name", FieldType::Ansi)];

/// `blk_status_t` (include/linux/blk_types.h). Kernels disagree about numbers above these.
const STATUSES: [(u64, &str); 13] = [
    (0, "ok"),
    (1, "not supported"),
    (2, "timeout"),
    (3, "no space"),
    (4, "transport failed"),
    (5, "target failed"),
    (6, "reservation conflict"),
    (7, "medium error"),
    (8, "protection error"),
    (9, "no resources"),
    (10, "I/O error"),
    (12, "would block"),
    (13, "device busy"),
];
/// Names of soft interrupts (include/linux/interrupt.h), from 0.
const SOFT_INTERRUPTS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The fact in a record. Its stacks are at 12 and 16.
pub(super) fn read(number: u64, record: &[u8]) -> Fact {
    let mut payload = [0; MAX_FACT_WORDS];
    for (index, word) in payload.iter_mut().enumerate() {
        *word = u64_at(record, PAYLOAD_AT + index * 8);
    }
    Fact { tid: u32_at(record, 8), number: number as u16, payload }
}

/// The name of a kind of fact.
pub(super) fn name(number: u16) -> &'static str {
    let kind = KINDS.get(usize::from(number).wrapping_sub(1));
    kind.map_or("fact of a later version", |kind| kind.event.1)
}

/// Makes events of facts, which are sorted by time. `place` has a fact's thread and stack.
pub(crate) fn add(
    trace: &mut Trace,
    rows: &[Row<Fact>],
    place: impl Fn(&Row<Fact>) -> (ThreadId, StackId),
) {
    if rows.is_empty() {
        return;
    }
    let kinds = kinds(trace, rows).into_iter().map(|kind| trace.events.intern_kind(kind));
    let kinds: Vec<KindId> = kinds.collect();
    for row in rows {
        let index = usize::from(row.of.number).wrapping_sub(1);
        // One of a later version has no kind.
        let Some((kind, id)) = KINDS.get(index).zip(kinds.get(index)) else { continue };
        let (thread, stack) = place(row);
        let head =
            EventHead { time: Time::from_nanos(row.time), cpu: row.cpu, thread, kind: *id, stack };
        let payload: Vec<u8> = row.of.payload.iter().flat_map(|word| word.to_le_bytes()).collect();
        trace.events.push(head, kind.used(&payload));
    }
}

impl Kind {
    /// What of a payload is used: a name, which comes last, up to its end.
    fn used<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let all = &payload[..self.fields.iter().map(|(_, of)| len(*of)).sum()];
        if !self.fields.iter().any(|(_, of)| *of == FieldType::Ansi) {
            return all;
        }
        let begin = all.len() - NAME_BYTES;
        let end = all[begin..].iter().position(|byte| *byte == 0);
        end.map_or(all, |end| &all[..=begin + end])
    }
}

fn len(of: FieldType) -> usize {
    match of {
        FieldType::Int { bytes, .. } => usize::from(bytes),
        _ => NAME_BYTES,
    }
}

/// The kinds of the trace's events. They are put into the trace.
fn kinds(trace: &mut Trace, rows: &[Row<Fact>]) -> Vec<EventKind> {
    let owned = |(number, name): &(u64, &str)| (*number, (*name).to_owned());
    let soft_interrupts = (0..).zip(SOFT_INTERRUPTS.map(str::to_owned));
    let mut map = |entries: Vec<(u64, String)>| {
        let entries =
            entries.iter().map(|(value, name)| (*value, trace.strings.intern(name))).collect();
        trace.events.add_map(ValueMap { bits: false, entries })
    };
    let maps = [
        ("sig", map(linux::SIGNALS.iter().map(owned).collect())),
        ("status", map(STATUSES.iter().map(owned).collect())),
        ("vec", map(soft_interrupts.collect())),
        ("dev", map(texts(rows, "dev", linux::device_text))),
        ("op", map(texts(rows, "op", operation_text))),
    ];
    let mut field = |&(name, of): &(&'static str, FieldType)| {
        let map = maps.iter().find(|(field, _)| *field == name).map(|(_, map)| *map);
        Field { map, ..Field::new(trace.strings.intern(name), of) }
    };
    let layouts = KINDS.map(|kind| Layout {
        fields: kind.fields.iter().map(&mut field).collect(),
        pointer_bytes: 8,
    });
    let kinds = KINDS.iter().zip(layouts).map(|(kind, layout)| EventKind {
        provider: trace.strings.intern(kind.event.0),
        name: trace.strings.intern(kind.event.1),
        layout,
        ..EventKind::default()
    });
    kinds.collect()
}

/// The values of a 32-bit field in all facts that have it, with their texts.
fn texts(rows: &[Row<Fact>], field: &str, text: fn(u64) -> String) -> Vec<(u64, String)> {
    let offset_in = |kind: &Kind| {
        let before = kind.fields.iter().position(|(name, _)| *name == field)?;
        Some(kind.fields[..before].iter().map(|(_, of)| len(*of)).sum::<usize>())
    };
    let offsets = KINDS.map(|kind| offset_in(&kind));
    let value = |row: &Row<Fact>| {
        let offset = (*offsets.get(usize::from(row.of.number).wrapping_sub(1))?)?;
        let word = row.of.payload.get(offset / 8)?;
        Some(word >> (offset % 8 * 8) & 0xffff_ffff)
    };
    let values: BTreeSet<u64> = rows.iter().filter_map(value).collect();
    values.into_iter().take(MAX_TEXTS).map(|value| (value, text(value))).collect()
}

/// `write, sync`: REQ_OP_* and REQ_* (include/linux/blk_types.h).
fn operation_text(flags: u64) -> String {
    let operation = match flags & 0xff {
        0 => "read",
        1 => "write",
        2 => "flush",
        3 => "discard",
        5 => "secure erase",
        9 => "write zeroes",
        7 | 10..=18 => "zone",
        _ => "other",
    };
    let named = [
        (11, "sync"),
        (12, "metadata"),
        (17, "to the medium"),
        (18, "flush first"),
        (19, "readahead"),
    ];
    let set = named.iter().filter(|(bit, _)| flags >> bit & 1 != 0).map(|(_, name)| *name);
    std::iter::once(operation).chain(set).collect::<Vec<_>>().join(", ")
}

/// The ports of a connected TCP or UDP socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketPorts {
    /// The socket's inode.
    pub inode: u64,
    /// Its own port.
    pub local_port: u16,
    /// The other end's port.
    pub peer_port: u16,
}

/// What waits are about, for finding who has the other ends.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WaitedFor {
    /// The inodes of nameless pipes, and of other ends of Unix sockets.
    pub inodes: BTreeSet<u64>,
    /// The ports of connected TCP and UDP sockets, by their inodes.
    pub sockets: BTreeMap<u64, SocketPorts>,
}

impl WaitedFor {
    /// Maximum number of pipes and sockets of one recording.
    const MAX: usize = 1 << 16;

    /// Adds the waits in a ring or in a piece of one.
    pub fn add_piece(&mut self, piece: &RingPiece<'_>) {
        let readable = |fragment: &Fragment<'_>| fragment.offset > 0 || fragment.has_own_header();
        let records = piece.fragments().filter(readable);
        let descriptors = records.flat_map(|fragment| fragment.records());
        descriptors
            .filter(|record| record.is_long(kind::DESCRIPTOR))
            .for_each(|record| self.add(&descriptor(&record.bytes[8..])));
    }

    /// Adds the wait of a thread that is asleep.
    pub fn add_sleeper(&mut self, sleeper: &SleeperPart) {
        if !sleeper.descriptor.is_empty() {
            self.add(&descriptor(&sleeper.descriptor));
        }
    }

    fn add(&mut self, of: &Descriptor) {
        if self.inodes.len() + self.sockets.len() >= Self::MAX {
            return;
        }
        match of.kind() {
            DescriptorKind::Pipe if of.is_nameless_pipe() => _ = self.inodes.insert(of.inode),
            DescriptorKind::UnixSocket if of.peer_inode != 0 => {
                self.inodes.insert(of.peer_inode);
            }
            DescriptorKind::InternetSocket => {
                let (local_port, peer_port) = (of.local_port, of.peer_port);
                let ports = SocketPorts { inode: of.inode, local_port, peer_port };
                self.sockets.insert(of.inode, ports);
            }
            _ => {}
        }
    }
}

/// A `struct descriptor` of `ring.h`.
pub(super) fn descriptor(bytes: &[u8]) -> Descriptor {
    let mut name = [0; 32];
    let mut peer_address = [0; 16];
    let copy = |to: &mut [u8], at: usize| {
        if let Some(from) = bytes.get(at..at + to.len()) {
            to.copy_from_slice(from);
        }
    };
    copy(&mut peer_address, 40);
    copy(&mut name, 56);
    Descriptor {
        fd: u32_at(bytes, 0),
        mode: u32_at(bytes, 4),
        inode: u64_at(bytes, 8),
        family: u32_at(bytes, 20),
        peer_inode: u64_at(bytes, 24),
        polled: u32_at(bytes, 32),
        local_port: u32_at(bytes, 36) as u16,
        peer_port: (u32_at(bytes, 36) >> 16) as u16,
        peer_address,
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_fifos_inode_is_not_looked_up_among_nameless_pipes() {
        let waits_on = |inode: u64, name: &[u8]| {
            let mut descriptor = vec![0; 88];
            descriptor[4..8].copy_from_slice(&0o010_600_u32.to_le_bytes());
            descriptor[8..16].copy_from_slice(&inode.to_le_bytes());
            descriptor[56..56 + name.len()].copy_from_slice(name);
            SleeperPart { descriptor, ..SleeperPart::default() }
        };
        let sleepers = [waits_on(4711, b""), waits_on(4712, b"orders.fifo")];
        let mut waited_for = WaitedFor::default();
        sleepers.iter().for_each(|sleeper| waited_for.add_sleeper(sleeper));
        let inodes = [4711].into_iter().collect();
        assert_eq!(waited_for, WaitedFor { inodes, ..WaitedFor::default() });
    }
}
