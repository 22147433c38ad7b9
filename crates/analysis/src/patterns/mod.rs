//! What causes look like. Each pattern is one file with one detector and one line in [`DETECTORS`];
//! the first that applies is the verdict.
//!
//! A detector reads only the explanation of a stall, so that whatever it says can be checked
//! against the partition, and says how it knows: *direct* (the wake-ups were seen), *inferred*, or
//! *lost* (too much of the window is hidden).

mod computing;
mod cpu_bound;
mod cpu_starvation;
mod dead_end;
mod io_wait;
mod lock_convoy;
mod lock_starvation;
mod long_hold;
mod memory;
mod occupants;
mod priority_inversion;
mod samples_only;
mod saturated_lock;
mod stopped;
mod timer_sleep;
mod unknown;

use crate::answer::units;
use crate::explain::{Cause, Explanation, Hop, Piece};
use crate::partition::Share;
use crate::stalls::Candidate;
use crate::{Analysis, HotSpot, Operation, Release, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{NameId, StackId, ThreadId, Time, Window};

/// A cause by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Pattern {
    /// The lock goes back to its releaser before the woken waiter arrives.
    LockStarvation,
    /// One thread held what the victim waited for.
    LongHold,
    /// Many threads take one lock for a moment each, so often that it is never free.
    SaturatedLock,
    /// The same, and what they do under the lock is to exit.
    SerializedExit,
    /// The lock went from thread to thread, each of which had waited for the one before.
    LockConvoy,
    /// The holder wanted a CPU and others had it.
    PriorityInversion,
    /// The victim wanted a CPU and others had it.
    CpuStarvation,
    /// The victim computed, or the one whose message it waited for.
    CpuBound,
    /// A disk or a file system was waited for.
    IoWait,
    /// Memory was waited for.
    Memory,
    /// Someone was stopped by a signal, a tracer or the freezer.
    Stopped,
    /// The victim, or the one it waited for, slept because it had asked to.
    TimerSleep,
    /// The trail leaves the recording.
    DeadEnd,
    /// No pattern fits.
    Unknown,
}

impl Pattern {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LockStarvation => "lock_starvation",
            Self::LongHold => "long_hold",
            Self::SaturatedLock => "saturated_lock",
            Self::SerializedExit => "serialized_exit",
            Self::LockConvoy => "lock_convoy",
            Self::PriorityInversion => "priority_inversion",
            Self::CpuStarvation => "cpu_starvation",
            Self::CpuBound => "cpu_bound",
            Self::IoWait => "io_wait",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::TimerSleep => "timer_sleep",
            Self::DeadEnd => "dead_end",
            Self::Unknown => "unknown",
        }
    }

    /// True when no single thread is to blame, but a queue.
    pub const fn is_queue(self) -> bool {
        matches!(self, Self::SaturatedLock | Self::SerializedExit | Self::LockConvoy)
    }

    /// True when it names a cause.
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::DeadEnd | Self::Unknown)
    }
}

/// How a verdict is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Evidence {
    /// Every wake-up on the way was seen, issued by the task itself.
    Direct,
    /// Some step was concluded; the text says which.
    Inferred,
    /// Too much of the window is hidden by lost records or the recording's edge.
    Lost,
}

impl Evidence {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Inferred => "inferred",
            Self::Lost => "lost",
        }
    }
}

/// The verdict on a stall.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The cause by name.
    pub pattern: Pattern,
    /// The thread whose doing it was.
    pub culprit: Option<ThreadId>,
    /// The name that all the culprits have, where they are a crowd of threads.
    pub crowd: Option<NameId>,
    /// The culprit's function, empty when unknown.
    pub function: String,
    /// How it is known.
    pub evidence: Evidence,
    /// Why the evidence is what it is, in words.
    pub evidence_words: String,
    /// What happened, a sentence per entry, in order.
    pub story: Vec<String>,
    /// The cause in one line.
    pub cause: String,
    /// What would mend or confirm it, empty when there is nothing honest to say.
    pub advice: String,
    /// The blocked operation that fills at least half of the stall, if there is one.
    pub operation: Option<Operation>,
}

/// A stall as detectors see it.
pub struct Case<'a> {
    /// The trace and its indices.
    pub analysis: &'a Analysis<'a>,
    /// The stall.
    pub candidate: &'a Candidate,
    /// Where its time went.
    pub explanation: &'a Explanation,
    /// The same, summed.
    pub partition: Vec<Share>,
    /// The blocked operation that fills at least half of the window, if there is one.
    pub operation: Option<Operation>,
}

