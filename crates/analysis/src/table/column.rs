//! The registry of columns: their names, other tools' names for them, what they hold, and how their
//! cells are computed.
//!
//! The help of `unhitch table --columns`, the names accepted by every option, and the keys of the
//! JSON all come from it. *Why other names:* people come from Windows Performance Analyzer, whose
//! "Readying Thread Stack" is the wake stack here.

use super::cells::*;
use super::rows::Row;
use super::source::Source;
use super::{Cell, NONE, Name, TABLES, counters, events, kept};
use crate::stacks::StackKind;
use Name::{
    Counters, Cpus, Events, Lifetimes, Marks, Samples, Stalls, Switches, Threads, Waits, Wakes,
};
use std::fmt::Write;
use unhitch_model::Recorded;

/// What a column holds, which decides how it is compared, summed and printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Text.
    Text,
    /// Nanoseconds.
    Duration,
    /// A point in time, nanoseconds of the trace's clock.
    Time,
    /// A count.
    Count,
    /// A number that must not be summed: an id, a priority.
    Number,
    /// A stack.
    Stack(StackKind),
}

/// A column's key in JSON and CSV.
pub(super) fn key(title: &str, kind: Kind) -> String {
    let unit = if matches!(kind, Kind::Duration | Kind::Time) { "_ns" } else { "" };
    format!("{}{unit}", title.to_lowercase().replace([' ', '-'], "_"))
}

impl Kind {
    /// The word in the list of columns and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Duration => "duration",
            Self::Time => "time",
            Self::Count => "count",
            Self::Number => "number",
            Self::Stack(_) => "stack",
        }
    }
}

