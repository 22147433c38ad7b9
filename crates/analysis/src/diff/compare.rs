//! [`Diff`]: two sides compared.

use super::facts::Facts;
use super::path::{Edge, End};
use super::ranks::{Ranks, ranks};
use super::summary::{StallSummary, Summary};
use super::waits::{WaitKey, WaitSum};
use super::who::Who;
use crate::What;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// With one recording on a side, smaller differences count as noise: one part in this many of the
/// larger value.
const NOISE_PART: u64 = 4;
/// The same for a stall, nanoseconds.
const NOISE_NS: u64 = 10_000_000;
/// The same for waits, nanoseconds per second of recording.
const NOISE_WAIT_NS: u64 = 20_000_000;
/// Waits of which both sides have less than that, nanoseconds per second, are never mentioned.
const MIN_WAIT_NS: u64 = 1_000_000;

/// The difference between two sides, of one recording or several each.
#[derive(Serialize, Debug)]
pub struct Diff {
    version: u32,
    /// The recordings of each side.
    pub before: Vec<Facts>,
    /// The recordings of the other side.
    pub after: Vec<Facts>,
    /// What makes them hard to compare.
    pub incomparable: Vec<String>,
    /// False where times must not be put into proportion.
    pub proportionate: bool,
    /// The stall of the same thread on both sides.
    pub stall: StallDiff,
    /// Stalls by victim and pattern: their number per recording, before and after, where it
    /// differs.
    pub stalls: Vec<Line>,
    /// Waits, those that differ most first.
    pub waits: Vec<WaitDiff>,
    /// True if nothing differs by more than noise; false where waits were not recorded.
    pub is_noise: bool,
}

/// Stalls of one victim and pattern.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Line {
    /// Who suffered.
    pub victim: Who,
    /// The cause by name.
    pub pattern: &'static str,
    /// In all recordings before: how many, and how long in all.
    pub before: (u64, u64),
    /// The same after.
    pub after: (u64, u64),
}

/// A line of the partition on both sides.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct PartDiff {
    /// What the time went to, in JSON's words.
    pub what: &'static str,
    /// The same for people; where it ends in "by", "from" or "for", a thread follows.
    pub label: &'static str,
    #[serde(skip)]
    pub(super) kind: What,
    /// Who was responsible.
    pub who: Option<Who>,
    /// Nanoseconds before.
    pub before_ns: u64,
    /// Nanoseconds after.
    pub after_ns: u64,
    /// After less before.
    pub difference_ns: i64,
}

/// A stall on both sides.
#[derive(Serialize, Debug)]
pub struct StallDiff {
    /// Before: of several recordings, the one of median length.
    pub before: Option<StallSummary>,
    /// After, likewise.
    pub after: Option<StallSummary>,
    /// After less before, nanoseconds.
    pub difference_ns: i64,
    /// The difference by what and who, largest first; sums to it exactly.
    pub partition: Vec<PartDiff>,
    /// How the chains differ.
    pub chain: ChainDiff,
    /// True if pattern, culprit, its function, or the chain differ.
    pub cause_differs: bool,
    /// What ranks say about the lengths.
    pub ranks: Option<Ranks>,
    /// True if the lengths differ by more than noise.
    pub length_differs: bool,
}

/// Two chains, edge by edge.
#[derive(Serialize, Debug)]
pub struct ChainDiff {
    /// The number of edges that are the same, from the victim on.
    pub same: usize,
    /// What differs about the next: `waiter`, `wait`, `waker`, `wake`, `missing`, `end`; none if the
    /// chains are the same.
    pub differs: Vec<&'static str>,
    /// The first edge that differs, before.
    pub before: Option<Edge>,
    /// The same after.
    pub after: Option<Edge>,
    /// What the chains lead to.
    pub ends: (Option<End>, Option<End>),
}

