//! Names and processes of threads.

use super::fields::packet;
use super::packets::{Packets, Sequence};
use crate::protobuf::Message;
use std::io;
use unhitch_formats::perf_data::Selection;
use unhitch_model::{Thread, ThreadId, Time, Trace};

/// Processes in one packet.
const CHUNK: usize = 1 << 10;

/// Writes all threads that were there when the trace began. Those created later are written when
/// they are.
pub(super) fn write_first(
    trace: &Trace,
    selection: &Selection,
    packets: &mut Packets<'_>,
) -> io::Result<()> {
    let start = selection.window.start;
    let is_first = |thread: &Thread| thread.start.is_none_or(|begin| begin <= start);
    let first: Vec<ThreadId> = trace
        .threads
        .iter()
        .filter(|(id, thread)| !id.is_idle() && is_first(thread))
        .map(|(id, _)| id)
        .collect();
    for chunk in first.chunks(CHUNK) {
        write(trace, chunk, start, packets)?;
    }
    Ok(())
}

/// Writes threads, and the processes that they lead, with the names that they have at `time`.
pub(super) fn write(
    trace: &Trace,
    threads: &[ThreadId],
    time: Time,
    packets: &mut Packets<'_>,
) -> io::Result<()> {
    packets.write(Sequence::System, Some(time), |packet| {
        packet.nest(packet::PROCESS_TREE, |tree| {
            threads.iter().for_each(|&id| {
                if trace.threads.process_of(id).leader == id {
                    tree.nest(1, |message| process(trace, id, time, message));
                }
            });
            for &id in threads {
                tree.nest(2, |message| {
                    message.tid(1, trace.threads.get(id).tid);
                    message.put(2, trace.thread_name(id, time));
                    message.tid(3, trace.threads.process_of(id).pid);
                });
            }
        });
    })
}

fn process(trace: &Trace, leader: ThreadId, time: Time, message: &mut Message) {
    let process = trace.threads.process_of(leader);
    message.tid(1, process.pid);
    if let Some(parent) = process.parent_pid {
        message.tid(2, parent);
    }
    let command_line = trace.name(process.command_line);
    let name = trace.process_name(leader, time);
    // trace processor calls a process by the first word.
    let words: Vec<&str> = command_line.split_whitespace().collect();
    if words.is_empty() {
        message.put(3, name);
        message.uint(9, 1);
    } else {
        words.iter().for_each(|word| message.put(3, word));
    }
}
