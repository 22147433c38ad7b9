//! The rows of each table, as what its columns are computed from.
//!
//! All tables share one [`Row`] of indices into the trace and a few sums, so that a column is one
//! function for every table that has it.

use super::column::StackKind;
use super::{Cell, NONE, Name};
use crate::diagnose::{Query, Stall, diagnose};
use crate::stacks::rules::WaitClass;
use crate::timeline::{Segment, State};
use crate::{Analysis, WakeContext};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use unhitch_model::{FrameId, StackId, TaskState, ThreadId, Time, Window};

/// An index that points nowhere.
pub(super) const NOWHERE: u32 = u32::MAX;

/// One row: what a column needs to compute its cell. What a table does not have is [`NOWHERE`] or
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
    /// Whose row it is; of a wake-up, who was woken.
    pub thread: ThreadId,
    /// The switch with which it left the CPU.
    pub out: u32,
    /// The wake-up.
    pub wake: u32,
    /// The row's own number in its source: switch-in, sample, stall, process; a CPU's number of
    /// events.
    pub index: u32,
    /// The stack that the row is about.
    pub stack: StackId,
    /// On which CPU.
    pub cpu: u16,
    /// False when some of the time off the CPU is not known.
    pub known: bool,
}

impl Row {
    pub(super) fn at(start: Time, end: Time, thread: ThreadId) -> Self {
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
}

/// The rows of one table of one trace, and what turns them into cells.
pub(super) struct Source<'a> {
    pub analysis: &'a Analysis<'a>,
    pub name: Name,
    pub window: Window,
    pub rows: Vec<Row>,
    pub stalls: Arc<Vec<Stall>>,
    /// Of the table of CPUs: how many samples show each at work.
    cpu_samples: Vec<Cell>,
    texts: RwLock<Texts>,
    /// By their numbers: the cells of the classes' names, which millions of rows have.
    classes: [OnceLock<Cell>; WaitClass::COUNT],
    /// Of waits, of wake-ups, of samples: for each stack the first that prints the same.
    same: [OnceLock<Vec<StackId>>; 3],
}

/// Texts that are not names of the trace.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
    ids: FxHashMap<String, Cell>,
}

/// Ids from here on are texts of the table, below it names of the trace.
const OWN_TEXTS: Cell = 1 << 32;

impl<'a> Source<'a> {
    /// Collects the rows of a table inside `window`: events wherever they lie, sums of time inside
    /// the span that all CPUs cover.
    pub fn new(analysis: &'a Analysis<'a>, name: Name, window: Window) -> Self {
        let window = if name.holds_uncovered() {
            window
        } else {
            window.intersect(analysis.timeline.window())
        };
        let rows = match name {
            Name::Switches => {
                let mut rows = by_thread(analysis, |thread| switches(analysis, thread, window));
                rows.extend(uncovered_switches(analysis, window));
                rows
            }
            Name::Waits => by_thread(analysis, |thread| waits(analysis, thread, window)),
            Name::Wakes => wakes(analysis, window),
            Name::Samples => samples(analysis, window),
            Name::Events => super::events::rows(analysis, window),
            Name::Stalls => {
                let narrowed = (window != analysis.timeline.window()).then_some(window);
                let stalls = diagnose(analysis, &Query { victims: Vec::new(), window: narrowed });
                return Self::of_stalls(analysis, Arc::new(stalls), window);
            }
            Name::Lifetimes => lifetimes(analysis, window),
            Name::Threads => by_thread(analysis, |thread| this_thread(analysis, thread, window)),
            Name::Cpus => cpus(analysis, window),
        };
        let cpu_samples =
            if name == Name::Cpus { cpu_samples(analysis, rows.len(), window) } else { Vec::new() };
        Self { cpu_samples, ..Self::of(analysis, name, window, rows) }
    }

