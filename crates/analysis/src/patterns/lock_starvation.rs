//! Lock starvation: one operation woken again and again, each time too late. Either the releaser
//! has taken the lock again (barging), or many are woken for one lock each time (a herd), or nobody
//! wakes it and it looks by its own timer (polling).

use super::{Case, Evidence, Finding, Pattern};
use crate::answer::units;
use crate::explain::{Cause, Piece};
use crate::waits::InterruptSource;
use crate::{Operation, Segment, State, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Window};

const FEWEST_WAKES_IN_VAIN: usize = 8;
/// Wake-ups by one release are no further apart.
const HERD_NS: u64 = 100_000;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let operation = case.operation.as_ref()?;
    let trace = case.analysis.trace;
    let in_vain = operation.wakes_in_vain();
    if operation.class != WaitClass::Lock || in_vain < FEWEST_WAKES_IN_VAIN {
        return None;
    }
    // Had the holder had a CPU, next to nothing would be left of this wait: that is priority
    // inversion, whoever else was let in.
    if case.main_holder().is_some_and(|(holder, _)| {
        case.holder_without_cpu_ns(holder) / 9 >= case.duration_ns() / 10
    }) {
        return None;
    }
    let mut wakers: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
    for &wake in &operation.wakes {
        if case.analysis.facts.wake_source(trace, wake).context.is_task() {
            *wakers.entry((trace.wakings.waker[wake], trace.wakings.stack[wake])).or_default() += 1;
        }
    }
    let timeouts = operation.wakes.iter().filter(|&&wake| {
        case.analysis.facts.wake_source(trace, wake).interrupt.is_some_and(|source| {
            matches!(source, InterruptSource::Timeout | InterruptSource::Timer)
        })
    });
    let timeouts = timeouts.count();
    if timeouts * 2 > operation.wakes.len() {
        // Who only looked by its timer until the holder let it in was kept waiting by that holder,
        // however often it looked.
        if case.main_holder().is_some_and(|(holder, held_ns)| {
            holder != case.candidate.victim && case.is_most(held_ns)
        }) {
            return None;
        }
        return Some(poll(case, operation, timeouts));
    }
    let mut by_thread: FxHashMap<ThreadId, usize> = FxHashMap::default();
    wakers.iter().for_each(|((thread, _), count)| *by_thread.entry(*thread).or_default() += count);
    let (releaser, by_releaser) =
        by_thread.into_iter().max_by_key(|&(thread, count)| (count, Reverse(thread)))?;
    let herd = herd_size(case, operation);
    // Woken mostly by others than one thread, one at a time: a lock with many users.
    if by_releaser * 2 < operation.wakes.len() && herd < 2.0 {
        return None;
    }
    let barging = Barging::new(case, operation, releaser);
    let culprit = if herd < 2.0 { barging.by } else { releaser };
    let stacks = wakers.iter().filter(|((thread, _), _)| *thread == releaser);
    let release = stacks
        .max_by_key(|((_, stack), count)| (**count, Reverse(*stack)))
        .map(|((_, stack), _)| *stack)?;

    let wakes = operation.wakes.len();
    let holding = case.windows_of(|piece, hop| piece.thread == culprit && hop.is_some());
    let hot = case.hot(culprit, &holding);
    let every = units::duration(operation.window.duration_ns() / wakes.max(1) as u64);
    let (who, by) = (case.name(culprit), case.name(releaser));
    let mut story = vec![
        format!(
            "One wait for a lock {}: woken {} times (every {every}), {} times in vain, always on the stack\n  {}",
            if operation.open { "has not ended yet" } else { "took all that time" },
            units::count(wakes as u64),
            units::count(in_vain as u64),
            case.told(operation.stack),
        ),
        format!(
            "Woken {} by {by}, which releases the lock in\n  {}\nand {} ({} asleep, {} on the way to a CPU, {} looking at the lock).",
            if by_releaser == wakes {
                "every time".to_owned()
            } else {
                format!("{} times", units::count(by_releaser as u64))
            },
            case.told(release),
            match herd < 2.0 {
                true => barging.told(case, releaser),
                false => format!(
                    "wakes {herd:.0} threads for it each time, of which another takes it before the waiter arrives"
                ),
            },
            units::duration(operation.asleep_ns),
            units::duration(operation.runnable_ns),
            units::duration(operation.ran_ns),
        ),
    ];
    let kind = if herd < 2.0 { "unfair lock" } else { "a herd: each release wakes all waiters" };
    let mut cause = format!("lock starvation ({kind}). Holder: {who}");
    if let Some(spot) = &hot {
        let busy: u64 = holding.iter().map(|window| window.duration_ns()).sum();
        cause.push_str(&format!(
            ", hot in {} ({} of {} samples)",
            case.hot_name(spot),
            spot.inside,
            spot.total
        ));
        story.push(format!(
            "Meanwhile {who} accounts for {} of the wait ({}).",
            units::duration(busy),
            case.percent(busy)
        ));
    }
    cause.push('.');
    let seen = operation.wakes.len() as u32 + u32::from(operation.open) >= operation.sleeps;
    let (evidence, evidence_words) = match case.evidence() {
        (Evidence::Direct, _) if herd < 2.0 && !barging.is_certain() => (
            Evidence::Inferred,
            format!(
                "who takes the lock before the waiter arrives is concluded; {}",
                barging.seen(&who)
            ),
        ),
        (Evidence::Direct, _) if seen => {
            (Evidence::Direct, format!("every wake-up was seen ({})", units::count(wakes as u64)))
        }
        (Evidence::Direct, _) => (
            Evidence::Inferred,
            format!("{} wake-ups were not recorded", operation.sleeps as usize - wakes),
        ),
        weaker => weaker,
    };
    Some(Finding {
        pattern: Pattern::LockStarvation,
        culprit: Some(culprit),
        crowd: None,
        function: case.analysis.own_function(release),
        evidence,
        evidence_words,
        story,
        cause,
        advice: "Let the lock be fair at least now and then (hand it over on release), or let the holder pause between holds: a second CPU is what makes this happen.".to_owned(),
        operation: None,
    })
}

