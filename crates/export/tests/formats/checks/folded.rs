//! Folded stacks: lines sum to the tables, and `inferno` draws them.

use super::{Stacks, Tables, assert_same, export, skipped};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
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

/// `inferno-flamegraph` draws every function of the waits, and the sum of all.
pub fn check_with_inferno(analysis: &Analysis<'_>, test: &str) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/inferno/bin/inferno-flamegraph");
    let inferno = if own.exists() { own } else { "inferno-flamegraph".into() };
    let child = Command::new(inferno)
        .args(["--countname", "ns", "--minwidth", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return skipped(test, "inferno-flamegraph is not installed (tools/setup test)");
    };
    let folded = export(analysis, "folded", Of::Waits);
    child.stdin.take().unwrap().write_all(&folded).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let drawn = String::from_utf8(output.stdout).unwrap().replace(',', "");
    let (_, total) = Tables::of(analysis).stacks(Of::Waits).total();
    assert!(drawn.contains(&format!("<title>all ({total} ns 100%)")), "{total}");
}
