//! The figures of "63 cores blocked by seven instructions", read from the file.

use crate::seen::Seen;
use std::collections::BTreeMap;
use unhitch_analysis::State;
use unhitch_golden::{BuildFigures, Golden, LOOP_OFFSETS, sixty_three_cores};
use unhitch_model::{ThreadId, Time, Trace, Window};

/// CPUs with a thread from each switch on.
fn busy(trace: &Trace) -> Vec<(Time, usize)> {
    let switches = &trace.switches;
    // Whoever leaves a CPU first was there from the start; every CPU has switches.
    let mut on: BTreeMap<u16, bool> = BTreeMap::new();
    for at in 0..switches.len() {
        on.entry(switches.cpu[at]).or_insert(!switches.prev[at].is_idle());
    }
    let mut count = on.values().filter(|busy| **busy).count();
    let mut curve = vec![(Time::ZERO, count)];
    for at in 0..switches.len() {
        count += usize::from(switches.prev[at].is_idle());
        count -= usize::from(switches.next[at].is_idle());
        curve.push((switches.time[at], count));
    }
    curve
}

#[test]
fn one_thread_holds_the_lock_and_174_wait_to_write() {
    let golden = sixty_three_cores();
    let seen = Seen::on_linux(&golden);
    check(&golden, &seen);
    assert_eq!(seen.trace.meta.sample_period_ns, golden.figures.sample_period_ns);
}

#[test]
fn windows_tells_the_same_of_one_thread() {
    let golden = sixty_three_cores();
    let seen = Seen::on_windows(&golden);
    check(&golden, &seen);
    // Windows records the period in units of 100 ns.
    assert!(seen.trace.meta.sample_period_ns.abs_diff(golden.figures.sample_period_ns) <= 50);
}

fn check(golden: &Golden<BuildFigures>, seen: &Seen) {
    let figures = &golden.figures;
    seen.is_sound();
    let trace = &seen.trace;
    let start = seen.time(figures.start_ns);
    let hold = Window::new(start, start.plus(3_368_000_000));
    assert_eq!(figures.hold_ns, hold.duration_ns());
    let holder = trace.threads.at(3_276, Time::ZERO).unwrap();
    assert_eq!(
        (trace.process_name(holder, start), trace.threads.process_of(holder).pid, figures.holder),
        ("System", 4, (4, 3_276))
    );
    check_busy_cpus(figures, trace, hold);
    check_chain(figures, seen, holder, hold);
    check_loop(figures, seen, holder, hold);

    // Processes end before and after, not in the fall.
    let ends: Vec<Time> = trace.threads.iter().filter_map(|(_, thread)| thread.end).collect();
    assert_eq!((ends.len() as u64, figures.ended_in_fall), (figures.ended, 0));
    assert!(!ends.is_empty() && ends.iter().all(|end| !hold.contains(*end)));
}

/// The time from the release until the machine was busy again, inclusive.
fn recovery(hold: Window) -> Window {
    Window::new(hold.end, hold.end.plus(12_000_001))
}

/// 64 CPUs, 2 or 3 after half a second, all again twelve milliseconds after the release.
fn check_busy_cpus(figures: &BuildFigures, trace: &Trace, hold: Window) {
    let curve = busy(trace);
    let at = |time: Time| curve[curve.partition_point(|(from, _)| *from <= time) - 1].1;
    assert_eq!((trace.meta.cpus, at(hold.start), figures.busy_before), (64, 64, 64));
    let fall = hold.start.plus(500_000_000);
    let meanwhile: Vec<usize> = curve
        .iter()
        .filter(|(time, _)| (fall..hold.end).contains(time))
        .map(|(_, busy)| *busy)
        .collect();
    assert_eq!((meanwhile.iter().min(), meanwhile.iter().max()), (Some(&2), Some(&3)));
    assert_eq!(figures.busy_meanwhile, (2, 3));
    let recovered = hold.end.plus(12_000_000);
    assert!(curve.iter().filter(|(time, _)| *time >= recovered).all(|(_, busy)| *busy == 64));
    assert_eq!(at(recovered), 64);
    assert!(at(hold.end.plus(2_000_000)) < 32 && figures.recovery_ns < 12_000_000);
    let switches = trace.switches.range(recovery(hold)).len();
    assert_eq!((switches, figures.recovery_switches), (500, 500));
}

