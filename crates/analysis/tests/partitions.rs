//! Properties: partitions are gapless and exact, whatever the events are.

use crate::scene::Scene;
use proptest::prelude::*;
use unhitch_analysis::{Analysis, Rules, State};
use unhitch_model::{Loss, StackId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};

const THREADS: u32 = 6;
const CPUS: u16 = 3;
const END_US: u64 = 10_000;

/// A random event, which need not make sense.
#[derive(Clone, Debug)]
enum Event {
    Switch { at: u64, cpu: u16, prev: u32, state: u8, next: u32 },
    Wake { at: u64, cpu: u16, waker: u32, wakee: u32, flags: u8 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let switch = (0..END_US, 0..CPUS, 0..=THREADS, 0u8..9, 0..=THREADS)
        .prop_map(|(at, cpu, prev, state, next)| Event::Switch { at, cpu, prev, state, next });
    let wake = (0..END_US, 0..CPUS, 0..=THREADS, 0..=THREADS, 0u8..16)
        .prop_map(|(at, cpu, waker, wakee, flags)| Event::Wake { at, cpu, waker, wakee, flags });
    proptest::collection::vec(prop_oneof![switch, wake], 0..120)
}

fn losses() -> impl Strategy<Value = Vec<(u16, u64, u64)>> {
    proptest::collection::vec((0..CPUS, 0..END_US, 1..2_000u64), 0..6)
}

fn state(code: u8) -> TaskState {
    use TaskState::*;
    [Runnable, Preempted, Sleeping, DiskSleep, Idle, Stopped, Traced, Parked, Dead]
        [usize::from(code) % 9]
}

fn nonsense(events: &[Event], losses: &[(u16, u64, u64)]) -> Trace {
    let mut scene = Scene::default();
    (1..=THREADS).for_each(|tid| {
        scene.thread(1000 + tid, 1000 + tid, "thread");
    });
    let stack = scene.stack(&["main", "work", "|", "futex_wait", "schedule"]);
    for event in events {
        match *event {
            Event::Switch { at, cpu, prev, state: code, next } => {
                scene.switch(at, cpu, ThreadId(prev), state(code), ThreadId(next), stack)
            }
            Event::Wake { at, cpu, waker, wakee, flags } => scene.wake(
                at,
                cpu,
                ThreadId(waker),
                ThreadId(wakee),
                WakeFlags(flags),
                StackId::EMPTY,
            ),
        };
    }
    let mut trace = scene.finish(CPUS, END_US);
    for &(cpu, start, length) in losses {
        let window =
            Window::new(Time::from_nanos(start * 1000), Time::from_nanos((start + length) * 1000));
        trace.losses.push(Loss { cpu, window, events: 1 });
    }
    trace
}

/// A machine that obeys the rules: threads run, sleep, are woken and wait for CPUs.
fn sense(steps: &[(u8, u8, u8)]) -> Trace {
    let mut scene = Scene::default();
    let threads: Vec<ThreadId> =
        (1..=THREADS).map(|tid| scene.thread(1000 + tid, 1000 + tid, "thread")).collect();
    let stack = scene.stack(&["main", "work", "|", "futex_wait", "schedule"]);
    let mut running = [ThreadId::IDLE; CPUS as usize];
    let mut awake = vec![true; threads.len()];
    for (at, &(what, who, cpu)) in steps.iter().enumerate() {
        let (at, cpu) = (at as u64 * 10 + 1, usize::from(cpu) % usize::from(CPUS));
        let thread = threads[usize::from(who) % threads.len()];
        let index = thread.index() - 1;
        match what % 3 {
            0 if !running.contains(&thread) && !awake[index] => {
                scene.wake(at, cpu as u16, running[cpu], thread, WakeFlags::default(), stack);
                awake[index] = true;
            }
            1 if !running.contains(&thread) && awake[index] => {
                scene.switch(at, cpu as u16, running[cpu], TaskState::Runnable, thread, stack);
                running[cpu] = thread;
            }
            2 if !running[cpu].is_idle() => {
                awake[running[cpu].index() - 1] = false;
                scene.switch(
                    at,
                    cpu as u16,
                    running[cpu],
                    TaskState::Sleeping,
                    ThreadId::IDLE,
                    stack,
                );
                running[cpu] = ThreadId::IDLE;
            }
            _ => {}
        }
    }
    scene.finish(CPUS, END_US)
}

/// Gapless, in order, inside the window, and as long as the thread lived in it.
fn assert_partition(analysis: &Analysis<'_>, window: Window) {
    for thread in 1..=THREADS {
        let thread = ThreadId(thread);
        let segments = analysis.segments(thread, window);
        let expected = window.intersect(analysis.timeline.life(thread));
        let mut at = expected.start;
        for segment in &segments {
            assert_eq!(segment.window.start, at, "gap or overlap in {thread:?}: {segments:#?}");
            assert!(!segment.window.is_empty());
            at = segment.window.end;
        }
        assert_eq!(at, expected.end.max(expected.start), "{thread:?} ends early: {segments:#?}");
        for segment in &segments {
            let until = Window::new(window.start, segment.window.end);
            let last = analysis.timeline.last_segment(analysis.trace, thread, until);
            assert_eq!(last, Some(*segment), "{thread:?}: {segments:#?}");
        }
        let explanation = unhitch_analysis::explain::explain(analysis, thread, window);
        let sum: u64 = explanation.pieces.iter().map(|piece| piece.window.duration_ns()).sum();
        assert_eq!(sum, expected.duration_ns());
        assert!(
            explanation.pieces.windows(2).all(|pair| pair[0].window.end == pair[1].window.start)
        );
        let shares: u64 = unhitch_analysis::explain::partition(analysis, &explanation)
            .iter()
            .map(|share| share.ns)
            .sum();
        assert_eq!(shares, expected.duration_ns());
        let chain = explanation.chain(8);
        assert_eq!(
            chain.iter().map(|link| link.window.duration_ns()).sum::<u64>(),
            expected.duration_ns()
        );
        assert!(chain.windows(2).all(|pair| pair[0].window.end == pair[1].window.start));
        let (told, waits): (usize, u32) = (
            chain.iter().map(|link| link.hops).sum(),
            explanation.hops.iter().map(|hop| hop.waits).sum(),
        );
        assert!(told <= waits as usize, "a wait is told twice: {chain:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nonsense_is_partitioned_exactly(events in events(), losses in losses(), start in 0..END_US, length in 0..END_US) {
        let trace = nonsense(&events, &losses);
        let analysis = Analysis::new(&trace, &Rules::default());
        assert_partition(&analysis, Window::new(Time::ZERO, Time::from_nanos(END_US * 1000)));
        assert_partition(&analysis, Window::new(Time::from_nanos(start * 1000), Time::from_nanos((start + length) * 1000)));
        let stalls = unhitch_analysis::diagnose(&analysis, &Default::default());
        unhitch_analysis::answer::text(&analysis, &stalls, 3);
    }

    #[test]
    fn what_obeys_the_rules_is_fully_known(steps in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..300)) {
        let trace = sense(&steps);
        let analysis = Analysis::new(&trace, &Rules::default());
        let window = Window::new(Time::ZERO, Time::from_nanos(END_US * 1000));
        assert_partition(&analysis, window);
        for thread in (1..=THREADS).map(ThreadId) {
            let segments = analysis.segments(thread, window);
            let seen = trace.switches.prev.contains(&thread) || trace.switches.next.contains(&thread) || trace.wakings.wakee.contains(&thread);
            // The first stretch may be unknown (was it created or preempted?), and a thread without
            // any event is.
            let unknown = segments.iter().skip(1).any(|segment| segment.state == State::Unknown);
            prop_assert!(!unknown || !seen, "{segments:#?}");
        }
    }

    #[test]
    fn losses_hide_exactly_what_they_cover(start in 1_000..4_000u64, length in 1..4_000u64) {
        // One thread sleeps from 0.5 to 9 ms while CPU 1 loses events.
        let mut scene = Scene::default();
        let sleeper = scene.thread(1001, 1001, "sleeper");
        let stack = scene.stack(&["main", "|", "do_sys_poll", "schedule"]);
        scene.switch(500, 0, sleeper, TaskState::Sleeping, ThreadId::IDLE, stack);
        scene.wake(9_000, 0, ThreadId::IDLE, sleeper, WakeFlags::HARDIRQ, StackId::EMPTY);
        scene.switch(9_010, 0, ThreadId::IDLE, TaskState::Runnable, sleeper, StackId::EMPTY);
        let mut trace = scene.finish(CPUS, END_US);
        let hidden = Window::new(Time::from_nanos(start * 1000), Time::from_nanos((start + length) * 1000));
        trace.losses.push(Loss { cpu: 1, window: hidden, events: 7 });
        let analysis = Analysis::new(&trace, &Rules::default());
        let segments = analysis.segments(sleeper, analysis.timeline.window());
        let unknown: u64 = segments.iter().filter(|segment| segment.state == State::Unknown).map(|segment| segment.window.duration_ns()).sum();
        prop_assert_eq!(unknown, length * 1000);
    }
}
