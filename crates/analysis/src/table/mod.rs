//! Tables of a trace (`unhitch table`) and the butterfly of a function (`unhitch callers`,
//! `callees`).
//!
//! A [`Query`] names a table, what to group by, what to show, a filter and an order; it is checked
//! against the registry of [`COLUMNS`] before any trace is read. [`Table::new`] answers it. *Why
//! everything is a number until it is printed:* a cell is an `i64` (a time, a count, or the id of a
//! text, frame or stack), so that grouping millions of switches by stack is grouping integers. Only
//! what is shown is formatted.
//!
//! What `--from` and `--to` cut: tables of events (switches, wakes, samples, events) hold the
//! events inside the window, with the whole of the waits that they ended. Tables of time (waits,
//! threads, cpus, lifetimes) hold the part of that time inside the window.
//!
//! Outside the span that all CPUs cover, an event is a row like any other, and is also counted
//! apart. Time is added up only inside that span, because what a thread did on a CPU that was not
//! recorded is unknown.

mod butterfly;
mod cells;
mod column;
mod counters;
mod events;
mod filter;
mod fit;
mod growths;
mod kept;
mod pivot;
mod print;
mod query;
mod ranking;
mod rows;
mod run;
mod series;
mod source;
mod stack_paths;
mod stored;
mod sum;
mod typed;
mod whole;

pub use butterfly::{Butterfly, Direction, Node};
pub use column::{COLUMNS, Column, Kind, columns_of, describe};
pub use filter::{Filter, FilterError};
pub use pivot::{Line, Members, PivotLevel, PivotQuestion, Position};
pub use print::Fit;
pub use query::{Aggregate, Heading, Query, QueryError, Words};
pub use ranking::{Ranked, Ranking};
pub use run::Table;
pub use series::{Series, SeriesGroup, SeriesQuestion, SeriesUnit, is_over_time};
pub use stack_paths::{GroupBy, StackQuestion};
pub use stored::{Selection, Stored, Value};
pub use typed::{ColumnType, NOTHING, TypedColumn};
pub use whole::Whole;

use crate::stacks::StackKind;
use unhitch_model::Recorded;

/// The tables by name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Name {
    /// A row per switch-in of a thread, with the time off the CPU before it.
    Switches,
    /// A row per sleep.
    Waits,
    /// A row per wake-up.
    Wakes,
    /// A row per CPU sample.
    Samples,
    /// A row per event of any provider: disk transfers, UI delays, input, marks.
    Events,
    /// A row per mark of a person or a program.
    Marks,
    /// A row per stall, as `why` finds them.
    Stalls,
    /// A row per process.
    Lifetimes,
    /// A row per thread.
    Threads,
    /// A row per CPU.
    Cpus,
    /// A row per counter and interval between two readings: pressure, disks, interrupts.
    Counters,
}

/// A table's name, what its rows are, and what it shows by default.
pub struct TableInfo {
    /// Which table.
    pub name: Name,
    /// The name as users write it.
    pub word: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// The columns that it is grouped by; empty for none.
    pub by: &'static [&'static str],
    /// The columns of single rows.
    pub show: &'static [&'static str],
    /// The columns of groups.
    pub aggregates: &'static [&'static str],
    /// The order of single rows.
    pub sort: &'static str,
}

