//! The answer in words: what hung, how long, on what; who caused it; how sure; where the time went.

use super::units;
use crate::Analysis;
use crate::chain::{Link, LinkState};
use crate::partition::{Share, What};
use crate::stalls::{Stall, StallKind};
use std::fmt::Write;
use unhitch_model::Time;

/// The partition names at most so many lines; the rest is summed, so that the lines always add up.
const MOST_SHARES: usize = 6;
/// The chain has at most so many links.
const MOST_LINKS: usize = 8;
/// Further stalls get one line each, at most so many.
const MOST_ONE_LINERS: usize = 6;

/// The answer for the `top` worst of `stalls` in full; the others in a line each.
pub fn text(analysis: &Analysis<'_>, stalls: &[Stall], top: usize) -> String {
    let mut out = String::new();
    if stalls.is_empty() {
        out.push_str(&nothing_found(analysis));
    }
    for (index, stall) in stalls.iter().take(top).enumerate() {
        if index > 0 {
            out.push('\n');
        }
        one(analysis, stall, &mut out);
    }
    let rest = stalls.get(top..).unwrap_or(&[]);
    if !rest.is_empty() {
        out.push_str("\nAlso in this recording (--top N shows more of them in full):\n");
        for stall in rest.iter().take(MOST_ONE_LINERS) {
            let _ = writeln!(out, "  {}", one_line(analysis, stall));
        }
        if rest.len() > MOST_ONE_LINERS {
            let _ = writeln!(out, "  … and {} more.", rest.len() - MOST_ONE_LINERS);
        }
    }
    for warning in analysis.trace.warnings.lines() {
        let _ = writeln!(out, "WARNING  {warning}");
    }
    out
}

/// One stall with its evidence.
fn one(analysis: &Analysis<'_>, stall: &Stall, out: &mut String) {
    let (trace, window) = (analysis.trace, stall.explanation.window);
    let victim = units::thread(trace, stall.candidate.victim, window.end);
    let who = stall.candidate.machine.as_ref().map_or(victim, |machine| machine.headline());
    let _ = writeln!(
        out,
        "{} {}  {who}, from {} to {} of the recording",
        headline(stall),
        units::duration(window.duration_ns()),
        at(analysis, window.start),
        at(analysis, window.end),
    );
    if stall.candidate.machine.is_some() {
        let _ = writeln!(out, "The first to come back was {}.", units::thread(trace, stall.candidate.victim, window.end));
    }
    for sentence in &stall.finding.story {
        let _ = writeln!(out, "{sentence}");
    }
    if stall.victims.len() > 1 && stall.candidate.machine.is_none() {
        let others: Vec<String> = stall
            .victims
            .iter()
            .filter(|&&victim| victim != stall.candidate.victim)
            .map(|&victim| units::thread(trace, victim, window.end))
            .collect();
        let shown = others.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
        let more = if others.len() > 4 { format!(" and {} more", others.len() - 4) } else { String::new() };
        let _ =
            writeln!(out, "{} suffered from the same at the same time: {shown}{more}.", units::plural(others.len() as u64, "other thread"));
    }
    let _ = writeln!(out, "CAUSE     {}", stall.finding.cause);
    if let Some(idle) = analysis.cpus.idle_share(trace, window) {
        let _ = writeln!(out, "MACHINE   {:.0} % idle meanwhile, {}.", idle * 100.0, units::plural(analysis.cpus.cpus() as u64, "CPU"));
    }
    let _ = writeln!(out, "EVIDENCE  {}: {}.", stall.finding.evidence.name(), stall.finding.evidence_words);
    if !stall.finding.advice.is_empty() {
        let _ = writeln!(out, "REMEDY    {}", stall.finding.advice);
    }
    chain(analysis, stall, out);
    shares(analysis, &analysis.partition(&stall.explanation), window.duration_ns(), window.end, out);
}

fn headline(stall: &Stall) -> &'static str {
    match stall.candidate.kind {
        StallKind::Mark => "WINDOW",
        _ if stall.candidate.event_loop || stall.candidate.kind == StallKind::LockStarvation => "HANG",
        _ => "STALL",
    }
}

fn one_line(analysis: &Analysis<'_>, stall: &Stall) -> String {
    let window = stall.explanation.window;
    let victims = if stall.victims.len() > 1 { format!(" and {} more", stall.victims.len() - 1) } else { String::new() };
    format!(
        "{:>10}  at {}  {}{victims}: {}",
        units::duration(window.duration_ns()),
        at(analysis, window.start),
        units::thread(analysis.trace, stall.candidate.victim, window.end),
        stall.finding.cause
    )
}

