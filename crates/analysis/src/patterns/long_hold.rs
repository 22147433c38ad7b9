//! Long hold: one thread held what the victim waited for, for most of the stall. What did it do
//! meanwhile?

use super::case::Case;
use super::case::{samples_of, weaken};
use super::disks;
use super::finding::{Finding, Pattern};
use super::idle_holder::END_TRANSACTION;
use crate::WaitClass;
use crate::explain::{Cause, Hop, is_of_transaction};
use crate::samples::HotSpot;
use crate::stacks::text::own_function;
use crate::wording::sentence::{Sentence, plural, sentence};
use crate::wording::{units, wait_words};
use rustc_hash::FxHashSet;
use unhitch_model::{ThreadId, Window};

pub(super) fn detect(case: &Case<'_>) -> Option<Finding> {
    let (holder, held_ns) = case.main_holder()?;
    if !case.is_most(held_ns) || holder == case.candidate.victim {
        return None;
    }
    let hold = Hold::new(case, holder, held_ns);
    let hop = case.hop_to(holder)?;
    // Nobody ran on for a lock but whoever had it in this way.
    let ran_on = hop.meanwhile.is_some();
    // It is known as the holder by that.
    let in_transaction = hop.wake.is_none() && is_of_transaction(case.analysis, hop.wait_stack);
    let the_lock = wait_words::the_lock(case.analysis, hop);
    let mut sentences = case.waited_for_lock_in();
    sentences.extend(came_through(case, hop).filter(|_| !ran_on));
    sentences.push(until_when(case, holder, hop, held_ns));
    sentences.extend(hold.activities(&the_lock).filter(|_| !ran_on));
    if hold.is_for_disk() {
        sentences.extend(disks::shown(case, holder).sentences);
    }
    if let Some(spot) = &hold.hot
        && let Some(instruction) = case.hottest_instruction(holder, spot.function, &hold.running)
    {
        sentences.push(instruction);
    }
    let (name, doing) = match &hold.hot {
        Some(spot) => {
            let name = case.hot_name(spot);
            let place = case.hot_place(spot);
            let doing = sentence!(" while computing in {} ({})", place, samples_of(spot));
            (name, doing)
        }
        None if in_transaction => {
            (waited_in(case, hop), Sentence::from(" while it was idle in its transaction"))
        }
        None => (waited_in(case, hop), hold.main_activity()),
    };
    let cause = match ran_on {
        true => sentence!(
            "{} ran on{}, and {} had to wait for that.",
            case.name(holder),
            doing,
            case.name(hop.sleeper)
        ),
        false => sentence!("a long lock hold: {} kept {}{}.", case.name(holder), the_lock, doing),
    };
    let mut finding = Finding {
        culprit: Some(holder),
        function: name,
        sentences,
        advice: match case.analysis.stacks.advice(hop.wait_stack) {
            Some(advice) => advice,
            None if ran_on => "",
            None if in_transaction => END_TRANSACTION,
            None => "Do less under the lock, or work on a copy outside it.",
        }
        .to_owned(),
        ..case.finding(Pattern::LongHold, cause)
    };
    if hold.is_for_disk() {
        weaken(&mut finding, |_| {
            sentence!("what kept the disk busy while {} held it is not followed", case.name(holder))
        });
    }
    Some(finding)
}

/// How long `holder` had what `hop` waited for, and what ended that.
fn until_when(case: &Case<'_>, holder: ThreadId, hop: &Hop, held_ns: u64) -> Sentence {
    match hop.release() {
        None if hop.meanwhile.is_some() => sentence!(
            "{} waited for {} for {}: {} was the thread of its process that ran, or was ready to, \
             meanwhile.",
            case.name(hop.sleeper),
            wait_words::wanted(case.analysis, hop.wait_stack)
                .unwrap_or_else(|| "another thread".to_owned()),
            case.part(held_ns),
            case.name(holder)
        ),
        Some(wake) => sentence!(
            "{} held it for {} and released it in\n  {}",
            case.name(holder),
            case.part(held_ns),
            case.wake_stack(wake)
        ),
        None => sentence!(
            "{} owned it for {}, and still did when {}.",
            case.name(holder),
            case.part(held_ns),
            match is_over(case, hop) {
                true => "a signal interrupted the wait",
                false => "the recording ended",
            }
        ),
    }
}

/// True if the wait of a hop ended before the recording did, even if the stall ended before that.
fn is_over(case: &Case<'_>, hop: &Hop) -> bool {
    let (analysis, end) = (case.analysis, hop.slept.end);
    let last = analysis.segments(hop.sleeper, Window::new(end.minus(1), end)).pop();
    let ended = last.map(|last| analysis.timeline.end_of_sleep(analysis.trace, hop.sleeper, &last));
    ended.unwrap_or(end) < analysis.timeline.window().end
}

