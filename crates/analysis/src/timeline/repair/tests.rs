use super::*;
use unhitch_model::{CpuSpan, Process, Thread};

fn sample(trace: &mut Trace, us: u64, thread: u32) {
    trace.samples.time.push(Time::from_nanos(us * 1000));
    trace.samples.cpu.push(0);
    trace.samples.thread.push(ThreadId(thread));
    trace.samples.stack.push(StackId::EMPTY);
}

fn arrive(trace: &mut Trace, us: u64, thread: u32) {
    trace.arrivals.time.push(Time::from_nanos(us * 1000));
    trace.arrivals.cpu.push(0);
    trace.arrivals.thread.push(ThreadId(thread));
}

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

fn wake(trace: &mut Trace, us: u64, cpu: u16, waker: u32, wakee: u32) {
    trace.wakings.time.push(Time::from_nanos(us * 1000));
    trace.wakings.cpu.push(cpu);
    trace.wakings.waker.push(ThreadId(waker));
    trace.wakings.wakee.push(ThreadId(wakee));
    trace.wakings.target_cpu.push(0);
    trace.wakings.flags.push(Default::default());
    trace.wakings.stack.push(StackId::EMPTY);
}

/// Thread 1 leaves CPU 0 at 10 and at 50 µs; that it came back is not in the trace.
fn broken() -> Trace {
    let mut trace = Trace::default();
    let process =
        trace.threads.add_process(Process { pid: 7, leader: ThreadId(1), ..Process::default() });
    for tid in [7, 8] {
        trace.threads.add(Thread {
            tid,
            process,
            names: Vec::new(),
            start: None,
            end: None,
            policy: None,
            nice: None,
        });
    }
    push(&mut trace, 10, 1, 0);
    push(&mut trace, 50, 1, 0);
    trace
}

#[test]
fn a_thread_seen_to_run_was_not_woken_later() {
    let mut trace = broken();
    wake(&mut trace, 20, 0, 1, 2);
    wake(&mut trace, 49, 1, 2, 1);
    repair(&mut trace);
    assert_eq!(trace.switches.time, [10_000, 19_999, 50_000].map(Time::from_nanos));
}

#[test]
fn a_waker_came_on_before_the_wake_up() {
    let mut trace = broken();
    wake(&mut trace, 40, 0, 1, 2);
    repair(&mut trace);
    let came = trace.switches.next.iter().position(|next| *next == ThreadId(1)).unwrap();
    assert!(
        trace.switches.time[came] < trace.wakings.time[0],
        "{:?}: asleep until it woke another, it would be damage",
        trace.switches
    );
}

#[test]
fn a_thread_that_never_left_is_seen_by_its_samples() {
    let mut trace = broken();
    sample(&mut trace, 70, 2);
    sample(&mut trace, 80, 2);
    repair(&mut trace);
    assert_eq!(trace.switches.time.last(), Some(&Time::from_nanos(69_999)));
    assert_eq!((trace.switches.prev[3], trace.switches.next[3]), (ThreadId(0), ThreadId(2)));
}

#[test]
fn a_thread_woken_next_to_an_idle_cpu_has_run() {
    let mut trace = broken();
    wake(&mut trace, 40, 0, 0, 1);
    wake(&mut trace, 60, 1, 1, 2);
    trace.spans = vec![CpuSpan {
        cpu: 0,
        window: Window::new(Time::ZERO, Time::from_nanos(60_000 + MAX_DELAY_NS * 2)),
    }];
    let mut whole = trace.clone();
    whole.switches.prev[1] = ThreadId::IDLE;
    repair(&mut trace);
    assert_eq!(trace.switches.next, [0, 1, 0, 2, 0].map(ThreadId));
    assert_eq!(trace.switches.time[3], Time::from_nanos(60_000));
    repair(&mut whole);
    assert_eq!(whole.switches.len(), 2, "in a complete trace, it was throttled");
}

#[test]
fn a_recorded_arrival_is_exact() {
    let mut trace = broken();
    wake(&mut trace, 20, 1, 2, 1);
    arrive(&mut trace, 30, 1);
    sample(&mut trace, 40, 1);
    arrive(&mut trace, 51, 0);
    repair(&mut trace);
    assert_eq!(trace.switches.time, [10_000, 30_000, 50_000].map(Time::from_nanos));
}

#[test]
fn a_broken_chain_is_repaired_at_the_wake_up() {
    let mut trace = broken();
    wake(&mut trace, 40, 0, 0, 1);
    repair(&mut trace);
    assert_eq!(trace.switches.time, [10_000, 40_000, 50_000].map(Time::from_nanos));
    assert_eq!((trace.switches.prev[1], trace.switches.next[1]), (ThreadId(0), ThreadId(1)));
    assert_eq!(trace.warnings.lines().count(), 1);
    let repaired = trace.switches.time.clone();
    repair(&mut trace);
    assert_eq!(trace.switches.time, repaired, "a whole chain stays as it is");
}

/// Two hundred thousand threads are woken at one time at which as many switches happen on another CPU, and
/// never seen to run.
#[test]
fn any_number_of_threads_may_have_run_unseen_at_one_time() {
    const THREADS: u32 = 200_000;
    let mut trace = broken();
    let process = trace.threads.get(ThreadId(1)).process;
    for thread in 3..3 + THREADS {
        trace.threads.add(Thread {
            tid: 100 + thread,
            process,
            ..trace.threads.get(ThreadId(1)).clone()
        });
        sample(&mut trace, 5, thread);
        wake(&mut trace, 100, 1, 0, thread);
        push(&mut trace, 100, (thread - 3) % 2, (thread - 2) % 2);
    }
    trace.switches.cpu[2..].fill(1);
    let window = Window::new(Time::ZERO, Time::from_nanos(200_000_000));
    trace.spans = vec![CpuSpan { cpu: 0, window }];
    let before = trace.switches.len();
    repair(&mut trace);
    let added = trace.switches.len() - before;
    assert!(added >= 2 * THREADS as usize, "{added}");
}
