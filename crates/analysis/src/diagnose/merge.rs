//! Views of one hang become one stall: its victims', and the culprit's own.

use super::stall::Stall;
use crate::{Analysis, Pattern, StallKind, WaitClass};

/// Joins stalls that overlap and have the same cause: of one thread, its views of one hang; of
/// several, the victims of one culprit, and the culprit's own view of what held it up.
pub(super) fn merge(analysis: &Analysis<'_>, mut stalls: Vec<Stall>) -> Vec<Stall> {
    // What took the place of one view may have the same cause as a stall that did not fit that view.
    loop {
        let before = stalls.len();
        stalls = merge_once(analysis, stalls);
        if stalls.len() == before {
            return stalls;
        }
    }
}

fn merge_once(analysis: &Analysis<'_>, stalls: Vec<Stall>) -> Vec<Stall> {
    let mut merged: Vec<Stall> = Vec::new();
    for stall in stalls {
        if merged.iter().any(|known| is_culprits_view(known, &stall)) {
            continue;
        }
        match merged.iter_mut().find(|known| {
            is_culprits_view(&stall, known)
                || is_hang_of_user(known, &stall)
                || is_hang_of_user(&stall, known)
                || same_hang(known, &stall)
                || same_cause(analysis, known, &stall)
        }) {
            Some(known) if is_culprits_view(&stall, known) => *known = stall,
            Some(known) => {
                let mut victims = [known.victims.as_slice(), &stall.victims].concat();
                victims.sort_unstable();
                victims.dedup();
                let is_kept = is_hang_of_user(known, &stall);
                if !is_kept && (is_hang_of_user(&stall, known) || better(analysis, &stall, known)) {
                    *known = stall;
                }
                known.victims = victims;
            }
            None => merged.push(stall),
        }
    }
    merged
}

/// Two views of one thread's hang: one window covers most of the other.
fn same_hang(a: &Stall, b: &Stall) -> bool {
    a.candidate.victim == b.candidate.victim && share(a, b) >= 0.5
}

/// Two victims of one culprit with one pattern or in one function, at the same time; of one group of
/// threads; of one quota; or of one queue, in which each saw others last.
fn same_cause(analysis: &Analysis<'_>, a: &Stall, b: &Stall) -> bool {
    let (a_by, b_by) = (a.kept_waiting_by(), b.kept_waiting_by());
    let queue = a.finding.pattern.is_queue() && a.finding.function == b.finding.function;
    let group = a.finding.group_name.is_some() && a.finding.group_name == b.finding.group_name;
    let culprit = a_by.is_some() && (a_by == b_by || group || queue);
    // What one thread did then, whatever it meant to each of those that waited for it.
    let one_doing = a_by.is_some()
        && a_by == b_by
        && a.finding.function == b.finding.function
        && ![a, b].iter().any(|stall| stall.finding.pattern == Pattern::CpuStarvation);
    if one_doing && share(a, b) >= 0.5 {
        return true;
    }
    a.finding.pattern == b.finding.pattern
        && ((culprit || same_stopped(analysis, a, b)) && share(a, b) >= 0.5
            || same_throttling(a, b))
}

/// One process was stopped in both: its threads are stopped together, and may keep others waiting.
fn same_stopped(analysis: &Analysis<'_>, a: &Stall, b: &Stall) -> bool {
    let stopped = |stall: &Stall| {
        let thread = stall.finding.culprit.unwrap_or(stall.candidate.victim);
        analysis.trace.threads.get(thread).process
    };
    a.finding.pattern == Pattern::Stopped && stopped(a) == stopped(b)
}

/// Two victims of one quota that was used up in both: who came after the other ended suffers from
/// the same.
fn same_throttling(a: &Stall, b: &Stall) -> bool {
    /// Periods of the quota between two stalls that are one, at most.
    const MAX_PERIODS_BETWEEN: u64 = 10;
    let (Some(quota), Some(other)) = (a.throttling, b.throttling) else { return false };
    let (one, two) = (a.candidate.window, b.candidate.window);
    let between = one.start.since(two.end).max(two.start.since(one.end));
    quota.group == other.group && between <= quota.period_ns.saturating_mul(MAX_PERIODS_BETWEEN)
}

