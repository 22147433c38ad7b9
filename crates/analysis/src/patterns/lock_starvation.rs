//! Lock starvation: one operation woken again and again, each time too late. Either the releaser
//! has taken the lock again (barging), or each release wakes many waiters (a herd), or nobody wakes
//! the waiter and it looks by its own timer (polling).

use super::case::Case;
use super::case::{samples_of, weaken};
use super::finding::{Evidence, Finding, Pattern};
use super::polled_lock;
use crate::explain::{Cause, Piece, Share, What};
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, Span, count, duration, sentence};
use crate::{Operation, Segment, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Window, units};

/// Minimum wake-ups in vain of one operation: a few happen wherever a lock is in demand.
pub(crate) const MIN_WAKES_IN_VAIN: usize = 8;
/// Maximum distance of two wake-ups by one release, nanoseconds.
const MAX_HERD_NS: u64 = 100_000;

/// Whoever looks at a lock, also again and again, before it sleeps takes less than this, nanoseconds.
const MAX_LOOK_NS: u64 = 50_000;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let operation = case.operation.as_ref()?;
    if operation.class != WaitClass::Lock || operation.wakes_in_vain() < MIN_WAKES_IN_VAIN {
        return None;
    }
    // If next to nothing of this wait would be left had the holder had a CPU, it is priority
    // inversion, whoever else got the lock.
    let is_inverted = case.main_holder().is_some_and(|(holder, _)| {
        case.holder_without_cpu_ns(holder) / 9 >= case.duration_ns() / 10
    });
    if is_inverted {
        return None;
    }
    let timeouts = polled_lock::own_timeouts(case, operation);
    if timeouts * 2 > operation.wakes.len() {
        // A waiter that only polled until the holder released was kept waiting by that holder,
        // however often it looked.
        let is_held = case.main_holder().is_some_and(|(holder, held_ns)| {
            holder != case.candidate.victim && case.is_most(held_ns)
        });
        return (!is_held).then(|| polled_lock::finding(case, operation, timeouts));
    }
    let starvation = Starvation::new(case, operation)?;
    // Mostly woken by several threads, one at a time: a lock with many users.
    if starvation.by_releaser * 2 < operation.wakes.len() && !starvation.is_herd() {
        return None;
    }
    Some(starvation.finding(case, operation))
}

/// Who starved the waiter, and how.
struct Starvation {
    /// The thread that issued most wake-ups.
    releaser: ThreadId,
    /// How many of them.
    by_releaser: usize,
    /// Its most frequent stack.
    release: StackId,
    /// One of its wake-ups on that stack.
    wake: usize,
    /// How many threads each wake-up woke for the lock, on average.
    herd: f64,
    barging: Barging,
}

impl Starvation {
    fn new(case: &Case<'_>, operation: &Operation) -> Option<Self> {
        let trace = case.analysis.trace;
        // How many wake-ups by each thread on each stack, and the first.
        let mut wakers: FxHashMap<(ThreadId, StackId), (usize, usize)> = FxHashMap::default();
        for &wake in &operation.wakes {
            if case.analysis.stacks.wake_source(trace, wake).context.is_task() {
                let waker = (trace.wakings.waker[wake], trace.wakings.stack[wake]);
                wakers.entry(waker).or_insert((0, wake)).0 += 1;
            }
        }
        let mut by_thread: FxHashMap<ThreadId, usize> = FxHashMap::default();
        for ((thread, _), (times, _)) in &wakers {
            *by_thread.entry(*thread).or_default() += times;
        }
        let (releaser, by_releaser) =
            by_thread.into_iter().max_by_key(|&(thread, times)| (times, Reverse(thread)))?;
        let (release, wake) = wakers
            .iter()
            .filter(|((thread, _), _)| *thread == releaser)
            .max_by_key(|((_, stack), (times, _))| (*times, Reverse(*stack)))
            .map(|((_, stack), (_, wake))| (*stack, *wake))?;
        let (herd, barging) = (herd_size(case, operation), Barging::new(case, operation, releaser));
        Some(Self { releaser, by_releaser, release, wake, herd, barging })
    }

