//! CPU starvation: the victim was ready to run, and others had the CPU, or the quota of its control
//! group kept it from them. Likewise a thread whose answer the victim waited for, where a quota
//! kept that one.

use super::{Case, Evidence, Finding, Pattern};
use crate::answer::units;
use crate::explain::{Cause, Piece};
use crate::throttling;
use unhitch_model::{ThreadId, Throttling};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let victim = case.candidate.victim;
    let starved = case.ns_of(|piece, hop| hop.is_none() && piece.cause == Cause::WaitedForCpu);
    if case.is_most(starved) {
        return Some(match case.analysis.throttled(victim, case.explanation.window, starved) {
            Some(quota) => throttled(case, victim, starved, &quota),
            None => crowded_out(case, starved),
        });
    }
    let (thread, starved) =
        case.most_of(|piece, hop| hop.is_some() && piece.cause == Cause::WaitedForCpu)?;
    let quota = case.analysis.throttled(thread, case.explanation.window, starved)?;
    case.is_most(starved).then(|| throttled(case, thread, starved, &quota))
}

/// A quota kept `thread` from CPUs, the victim or the one that it waited for.
fn throttled(case: &Case<'_>, thread: ThreadId, starved: u64, quota: &Throttling) -> Finding {
    let own = thread == case.candidate.victim;
    let (evidence, evidence_words) = case.throttled_evidence(thread, starved, quota);
    let who =
        if own { "It".to_owned() } else { format!("{}, for which it waited,", case.name(thread)) };
    let words = throttling::words(&case.analysis.trace.machine, quota);
    let mut story = vec![format!(
        "{who} was ready to run{} for {} of these {} and got no CPU.",
        case.policy(thread),
        units::duration(starved),
        units::duration(case.duration_ns())
    )];
    story.push(case.throttled_story(thread, quota));
    Finding {
        pattern: Pattern::CpuStarvation,
        culprit: (!own).then_some(thread),
        crowd: None,
        function: String::new(),
        evidence,
        evidence_words,
        story,
        cause: if own {
            format!("CPU starvation: {words}.")
        } else {
            format!("CPU starvation: {} was {words}.", case.name(thread))
        },
        advice: "Give the control group a larger quota, or less to do.".to_owned(),
        operation: None,
    }
}

/// Others had the CPU that the victim wanted, or nobody is known to have had it.
fn crowded_out(case: &Case<'_>, starved: u64) -> Finding {
    let occupants = case.occupants(|piece: &Piece| piece.hop.is_none());
    let hog = occupants.hog();
    let hot = hog.and_then(|hog| case.hot_of(hog));
    let exits = hot.as_ref().is_some_and(|spot| case.analysis.facts.exits(spot.stack));
    let cause = match hog {
        Some(hog) => format!(
            "CPU starvation: {} had the CPU{}.",
            case.occupant(hog),
            if exits { ", to end processes" } else { "" }
        ),
        None => format!(
            "CPU starvation, though no thread had the CPU: {}.",
            without_occupant(case, starved)
        ),
    };
    let (evidence, evidence_words) = case.evidence();
    Finding {
        pattern: Pattern::CpuStarvation,
        culprit: hog.map(|hog| hog.thread),
        crowd: hog.and_then(|hog| hog.crowd),
        function: hot.map(|spot| case.hot_name(&spot)).unwrap_or_default(),
        evidence,
        evidence_words,
        story: vec![
            format!(
                "It was ready to run{} for {} of these {} and got no CPU.",
                case.policy(case.candidate.victim),
                units::duration(starved),
                units::duration(case.duration_ns())
            ),
            format!(
                "The CPU it waited for was taken by: {}.",
                occupants.told(case).unwrap_or_else(|| "nobody that was recorded".to_owned())
            ),
        ],
        cause,
        advice: String::new(),
        operation: None,
    }
}

/// Why a CPU that nobody had was not given to the victim: what the machine's counters say, and only
/// where they say nothing the possibilities.
fn without_occupant(case: &Case<'_>, starved: u64) -> String {
    let (machine, window) = (&case.analysis.trace.machine, case.explanation.window);
    let Some((before, after)) = machine.around(window) else {
        return "the machine itself did not run it (a sleeping CPU, a throttled group, or a virtual machine's host)".to_owned();
    };
    let steal =
        before.steal_ns.zip(after.steal_ns).map(|(before, after)| after.saturating_sub(before));
    let span = units::duration(after.time.since(before.time));
    match steal {
        Some(steal) if steal.saturating_mul(2) >= starved => {
            format!(
                "the virtual machine's host took {} of CPU time in the {span} around it",
                units::duration(steal)
            )
        }
        _ if machine.groups_of(&case.analysis.trace.threads, case.candidate.victim).is_empty() => {
            "its control group is not known, and the machine itself did not run it".to_owned()
        }
        Some(steal) => format!(
            "no control group of it was throttled for that long, and the virtual machine's host took {} of CPU time, in the {span} around it",
            units::duration(steal)
        ),
        None => {
            format!("no control group of it was throttled for that long in the {span} around it")
        }
    }
}

impl Case<'_> {
    /// How well it is known that the quota kept `thread` from CPUs for `waited_ns`.
    pub fn throttled_evidence(
        &self,
        thread: ThreadId,
        waited_ns: u64,
        quota: &Throttling,
    ) -> (Evidence, String) {
        let (evidence, words) = self.evidence();
        if evidence == Evidence::Lost {
            return (evidence, words);
        }
        let (inferred, why) =
            (Evidence::Inferred.max(evidence), "the group's own counters tell of the throttling");
        if !self.analysis.is_in_known_groups(thread) {
            return (
                inferred,
                format!(
                    "{why}; the process ended before its control group was read, and is taken to be in its parent's"
                ),
            );
        }
        if quota.throttled_ns < waited_ns / 10 * 8 {
            return (inferred, format!("{why}, but of less than the wait"));
        }
        (evidence, format!("{why}; {words}"))
    }

    /// Which quota, by which counters, and over which span they were counted.
    pub fn throttled_story(&self, thread: ThreadId, quota: &Throttling) -> String {
        let machine = &self.analysis.trace.machine;
        let group = machine.group(quota.group);
        let own = machine.groups_of(&self.analysis.trace.threads, thread).contains(&quota.group);
        format!(
            "Control group {} ({}{}): {}, as counted over {}.",
            group.map_or("?", |group| group.path.as_str()),
            if group.is_some_and(|group| group.hierarchy == "unified") {
                "version 2"
            } else {
                "version 1"
            },
            if own { "" } else { "; a parent of its group" },
            throttling::figures(quota),
            units::duration(quota.between.duration_ns())
        )
    }
}