/// `view` is the same hang as its culprit experienced it, and no user was seen to wait for that.
fn is_culprits_view(stall: &Stall, view: &Stall) -> bool {
    is_view(stall, view) && !is_hang_of_user(view, stall)
}

/// A user was seen to wait for `hang`, but not for `stall`, whose victim waited for the same thread,
/// as a window manager does for its programs: it is one more victim.
fn is_hang_of_user(hang: &Stall, stall: &Stall) -> bool {
    let is_seen = |stall: &Stall| stall.candidate.is_seen_by_user();
    is_seen(hang) && !is_seen(stall) && is_view(stall, hang)
}

/// The culprit of `stall` was held up itself (`view`) while it held up the victim of `stall`. Who
/// took a CPU from others was not held up: what it did then is a story of its own.
fn is_view(stall: &Stall, view: &Stall) -> bool {
    let window = view.candidate.window;
    let covers = || {
        stall.candidate.window.intersect(window).duration_ns() as f64
            >= window.duration_ns() as f64 * 0.8
    };
    // A holder that got no CPU, where the one that had it is to blame.
    let is_holder = || {
        let mut hops = stall.explanation.hops.iter();
        stall.finding.pattern == Pattern::PriorityInversion
            && view.finding.pattern == Pattern::CpuStarvation
            && hops.any(|hop| hop.class == WaitClass::Lock && hop.by == view.candidate.victim)
    };
    stall.finding.pattern != Pattern::CpuStarvation
        && (stall.kept_waiting_by() == Some(view.candidate.victim) || is_holder())
        && covers()
}

/// What the windows share, as a part of the shorter one.
fn share(a: &Stall, b: &Stall) -> f64 {
    let (a, b) = (a.candidate.window, b.candidate.window);
    let shorter = a.duration_ns().min(b.duration_ns()).max(1);
    a.intersect(b).duration_ns() as f64 / shorter as f64
}

/// Which of two views of one hang is reported: the one with a definite verdict (if it is no small part
/// of one that somebody saw), that of whom a stopped process kept waiting, that of a thread
/// with an event loop (somebody sits before it), the whole machine's, the starved operation's, the
/// one that the system itself reported, the longer. The whole machine may have been idle for only a
/// part of an event loop's absence, so there the longer one counts. Nobody sits before an event loop that
/// serves a client which lost more than twice as much. A break in rhythm or a command's life does not say
/// exactly when the hang began, so it must be longer by a tenth.
fn better(analysis: &Analysis<'_>, new: &Stall, old: &Stall) -> bool {
    // What somebody sat before is not over because a short part of it has a name.
    let is_part = |stall: &Stall, other: &Stall| {
        let length = |stall: &Stall| stall.candidate.window.duration_ns();
        length(stall).saturating_mul(2) < length(other)
    };
    let is_shown = |stall: &Stall, other: &Stall| {
        let is_small = other.candidate.is_seen() && is_part(stall, other);
        stall.finding.pattern.is_definite() && !is_small
    };
    let has_user = |stall: &Stall, other: &Stall| {
        stall.candidate.event_loop && !(is_part(stall, other) && serves(analysis, stall, other))
    };
    let rank = |stall: &Stall, other: &Stall| {
        let is_rough = stall.candidate.is_break() || stall.candidate.kind == StallKind::Command;
        let tenths = if is_rough { 11 } else { 10 };
        (
            is_shown(stall, other),
            stall.finding.pattern == Pattern::Stopped && stall.kept_waiting_by().is_some(),
            has_user(stall, other),
            stall.candidate.machine.is_some() && !stall.candidate.event_loop,
            stall.candidate.kind == StallKind::LockStarvation,
            stall.candidate.kind == StallKind::UiDelay,
            stall.candidate.kind == StallKind::Input,
            stall.candidate.window.duration_ns() / tenths * 10,
        )
    };
    rank(new, old) > rank(old, new)
}

/// True if the victim of `client`, of another process, waited for that of `server`.
fn serves(analysis: &Analysis<'_>, server: &Stall, client: &Stall) -> bool {
    let process = |thread| analysis.trace.threads.get(thread).process;
    let own = process(server.candidate.victim);
    process(client.candidate.victim) != own
        && client.explanation.hops.iter().any(|hop| process(hop.by) == own)
}
