//! The answer in words: what hung, how long, on what; who caused it; how sure; where the time went.

use super::clauses::clauses;
use super::saved::seen_by_trigger;
use super::words::at;
use crate::Analysis;
use crate::candidate::StallKind;
use crate::diagnose::{Query, Stall, diagnose};
use crate::explain::{What, partition};
use crate::wording::{recording, thread_groups, units};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use unhitch_model::{Recorded, System, ThreadId};

/// Maximum further stalls, with one line each.
const MAX_ONE_LINERS: usize = 6;

/// The answer to a query that names nothing, see [`text_for`].
pub fn text(analysis: &Analysis<'_>, stalls: &[Stall], top: usize) -> String {
    text_for(analysis, &Query::default(), stalls, top)
}

/// The answer to `query`: the `top` worst of `stalls` in full; the others in a line each.
pub fn text_for(analysis: &Analysis<'_>, query: &Query, stalls: &[Stall], top: usize) -> String {
    let mut out = seen_by_trigger(analysis.trace).unwrap_or_default();
    if stalls.is_empty() {
        let _ = write!(out, "{}", nothing_found(analysis, query));
    }
    out.extend(idle_main_thread(analysis, query, stalls));
    for (index, stall) in stalls.iter().take(top).enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(&text_of(analysis, stall));
    }
    let rest = stalls.get(top..).unwrap_or(&[]);
    if !rest.is_empty() {
        out.push_str("\nAlso in this recording (--top N shows more of them in full):\n");
        one_lines(analysis, rest, &mut out);
    }
    for warning in analysis.trace.warnings.lines() {
        let _ = writeln!(out, "WARNING  {warning}");
    }
    out
}

/// How long a command took, with the largest parts of its time, in one line.
pub fn took(analysis: &Analysis<'_>, life: &Stall) -> String {
    /// Maximum parts.
    const MAX_PARTS: usize = 3;
    /// Smaller parts of the whole go unmentioned.
    const MIN_PART: u64 = 20;
    let (window, victim) = (life.explanation.window, life.candidate.victim);
    // What it says of the time of others, before and after who they are.
    let mut of_others: BTreeMap<[&str; 2], Vec<(ThreadId, u64)>> = BTreeMap::new();
    let mut own: BTreeMap<&str, u64> = BTreeMap::new();
    for share in partition(analysis, &life.explanation) {
        let what = match (share.what, share.who.filter(|who| *who != victim)) {
            (What::WaitedForCpu, _) => "waiting for a CPU",
            (what, Some(who)) => {
                let around = match what {
                    What::Lock | What::Ipc | What::Network | What::Condition => {
                        ["waiting while ", " ran"]
                    }
                    what => [what.words(), ""],
                };
                of_others.entry(around).or_default().push((who, share.ns));
                continue;
            }
            (What::Timer, None) => "asleep by its own timer",
            (What::Outside | What::OutsideNetwork, None) => "waiting for a message",
            (What::Io, None) => "waiting for a disk",
            (what, None) => what.words(),
        };
        *own.entry(what).or_default() += share.ns;
    }
    let mut parts: Vec<(String, u64)> =
        own.into_iter().map(|(what, ns)| (what.to_owned(), ns)).collect();
    for ([before, after], times) in of_others {
        let between = if after.is_empty() { " " } else { "" };
        parts.extend(thread_groups(analysis.trace, window.end, times).into_iter().map(|group| {
            let who = group.name(analysis.trace, window.end).text;
            (format!("{before}{between}{who}{after}"), group.ns)
        }));
    }
    parts.sort_by_key(|(_, ns)| Reverse(*ns));
    let is_large = |ns: u64| ns.saturating_mul(MIN_PART) >= window.duration_ns();
    let told = parts.iter().take(MAX_PARTS).take_while(|(_, ns)| is_large(*ns)).count();
    let rest: u64 = parts.split_off(told).iter().map(|(_, ns)| ns).sum();
    if is_large(rest) {
        parts.push(("in smaller parts".to_owned(), rest));
    }
    let part = |(words, ns): &(String, u64)| format!("{} {words}", units::duration(*ns));
    let parts: Vec<String> = parts.iter().map(part).collect();
    let colon = if parts.is_empty() { "" } else { ": " };
    let length = units::duration(window.duration_ns());
    let name = units::thread(analysis.trace, victim, window.end);
    format!("{name} took {length}{colon}{}", parts.join(", "))
}

/// Of a process that somebody asks about: that its main thread was idle, where the answer begins with
/// another thread.
fn idle_main_thread(analysis: &Analysis<'_>, query: &Query, stalls: &[Stall]) -> Option<String> {
    let (main, others) = query.victims.split_first().filter(|(_, others)| !others.is_empty())?;
    let process = analysis.trace.threads.get(*main).process;
    let is_of_it = |thread: &ThreadId| analysis.trace.threads.get(*thread).process == process;
    let is_main = analysis.trace.threads.process_of(*main).leader == *main;
    let is_told = stalls.first().is_none_or(|first| first.victims.contains(main));
    if !is_main || !others.iter().all(is_of_it) || is_told {
        return None;
    }
    let of_main = diagnose(analysis, &Query { victims: vec![*main], ..query.clone() });
    let was_idle = of_main.first().is_some_and(|stall| stall.candidate.kind == StallKind::Idle);
    let name = units::thread(analysis.trace, *main, analysis.timeline.window().end);
    was_idle.then(|| {
        format!("{name}, the main thread, was idle. What follows is about others of its process.\n")
    })
}