/// Waits of one kind on both sides, per second of recording.
#[derive(Serialize, Debug)]
pub struct WaitDiff {
    /// The waits.
    pub waits: WaitKey,
    /// `new`, `gone`, `more` or `less`.
    pub change: &'static str,
    /// Before.
    pub before: WaitFigures,
    /// After.
    pub after: WaitFigures,
    /// After less before, nanoseconds per second.
    pub difference_ns: i64,
    /// The part of that because they are more often.
    pub more_often_ns: i64,
    /// The part because they take longer; both sum to the difference.
    pub longer_ns: i64,
    /// What ranks say.
    pub ranks: Option<Ranks>,
    /// True if it is more than noise.
    pub differs: bool,
}

/// Waits of one side.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct WaitFigures {
    /// Waits per second.
    pub per_second: f64,
    /// Nanoseconds per second.
    pub ns_per_second: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// The length that 99 % do not exceed, nanoseconds.
    pub p99_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
    /// Waits that recordings cut, counted nowhere else.
    pub cut: u64,
}

impl Diff {
    /// Compares two sides. Each must have at least one recording.
    pub fn new(before: &[Summary], after: &[Summary]) -> Self {
        let facts = |side: &[Summary]| side.iter().map(|one| one.facts.clone()).collect();
        let (before_facts, after_facts): (Vec<Facts>, Vec<Facts>) = (facts(before), facts(after));
        let first = before_facts.first().zip(after_facts.first());
        let (incomparable, proportionate) =
            first.map_or((Vec::new(), false), |(one, other)| one.differences(other));
        let stall = StallDiff::new(before, after);
        let waits = waits(before, after);
        let all = || before_facts.iter().chain(&after_facts);
        let is_noise = all().all(|facts| facts.lacks_switches().is_none())
            && !stall.length_differs
            && !stall.cause_differs
            && waits.iter().all(|waits| !waits.differs);
        Self {
            version: 1,
            before: before_facts,
            after: after_facts,
            incomparable,
            proportionate,
            stall,
            stalls: lines(before, after),
            waits,
            is_noise,
        }
    }
}

/// The length of a recording's stall; 0 without one.
fn length(summary: &Summary) -> u64 {
    summary.stall.as_ref().map_or(0, |stall| stall.duration_ns)
}

/// The stall of median length.
fn median(side: &[Summary]) -> Option<&StallSummary> {
    let mut order: Vec<&Summary> = side.iter().collect();
    order.sort_by_key(|summary| length(summary));
    order.get(order.len().saturating_sub(1) / 2)?.stall.as_ref()
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// True if two values differ by more than a single recording's noise.
fn is_far(before: u64, after: u64, least: u64) -> bool {
    let difference = before.abs_diff(after);
    difference >= least && difference.saturating_mul(NOISE_PART) >= before.max(after)
}

impl StallDiff {
    fn new(before: &[Summary], after: &[Summary]) -> Self {
        let (one, other) = (median(before), median(after));
        let lengths = |side: &[Summary]| -> Vec<i64> {
            side.iter().map(|summary| signed(length(summary))).collect()
        };
        let ranks = ranks(&lengths(before), &lengths(after));
        let of = |stall: Option<&StallSummary>| stall.map_or(0, |stall| stall.duration_ns);
        let length_differs = match &ranks {
            Some(ranks) => ranks.is_difference() && of(one) != of(other),
            None => is_far(of(one), of(other), NOISE_NS),
        };
        let chain = ChainDiff::new(one, other);
        let cause_differs = match (one, other) {
            (Some(_), Some(_)) => no_cause_is_shared(before, after),
            (None, None) => false,
            // A stall that is there on one side only, but is short.
            _ => length_differs,
        };
        Self {
            before: one.cloned(),
            after: other.cloned(),
            difference_ns: signed(of(other)) - signed(of(one)),
            partition: partition(one, other),
            chain,
            cause_differs,
            ranks,
            length_differs,
        }
    }
}

/// True if no stall of one side has the cause and the chain of any of the other. What differs between
/// recordings of one side, too, is no difference of the sides.
fn no_cause_is_shared(before: &[Summary], after: &[Summary]) -> bool {
    let stalls = |side: &'_ [Summary]| -> Vec<StallSummary> {
        side.iter().filter_map(|summary| summary.stall.clone()).collect()
    };
    let same = |one: &StallSummary, other: &StallSummary| {
        let cause =
            |stall: &StallSummary| (stall.pattern, stall.culprit.clone(), stall.function.clone());
        cause(one) == cause(other) && ChainDiff::new(Some(one), Some(other)).differs.is_empty()
    };
    let (before, after) = (stalls(before), stalls(after));
    !before.iter().any(|one| after.iter().any(|other| same(one, other)))
}

