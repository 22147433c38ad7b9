//! The answer in clauses, each linked to the events that prove it. The answer's text is these
//! clauses, one after another.
//!
//! A link is a part of a clause's text and what it is about: a thread, a stretch of its time, and
//! the event at which one sees it. What the clause itself composes is linked as it is written; in
//! the sentences of the patterns the names of threads and the stacks are found again, which is
//! safe, since both are written by one function each.

use super::readings::Readings;
use super::text::{at, headline};
use super::units;
use crate::chain::{Link as ChainLink, LinkState};
use crate::crowd::{Party, parties};
use crate::marks::{Mark, MarkKind};
use crate::partition::{Share, What};
use crate::stalls::{Stall, StallKind, ui_delay};
use crate::{Analysis, Hop, Piece};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use unhitch_model::{ThreadId, Time, Trace, Window};

/// The partition names at most so many lines; the rest is summed, so that the lines always add up.
const MOST_SHARES: usize = 6;
/// The chain has at most so many links.
const MOST_LINKS: usize = 8;
/// Stacks of so many hops are looked for in sentences, those of the longest.
const MOST_STACKS: usize = 32;

/// What a clause is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClauseKind {
    /// What hung, how long, when.
    Headline,
    /// What happened.
    Story,
    /// Who or what caused it.
    Cause,
    /// What the machine did meanwhile.
    Machine,
    /// What its user tried meanwhile.
    Input,
    /// How it is known.
    Evidence,
    /// What would mend it.
    Remedy,
    /// A link of the chain, or the line above them.
    Chain,
    /// A line of the partition, the one above them, or their sum.
    Partition,
}

impl ClauseKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Headline => "headline",
            Self::Story => "story",
            Self::Cause => "cause",
            Self::Machine => "machine",
            Self::Input => "input",
            Self::Evidence => "evidence",
            Self::Remedy => "remedy",
            Self::Chain => "chain",
            Self::Partition => "partition",
        }
    }
}

/// An event, by its index in its column of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A context switch.
    Switch(usize),
    /// A wake-up.
    Waking(usize),
    /// An event of any provider.
    Provider(usize),
}

/// What a part of a clause's text is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The part, in bytes of the clause's text.
    pub range: Range<usize>,
    /// The thread; none where it is about the whole machine.
    pub thread: Option<ThreadId>,
    /// The stretch of time.
    pub window: Window,
    /// The event that proves it, where there is one.
    pub event: Option<Event>,
}

/// A sentence or a line of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clause {
    /// What it is about.
    pub kind: ClauseKind,
    /// Its text, without the end of its line. May hold several lines.
    pub text: String,
    /// In order of the text, not overlapping.
    pub links: Vec<Link>,
}

/// What a link leads to: who, when, and the event at which it is seen.
type Proof = (Option<ThreadId>, Window, Option<Event>);

impl Clause {
    fn new(kind: ClauseKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), links: Vec::new() }
    }

    /// Adds text that is not linked.
    fn say(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Adds text that is proved.
    fn prove(mut self, text: &str, (thread, window, event): Proof) -> Self {
        let range = self.text.len()..self.text.len() + text.len();
        self.links.push(Link { range, thread, window, event });
        self.say(text)
    }

    /// Links every place of the text that reads `words` and is not linked yet.
    fn find(&mut self, words: &str, (thread, window, event): Proof) {
        let places: Vec<usize> = if words.is_empty() {
            Vec::new()
        } else {
            self.text.match_indices(words).map(|(at, _)| at).collect()
        };
        for at in places {
            let range = at..at + words.len();
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let part_of_word = is_word(self.text[..range.start].chars().next_back())
                || is_word(self.text[range.end..].chars().next());
            if !part_of_word
                && self
                    .links
                    .iter()
                    .all(|link| link.range.end <= range.start || range.end <= link.range.start)
            {
                self.links.push(Link { range, thread, window, event });
            }
        }
        self.links.sort_by_key(|link| link.range.start);
    }
}

