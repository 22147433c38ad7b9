//! The source of a table: its rows, and the texts, wait classes and stacks that its cells refer to.

use super::growths::{Growth, Unit, growths};
use super::rows::{self, NOWHERE, Row};
use super::{Cell, NONE, Name};
use crate::Analysis;
use crate::diagnose::{Query, Stall, diagnose};
use crate::stacks::{StackKind, WaitClass, WakeContext};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use unhitch_model::{FrameId, StackId, Time, Window};

/// The rows of one table of one trace, and what columns need to compute cells of them.
pub(super) struct Source<'a> {
    pub analysis: &'a Analysis<'a>,
    pub name: Name,
    pub window: Window,
    pub rows: Vec<Row>,
    pub stalls: Arc<Vec<Stall>>,
    /// In the table of counters: what each row is.
    pub counters: Vec<Growth>,
    /// In the table of CPUs: how many samples show each CPU busy.
    cpu_samples: Vec<Cell>,
    texts: RwLock<Texts>,
    /// The cell of each class's name. Millions of rows have one.
    classes: [OnceLock<Cell>; WaitClass::COUNT],
    /// By kind of stack: for each stack, the first one that prints the same.
    same: [OnceLock<Vec<StackId>>; StackKind::ALL.len()],
    /// True if each row has its own stack, not the first that prints the same.
    own_stacks: bool,
}

/// Texts that are not among the trace's names.
#[derive(Default)]
struct Texts {
    list: Vec<String>,
    ids: FxHashMap<String, Cell>,
}

/// Ids from here on are the table's own texts; below are the trace's names.
const OWN_TEXTS: Cell = 1 << 32;

impl<'a> Source<'a> {
    /// Collects the rows of a table inside `window`. Times are added up only inside the span that
    /// all CPUs cover.
    pub fn new(analysis: &'a Analysis<'a>, name: Name, window: Window) -> Self {
        let window = if name.holds_uncovered() {
            window
        } else {
            window.intersect(analysis.timeline.window())
        };
        let rows = match name {
            Name::Switches => {
                let mut all =
                    rows::by_thread(analysis, |thread| rows::switches(analysis, thread, window));
                all.extend(rows::uncovered_switches(analysis, window));
                all
            }
            Name::Waits => {
                rows::by_thread(analysis, |thread| rows::waits(analysis, thread, window))
            }
            Name::Wakes => rows::wakes(analysis, window),
            Name::Samples => rows::samples(analysis, window),
            Name::Events => rows::events(analysis, window),
            Name::Marks => rows::marks(analysis, window),
            Name::Stalls => {
                let narrowed = (window != analysis.timeline.window()).then_some(window);
                let stalls = diagnose(
                    analysis,
                    &Query { victims: Vec::new(), window: narrowed, ..Query::default() },
                );
                return Self::of_stalls(analysis, Arc::new(stalls), window);
            }
            Name::Lifetimes => rows::lifetimes(analysis, window),
            Name::Counters => {
                let counters = growths(&analysis.trace.machine, window);
                let rows = rows::counters(&counters);
                return Self { counters, ..Self::of(analysis, name, window, rows) };
            }
            Name::Threads => {
                rows::by_thread(analysis, |thread| rows::thread(analysis, thread, window))
            }
            Name::Cpus => rows::cpus(analysis, window),
        };
        let cpu_samples = if name == Name::Cpus {
            rows::cpu_samples(analysis, rows.len(), window)
        } else {
            Vec::new()
        };
        Self { cpu_samples, ..Self::of(analysis, name, window, rows) }
    }

    /// The table of the `stalls` that have a part in `window`.
    pub fn of_stalls(analysis: &'a Analysis<'a>, stalls: Arc<Vec<Stall>>, window: Window) -> Self {
        let rows = rows::stalls(&stalls, window);
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
            counters: Vec::new(),
            cpu_samples: Vec::new(),
            texts,
            classes,
            same,
            own_stacks: false,
        }
    }

    /// The same with each row's own stack, where rows stand for themselves: what an interrupt
    /// interrupted, for example, is no part of what stacks are grouped by.
    pub fn with_own_stacks(self) -> Self {
        Self { own_stacks: true, ..self }
    }

    /// True for a row outside the span that all CPUs cover.
    pub fn is_outside(&self, row: &Row) -> bool {
        let covered = self.analysis.timeline.window();
        match self.name {
            _ if !self.name.holds_uncovered() => false,
            Name::Lifetimes | Name::Threads | Name::Counters => {
                row.start != row.end && !Window::new(row.start, row.end).overlaps(covered)
            }
            _ => !covered.contains(row.start),
        }
    }

    /// True for a counter of bytes.
    pub fn counts_bytes(&self, row: usize) -> bool {
        self.counters.get(row).is_some_and(|growth| growth.unit == Unit::Bytes)
    }

    /// How many samples show a row's thread or CPU busy; none if no samples were recorded.
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

    /// The time that those samples stand for; none if the time between samples is unknown.
    pub fn sampled_ns(&self, row: &Row) -> Cell {
        match (self.samples(row), self.analysis.trace.meta.sample_period_ns as Cell) {
            (NONE, _) | (_, 0) => NONE,
            (samples, period_ns) => samples.saturating_mul(period_ns),
        }
    }

    /// The cell for a text, if there is one.
    pub fn find_text(&self, text: &str) -> Option<Cell> {
        if let Some(name) = self.analysis.trace.strings.find(text) {
            return Some(Cell::from(name.0));
        }
        self.texts.read().unwrap_or_else(PoisonError::into_inner).ids.get(text).copied()
    }

    /// The cell for a text.
    pub fn text(&self, text: &str) -> Cell {
        if let Some(known) = self.find_text(text) {
            return known;
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

    /// The frames of a stack that mean something, leaf first.
    pub fn frames(&self, kind: StackKind, stack: StackId) -> &'a [FrameId] {
        self.analysis.stacks.frames(self.analysis.trace, kind, stack)
    }

    /// The first stack with the same functions, whatever the addresses in them.
    pub fn same(&self, kind: StackKind, stack: StackId) -> StackId {
        if self.own_stacks {
            return stack;
        }
        let firsts = self.same[kind as usize].get_or_init(|| {
            // By this thread alone: whoever fills cells side by side asks for it (see `Analysis`).
            let all = (0..self.analysis.trace.stacks.len() as u32).map(StackId);
            let mut first_of: FxHashMap<u64, StackId> = FxHashMap::default();
            all.map(|stack| *first_of.entry(self.hash_of(kind, stack)).or_insert(stack)).collect()
        });
        firsts.get(stack.index()).copied().unwrap_or(stack)
    }

    /// Equal for stacks with the same functions.
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

    /// The time whose thread and process names a row shows.
    pub fn named_at(&self, row: &Row) -> Time {
        if matches!(self.name, Name::Lifetimes | Name::Threads | Name::Stalls) {
            row.end
        } else {
            row.start
        }
    }

    /// The row's wake-up: its index, and its context, which shows whether the waker is responsible.
    pub fn waking(&self, row: &Row) -> Option<(usize, WakeContext)> {
        let wake = (row.wake != NOWHERE).then_some(row.wake as usize)?;
        Some((wake, self.analysis.stacks.wake_source(self.analysis.trace, wake).context))
    }
}
