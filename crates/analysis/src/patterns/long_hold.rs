//! Long hold: one thread held what the victim waited for, for most of the stall. What did it do
//! meanwhile?

use super::{Case, Finding, Pattern};
use crate::answer::units;
use crate::explain::Cause;
use rustc_hash::FxHashSet;
use unhitch_model::ThreadId;

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (holder, held_ns) = case.main_holder()?;
    if !case.is_most(held_ns) || holder == case.candidate.victim {
        return None;
    }
    let hop = case.hop_to(holder)?;
    let by_holder = |cause: Cause| {
        case.ns_of(|piece, hop| piece.thread == holder && hop.is_some() && piece.cause == cause)
    };
    let running = case.windows_of(|piece, hop| {
        piece.thread == holder && hop.is_some() && piece.cause == Cause::Ran
    });
    let ran: u64 = running.iter().map(|window| window.duration_ns()).sum();
    let hot = case.hot(holder, &running);
    let who = case.name(holder);

    let mut story = Vec::new();
    if let Some(wait) = case.victims_wait() {
        story.push(format!("It waited for a lock in\n  {}", case.told(wait.wait_stack)));
    }
    let between: FxHashSet<ThreadId> = case
        .explanation
        .hops
        .iter()
        .filter(|other| other.depth < hop.depth && other.by != holder)
        .map(|other| other.by)
        .collect();
    if hop.depth > 1 {
        story.push(format!(
            "The lock came to it through {}, each of which had waited for the one before.",
            units::plural(between.len() as u64, "other thread")
        ));
    }
    story.push(match hop.wake {
        Some(wake) => format!(
            "{who} held it for {} of these {} and let it go in\n  {}",
            units::duration(held_ns),
            units::duration(case.duration_ns()),
            case.told(case.analysis.trace.wakings.stack[wake])
        ),
        None => format!(
            "{who} owned it for {} of these {} and still does where the recording ends.",
            units::duration(held_ns),
            units::duration(case.duration_ns())
        ),
    });
    let parts = [
        (ran, "on a CPU"),
        (by_holder(Cause::Io), "waiting for a disk"),
        (by_holder(Cause::Timer), "asleep until a time it had set"),
        (by_holder(Cause::WaitedForCpu), "waiting for a CPU"),
        (by_holder(Cause::Memory), "waiting for memory"),
        (by_holder(Cause::Stopped), "stopped"),
    ];
    let told = parts.iter().filter(|&(ns, _)| ns * 100 >= held_ns);
    let did: Vec<String> =
        told.map(|&(ns, words)| format!("{} {words}", units::percent(ns, held_ns))).collect();
    if !did.is_empty() {
        let named_ns: u64 =
            parts.iter().filter(|&(ns, _)| ns * 100 >= held_ns).map(|(ns, _)| ns).sum();
        let rest_ns = held_ns.saturating_sub(named_ns);
        let rest = (rest_ns * 100 >= held_ns)
            .then(|| format!("{} in other ways", units::percent(rest_ns, held_ns)));
        let did: Vec<String> = did.into_iter().chain(rest).collect();
        story.push(format!("While it held the lock it was {}.", did.join(", ")));
    }
    if let Some(spot) = hot.filter(|_| ran * 2 >= held_ns)
        && let Some(instruction) = case.hottest(holder, spot.function, &running)
    {
        story.push(instruction);
    }
    let (function, doing) = match &hot {
        Some(spot) if ran * 2 >= held_ns => (
            case.hot_name(spot),
            format!(
                " while computing in {} ({} of {} samples)",
                case.hot_name(spot),
                spot.inside,
                spot.total
            ),
        ),
        _ => {
            let longest = case.explanation.pieces.iter().filter(|piece| {
                piece.thread == holder && piece.hop.is_some() && piece.cause != Cause::Ran
            });
            let stack = longest
                .max_by_key(|piece| piece.window.duration_ns())
                .map(|piece| piece.segment.wait_stack(case.analysis.trace))
                .unwrap_or_default();
            let release =
                hop.wake.map(|wake| case.analysis.trace.wakings.stack[wake]).unwrap_or_default();
            let mostly = parts
                .iter()
                .find(|&(ns, _)| ns * 2 >= held_ns)
                .map(|(_, words)| format!(" while {words}"));
            (
                case.analysis.own_function(if stack.is_empty() { release } else { stack }),
                mostly.unwrap_or_default(),
            )
        }
    };
    let (evidence, evidence_words) = case.evidence();
    Some(Finding {
        pattern: Pattern::LongHold,
        culprit: Some(holder),
        crowd: None,
        function,
        evidence,
        evidence_words,
        story,
        cause: format!("a long lock hold: {who} kept the lock{doing}."),
        advice: "Shorten what is done under the lock, or do it on a copy outside the lock."
            .to_owned(),
        operation: None,
    })
}