/// Looks for one pattern.
pub type Detector = fn(&Case<'_>) -> Option<Finding>;

/// The registry of patterns, the most specific first.
pub const DETECTORS: &[Detector] = &[
    samples_only::detect,
    lock_starvation::detect,
    stopped::detect,
    io_wait::detect,
    priority_inversion::detect,
    long_hold::detect,
    saturated_lock::detect,
    lock_convoy::detect,
    memory::detect,
    cpu_starvation::detect,
    cpu_bound::detect,
    timer_sleep::detect,
    dead_end::detect,
];

/// The verdict of the first pattern that applies.
pub fn judge(analysis: &Analysis<'_>, candidate: &Candidate, explanation: &Explanation) -> Finding {
    let operation = candidate.operation.clone().or_else(|| {
        let segments = analysis.segments(candidate.victim, candidate.window);
        let operations = analysis.operations(candidate.victim, &segments);
        let longest =
            operations.into_iter().max_by_key(|operation| operation.window.duration_ns())?;
        (longest.window.duration_ns() * 2 >= candidate.window.duration_ns()).then_some(longest)
    });
    let case = Case {
        analysis,
        candidate,
        explanation,
        partition: analysis.partition(explanation),
        operation,
    };
    let finding = DETECTORS
        .iter()
        .find_map(|detect| detect(&case))
        .unwrap_or_else(|| unknown::verdict(&case));
    Finding { operation: case.operation, ..finding }
}

impl Case<'_> {
    /// Length of the stall, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.explanation.window.duration_ns()
    }

    /// True when `ns` is at least half of the stall.
    pub fn is_most(&self, ns: u64) -> bool {
        ns > 0 && ns.saturating_mul(2) >= self.duration_ns()
    }

    /// Time of the pieces that `select` picks.
    pub fn ns_of(&self, select: impl Fn(&Piece, Option<&Hop>) -> bool) -> u64 {
        let picked = self
            .explanation
            .pieces
            .iter()
            .filter(|piece| select(piece, self.explanation.hop_of(piece)));
        picked.map(|piece| piece.window.duration_ns()).sum()
    }

    /// The windows of the pieces that `select` picks.
    pub fn windows_of(&self, select: impl Fn(&Piece, Option<&Hop>) -> bool) -> Vec<Window> {
        let picked = self
            .explanation
            .pieces
            .iter()
            .filter(|piece| select(piece, self.explanation.hop_of(piece)));
        picked.map(|piece| piece.window).collect()
    }

    /// The thread other than the victim to whom most of the stall goes while a lock was waited for,
    /// with that time.
    pub fn main_holder(&self) -> Option<(ThreadId, u64)> {
        self.most_of(|_, hop| hop.is_some_and(|hop| hop.class == WaitClass::Lock))
    }

    /// For how long the holder of the lock was ready to run and got no CPU.
    pub fn holder_without_cpu_ns(&self, holder: ThreadId) -> u64 {
        self.ns_of(|piece, hop| {
            piece.thread == holder && hop.is_some() && piece.cause == Cause::WaitedForCpu
        })
    }

    /// Where `thread` let the one who waited for it go on, as a sentence; nothing where that was
    /// not seen.
    pub fn let_go(&self, thread: ThreadId, words: &str) -> Option<String> {
        let wake = self.hop_to(thread)?.wake?;
        Some(format!("{words} in\n  {}", self.told(self.analysis.trace.wakings.stack[wake])))
    }

    /// What the victim waited for and where, as a sentence; nothing where it waited for nobody.
    pub fn waited_in(&self) -> Option<String> {
        let wait = self.victims_wait()?;
        Some(format!(
            "It waited ({}) in\n  {}",
            wait.class.name().replace('_', " "),
            self.told(wait.wait_stack)
        ))
    }

    /// The function that let go the lock on the way, with all that it did on the machine meanwhile.
    /// *Why it must have ended at least half of the lock waits on the way:* another lock may be let
    /// go more often, by others, and has nothing to do with this stall.
    pub fn release(&self) -> Option<Release> {
        let hops = self.explanation.hops.iter().filter(|hop| hop.class == WaitClass::Lock);
        let mut by_stack: FxHashMap<Option<StackId>, usize> = FxHashMap::default();
        hops.for_each(|hop| {
            *by_stack
                .entry(hop.wake.map(|wake| self.analysis.trace.wakings.stack[wake]))
                .or_default() += 1
        });
        let all: usize = by_stack.values().sum();
        let mut by_function: FxHashMap<String, usize> = FxHashMap::default();
        for (stack, hops) in by_stack {
            if let Some(function) = stack.and_then(|stack| self.analysis.deepest_function(stack)) {
                *by_function.entry(function).or_default() += hops;
            }
        }
        by_function.retain(|_, hops| *hops * 2 >= all);
        self.analysis
            .releases(self.explanation.window)
            .into_iter()
            .find(|release| by_function.contains_key(&release.function))
    }

    /// The longest hop on which `thread` was waited for.
    pub fn hop_to(&self, thread: ThreadId) -> Option<&Hop> {
        self.explanation
            .hops
            .iter()
            .filter(|hop| hop.by == thread)
            .max_by_key(|hop| (hop.window.duration_ns(), Reverse(hop.depth)))
    }

    /// The victim's first lock wait that leads to other threads, for the words.
    pub fn victims_wait(&self) -> Option<&Hop> {
        self.explanation
            .hops
            .iter()
            .filter(|hop| hop.depth == 1)
            .max_by_key(|hop| hop.window.duration_ns())
    }

    /// Where `thread` was hot during `windows`.
    pub fn hot(&self, thread: ThreadId, windows: &[Window]) -> Option<HotSpot> {
        let runs: Vec<(ThreadId, Window)> =
            windows.iter().map(|&window| (thread, window)).collect();
        self.analysis.hot_spot(&runs)
    }

    /// In words, on which instruction of `function` the samples of `thread` pile up; nothing where
    /// they are few or spread.
    pub fn hottest(
        &self,
        thread: ThreadId,
        function: NameId,
        windows: &[Window],
    ) -> Option<String> {
        const FEWEST_SAMPLES: u32 = 50;
        let runs: Vec<(ThreadId, Window)> =
            windows.iter().map(|&window| (thread, window)).collect();
        let spot = self.analysis.samples.hot_instruction(self.analysis.trace, function, &runs)?;
        (spot.total >= FEWEST_SAMPLES && spot.on * 2 >= spot.total).then(|| {
            format!(
                "{} of the {} samples in {} itself are on one instruction; `unhitch hot` shows them by instruction.",
                units::count(spot.on.into()),
                units::count(spot.total.into()),
                self.analysis.trace.name(function)
            )
        })
    }

    /// The thread to whom most of the pieces that `select` picks belong, with their time.
    pub fn most_of(
        &self,
        select: impl Fn(&Piece, Option<&Hop>) -> bool,
    ) -> Option<(ThreadId, u64)> {
        let mut sums: FxHashMap<ThreadId, u64> = FxHashMap::default();
        for piece in self
            .explanation
            .pieces
            .iter()
            .filter(|piece| select(piece, self.explanation.hop_of(piece)))
        {
            *sums.entry(piece.thread).or_default() += piece.window.duration_ns();
        }
        sums.into_iter().max_by_key(|&(thread, ns)| (ns, Reverse(thread)))
    }

    /// The longest piece of `thread` with that cause.
    pub fn longest(&self, thread: ThreadId, cause: Cause) -> Option<&Piece> {
        let pieces = self
            .explanation
            .pieces
            .iter()
            .filter(|piece| piece.thread == thread && piece.cause == cause);
        pieces.max_by_key(|piece| piece.window.duration_ns())
    }

    /// A hot spot's function by name.
    pub fn hot_name(&self, spot: &HotSpot) -> String {
        match self.analysis.trace.name(spot.function) {
            "" => {
                self.analysis.trace.frame_names(spot.frame).into_iter().last().unwrap_or_default()
            }
            name => name.to_owned(),
        }
    }

    /// `name tid` and, where it differs, the process.
    pub fn name(&self, thread: ThreadId) -> String {
        units::thread(self.analysis.trace, thread, self.at())
    }

    /// The time as of which names are told.
    pub fn at(&self) -> Time {
        self.explanation.window.end
    }

    /// A share of the stall in words: `99.1 %`.
    pub fn percent(&self, ns: u64) -> String {
        units::percent(ns, self.duration_ns())
    }

    /// A stack on one line.
    pub fn told(&self, stack: StackId) -> String {
        self.analysis.told(stack)
    }

    /// How well the stall's hops are known, in general: direct when all of its waits ended by a
    /// wake-up seen in task context.
    pub fn evidence(&self) -> (Evidence, String) {
        let hidden = self.ns_of(|piece, _| matches!(piece.cause, Cause::Lost));
        if hidden > self.duration_ns() / 10 {
            return (
                Evidence::Lost,
                format!(
                    "{} of it is hidden by lost records or the recording's edge",
                    self.percent(hidden)
                ),
            );
        }
        match self.weakest() {
            Some((weak, ns)) if ns > self.duration_ns() / 10 => {
                (Evidence::Inferred, self.weak_words(weak, ns))
            }
            _ => (Evidence::Direct, "every wake-up on the way was seen".to_owned()),
        }
    }

    /// Of the ways in which a hop may be weaker than a wake-up that was seen: the one that most of
    /// the stall hangs on, if any does, and the time that hangs on any of them.
    fn weakest(&self) -> Option<(Weak, u64)> {
        let hops = &self.explanation.hops;
        // Behind each hop, until when the time hangs on something weak, here or nearer to the
        // victim; and on what.
        let mut until: Vec<Option<(Time, Weak)>> = Vec::with_capacity(hops.len());
        for (index, hop) in hops.iter().enumerate() {
            let inherited = hop.parent.and_then(|parent| *until.get(parent as usize)?);
            let own = Weak::of(index, hop);
            until.push(inherited.into_iter().chain(own).max_by_key(|(until, _)| *until));
        }
        let mut sums: FxHashMap<WeakKind, (u64, Weak)> = FxHashMap::default();
        for piece in &self.explanation.pieces {
            let Some((until, weak)) = piece.hop.and_then(|hop| *until.get(hop as usize)?) else {
                continue;
            };
            let ns = until.min(piece.window.end).since(piece.window.start);
            let sum = sums.entry(weak.kind).or_insert((0, weak));
            let longer = |weak: Weak| {
                hops.get(weak.hop).map(|hop| (hop.window.duration_ns(), Reverse(weak.hop)))
            };
            *sum = (sum.0 + ns, if longer(weak) > longer(sum.1) { weak } else { sum.1 });
        }
        let all = sums.values().map(|(ns, _)| ns).sum();
        sums.into_values()
            .filter(|(ns, _)| *ns > 0)
            .max_by_key(|(ns, weak)| (*ns, weak.kind))
            .map(|(_, weak)| (weak, all))
    }

    fn weak_words(&self, weak: Weak, ns: u64) -> String {
        let Some(hop) = self.explanation.hops.get(weak.hop) else { return String::new() };
        let (sleeper, part) = (self.name(hop.sleeper), self.percent(ns));
        match weak.kind {
            WeakKind::NoWake => "the recording ends before the lock is released; its owner was read from the lock word".to_owned(),
            WeakKind::Queued => {
                format!(
                    "for {part} of it, who had the lock is concluded from who let whom in, as for the time before {sleeper} came to the queue"
                )
            }
            WeakKind::Timed => format!(
                "for {part} of it, who kept whom waiting is concluded from who let it go on at last: {sleeper} looked {} meanwhile, woken by its own timer or by nobody seen",
                units::plural(hop.looks.into(), "time")
            ),
            WeakKind::Deferred => {
                format!("for {part} of it, wake-ups were deferred work, as that of {sleeper}, which {} ran", self.name(hop.by))
            }
            WeakKind::Class => format!(
                "for {part} of it, wake-ups were seen, as that of {sleeper}, but their stacks do not tell whether it waited for a lock or a message"
            ),
        }
    }
}