/// The answer about a stall, clause by clause.
pub fn clauses(analysis: &Analysis<'_>, stall: &Stall) -> Vec<Clause> {
    let (trace, window) = (analysis.trace, stall.explanation.window);
    let victim = units::thread(trace, stall.candidate.victim, window.end);
    let proofs = Proofs::new(analysis, stall);
    let (whole, machine) = (proofs.of_victim(), (None, window, None));
    let story = |kind, text: &str| proofs.linked(Clause::new(kind, text));
    let who = stall
        .candidate
        .machine
        .as_ref()
        .map_or_else(|| victim.clone(), |machine| machine.headline());
    let mut list = vec![
        Clause::new(ClauseKind::Headline, headline(stall))
            .say(" ")
            .prove(&units::duration(window.duration_ns()), whole)
            .say("  ")
            .prove(&who, if stall.candidate.machine.is_some() { machine } else { whole })
            .say(", ")
            .prove(
                &format!(
                    "from {} to {} of the recording",
                    at(analysis, window.start),
                    at(analysis, window.end)
                ),
                whole,
            ),
    ];
    if stall.candidate.machine.is_some() {
        list.push(
            Clause::new(ClauseKind::Story, "The first to come back was ")
                .prove(&victim, whole)
                .say("."),
        );
    }
    let report = Some(&stall.candidate).filter(|candidate| candidate.kind == StallKind::UiDelay);
    let report = report.and_then(|candidate| ui_delay::story(analysis, candidate));
    list.extend(stall.finding.story.iter().map(|sentence| match &report {
        Some((words, event)) if words == sentence => {
            let proof = (Some(stall.candidate.victim), window, Some(Event::Provider(*event)));
            Clause::new(ClauseKind::Story, "").prove(sentence, proof)
        }
        _ => story(ClauseKind::Story, sentence),
    }));
    if stall.victims.len() > 1 && stall.candidate.machine.is_none() {
        list.push(others(analysis, stall));
    }
    list.push(story(ClauseKind::Cause, &format!("CAUSE     {}", stall.finding.cause)));
    if let Some(idle) = analysis.cpus.idle_share(trace, window) {
        let words = format!(
            "{:.0} % idle meanwhile, {}.",
            idle * 100.0,
            units::plural(analysis.cpus.cpus() as u64, "CPU")
        );
        list.push(Clause::new(ClauseKind::Machine, "MACHINE   ").prove(&words, machine));
    }
    list.extend(input(analysis, window));
    list.push(story(
        ClauseKind::Evidence,
        &format!("EVIDENCE  {}: {}.", stall.finding.evidence.name(), stall.finding.evidence_words),
    ));
    list.extend(
        Readings::new(analysis, stall)
            .map(|both| story(ClauseKind::Evidence, &both.told(analysis, stall))),
    );
    if !stall.finding.advice.is_empty() {
        // Advice is not seen anywhere.
        list.push(Clause::new(ClauseKind::Remedy, format!("REMEDY    {}", stall.finding.advice)));
    }
    chain(analysis, stall, &mut list);
    shares(&proofs, &mut list);
    list
}

/// What its user tried meanwhile; each kind is proved by the first that was noted.
fn input(analysis: &Analysis<'_>, window: Window) -> Option<Clause> {
    let mut clause = Clause::new(ClauseKind::Input, "INPUT     ");
    for (kind, what) in [(MarkKind::Key, "key"), (MarkKind::Button, "mouse button")] {
        let marks: Vec<&Mark> = analysis
            .marks
            .iter()
            .filter(|mark| mark.kind == kind && window.contains(mark.time))
            .collect();
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else { continue };
        let and = if clause.links.is_empty() { "" } else { " and " };
        let proof =
            (None, Window::new(first.time, last.time.plus(1)), Some(Event::Provider(first.event)));
        clause = clause.say(and).prove(&units::plural(marks.len() as u64, what), proof);
    }
    (!clause.links.is_empty()).then(|| clause.say(" pressed meanwhile."))
}

