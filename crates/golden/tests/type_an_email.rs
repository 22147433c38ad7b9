//! The figures of "I can't type an email", read from the file.

use crate::seen::Seen;
use unhitch_analysis::State;
use unhitch_analysis::user_marks::MarkKind;
use unhitch_golden::{Golden, TypeFigures, type_an_email};
use unhitch_model::{Time, Window};

#[test]
fn one_call_was_woken_440_times_and_439_times_in_vain() {
    let golden = type_an_email();
    check(&golden, &Seen::on_linux(&golden));
}

#[test]
fn windows_tells_the_same_of_one_call() {
    let golden = type_an_email();
    let seen = Seen::on_windows(&golden);
    check(&golden, &seen);
    let marks = seen.analysis().marks;
    assert_eq!(marks.len() as u64, golden.figures.keys);
    assert!(marks.iter().all(|mark| mark.kind == MarkKind::Key && mark.words.is_empty()));
}

fn check(golden: &Golden<TypeFigures>, seen: &Seen) {
    let figures = golden.figures;
    seen.is_sound();
    let (trace, analysis) = (&seen.trace, seen.analysis());
    let victim = trace.threads.at(figures.victim.1, Time::ZERO).unwrap();
    let window =
        Window::new(seen.time(figures.start_ns), seen.time(figures.start_ns + 2_810_000_000));
    assert_eq!(trace.thread_name(victim, window.start), "CrRendererMain");
    assert_eq!(
        (trace.process_name(victim, window.start), trace.threads.process_of(victim).pid),
        (&*seen.image("chrome"), 27_368)
    );

    // Switch-ins up to and including the one at the very end; all but that one left again on the
    // same stack.
    let until = window.end.plus(1);
    let switches = trace.switches.range(Window::new(window.start.plus(1), until));
    let ins: Vec<usize> =
        switches.clone().filter(|&at| trace.switches.next[at] == victim).collect();
    let outs: Vec<usize> = switches.filter(|&at| trace.switches.prev[at] == victim).collect();
    assert_eq!((ins.len(), outs.len()), (440, 439));
    assert_eq!((figures.switch_ins, figures.in_vain), (440, 439));
    assert_eq!(trace.switches.time[ins[439]], window.end);
    let wait = seen.segments(victim, window)[0].wait_stack(trace);
    assert!(outs.iter().all(|&at| trace.switches.stack[at] == wait));
    let names = seen.own_names(wait);
    let from = names.iter().position(|name| name == "VirtualAlloc").unwrap();
    let expected = [
        "VirtualAlloc",
        "NtAllocateVirtualMemory",
        "MiAllocateVirtualMemory",
        "MiCommitVadCfgBits",
        "ExAcquirePushLockExclusiveEx",
    ];
    assert_eq!(names[from..], expected);

    // Every wake-up of it is a release by the scanner, and was answered too late.
    let waker = trace.threads.at(figures.waker.1, Time::ZERO).unwrap();
    let wakes: Vec<usize> =
        trace.wakings.range(window).filter(|&at| trace.wakings.wakee[at] == victim).collect();
    assert_eq!((wakes.len(), figures.wakes_by_waker), (440, 440));
    for (&wake, &come) in wakes.iter().zip(&ins) {
        assert_eq!(trace.wakings.waker[wake], waker);
        let names = seen.own_names(trace.wakings.stack[wake]);
        assert_eq!(
            names[names.len() - 3..],
            ["GetProcessVaData", "NtQueryVirtualMemory", "ExfTryToWakePushLock"]
        );
        assert_ne!(trace.wakings.cpu[wake], trace.switches.cpu[come]);
        let late = trace.switches.time[come].since(trace.wakings.time[wake]);
        assert!(late >= figures.shortest_arrival_ns && late > figures.retake_ns, "{late}");
    }

    // The scanner has one CPU all the time, and is always found in the call that holds the lock.
    let ran: u64 = seen
        .segments(waker, window)
        .iter()
        .filter(|s| s.state == State::Ran)
        .map(|s| s.window.duration_ns())
        .sum();
    assert_eq!(ran, 2_810_000_000);
    let samples = seen.samples(waker, window);
    let inside = samples.iter().filter(|&&stack| seen.has(stack, "NtQueryVirtualMemory")).count();
    assert_eq!(
        (samples.len() as u64, inside as u64),
        (figures.waker_samples, figures.waker_samples_inside)
    );
    assert!(inside > 2_800);
    assert_eq!(trace.spans.len(), 48);
    let idle = analysis.cpus.idle_share(trace, window).unwrap();
    assert!((0.975..0.985).contains(&idle), "{idle}");
    assert!((idle - figures.idle_share()).abs() < 1e-9);
}
