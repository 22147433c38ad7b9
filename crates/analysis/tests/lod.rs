//! A view of a lane shows exactly its slices: nothing is counted twice, nothing is left out.

use crate::big;
use crate::scene::Scene;
use proptest::prelude::*;
use std::collections::BTreeMap;
use unhitch_analysis::lod::{Lane, LaneState, Lanes, Screen, View};
use unhitch_analysis::{Analysis, Cancel, Rules};
use unhitch_model::{Loss, ThreadId, Time, Trace, Window};

/// A slice of a lane, according to the timeline itself.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Slice {
    window: Window,
    state: LaneState,
    thread: Option<ThreadId>,
}

fn slices(analysis: &Analysis<'_>, lane: Lane) -> Vec<Slice> {
    let whole = analysis.timeline.window();
    match lane {
        Lane::Thread(thread) => {
            let segments = analysis.segments(thread, whole).into_iter();
            segments
                .map(|segment| Slice {
                    window: segment.window,
                    state: LaneState::of(analysis, &segment),
                    thread: None,
                })
                .collect()
        }
        Lane::Cpu(cpu) => {
            let state =
                |thread: ThreadId| if thread.is_idle() { LaneState::Idle } else { LaneState::Ran };
            let occupancy = analysis.cpus.occupancy(analysis.trace, cpu, whole);
            occupancy
                .map(|had| Slice {
                    window: had.window,
                    state: had.thread.map_or(LaneState::Unknown, state),
                    thread: had.thread,
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Compares a view with a walk over all slices.
fn check(lane: Lane, slices: &[Slice], view: &View, screen: &Screen) {
    let least = screen.min_whole_ns();
    let (whole, small): (Vec<Slice>, Vec<Slice>) = slices
        .iter()
        .filter(|slice| slice.window.overlaps(screen.window))
        .partition(|slice| slice.window.duration_ns() >= least);
    let shown: Vec<(Window, LaneState)> =
        view.slices.iter().map(|slice| (slice.window, slice.state)).collect();
    assert_eq!(
        shown,
        whole.iter().map(|slice| (slice.window, slice.state)).collect::<Vec<_>>(),
        "{lane:?} {screen:?}"
    );
    let mut cells = view.cells.iter();
    let mut sum = 0;
    for column in 0..screen.columns() {
        let pixel = Window::new(screen.edge(column), screen.edge(column + 1));
        let mut sums = [0u64; LaneState::COUNT];
        let mut longest = 0;
        for slice in small.iter().filter(|slice| slice.window.overlaps(pixel)) {
            let ns = slice.window.intersect(pixel).duration_ns();
            sums[slice.state as usize] += ns;
            longest = if slice.state == LaneState::Ran { longest.max(ns) } else { longest };
        }
        let ns: u64 = sums.iter().sum();
        if ns == 0 {
            continue;
        }
        let busy_ns = ns - sums[LaneState::Idle as usize] - sums[LaneState::Unknown as usize];
        let most = LaneState::ALL
            .into_iter()
            .filter(|state| busy_ns == 0 || state.is_busy())
            .map(|state| sums[state as usize])
            .max();
        let cell = cells.next().expect("a cell");
        assert_eq!(
            (cell.column, cell.ns, cell.busy_ns),
            (column, ns, busy_ns),
            "{lane:?} {screen:?}"
        );
        assert_eq!(Some(sums[cell.state as usize]), most);
        assert_eq!(cell.cover(screen) > 0, busy_ns > 0);
        if matches!(lane, Lane::Cpu(_)) {
            let by = |slice: &&Slice| slice.thread == cell.thread && slice.state == LaneState::Ran;
            let own = small
                .iter()
                .filter(by)
                .map(|slice| slice.window.intersect(pixel).duration_ns())
                .max();
            assert_eq!(if longest > 0 { own } else { None }, (longest > 0).then_some(longest));
        }
        sum += ns;
    }
    assert_eq!(cells.next(), None);
    // The whole slices and the cells sum to the lane's time on the screen.
    let whole_ns: u64 =
        view.slices.iter().map(|slice| slice.window.intersect(screen.window).duration_ns()).sum();
    let lane_ns: u64 =
        slices.iter().map(|slice| slice.window.intersect(screen.window).duration_ns()).sum();
    assert_eq!(whole_ns + sum, lane_ns);
}

fn small_trace(switches: usize) -> Trace {
    big::trace(&big::Size { switches, cpus: 3, threads: 12, stacks: 200, samples: switches / 10 })
}

fn lanes_of(analysis: &Analysis<'_>) -> Vec<Lane> {
    (0..3)
        .map(Lane::Cpu)
        .chain((1..analysis.timeline.threads() as u32).map(|id| Lane::Thread(ThreadId(id))))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn every_view_is_what_a_walk_finds(from in 0.0..1.0f64, zoom in 0..18u32, columns in 1..400u32, losses in 0..3u64) {
        let mut trace = small_trace(6_000);
        let whole = trace.common_window();
        trace.losses = (1..=losses).map(|part| {
            let start = whole.start.plus(whole.duration_ns() * part / 5);
            Loss { cpu: part as u16, window: Window::new(start, start.plus(whole.duration_ns() / 50)), events: 3 }
        }).collect();
        let analysis = Analysis::new(&trace, &Rules::default());
        let start = whole.start.plus((from * whole.duration_ns() as f64) as u64);
        let screen = Screen::new(Window::new(start, start.plus((whole.duration_ns() >> zoom) + 1)), columns);
        let lanes = lanes_of(&analysis);
        let pyramids = Lanes::new(&analysis);
        let views = pyramids.views(&analysis, &lanes, &screen, &Cancel::never()).expect("never given up");
        for (lane, view) in lanes.iter().zip(&views) {
            check(*lane, &slices(&analysis, *lane), view, &screen);
        }
    }
}

#[test]
fn long_lanes_are_climbed_as_well() {
    let trace = small_trace(200_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let (lanes, whole) = (Lanes::new(&analysis), analysis.timeline.window());
    for (columns, part) in [(7, 1), (300, 1), (1600, 3), (500, 40)] {
        let start = whole.start.plus(whole.duration_ns() / 7);
        let screen =
            Screen::new(Window::new(start, start.plus(whole.duration_ns() / part)), columns);
        for lane in [Lane::Cpu(0), Lane::Cpu(2), Lane::Thread(ThreadId(3))] {
            let view =
                lanes.view(&analysis, lane, &screen, &Cancel::never()).expect("never given up");
            check(lane, &slices(&analysis, lane), &view, &screen);
        }
    }
}

#[test]
fn shares_of_a_cpu_are_those_of_a_walk() {
    let trace = small_trace(20_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let whole = analysis.timeline.window();
    let ns = whole.duration_ns();
    let parts = [(0, ns), (0, 1), (ns / 7, ns / 2), (ns / 3, ns), (ns / 2, ns / 2 + 1_000_000)];
    let windows = parts.map(|(from, to)| Window::new(whole.start.plus(from), whole.start.plus(to)));
    let beyond = Window::new(whole.start.minus(1_000), whole.end.plus(1_000_000));
    for (window, cpu) in
        windows.into_iter().chain([beyond]).flat_map(|of| (0..4).map(move |cpu| (of, cpu)))
    {
        let shares = analysis.cpus.shares(&trace, cpu, window);
        let (mut expected, mut longest_ns) = (BTreeMap::<_, u64>::new(), 0);
        for had in analysis.cpus.occupancy(&trace, cpu, window) {
            let ns = had.window.duration_ns();
            *expected.entry(had.thread).or_default() += ns;
            if !had.thread.is_some_and(ThreadId::is_idle) {
                longest_ns = longest_ns.max(ns);
            }
        }
        assert_eq!(shares.ns.into_iter().collect::<BTreeMap<_, _>>(), expected, "{window:?} {cpu}");
        assert_eq!(shares.longest_busy_ns, longest_ns, "{window:?} {cpu}");
    }
}

#[test]
fn sums_are_those_of_a_walk() {
    let trace = small_trace(20_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let (lanes, whole) = (Lanes::new(&analysis), analysis.timeline.window());
    let threads = analysis.timeline.threads() as u32;
    for part in [1, 3, 4_000] {
        let start = whole.start.plus(if part == 1 { 0 } else { whole.duration_ns() / 7 });
        let window = Window::new(start, start.plus(whole.duration_ns() / part));
        let ran = lanes.ran(&analysis, window, &Cancel::never()).expect("never given up");
        let mut expected = vec![(0, 0); threads as usize];
        for cpu in 0..3 {
            let occupancy: Vec<_> = analysis.cpus.occupancy(&trace, cpu, whole).collect();
            let busy = occupancy.iter().filter(|had| {
                had.thread.is_some_and(|thread| !thread.is_idle()) && had.window.overlaps(window)
            });
            let mut busy_ns = 0;
            for had in busy {
                let (ns, sum) = (
                    had.window.intersect(window).duration_ns(),
                    &mut expected[had.thread.expect("busy").index()],
                );
                (sum.0, sum.1) = (sum.0 + ns, sum.1 + u64::from(window.contains(had.window.start)));
                busy_ns += ns;
            }
            assert_eq!(lanes.cpu_busy_ns(&analysis, cpu, window), busy_ns);
        }
        assert_eq!(ran.iter().map(|ran| (ran.ns, ran.times)).collect::<Vec<_>>(), expected);
    }
    let (thread, window) =
        (ThreadId(3), Window::new(whole.start.plus(whole.duration_ns() / 3), whole.end));
    assert_eq!(lanes.runnable_ns(thread, window), None, "its lane is not built");
    lanes.prepare_threads(&analysis, &Cancel::never()).expect("never given up");
    let segments = analysis.segments(thread, window).into_iter();
    let runnable =
        segments.filter(|segment| LaneState::of(&analysis, segment) == LaneState::Runnable);
    assert_eq!(
        lanes.runnable_ns(thread, window),
        Some(runnable.map(|segment| segment.window.duration_ns()).sum())
    );
}

#[test]
fn slices_name_their_events() {
    let trace = small_trace(3_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let lanes = Lanes::new(&analysis);
    let whole = analysis.timeline.window();
    // All of it in few columns, with few whole slices; and a part in many columns, where nearly all
    // slices are whole.
    for (part, columns) in [(1, 900), (60, 2_000)] {
        let screen = Screen::new(
            Window::new(whole.start, whole.start.plus(whole.duration_ns() / part)),
            columns,
        );
        for thread in (1..analysis.timeline.threads() as u32).map(ThreadId) {
            let view = lanes
                .view(&analysis, Lane::Thread(thread), &screen, &Cancel::never())
                .expect("never given up");
            for slice in &view.slices {
                let segments = analysis.segments(thread, whole);
                let own = segments
                    .iter()
                    .find(|segment| segment.window == slice.window)
                    .expect("a segment of that window");
                assert_eq!(
                    (slice.out, slice.wake, slice.back),
                    (own.out(), own.wake(), own.back()),
                    "{slice:?}"
                );
                if let Some(wake) = slice.wake {
                    let by_task = analysis.stacks.wake_source(&trace, wake).context.is_task();
                    assert_eq!(slice.thread, by_task.then(|| trace.wakings.waker[wake]));
                }
            }
        }
    }
    let screen =
        Screen::new(Window::new(whole.start, whole.start.plus(whole.duration_ns() / 100)), 4_000);
    let view =
        lanes.view(&analysis, Lane::Cpu(0), &screen, &Cancel::never()).expect("never given up");
    assert!(view.slices.len() > 3);
    for pair in view.slices.windows(2) {
        assert!(pair[0].window.end <= pair[1].window.start);
        if let (Some(out), Some(back)) = (pair[0].out, pair[1].back)
            && pair[0].window.end == pair[1].window.start
        {
            assert_eq!((out, Some(trace.switches.next[back])), (back, pair[1].thread));
            assert_eq!(trace.switches.time[back], pair[1].window.start);
        }
    }
}

#[test]
fn the_busy_curve_adds_up_to_what_ran() {
    let trace = small_trace(5_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let (lanes, whole) = (Lanes::new(&analysis), analysis.timeline.window());
    let wider = Window::new(whole.start, whole.end.plus(whole.duration_ns() / 3));
    for columns in [1, 10, 777] {
        let busy_ns = lanes
            .busy_ns(&analysis, &Screen::new(wider, columns), &Cancel::never())
            .expect("never given up");
        let ran = (0..3)
            .flat_map(|cpu| slices(&analysis, Lane::Cpu(cpu)))
            .filter(|slice| slice.state == LaneState::Ran);
        assert_eq!(
            busy_ns.iter().sum::<u64>(),
            ran.map(|slice| slice.window.duration_ns()).sum::<u64>()
        );
    }
}

#[test]
fn every_sample_is_shown_or_counted() {
    let trace = small_trace(5_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let (lanes, whole) = (Lanes::new(&analysis), analysis.timeline.window());
    for columns in [10, 300, 9_000] {
        let screen = Screen::new(whole, columns);
        let all: Vec<Lane> = (0..3).map(Lane::CpuSamples).collect();
        let views =
            lanes.views(&analysis, &all, &screen, &Cancel::never()).expect("never given up");
        let shown: usize = views.iter().map(|view| view.slices.len()).sum();
        let counted: u32 = views.iter().flat_map(|view| &view.cells).map(|cell| cell.samples).sum();
        assert_eq!(shown + counted as usize, trace.samples.len());
        let columns: Vec<u32> = views[0].cells.iter().map(|cell| cell.column).collect();
        assert!(columns.is_sorted());
    }
}

#[test]
fn work_that_nobody_waits_for_ends() {
    let trace = small_trace(100);
    let analysis = Analysis::new(&trace, &Rules::default());
    let lanes = Lanes::new(&analysis);
    let cancel = Cancel::never();
    cancel.give_up();
    let screen = Screen::new(analysis.timeline.window(), 100);
    assert!(lanes.view(&analysis, Lane::Cpu(0), &screen, &cancel).is_err());
    assert!(lanes.prepare_threads(&analysis, &cancel).is_err());
    assert_eq!(lanes.size(), (0, 0));
}

#[test]
fn lanes_that_are_not_there_are_empty() {
    let trace = Trace::default();
    let analysis = Analysis::new(&trace, &Rules::default());
    let lanes = Lanes::new(&analysis);
    for window in [Window::default(), Window::new(Time::from_nanos(5), Time::MAX)] {
        let screen = Screen::new(window, 0);
        for lane in [
            Lane::Cpu(7),
            Lane::Thread(ThreadId(9)),
            Lane::Thread(ThreadId::IDLE),
            Lane::CpuSamples(1),
            Lane::ThreadSamples(ThreadId(9)),
        ] {
            assert_eq!(lanes.view(&analysis, lane, &screen, &Cancel::never()), Ok(View::default()));
        }
    }
}

/// A damaged time makes a window of centuries, for which there is no memory.
#[test]
fn a_curve_has_only_so_many_buckets() {
    let trace = Scene::default().finish(1, 1_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let curve = |end: u64| {
        let window = Window::new(Time::ZERO, Time::from_nanos(end));
        analysis.cpus.busy_curve(&trace, window, 1_000_000).len()
    };
    assert_eq!([curve(10_000_000), curve(u64::MAX)], [10, 0]);
}
