//! The answer in clauses, each linked to the events that prove it. The answer's text is these
//! clauses, one after another.

use super::proofs::{Proofs, event_of};
use super::waker_vs_holder::WakerVsHolder;
use super::words::{at, headline};
use crate::diagnose::Stall;
use crate::explain::{
    ChainLink, Hop, LinkState, Meanwhile, ShareLine, ShareLines, class_of, fell_asleep,
};
use crate::stalls::machine;
use crate::user_marks::{MarkKind, UserMark};
use crate::wording::sentence::{Sentence, Span, Subject, count, duration, plural, sentence};
use crate::wording::{Event, Reference, units, wait_words};
use crate::{Analysis, WaitClass};
use std::fmt;
use std::ops::Range;
use unhitch_model::{NameId, ThreadId, Window};

/// Maximum links of the chain.
const MAX_LINKS: usize = 8;
/// Maximum other victims that are listed.
const MAX_VICTIMS: usize = 4;

/// What a clause is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClauseKind {
    /// What hung, how long, when.
    Headline,
    /// What happened.
    Story,
    /// Who or what caused it.
    Cause,
    /// In which control groups the culprit and the victim are, where they differ.
    Groups,
    /// What the machine did meanwhile.
    Machine,
    /// What its user tried meanwhile.
    Input,
    /// How it is known.
    Evidence,
    /// What would fix it.
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
            Self::Groups => "groups",
            Self::Machine => "machine",
            Self::Input => "input",
            Self::Evidence => "evidence",
            Self::Remedy => "remedy",
            Self::Chain => "chain",
            Self::Partition => "partition",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Cause => "CAUSE",
            Self::Groups => "GROUPS",
            Self::Machine => "MACHINE",
            Self::Input => "INPUT",
            Self::Evidence => "EVIDENCE",
            Self::Remedy => "REMEDY",
            Self::Headline | Self::Story | Self::Chain | Self::Partition => "",
        }
    }
}

/// A part of a clause's text that is linked to what proves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextLink {
    /// The part, in bytes of the clause's text.
    pub range: Range<usize>,
    /// Where it can be seen.
    pub reference: Reference,
    /// The function whose instructions it is about.
    pub instructions_of: Option<NameId>,
}

/// A sentence or a line of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clause {
    /// What it is about.
    pub kind: ClauseKind,
    /// The word in capitals before it, or nothing.
    pub label: &'static str,
    /// Its parts. The text may hold several lines, without the end of the last one.
    pub sentence: Sentence,
}

impl Clause {
    fn new(kind: ClauseKind, sentence: impl Into<Sentence>) -> Self {
        Self { kind, label: kind.label(), sentence: sentence.into() }
    }

    /// Its text without the label.
    pub fn text(&self) -> String {
        self.sentence.to_string()
    }

    /// The same without what only a terminal can show.
    #[must_use]
    pub fn without_commands(mut self) -> Self {
        self.sentence.spans.retain(|span| span.subject != Subject::Command);
        self
    }

    /// The linked parts of its text, in order.
    pub fn links(&self) -> Vec<TextLink> {
        let mut start = 0;
        let mut links: Vec<TextLink> = Vec::new();
        for span in &self.sentence.spans {
            let range = start..start + span.text.len();
            start = range.end;
            let instructions_of = match span.subject {
                Subject::Instructions(function) => Some(function),
                _ => None,
            };
            match (span.reference, links.last_mut()) {
                (Some(reference), Some(last))
                    if last.reference == reference
                        && last.instructions_of == instructions_of
                        && last.range.end == range.start =>
                {
                    last.range.end = range.end;
                }
                (Some(reference), _) => links.push(TextLink { range, reference, instructions_of }),
                (None, _) => {}
            }
        }
        links
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label {
            "" => write!(f, "{}", self.sentence),
            label => write!(f, "{label:<9} {}", self.sentence),
        }
    }
}