/// The registry of tables.
pub const TABLES: &[TableInfo] = &[
    TableInfo {
        name: Name::Switches,
        word: "switches",
        doc: "a thread was switched in: where and why it had been switched out, who woke it, and how long it slept, was runnable and then ran",
        by: &[],
        show: &[
            "switched in",
            "cpu",
            "thread",
            "tid",
            "process",
            "woken by",
            "off-CPU",
            "waited",
            "runnable",
            "ran for",
            "reason",
            "wait stack",
        ],
        aggregates: &[
            "count",
            "sum:off-CPU",
            "sum:waited",
            "max:waited",
            "sum:runnable",
            "sum:ran for",
        ],
        sort: "switched in",
    },
    TableInfo {
        name: Name::Waits,
        word: "waits",
        doc: "a thread slept; grouped by reason and wait stack by default",
        by: &["reason", "wait stack"],
        show: &[
            "blocked at",
            "waited",
            "thread",
            "tid",
            "process",
            "reason",
            "woken by",
            "wait stack",
        ],
        aggregates: &["count", "sum:waited", "avg:waited", "max:waited"],
        sort: "waited",
    },
    TableInfo {
        name: Name::Wakes,
        word: "wakes",
        doc: "a thread was woken: by whom, in which context, from where, and how long it had \
              waited",
        by: &[],
        show: &[
            "woken at",
            "cpu",
            "woken by",
            "woken by tid",
            "woken by process",
            "thread",
            "tid",
            "process",
            "waited",
            "wake stack",
        ],
        aggregates: &["count", "sum:waited", "max:waited"],
        sort: "woken at",
    },
    TableInfo {
        name: Name::Samples,
        word: "samples",
        doc: "a CPU sample: what a CPU was executing",
        by: &[],
        show: &["time", "cpu", "thread", "tid", "process", "function", "module", "stack"],
        aggregates: &["count", "sum:weight"],
        sort: "time",
    },
    TableInfo {
        name: Name::Events,
        word: "events",
        doc: "an event that a program or a part of the system reported: disk transfers, page faults, UI delays, focus, input, marks",
        by: &[],
        show: &["time", "cpu", "thread", "tid", "process", "provider", "event", "fields"],
        aggregates: &["count"],
        sort: "time",
    },
    TableInfo {
        name: Name::Marks,
        word: "marks",
        doc: "a moment that a person or a program marked: notes, keys, mouse buttons, whether a window answered",
        by: &[],
        show: &["time", "event", "text", "process", "pid", "user", "sender"],
        aggregates: &["count"],
        sort: "time",
    },
    TableInfo {
        name: Name::Stalls,
        word: "stalls",
        doc: "a stall: something hung, with its cause",
        by: &[],
        show: &[
            "start", "duration", "kind", "thread", "tid", "process", "victims", "evidence", "cause",
        ],
        aggregates: &["count", "sum:duration", "max:duration"],
        sort: "duration",
    },
    TableInfo {
        name: Name::Lifetimes,
        word: "lifetimes",
        doc: "a process that lived at some time of the recording",
        by: &[],
        show: &["process", "pid", "parent pid", "start", "end", "duration", "command line"],
        aggregates: &["count", "sum:duration", "max:duration"],
        sort: "start",
    },
    TableInfo {
        name: Name::Threads,
        word: "threads",
        doc: "a thread, and where its time went",
        by: &[],
        show: &[
            "tid", "pid", "thread", "process", "ran", "runnable", "slept", "switches", "sampled",
            "policy", "nice",
        ],
        aggregates: &[
            "count",
            "sum:ran",
            "sum:runnable",
            "sum:slept",
            "sum:switches",
            "sum:sampled",
        ],
        sort: "ran",
    },
    TableInfo {
        name: Name::Cpus,
        word: "cpus",
        doc: "a CPU, and where its time went",
        by: &[],
        show: &["cpu", "busy", "idle", "switches", "sampled", "events"],
        aggregates: &["count", "sum:busy", "sum:idle", "sum:switches", "sum:sampled", "sum:events"],
        sort: "cpu:asc",
    },
    TableInfo {
        name: Name::Counters,
        word: "counters",
        doc: "a counter of the kernel grew between two readings, half a second apart or more: pressure, disks, interrupts, reclaim, throttling; grouped by counter by default",
        by: &["of", "counter"],
        show: &["start", "duration", "of", "counter", "spent", "counted", "unit"],
        aggregates: &["sum:duration", "sum:spent", "max:spent", "sum:counted", "max:counted"],
        sort: "start",
    },
];

impl Name {
    /// The registry's entry.
    pub fn info(self) -> &'static TableInfo {
        TABLES.iter().find(|table| table.name == self).unwrap_or(&TABLES[0])
    }

    /// True for the tables that also hold what lies outside the span that all CPUs cover. The
    /// others add up time, which is exact only inside it.
    pub const fn holds_uncovered(self) -> bool {
        matches!(
            self,
            Self::Switches
                | Self::Wakes
                | Self::Samples
                | Self::Events
                | Self::Marks
                | Self::Lifetimes
                | Self::Threads
                | Self::Counters
        )
    }

    /// What must have been recorded for the table to have any rows.
    pub const fn needs(self) -> Option<Recorded> {
        match self {
            Self::Switches | Self::Waits => Some(Recorded::Switches),
            Self::Wakes => Some(Recorded::Wakings),
            Self::Samples => Some(Recorded::Samples),
            Self::Counters => Some(Recorded::Counters),
            Self::Events
            | Self::Marks
            | Self::Stalls
            | Self::Lifetimes
            | Self::Threads
            | Self::Cpus => None,
        }
    }

    /// The table whose rows have stacks of a kind.
    pub const fn of_stacks(kind: StackKind) -> Self {
        match kind {
            StackKind::Wait => Self::Waits,
            StackKind::Wake => Self::Wakes,
            StackKind::Sample => Self::Samples,
        }
    }

    /// The table that a user's word means.
    pub fn of_word(word: &str) -> Option<Self> {
        TABLES.iter().find(|table| table.word == word).map(|table| table.name)
    }
}

/// A table's cell: a time or duration in nanoseconds, a count, a number, or the id of a text, frame
/// or stack.
pub(crate) type Cell = i64;

/// The cell that holds nothing.
pub(crate) const NONE: Cell = i64::MIN;