    fn is_herd(&self) -> bool {
        self.herd >= 2.0
    }

    /// Who took the lock.
    fn culprit(&self) -> ThreadId {
        if self.is_herd() { self.releaser } else { self.barging.by }
    }

    fn finding(&self, case: &Case<'_>, operation: &Operation) -> Finding {
        let culprit = self.culprit();
        let holding = case.windows_of(|piece, hop| piece.thread == culprit && hop.is_some());
        let mut sentences = self.sentences(case, operation);
        let kind = match self.is_herd() {
            true => "a herd: each release wakes all waiters",
            false => "unfair lock",
        };
        let mut cause = sentence!("lock starvation ({}). Holder: {}", kind, case.name(culprit));
        if let Some(spot) = case.hot(culprit, &holding) {
            cause.push(sentence!(", hot in {} ({})", case.hot_place(&spot), samples_of(&spot)));
            sentences.extend(holders_part(case, culprit));
        }
        let mut finding = Finding {
            culprit: Some(culprit),
            function: own_function(case.analysis, self.release),
            sentences,
            advice: "Make the lock fair at least now and then (hand it off on release), or let \
                     the holder pause between holds. This happens only with two or more CPUs."
                .to_owned(),
            ..case.finding(Pattern::LockStarvation, cause.with("."))
        };
        self.qualify(case, operation, &mut finding);
        finding
    }

    fn sentences(&self, case: &Case<'_>, operation: &Operation) -> Vec<Sentence> {
        let wakes = operation.wakes.len() as u64;
        let how_often = match self.by_releaser as u64 {
            times if times == wakes => Sentence::from("every time"),
            times => sentence!("{} times", count(times)),
        };
        let what_happens = match self.is_herd() {
            true => sentence!(
                "wakes an average of {} threads each time; another of them takes the lock before \
                 the waiter runs",
                format!("{:.0}", self.herd)
            ),
            false => self.barging.words(case, self.releaser),
        };
        vec![
            sentence!(
                "One wait for a lock {}: woken {} times (every {}), {} times in vain; each \
                 time it waited in\n  {}",
                if operation.open { "has not ended yet" } else { "took all that time" },
                count(wakes),
                duration(operation.window.duration_ns() / wakes.max(1)),
                count(operation.wakes_in_vain() as u64),
                case.stack(operation.stack)
            ),
            sentence!(
                "Woken {} by {}, which releases the lock in\n  {}\nand {}. The waiter slept for \
                 {}, waited for a CPU for {} and checked the lock for {}.",
                how_often,
                case.name(self.releaser),
                case.wake_stack(self.wake),
                what_happens,
                duration(operation.asleep_ns),
                duration(operation.runnable_ns),
                duration(operation.ran_ns)
            ),
        ]
    }

    /// States what direct evidence there is, or what is inferred.
    fn qualify(&self, case: &Case<'_>, operation: &Operation, finding: &mut Finding) {
        let wakes = operation.wakes.len();
        let missing = operation.sleeps as usize - wakes.min(operation.sleeps as usize);
        let seen = missing <= usize::from(operation.open);
        let look_ns = operation.ran_ns / (wakes as u64).max(1);
        if look_ns > MAX_LOOK_NS {
            weaken(finding, |_| {
                sentence!(
                    "between two of these sleeps it ran for {}, in which it may have had the lock",
                    duration(look_ns)
                )
            });
        } else if !self.is_herd() && !self.barging.is_certain() {
            weaken(finding, |_| {
                sentence!(
                    "who takes the lock before the waiter runs is inferred; {}",
                    self.barging.seen(case.name(self.culprit()))
                )
            });
        } else if !seen {
            weaken(finding, |_| {
                let wakes = units::plural(missing as u64, "wake-up");
                sentence!("{} {} not recorded", wakes, if missing == 1 { "was" } else { "were" })
            });
        } else if finding.evidence == Evidence::Direct {
            finding.evidence_words = sentence!("every wake-up was seen ({})", count(wakes as u64));
        }
    }
}