/// The difference of two partitions.
fn partition(before: Option<&StallSummary>, after: Option<&StallSummary>) -> Vec<PartDiff> {
    let parts = |stall: Option<&'_ StallSummary>| stall.map(|stall| stall.partition.clone());
    let (before, after) = (parts(before).unwrap_or_default(), parts(after).unwrap_or_default());
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let mut lines: Vec<PartDiff> = keys
        .into_iter()
        .map(|key| {
            let of =
                |side: &std::collections::BTreeMap<_, u64>| side.get(&key).copied().unwrap_or(0);
            let (before_ns, after_ns) = (of(&before), of(&after));
            let difference_ns = signed(after_ns) - signed(before_ns);
            let (kind, who) = key;
            PartDiff {
                what: kind.name(),
                label: kind.words(),
                kind,
                who,
                before_ns,
                after_ns,
                difference_ns,
            }
        })
        .collect();
    lines.sort_by_key(|line| Reverse(line.difference_ns.unsigned_abs()));
    lines
}

impl ChainDiff {
    fn new(before: Option<&StallSummary>, after: Option<&StallSummary>) -> Self {
        let edges = |stall: Option<&StallSummary>| {
            stall.map(|stall| stall.path.edges.clone()).unwrap_or_default()
        };
        let end = |stall: Option<&StallSummary>| stall.and_then(|stall| stall.path.end.clone());
        let (one, other) = (edges(before), edges(after));
        let parts = |one: &Edge, other: &Edge| {
            let parts = [
                ("waiter", one.waiter != other.waiter),
                ("wait", one.wait != other.wait || one.class != other.class),
                ("waker", one.waker != other.waker),
                ("wake", one.wake != other.wake),
            ];
            let different = parts.into_iter().filter(|(_, differs)| *differs);
            different.map(|(part, _)| part).collect::<Vec<_>>()
        };
        let same = one.iter().zip(&other).take_while(|(a, b)| parts(a, b).is_empty()).count();
        let (first, second) = (one.get(same).cloned(), other.get(same).cloned());
        let ends = (end(before), end(after));
        let meaning = |end: &Option<End>| {
            end.as_ref().map(|end| (end.who.clone(), end.cause, end.function.clone()))
        };
        let differs = match (&first, &second) {
            _ if before.is_none() || after.is_none() => Vec::new(),
            (Some(one), Some(other)) => parts(one, other),
            (None, None) if meaning(&ends.0) != meaning(&ends.1) => vec!["end"],
            (None, None) => Vec::new(),
            _ => vec!["missing"],
        };
        Self { same, differs, before: first, after: second, ends }
    }
}