/// One stall with its evidence.
pub fn text_of(analysis: &Analysis<'_>, stall: &Stall) -> String {
    clauses(analysis, stall).iter().map(|clause| format!("{clause}\n")).collect()
}

/// The worst of `stalls`, in a line each.
fn one_lines(analysis: &Analysis<'_>, stalls: &[Stall], out: &mut String) {
    for stall in stalls.iter().take(MAX_ONE_LINERS) {
        let _ = writeln!(out, "  {}", one_line(analysis, stall));
    }
    if stalls.len() > MAX_ONE_LINERS {
        let _ = writeln!(out, "  … and {} more.", stalls.len() - MAX_ONE_LINERS);
    }
}

/// A stall in one line: how long, when, who, why.
pub fn one_line(analysis: &Analysis<'_>, stall: &Stall) -> String {
    let window = stall.explanation.window;
    let victims = if stall.victims.len() > 1 {
        format!(" and {} more", stall.victims.len() - 1)
    } else {
        String::new()
    };
    format!(
        "{:>10}  at {}  {}{victims}: {}",
        units::duration(window.duration_ns()),
        at(analysis, window.start),
        units::thread(analysis.trace, stall.candidate.victim, window.end),
        stall.finding.cause
    )
}

/// That nothing hung when the recording ended, and what had hung before.
fn nothing_in_progress(analysis: &Analysis<'_>, recorded: &str) -> String {
    let mut out = format!(
        "Nothing was hanging when the recording ended, as far as {recorded} tell.\nIf something \
         hangs, name it: `--victim NAME` explains what it was doing then."
    );
    let meta = &analysis.trace.meta;
    if meta.system == System::Linux && !meta.notes_facts {
        out.push_str(
            "\nThreads that slept all the time were not recorded: that takes recording by BPF.",
        );
    }
    let before = diagnose(analysis, &Query::default());
    if !before.is_empty() {
        out.push_str("\n\nStalls that had ended before:\n");
        one_lines(analysis, &before, &mut out);
    }
    out.truncate(out.trim_end().len());
    out
}

/// Why there is no stall, and what to do about it.
///
/// *Why apart:* the page says itself what to do there instead of commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nothing {
    /// Why.
    pub why: String,
    /// Commands that tell more; empty if there are none.
    pub commands: String,
    /// What to record next time; empty if nothing is missing.
    pub record: &'static str,
}

impl fmt::Display for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [self.why.as_str(), self.commands.as_str(), self.record];
        lines.iter().filter(|line| !line.is_empty()).try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Why `query` finds no stall, and what to do about it.
pub fn nothing_found(analysis: &Analysis<'_>, query: &Query) -> Nothing {
    let (trace, window) = (analysis.trace, analysis.timeline.window());
    let nothing = |why, commands: &str| Nothing { why, commands: commands.to_owned(), record: "" };
    if trace.switches.is_empty() {
        return Nothing {
            why: format!("No answer: {}.", recording::lacks(Recorded::Switches)),
            commands: recording::samples_instead(trace).trim_end().to_owned(),
            record: recording::switches(trace.meta.system),
        };
    }
    if let (false, Some(pid)) = (query.victims.is_empty(), trace.meta.only_pid) {
        let why = format!(
            "No answer: only switches and wake-ups that involve process {pid} were recorded. \
             Record without --only-pid to see what other threads waited for."
        );
        return nothing(why, "");
    }
    let whole = query.window.unwrap_or(window);
    let recorded = format!(
        "{} on {} ({} context switches, {})",
        units::duration(whole.duration_ns()),
        units::plural(analysis.cpus.seen() as u64, "CPU"),
        units::count(trace.switches.range(whole).len() as u64),
        units::plural(trace.wakings.range(whole).len() as u64, "wake-up"),
    );
    if query.in_progress && query.victims.is_empty() {
        return nothing(nothing_in_progress(analysis, &recorded), "");
    }
    let exited = |&thread: &ThreadId| analysis.timeline.life(thread).end < window.end;
    match query.is_about_something() {
        true if query.in_progress && query.victims.iter().all(exited) => nothing(
            format!(
                "No answer: in {recorded}, the threads that you asked about had exited before the \
                 recording ended."
            ),
            "Without --in-progress, you get what they waited for before that.",
        ),
        true => nothing(
            format!(
                "No answer: in {recorded}, nothing was recorded about the threads or the time that \
                 you asked about."
            ),
            "`unhitch table TRACE threads` lists the recorded threads.",
        ),
        false => nothing(
            format!("No stall found in {recorded}."),
            "If something did hang, name it: `unhitch why TRACE --victim NAME`, with `--from \
             SECONDS --to SECONDS` if you know when.",
        ),
    }
}