/// The answer about a stall, clause by clause.
pub fn clauses(analysis: &Analysis<'_>, stall: &Stall) -> Vec<Clause> {
    let (finding, window) = (&stall.finding, stall.explanation.window);
    let proofs = Proofs::new(analysis, stall);
    let clause = |kind, sentence: &Sentence| Clause::new(kind, proofs.link(sentence.clone()));
    let mut list = vec![first_line(&proofs)];
    if stall.candidate.machine.is_some() {
        let first = sentence!(
            "The longest of the waits that ended together was that of {}.",
            proofs.victim()
        );
        list.push(Clause::new(ClauseKind::Story, first));
    }
    list.extend(finding.sentences.iter().map(|sentence| clause(ClauseKind::Story, sentence)));
    list.extend(waiters(analysis, stall));
    if stall.candidate.machine.is_none() {
        list.extend(other_victims(analysis, stall));
    }
    list.push(clause(ClauseKind::Cause, &finding.cause));
    list.extend(groups(&proofs));
    list.extend(machine_line(analysis, window));
    list.extend(input(analysis, window));
    let evidence = sentence!("{}: {}.", finding.evidence.name(), finding.evidence_words.clone());
    list.push(clause(ClauseKind::Evidence, &evidence));
    list.extend(WakerVsHolder::new(analysis, stall).map(|both| Clause {
        label: "READINGS",
        ..clause(ClauseKind::Evidence, &both.sentence(analysis, stall))
    }));
    if !finding.advice.is_empty() {
        // Advice is not seen anywhere.
        list.push(Clause::new(ClauseKind::Remedy, finding.advice.as_str()));
    }
    list.extend(chain(&proofs));
    list.extend(shares(&proofs));
    list
}

/// What hung, how long, and when.
fn first_line(proofs: &Proofs<'_>) -> Clause {
    let (analysis, candidate) = (proofs.analysis, &proofs.stall.candidate);
    let (window, whole) = (proofs.window(), proofs.of_victim());
    let who =
        match &candidate.machine {
            Some(release) => Span::new(machine::headline(release), Subject::Text)
                .seen_at(Reference { thread: None, window, event: None }),
            None => proofs.victim(),
        };
    let (from, to) = (at(analysis, window.start), at(analysis, window.end));
    let when = Span::new(format!("from {from} to {to} of the recording"), Subject::Text);
    let sentence = sentence!(
        "{} {}  {}, {}",
        headline(proofs.stall),
        duration(window.duration_ns()).seen_at(whole),
        who,
        when.seen_at(whole)
    );
    Clause::new(ClauseKind::Headline, sentence)
}

/// The control groups of the culprit and of the victim, which tell which service or container each is
/// of. Nothing where both are of the same one, or the culprit of none.
fn groups(proofs: &Proofs<'_>) -> Option<Clause> {
    let (trace, stall) = (proofs.analysis.trace, proofs.stall);
    let culprit = stall.finding.culprit?;
    let path = |thread| trace.machine.group_path(&trace.threads, thread);
    let (of_culprit, of_victim) = (path(culprit)?, path(stall.candidate.victim)?);
    if of_culprit == of_victim || of_culprit == "/" {
        return None;
    }
    let mut sentence = sentence!("{} is in {}", proofs.name(culprit), of_culprit);
    if of_victim != "/" {
        sentence.push(sentence!(", {} in {}", proofs.victim(), of_victim));
    }
    sentence.push(".");
    Some(Clause::new(ClauseKind::Groups, proofs.link(sentence)))
}

/// How idle the machine was.
fn machine_line(analysis: &Analysis<'_>, window: Window) -> Option<Clause> {
    let idle = analysis.cpus.idle_share(analysis.trace, window)?;
    let cpus = units::plural(analysis.cpus.seen() as u64, "CPU");
    let words = format!("{:.0} % idle meanwhile, {cpus}.", idle * 100.0);
    let reference = Reference { thread: None, window, event: None };
    let span = Span::new(words, Subject::Text).seen_at(reference);
    Some(Clause::new(ClauseKind::Machine, span))
}

/// What the user tried meanwhile; each kind is proved by the first that was recorded.
fn input(analysis: &Analysis<'_>, window: Window) -> Option<Clause> {
    let mut parts: Vec<Span> = Vec::new();
    for (kind, what) in [(MarkKind::Key, "key"), (MarkKind::Button, "mouse button")] {
        let is_input = |mark: &&UserMark| mark.kind == kind && window.contains(mark.time);
        let marks: Vec<&UserMark> = analysis.marks.iter().filter(is_input).collect();
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else { continue };
        parts.push(plural(marks.len() as u64, what).seen_at(Reference {
            thread: None,
            window: Window::new(first.time, last.time.plus(1)),
            event: Some(Event::Provider(first.event)),
        }));
    }
    (!parts.is_empty()).then(|| {
        let pressed = sentence!("{} pressed meanwhile.", Sentence::join(parts, " and "));
        Clause::new(ClauseKind::Input, pressed)
    })
}