/// A column.
pub struct Column {
    /// Its name. Users may write it in any case, with spaces, hyphens, underscores or nothing
    /// between the words.
    pub name: &'static str,
    /// Other names for it, including Windows Performance Analyzer's.
    pub aliases: &'static [&'static str],
    /// What it holds.
    pub kind: Kind,
    /// The tables that have it.
    pub tables: &'static [Name],
    /// What it holds, in one line.
    pub doc: &'static str,
    pub(super) cell: fn(&Source<'_>, &Row) -> Cell,
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const THREADED: &[Name] =
    &[Switches, Waits, Wakes, Samples, Events, Marks, Stalls, Lifetimes, Threads];
const WOKEN: &[Name] = &[Switches, Waits, Wakes];
const STACKED: &[Name] = &[Switches, Waits, Wakes, Samples, Events];

macro_rules! column {
    ($name:literal $([$($alias:literal),*])?, $kind:expr, $tables:expr, $doc:literal, $cell:expr) => {
        Column { name: $name, aliases: &[$($($alias),*)?], kind: $kind, tables: $tables, doc: $doc, cell: $cell }
    };
}

/// The registry of columns. A `static`, because a column is identified by its address.
#[rustfmt::skip]
pub static COLUMNS: &[Column] = &[
    column!("switched in" ["Switch-In Time", "ran at"], Kind::Time, &[Switches], "when it was switched in", |_, row| time(row.start)),
    column!("blocked at" ["switched out", "Last Switch-Out Time"], Kind::Time, &[Waits], "when it fell asleep, or the start of the shown time, if later", |_, row| time(row.start)),
    column!("woken at" ["Ready Time"], Kind::Time, WOKEN, "when it was woken", |source, row| source.waking(row).map_or(NONE, |(wake, _)| time(source.analysis.trace.wakings.time[wake]))),
    column!("time" ["Time Stamp", "sampled"], Kind::Time, &[Samples, Events, Marks], "when it happened", |_, row| time(row.start)),
    column!("start" ["Start Time"], Kind::Time, &[Stalls, Lifetimes, Counters], "when it began; empty for a process that is older than the recording; of a counter, when it was read before", start),
    column!("end" ["End Time"], Kind::Time, &[Stalls, Lifetimes, Counters], "when it ended; empty for a process that outlived the recording", end),
    column!("cpu" ["New CPU"], Kind::Number, &[Switches, Waits, Wakes, Samples, Events, Cpus], "on which CPU; for a wait, the CPU that the thread left", |_, row| if row.cpu == u16::MAX { NONE } else { Cell::from(row.cpu) }),
    column!("thread" ["New Thread Name", "Thread Name"], Kind::Text, &[Switches, Waits, Wakes, Samples, Events, Marks, Stalls, Threads], "the thread's name; for a wake-up, that of the woken thread", |source, row| thread_name(source, row.thread, source.named_at(row))),
    column!("tid" ["New Thread Id", "Thread Id"], Kind::Number, &[Switches, Waits, Wakes, Samples, Events, Marks, Stalls, Threads], "the thread's id", |source, row| tid_of(source, row.thread)),
    column!("process" ["New Process", "New Process Name", "Process Name"], Kind::Text, THREADED, "the process's name", |source, row| match process_of(source, row).name {
        name if name.is_empty() => process_name(source, row.thread, source.named_at(row)),
        name => Cell::from(name.0),
    }),
    column!("pid" ["New Process Id", "Process Id"], Kind::Number, THREADED, "the process's id", |source, row| pid_of(process_of(source, row))),
    column!("control group" ["cgroup", "service", "container"], Kind::Text, THREADED, "the path of its control group, by which its service or container is known, when it was last seen in one; of a process that ended before, its parent's", control_group),
    column!("parent pid" ["Parent Process Id"], Kind::Number, &[Lifetimes], "the id of the process that created it", |source, row| process_of(source, row).parent_pid.map_or(NONE, Cell::from)),
    column!("woken by" ["Readying Thread", "Readying Thread Name", "waker"], Kind::Text, WOKEN, "the thread that woke it, or in brackets the interrupt that did", woken_by),
    column!("woken by tid" ["Readying Thread Id"], Kind::Number, WOKEN, "the id of the thread that woke it", |source, row| waker(source, row).map_or(NONE, |(id, _)| tid_of(source, id))),
    column!("woken by process" ["Readying Process", "Readying Process Name"], Kind::Text, WOKEN, "the process that woke it", |source, row| waker(source, row).map_or(NONE, |(id, at)| process_name(source, id, at))),
    column!("woken by pid" ["Readying Process Id"], Kind::Number, WOKEN, "the id of the process that woke it", |source, row| waker(source, row).map_or(NONE, |(id, _)| pid_of(source.analysis.trace.threads.process_of(id)))),
    column!("wake context" ["context"], Kind::Text, WOKEN, "what issued the wake-up: task; softirq_sync, a soft interrupt that the task itself ran; interrupt; or idle", |source, row| source.waking(row).map_or(NONE, |(_, context)| source.text(context.name()))),
    column!("wake stack" ["Readying Thread Stack", "Ready Thread Stack"], Kind::Stack(StackKind::Wake), WOKEN, "where the wake-up was issued", |source, row| source.waking(row).map_or(NONE, |(wake, _)| Cell::from(source.same(StackKind::Wake, source.analysis.trace.wakings.stack[wake]).0))),
    column!("wait stack" ["New Thread Stack"], Kind::Stack(StackKind::Wait), WOKEN, "where it waited", wait_stack),
    column!("stack" ["Sampled Stack"], Kind::Stack(StackKind::Sample), &[Samples], "what was executing", |source, row| Cell::from(source.same(StackKind::Sample, row.stack).0)),
    column!("function" [], Kind::Text, STACKED, "the innermost function of the stack: of the wait stack in switches and waits, of the wake stack in wakes", |source, row| leaf(source, row).map_or(NONE, |frame| function_of(source, frame))),
    column!("module" ["image"], Kind::Text, STACKED, "the file that holds the innermost function", |source, row| leaf(source, row).map_or(NONE, |frame| module_of(source, frame))),
    column!("file" ["source file"], Kind::Text, STACKED, "the source file of the innermost function", |source, row| leaf(source, row).map_or(NONE, |frame| file_of(source, frame))),
    column!("address" [], Kind::Text, STACKED, "the instruction: module and offset, or the address in the kernel", |source, row| leaf(source, row).map_or(NONE, |frame| address_of(source, frame))),
    column!("provider" ["Provider Name"], Kind::Text, &[Events], "who reported it", events::provider),
    column!("event" ["Event Name", "Task Name"], Kind::Text, &[Events, Marks], "what was reported", events::name),
    column!("event id" ["Id"], Kind::Number, &[Events], "its number; for an event of the Windows kernel, its hook id", events::id),
    column!("opcode" ["Opcode Name"], Kind::Number, &[Events], "its opcode: 1 start, 2 stop", events::opcode),
    column!("fields" ["Field 1"], Kind::Text, &[Events, Marks], "its fields with their values; as bytes if they are not described", events::fields),
    column!("text" ["words", "class"], Kind::Text, &[Marks], "its words; of a key, its class, if that was kept; of a ping, whether the window answered", events::mark_text),
    column!("user" ["uid"], Kind::Number, &[Marks], "the id of the user who sent it", |source, row| events::mark_number(source, row, "uid")),
    column!("sender" [], Kind::Number, &[Marks], "the id of the process that sent it", |source, row| events::mark_number(source, row, "sender")),
    column!("off-CPU" ["Time Since Last"], Kind::Duration, &[Switches], "how long it was off the CPU before: waited + runnable", |_, row| if row.known { row.slept_ns.saturating_add(row.runnable_ns) } else { NONE }),
    column!("waited" ["Waits", "Wait"], Kind::Duration, WOKEN, "how long it had slept; for a wake-up, the sleep that it ended", |_, row| row.slept_ns),
    column!("runnable" ["Ready", "Ready (us)"], Kind::Duration, &[Switches, Threads], "how long it was runnable without a CPU", |source, row| if source.analysis.trace.wakings.is_empty() { NONE } else { row.runnable_ns }),
    column!("ran for" ["CPU Usage", "CPU Usage (in View)", "Switched-In Time"], Kind::Duration, &[Switches], "how long it then kept the CPU", |_, row| row.ran_ns),
    column!("ran" ["CPU Usage"], Kind::Duration, &[Threads], "time on a CPU", |_, row| row.ran_ns),
    column!("slept" ["Waits"], Kind::Duration, &[Threads], "time asleep", |_, row| row.slept_ns),
    column!("weight" [], Kind::Duration, &[Samples], "the time that the sample stands for", |_, row| row.ran_ns),
    column!("busy" [], Kind::Duration, &[Cpus], "time in which something ran", |_, row| row.ran_ns),
    column!("idle" [], Kind::Duration, &[Cpus], "time in which nothing ran", |_, row| row.slept_ns),
    column!("samples" [], Kind::Count, &[Threads, Cpus], "CPU samples that show it at work", |source, row| source.samples(row)),
    column!("sampled" ["time by samples"], Kind::Duration, &[Threads, Cpus], "the number of samples × the sampling interval: about how long it was on a CPU", |source, row| source.sampled_ns(row)),
    column!("state" ["New Prev State"], Kind::Text, &[Switches, Waits], "the state in which it was switched out, as `ps` writes it", state),
    column!("reason" ["wait class", "class", "New Prev Wait Reason"], Kind::Text, WOKEN, "what it waited for; or that it was preempted, or is new", reason),
    column!("lock" [], Kind::Text, &[Waits], "the address of the lock that it waited for: of a futex in its process, or in the kernel", kept::lock),
    column!("woken futex" ["futex"], Kind::Text, &[Wakes], "the address of the futex at which it was woken, if the waker did so by futex(2) and the wake-up was kept (BPF)", kept::woken_futex),
    column!("lock owner" [], Kind::Text, &[Waits], "the thread that held that lock when the wait began, if the lock says so", kept::lock_owner),
    column!("lock owner tid" [], Kind::Number, &[Waits], "the id of that thread", kept::lock_owner_tid),
    column!("waited on" ["descriptor"], Kind::Text, &[Waits], "the file, pipe, socket or device that its system call was about; only of waits that were kept (BPF)", kept::waited_on),
    column!("priority" ["New In Pri", "prio"], Kind::Number, &[Switches], "its kernel priority when it was switched in: 100 to 139 are normal, lower ones real-time", |source, row| Cell::from(source.analysis.trace.switches.next_prio[row.index as usize])),
    column!("switches" [], Kind::Count, &[Threads, Cpus], "how often it was switched in; for a CPU, how many switches it made", |_, row| row.switches),
    column!("events" [], Kind::Count, &[Cpus], "switches, wake-ups and samples on it", |_, row| Cell::from(row.index)),
    column!("policy" [], Kind::Text, &[Threads], "its scheduling policy at the end", |source, row| source.analysis.trace.threads.get(row.thread).policy.map_or(NONE, |policy| source.text(policy.name()))),
    column!("nice" [], Kind::Number, &[Threads], "its nice value at the end", |source, row| source.analysis.trace.threads.get(row.thread).nice.map_or(NONE, Cell::from)),
    column!("duration" [], Kind::Duration, &[Stalls, Lifetimes, Counters], "how long it lasted; for a process, the part of its life that was recorded; of a counter, the time between the readings", |_, row| Cell::try_from(row.end.since(row.start)).unwrap_or(Cell::MAX)),
    column!("command line" [], Kind::Text, &[Lifetimes], "its command line", |source, row| Cell::from(process_of(source, row).command_line.0)),
    column!("kind" ["Type"], Kind::Text, &[Stalls], "why it counts as a stall", |source, row| source.text(source.stalls[row.index as usize].candidate.kind.name())),
    column!("pattern" [], Kind::Text, &[Stalls], "its cause by name", |source, row| source.text(source.stalls[row.index as usize].finding.pattern.name())),
    column!("culprit" [], Kind::Text, &[Stalls], "the thread responsible", |source, row| source.stalls[row.index as usize].finding.culprit.map_or(NONE, |id| thread_name(source, id, row.end))),
    column!("culprit tid" [], Kind::Number, &[Stalls], "the culprit's id", |source, row| source.stalls[row.index as usize].finding.culprit.map_or(NONE, |id| Cell::from(source.analysis.trace.threads.get(id).tid))),
    column!("victims" [], Kind::Count, &[Stalls], "how many threads suffered from it", |source, row| source.stalls[row.index as usize].victims.len() as Cell),
    column!("evidence" [], Kind::Text, &[Stalls], "how the cause is known: direct, inferred, lost", |source, row| source.text(source.stalls[row.index as usize].finding.evidence.name())),
    column!("of" ["resource", "device"], Kind::Text, &[Counters], "what the counter is about: cpu, io, memory, a disk, a control group, or the machine", counters::of),
    column!("counter" [], Kind::Text, &[Counters], "what was counted: time in which some task waited (some waited) or all that had work (all waited); time in which a disk had requests (busy), or their time summed over requests (queued); …", counters::counter),
    column!("spent" [], Kind::Duration, &[Counters], "how much time it counted", counters::spent),
    column!("counted" [], Kind::Count, &[Counters], "how much of anything else it counted", counters::counted),
    column!("unit" [], Kind::Text, &[Counters], "time, bytes or times", counters::unit),
    column!("cause" [], Kind::Text, &[Stalls], "its cause in a line", |source, row| source.text(&source.stalls[row.index as usize].finding.cause.to_string())),
];

/// The columns of a table, in the order of the registry.
pub fn columns_of(table: Name) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(move |column| column.tables.contains(&table))
}

