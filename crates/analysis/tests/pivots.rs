//! Pivot trees and flame graphs agree with a plain walk over the rows.

use crate::big;
use proptest::prelude::*;
use std::collections::BTreeMap;
use unhitch_analysis::flame::{Drawing, Flame, Node};
use unhitch_analysis::table::{
    Butterfly, Direction, GroupBy, Line, Name, PivotLevel, PivotQuestion, Query, Selection, Stored,
    Value, Words,
};
use unhitch_analysis::{Analysis, Cancel, Rules, StackKind, State};
use unhitch_model::{ThreadId, Trace, Window};

fn small_trace(switches: usize) -> Trace {
    big::trace(&big::Size { switches, cpus: 3, threads: 12, stacks: 60, samples: switches / 3 })
}

fn query<'w>(table: Name, by: &'w str, show: Option<&'w str>, sort: Option<&'w str>) -> Query {
    Query::new(table, Words { by: Some(by), show, filter: None, sort }).expect("a valid query")
}

/// All sleeps inside a window according to the timeline: thread, class, nanoseconds.
fn sleeps(analysis: &Analysis<'_>, window: Window) -> Vec<(String, &'static str, i64)> {
    let threads = (1..analysis.timeline.threads() as u32).map(ThreadId);
    let of = |thread| {
        analysis.segments(thread, window).into_iter().map(move |segment| (thread, segment))
    };
    let asleep =
        threads.flat_map(of).filter(|(_, segment)| matches!(segment.state, State::Sleeping(_)));
    asleep
        .map(|(thread, segment)| {
            let name = analysis.trace.thread_name(thread, segment.window.start).to_owned();
            (
                name,
                unhitch_analysis::explain::class_of(analysis, &segment).name(),
                segment.window.duration_ns() as i64,
            )
        })
        .collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn numbers(line: &Line) -> Vec<i64> {
    line.cells[1..]
        .iter()
        .map(|cell| if let Value::Number(number) = cell { *number } else { -1 })
        .collect()
}

fn level(
    stored: &Stored<'_>,
    query: &Query,
    path: &[String],
    selection: Selection<'_>,
    page: (usize, usize),
) -> PivotLevel {
    let opened = &query.groups()[..path.len()];
    stored
        .level(PivotQuestion { query, opened, path, selection, page }, &Cancel::never())
        .expect("never given up")
}

const ALL: (usize, usize) = (0, usize::MAX);
const SHOW: &str = "count,sum:waited,min:waited,max:waited,avg:waited";

#[derive(Default, Clone, Copy, PartialEq, Debug)]
struct Sums(i64, i64, i64, i64);

fn naive<'s>(rows: impl Iterator<Item = (&'s str, i64)>) -> BTreeMap<String, Vec<i64>> {
    let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
    for (key, ns) in rows {
        let sum = sums.entry(key.to_owned()).or_insert(Sums(0, 0, i64::MAX, i64::MIN));
        *sum = Sums(sum.0 + 1, sum.1 + ns, sum.2.min(ns), sum.3.max(ns));
    }
    sums.into_iter()
        .map(|(key, sum)| (key, vec![sum.0, sum.1, sum.2, sum.3, sum.1 / sum.0]))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn groups_sum_what_their_rows_are(from in 0.0..0.9f64, length in 0.01..1.0f64) {
        let trace = small_trace(4_000);
        let analysis = Analysis::new(&trace, &Rules::default());
        let whole = analysis.timeline.window();
        let start = whole.start.plus((from * whole.duration_ns() as f64) as u64);
        let window = Window::new(start, start.plus((length * whole.duration_ns() as f64) as u64)).intersect(whole);
        let sleeps = sleeps(&analysis, window);
        let stored = Stored::new(&analysis, Name::Waits, window);
        let query = query(Name::Waits, "reason,thread", Some(SHOW), None);
        let top = level(&stored, &query, &[], Selection::default(), ALL);
        let groups = |level: &PivotLevel| level.lines.iter().map(|line| (text(&line.cells[0]), numbers(line))).collect::<BTreeMap<_, _>>();
        prop_assert_eq!(groups(&top), naive(sleeps.iter().map(|(_, class, ns)| (*class, *ns))));
        prop_assert_eq!(top.matched, sleeps.len());
        let sums: Vec<i64> = top.lines.iter().map(|line| numbers(line)[1]).collect();
        prop_assert!(sums.is_sorted_by(|a, b| a >= b), "by the first sum, descending");
        let all = naive(sleeps.iter().map(|(_, _, ns)| ("", *ns)));
        prop_assert_eq!(top.totals[1..].iter().map(|total| total.unwrap_or(-1)).collect::<Vec<_>>(), all.get("").cloned().unwrap_or(vec![0, -1, -1, -1, -1]));
        for line in &top.lines {
            let (class, path) = (text(&line.cells[0]), [line.key.clone().expect("a key")]);
            let inner = level(&stored, &query, &path, Selection::default(), ALL);
            let own = || sleeps.iter().filter(|sleep| sleep.1 == class);
            prop_assert_eq!(groups(&inner), naive(own().map(|(thread, _, ns)| (thread.as_str(), *ns))));
            // Single rows of a thread inside it.
            let Some(first) = inner.lines.first() else { continue };
            let path = [path[0].clone(), first.key.clone().expect("a key")];
            let rows = self::query(Name::Waits, "none", Some("waited,thread"), Some("waited"));
            let question = PivotQuestion { query: &rows, opened: query.groups(), path: &path, selection: Selection::default(), page: ALL };
            let singles = stored.level(question, &Cancel::never()).expect("never given up");
            prop_assert_eq!(Some(singles.total as u64), first.children);
            let mut expected: Vec<i64> = own().filter(|sleep| sleep.0 == text(&first.cells[0])).map(|sleep| sleep.2).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            let shown: Vec<Value> = singles.lines.iter().map(|line| line.cells[0].clone()).collect();
            prop_assert_eq!(shown, expected.into_iter().map(Value::Number).collect::<Vec<_>>());
        }
    }
}

