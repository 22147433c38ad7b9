//! Tables and butterflies of synthetic traces, compared with sums that these tests compute
//! themselves from the generated events.

use std::collections::BTreeMap;
use unhitch_analysis::table::{
    Butterfly, Direction, GroupBy, Name, Query, Ranking, StackQuestion, Table, Words,
};
use unhitch_analysis::{Analysis, Rules, StackKind};
use unhitch_model::{StackId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};

use crate::scene::Scene;

/// Microseconds.
const END: u64 = 1_000_000;
const STACKS: usize = 7;

/// Sleeps by stack: what was generated, and when.
type Sleeps = Vec<(usize, u64, u64)>;

/// Threads that sleep on one of [`STACKS`] stacks, are woken by one other, run and sleep again; and
/// every sleep from its first to its last microsecond. All come from one small random number
/// generator, so they are always the same.
fn busy_office() -> (Trace, Sleeps) {
    let mut scene = Scene::default();
    let mut seed = 12_345u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let names: Vec<String> = (0..STACKS).map(|at| format!("desk_{at}")).collect();
    let stacks: Vec<StackId> = names
        .iter()
        .map(|name| scene.stack(&["main", name, "|", "futex_wait", "schedule"]))
        .collect();
    let wake_stack = scene.stack(&["main", "bell", "ring", "|", "futex_wake", "try_to_wake_up"]);
    let boss = scene.thread(1, 1, "boss");
    let mut sleeps = Sleeps::new();
    for clerk in 0..20u32 {
        let (tid, cpu) = (100 + clerk, 1 + clerk as u16);
        let thread = scene.thread(100, tid, "clerk");
        scene.switch(
            random(1_000),
            cpu,
            ThreadId::IDLE,
            TaskState::Runnable,
            thread,
            StackId::EMPTY,
        );
        let mut at = 1_000 + random(1_000);
        while at < END {
            let (stack, asleep, on_the_way, ran) = (
                random(STACKS as u64) as usize,
                1 + random(9_000),
                1 + random(50),
                1 + random(2_000),
            );
            scene.switch(at, cpu, thread, TaskState::Sleeping, ThreadId::IDLE, stacks[stack]);
            scene.wake(at + asleep, 0, boss, thread, WakeFlags::default(), wake_stack);
            scene.switch(
                at + asleep + on_the_way,
                cpu,
                ThreadId::IDLE,
                TaskState::Runnable,
                thread,
                StackId::EMPTY,
            );
            sleeps.push((stack, at, (at + asleep).min(END)));
            at += asleep + on_the_way + ran;
        }
    }
    (scene.finish(21, END), sleeps)
}

/// Count, sum and longest of the sleeps inside a window, by stack, the greatest sum first;
/// nanoseconds.
fn by_hand(sleeps: &Sleeps, from: u64, to: u64) -> Vec<(String, i64, i64, i64)> {
    let mut sums: BTreeMap<usize, (i64, i64, i64)> = BTreeMap::new();
    for &(stack, start, end) in sleeps {
        let inside = (end.min(to) as i64 - start.max(from) as i64) * 1000;
        if inside > 0 {
            let sum = sums.entry(stack).or_default();
            *sum = (sum.0 + 1, sum.1 + inside, sum.2.max(inside));
        }
    }
    let mut list: Vec<_> = sums
        .into_iter()
        .map(|(stack, (count, sum, most))| (format!("desk_{stack}"), count, sum, most))
        .collect();
    list.sort_by_key(|row| -row.2);
    list
}

fn window(from: u64, to: u64) -> Window {
    Window::new(Time::from_nanos(from * 1000), Time::from_nanos(to * 1000))
}