    /// The table of those of `stalls` that have a part in `window`.
    pub fn of_stalls(analysis: &'a Analysis<'a>, stalls: Arc<Vec<Stall>>, window: Window) -> Self {
        let rows = stalls
            .iter()
            .enumerate()
            .map(stall)
            .filter(|row| Window::new(row.start, row.end).overlaps(window))
            .collect();
        Self { stalls, ..Self::of(analysis, Name::Stalls, window, rows) }
    }

    fn of(analysis: &'a Analysis<'a>, name: Name, window: Window, rows: Vec<Row>) -> Self {
        let (texts, classes, same) = Default::default();
        Self {
            analysis,
            name,
            window,
            rows,
            stalls: Arc::default(),
            cpu_samples: Vec::new(),
            texts,
            classes,
            same,
        }
    }

    /// True for a row outside the span that all CPUs cover.
    pub fn is_outside(&self, row: &Row) -> bool {
        let covered = self.analysis.timeline.window();
        match self.name {
            _ if !self.name.holds_uncovered() => false,
            Name::Lifetimes | Name::Threads => {
                row.start != row.end && !Window::new(row.start, row.end).overlaps(covered)
            }
            _ => !covered.contains(row.start),
        }
    }

    /// How many samples show a row's thread or CPU at work, in a table that counts them; none where
    /// no samples were recorded.
    pub fn samples(&self, row: &Row) -> Cell {
        let Analysis { trace, samples, .. } = self.analysis;
        match self.name {
            _ if trace.samples.is_empty() => NONE,
            Name::Cpus => self.cpu_samples.get(usize::from(row.cpu)).copied().unwrap_or(0),
            _ => {
                samples.of_thread(trace, row.thread, Window::new(row.start, row.end)).len() as Cell
            }
        }
    }

    /// The time that those samples stand for; none where the time between samples is not known.
    pub fn sampled_ns(&self, row: &Row) -> Cell {
        match (self.samples(row), self.analysis.trace.meta.sample_period_ns as Cell) {
            (NONE, _) | (_, 0) => NONE,
            (samples, period_ns) => samples.saturating_mul(period_ns),
        }
    }

    /// The cell for a text.
    pub fn text(&self, text: &str) -> Cell {
        if let Some(name) = self.analysis.trace.strings.find(text) {
            return Cell::from(name.0);
        }
        if let Some(&id) = self.texts.read().unwrap_or_else(PoisonError::into_inner).ids.get(text) {
            return id;
        }
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        let id = OWN_TEXTS + texts.list.len() as Cell;
        if let Some(&known) = texts.ids.get(text) {
            return known;
        }
        texts.list.push(text.to_owned());
        texts.ids.insert(text.to_owned(), id);
        id
    }

    /// The cell for a class of waits.
    pub fn class(&self, class: WaitClass) -> Cell {
        *self.classes[class as usize].get_or_init(|| self.text(class.name()))
    }

    /// Calls `read` with the text of a cell.
    pub fn with_text<R>(&self, cell: Cell, read: impl FnOnce(&str) -> R) -> R {
        match (u32::try_from(cell), usize::try_from(cell - OWN_TEXTS.min(cell))) {
            (Ok(name), _) => read(self.analysis.trace.name(unhitch_model::NameId(name))),
            (_, Ok(own)) if cell >= OWN_TEXTS => {
                let texts = self.texts.read().unwrap_or_else(PoisonError::into_inner);
                read(texts.list.get(own).map_or("", String::as_str))
            }
            _ => read(""),
        }
    }