/// Who takes the lock between a wake-up and the waiter's arrival. No event shows that; but that
/// thread must have had a CPU meanwhile. A thread that is still on a CPU when the waiter goes back
/// to sleep, and that the next sleep waits for, has the lock.
struct Barging {
    /// How often the waiter looked in vain.
    looks: usize,
    /// Who took the lock: the releaser, or a third thread that was seen with it after at least half
    /// of the looks, and more often.
    by: ThreadId,
    /// After how many looks it was seen on a CPU.
    times: usize,
}

impl Barging {
    fn new(case: &Case<'_>, operation: &Operation, releaser: ThreadId) -> Self {
        let segments = case.analysis.segments(operation.thread, operation.window);
        let sleeps: Vec<&Segment> = segments.iter().filter(|segment| segment.is_sleep()).collect();
        let pieces = &case.explanation.pieces;
        let is_behind_lock = |piece: &&Piece| {
            case.explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock)
        };
        let (mut looks, mut seen) = (0, FxHashMap::<ThreadId, usize>::default());
        for pair in sleeps.windows(2).filter(|pair| pair[0].wake().is_some()) {
            looks += 1;
            let begins = pair[1].window.start;
            let piece = pieces.get(pieces.partition_point(|piece| piece.window.end <= begins));
            let ran = piece.filter(is_behind_lock).filter(|piece| piece.cause == Cause::Ran);
            if let Some(piece) = ran {
                *seen.entry(piece.thread).or_default() += 1;
            }
        }
        let again = seen.remove(&releaser).unwrap_or(0);
        let third = seen.into_iter().max_by_key(|&(thread, times)| (times, Reverse(thread)));
        let (by, times) = third
            .filter(|(_, times)| *times > again && times * 2 >= looks)
            .unwrap_or((releaser, again));
        Self { looks, by, times }
    }

    /// True when it was seen nearly always.
    fn is_certain(&self) -> bool {
        self.times * 10 >= self.looks * 9
    }

    /// What happens to the lock, as the rest of a sentence about the releaser.
    fn words(&self, case: &Case<'_>, releaser: ThreadId) -> Sentence {
        let taken = match (self.by == releaser, self.is_certain()) {
            (true, true) => Sentence::from("has taken it again before the waiter runs"),
            (true, false) => Sentence::from("seems to have taken it again before the waiter runs"),
            (false, _) => sentence!("{} takes it before the waiter runs", case.name(self.by)),
        };
        sentence!("{}: {}", taken, self.seen(case.name(self.by)))
    }

    fn seen(&self, whom: Span) -> Sentence {
        sentence!(
            "after {} of {} wake-ups in vain, {} was on a CPU when the waiter went back to sleep",
            count(self.times as u64),
            count(self.looks as u64),
            whom
        )
    }
}

/// How much of the wait the holder ran, and how much it was kept from that.
fn holders_part(case: &Case<'_>, holder: ThreadId) -> Option<Sentence> {
    let is_its = |share: &&Share| (share.what, share.who) == (What::Lock, Some(holder));
    let share = case.partition.iter().find(is_its)?;
    Some(sentence!(
        "Meanwhile {} accounts for {} of the wait ({}){}.",
        case.name(holder),
        duration(share.ns),
        case.percent(share.ns),
        case.without_cpu(case.holder_without_cpu_ns(holder))
    ))
}

/// How many threads each of the wake-ups woke for the same lock, on average.
fn herd_size(case: &Case<'_>, operation: &Operation) -> f64 {
    let wakings = &case.analysis.trace.wakings;
    let at_once = |wake: usize| {
        let (waker, stack, time) = (wakings.waker[wake], wakings.stack[wake], wakings.time[wake]);
        let window = Window::new(time.minus(MAX_HERD_NS), time.plus(MAX_HERD_NS));
        let is_same =
            |other: &usize| wakings.waker[*other] == waker && wakings.stack[*other] == stack;
        wakings.range(window).filter(is_same).count()
    };
    let sum: usize = operation.wakes.iter().map(|&wake| at_once(wake)).sum();
    sum as f64 / operation.wakes.len().max(1) as f64
}
