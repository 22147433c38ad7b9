//! What a trace shows of its events, as text: to compare traces whose ids differ.
#![allow(dead_code, reason = "each test uses a part")]

use std::io::Cursor;
use unhitch_formats::perf_data::{Exported, Selection, export};
use unhitch_formats::read_bytes;
use unhitch_model::{StackId, ThreadId, Time, Trace};

/// Exports a whole trace, and reads it back.
pub fn round_trip(trace: &Trace) -> (Trace, Exported) {
    let mut file = Cursor::new(Vec::new());
    let selection = Selection { window: trace.extent(), threads: None };
    let exported = export(trace, &selection, "unhitch test", &mut file).unwrap();
    let read = read_bytes(file.get_ref()).unwrap();
    assert_eq!(read.warnings.lines().collect::<Vec<_>>(), Vec::<String>::new());
    (read, exported)
}

/// Each event without names and stacks: when, where, which threads, in which state.
pub fn bare_rows(trace: &Trace) -> Vec<String> {
    rows_with(trace, &|thread, _| tid(trace, thread), &|_| String::new())
}

/// Each event with the names of its threads and its stack, frame by frame.
pub fn rows(trace: &Trace) -> Vec<String> {
    let thread = |thread: ThreadId, time: Time| {
        let process = trace.threads.process_of(thread);
        let name = if thread.is_idle() { "idle" } else { trace.thread_name(thread, time) };
        format!("{}/{} {name:?}", process.pid, tid(trace, thread))
    };
    rows_with(trace, &thread, &|id| stack(trace, id))
}

fn tid(trace: &Trace, thread: ThreadId) -> String {
    trace.threads.get(thread).tid.to_string()
}

/// Kernel frames, then user frames, leaf first, by module and offset.
fn stack(trace: &Trace, id: StackId) -> String {
    let frame = |id: &unhitch_model::FrameId| {
        let frame = trace.stacks.frame(*id).unwrap();
        let module = trace.modules.get(frame.module).unwrap();
        format!("{}+{:#x}", trace.name(module.path), frame.offset)
    };
    let part = |frames: &[unhitch_model::FrameId]| frames.iter().map(frame).collect::<Vec<_>>();
    format!("{:?} | {:?}", part(trace.stacks.kernel_frames(id)), part(trace.stacks.user_frames(id)))
}

fn rows_with(
    trace: &Trace,
    thread: &dyn Fn(ThreadId, Time) -> String,
    stack: &dyn Fn(StackId) -> String,
) -> Vec<String> {
    let Trace { switches, wakings, samples, contentions, .. } = trace;
    let mut rows = Vec::new();
    for row in 0..switches.len() {
        let time = switches.time[row];
        rows.push(format!(
            "{time:?} [{}] switch {} {:?} {} -> {} {} {}",
            switches.cpu[row],
            thread(switches.prev[row], time),
            switches.prev_state[row],
            switches.prev_prio[row],
            thread(switches.next[row], time),
            switches.next_prio[row],
            stack(switches.stack[row])
        ));
    }
    for row in 0..wakings.len() {
        let time = wakings.time[row];
        rows.push(format!(
            "{time:?} [{}] waking {} {:?} -> {} [{}] {}",
            wakings.cpu[row],
            thread(wakings.waker[row], time),
            wakings.flags[row],
            thread(wakings.wakee[row], time),
            wakings.target_cpu[row],
            stack(wakings.stack[row])
        ));
    }
    for row in 0..samples.len() {
        let time = samples.time[row];
        let (thread, stack) = (thread(samples.thread[row], time), stack(samples.stack[row]));
        rows.push(format!("{time:?} [{}] sample {thread} {stack}", samples.cpu[row]));
    }
    for row in 0..contentions.len() {
        let time = contentions.time[row];
        rows.push(format!(
            "{time:?} {:?} {} {:#x} {} {}",
            contentions.kind[row],
            thread(contentions.thread[row], time),
            contentions.lock_avma[row],
            contentions.flags[row],
            stack(contentions.stack[row])
        ));
    }
    rows
}

/// Compares row by row, so that a difference is readable.
pub fn assert_same(left: &[String], right: &[String]) {
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left, right);
    }
    assert_eq!(left.len(), right.len());
}
