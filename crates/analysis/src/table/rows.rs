//! The rows of each table, from which its columns are computed.
//!
//! All tables share one [`Row`]: indices into the trace and a few sums. *Why one:* a column is then
//! one function for every table that has it.

use super::growths::Growth;
use super::{Cell, NONE};
use crate::Analysis;
use crate::diagnose::Stall;
use crate::timeline::{Segment, State};
use crate::user_marks::is_mark;
use rayon::prelude::*;
use unhitch_model::{StackId, TaskState, ThreadId, Time, Window};

/// The index that stands for none.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What a column needs to compute its cell of a row. What a table does not have is [`NOWHERE`] or
/// [`NONE`].
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// When it begins; for events, when it happened.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// Asleep; a CPU's idle time.
    pub slept_ns: Cell,
    /// Awake without a CPU.
    pub runnable_ns: Cell,
    /// On a CPU.
    pub ran_ns: Cell,
    /// Switches, of a thread or a CPU.
    pub switches: Cell,
    /// The row's thread; of a wake-up, the woken one.
    pub thread: ThreadId,
    /// The switch with which it left the CPU.
    pub out: u32,
    /// The wake-up.
    pub wake: u32,
    /// The row's index in the trace: of its switch-in, sample, event, stall or process. For a CPU,
    /// its number of events.
    pub index: u32,
    /// The stack that the row is about.
    pub stack: StackId,
    /// The CPU.
    pub cpu: u16,
    /// False when some of the time off the CPU is not known.
    pub known: bool,
}

impl Row {
    fn at(start: Time, end: Time, thread: ThreadId) -> Self {
        Self {
            start,
            end,
            slept_ns: NONE,
            runnable_ns: NONE,
            ran_ns: NONE,
            switches: NONE,
            thread,
            out: NOWHERE,
            wake: NOWHERE,
            index: NOWHERE,
            stack: StackId::EMPTY,
            cpu: u16::MAX,
            known: true,
        }
    }

    /// The sleep before the row's switch-in or wake-up, as the timeline has it.
    pub fn sleep(&self, analysis: &Analysis<'_>) -> Segment {
        let out = (self.out != NOWHERE).then_some(self.out as usize);
        let wake = (self.wake != NOWHERE).then_some(self.wake as usize);
        let begin = Window::new(self.start, self.start.plus(1));
        let earlier = match out {
            Some(_) => None,
            None => analysis.segments(self.thread, begin).iter().find_map(|sleep| sleep.earlier()),
        };
        let trace = analysis.trace;
        let state = match (out, earlier) {
            (Some(out), _) => trace.switches.prev_state.get(out).copied(),
            (None, earlier) => earlier.map(|earlier| trace.earlier_waits[earlier].state),
        };
        let state = State::Sleeping(state.unwrap_or(TaskState::Sleeping));
        let window = Window::new(self.start, self.end);
        Segment::new(window, state).with_out(out).with_earlier(earlier).with_wake(wake)
    }
}

/// The rows of every thread but the idle one.
pub(super) fn by_thread(
    analysis: &Analysis<'_>,
    rows: impl Fn(ThreadId) -> Vec<Row> + Sync + Send,
) -> Vec<Row> {
    (1..analysis.timeline.threads() as u32)
        .into_par_iter()
        .map(ThreadId)
        .flat_map_iter(rows)
        .collect()
}

fn ns(window: Window) -> Cell {
    Cell::try_from(window.duration_ns()).unwrap_or(Cell::MAX)
}

fn add(sum: &mut Cell, window: Window) {
    *sum = sum.saturating_add(ns(window));
}

fn small(index: Option<usize>) -> u32 {
    index.map_or(NOWHERE, |index| index as u32)
}