    /// The frames of a stack that mean something, leaf first: without the scheduler's, and of an
    /// interrupt without the bystander's.
    pub fn frames(&self, kind: StackKind, stack: StackId) -> &'a [FrameId] {
        frames(self.analysis, kind, stack)
    }

    /// The first stack that reads the same: of equal functions, whatever the addresses in them.
    pub fn same(&self, kind: StackKind, stack: StackId) -> StackId {
        let place = match kind {
            StackKind::Wait => 0,
            StackKind::Wake => 1,
            StackKind::Sample => 2,
        };
        let firsts = self.same[place].get_or_init(|| {
            let all = 0..self.analysis.trace.stacks.len() as u32;
            let hashes: Vec<u64> = all
                .clone()
                .into_par_iter()
                .map(|stack| self.hash_of(kind, StackId(stack)))
                .collect();
            let mut first_of: FxHashMap<u64, StackId> = FxHashMap::default();
            all.zip(hashes)
                .map(|(stack, hash)| *first_of.entry(hash).or_insert(StackId(stack)))
                .collect()
        });
        firsts.get(stack.index()).copied().unwrap_or(stack)
    }

    /// Equal for stacks of equal functions.
    fn hash_of(&self, kind: StackKind, stack: StackId) -> u64 {
        let mut hasher = FxHasher::default();
        for &frame in self.frames(kind, stack) {
            match self.analysis.trace.symbols.get(frame).last() {
                Some(symbol) => (true, symbol.function.0).hash(&mut hasher),
                None => (false, frame.0).hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    /// When a row's thread had the name that is shown.
    pub fn named_at(&self, row: &Row) -> Time {
        if matches!(self.name, Name::Lifetimes | Name::Threads | Name::Stalls) {
            row.end
        } else {
            row.start
        }
    }

    /// The sleep before a row's switch-in or wake-up, as the timeline has it.
    pub fn sleep(&self, row: &Row) -> Segment {
        let out = (row.out != NOWHERE).then_some(row.out as usize);
        let state = out
            .and_then(|out| self.analysis.trace.switches.prev_state.get(out))
            .copied()
            .unwrap_or(TaskState::Sleeping);
        let wake = (row.wake != NOWHERE).then_some(row.wake as usize);
        Segment {
            window: Window::new(row.start, row.end),
            state: State::Sleeping(state),
            out,
            wake,
            back: None,
        }
    }

    /// The row's wake-up: its number, and whether the waker is to be held responsible.
    pub fn waking(&self, row: &Row) -> Option<(usize, WakeContext)> {
        let wake = (row.wake != NOWHERE).then_some(row.wake as usize)?;
        Some((wake, self.analysis.stacks.wake_source(self.analysis.trace, wake).context))
    }
}

/// The frames of a stack that mean something, leaf first.
pub(super) fn frames<'a>(
    analysis: &Analysis<'a>,
    kind: StackKind,
    stack: StackId,
) -> &'a [FrameId] {
    let all = match kind {
        StackKind::Wake => analysis.stacks.own_frames(analysis.trace, stack),
        StackKind::Wait | StackKind::Sample => analysis.trace.stacks.frames_of(stack),
    };
    let noise = if kind == StackKind::Sample { 0 } else { analysis.stacks.noise_len(stack) };
    if noise < all.len() { &all[noise..] } else { all }
}

fn by_thread(
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

/// A row per switch-in inside `window`, with the whole of what came before it.
fn switches(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Row> {
    let trace = analysis.trace;
    let mut rows: Vec<Row> = Vec::new();
    let empty = Row { slept_ns: 0, runnable_ns: 0, ..Row::at(Time::ZERO, Time::ZERO, thread) };
    let (mut trip, mut last) = (empty, NOWHERE);
    for segment in analysis.segments(thread, analysis.timeline.window()) {
        match segment.state {
            State::Ran | State::Unknown if segment.back.is_some() => {
                let back = small(segment.back);
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
                        if !trip.known {
                            // Nothing seen is not nothing.
                            for sum in [&mut trip.slept_ns, &mut trip.runnable_ns] {
                                *sum = if *sum == 0 { NONE } else { *sum };
                            }
                        }
                        rows.push(Row {
                            start: at,
                            end: segment.window.end,
                            ran_ns: ran,
                            index: back,
                            cpu,
                            ..trip
                        });
                    }
                    last = back;
                }
                trip = Row { known: segment.state == State::Ran, ..empty };
            }
            State::Ran => trip = empty,
            State::Unknown => trip.known = false,
            State::Sleeping(_) | State::Runnable { .. } => {
                match segment.state {
                    State::Sleeping(_) => add(&mut trip.slept_ns, segment.window),
                    _ => add(&mut trip.runnable_ns, segment.window),
                }
                trip.stack = segment.wait_stack(trace);
                (trip.out, trip.wake) = (small(segment.out), small(segment.wake));
            }
        }
    }
    rows
}