/// Where something is done: `words` with the function behind them; nothing where that has no name.
fn place(words: &str, function: &str) -> String {
    if function.is_empty() { String::new() } else { format!("{words}{function}") }
}

/// What is weak about a hop; of equally much time, the last is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum WeakKind {
    /// The stack does not tell what was waited for.
    Class,
    /// A kernel worker or a soft interrupt issued the wake-up.
    Deferred,
    /// Who had the lock before the sleeper came to its queue is concluded.
    Queued,
    /// The sleeper looked by its own timer now and then, and slept on: who it waited for until then
    /// is concluded.
    Timed,
    /// No wake-up was seen.
    NoWake,
}

/// Something weak about a hop, by its index.
#[derive(Clone, Copy, Debug)]
struct Weak {
    kind: WeakKind,
    hop: usize,
}

impl Weak {
    /// What is weak about `hop`, and up to when what is behind it hangs on that.
    fn of(index: usize, hop: &Hop) -> Option<(Time, Self)> {
        let weak = |until: Time, kind: WeakKind| Some((until, Self { kind, hop: index }));
        match hop.class {
            _ if hop.wake.is_none() => weak(hop.window.end, WeakKind::NoWake),
            _ if hop.source.context != crate::WakeContext::Task => {
                weak(hop.window.end, WeakKind::Deferred)
            }
            _ if hop.is_timed() => weak(hop.window.end, WeakKind::Timed),
            WaitClass::Condition | WaitClass::Unknown => weak(hop.window.end, WeakKind::Class),
            _ if hop.is_queued() => weak(hop.slept.start, WeakKind::Queued),
            _ => None,
        }
    }
}