/// Who else suffered.
fn others(analysis: &Analysis<'_>, stall: &Stall) -> Clause {
    let window = stall.explanation.window;
    let others: Vec<ThreadId> =
        stall.victims.iter().copied().filter(|&victim| victim != stall.candidate.victim).collect();
    let when = if stall.throttling.is_some() { "at or near that time" } else { "at the same time" };
    let head = format!(
        "{} suffered from the same {when}: ",
        units::plural(others.len() as u64, "other thread")
    );
    let mut clause = Clause::new(ClauseKind::Story, head);
    for (index, &other) in others.iter().take(4).enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        clause = clause
            .say(comma)
            .prove(&units::thread(analysis.trace, other, window.end), (Some(other), window, None));
    }
    let more =
        if others.len() > 4 { format!(" and {} more", others.len() - 4) } else { String::new() };
    clause.say(&more).say(".")
}

/// Where each thread of a stall is seen to do what is said of it.
struct Proofs<'a> {
    analysis: &'a Analysis<'a>,
    stall: &'a Stall,
    shares: Vec<Share>,
    /// The hops whose stacks are looked for in sentences, longest first.
    hops: Vec<&'a Hop>,
    /// All threads that the stall is about, as they are told, longest names first.
    names: Vec<(String, ThreadId)>,
}

impl<'a> Proofs<'a> {
    fn new(analysis: &'a Analysis<'a>, stall: &'a Stall) -> Self {
        let explanation = &stall.explanation;
        let shares = analysis.partition(explanation);
        let mut hops: Vec<&Hop> = explanation.hops.iter().collect();
        hops.sort_by_key(|hop| Reverse(hop.window.duration_ns()));
        hops.truncate(MOST_STACKS);
        let hopped = explanation.hops.iter().flat_map(|hop| [hop.by, hop.sleeper]);
        let mut threads: Vec<ThreadId> =
            stall.victims.iter().copied().chain(hopped).chain(stall.finding.culprit).collect();
        threads.extend(shares.iter().filter_map(|share| share.who));
        threads.sort_unstable();
        threads.dedup();
        threads.retain(|thread| !thread.is_idle());
        let told = |thread| (units::thread(analysis.trace, thread, explanation.window.end), thread);
        let mut names: Vec<(String, ThreadId)> = threads.into_iter().map(told).collect();
        names.sort_by_key(|(name, thread)| (Reverse(name.len()), *thread));
        Self { analysis, stall, shares, hops, names }
    }

    fn of_victim(&self) -> Proof {
        let explanation = &self.stall.explanation;
        let longest = explanation.pieces.iter().max_by_key(|piece| piece.window.duration_ns());
        let waits = explanation
            .hops
            .iter()
            .filter(|hop| hop.depth == 1)
            .max_by_key(|hop| hop.window.duration_ns());
        let event = match waits {
            Some(hop) => hop.wake.map(Event::Waking).or_else(|| fell_asleep(self.analysis, hop)),
            None => longest.and_then(|piece| event_of(self.analysis.trace, piece)),
        };
        (Some(self.stall.candidate.victim), explanation.window, event)
    }

    /// The longest wait for a thread; else its own longest wait or piece.
    fn of(&self, thread: ThreadId) -> Proof {
        let explanation = &self.stall.explanation;
        if thread == self.stall.candidate.victim {
            return self.of_victim();
        }
        let longest = |hops: &mut dyn Iterator<Item = &Hop>| {
            hops.max_by_key(|hop| hop.window.duration_ns()).copied()
        };
        let hop = longest(&mut explanation.hops.iter().filter(|hop| hop.by == thread))
            .or_else(|| longest(&mut explanation.hops.iter().filter(|hop| hop.sleeper == thread)));
        if let Some(hop) = hop {
            return (Some(thread), hop.window, hop.wake.map(Event::Waking));
        }
        let piece = explanation
            .pieces
            .iter()
            .filter(|piece| piece.thread == thread)
            .max_by_key(|piece| piece.window.duration_ns());
        piece.map_or((Some(thread), explanation.window, None), |piece| {
            (Some(thread), piece.window, event_of(self.analysis.trace, piece))
        })
    }