/// A row per switch-in outside the span that all CPUs cover. What came before it is not known: it
/// may have been on another CPU.
fn uncovered_switches(analysis: &Analysis<'_>, window: Window) -> impl Iterator<Item = Row> {
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
fn waits(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Row> {
    let trace = analysis.trace;
    let mut rows: Vec<Row> = Vec::new();
    for segment in analysis.segments(thread, window) {
        let State::Sleeping(_) = segment.state else { continue };
        let out = small(segment.out);
        if let Some(row) = rows.last_mut().filter(|row| row.out == out && out != NOWHERE) {
            // A loss hid the middle of one sleep.
            add(&mut row.slept_ns, segment.window);
            (row.end, row.wake) = (segment.window.end, small(segment.wake));
            continue;
        }
        rows.push(Row {
            slept_ns: ns(segment.window),
            out,
            wake: small(segment.wake),
            stack: segment.wait_stack(trace),
            cpu: segment.out.map_or(u16::MAX, |out| trace.switches.cpu[out]),
            ..Row::at(segment.window.start, segment.window.end, thread)
        });
    }
    rows
}

/// A row per wake-up inside `window`, with the whole of the sleep that it ended.
fn wakes(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
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

/// A row per sample inside `window`, but for those of idle CPUs: those are no work.
fn samples(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
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

fn stall((index, stall): (usize, &Stall)) -> Row {
    let window = stall.explanation.window;
    Row { index: index as u32, ..Row::at(window.start, window.end, stall.candidate.victim) }
}

/// A row per process; its life is that of its first thread.
fn lifetimes(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
    let processes = analysis.trace.threads.processes().skip(1);
    let rows = processes.map(|(id, process)| {
        // A process that has a life of its own (Windows) may survive its first thread.
        let of_its_own = || life(analysis, process.start, process.end);
        let life =
            if process.name.is_empty() { life_of(analysis, process.leader) } else { of_its_own() }
                .intersect(window);
        Row { index: id.0, ..Row::at(life.start, life.end, process.leader) }
    });
    rows.filter(|row| row.start < row.end).collect()
}

/// A thread's life as far as the file goes: by its own events inside the span that all CPUs cover,
/// else as it was told.
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

fn this_thread(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> Vec<Row> {
    let inside = analysis.timeline.life(thread).intersect(window);
    if inside.is_empty() {
        let life = life_of(analysis, thread).intersect(window);
        // It lived while not all CPUs were recorded: what its time went to is not known.
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
            segment.back.filter(|back| window.contains(analysis.trace.switches.time[*back]));
        row.switches += Cell::from(came_on.is_some() && came_on != last);
        last = came_on.or(last);
    }
    vec![row]
}

fn cpus(analysis: &Analysis<'_>, window: Window) -> Vec<Row> {
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
        for had in analysis.cpus.occupancy(trace, row.cpu, window) {
            match had.thread {
                Some(thread) if !thread.is_idle() => add(&mut row.ran_ns, had.window),
                Some(_) => add(&mut row.slept_ns, had.window),
                None => {}
            }
        }
        row
    };
    counts.into_iter().enumerate().map(row).collect()
}

/// How many samples show each CPU at work.
fn cpu_samples(analysis: &Analysis<'_>, cpus: usize, window: Window) -> Vec<Cell> {
    let samples = &analysis.trace.samples;
    let mut counts = vec![0; cpus];
    for sample in samples.range(window).filter(|&sample| samples.is_work(sample)) {
        if let Some(count) = counts.get_mut(usize::from(samples.cpu[sample])) {
            *count += 1;
        }
    }
    counts
}