#[test]
fn pages_of_a_level_are_parts_of_it() {
    let trace = small_trace(3_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let stored = Stored::new(&analysis, Name::Wakes, analysis.timeline.window());
    for sort in ["count", "wake stack:asc", "max:waited:asc"] {
        let query = query(Name::Wakes, "wake stack", None, Some(sort));
        let all = level(&stored, &query, &[], Selection::default(), ALL);
        assert!(all.total > 20);
        let mut lines = Vec::new();
        for from in (0..all.total).step_by(7) {
            let page = level(&stored, &query, &[], Selection::default(), (from, 7));
            assert_eq!((page.total, &page.totals), (all.total, &all.totals));
            lines.extend(page.lines);
        }
        assert_eq!(lines, all.lines, "sorted by {sort}");
    }
}

#[test]
fn a_selection_leaves_out_what_it_does_not_name() {
    let trace = small_trace(3_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let whole = analysis.timeline.window();
    let stored = Stored::new(&analysis, Name::Switches, whole);
    let by_tid = query(Name::Switches, "tid", Some("count,sum:ran for"), None);
    let all = level(&stored, &by_tid, &[], Selection::default(), ALL);
    let threads = [ThreadId(2), ThreadId(5)];
    let tids: Vec<i64> =
        threads.iter().map(|thread| i64::from(trace.threads.get(*thread).tid)).collect();
    let some =
        level(&stored, &by_tid, &[], Selection { threads: &threads, ..Selection::default() }, ALL);
    let own = |line: &&Line| tids.iter().any(|tid| line.cells[0] == Value::Number(*tid));
    assert_eq!(some.lines, all.lines.iter().filter(own).cloned().collect::<Vec<_>>());
    let filter =
        unhitch_analysis::table::Filter::parse(Name::Switches, &format!("tid = {}", tids[0]))
            .expect("valid");
    let one = level(
        &stored,
        &by_tid,
        &[],
        Selection { filter: Some(&filter), ..Selection::default() },
        ALL,
    );
    assert_eq!(one.lines.len(), 1);
    // Paths that lead nowhere.
    for key in ["n999999", "tx", "", "sß", "-"] {
        assert_eq!(
            level(&stored, &by_tid, &[key.to_owned()], Selection::default(), ALL).total,
            0,
            "{key}"
        );
    }
    let cancel = Cancel::never();
    cancel.give_up();
    let question = PivotQuestion {
        query: &by_tid,
        opened: &[],
        path: &[],
        selection: Selection::default(),
        page: ALL,
    };
    assert!(stored.level(question, &cancel).is_err());
}

/// The paths of a flame graph with what they weigh, those that are merged left out.
fn paths(flame: &Flame) -> BTreeMap<Vec<String>, (u64, u64, u64)> {
    let mut known: Vec<Vec<String>> = Vec::new();
    let mut paths = BTreeMap::new();
    for node in &flame.nodes {
        let mut path = node.parent.map_or(Vec::new(), |parent| known[parent as usize].clone());
        if node.parent.is_some() {
            path.push(node.name.clone());
        }
        known.push(path.clone());
        if node.key != Node::OTHERS {
            paths.insert(path, (node.total_ns, node.self_ns, node.count));
        }
    }
    paths
}

fn drawing(pixels: u32, root: &[i64], inverted: bool) -> Drawing<'_> {
    Drawing { selection: Selection::default(), pixels, root, inverted, modules: false }
}

#[test]
fn a_flame_graph_is_all_stacks_by_their_functions() {
    let trace = small_trace(3_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    for (of, inverted) in [
        (StackKind::Sample, false),
        (StackKind::Sample, true),
        (StackKind::Wait, false),
        (StackKind::Wake, true),
    ] {
        let stored = Stored::new(&analysis, Name::of_stacks(of), analysis.timeline.window());
        let flame = Flame::new(&stored, of, drawing(u32::MAX, &[], inverted), &Cancel::never())
            .expect("never given up");
        assert_eq!((flame.merged, flame.root_ns), (0, flame.all_ns));
        // Children and what ends there are their parent's.
        let mut below = vec![0; flame.nodes.len()];
        for node in &flame.nodes {
            if let Some(parent) = node.parent {
                below[parent as usize] += node.total_ns;
            }
        }
        for (node, below) in flame.nodes.iter().zip(below) {
            assert_eq!(node.total_ns, node.self_ns + below);
        }
        let whole = paths(&flame);
        assert_eq!(whole.len(), flame.nodes.len(), "siblings differ");
        // A graph 40 pixels wide shows those of them that are wide enough, and the sum of the rest.
        let narrow = Flame::new(&stored, of, drawing(40, &[], inverted), &Cancel::never())
            .expect("never given up");
        let wide: BTreeMap<_, _> = whole
            .iter()
            .filter(|(_, (ns, ..))| *ns as f64 * 40.0 >= flame.all_ns as f64 * 0.5)
            .collect();
        assert_eq!(
            paths(&narrow).keys().collect::<Vec<_>>(),
            wide.keys().copied().collect::<Vec<_>>()
        );
        for (node, at) in narrow.nodes.iter().zip(0..) {
            let children: u64 = narrow
                .nodes
                .iter()
                .filter(|child| child.parent == Some(at))
                .map(|child| child.total_ns)
                .sum();
            assert_eq!(node.total_ns, node.self_ns + children, "others included");
        }
    }
}

#[test]
fn sampled_stacks_are_where_they_were_counted() {
    let trace = small_trace(2_000);
    let analysis = Analysis::new(&trace, &Rules::default());
    let window = analysis.timeline.window();
    let mut naive: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for sample in trace.samples.range(window) {
        let names = trace.stack_names(trace.samples.stack[sample]);
        for depth in 0..=names.len() {
            *naive.entry(names[..depth].to_vec()).or_default() += 1;
        }
    }
    let stored = Stored::new(&analysis, Name::Samples, window);
    let flame =
        Flame::new(&stored, StackKind::Sample, drawing(u32::MAX, &[], false), &Cancel::never())
            .expect("never given up");
    assert_eq!(
        paths(&flame)
            .into_iter()
            .map(|(path, (_, _, count))| (path, count))
            .collect::<BTreeMap<_, _>>(),
        naive
    );
    // Rooted at the second node's first child: the same below it.
    let first = &flame.nodes[1];
    let second = flame.nodes.iter().find(|node| node.parent == Some(1)).expect("a child");
    let root = [first.key, second.key];
    let rooted =
        Flame::new(&stored, StackKind::Sample, drawing(u32::MAX, &root, false), &Cancel::never())
            .expect("never given up");
    assert_eq!((rooted.root_ns, rooted.all_ns), (second.total_ns, flame.all_ns));
    let prefix = [first.name.clone(), second.name.clone()];
    let own: Vec<_> =
        paths(&flame).into_iter().filter(|(path, _)| path.starts_with(&prefix)).collect();
    assert_eq!(
        paths(&rooted)
            .into_iter()
            .filter(|(path, _)| path.starts_with(&prefix))
            .collect::<Vec<_>>(),
        own
    );
    // One thread's.
    let threads = [ThreadId(1)];
    let selection = Selection { threads: &threads, ..Selection::default() };
    let own = Flame::new(
        &stored,
        StackKind::Sample,
        Drawing { selection, ..drawing(100, &[], false) },
        &Cancel::never(),
    )
    .expect("never given up");
    assert_eq!(
        own.all_count as usize,
        analysis.samples.of_thread(&trace, ThreadId(1), window).len()
    );
    // The butterfly of the same function.
    let (question, all) =
        ((StackKind::Sample, GroupBy::Function, Direction::Callees), Selection::default());
    let wing = Butterfly::of(&stored, question, &first.name, all, &Cancel::never())
        .expect("never given up")
        .expect("it is there");
    assert_eq!(wing.all_count as usize, trace.samples.range(window).len());
    assert!(wing.tree.count >= first.count);
}
