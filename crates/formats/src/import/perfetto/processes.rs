//! Processes and threads: `ProcessTree`, and the descriptors of tracks.

use super::wire::Value;
use crate::import::builder::Import;

/// A time for facts that have none: they hold at the end.
const AT_THE_END: u64 = u64::MAX;

/// Reads a `ProcessTree`.
pub(super) fn tree(import: &mut Import, time: Option<u64>, tree: Value<'_>) {
    let time = time.unwrap_or(AT_THE_END);
    for (field, value) in tree.fields() {
        match field {
            1 => process(import, time, value),
            2 => thread_of_tree(import, time, value),
            _ => {}
        }
    }
}

/// `ProcessTree.Process`.
fn process(import: &mut Import, time: u64, process: Value<'_>) {
    let (mut pid, mut parent, mut arguments, mut is_comm) = (0, None, Vec::new(), false);
    for (field, value) in process.fields() {
        match field {
            1 => pid = value.u32(),
            2 => parent = Some(value.u32()),
            3 => arguments.push(value.text()),
            9 => is_comm = value.number() != 0,
            _ => {}
        }
    }
    if pid == 0 {
        return;
    }
    let name = import.trace.strings.intern(&arguments.join(" "));
    import.lives.owner(time, pid, pid);
    import.lives.process(pid, parent, if is_comm { Default::default() } else { name });
    if !name.is_empty() && !import.lives.has_other_name(pid) {
        let first = arguments.first().map_or("", |first| first.rsplit('/').next().unwrap_or(first));
        let first = import.trace.strings.intern(first);
        import.lives.other_name(pid, first);
    }
}

/// `ProcessTree.Thread`.
fn thread_of_tree(import: &mut Import, time: u64, thread: Value<'_>) {
    let (mut tid, mut pid, mut name) = (0, 0, String::new());
    for (field, value) in thread.fields() {
        match field {
            1 => tid = value.u32(),
            2 => name = value.text(),
            3 => pid = value.u32(),
            _ => {}
        }
    }
    this_thread(import, time, (pid, tid), &name);
}

fn this_thread(import: &mut Import, time: u64, (pid, tid): (u32, u32), name: &str) {
    if tid == 0 {
        return;
    }
    if pid != 0 {
        import.lives.owner(time, tid, pid);
    }
    if !name.is_empty() {
        let name = import.trace.strings.intern(name);
        import.lives.other_name(tid, name);
    }
}

/// A `TrackDescriptor`, which may be that of a process or a thread.
pub(super) fn track(import: &mut Import, track: Value<'_>) {
    for (field, value) in track.fields() {
        match field {
            3 => {
                let (mut pid, mut name, mut line) = (0, String::new(), Vec::new());
                for (field, value) in value.fields() {
                    match field {
                        1 => pid = value.u32(),
                        2 => line.push(value.text()),
                        6 => name = value.text(),
                        _ => {}
                    }
                }
                if pid == 0 {
                    continue;
                }
                let line = import.trace.strings.intern(&line.join(" "));
                import.lives.process(pid, None, line);
                if !import.lives.has_other_name(pid) {
                    this_thread(import, AT_THE_END, (pid, pid), &name);
                }
            }
            4 => {
                thread(import, value);
            }
            _ => {}
        }
    }
}

/// A `ThreadDescriptor`. Returns the thread and its reference time, microseconds.
pub(super) fn thread(import: &mut Import, thread: Value<'_>) -> (u32, u64) {
    let (mut pid, mut tid, mut name, mut reference_us) = (0, 0, String::new(), 0);
    for (field, value) in thread.fields() {
        match field {
            1 => pid = value.u32(),
            2 => tid = value.u32(),
            5 => name = value.text(),
            6 => reference_us = value.number(),
            _ => {}
        }
    }
    this_thread(import, AT_THE_END, (pid, tid), &name);
    (tid, reference_us)
}