/// Which columns are empty when something was not recorded.
const NEEDS: &[(Recorded, &[Name], &[&str])] = &[
    (Recorded::Switches, &[Wakes], &["waited", "reason", "wait stack"]),
    (
        Recorded::Switches,
        &[Threads, Cpus],
        &["ran", "runnable", "slept", "busy", "idle", "switches"],
    ),
    (
        Recorded::Wakings,
        &[Switches, Waits],
        &[
            "woken at",
            "woken by",
            "woken by tid",
            "woken by process",
            "woken by pid",
            "wake context",
            "wake stack",
            "runnable",
        ],
    ),
    (Recorded::Wakings, &[Threads], &["runnable"]),
    (Recorded::Samples, &[Threads, Cpus], &["samples", "sampled"]),
];

impl Column {
    /// What must have been recorded for the column to hold anything, in a table that has rows even
    /// without it.
    pub fn needs(&self, table: Name) -> impl Iterator<Item = Recorded> {
        let needs = move |(what, tables, names): &(Recorded, &[Name], &[&str])| {
            (tables.contains(&table) && names.contains(&self.name)).then_some(*what)
        };
        NEEDS.iter().filter_map(needs)
    }
}

/// The column that a user's word means, by its name or another tool's.
pub(super) fn find(table: Name, word: &str) -> Option<&'static Column> {
    let (word, mut columns) = (plain(word), columns_of(table));
    let named = columns_of(table).find(|column| plain(column.name) == word);
    named.or_else(|| columns.find(|column| column.aliases.iter().any(|alias| plain(alias) == word)))
}

