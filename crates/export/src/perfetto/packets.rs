//! [`Packets`]: writes the packets of a trace, and those that say what the trace is.

use super::fields::packet;
use crate::job::Job;
use crate::protobuf::Message;
use std::io::{self, Write};
use unhitch_model::{Time, Trace};

/// Field of `Trace` that holds a packet.
const PACKET: u32 = 1;

/// Who wrote a packet, as far as interned data goes: each has names of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sequence {
    /// Scheduler events, processes, clocks.
    System = 1,
    /// Stalls and chains.
    Answers,
    Cpu,
    Waits,
    Wakes,
    Preempted,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// A `BuiltinClock`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// The file under construction.
pub(super) struct Packets<'o> {
    out: &'o mut dyn Write,
    message: Message,
    /// By sequence: whether its first packet was written.
    begun: [bool; 8],
}

impl<'o> Packets<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, message: Message::default(), begun: [false; 8] }
    }

    /// Writes a packet, which `fill` completes.
    pub(super) fn write(
        &mut self,
        sequence: Sequence,
        time: Option<Time>,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        self.message.clear();
        let begun = &mut self.begun[sequence as usize];
        let flags = if *begun { NEEDS_STATE } else { CLEARED | NEEDS_STATE };
        self.message.nest(PACKET, |packet| {
            if let Some(time) = time {
                packet.uint(packet::TIMESTAMP, time.nanos());
            }
            packet.uint(packet::SEQUENCE, sequence as u64);
            if sequence != Sequence::System {
                packet.uint(packet::SEQUENCE_FLAGS, flags);
                *begun = true;
            }
            fill(packet);
        });
        self.out.write_all(self.message.bytes())
    }

    /// True once the sequence has a packet.
    pub(super) fn has_begun(&self, sequence: Sequence) -> bool {
        self.begun[sequence as usize]
    }

    /// Writes the clocks and the machine.
    ///
    /// *Why two clocks with one time:* ftrace's events are on the boot clock, and no other can be
    /// named for them. Ours is the monotonic one. They differ by the time for which the machine was
    /// suspended, which a trace does not have. So both are declared to be the same.
    pub(super) fn head(&mut self, trace: &Trace, job: &Job<'_>) -> io::Result<()> {
        let (meta, start) = (&trace.meta, job.selection.window.start.nanos());
        let wall = meta.epoch_ns.and_then(|epoch| u64::try_from(epoch + i128::from(start)).ok());
        self.write(Sequence::System, None, |packet| {
            packet.nest(packet::CLOCK_SNAPSHOT, |snapshot| {
                let clocks = [(BOOTTIME, start), (MONOTONIC, start)];
                for (id, time) in clocks.into_iter().chain(wall.map(|wall| (REALTIME, wall))) {
                    snapshot.nest(1, |clock| {
                        clock.uint(1, id);
                        clock.uint(2, time);
                    });
                }
                snapshot.uint(2, BOOTTIME);
            });
        })?;
        self.write(Sequence::System, None, |packet| {
            packet.nest(packet::SYSTEM_INFO, |info| {
                info.nest(1, |names| {
                    let system = match meta.system {
                        unhitch_model::System::Windows => "Windows",
                        _ => "Linux",
                    };
                    names.put(1, system);
                    names.put(3, &meta.kernel);
                    names.put(4, &meta.arch);
                });
                info.put(4, job.producer);
                if meta.cpus > 0 {
                    info.uint(8, u64::from(meta.cpus));
                }
                if meta.memory_bytes > 0 {
                    info.uint(16, meta.memory_bytes);
                }
                info.put(17, &meta.host);
            });
        })
    }
}