/// Who else suffered.
fn other_victims(analysis: &Analysis<'_>, stall: &Stall) -> Option<Clause> {
    let is_other = |victim: &ThreadId| {
        *victim != stall.candidate.victim
            && !stall.waiters.iter().any(|waiter| waiter.thread == *victim)
    };
    let others: Vec<ThreadId> = stall.victims.iter().copied().filter(is_other).collect();
    if others.is_empty() {
        return None;
    }
    let when = match stall.throttling {
        Some(_) => "at or near that time",
        None => "at the same time",
    };
    let sentence = sentence!(
        "{} suffered from the same cause {}: {}.",
        plural(others.len() as u64, "other thread"),
        when,
        listed(analysis, stall, &others)
    );
    Some(Clause::new(ClauseKind::Story, sentence))
}

/// Who waited for the stall's victims.
fn waiters(analysis: &Analysis<'_>, stall: &Stall) -> Option<Clause> {
    let longest = stall.waiters.iter().map(|waiter| waiter.waited_ns).max()?;
    let threads: Vec<ThreadId> = stall.waiters.iter().map(|waiter| waiter.thread).collect();
    let each = if threads.len() > 1 { "up to " } else { "" };
    let sentence = sentence!(
        "{} waited for this, {}{}: {}.",
        plural(threads.len() as u64, "thread"),
        each,
        duration(longest),
        listed(analysis, stall, &threads)
    );
    Some(Clause::new(ClauseKind::Story, sentence))
}

/// The first of some threads by name, and how many more there are.
fn listed(analysis: &Analysis<'_>, stall: &Stall, threads: &[ThreadId]) -> Sentence {
    let window = stall.explanation.window;
    let name = |thread: &ThreadId| {
        let name = units::thread(analysis.trace, *thread, window.end);
        let reference = Reference { thread: Some(*thread), window, event: None };
        Span::new(name, Subject::Thread(*thread)).seen_at(reference)
    };
    let more = match threads.len().saturating_sub(MAX_VICTIMS) as u64 {
        0 => Sentence::default(),
        more => sentence!(" and {} more", count(more)),
    };
    let names = Sentence::join(threads.iter().take(MAX_VICTIMS).map(name), ", ");
    sentence!("{}{}", names, more)
}

/// The wait chain, victim first: whose wait, how long it accounts for, and who ended it.
fn chain(proofs: &Proofs<'_>) -> Vec<Clause> {
    let links = proofs.stall.explanation.chain(MAX_LINKS);
    if links.is_empty() {
        return Vec::new();
    }
    let head = "\n  wait chain, latest first (short intervals merged into their neighbours)";
    let mut list = vec![Clause::new(ClauseKind::Chain, head)];
    list.extend(links.iter().rev().map(|link| link_clause(proofs, link)));
    list
}

fn link_clause(proofs: &Proofs<'_>, link: &ChainLink) -> Clause {
    let (analysis, trace) = (proofs.analysis, proofs.analysis.trace);
    let event = match &link.hop {
        Some(hop) => {
            hop.wake.map(Event::Waking).or_else(|| fell_asleep(analysis, hop).map(Event::Switch))
        }
        None => event_of(trace, &link.piece).filter(|_| link.piece.thread == link.thread),
    };
    let own = Reference { thread: Some(link.thread), window: link.window, event };
    let mut sentence = sentence!(
        "  {}  {}",
        right(duration(link.window.duration_ns()), 12),
        proofs.name(link.thread).seen_at(own)
    );
    sentence.push(match (link.state, &link.hop) {
        (LinkState::Sleeping, Some(hop)) => hop_words(proofs, link, hop),
        (LinkState::Sleeping, None) => {
            let segment = &link.piece.segment;
            let stack = segment.wait_stack(analysis.trace);
            let words = wait_words::of_wait(analysis, class_of(analysis, segment), stack);
            sentence!(" slept ({})", words)
        }
        (LinkState::Running, _) => Sentence::from(" ran"),
        (LinkState::Runnable, _) => Sentence::from(" waited for a CPU"),
        (LinkState::Unknown, _) => Sentence::from(": not recorded"),
    });
    Clause::new(ClauseKind::Chain, sentence)
}