/// Stalls whose number differs.
fn lines(before: &[Summary], after: &[Summary]) -> Vec<Line> {
    let sum = |side: &[Summary], key: &(Who, &'static str)| {
        let all = side.iter().filter_map(|summary| summary.stalls.get(key));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let keys: BTreeSet<(Who, &'static str)> =
        before.iter().chain(after).flat_map(|summary| summary.stalls.keys().cloned()).collect();
    let mut lines: Vec<Line> = keys
        .into_iter()
        .map(|key| {
            let (before, after) = (sum(before, &key), sum(after, &key));
            Line { victim: key.0, pattern: key.1, before, after }
        })
        .filter(|line| line.before.0 * after.len() as u64 != line.after.0 * before.len() as u64)
        .collect();
    lines.sort_by_key(|line| Reverse(line.before.1.abs_diff(line.after.1)));
    lines
}

/// Waits of all recordings of a side, per second.
fn figures(side: &[Summary], key: &WaitKey) -> WaitFigures {
    let mut all = WaitSum::default();
    for sum in side.iter().filter_map(|summary| summary.waits.get(key)) {
        all.lengths.extend(&sum.lengths);
        all.cut.0 += sum.cut.0;
    }
    all.lengths.sort_unstable();
    let seconds = side.iter().map(|summary| summary.facts.covered_ns).sum::<u64>() as f64 / 1e9;
    let per_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
    WaitFigures {
        per_second: per_second(all.lengths.len() as f64),
        ns_per_second: per_second(all.sum_ns() as f64).round() as u64,
        p50_ns: all.percentile(50),
        p99_ns: all.percentile(99),
        max_ns: all.lengths.last().copied().unwrap_or(0),
        cut: all.cut.0,
    }
}

/// The waits that are worth a mention, those that differ most first, new and gone ones before.
fn waits(before: &[Summary], after: &[Summary]) -> Vec<WaitDiff> {
    let keys: BTreeSet<&WaitKey> =
        before.iter().chain(after).flat_map(|summary| summary.waits.keys()).collect();
    let unwanted = |key: &WaitKey| {
        let all = before.iter().chain(after).filter_map(|summary| summary.waits.get(key));
        all.into_iter().any(|sum| sum.unwanted)
    };
    let rates = |side: &[Summary], key: &WaitKey| -> Vec<i64> {
        let of = |one: &Summary| figures(std::slice::from_ref(one), key).ns_per_second;
        side.iter().map(|one| signed(of(one))).collect()
    };
    let mut lines: Vec<WaitDiff> = keys
        .into_iter()
        .filter_map(|key| {
            let (one, other) = (figures(before, key), figures(after, key));
            if one.ns_per_second.max(other.ns_per_second) < MIN_WAIT_NS {
                return None;
            }
            let ranks = ranks(&rates(before, key), &rates(after, key));
            let far = is_far(one.ns_per_second, other.ns_per_second, NOISE_WAIT_NS);
            let differs = ranks.map_or(far, |ranks| far && ranks.is_difference()) && unwanted(key);
            Some(WaitDiff::new(key, one, other, ranks, differs))
        })
        .collect();
    let whole = |line: &WaitDiff| matches!(line.change, "new" | "gone");
    lines.sort_by_key(|line| {
        Reverse((line.differs, line.differs && whole(line), line.difference_ns.unsigned_abs()))
    });
    lines
}

impl WaitDiff {
    fn new(
        key: &WaitKey,
        before: WaitFigures,
        after: WaitFigures,
        ranks: Option<Ranks>,
        differs: bool,
    ) -> Self {
        let difference_ns = signed(after.ns_per_second) - signed(before.ns_per_second);
        // What as many more waits of the old length would take; the rest is because of the length.
        let more_often_ns = if before.per_second > 0.0 {
            let mean = before.ns_per_second as f64 / before.per_second;
            ((after.per_second - before.per_second) * mean).round() as i64
        } else {
            difference_ns
        };
        let change = match (before.ns_per_second, after.ns_per_second) {
            (0, _) => "new",
            (_, 0) => "gone",
            _ if difference_ns < 0 => "less",
            _ => "more",
        };
        Self {
            waits: key.clone(),
            change,
            before,
            after,
            difference_ns,
            more_often_ns,
            longer_ns: difference_ns - more_often_ns,
            ranks,
            differs,
        }
    }
}