    /// A sentence of a pattern, its threads and stacks linked; without any, all of it to the
    /// victim's time, where no one event proves it.
    fn linked(&self, mut clause: Clause) -> Clause {
        let trace = self.analysis.trace;
        // A stack stands on a line of its own.
        let has_stack = clause.text.contains('\n');
        for hop in self.hops.iter().filter(|_| has_stack) {
            clause.find(
                &self.analysis.told(hop.wait_stack),
                (Some(hop.sleeper), hop.slept, fell_asleep(self.analysis, hop)),
            );
            if let Some(wake) = hop.wake {
                let at = trace.wakings.time[wake];
                let told = self.analysis.told(trace.wakings.stack[wake]);
                clause.find(
                    &told,
                    (Some(hop.by), Window::new(at, at.plus(1)), Some(Event::Waking(wake))),
                );
            }
        }
        for (name, thread) in &self.names {
            if clause.text.contains(name) {
                clause.find(name, self.of(*thread));
            }
        }
        if clause.links.is_empty() {
            let (thread, window) =
                (Some(self.stall.candidate.victim), self.stall.explanation.window);
            clause.links.push(Link { range: 0..clause.text.len(), thread, window, event: None });
        }
        clause
    }
}

/// The switch with which the sleeper of a hop left its CPU.
fn fell_asleep(analysis: &Analysis<'_>, hop: &Hop) -> Option<Event> {
    let mut out = None;
    let begin = Window::new(hop.window.start, hop.window.start.plus(1));
    analysis
        .timeline
        .each_segment(analysis.trace, hop.sleeper, begin, &mut |segment| out = out.or(segment.out));
    out.map(Event::Switch)
}

/// The event at which a piece is seen to begin, if its own thread has a part in it.
fn event_of(trace: &Trace, piece: &Piece) -> Option<Event> {
    let switches = |switch: &usize| {
        [trace.switches.prev[*switch], trace.switches.next[*switch]].contains(&piece.thread)
    };
    let wakes = |wake: &usize| trace.wakings.wakee[*wake] == piece.thread;
    let switch = piece.segment.back.or(piece.segment.out).filter(switches);
    switch.map(Event::Switch).or(piece.segment.wake.filter(wakes).map(Event::Waking))
}

/// The chain, victim first: whose wait, how long it accounts for, and who ended it.
fn chain(analysis: &Analysis<'_>, stall: &Stall, list: &mut Vec<Clause>) {
    let links = stall.explanation.chain(MOST_LINKS);
    if links.is_empty() {
        return;
    }
    list.push(Clause::new(
        ClauseKind::Chain,
        "\n  the chain, latest first; moments count with what surrounds them",
    ));
    list.extend(
        links.iter().rev().map(|link| link_clause(analysis, link, stall.explanation.window)),
    );
}

fn link_clause(analysis: &Analysis<'_>, link: &ChainLink, window: Window) -> Clause {
    let name = |thread: ThreadId| units::thread(analysis.trace, thread, window.end);
    let event = match &link.hop {
        Some(hop) => hop.wake.map(Event::Waking).or_else(|| fell_asleep(analysis, hop)),
        None => event_of(analysis.trace, &link.piece).filter(|_| link.piece.thread == link.thread),
    };
    let own = (Some(link.thread), link.window, event);
    let clause = Clause::new(
        ClauseKind::Chain,
        format!("  {:>12}  ", units::duration(link.window.duration_ns())),
    )
    .prove(&name(link.thread), own);
    match (link.state, &link.hop) {
        (LinkState::Sleeping, Some(hop)) => {
            let slept = hop.slept.duration_ns();
            let whole = if slept > link.window.duration_ns() {
                format!(" (after {} in all)", units::duration(slept))
            } else {
                String::new()
            };
            let class = hop.class.name().replace('_', " ");
            let by = (Some(hop.by), hop.window, hop.wake.map(Event::Waking));
            match hop.wake {
                Some(_) => {
                    let more = match link.hops.saturating_sub(1) {
                        0 => String::new(),
                        more => format!(", and {} more such waits", units::count(more as u64)),
                    };
                    clause
                        .say(&format!(" waited ({class}) until "))
                        .prove(&name(hop.by), by)
                        .say(&format!(" woke it{whole}{more}"))
                }
                None => clause
                    .say(&format!(" waits ({class}) for "))
                    .prove(&name(hop.by), by)
                    .say(", which still holds it"),
            }
        }
        (LinkState::Sleeping, None) => clause.say(&format!(
            " slept ({})",
            analysis.class_of(&link.piece.segment).name().replace('_', " ")
        )),
        (LinkState::Running, _) => clause.say(" ran"),
        (LinkState::Runnable, _) => clause.say(" waited for a CPU"),
        (LinkState::Unknown, _) => clause.say(": not recorded"),
    }
}

