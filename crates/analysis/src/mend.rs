//! Context switches that the kernel did not report, concluded from their neighbours.
//!
//! A CPU's switches form a chain: whoever came on is the next to leave. Where it breaks and no loss was reported, the kernel dropped
//! events silently. That happens: on a virtual machine with Linux 6.18, every event issued while certain tasks were current (one CPU's
//! idle task among them) was missing, from recordings of `perf record` just as well.
//! Left alone, a thread would seem to leave a CPU on which it never was. What is concluded is counted in the trace's warnings.

use unhitch_model::{StackId, Switches, TaskState, ThreadId, Time, Trace};

/// What is known of a thread while the events go by.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// It came on a CPU, and has not left it yet.
    on: bool,
    /// When it was last woken since.
    woken: Option<Time>,
    /// When it was first seen running since, though it never came back.
    running: Option<(Time, u16)>,
}

struct Missing {
    before: usize,
    time: Time,
    cpu: u16,
    prev: ThreadId,
    next: ThreadId,
    prio: i16,
}

/// Adds the missing switches to `trace`. Where nothing tells when a thread came on, its first sample or wake-up counts, else the
/// moment before it left: with samples, the error is at most the time between two of them.
pub fn mend(trace: &mut Trace) {
    let missing = find(trace);
    if missing.is_empty() {
        return;
    }
    trace.warnings.add(format!(
        "the kernel did not report {} of {} context switches; they were concluded from their neighbours, their times are estimates",
        missing.len(),
        trace.switches.len() + missing.len()
    ));
    trace.switches = insert(&trace.switches, &missing);
}

fn find(trace: &Trace) -> Vec<Missing> {
    let (switches, wakings, samples) = (&trace.switches, &trace.wakings, &trace.samples);
    let cpus = switches.cpu.iter().max().map_or(0, |&cpu| usize::from(cpu) + 1);
    let mut current: Vec<Option<(ThreadId, Time)>> = vec![None; cpus];
    let mut seen = vec![Seen::default(); trace.threads.len()];
    let (mut waking, mut sample) = (0, 0);
    let mut missing = Vec::new();
    for index in 0..switches.len() {
        let (time, cpu, prev, next) = (switches.time[index], switches.cpu[index], switches.prev[index], switches.next[index]);
        while waking < wakings.len() && wakings.time[waking] <= time {
            // Whoever is seen to run needs no waking: this one belongs to its next sleep.
            if let Some(wakee) = seen.get_mut(wakings.wakee[waking].index()).filter(|wakee| wakee.running.is_none()) {
                wakee.woken.get_or_insert(wakings.time[waking]);
            }
            note_running(&mut seen, wakings.waker[waking], wakings.time[waking], wakings.cpu[waking]);
            waking += 1;
        }
        while sample < samples.len() && samples.time[sample] <= time {
            note_running(&mut seen, samples.thread[sample], samples.time[sample], samples.cpu[sample]);
            sample += 1;
        }
        let on = &mut current[usize::from(cpu)];
        if let Some((was, since)) = on.filter(|(was, _)| *was != prev && !prev.is_idle()) {
            let state = seen.get(prev.index()).copied().unwrap_or_default();
            let lost = trace.losses.iter().any(|loss| loss.cpu == cpu && loss.window.end > since && loss.window.start <= time);
            if !state.on && !lost {
                let earliest = state.woken.map_or(since, |woken| woken.max(since));
                let running = state.running.filter(|(at, on)| *on == cpu && *at >= earliest).map(|(at, _)| at);
                // A CPU that idles takes a woken thread at once; any other gave it the CPU when it was first seen there, or later.
                let at = if was.is_idle() && state.woken.is_some() { earliest } else { running.unwrap_or(time.minus(1)).max(earliest) };
                missing.push(Missing { before: index, time: at, cpu, prev: was, next: prev, prio: switches.prev_prio[index] });
            }
        }
        *on = Some((next, time));
        if let Some(leaving) = seen.get_mut(prev.index()) {
            *leaving = Seen::default();
        }
        if let Some(coming) = seen.get_mut(next.index()) {
            *coming = Seen { on: true, ..Seen::default() };
        }
    }
    missing
}

