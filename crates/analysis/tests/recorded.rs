//! Each kind of wait that has words, on a stack that was recorded from the real program: `stacks.txt`,
//! which the example `wait_stacks` of `unhitch-golden` prints from traces. A line is the words, the
//! function that an answer names, and the frames, leaf first, of the kernel and of the process.

use crate::programs::wait;
use std::collections::BTreeSet;

const STACKS: &str = include_str!("stacks.txt");

/// Waits that were read in the sources of a program and never recorded.
const FROM_SOURCES: [&str; 5] = [
    "heavyweight lock of PostgreSQL",
    "lock of MongoDB",
    "monitor of .NET",
    "row lock of MariaDB",
    "the interpreter lock GVL",
];

/// The words of one file of rules.
fn words_of(rules: &str) -> BTreeSet<&str> {
    let words = rules.lines().filter_map(|line| line.strip_prefix("words = \""));
    words.map(|rest| rest.trim_end_matches('"')).collect()
}

#[test]
fn recorded_waits_are_told_in_their_words() {
    let mut wrong = Vec::new();
    for line in STACKS.lines() {
        let [words, function, frames] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns: {line}");
        };
        let frames: Vec<&str> = frames.split(';').collect();
        let (_, told, named) = wait(&[&frames]);
        // Code without a name is told by its address, which is not recorded here.
        let is_same = named == function || function.contains("+0x") && named.contains("+0x");
        if told != words || !is_same {
            wrong.push(format!("{told}, in {named}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_wait_with_words_was_recorded() {
    let recorded: BTreeSet<&str> =
        STACKS.lines().filter_map(|line| line.split('\t').next()).collect();
    let rules = [
        include_str!("../waits/linux.toml"),
        include_str!("../waits/runtimes.toml"),
        include_str!("../waits/programs.toml"),
    ];
    let known: BTreeSet<&str> = rules.into_iter().flat_map(words_of).collect();
    let missing: Vec<_> =
        known.difference(&recorded).filter(|words| !FROM_SOURCES.contains(words)).collect();
    assert!(missing.is_empty(), "no recorded stack of {missing:?}");
    let recorded_after_all: Vec<_> =
        FROM_SOURCES.iter().filter(|words| recorded.contains(*words)).collect();
    assert!(recorded_after_all.is_empty(), "{recorded_after_all:?} was recorded");
}
