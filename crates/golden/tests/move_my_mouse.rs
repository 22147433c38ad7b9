//! The figures of "I can't move my mouse", read from the file.

mod seen;

use seen::Seen;
use unhitch_analysis::State;
use unhitch_golden::{Golden, MouseFigures, move_my_mouse};
use unhitch_model::{Time, Window};

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
    let (trace, analysis) = (&seen.trace, seen.analysis());
    let window =
        Window::new(seen.time(figures.start_ns), seen.time(figures.start_ns + 1_125_000_000));
    let victim = trace.threads.at(69_196, Time::ZERO).unwrap();
    assert_eq!(figures.victim, (72_392, 69_196));
    assert_eq!(
        (trace.process_name(victim, window.start), trace.threads.process_of(victim).pid),
        (&*seen.image("Taskmgr"), 72_392)
    );

    // It was called, and 1.125 s later it waited for its next message again; all it waited for
    // meanwhile was the lock.
    let mine = seen.segments(victim, window);
    assert_eq!(figures.hang_ns, window.duration_ns());
    assert!(
        trace
            .wakings
            .range(window)
            .any(|at| trace.wakings.wakee[at] == victim && trace.wakings.time[at] == window.start)
    );
    let back = trace
        .switches
        .range(Window::new(window.end, window.end.plus(1)))
        .find(|&at| trace.switches.prev[at] == victim)
        .unwrap();
    assert!(seen.has(trace.switches.stack[back], "NtUserGetMessage"));
    let waits: Vec<_> =
        mine.iter().filter(|segment| matches!(segment.state, State::Sleeping(_))).collect();
    assert!(
        waits
            .iter()
            .all(|wait| seen.own_names(wait.wait_stack(trace)).last().unwrap() == "EnterCrit")
    );
    let longest = waits.iter().max_by_key(|wait| wait.window.duration_ns()).unwrap();
    assert_eq!((longest.window.duration_ns(), figures.longest_wait_ns), (115_600_000, 115_600_000));

    // The chain, followed from wake-up to wake-up.
    let mut wake = longest.wake.unwrap();
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
        let had = time.since(trace.wakings.time[wake]);
        assert_eq!(had, figures.link_ns[link]);
        assert!(
            if link < 5 { had < 20_000 } else { (100_000..400_000).contains(&had) },
            "{link}: {had}"
        );
    }
    assert_eq!(
        links,
        ["conhost", "mstsc", "TabTip", "UIforETW", "conhost", "gomacc", "gomacc"]
            .map(|name| seen.image(name))
    );

    // The function on the wake stacks, and the waits that its wake-ups ended.
    let mut left = std::collections::BTreeMap::new();
    let (mut wakes, mut waited_ns, mut switch) = (0, 0, 0);
    for at in 0..trace.wakings.len() {
        let time = trace.wakings.time[at];
        while switch < trace.switches.len() && trace.switches.time[switch] < time {
            left.insert(trace.switches.prev[switch], trace.switches.time[switch]);
            switch += 1;
        }
        if seen.has(trace.wakings.stack[at], "NtGdiCloseProcess") {
            assert!(window.contains(time));
            wakes += 1;
            waited_ns += time.since(left[&trace.wakings.wakee[at]]);
        }
    }
    assert_eq!((wakes, waited_ns), (5_768, 63_300_000_000));
    assert_eq!((figures.wakes, figures.waited_ns), (wakes, waited_ns));
    assert_eq!(window.duration_ns() / wakes / 1_000, 195);
    assert_eq!(figures.mean_waiting().round(), 56.0);

    // Nobody computes there but with the lock, so it is 1,085 ms of one CPU; half of the machine is
    // idle.
    let inside = (0..trace.samples.len())
        .filter(|&at| seen.has(trace.samples.stack[at], "NtGdiCloseProcess"));
    let inside: Vec<Time> = inside.map(|at| trace.samples.time[at]).collect();
    assert_eq!((inside.len(), figures.samples_inside), (1_085, 1_085));
    assert!(inside.iter().all(|time| window.contains(*time)));
    assert_eq!(trace.meta.sample_period_ns, 1_000_000);
    let idle = analysis.cpus.idle_share(trace, window).unwrap();
    assert!((0.45..0.55).contains(&idle), "{idle}");
    assert!((idle - figures.idle_share()).abs() < 1e-9);

    let ended = trace
        .threads
        .iter()
        .filter(|(_, thread)| thread.end.is_some_and(|end| window.contains(end)))
        .count() as u64;
    assert_eq!(ended, figures.ended);
    assert!(ended > 250);
}
