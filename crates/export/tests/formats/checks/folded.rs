//! Folded stacks: lines sum to the tables, and `inferno` draws them.

use super::{Stacks, Tables, assert_same, export};
use inferno::flamegraph::{self, Options};
use std::collections::BTreeMap;
use unhitch_analysis::Analysis;
use unhitch_export::Of;

pub fn check(analysis: &Analysis<'_>) {
    let tables = Tables::of(analysis);
    for of in [Of::Waits, Of::Wakes, Of::Cpu, Of::WaitsAndWakes] {
        let text = String::from_utf8(export(analysis, "folded", of)).unwrap();
        let mut sums = Stacks::default();
        for line in text.lines() {
            let (stack, ns) = line.rsplit_once(' ').expect("a stack and a number");
            // Before the frames is the thread, behind them the waker's side.
            let mut names: Vec<String> = stack.split(';').skip(1).map(str::to_owned).collect();
            let waker = names.iter().position(|name| name == "--");
            assert_eq!(waker.is_some(), of == Of::WaitsAndWakes, "{line}");
            names.truncate(waker.unwrap_or(names.len()));
            sums.add(0, names, ns.parse::<u64>().expect("nanoseconds"));
        }
        let mut expected = Stacks::default();
        for (names, (_, ns)) in tables.stacks(of).by_stack() {
            // What separates frames is no part of a name there.
            expected.add(0, names.iter().map(|name| name.replace(';', ":")).collect(), ns);
        }
        let times = |of: BTreeMap<Vec<String>, (u64, u64)>| -> BTreeMap<Vec<String>, u64> {
            of.into_iter().map(|(names, (_, ns))| (names, ns)).collect()
        };
        let (read, known) = (times(sums.as_in(&expected)), times(expected.by_stack()));
        assert_same(&read, &known, &format!("{of:?}"));
    }
}

/// `inferno` draws the waits: the sum of all is the tables'.
pub fn check_with_inferno(analysis: &Analysis<'_>) {
    let folded = String::from_utf8(export(analysis, "folded", Of::Waits)).unwrap();
    let mut options = Options::default();
    (options.count_name, options.min_width) = ("ns".to_owned(), 0.0);
    let mut drawn = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut drawn).unwrap();
    let drawn = String::from_utf8(drawn).unwrap().replace(',', "");
    let (_, total) = Tables::of(analysis).stacks(Of::Waits).total();
    assert!(drawn.contains(&format!("<title>all ({total} ns 100%)")), "{total}");
}
