//! CPU starvation: the victim was runnable, and others had the CPU, or the quota of its control
//! group kept it from running. Likewise a thread that the victim waited for.

use super::case::{Case, weaken};
use super::finding::{Evidence, Finding, Pattern};
use crate::explain::throttling::{self, is_in_known_groups, throttled};
use crate::explain::{Cause, Piece};
use crate::wording::sentence::{Sentence, duration, sentence};
use unhitch_model::{ThreadId, Throttling};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (victim, window) = (case.candidate.victim, case.explanation.window);
    let starved = case.ns_of(|piece, hop| hop.is_none() && piece.cause == Cause::WaitedForCpu);
    if case.is_most(starved) {
        return Some(match throttled(case.analysis, victim, window, starved) {
            Some(quota) => by_quota(case, victim, starved, &quota),
            None => by_others(case, victim, starved),
        });
    }
    let (thread, starved) = most_starved_helper(case)?;
    let quota = throttled(case.analysis, thread, window, starved)?;
    case.is_most(starved).then(|| by_quota(case, thread, starved, &quota))
}

/// Others had the CPU that a thread wanted which the victim waited for. One that ran for a good part
/// of its work computed, so this comes after that pattern.
pub(super) fn detect_of_helper(case: &Case<'_>) -> Option<Finding> {
    let (thread, starved) = most_starved_helper(case)?;
    case.is_most(starved).then(|| by_others(case, thread, starved))
}

/// Of the threads that the victim waited for, the one that longest wanted a CPU meanwhile; how long.
fn most_starved_helper(case: &Case<'_>) -> Option<(ThreadId, u64)> {
    let victim = case.candidate.victim;
    case.most_of(|piece, hop| {
        hop.is_some() && piece.thread != victim && piece.cause == Cause::WaitedForCpu
    })
}

fn was_runnable(case: &Case<'_>, who: impl Into<Sentence>, thread: ThreadId, ns: u64) -> Sentence {
    sentence!(
        "{}{} was ready to run for {}, but got no CPU.",
        who.into(),
        case.policy(thread),
        case.part(ns)
    )
}

/// A quota kept `thread` from running: the victim, or the thread that it waited for.
fn by_quota(case: &Case<'_>, thread: ThreadId, starved: u64, quota: &Throttling) -> Finding {
    let own = thread == case.candidate.victim;
    let (evidence, evidence_words) = case.throttled_evidence(thread, starved, quota);
    let who = match own {
        true => Sentence::from("It"),
        false => sentence!("{}, which it waited for,", case.name(thread)),
    };
    let words = throttling::words(&case.analysis.trace.machine, quota);
    let cause = match own {
        true => sentence!("CPU starvation: {}.", words),
        false => sentence!("CPU starvation: {} was {}.", case.name(thread), words),
    };
    Finding {
        culprit: (!own).then_some(thread),
        evidence,
        evidence_words,
        sentences: vec![
            was_runnable(case, who, thread, starved),
            case.throttled_story(thread, quota),
        ],
        advice: "Give the control group a larger quota, or less to do.".to_owned(),
        ..case.finding(Pattern::CpuStarvation, cause)
    }
}

/// Others had the CPU that `thread` wanted, the victim or one that it waited for, or nobody is known
/// to have had it.
fn by_others(case: &Case<'_>, thread: ThreadId, starved: u64) -> Finding {
    let own = thread == case.candidate.victim;
    let occupants = match own {
        true => case.occupants(|piece: &Piece| piece.hop.is_none()),
        false => case.occupants(|piece: &Piece| piece.hop.is_some() && piece.thread == thread),
    };
    let who = match own {
        true => Sentence::from("It"),
        false => sentence!("{}, which it waited for,", case.name(thread)),
    };
    let hog = occupants.hog();
    let hot = hog.and_then(|hog| case.hot_of(hog));
    let exits = hot.as_ref().is_some_and(|spot| case.analysis.stacks.exits(spot.stack));
    let is_group = hog.is_some_and(|hog| hog.shared_name.is_some());
    let cause = match hog {
        Some(hog) if hog.ns.saturating_mul(2) < starved => sentence!(
            "CPU starvation: {} had the CPU, none of them for half of the time.",
            occupants.names(case)
        ),
        Some(hog) => sentence!(
            "CPU starvation: {} had the CPU{}.",
            case.occupant(hog),
            match (exits, is_group) {
                (true, true) => ", ending their processes",
                (true, false) => ", ending its process",
                (false, _) => "",
            }
        ),
        None => sentence!(
            "CPU starvation, though no thread had the CPU: {}.",
            without_occupant(case, thread, starved)
        ),
    };
    let used = occupants.listed(case).unwrap_or_else(|| Sentence::from("no recorded thread"));
    let mut finding = Finding {
        culprit: hog.map(|hog| hog.thread),
        group_name: hog.and_then(|hog| hog.shared_name),
        function: hot.map(|spot| case.hot_name(&spot)).unwrap_or_default(),
        sentences: vec![
            was_runnable(case, who, thread, starved),
            sentence!("The CPU it waited for was used by: {}.", used),
        ],
        ..case.finding(Pattern::CpuStarvation, cause)
    };
    beside_quota(case, thread, starved, &mut finding);
    finding
}