fn note_running(seen: &mut [Seen], thread: ThreadId, time: Time, cpu: u16) {
    if let Some(state) = seen.get_mut(thread.index()).filter(|state| !state.on) {
        state.running.get_or_insert((time, cpu));
    }
}

/// The switches with the missing ones at their times.
fn insert(switches: &Switches, missing: &[Missing]) -> Switches {
    // (time, position among equal times, source): a missing switch stands before the one that betrayed it.
    let mut order: Vec<(Time, usize, Result<usize, usize>)> = (0..switches.len()).map(|i| (switches.time[i], i * 2 + 1, Ok(i))).collect();
    order.extend(missing.iter().enumerate().map(|(i, missing)| (missing.time, missing.before * 2, Err(i))));
    order.sort_by_key(|&(time, position, _)| (time, position));
    let mut out = Switches::default();
    for (time, _, source) in order {
        out.time.push(time);
        match source {
            Ok(i) => {
                out.cpu.push(switches.cpu[i]);
                out.prev.push(switches.prev[i]);
                out.next.push(switches.next[i]);
                out.prev_state.push(switches.prev_state[i]);
                out.prev_prio.push(switches.prev_prio[i]);
                out.next_prio.push(switches.next_prio[i]);
                out.stack.push(switches.stack[i]);
            }
            Err(i) => {
                let Missing { cpu, prev, next, prio, .. } = missing[i];
                out.cpu.push(cpu);
                out.prev.push(prev);
                out.next.push(next);
                out.prev_state.push(TaskState::Sleeping);
                out.prev_prio.push(prio);
                out.next_prio.push(prio);
                out.stack.push(StackId::EMPTY);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::{NameId, Process, Thread};

    fn push(trace: &mut Trace, us: u64, prev: u32, next: u32) {
        trace.switches.time.push(Time::from_nanos(us * 1000));
        trace.switches.cpu.push(0);
        trace.switches.prev.push(ThreadId(prev));
        trace.switches.next.push(ThreadId(next));
        trace.switches.prev_state.push(TaskState::Sleeping);
        trace.switches.prev_prio.push(120);
        trace.switches.next_prio.push(120);
        trace.switches.stack.push(StackId::EMPTY);
    }

    fn wake(trace: &mut Trace, us: u64, waker: u32, wakee: u32) {
        trace.wakings.time.push(Time::from_nanos(us * 1000));
        trace.wakings.cpu.push(0);
        trace.wakings.waker.push(ThreadId(waker));
        trace.wakings.wakee.push(ThreadId(wakee));
        trace.wakings.target_cpu.push(0);
        trace.wakings.flags.push(Default::default());
        trace.wakings.stack.push(StackId::EMPTY);
    }

    /// Thread 1 leaves CPU 0 at 10 and at 50 µs; that it came back is not in the trace.
    fn broken() -> Trace {
        let mut trace = Trace::default();
        let process = trace.threads.add_process(Process { pid: 7, leader: ThreadId(1), parent_pid: None, command_line: NameId::EMPTY });
        for tid in [7, 8] {
            trace.threads.add(Thread { tid, process, names: Vec::new(), start: None, end: None, policy: None, nice: None });
        }
        push(&mut trace, 10, 1, 0);
        push(&mut trace, 50, 1, 0);
        trace
    }

    #[test]
    fn a_thread_seen_to_run_was_not_woken_later() {
        let mut trace = broken();
        wake(&mut trace, 20, 1, 2);
        wake(&mut trace, 49, 2, 1);
        mend(&mut trace);
        assert_eq!(trace.switches.time, [10_000, 20_000, 50_000].map(Time::from_nanos));
    }

    #[test]
    fn a_broken_chain_is_mended_at_the_wake_up() {
        let mut trace = broken();
        wake(&mut trace, 40, 0, 1);
        mend(&mut trace);
        assert_eq!(trace.switches.time, [10_000, 40_000, 50_000].map(Time::from_nanos));
        assert_eq!((trace.switches.prev[1], trace.switches.next[1]), (ThreadId(0), ThreadId(1)));
        assert_eq!(trace.warnings.lines().count(), 1);
        let mended = trace.switches.time.clone();
        mend(&mut trace);
        assert_eq!(trace.switches.time, mended, "a whole chain stays as it is");
    }
}