/// A row per switch-in inside `window`, with the whole time off the CPU before it.
pub(super) fn switches(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Row> {
    let trace = analysis.trace;
    let mut rows: Vec<Row> = Vec::new();
    let empty = Row { slept_ns: 0, runnable_ns: 0, ..Row::at(Time::ZERO, Time::ZERO, thread) };
    let (mut cycle, mut last) = (empty, NOWHERE);
    for segment in analysis.segments(thread, analysis.timeline.window()) {
        match segment.state {
            State::Ran | State::Unknown if segment.back().is_some() => {
                let back = small(segment.back());
                let ran = if segment.state == State::Ran { ns(segment.window) } else { NONE };
                if back == last {
                    // A loss hid the middle of one stretch on the CPU.
                    if let Some(row) =
                        rows.last_mut().filter(|row| row.index == back && row.ran_ns != NONE)
                    {
                        add(&mut row.ran_ns, segment.window);
                        row.end = segment.window.end;
                    }
                } else {
                    let at = trace.switches.time[back as usize];
                    if window.contains(at) {
                        let cpu = trace.switches.cpu[back as usize];
                        if !cycle.known {
                            // No time seen does not mean that there was none.
                            for sum in [&mut cycle.slept_ns, &mut cycle.runnable_ns] {
                                *sum = if *sum == 0 { NONE } else { *sum };
                            }
                        }
                        rows.push(Row {
                            start: at,
                            end: segment.window.end,
                            ran_ns: ran,
                            index: back,
                            cpu,
                            ..cycle
                        });
                    }
                    last = back;
                }
                cycle = Row { known: segment.state == State::Ran, ..empty };
            }
            State::Ran => cycle = empty,
            State::Unknown => cycle.known = false,
            State::Sleeping(_) | State::Runnable { .. } => {
                match segment.state {
                    State::Sleeping(_) => add(&mut cycle.slept_ns, segment.window),
                    _ => add(&mut cycle.runnable_ns, segment.window),
                }
                cycle.stack = segment.wait_stack(trace);
                (cycle.out, cycle.wake) = (small(segment.out()), small(segment.wake()));
            }
        }
    }
    rows
}

/// A row per switch-in outside the span that all CPUs cover. The time before it is unknown: the
/// thread may have run on a CPU that was not recorded.
pub(super) fn uncovered_switches(
    analysis: &Analysis<'_>,
    window: Window,
) -> impl Iterator<Item = Row> {
    let (switches, covered) = (&analysis.trace.switches, analysis.timeline.window());
    let outside = [
        Window::new(window.start, window.end.min(covered.start)),
        Window::new(window.start.max(covered.end), window.end),
    ];
    let row = |index: usize| {
        let row = Row::at(switches.time[index], switches.time[index], switches.next[index]);
        Row { index: index as u32, cpu: switches.cpu[index], known: false, ..row }
    };
    let ranges =
        outside.into_iter().filter(|part| !part.is_empty()).map(|part| switches.range(part));
    ranges.flatten().map(row).filter(|row| !row.thread.is_idle())
}

/// A row per sleep, clipped to `window`.
pub(super) fn waits(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Row> {
    let trace = analysis.trace;
    let mut rows: Vec<Row> = Vec::new();
    for segment in analysis.segments(thread, window) {
        let State::Sleeping(_) = segment.state else { continue };
        let out = small(segment.out());
        if let Some(row) = rows.last_mut().filter(|row| row.out == out && out != NOWHERE) {
            // A loss hid the middle of one sleep.
            add(&mut row.slept_ns, segment.window);
            (row.end, row.wake) = (segment.window.end, small(segment.wake()));
            continue;
        }
        rows.push(Row {
            slept_ns: ns(segment.window),
            out,
            wake: small(segment.wake()),
            stack: segment.wait_stack(trace),
            cpu: segment.out().map_or(u16::MAX, |out| trace.switches.cpu[out]),
            ..Row::at(segment.window.start, segment.window.end, thread)
        });
    }
    rows
}

/// A row per wake-up inside `window`, with the whole of the sleep that it ended.
pub(super) fn wakes(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let (trace, whole) = (analysis.trace, analysis.timeline.window());
    let ended: Vec<(u32, u32, Cell)> = (1..analysis.timeline.threads() as u32)
        .into_par_iter()
        .map(ThreadId)
        .flat_map_iter(|thread| waits(analysis, thread, whole))
        .filter(|row| row.wake != NOWHERE)
        .map(|row| (row.wake, row.out, row.slept_ns))
        .collect();
    let mut sleeps = vec![(NOWHERE, NONE); trace.wakings.len()];
    for (wake, out, slept_ns) in ended {
        sleeps[wake as usize] = (out, slept_ns);
    }
    trace
        .wakings
        .range(window)
        .map(|wake| {
            let time = trace.wakings.time[wake];
            let (out, slept_ns) = sleeps[wake];
            Row {
                slept_ns,
                out,
                wake: wake as u32,
                index: wake as u32,
                stack: trace.wakings.stack[wake],
                cpu: trace.wakings.cpu[wake],
                ..Row::at(time, time, trace.wakings.wakee[wake])
            }
        })
        .collect()
}

/// A row per sample inside `window`, except those of idle CPUs.
pub(super) fn samples(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let samples = &analysis.trace.samples;
    let row = |index: usize| Row {
        index: index as u32,
        stack: samples.stack[index],
        cpu: samples.cpu[index],
        ran_ns: match analysis.trace.meta.sample_period_ns {
            0 => NONE,
            period_ns => period_ns as Cell,
        },
        ..Row::at(samples.time[index], samples.time[index], samples.thread[index])
    };
    samples.range(window).filter(|&sample| samples.is_work(sample)).map(row).collect()
}

/// A row per event of any provider inside `window`.
pub(super) fn events(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let events = &analysis.trace.events;
    let row = |index: usize| Row {
        index: index as u32,
        stack: events.stack[index],
        cpu: events.cpu[index],
        ..Row::at(events.time[index], events.time[index], events.thread[index])
    };
    events.range(window).map(row).collect()
}

/// A row per mark inside `window`.
pub(super) fn marks(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let events = &analysis.trace.events;
    let kinds: Vec<bool> = events.kinds().map(|(_, kind)| is_mark(kind)).collect();
    let marked = |row: &Row| {
        let kind = events.kind[row.index as usize].0 as usize;
        kinds.get(kind).copied().unwrap_or(false)
    };
    self::events(analysis, window).into_iter().filter(marked).collect()
}

/// A row per stall with a part in `window`.
pub(super) fn stalls(stalls: &[Stall], window: Window) -> Vec<Row> {
    let row = |(index, stall): (usize, &Stall)| {
        let window = stall.explanation.window;
        Row { index: index as u32, ..Row::at(window.start, window.end, stall.candidate.victim) }
    };
    stalls
        .iter()
        .enumerate()
        .map(row)
        .filter(|row| Window::new(row.start, row.end).overlaps(window))
        .collect()
}

/// A row per process that lived in `window`; its life is that of its first thread.
pub(super) fn lifetimes(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let processes = analysis.trace.threads.processes().skip(1);
    let rows = processes.map(|(id, process)| {
        // On Windows, processes have start and end times of their own, and may outlive their first
        // thread.
        let of_its_own = || life(analysis, process.start, process.end);
        let life =
            if process.name.is_empty() { life_of(analysis, process.leader) } else { of_its_own() }
                .intersect(window);
        Row { index: id.0, ..Row::at(life.start, life.end, process.leader) }
    });
    rows.filter(|row| row.start < row.end).collect()
}

/// A row per counter between two readings.
pub(super) fn counters(growths: &[Growth]) -> Vec<Row> {
    let row = |(index, growth): (usize, &Growth)| Row {
        index: index as u32,
        ..Row::at(growth.from, growth.until, ThreadId::IDLE)
    };
    growths.iter().enumerate().map(row).collect()
}

/// A thread's life within the file: as recorded, else by its own events inside the span that all
/// CPUs cover.
fn life_of(analysis: &Analysis<'_>, thread: ThreadId) -> Window {
    let (seen, covered, known) = (
        analysis.timeline.life(thread),
        analysis.timeline.window(),
        analysis.trace.threads.get(thread),
    );
    let start = known.start.or((seen.start > covered.start).then_some(seen.start));
    let end = known.end.or((!seen.is_empty() && seen.end < covered.end).then_some(seen.end));
    life(analysis, start, end)
}

fn life(analysis: &Analysis<'_>, start: Option<Time>, end: Option<Time>) -> Window {
    let whole = analysis.trace.extent();
    Window::new(start.unwrap_or(whole.start), end.unwrap_or(whole.end))
}

/// A thread's row; none if it did not live in `window`.
pub(super) fn thread(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Row> {
    let inside = analysis.timeline.life(thread).intersect(window);
    if inside.is_empty() {
        let life = life_of(analysis, thread).intersect(window);
        // It lived only while some CPUs were not recorded: how it spent its time is unknown.
        return if life.is_empty() {
            Vec::new()
        } else {
            vec![Row::at(life.start, life.end, thread)]
        };
    }
    let life = inside;
    if analysis.trace.switches.is_empty() {
        return vec![Row::at(life.start, life.end, thread)];
    }
    let mut row = Row {
        slept_ns: 0,
        runnable_ns: 0,
        ran_ns: 0,
        switches: 0,
        ..Row::at(life.start, life.end, thread)
    };
    let mut last = None;
    for segment in analysis.segments(thread, window) {
        match segment.state {
            State::Ran => add(&mut row.ran_ns, segment.window),
            State::Runnable { .. } => add(&mut row.runnable_ns, segment.window),
            State::Sleeping(_) => add(&mut row.slept_ns, segment.window),
            State::Unknown => {}
        }
        let came_on =
            segment.back().filter(|back| window.contains(analysis.trace.switches.time[*back]));
        row.switches += Cell::from(came_on.is_some() && came_on != last);
        last = came_on.or(last);
    }
    vec![row]
}

/// A row per CPU.
pub(super) fn cpus(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let trace = analysis.trace;
    let cpus = trace
        .spans
        .iter()
        .map(|span| usize::from(span.cpu) + 1)
        .max()
        .unwrap_or(0)
        .max(analysis.cpus.cpus());
    let mut counts: Vec<(Cell, u32)> = vec![(0, 0); cpus];
    let mut count = |list: &[u16], is_switch: bool| {
        for &cpu in list {
            if let Some(slot) = counts.get_mut(usize::from(cpu)) {
                *slot = (slot.0 + Cell::from(is_switch), slot.1 + 1);
            }
        }
    };
    count(&trace.switches.cpu[trace.switches.range(window)], true);
    count(&trace.wakings.cpu[trace.wakings.range(window)], false);
    count(&trace.samples.cpu[trace.samples.range(window)], false);
    let row = |(cpu, (switches, events)): (usize, (Cell, u32))| {
        let mut row = Row {
            index: events,
            cpu: cpu as u16,
            ..Row::at(window.start, window.end, ThreadId::IDLE)
        };
        if trace.switches.is_empty() {
            return row;
        }
        (row.slept_ns, row.ran_ns, row.switches) = (0, 0, switches);
        for occupancy in analysis.cpus.occupancy(trace, row.cpu, window) {
            match occupancy.thread {
                Some(thread) if !thread.is_idle() => add(&mut row.ran_ns, occupancy.window),
                Some(_) => add(&mut row.slept_ns, occupancy.window),
                None => {}
            }
        }
        row
    };
    counts.into_iter().enumerate().map(row).collect()
}

/// How many samples show each CPU busy.
pub(super) fn cpu_samples(analysis: &Analysis<'_>, cpus: usize, window: Window) -> Vec<Cell> {
    let samples = &analysis.trace.samples;
    let mut counts = vec![0; cpus];
    for sample in samples.range(window).filter(|&sample| samples.is_work(sample)) {
        if let Some(count) = counts.get_mut(usize::from(samples.cpu[sample])) {
            *count += 1;
        }
    }
    counts
}
