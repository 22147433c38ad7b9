//! What must hold for an export of any trace: each format is read by other means than it was
//! written, and gives the rows and sums of the tables.
#![allow(dead_code, reason = "each test uses a part")]

pub mod firefox;
pub mod folded;
pub mod json;
pub mod perfetto;
pub mod pprof;
pub mod scheduler;
mod wire;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Write, stderr};
use unhitch_analysis::{Analysis, Rules, repair};
use unhitch_export::{FORMATS, Job, Of, Progress};
use unhitch_formats::perf_data::Selection;
use unhitch_model::Trace;

/// Calls `check` with what is known of a trace.
pub fn with_analysis(mut trace: Trace, check: impl FnOnce(&Analysis<'_>)) {
    repair(&mut trace);
    let rules = Rules::default();
    check(&Analysis::new(&trace, &rules));
}

/// The whole trace in a format.
pub fn export(analysis: &Analysis<'_>, format: &str, of: Of) -> Vec<u8> {
    let format = FORMATS.iter().find(|known| known.name == format).expect("a format");
    let selection = Selection { window: analysis.trace.extent(), threads: None };
    let job = Job { analysis, selection: &selection, of, producer: "a test" };
    let mut out = Vec::new();
    format.write(&job, &mut out, &mut Progress::new(&mut |_| {})).unwrap();
    out
}

/// The rows of every table, by the table's name.
pub struct Tables(BTreeMap<String, Vec<Value>>);

impl Tables {
    pub fn of(analysis: &Analysis<'_>) -> Self {
        let json: Value = serde_json::from_slice(&export(analysis, "json", Of::Waits)).unwrap();
        let tables = json["tables"].as_array().unwrap().iter();
        let rows = |table: &Value| table["rows"].as_array().unwrap().clone();
        Self(tables.map(|of| (of["table"].as_str().unwrap().to_owned(), rows(of))).collect())
    }

    pub fn rows(&self, table: &str) -> &[Value] {
        &self.0[table]
    }

    /// The rows with a stack: thread, stack (outermost first) and time, with how many there are.
    pub fn stacks(&self, of: Of) -> Stacks {
        let (table, thread, stack, ns) = match of {
            Of::Waits | Of::WaitsAndWakes => ("waits", "tid", "wait_stack", "waited_ns"),
            Of::Wakes => ("wakes", "woken_by_tid", "wake_stack", "waited_ns"),
            Of::Cpu => ("samples", "tid", "stack", "weight_ns"),
        };
        let mut sums = Stacks::default();
        for row in self.rows(table) {
            let frames = row[stack].as_array().map_or(&[][..], Vec::as_slice);
            let names: Vec<String> =
                frames.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
            if !names.is_empty() {
                sums.add(row[thread].as_u64().unwrap_or(0), names, row[ns].as_u64().unwrap_or(0));
            }
        }
        sums
    }
}

/// Stacks by thread, with their number and time.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Stacks(pub BTreeMap<(u64, Vec<String>), (u64, u64)>);

impl Stacks {
    pub fn add(&mut self, tid: u64, stack: Vec<String>, ns: u64) {
        let sum = self.0.entry((tid, stack)).or_default();
        *sum = (sum.0 + 1, sum.1 + ns);
    }

    /// The number of all, and their time.
    pub fn total(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// The same without what an interrupt interrupted, where `table` leaves that out.
    pub fn as_in(&self, table: &Self) -> BTreeMap<Vec<String>, (u64, u64)> {
        let known = table.by_stack();
        let mut sums = BTreeMap::<_, (u64, u64)>::new();
        for (stack, of) in self.by_stack() {
            let mut inner = (0..stack.len()).map(|outer| &stack[outer..]);
            let shown = inner.find(|inner| known.contains_key(*inner)).unwrap_or(&stack);
            let sum = sums.entry(shown.to_vec()).or_default();
            *sum = (sum.0 + of.0, sum.1 + of.1);
        }
        sums
    }

    /// The same without the threads.
    pub fn by_stack(&self) -> BTreeMap<Vec<String>, (u64, u64)> {
        let mut sums = BTreeMap::<_, (u64, u64)>::new();
        for ((_, stack), of) in &self.0 {
            let sum = sums.entry(stack.clone()).or_default();
            *sum = (sum.0 + of.0, sum.1 + of.1);
        }
        sums
    }
}

pub fn skipped(test: &str, reason: &str) {
    let _ = writeln!(stderr(), "SKIPPED {test}: {reason}");
}

/// Compares what was read of an export with what is expected, and shows only what differs.
pub fn assert_same<K: Ord + Debug, V: PartialEq + Debug>(
    read: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    about: &str,
) {
    let keys = read.keys().chain(expected.keys().filter(|key| !read.contains_key(key)));
    let differs = |key: &&K| read.get(key) != expected.get(key);
    let shown = |key: &K| format!("{key:?}: {:?} for {:?}\n", read.get(key), expected.get(key));
    let differences: Vec<String> = keys.filter(differs).map(shown).collect();
    let count = differences.len();
    assert!(count == 0, "{about}: {count} differ:\n{}", differences[..count.min(8)].concat());
}