/// A name reduced to what is compared: letters and digits, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// All tables, or one, with all columns, as text for the user.
pub fn describe(only: Option<Name>) -> String {
    let mut out = String::new();
    for table in TABLES.iter().filter(|table| only.is_none_or(|name| name == table.name)) {
        let _ = writeln!(
            out,
            "{}{}: {}",
            if out.is_empty() { "" } else { "\n" },
            table.word,
            table.doc
        );
        for column in columns_of(table.name) {
            let aliases = match column.aliases {
                [] => String::new(),
                names => format!(" [{}]", names.join(", ")),
            };
            let _ = writeln!(
                out,
                "  {:<17} {:<9} {}{aliases}",
                column.name,
                column.kind.word(),
                column.doc
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_column_of_a_table() {
        for table in TABLES {
            let columns: Vec<&Column> = columns_of(table.name).collect();
            for (index, column) in columns.iter().enumerate() {
                assert!(
                    std::ptr::eq(find(table.name, column.name).unwrap(), *column),
                    "{} of {}",
                    column.name,
                    table.word
                );
                for other in &columns[..index] {
                    let names = |column: &Column| {
                        [&[column.name], column.aliases]
                            .concat()
                            .iter()
                            .map(|name| plain(name))
                            .collect::<Vec<_>>()
                    };
                    let shared: Vec<String> = names(column)
                        .into_iter()
                        .filter(|name| names(other).contains(name))
                        .collect();
                    assert!(
                        shared.is_empty(),
                        "{} and {} of {} share {shared:?}",
                        column.name,
                        other.name,
                        table.word
                    );
                }
            }
        }
    }

    #[test]
    fn names_of_other_tools_are_understood() {
        let name = |table, word: &str| find(table, word).map(|column| column.name);
        assert_eq!(name(Switches, "New Thread Id"), Some("tid"));
        assert_eq!(name(Switches, "readying thread stack"), Some("wake stack"));
        assert_eq!(name(Switches, "NewThreadStack"), Some("wait stack"));
        assert_eq!(name(Switches, "Switch-In Time"), Some("switched in"));
        assert_eq!(name(Switches, "Time Since Last"), Some("off-CPU"));
        assert_eq!(name(Switches, "off_cpu"), Some("off-CPU"));
        assert_eq!(name(Samples, "waited"), None);
    }
}
