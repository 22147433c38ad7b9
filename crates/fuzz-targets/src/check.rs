//! Invariants that hold for every trace, whatever bytes it was read from.

use unhitch_analysis::{Analysis, Rules, answer, repair};
use unhitch_model::{FrameId, StackId, ThreadId, Time, Trace, Window};

/// Maximum number of threads that are explained. A fuzzer's trace may name one per event.
const MAX_EXPLAINED: usize = 3;

fn by_time(what: &str, times: &[Time]) {
    assert!(times.is_sorted(), "{what} are not by time");
}

/// Checks that columns have equal lengths and are by time, that ids are valid, and that every name
/// and field can be read.
///
/// # Panics
/// If any of that does not hold.
pub fn trace(trace: &Trace) {
    columns(trace);
    ids(trace);
    let events = &trace.events;
    assert!(trace.losses.is_sorted_by_key(|loss| loss.window.start), "losses are not by time");
    for event in 0..events.len() {
        let Some(kind) = events.kind_of(event) else { panic!("an event of no kind") };
        for (field, value) in kind.layout.fields.iter().zip(events.fields(event)) {
            let _ = value.1.to_string();
            let _ = field
                .map
                .map(|map| events.value_name(map, &value.1, |name| trace.name(name).to_owned()));
        }
    }
    let window = trace.common_window();
    assert!(window.start <= window.end, "the common window ends before it begins");
    assert!(trace.warnings.lines().all(|line| !line.is_empty()), "an empty warning");
}

/// Columns have equal lengths and are by time.
fn columns(trace: &Trace) {
    let Trace { switches, wakings, samples, contentions, events, .. } = trace;
    by_time("switches", &switches.time);
    by_time("wakings", &wakings.time);
    by_time("samples", &samples.time);
    by_time("arrivals", &trace.arrivals.time);
    by_time("migrations", &trace.migrations.time);
    by_time("contentions", &contentions.time);
    by_time("events", &events.time);
    let len = switches.time.len();
    let lens = [
        switches.cpu.len(),
        switches.prev.len(),
        switches.next.len(),
        switches.prev_state.len(),
        switches.stack.len(),
    ];
    assert_eq!(lens, [len; 5], "columns of switches");
    let len = wakings.time.len();
    let lens = [
        wakings.cpu.len(),
        wakings.waker.len(),
        wakings.wakee.len(),
        wakings.target_cpu.len(),
        wakings.stack.len(),
    ];
    assert_eq!(lens, [len; 5], "columns of wakings");
    let lens = [samples.cpu.len(), samples.thread.len(), samples.stack.len()];
    assert_eq!(lens, [samples.time.len(); 3], "columns of samples");
    let lens = [
        contentions.thread.len(),
        contentions.kind.len(),
        contentions.lock_avma.len(),
        contentions.stack.len(),
    ];
    assert_eq!(lens, [contentions.time.len(); 4], "columns of contentions");
}

/// Ids are valid, and every frame can be named.
fn ids(trace: &Trace) {
    let Trace { switches, wakings, samples, contentions, .. } = trace;
    let threads = [
        &switches.prev,
        &switches.next,
        &wakings.waker,
        &wakings.wakee,
        &samples.thread,
        &contentions.thread,
    ];
    let threads =
        threads.into_iter().chain([&trace.arrivals.thread, &trace.migrations.thread]).flatten();
    assert!(
        threads.into_iter().all(|thread| thread.index() < trace.threads.len()),
        "a thread that is not there"
    );
    let stacks =
        [&switches.stack, &wakings.stack, &samples.stack, &contentions.stack].into_iter().flatten();
    assert!(
        stacks.into_iter().all(|stack| stack.index() < trace.stacks.len()),
        "a stack that is not there"
    );
    for stack in 0..trace.stacks.len() {
        let id = StackId(stack as u32);
        let frames = trace.stacks.frames_of(id);
        assert!(trace.stacks.kernel_len(id) <= frames.len(), "more kernel frames than frames");
        assert!(
            frames.iter().all(|frame| trace.stacks.frame(*frame).is_some()),
            "a frame that is not there"
        );
    }
    for (index, frame) in trace.stacks.frames().iter().enumerate() {
        assert!(trace.modules.get(frame.module).is_some(), "a module that is not there");
        let _ = trace.frame_names(FrameId(index as u32));
    }
}

/// Checks that two readings of the same bytes are equal.
///
/// # Panics
/// If they are not.
pub fn same(a: &Trace, b: &Trace) {
    let seen = |trace: &Trace| {
        let rows = format!(
            "{:?} {:?} {:?} {:?}",
            trace.switches, trace.wakings, trace.samples, trace.contentions
        );
        let warnings: Vec<String> = trace.warnings.lines().collect();
        let stacks: Vec<Vec<String>> =
            (0..trace.stacks.len()).map(|stack| trace.stack_names(StackId(stack as u32))).collect();
        let events = format!("{:?} {:?}", trace.events.time, trace.events.kind);
        (
            rows,
            warnings,
            stacks,
            events,
            format!("{:?} {:?} {:?}", trace.spans, trace.losses, trace.meta),
        )
    };
    assert_eq!(seen(a), seen(b), "two readings differ");
}

/// Checks that the partitions of some threads' time are gapless and sum up exactly, and that the
/// answer and its JSON can be written. Skips a trace longer than `max_ns`.
///
/// # Panics
/// If any of that does not hold.
pub fn answers(mut trace: Trace, rules: &Rules, max_ns: u64) {
    repair(&mut trace);
    self::trace(&trace);
    let analysis = Analysis::new(&trace, rules);
    let window = analysis.timeline.window();
    if window.duration_ns() > max_ns {
        return;
    }
    for thread in (1..trace.threads.len()).take(MAX_EXPLAINED) {
        partition(&analysis, ThreadId(thread as u32), window);
    }
    let stalls = unhitch_analysis::diagnose(&analysis, &Default::default());
    answer::text(&analysis, &stalls, 3);
    answer::Why::new(&analysis, "fuzzed", &stalls, 3);
}

fn partition(analysis: &Analysis<'_>, thread: ThreadId, window: Window) {
    let expected = window.intersect(analysis.timeline.life(thread));
    let mut at = expected.start;
    for segment in analysis.segments(thread, window) {
        assert_eq!(segment.window.start, at, "a gap or an overlap between segments");
        at = segment.window.end;
    }
    assert_eq!(at, expected.end.max(expected.start), "segments end early");
    let explanation = unhitch_analysis::explain::explain(analysis, thread, window);
    let pieces: u64 = explanation.pieces.iter().map(|piece| piece.window.duration_ns()).sum();
    let shares: u64 = unhitch_analysis::explain::partition(analysis, &explanation)
        .iter()
        .map(|share| share.ns)
        .sum();
    assert_eq!(
        (pieces, shares),
        (expected.duration_ns(), expected.duration_ns()),
        "a partition that does not sum"
    );
}
