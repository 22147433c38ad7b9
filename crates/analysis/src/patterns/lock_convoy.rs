//! Convoy: the lock was handed from waiter to waiter; no single one is to blame.

use super::case::Case;
use super::case::samples_of;
use super::finding::{Finding, Pattern};
use crate::WaitClass;
use crate::explain::Cause;
use crate::samples::hot_spot;
use crate::wording::sentence::{Sentence, are, duration, function, plural, sentence};
use crate::wording::units;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{ThreadId, Window};

/// Minimum holders of a convoy.
const MIN_HOLDERS: usize = 3;
/// Holds of at most one part in so many of the longest are moments on the way of the lock,
const MOMENT_PART: u64 = 10;
/// if together they are at most one part in so many of all. *Why:* thousands of short holds may be all
/// that there is.
const MOMENTS_PART: u64 = 50;
/// A hold of so many percent of the longest, or more, is about as long.
const LONGEST_PERCENT: u64 = 95;

/// What the holders did with the lock: the pieces behind each hop.
struct Holds {
    /// Length and thread of each hold, shortest first, without those that are negligible.
    lengths: Vec<(u64, ThreadId)>,
    /// When holders were on a CPU.
    runs: Vec<(ThreadId, Window)>,
    /// Time by what the holders did.
    by_cause: FxHashMap<Cause, u64>,
    /// All holds together, nanoseconds.
    total_ns: u64,
    /// The threads, in the order in which they had the lock.
    in_order: Vec<ThreadId>,
}

impl Holds {
    fn new(case: &Case<'_>) -> Self {
        let mut by_hop: FxHashMap<u32, (ThreadId, u64)> = FxHashMap::default();
        let (mut runs, mut in_order) = (Vec::new(), Vec::new());
        let mut by_cause: FxHashMap<Cause, u64> = FxHashMap::default();
        for piece in &case.explanation.pieces {
            let is_lock =
                case.explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock);
            let Some(hop) = piece.hop.filter(|_| is_lock) else { continue };
            let ns = piece.window.duration_ns();
            by_hop.entry(hop).or_insert((piece.thread, 0)).1 += ns;
            *by_cause.entry(piece.cause).or_default() += ns;
            if piece.cause == Cause::Ran {
                runs.push((piece.thread, piece.window));
            }
            if in_order.last() != Some(&piece.thread) {
                in_order.push(piece.thread);
            }
        }
        let mut lengths: Vec<(u64, ThreadId)> =
            by_hop.values().map(|&(thread, ns)| (ns, thread)).collect();
        lengths.sort_unstable();
        let total_ns: u64 = lengths.iter().map(|(ns, _)| ns).sum();
        let longest_ns = lengths.last().map_or(0, |(ns, _)| *ns);
        let mut on_the_way_ns = 0;
        let moments = lengths.iter().take_while(|(ns, _)| {
            on_the_way_ns += ns;
            ns.saturating_mul(MOMENT_PART) <= longest_ns
                && on_the_way_ns.saturating_mul(MOMENTS_PART) <= total_ns
        });
        lengths.drain(..moments.count());
        Self { lengths, runs, by_cause, total_ns, in_order }
    }

    /// Number of different threads.
    fn threads(&self) -> usize {
        let mut threads: Vec<ThreadId> = self.lengths.iter().map(|(_, thread)| *thread).collect();
        threads.sort_unstable();
        threads.dedup();
        threads.len()
    }

    /// The first thread that held the lock about as long as the longest: all victims of this queue
    /// then name the same one.
    fn culprit(&self) -> Option<ThreadId> {
        let (longest, _) = self.lengths.last()?;
        let is_as_long =
            |ns: u64| ns.saturating_mul(100) >= longest.saturating_mul(LONGEST_PERCENT);
        let as_long = self.lengths.iter().rev().take_while(|(ns, _)| is_as_long(*ns));
        let as_long: FxHashSet<ThreadId> = as_long.map(|(_, thread)| *thread).collect();
        self.in_order.iter().copied().find(|thread| as_long.contains(thread))
    }

    /// `60.1 % on a CPU, 39.9 % waiting for a disk`.
    fn activities(&self) -> Sentence {
        let mut parts: Vec<(u64, Cause)> = (self.by_cause.iter())
            .map(|(cause, ns)| (*ns, *cause))
            .filter(|(ns, _)| ns.saturating_mul(100) >= self.total_ns)
            .collect();
        parts.sort_unstable_by(|a, b| b.cmp(a));
        let words = parts.iter().map(|(ns, cause)| {
            format!("{} {}", units::percent(*ns, self.total_ns), activity(*cause))
        });
        Sentence::join(words, ", ")
    }
}

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let holds = Holds::new(case);
    let (culprit, threads) = (holds.culprit()?, holds.threads());
    let (&(longest, longest_by), &(median, _)) =
        (holds.lengths.last()?, holds.lengths.get(holds.lengths.len() / 2)?);
    if !case.is_most(holds.total_ns) || threads < MIN_HOLDERS {
        return None;
    }
    let threads = plural(threads as u64, "thread");
    let mut sentences = case.waited_for_lock_in();
    sentences.push(sentence!(
        "{} held the lock in turn, each after waiting for the one before: {} in all, median {}, \
         longest {} ({}).",
        threads.clone(),
        duration(holds.total_ns),
        duration(median),
        duration(longest),
        case.name(longest_by)
    ));
    sentences
        .push(sentence!("Of the time that they held the lock, they spent {}.", holds.activities()));
    let release = case.release();
    let name = match &hot_spot(case.analysis, &holds.runs) {
        Some(spot) => {
            sentences.push(sentence!(
                "{} taken during the holds {} in\n  {}",
                samples_of(spot),
                are(spot.inside.into()),
                case.stack(spot.stack)
            ));
            case.hot_name(spot)
        }
        None => release.as_ref().map(|release| release.function.clone()).unwrap_or_default(),
    };
    if let Some(release) = &release {
        sentences.push(sentence!("They released the lock in\n  {}", case.stack(release.stack)));
    }
    let doing = match name.as_str() {
        "" => Sentence::default(),
        name => sentence!(", in {}", function(name)),
    };
    let cause = sentence!(
        "a convoy: {} took one lock in turn, {} each{}.",
        threads,
        duration(median),
        doing
    );
    Some(Finding {
        culprit: Some(culprit),
        function: name,
        sentences,
        advice: "Do less under the lock, or let threads that need the same result share one \
                 computation."
            .to_owned(),
        ..case.finding(Pattern::LockConvoy, cause)
    })
}

const fn activity(cause: Cause) -> &'static str {
    match cause {
        Cause::Ran => "on a CPU",
        Cause::WaitedForCpu => "waiting for a CPU",
        Cause::Timer | Cause::Timeout => "asleep on their own timer",
        Cause::Io => "waiting for a disk",
        Cause::Device => "waiting for a device",
        Cause::Memory => "waiting for memory",
        Cause::Message => "waiting for a message",
        Cause::Stopped => "stopped",
        Cause::UnknownWaker | Cause::Lost => "not recorded",
    }
}