/// What the thread of a link waited for, and who ended that.
fn hop_words(proofs: &Proofs<'_>, link: &ChainLink, hop: &Hop) -> Sentence {
    let analysis = proofs.analysis;
    let by = proofs.name(hop.by).seen_at(Reference {
        thread: Some(hop.by),
        window: hop.window,
        event: hop.wake.map(Event::Waking),
    });
    let slept = hop.slept.duration_ns();
    let whole = match slept > link.window.duration_ns() {
        true => sentence!(" (after {} in all)", duration(slept)),
        false => Sentence::default(),
    };
    let more = match link.hops.saturating_sub(1) as u64 {
        0 => Sentence::default(),
        more => sentence!(", and {}", plural(more, "more such wait")),
    };
    let words = wait_words::of_wait(analysis, hop.class, hop.wait_stack);
    let class = match hop.owner.filter(|owner| *owner != hop.by) {
        Some(owner) => sentence!("{}, held by {}", words, proofs.name(owner)),
        None => Sentence::from(words),
    };
    match (hop.wake, hop.started) {
        (Some(_), _) => {
            sentence!(" waited ({}) until {} woke it{}{}", class, by, whole, more)
        }
        (None, None) if hop.released.is_some() => {
            sentence!(" waited ({}) until {} let another have it{}{}", class, by, whole, more)
        }
        (None, None) if let Some(meanwhile) = hop.meanwhile => match meanwhile {
            Meanwhile::Ran => sentence!(" waited ({}) while {} ran{}{}", class, by, whole, more),
            Meanwhile::ServedDisk => {
                sentence!(" waited ({}) while {} served the disk{}{}", class, by, whole, more)
            }
        },
        (None, None) if hop.gave_up => {
            sentence!(" waited ({}) for {}, in vain, and gave up{}{}", class, by, whole, more)
        }
        (None, Some(started)) => sentence!(
            " waited ({}) until {} had started {}, which woke it{}{}",
            class,
            by,
            proofs.name(started),
            whole,
            more
        ),
        (None, None) if hop.class == WaitClass::Lock => {
            sentence!(" waits ({}) for {}, which still holds it", class, by)
        }
        (None, None) if hop.class == WaitClass::Process => {
            sentence!(" waits ({}) for {}, which has not ended yet", class, by)
        }
        (None, None) if hop.class == WaitClass::Condition => {
            sentence!(" waits ({}) for {}, which works meanwhile", class, by)
        }
        (None, None) => {
            sentence!(" waits ({}) for {}, which has not answered yet", class, by)
        }
    }
}

/// A span, right-aligned in a column of `width` characters.
fn right(span: Span, width: usize) -> Span {
    Span { text: format!("{:>width$}", span.text), ..span }
}

/// The partition, largest part first, and its sum.
fn shares(proofs: &Proofs<'_>) -> Vec<Clause> {
    let (total_ns, at) = (proofs.window().duration_ns(), proofs.window().end);
    let lines = ShareLines::of(proofs.analysis.trace, at, &proofs.shares);
    let mut percents = lines.percents().into_iter();
    let mut row = |what: &str, ns: u64, who: Sentence| {
        let percent = format!("{:>7}", percents.next().unwrap_or_default());
        let time = right(duration(ns), 12);
        let what = if who.is_empty() { what.to_owned() } else { format!("{what:<15} ") };
        let sentence = sentence!("  {}  {}  {}{}", time, percent, what, who);
        Clause::new(ClauseKind::Partition, sentence)
    };
    let mut list = vec![Clause::new(ClauseKind::Partition, "\n  where the time went")];
    for ShareLine { what, who, ns } in &lines.shown {
        list.push(match who {
            Some(group) if group.thread.is_idle() => {
                row(what.words_of_idle(), *ns, Sentence::default())
            }
            Some(group) => {
                let name = group.name(proofs.analysis.trace, at);
                row(what.words(), *ns, name.seen_at(proofs.of(group.thread)).into())
            }
            None => row(what.words(), *ns, Sentence::from("an unknown thread")),
        });
    }
    if let Some((rest_ns, parts)) = lines.rest {
        list.push(row("the rest", rest_ns, sentence!("{} smaller parts", count(parts))));
    }
    let sum_ns: u64 = proofs.shares.iter().map(|share| share.ns).sum();
    let whole = match (sum_ns == total_ns, headline(proofs.stall)) {
        (true, "WINDOW") => "the whole window, to the nanosecond",
        (true, "WAIT") => "the whole wait, to the nanosecond",
        (true, _) => "the whole stall, to the nanosecond",
        (false, _) => "the sum of the parts",
    };
    let sum = sentence!(
        "  {}  {}  {}",
        right(duration(sum_ns), 12),
        format!("{:>7}", units::percent(sum_ns, total_ns)),
        Span::new(whole, Subject::Text).seen_at(proofs.of_victim())
    );
    list.push(Clause::new(ClauseKind::Partition, sum));
    if sum_ns != total_ns {
        let off = format!(
            "WARNING  the parts sum to {sum_ns} ns, the stall took {total_ns} ns: this answer is \
             wrong somewhere, and that is a bug."
        );
        list.push(Clause::new(ClauseKind::Partition, off));
    }
    list
}