/// Where a quota kept the thread from CPUs for a part of the time, too, the counters do not say for
/// which one: so it is told, and the verdict is not certain.
fn beside_quota(case: &Case<'_>, thread: ThreadId, starved: u64, finding: &mut Finding) {
    let (trace, window) = (case.analysis.trace, case.explanation.window);
    let quota = trace.machine.throttled_by(&trace.threads, thread, window);
    let Some(quota) = quota.filter(|quota| quota.throttled_ns.saturating_mul(10) >= starved) else {
        return;
    };
    let words = throttling::words(&trace.machine, &quota);
    finding.sentences.push(sentence!("For a part of the time it was {}.", words));
    weaken(finding, |_| {
        Sentence::from("when the quota kept it from running, and when others did, is not known")
    });
}

/// Why the thread did not get a CPU that nobody had: by the machine's counters, and by conjecture
/// only where they tell nothing.
fn without_occupant(case: &Case<'_>, thread: ThreadId, starved: u64) -> Sentence {
    let (machine, window) = (&case.analysis.trace.machine, case.explanation.window);
    let Some((before, after)) = machine.around(window) else {
        return Sentence::from(
            "something that was not recorded kept it off a CPU (perhaps a sleeping CPU, a \
             throttled control group, or a virtual machine's host)",
        );
    };
    let steal =
        before.steal_ns.zip(after.steal_ns).map(|(before, after)| after.saturating_sub(before));
    let span = duration(after.time.since(before.time));
    match steal {
        Some(steal) if steal.saturating_mul(2) >= starved => sentence!(
            "the virtual machine's host took {} of CPU time in the {} around that time",
            duration(steal),
            span
        ),
        _ if machine.groups_of(&case.analysis.trace.threads, thread).is_empty() => Sentence::from(
            "the control group of the waiting thread is not known, so a quota may have kept it \
                 off the CPU",
        ),
        Some(steal) => sentence!(
            "in the {} around that time, none of the thread's control groups was throttled for \
             half as long as it waited, and the virtual machine's host took {} of CPU time",
            span,
            duration(steal)
        ),
        None => sentence!(
            "in the {} around that time, none of the thread's control groups was throttled for \
             half as long as it waited",
            span
        ),
    }
}

impl Case<'_> {
    /// How well it is known that the quota kept `thread` from running for `waited_ns`.
    pub fn throttled_evidence(
        &self,
        thread: ThreadId,
        waited_ns: u64,
        quota: &Throttling,
    ) -> (Evidence, Sentence) {
        let (evidence, words) = self.evidence();
        if evidence == Evidence::Lost {
            return (evidence, words);
        }
        let inferred = Evidence::Inferred.max(evidence);
        let why = "the group's own counters show the throttling";
        if !is_in_known_groups(self.analysis, thread) {
            let words = sentence!(
                "{}; the process ended before its control group was read, so it is assumed to have \
                 been in its parent's group",
                why
            );
            return (inferred, words);
        }
        if quota.throttled_ns < waited_ns / 10 * 8 {
            return (inferred, sentence!("{}, but for less time than it waited", why));
        }
        (evidence, sentence!("{}; {}", why, words))
    }

    /// Which quota, by which counters, and the span over which they were counted.
    pub fn throttled_story(&self, thread: ThreadId, quota: &Throttling) -> Sentence {
        let machine = &self.analysis.trace.machine;
        let group = machine.group(quota.group);
        let own = machine.groups_of(&self.analysis.trace.threads, thread).contains(&quota.group);
        let is_unified = group.is_some_and(|group| group.hierarchy == "unified");
        sentence!(
            "Control group {} ({}{}): {}, counted over {}.",
            group.map_or("?", |group| group.path.as_str()),
            if is_unified { "version 2" } else { "version 1" },
            if own { "" } else { "; a parent of the thread's group" },
            throttling::figures(quota),
            duration(quota.between.duration_ns())
        )
    }
}