/// The chain: from the holder to the first, from it to the second, and so on.
fn check_chain(figures: &BuildFigures, seen: &Seen, holder: ThreadId, hold: Window) {
    let Trace { wakings, switches, .. } = &seen.trace;
    let mut left = BTreeMap::new();
    let mut switch = 0;
    let (mut chain, mut link, mut writers, mut waited_ns) = (Vec::new(), holder, 0, 0);
    for wake in 0..wakings.len() {
        let (time, waker, wakee) = (wakings.time[wake], wakings.waker[wake], wakings.wakee[wake]);
        while switch < switches.len() && switches.time[switch] < time {
            left.insert(switches.prev[switch], (switches.time[switch], switches.stack[switch]));
            switch += 1;
        }
        if !recovery(hold).contains(time) {
            continue;
        }
        let (since, stack) = left.get(&wakee).copied().unwrap_or_default();
        if seen.has(stack, "WriteFile") {
            (writers, waited_ns) = (writers + 1, waited_ns + time.since(since));
        }
        if waker == link
            && seen.has(stack, "ExAcquireResourceExclusiveLite")
            && seen.has(wakings.stack[wake], "ExReleaseResourceLite")
        {
            chain.push((wakee, time, time.since(since)));
            link = wakee;
        }
    }
    let first_moment = Window::new(hold.end, hold.end.plus(1));
    assert_eq!((chain[0].1, wakings.range(first_moment).len()), (hold.end, 1));
    let pid = |thread: ThreadId| seen.trace.threads.process_of(thread).pid;
    let shown: Vec<(u32, u64)> =
        chain.iter().map(|(thread, _, waited)| (pid(*thread), *waited)).collect();
    assert_eq!(shown, figures.chain);
    assert_eq!((shown[0].0, shown[0].1 / 1_000_000), (3_032, 3_367));
    assert_eq!(shown[0].1.div_ceil(1_000_000), 3_368);
    assert_eq!((shown[1].0, shown[1].1 / 1_000_000), (16_232, 3_367));
    assert!(chain[1].1.since(chain[0].1) < 100_000);
    assert_eq!(chain.len(), 102);
    assert_eq!((writers, waited_ns), (174, 174 * 1_184_000_000));
    assert_eq!((figures.writers, figures.mean_wait_ns()), (174, 1_184_000_000));
}

/// The holder never left its CPU, and its samples are in the loop.
fn check_loop(figures: &BuildFigures, seen: &Seen, holder: ThreadId, hold: Window) {
    let trace = &seen.trace;
    let ran = seen.segments(holder, hold);
    assert!(ran.len() == 1 && ran[0].state == State::Ran);
    let mut by_offset = BTreeMap::new();
    for stack in seen.samples(holder, hold) {
        assert_eq!(trace.stack_names(stack).last().unwrap(), "RtlFindNextForwardRunClear");
        assert!(seen.has(stack, "NtfsCheckpointVolume"));
        let leaf = trace.stacks.frame(trace.stacks.frames_of(stack)[0]).unwrap();
        *by_offset.entry(leaf.offset & 0xff).or_insert(0) += 1;
    }
    let counted = LOOP_OFFSETS.map(|offset| by_offset.remove(&offset).unwrap_or(0));
    assert_eq!((counted, by_offset.len()), ([4, 41, 0, 7_498, 2, 1, 1], 0));
    assert_eq!(figures.loop_samples, counted);
    assert_eq!(figures.sample_period_ns, 3_368_000_000 / 7_547);
}

#[test]
fn a_trace_is_the_same_every_time() {
    let (one, other) = (sixty_three_cores(), sixty_three_cores());
    assert!(one.perf_data == other.perf_data && one.etl() == other.etl());
}
