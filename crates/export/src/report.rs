//! [`Report`]: what an exported file holds, and what it cannot.

use unhitch_model::units::{count, plural};
use unhitch_model::{Recorded, Trace};

/// What an exported file holds, and what the trace has that the file cannot carry.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    lines: Vec<String>,
}

/// A number of things, and their name for one and for many.
pub(crate) type Counted = (u64, &'static str, &'static str);

impl Report {
    /// The lines for people, what was exported first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// States what the file holds.
    pub(crate) fn held(&mut self, things: &[Counted]) {
        let list = list(things);
        let nothing = "nothing: the trace has none of it in this part";
        self.lines.push(format!("exported {}", if list.is_empty() { nothing } else { &list }));
    }

    /// States a fact about the file.
    pub(crate) fn note(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// States what `format` has no place for, if there is any.
    pub(crate) fn no_place(&mut self, format: &str, things: &[Counted]) {
        let list = list(things);
        if !list.is_empty() {
            self.lines.push(format!("left out what {format} has no place for: {list}"));
        }
    }

    /// States which stacks are missing.
    pub(crate) fn without_stack(&mut self, number: u64, ns: u64, what: &str) {
        if number > 0 {
            let time = unhitch_model::units::duration(ns);
            let number = plural(number, what);
            self.lines.push(format!("left out {number} without a recorded stack, {time} in all"));
        }
    }

    /// States that something the file is about was not recorded.
    pub(crate) fn needs(&mut self, trace: &Trace, what: Recorded, lacking: &str) {
        if !trace.has(what) {
            self.lines.push(format!("the trace has no {lacking}"));
        }
    }
}

/// What every format but ours lacks.
pub(crate) fn details(trace: &Trace) -> [Counted; 4] {
    [
        (trace.kept_waits.len() as u64, "system call of a wait", "system calls of waits"),
        (trace.futex_waits.len() as u64, "futex wait at the save", "futex waits at the save"),
        (trace.events.len() as u64, "event of another provider", "events of other providers"),
        (trace.machine.readings.len() as u64, "reading of counters", "readings of counters"),
    ]
}

/// `3 things, 1 other`: what there is any of.
fn list(things: &[Counted]) -> String {
    let some = things.iter().filter(|(number, ..)| *number > 0);
    let words = some.map(|(number, one, many)| {
        format!("{} {}", count(*number), if *number == 1 { one } else { many })
    });
    words.collect::<Vec<_>>().join(", ")
}