/// What the holder did while it held the lock.
struct Hold {
    held_ns: u64,
    /// How long it waited for a disk.
    for_disk_ns: u64,
    /// When it ran.
    running: Vec<Window>,
    /// Where it computed, if it did so for at least half of the time.
    hot: Option<HotSpot>,
    /// Time by activity.
    parts: [(u64, &'static str); 9],
}

impl Hold {
    fn new(case: &Case<'_>, holder: ThreadId, held_ns: u64) -> Self {
        let is_holders = |piece: &crate::Piece, hop: Option<&Hop>, cause: Cause| {
            piece.thread == holder && hop.is_some() && piece.cause == cause
        };
        let ns = |cause: Cause| case.ns_of(|piece, hop| is_holders(piece, hop, cause));
        let running = case.windows_of(|piece, hop| is_holders(piece, hop, Cause::Ran));
        let for_disk_ns = ns(Cause::Io);
        let parts = [
            (ns(Cause::Ran), "on a CPU"),
            (for_disk_ns, "waiting for a disk"),
            (ns(Cause::Timer), "asleep on its own timer"),
            (ns(Cause::Timeout), "in waits that timed out"),
            (ns(Cause::WaitedForCpu), "waiting for a CPU"),
            (ns(Cause::Device), "waiting for a device"),
            (ns(Cause::Memory), "waiting for memory"),
            (ns(Cause::Stopped), "stopped"),
            (ns(Cause::Message), "waiting for a message from the network"),
        ];
        let hot = case.hot(holder, &running).filter(|_| parts[0].0 * 2 >= held_ns);
        Self { held_ns, for_disk_ns, running, hot, parts }
    }

    /// What it did, with shares of at least 1 %.
    fn activities(&self, the_lock: &str) -> Option<Sentence> {
        let is_shown = |ns: u64| ns.saturating_mul(100) >= self.held_ns;
        let shown: Vec<(u64, &str)> =
            self.parts.iter().copied().filter(|(ns, _)| is_shown(*ns)).collect();
        let rest_ns = self.held_ns - shown.iter().map(|(ns, _)| ns).sum::<u64>().min(self.held_ns);
        let rest = Some((rest_ns, "in other states")).filter(|_| is_shown(rest_ns));
        let words = shown
            .iter()
            .copied()
            .chain(rest)
            .map(|(ns, words)| format!("{} {words}", units::percent(ns, self.held_ns)));
        (!shown.is_empty()).then(|| {
            sentence!(
                "Of the time that it held {}, it spent {}.",
                the_lock,
                Sentence::join(words, ", ")
            )
        })
    }

    /// True if it waited for a disk for at least half of the time.
    fn is_for_disk(&self) -> bool {
        self.for_disk_ns.saturating_mul(2) >= self.held_ns
    }

    /// What it did for at least half of the time.
    fn main_activity(&self) -> Sentence {
        let main = self.parts.iter().find(|(ns, _)| ns.saturating_mul(2) >= self.held_ns);
        main.map_or_else(Sentence::default, |(_, words)| sentence!(" while {}", *words))
    }
}

/// The threads through which the lock came to the holder.
fn came_through(case: &Case<'_>, hop: &Hop) -> Option<Sentence> {
    let nearer = case.explanation.hops_to(hop.parent).map(|(_, nearer)| nearer);
    let nearer: Vec<&Hop> = nearer.take_while(|nearer| nearer.class == WaitClass::Lock).collect();
    let first = nearer.last()?.sleeper;
    let between: FxHashSet<ThreadId> =
        nearer.iter().map(|nearer| nearer.by).filter(|by| *by != hop.by).collect();
    let waited = match between.len() {
        0 => return None,
        1 => "which had itself been waiting",
        _ => "each of which had waited for the one before",
    };
    Some(sentence!(
        "{} got the lock through {}, {}.",
        case.it_or_name(first),
        plural(between.len() as u64, "other thread"),
        waited
    ))
}

/// The function in which the holder waited longest, else the one that released the lock.
fn waited_in(case: &Case<'_>, hop: &Hop) -> String {
    let waits =
        case.explanation.pieces.iter().filter(|piece| {
            piece.thread == hop.by && piece.hop.is_some() && piece.cause != Cause::Ran
        });
    let longest = waits.max_by_key(|piece| piece.window.duration_ns());
    let trace = case.analysis.trace;
    let stack = longest.map(|piece| piece.segment.wait_stack(trace)).unwrap_or_default();
    let release = case.release_stack(hop.by);
    own_function(case.analysis, if stack.is_empty() { release } else { stack })
}
