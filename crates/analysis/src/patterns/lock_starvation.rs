//! Lock starvation: one operation woken again and again, each time too late, because the releaser has taken the lock again.

use super::{Case, Evidence, Finding, Pattern};
use crate::WaitClass;
use crate::answer::units;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId};

const FEWEST_WAKES_IN_VAIN: usize = 8;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let operation = case.operation.as_ref()?;
    let trace = case.analysis.trace;
    let in_vain = operation.wakes_in_vain();
    if operation.class != WaitClass::Lock || in_vain < FEWEST_WAKES_IN_VAIN {
        return None;
    }
    let mut wakers: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
    for &wake in &operation.wakes {
        if case.analysis.facts.wake_source(trace, wake).context.is_task() {
            *wakers.entry((trace.wakings.waker[wake], trace.wakings.stack[wake])).or_default() += 1;
        }
    }
    let mut by_thread: FxHashMap<ThreadId, usize> = FxHashMap::default();
    wakers.iter().for_each(|((thread, _), count)| *by_thread.entry(*thread).or_default() += count);
    let (culprit, by_culprit) = by_thread.into_iter().max_by_key(|&(thread, count)| (count, Reverse(thread)))?;
    // Woken mostly by others than one thread: a herd, or a lock with many users.
    if by_culprit * 2 < operation.wakes.len() {
        return None;
    }
    let stacks = wakers.iter().filter(|((thread, _), _)| *thread == culprit);
    let release = stacks.max_by_key(|((_, stack), count)| (**count, Reverse(*stack))).map(|((_, stack), _)| *stack)?;

    let wakes = operation.wakes.len();
    let holding = case.windows_of(|piece, hop| piece.thread == culprit && hop.is_some());
    let hot = case.hot(culprit, &holding);
    let every = units::duration(operation.window.duration_ns() / wakes.max(1) as u64);
    let who = case.name(culprit);
    let mut story = vec![
        format!(
            "One wait for a lock {}: woken {} times (every {every}), {} times in vain, always on the stack\n  {}",
            if operation.open { "has not ended yet" } else { "took all that time" },
            units::count(wakes as u64),
            units::count(in_vain as u64),
            case.told(operation.stack),
        ),
        format!(
            "Woken {} by {who}, which releases the lock in\n  {}\nand has taken it again before the waiter arrives ({} asleep, {} on the way to a CPU, {} looking at the lock).",
            if by_culprit == wakes { "every time".to_owned() } else { format!("{} times", units::count(by_culprit as u64)) },
            case.told(release),
            units::duration(operation.asleep_ns),
            units::duration(operation.runnable_ns),
            units::duration(operation.ran_ns),
        ),
    ];
    let mut cause = format!("lock starvation (unfair lock). Holder: {who}");
    if let Some(spot) = &hot {
        let busy: u64 = holding.iter().map(|window| window.duration_ns()).sum();
        cause.push_str(&format!(", hot in {} ({} of {} samples)", case.hot_name(spot), spot.inside, spot.total));
        story.push(format!("Meanwhile {who} accounts for {} of the wait ({}).", units::duration(busy), case.percent(busy)));
    }
    cause.push('.');
    let seen = operation.wakes.len() as u32 + u32::from(operation.open) >= operation.sleeps;
    let (evidence, evidence_words) = match case.evidence() {
        (Evidence::Direct, _) if seen => (Evidence::Direct, format!("every wake-up was seen ({})", units::count(wakes as u64))),
        (Evidence::Direct, _) => (Evidence::Inferred, format!("{} wake-ups were not recorded", operation.sleeps as usize - wakes)),
        weaker => weaker,
    };
    Some(Finding {
        pattern: Pattern::LockStarvation,
        culprit: Some(culprit),
        function: case.analysis.own_function(release),
        evidence,
        evidence_words,
        story,
        cause,
        advice: "Let the lock be fair at least now and then (hand it over on release), or let the holder pause between holds: a second CPU is what makes this happen.".to_owned(),
        operation: None,
    })
}
