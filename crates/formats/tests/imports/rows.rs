//! The rows of a trace, to compare.

use unhitch_model::{ThreadId, Trace};

fn tid(trace: &Trace, id: ThreadId) -> u32 {
    trace.threads.get(id).tid
}

/// Each wake-up: time, waker, woken thread.
pub fn wakes(trace: &Trace) -> Vec<(u64, u32, u32)> {
    let of = &trace.wakings;
    (0..of.len())
        .map(|at| (of.time[at].nanos(), tid(trace, of.waker[at]), tid(trace, of.wakee[at])))
        .collect()
}

/// Each switch: time, who left, how, who came.
pub fn switches(trace: &Trace) -> Vec<(u64, u32, &'static str, u32)> {
    let of = &trace.switches;
    (0..of.len())
        .map(|at| {
            let state = of.prev_state[at].letter();
            (of.time[at].nanos(), tid(trace, of.prev[at]), state, tid(trace, of.next[at]))
        })
        .collect()
}

/// What must hold for any trace, however damaged its file was.
pub fn check(trace: &Trace) {
    let columns = [&trace.switches.time, &trace.wakings.time, &trace.samples.time];
    assert!(columns.iter().all(|times| times.is_sorted()));
    assert_eq!(trace.switches.len(), trace.switches.stack.len());
    let threads = [&trace.switches.prev, &trace.switches.next, &trace.wakings.waker];
    assert!(threads.into_iter().flatten().all(|id| id.index() < trace.threads.len()));
    let stacks = [&trace.switches.stack, &trace.wakings.stack, &trace.samples.stack];
    for stack in stacks.into_iter().flatten() {
        assert!(stack.index() < trace.stacks.len());
        trace.stack_names(*stack);
    }
    assert!(trace.losses.is_sorted_by_key(|loss| loss.window.start));
    assert!(trace.losses.iter().all(|loss| loss.window.start <= loss.window.end));
    let window = trace.common_window();
    assert!(window.start <= window.end);
}