fn at(analysis: &Analysis<'_>, time: Time) -> String {
    units::seconds(time.since(analysis.timeline.window().start))
}

/// The chain, victim first: whose wait, how long it accounts for, and who ended it.
fn chain(analysis: &Analysis<'_>, stall: &Stall, out: &mut String) {
    let links = stall.explanation.chain(MOST_LINKS);
    let window = stall.explanation.window;
    if links.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  the chain, latest first; moments count with what surrounds them");
    for link in links.iter().rev() {
        let _ = writeln!(out, "  {:>12}  {}", units::duration(link.window.duration_ns()), link_words(analysis, link, window.end));
    }
}

fn link_words(analysis: &Analysis<'_>, link: &Link, at: Time) -> String {
    let who = units::thread(analysis.trace, link.thread, at);
    match (link.state, &link.hop) {
        (LinkState::Sleeping, Some(hop)) => {
            let by = units::thread(analysis.trace, hop.by, at);
            let slept = hop.slept.duration_ns();
            let whole =
                if slept > link.window.duration_ns() { format!(" (after {} in all)", units::duration(slept)) } else { String::new() };
            let class = hop.class.name().replace('_', " ");
            match hop.wake {
                Some(_) => {
                    let more = match link.hops.saturating_sub(1) {
                        0 => String::new(),
                        more => format!(", and {} more such waits", units::count(more as u64)),
                    };
                    format!("{who} waited ({class}) until {by} woke it{whole}{more}")
                }
                None => format!("{who} waits ({class}) for {by}, which still holds it"),
            }
        }
        (LinkState::Sleeping, None) => format!("{who} slept ({})", analysis.class_of(&link.piece.segment).name().replace('_', " ")),
        (LinkState::Running, _) => format!("{who} ran"),
        (LinkState::Runnable, _) => format!("{who} waited for a CPU"),
        (LinkState::Unknown, _) => format!("{who}: not recorded"),
    }
}

fn shares(analysis: &Analysis<'_>, shares: &[Share], total_ns: u64, at: Time, out: &mut String) {
    let _ = writeln!(out, "\n  where the time went");
    let mut line = |what: &str, who: &str, ns: u64| {
        let _ = writeln!(out, "  {:>12}  {:>7}  {what:<15} {who}", units::duration(ns), units::percent(ns, total_ns));
    };
    let shown = if shares.len() > MOST_SHARES + 1 { MOST_SHARES } else { shares.len() };
    for share in &shares[..shown] {
        let who = share.who.map_or_else(|| "nobody known".to_owned(), |who| units::thread(analysis.trace, who, at));
        line(words(share.what), &who, share.ns);
    }
    if shown < shares.len() {
        line("the rest", &format!("{} smaller parts", shares.len() - shown), shares[shown..].iter().map(|share| share.ns).sum());
    }
    let _ = writeln!(
        out,
        "  {:>12}  {:>7}  the whole stall, to the nanosecond",
        units::duration(shares.iter().map(|share| share.ns).sum()),
        units::percent(1, 1)
    );
}

fn words(what: What) -> &'static str {
    match what {
        What::Ran => "ran",
        What::WaitedForCpu => "CPU taken by",
        What::Lock => "lock held by",
        What::Io => "disk",
        What::Timer => "timer set by",
        What::Memory => "memory",
        What::Ipc => "reply awaited of",
        What::Stopped => "stopped",
        What::Unknown => "not known",
    }
}

fn nothing_found(analysis: &Analysis<'_>) -> String {
    let (trace, window) = (analysis.trace, analysis.timeline.window());
    if trace.switches.is_empty() {
        return "No answer: the trace holds no context switches, so nothing tells who waited for whom.\nRecord with `unhitch record`, or with `perf record -a -g -e sched:sched_switch -e sched:sched_waking`.\n".to_owned();
    }
    format!(
        "No stall found in {} on {} ({} context switches, {} wake-ups).\nIf something did hang, name it: `unhitch why TRACE --victim NAME --from SECONDS --to SECONDS`.\n",
        units::duration(window.duration_ns()),
        units::plural(analysis.cpus.cpus() as u64, "CPU"),
        units::count(trace.switches.len() as u64),
        units::count(trace.wakings.len() as u64),
    )
}