/// The partition, largest part first, and its sum. Many threads of one name, none of which accounts
/// for much, have one line.
fn shares(proofs: &Proofs<'_>, list: &mut Vec<Clause>) {
    let (analysis, explanation) = (proofs.analysis, &proofs.stall.explanation);
    let (shares, total_ns, at) =
        (&proofs.shares, explanation.window.duration_ns(), explanation.window.end);
    list.push(Clause::new(ClauseKind::Partition, "\n  where the time went"));
    let lines = lines(analysis.trace, at, shares);
    let shown = if lines.len() > MOST_SHARES + 1 { MOST_SHARES } else { lines.len() };
    let rest = lines[shown..]
        .iter()
        .fold((0, 0), |sum, (_, who, ns)| (sum.0 + ns, sum.1 + who.map_or(1, |who| who.members)));
    let printed: Vec<u64> = lines[..shown]
        .iter()
        .map(|(_, _, ns)| *ns)
        .chain((shown < lines.len()).then_some(rest.0))
        .collect();
    let mut parts = units::percents(&printed).into_iter();
    let mut head = |what: &str, ns: u64| {
        let (time, part) = (units::duration(ns), parts.next().unwrap_or_default());
        Clause::new(ClauseKind::Partition, format!("  {time:>12}  {part:>7}  {what:<15} "))
    };
    for (what, who, ns) in &lines[..shown] {
        let clause = head(words(*what), *ns);
        list.push(match who {
            Some(party) if party.thread.is_idle() => clause.say(&party.name(analysis.trace, at)),
            Some(party) => clause.prove(&party.name(analysis.trace, at), proofs.of(party.thread)),
            None => clause.say("nobody known"),
        });
    }
    if shown < lines.len() {
        list.push(head("the rest", rest.0).say(&format!("{} smaller parts", rest.1)));
    }
    let sum_ns: u64 = shares.iter().map(|share| share.ns).sum();
    let (time, all) = (units::duration(sum_ns), units::percent(sum_ns, total_ns));
    let whole = if sum_ns == total_ns {
        "the whole stall, to the nanosecond"
    } else {
        "the sum of the parts"
    };
    let sum = Clause::new(ClauseKind::Partition, format!("  {time:>12}  {all:>7}  "));
    list.push(sum.prove(whole, proofs.of_victim()));
    if sum_ns != total_ns {
        let off = format!(
            "WARNING  the parts sum to {sum_ns} ns, the stall took {total_ns} ns: this answer is wrong somewhere, and that is a bug."
        );
        list.push(Clause::new(ClauseKind::Partition, off));
    }
}

/// The lines of the partition: to what the time went, who was responsible, how long; largest first.
fn lines(trace: &Trace, at: Time, shares: &[Share]) -> Vec<(What, Option<Party>, u64)> {
    let mut by_what: BTreeMap<What, Vec<(ThreadId, u64)>> = BTreeMap::new();
    let mut lines = Vec::new();
    for share in shares {
        match share.who {
            Some(who) => by_what.entry(share.what).or_default().push((who, share.ns)),
            None => lines.push((share.what, None, share.ns)),
        }
    }
    for (what, times) in by_what {
        lines.extend(
            parties(trace, at, times).into_iter().map(|party| (what, Some(party), party.ns)),
        );
    }
    lines.sort_by_key(|&(what, who, ns)| (Reverse(ns), what, who.map(|who| who.thread)));
    lines
}

/// What a share of the time was, in words; of some the name of who is responsible follows.
pub fn words(what: What) -> &'static str {
    match what {
        What::Ran => "ran",
        What::WaitedForCpu => "CPU taken by",
        What::Lock => "lock held by",
        What::Io => "disk",
        What::Timer => "timer set by",
        What::Memory => "memory",
        What::Ipc => "reply awaited of",
        What::Outside => "message to",
        What::Stopped => "stopped",
        What::Unknown => "not known",
    }
}