/// Who takes the lock between a wake-up and the waiter's arrival. No event shows that; but it must
/// have had a CPU meanwhile, and whoever still has one when the waiter goes back to sleep, and is
/// what that next sleep waits for, has the lock.
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
        let sleeps: Vec<&Segment> =
            segments.iter().filter(|segment| matches!(segment.state, State::Sleeping(_))).collect();
        let pieces = &case.explanation.pieces;
        let (mut looks, mut seen) = (0, FxHashMap::<ThreadId, usize>::default());
        for pair in sleeps.windows(2).filter(|pair| pair[0].wake.is_some()) {
            looks += 1;
            let begins = pair[1].window.start;
            let piece = pieces.get(pieces.partition_point(|piece| piece.window.end <= begins));
            let behind_lock = |piece: &&Piece| {
                case.explanation.hop_of(piece).is_some_and(|hop| hop.class == WaitClass::Lock)
            };
            if let Some(piece) = piece.filter(behind_lock).filter(|piece| piece.cause == Cause::Ran)
            {
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
    fn told(&self, case: &Case<'_>, releaser: ThreadId) -> String {
        let taken = match (self.by == releaser, self.is_certain()) {
            (true, true) => "has taken it again before the waiter arrives".to_owned(),
            (true, false) => "seems to have taken it again before the waiter arrives".to_owned(),
            (false, _) => format!("{} takes it before the waiter arrives", case.name(self.by)),
        };
        let whom = if self.by == releaser { "it".to_owned() } else { case.name(self.by) };
        format!("{taken}: {}", self.seen(&whom))
    }

    fn seen(&self, whom: &str) -> String {
        format!(
            "after {} of the {} wake-ups in vain {whom} was on a CPU when the waiter went back to sleep",
            units::count(self.times as u64),
            units::count(self.looks as u64)
        )
    }
}

/// How many threads each of the wake-ups woke for the same lock, on average.
fn herd_size(case: &Case<'_>, operation: &Operation) -> f64 {
    let trace = case.analysis.trace;
    let at_once = |wake: usize| {
        let (waker, stack, time) =
            (trace.wakings.waker[wake], trace.wakings.stack[wake], trace.wakings.time[wake]);
        let window = Window::new(time.minus(HERD_NS), time.plus(HERD_NS));
        trace
            .wakings
            .range(window)
            .filter(|&other| {
                trace.wakings.waker[other] == waker && trace.wakings.stack[other] == stack
            })
            .count()
    };
    let sum: usize = operation.wakes.iter().map(|&wake| at_once(wake)).sum();
    sum as f64 / operation.wakes.len().max(1) as f64
}

/// Nobody woke it: it looked at the lock by its own timer, and never at the right moment.
fn poll(case: &Case<'_>, operation: &Operation, timeouts: usize) -> Finding {
    let holder = case
        .main_holder()
        .filter(|(thread, _)| *thread != case.candidate.victim)
        .map(|(thread, _)| thread);
    let held = holder.map_or(String::new(), |holder| format!(" {} had it.", case.name(holder)));
    Finding {
        pattern: Pattern::LockStarvation,
        culprit: holder,
        crowd: None,
        function: case.analysis.own_function(operation.stack),
        // Who had the lock each time it looked is concluded from who has it between.
        evidence: Evidence::Inferred,
        evidence_words: format!("{} of its {} wake-ups came from its own timer", timeouts, operation.wakes.len()),
        story: vec![format!(
            "It polled for a lock: its own timer woke it {} times (every {}), {} times in vain, always on the stack\n  {}",
            units::count(timeouts as u64),
            units::duration(operation.window.duration_ns() / operation.wakes.len().max(1) as u64),
            units::count(operation.wakes_in_vain() as u64),
            case.told(operation.stack)
        )],
        cause: format!("polling for a lock, which was never free when it looked.{held}"),
        advice: "Wait for the lock in place of polling for it: a waiter that sleeps is woken when it is free.".to_owned(),
        operation: None,
    }
}
