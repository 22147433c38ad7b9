//! The figures of "I can't move my mouse", read from the file.

use crate::seen::Seen;
use std::collections::BTreeMap;
use unhitch_analysis::{Segment, State};
use unhitch_golden::{Golden, MouseFigures, move_my_mouse};
use unhitch_model::{ThreadId, Time, Trace, Window};

#[test]
fn one_lock_ends_63_seconds_of_waits_in_one() {
    let golden = move_my_mouse();
    let seen = Seen::on_linux(&golden);
    check(&golden, &seen);
    assert_eq!(seen.trace.by_kind["EXIT"], golden.figures.ended);
}

#[test]
fn windows_tells_the_same_of_one_lock() {
    let golden = move_my_mouse();
    check(&golden, &Seen::on_windows(&golden));
}

fn check(golden: &Golden<MouseFigures>, seen: &Seen) {
    let figures = &golden.figures;
    seen.is_sound();
    let window =
        Window::new(seen.time(figures.start_ns), seen.time(figures.start_ns + 1_125_000_000));
    let victim = seen.trace.threads.at(69_196, Time::ZERO).unwrap();
    assert_eq!(figures.victim, (72_392, 69_196));
    assert_eq!(
        (seen.trace.process_name(victim, window.start), seen.trace.threads.process_of(victim).pid),
        (&*seen.image("Taskmgr"), 72_392)
    );
    assert_eq!(figures.hang_ns, window.duration_ns());
    let longest = longest_wait(seen, victim, window);
    assert_eq!((longest.window.duration_ns(), figures.longest_wait_ns), (115_600_000, 115_600_000));
    check_chain(figures, seen, longest.wake().unwrap());
    check_releases(figures, seen, window);
    check_samples(figures, seen, window);

    let threads = seen.trace.threads.iter();
    let ended = threads
        .filter(|(_, thread)| thread.end.is_some_and(|end| window.contains(end)))
        .count() as u64;
    assert_eq!(ended, figures.ended);
    assert!(ended > 250);
}

/// The victim was called, and 1.125 s later it waited for its next message again; all it waited
/// for meanwhile was the lock.
fn longest_wait(seen: &Seen, victim: ThreadId, window: Window) -> Segment {
    let Trace { wakings, switches, .. } = &seen.trace;
    assert!(
        wakings
            .range(window)
            .any(|at| wakings.wakee[at] == victim && wakings.time[at] == window.start)
    );
    let back = switches
        .range(Window::new(window.end, window.end.plus(1)))
        .find(|&at| switches.prev[at] == victim)
        .unwrap();
    assert!(seen.has(switches.stack[back], "NtUserGetMessage"));
    let segments = seen.segments(victim, window).into_iter();
    let waits: Vec<Segment> =
        segments.filter(|segment| matches!(segment.state, State::Sleeping(_))).collect();
    assert!(waits.iter().all(|wait| {
        seen.own_names(wait.wait_stack(&seen.trace)).last().unwrap() == "EnterCrit"
    }));
    waits.into_iter().max_by_key(|wait| wait.window.duration_ns()).unwrap()
}

/// The chain, followed from wake-up to wake-up.
fn check_chain(figures: &MouseFigures, seen: &Seen, mut wake: usize) {
    let trace = &seen.trace;
    let mut links = Vec::new();
    for link in 0..7 {
        let (waker, time) = (trace.wakings.waker[wake], trace.wakings.time[wake]);
        let name = trace.thread_name(waker, time).to_owned();
        assert_eq!(
            (&name, trace.threads.get(waker).tid),
            (&seen.image(&figures.chain[link].0), figures.chain[link].1)
        );
        links.push(name);
        let before = trace.wakings.range(Window::new(Time::ZERO, time));
        wake = before.rev().find(|&at| trace.wakings.wakee[at] == waker).unwrap();
        let held_ns = time.since(trace.wakings.time[wake]);
        assert_eq!(held_ns, figures.link_ns[link]);
        let expected = if link < 5 { 0..20_000 } else { 100_000..400_000 };
        assert!(expected.contains(&held_ns), "{link}: {held_ns}");
    }
    assert_eq!(
        links,
        ["conhost", "mstsc", "TabTip", "UIforETW", "conhost", "gomacc", "gomacc"]
            .map(|name| seen.image(name))
    );
}

/// The function on the wake stacks, and the waits that its wake-ups ended.
fn check_releases(figures: &MouseFigures, seen: &Seen, window: Window) {
    let Trace { wakings, switches, .. } = &seen.trace;
    let mut left = BTreeMap::new();
    let (mut wakes, mut waited_ns, mut switch) = (0, 0, 0);
    for at in 0..wakings.len() {
        let time = wakings.time[at];
        while switch < switches.len() && switches.time[switch] < time {
            left.insert(switches.prev[switch], switches.time[switch]);
            switch += 1;
        }
        if seen.has(wakings.stack[at], "NtGdiCloseProcess") {
            assert!(window.contains(time));
            wakes += 1;
            waited_ns += time.since(left[&wakings.wakee[at]]);
        }
    }
    assert_eq!((wakes, waited_ns), (5_768, 63_300_000_000));
    assert_eq!((figures.wakes, figures.waited_ns), (wakes, waited_ns));
    assert_eq!(window.duration_ns() / wakes / 1_000, 195);
    assert_eq!(figures.mean_waiting().round(), 56.0);
}

/// Threads only compute there while they hold the lock, so it is 1,085 ms of one CPU; half of the
/// machine is idle.
fn check_samples(figures: &MouseFigures, seen: &Seen, window: Window) {
    let samples = &seen.trace.samples;
    let inside = (0..samples.len()).filter(|&at| seen.has(samples.stack[at], "NtGdiCloseProcess"));
    let inside: Vec<Time> = inside.map(|at| samples.time[at]).collect();
    assert_eq!((inside.len(), figures.samples_inside), (1_085, 1_085));
    assert!(inside.iter().all(|time| window.contains(*time)));
    assert_eq!(seen.trace.meta.sample_period_ns, 1_000_000);
    let idle = seen.analysis().cpus.idle_share(&seen.trace, window).unwrap();
    assert!((0.45..0.55).contains(&idle), "{idle}");
    assert!((idle - figures.idle_share()).abs() < 1e-9);
}