/// The lines of a table's CSV without its header.
fn rows(analysis: &Analysis<'_>, name: Name, words: Words<'_>, window: Window) -> Vec<Vec<String>> {
    let table = Table::new(analysis, &Query::new(name, words).unwrap(), window, usize::MAX);
    table.csv().lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn the_greatest_waits_are_those_summed_by_hand_in_any_window() {
    let (trace, sleeps) = busy_office();
    let analysis = Analysis::new(&trace, &Rules::default());
    let words = Words {
        by: Some("wait stack"),
        show: Some("count,sum:waited,max:waited"),
        filter: Some("state != ''"),
        ..Words::default()
    };
    for (from, to) in [(0, END), (0, 1), (123_456, 654_321), (500_000, 500_777), (999_990, END)] {
        let table: Vec<(String, i64, i64, i64)> =
            rows(&analysis, Name::Waits, words, window(from, to))
                .iter()
                .map(|row| {
                    let desk = row[0].split(';').nth(1).unwrap().to_owned();
                    (
                        desk,
                        row[1].parse().unwrap(),
                        row[2].parse().unwrap(),
                        row[3].parse().unwrap(),
                    )
                })
                .collect();
        let mut expected = by_hand(&sleeps, from, to);
        let mut found = table.clone();
        assert!(
            found.windows(2).all(|pair| pair[0].2 >= pair[1].2),
            "the greatest sum comes first: {found:?}"
        );
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{from} to {to}");
    }
}

#[test]
fn switches_and_wakes_tell_the_same_waits_from_both_ends() {
    let (trace, sleeps) = busy_office();
    let analysis = Analysis::new(&trace, &Rules::default());
    // Wakes inside the window, with the whole of the sleep that each ended.
    let (from, to) = (200_000, 300_000);
    let ended: Vec<_> = sleeps.iter().filter(|(_, _, end)| (from..to).contains(end)).collect();
    let sum: u64 = ended.iter().map(|(_, start, end)| (end - start) * 1000).sum();
    let show = Words { show: Some("count,sum:waited"), ..Words::default() };
    assert_eq!(
        rows(&analysis, Name::Wakes, show, window(from, to)),
        [[ended.len().to_string(), sum.to_string()]]
    );
    let everything = Words {
        by: Some("none"),
        show: Some("switched in,off-CPU,waited,runnable"),
        ..Words::default()
    };
    for row in rows(&analysis, Name::Switches, everything, window(from, to)) {
        let [at, off, waited, runnable] = [0, 1, 2, 3].map(|at| row[at].parse::<u64>().unwrap());
        assert_eq!(off, waited + runnable);
        let woken = (at - runnable) / 1000;
        assert!(
            sleeps.iter().any(|&(_, start, end)| end == woken && (end - start) * 1000 == waited),
            "{row:?}"
        );
        assert!((from..to).contains(&(at / 1000)));
    }
}

#[test]
fn filters_groups_and_orders_work_together() {
    let (trace, sleeps) = busy_office();
    let analysis = Analysis::new(&trace, &Rules::default());
    let whole = analysis.timeline.window();
    let long = sleeps
        .iter()
        .filter(|(stack, start, end)| end - start >= 8_000 && [2, 3].contains(stack))
        .count();
    let filter = "waited >= 8ms and (wait stack ~ DESK_2 or new thread stack = desk_3) and not thread = boss and state != ''";
    let words = Words {
        show: Some("count"),
        by: Some("process"),
        filter: Some(filter),
        ..Words::default()
    };
    assert_eq!(
        rows(&analysis, Name::Waits, words, whole),
        [["clerk".to_owned(), long.to_string()]]
    );
    let words = Words {
        by: Some("tid"),
        show: Some("count"),
        sort: Some("tid:asc"),
        filter: Some("tid > 115"),
    };
    let tids: Vec<String> = rows(&analysis, Name::Switches, words, whole)
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    assert_eq!(tids, ["116", "117", "118", "119"]);
    let words = Words {
        filter: Some("blocked at >= 0.4s and blocked at < 500ms"),
        show: Some("count"),
        by: Some("thread"),
        ..Words::default()
    };
    let begun = sleeps.iter().filter(|(_, start, _)| (400_000..500_000).contains(start)).count();
    assert_eq!(rows(&analysis, Name::Waits, words, whole)[0][1], begun.to_string());
}

#[test]
fn what_is_cut_is_told_and_adds_up() {
    let (trace, sleeps) = busy_office();
    let analysis = Analysis::new(&trace, &Rules::default());
    let words = Words {
        by: Some("wait stack"),
        show: Some("count"),
        sort: Some("count"),
        filter: Some("state != ''"),
    };
    let table = Table::new(
        &analysis,
        &Query::new(Name::Waits, words).unwrap(),
        analysis.timeline.window(),
        2,
    );
    let text = table.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let shown: usize = lines[1..3]
        .iter()
        .map(|line| {
            line.split_whitespace().next().unwrap().replace(',', "").parse::<usize>().unwrap()
        })
        .sum();
    let rest = lines[3]
        .strip_prefix("… and 5 more of 7 rows, together count ")
        .and_then(|rest| rest.strip_suffix(" (--top N)"))
        .unwrap();
    assert_eq!(shown + rest.replace(',', "").parse::<usize>().unwrap(), sleeps.len());
}

/// One thread wakes two others through one release function, deep in a recursion; samples find it
/// in the same place.
fn recursive() -> Trace {
    let mut scene = Scene::default();
    let (a, b, c) =
        (scene.thread(10, 10, "a"), scene.thread(20, 20, "b"), scene.thread(30, 30, "c"));
    let release = scene.stack(&[
        "main",
        "walk",
        "walk",
        "release",
        "walk",
        "|",
        "futex_wake",
        "try_to_wake_up",
    ]);
    let other = scene.stack(&["main", "other", "|", "futex_wake", "try_to_wake_up"]);
    let wait = scene.stack(&["main", "lock", "|", "futex_wait", "schedule"]);
    scene.switch(0, 0, ThreadId::IDLE, TaskState::Runnable, a, StackId::EMPTY);
    for (cpu, thread, woken, stack) in [(1, b, 600, release), (2, c, 400, other)] {
        scene.switch(10, cpu, ThreadId::IDLE, TaskState::Runnable, thread, StackId::EMPTY);
        scene.switch(100, cpu, thread, TaskState::Sleeping, ThreadId::IDLE, wait);
        scene.wake(woken, 0, a, thread, WakeFlags::default(), stack);
        scene.switch(woken + 5, cpu, ThreadId::IDLE, TaskState::Runnable, thread, StackId::EMPTY);
    }
    scene.sample(300, 0, a, release);
    scene.trace.meta.sample_period_ns = 1_000;
    scene.finish(3, 1_000)
}

#[test]
fn a_function_counts_once_however_often_a_stack_has_it() {
    let trace = recursive();
    let analysis = Analysis::new(&trace, &Rules::default());
    let query = Query::new(Name::Wakes, Words::default()).unwrap();
    let question = StackQuestion {
        kind: StackKind::Wake,
        query: &query,
        window: analysis.timeline.window(),
        by: GroupBy::Function,
    };
    let ranking = Ranking::new(&analysis, question);
    assert_eq!((ranking.all_count, ranking.all_total_ns), (2, 800_000));
    let of = |name: &str| {
        ranking
            .ranking
            .iter()
            .find(|ranked| ranked.name == name)
            .map(|ranked| (ranked.count, ranked.total_ns))
    };
    assert_eq!(
        (of("walk"), of("release"), of("other"), of("futex_wake")),
        (Some((1, 500_000)), Some((1, 500_000)), Some((1, 300_000)), Some((2, 800_000)))
    );
    assert_eq!(of("main"), None, "a function on every stack distinguishes nothing");
    assert_eq!(of("try_to_wake_up"), None, "the scheduler's own frames are left out");

    let callers = Butterfly::new(&analysis, question, Direction::Callers, "walk").unwrap();
    assert_eq!((callers.tree.count, callers.tree.total_ns), (1, 500_000));
    assert_eq!(
        callers.tree.children.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
        ["main"],
        "of its outermost call"
    );
    let callees = Butterfly::new(&analysis, question, Direction::Callees, "WAL").unwrap();
    let mut path = Vec::new();
    let mut node = &callees.tree;
    while let [child] = node.children.as_slice() {
        path.push(child.name.as_str());
        node = child;
    }
    assert_eq!(path, ["walk", "release", "walk", "futex_wake"]);
    assert!(Butterfly::new(&analysis, question, Direction::Callees, "nobody").is_none());
    let text = callees.text(3);
    assert!(
        text.starts_with("walk is on 1 of 2 wake-ups: wait ended 500.0 µs of 800.0 µs (62.5 %)\n"),
        "{text}"
    );
    assert!(text.ends_with("… and 2 of 5 smaller lines (--top N)\n"), "{text}");

    let main = Butterfly::new(&analysis, question, Direction::Callees, "main").unwrap();
    assert_eq!(
        main.tree
            .children
            .iter()
            .map(|node| (node.name.as_str(), node.total_ns))
            .collect::<Vec<_>>(),
        [("walk", 500_000), ("other", 300_000)]
    );
    let modules = Ranking::new(&analysis, StackQuestion { by: GroupBy::Module, ..question });
    assert_eq!(modules.ranking.iter().map(|ranked| ranked.count).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn samples_threads_and_cpus_add_up() {
    let trace = recursive();
    let analysis = Analysis::new(&trace, &Rules::default());
    let whole = analysis.timeline.window();
    let words =
        Words { by: Some("none"), show: Some("thread,function,weight"), ..Words::default() };
    assert_eq!(rows(&analysis, Name::Samples, words, whole), [["a", "try_to_wake_up", "1000"]]);
    let words = Words {
        show: Some("tid,ran,runnable,slept,switches"),
        sort: Some("tid:asc"),
        ..Words::default()
    };
    let expected = [
        ["10", "1000000", "0", "0", "1"],
        ["20", "485000", "5000", "500000", "2"],
        ["30", "685000", "5000", "300000", "2"],
    ];
    assert_eq!(rows(&analysis, Name::Threads, words, whole), expected);
    let words = Words { show: Some("cpu,busy,idle,switches,events"), ..Words::default() };
    let expected = [
        ["0", "1000000", "0", "1", "4"],
        ["1", "485000", "515000", "3", "3"],
        ["2", "685000", "315000", "3", "3"],
    ];
    assert_eq!(rows(&analysis, Name::Cpus, words, whole), expected);
}

#[test]
fn every_table_of_an_empty_trace_is_empty_and_says_so() {
    let trace = Trace::default();
    let analysis = Analysis::new(&trace, &Rules::default());
    for table in unhitch_analysis::table::TABLES {
        let table = Table::new(
            &analysis,
            &Query::new(table.name, Words::default()).unwrap(),
            analysis.timeline.window(),
            20,
        );
        let text = table.text();
        assert!(
            table.is_empty() && (text.starts_with("No row") || text.starts_with("Not recorded")),
            "{text}"
        );
    }
}
