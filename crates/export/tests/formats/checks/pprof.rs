//! pprof: ids refer to something, sums are the tables', and `go tool pprof` prints them.

use super::wire::Message;
use super::{Stacks, Tables, assert_same, export, skipped};
use flate2::read::GzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use unhitch_analysis::Analysis;
use unhitch_export::Of;

pub fn check(analysis: &Analysis<'_>) {
    let tables = Tables::of(analysis);
    for of in [Of::Waits, Of::Wakes, Of::Cpu] {
        let mut bytes = Vec::new();
        GzDecoder::new(&export(analysis, "pprof", of)[..]).read_to_end(&mut bytes).unwrap();
        let profile = Message::read(&bytes);
        let strings: Vec<&[u8]> = profile.all_bytes(6).collect();
        assert_eq!(strings.first(), Some(&&b""[..]), "the first text is empty");
        let string = |at: u64| std::str::from_utf8(strings[at as usize]).unwrap();
        let types: Vec<[&str; 2]> =
            profile.messages(1).map(|of| [string(of.number(1)), string(of.number(2))]).collect();
        let expected = match of {
            Of::Cpu => [["samples", "count"], ["cpu", "nanoseconds"]],
            _ => [["contentions", "count"], ["delay", "nanoseconds"]],
        };
        assert_eq!(types, expected);
        let ids = |field: u32| {
            let all: Vec<u64> = profile.messages(field).map(|of| of.number(1)).collect();
            let set: BTreeSet<u64> = all.iter().copied().collect();
            assert!(set.len() == all.len() && !set.contains(&0), "ids of {field} are unique");
            set
        };
        let mappings = ids(3);
        ids(5);
        let functions: BTreeMap<u64, &str> =
            profile.messages(5).map(|of| (of.number(1), string(of.number(2)))).collect();
        ids(4);
        let location = |of: Message<'_>| {
            assert!(mappings.contains(&of.number(2)), "a location is in a mapping");
            // Innermost first.
            let names: Vec<String> =
                of.messages(4).map(|line| functions[&line.number(1)].to_owned()).collect();
            (of.number(1), names)
        };
        let locations: BTreeMap<u64, Vec<String>> = profile.messages(4).map(location).collect();
        let mut sums = Stacks::default();
        for sample in profile.messages(2) {
            let mut names: Vec<String> =
                sample.numbers(1).iter().flat_map(|id| locations[id].clone()).collect();
            names.reverse();
            let values = sample.numbers(2);
            let sum = sums.0.entry((0, names)).or_default();
            *sum = (sum.0 + values[0], sum.1 + values[1]);
            let labels: Vec<&str> = sample.messages(3).map(|of| string(of.number(1))).collect();
            assert!(labels.contains(&"thread"), "{labels:?}");
        }
        let expected = tables.stacks(of);
        assert_same(&sums.as_in(&expected), &expected.by_stack(), &format!("{of:?}"));
    }
}

/// The times that `pprof -top` prints for the innermost functions are the sums of our table.
pub fn check_with_go(analysis: &Analysis<'_>, test: &str) {
    let go = ["/usr/local/go/bin/go", "/usr/lib/go/bin/go"]
        .into_iter()
        .find(|go| Path::new(go).exists());
    let go = go.unwrap_or("go");
    if !Command::new(go).arg("version").output().is_ok_and(|output| output.status.success()) {
        return skipped(test, "go is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("waits.pb.gz");
    std::fs::write(&file, export(analysis, "pprof", Of::Waits)).unwrap();
    let output = Command::new(go)
        .args(["tool", "pprof", "-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0"])
        .args(["-symbolize=none", "-sample_index=delay"])
        .arg(&file)
        .env("HOME", folder.path())
        // Go builds pprof when it is first wanted.
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stacks = Tables::of(analysis).stacks(Of::Waits);
    let total = stacks.total().1;
    assert!(text.contains(&format!("of {total}ns total")), "{total}: {text}");
    let mut flat: Vec<u64> = innermost(&stacks).into_values().filter(|ns| *ns > 0).collect();
    let rows = text.lines().skip_while(|line| !line.trim_start().starts_with("flat "));
    let first = |line: &str| line.split_whitespace().next()?.strip_suffix("ns")?.parse().ok();
    let mut printed: Vec<u64> = rows.filter_map(first).filter(|ns| *ns > 0).collect();
    flat.sort_unstable();
    printed.sort_unstable();
    assert_eq!(printed, flat, "{text}");
}

fn innermost(stacks: &Stacks) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for ((_, names), (_, ns)) in &stacks.0 {
        *sums.entry(names.last().expect("a frame").clone()).or_default() += ns;
    }
    sums
}
