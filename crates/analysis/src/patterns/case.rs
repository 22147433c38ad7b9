//! A stall as detectors see it, and the phrases that they share.

use super::finding::{Evidence, Finding, Pattern};
use super::peers;
use crate::candidate::Candidate;
use crate::explain::{self, Cause, Explanation, Hop, Piece, Share};
use crate::locks::{Release, releases};
use crate::samples::{HotSpot, hot_spot};
use crate::stacks::text::{deepest_function, stack_text};
use crate::wording::sentence::{
    Sentence, Span, Subject, count, duration, function, plural, sentence,
};
use crate::wording::wait_words;
use crate::wording::{Event, Reference, units};
use crate::{Analysis, Operation, Segment, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{FrameId, ModuleKind, NameId, StackId, ThreadId, Time, Window};

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

/// Queries.
impl Case<'_> {
    /// Length of the stall, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.explanation.window.duration_ns()
    }

    /// True when `ns` is at least half of the stall.
    pub fn is_most(&self, ns: u64) -> bool {
        ns > 0 && ns.saturating_mul(2) >= self.duration_ns()
    }

    pub(super) fn pieces(
        &self,
        select: impl Fn(&Piece, Option<&Hop>) -> bool,
    ) -> impl Iterator<Item = &Piece> {
        let pieces = self.explanation.pieces.iter();
        pieces.filter(move |piece| select(piece, self.explanation.hop_of(piece)))
    }

    /// Time of the selected pieces.
    pub fn ns_of(&self, select: impl Fn(&Piece, Option<&Hop>) -> bool) -> u64 {
        self.pieces(select).map(|piece| piece.window.duration_ns()).sum()
    }

    /// Times that hold the selected pieces, to look for samples of their threads in.
    pub fn windows_of(&self, select: impl Fn(&Piece, Option<&Hop>) -> bool) -> Vec<Window> {
        let mut windows: Vec<Window> = self.pieces(select).map(Piece::span).collect();
        // Several pieces of one burst share its window.
        windows.dedup();
        windows
    }

    /// The thread that most of the selected pieces belong to, with their time.
    pub fn most_of(
        &self,
        select: impl Fn(&Piece, Option<&Hop>) -> bool,
    ) -> Option<(ThreadId, u64)> {
        let mut sums: FxHashMap<ThreadId, u64> = FxHashMap::default();
        for piece in self.pieces(select) {
            *sums.entry(piece.thread).or_default() += piece.window.duration_ns();
        }
        sums.into_iter().max_by_key(|&(thread, ns)| (ns, Reverse(thread)))
    }

    /// The thread that accounts for most of the time spent behind locks, with that time. It may be
    /// the victim itself.
    pub fn main_holder(&self) -> Option<(ThreadId, u64)> {
        self.most_of(|_, hop| hop.is_some_and(|hop| hop.class == WaitClass::Lock))
    }

    /// How long somebody wanted a CPU, as the end of a sentence, where that is much.
    pub fn without_cpu(&self, wanted_ns: u64) -> Sentence {
        /// Shorter waits for a CPU than this part of the stall are not worth a word.
        const MIN_PART: u64 = 10;
        match wanted_ns.saturating_mul(MIN_PART) >= self.duration_ns() {
            true => sentence!(", and waited for a CPU for {}", self.part(wanted_ns)),
            false => Sentence::default(),
        }
    }

    /// How long the lock's holder was runnable without a CPU.
    pub fn holder_without_cpu_ns(&self, holder: ThreadId) -> u64 {
        self.ns_of(|piece, hop| {
            piece.thread == holder && hop.is_some() && piece.cause == Cause::WaitedForCpu
        })
    }

    /// The function that released the lock, with all that it did on the machine during the stall.
    /// *Why it must have ended at least half of the lock waits on the way:* another lock may be
    /// released more often, by others, and has nothing to do with this stall.
    pub fn release(&self) -> Option<Release> {
        let hops = self.explanation.hops.iter().filter(|hop| hop.class == WaitClass::Lock);
        let mut by_stack: FxHashMap<Option<StackId>, usize> = FxHashMap::default();
        for hop in hops {
            let stack = hop.release().map(|wake| self.analysis.trace.wakings.stack[wake]);
            *by_stack.entry(stack).or_default() += hop.waits as usize;
        }
        let all: usize = by_stack.values().sum();
        let mut by_function: FxHashMap<String, usize> = FxHashMap::default();
        for (stack, hops) in by_stack {
            if let Some(name) = stack.and_then(|stack| deepest_function(self.analysis, stack)) {
                *by_function.entry(name).or_default() += hops;
            }
        }
        by_function.retain(|_, hops| *hops * 2 >= all);
        releases(self.analysis, self.explanation.window)
            .into_iter()
            .find(|release| by_function.contains_key(&release.function))
    }

    /// The longest hop to `thread`.
    pub fn hop_to(&self, thread: ThreadId) -> Option<&Hop> {
        let hops = self.explanation.hops.iter().filter(|hop| hop.by == thread);
        hops.max_by_key(|hop| (hop.window.duration_ns(), Reverse(hop.depth)))
    }

    /// The stack on which `thread` ended the longest wait for it; empty where that was not seen.
    pub fn release_stack(&self, thread: ThreadId) -> StackId {
        let wake = self.hop_to(thread).and_then(Hop::release);
        wake.map(|wake| self.analysis.trace.wakings.stack[wake]).unwrap_or_default()
    }

    /// The victim's longest wait that leads to another thread.
    pub fn victims_wait(&self) -> Option<&Hop> {
        let hops = self.explanation.hops.iter().filter(|hop| hop.depth == 1);
        hops.max_by_key(|hop| hop.window.duration_ns())
    }

    /// The longest piece of `thread` with that cause.
    pub fn longest(&self, thread: ThreadId, cause: Cause) -> Option<&Piece> {
        let pieces = self.pieces(|piece, _| piece.thread == thread && piece.cause == cause);
        pieces.max_by_key(|piece| piece.window.duration_ns())
    }

    /// The hot spot of `thread` during `windows`.
    pub fn hot(&self, thread: ThreadId, windows: &[Window]) -> Option<HotSpot> {
        hot_spot(self.analysis, &runs(thread, windows))
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

    /// The time as of which names are shown.
    pub fn at(&self) -> Time {
        self.explanation.window.end
    }
}

/// Phrases.
impl Case<'_> {
    /// Where a hot spot is: `parse`, `validate (server.js:3) → … → RegExpImpl::Exec`.
    pub fn hot_place(&self, spot: &HotSpot) -> Sentence {
        let trace = self.analysis.trace;
        let symbol = trace.symbols.get(spot.frame).last();
        let source = symbol.map_or("", |symbol| trace.name(symbol.file)).rsplit('/').next();
        let line = symbol.map_or(0, |symbol| symbol.line);
        // Where a name says little: scripts have many functions of one name.
        let is_compiled = |frame: &FrameId| {
            let code = trace.stacks.frame(*frame);
            let module = code.and_then(|code| trace.modules.get(code.module));
            module.is_none_or(|module| matches!(module.kind, ModuleKind::File | ModuleKind::Named))
        };
        let place = match source.filter(|source| !source.is_empty()) {
            Some(source) if line > 0 && !is_compiled(&spot.frame) => {
                sentence!("{} ({})", function(&self.hot_name(spot)), format!("{source}:{line}"))
            }
            _ => function(&self.hot_name(spot)).into(),
        };
        match trace.name(spot.callee) {
            "" => place,
            callee => sentence!("{} → … → {}", place, function(callee)),
        }
    }

    /// A finding with the general evidence and nothing else; detectors fill in what they know.
    pub fn finding(&self, pattern: Pattern, cause: Sentence) -> Finding {
        let (evidence, evidence_words) = self.evidence();
        Finding {
            pattern,
            culprit: None,
            polled: None,
            group_name: None,
            function: String::new(),
            evidence,
            evidence_words,
            sentences: Vec::new(),
            cause,
            advice: String::new(),
            operation: None,
        }
    }

    /// `name tid` and, where it differs, the process.
    pub fn name(&self, thread: ThreadId) -> Span {
        Span::new(units::thread(self.analysis.trace, thread, self.at()), Subject::Thread(thread))
    }

    /// `It` for the victim, else the thread's name.
    pub fn it_or_name(&self, thread: ThreadId) -> Sentence {
        match thread == self.candidate.victim {
            true => Sentence::from("It"),
            false => self.name(thread).into(),
        }
    }

    /// A share of the stall: `99.1 %`. That of the table's line of just this time, if it has one:
    /// it may be a tenth more, because the lines add up to 100.0 %.
    pub fn percent(&self, ns: u64) -> String {
        let lines = explain::ShareLines::of(self.analysis.trace, self.at(), &self.partition);
        let line = lines.shown.iter().position(|line| line.ns == ns);
        let of_line = line.and_then(|line| lines.percents().into_iter().nth(line));
        of_line.unwrap_or_else(|| units::percent(ns, self.duration_ns()))
    }

    /// `all 3.4 s`, `nearly all 3.4 s`, or `1.2 s of 3.4 s`.
    pub fn part(&self, ns: u64) -> Sentence {
        let (part, whole) = (duration(ns), duration(self.duration_ns()));
        match (ns == self.duration_ns(), part.text == whole.text) {
            (true, _) => sentence!("all {}", whole),
            (false, true) => sentence!("nearly all {}", whole),
            _ => sentence!("{} of {}", part, whole),
        }
    }

    /// When a sleep began, if that was before the recording.
    pub fn began_earlier(&self, sleep: &Segment) -> Option<Sentence> {
        let trace = self.analysis.trace;
        let earlier = sleep.earlier_wait(trace)?;
        let ago = duration(self.analysis.timeline.window().start.since(earlier.since));
        Some(match (earlier.since == Time::ZERO, earlier.is_estimate) {
            (true, _) => Sentence::from("That wait began before the recording."),
            (false, true) => sentence!("That wait began about {} before the recording.", ago),
            (false, false) => sentence!("That wait began {} before the recording.", ago),
        })
    }

    /// When a sleep of `thread` ended, if that was after this time but within the recording.
    pub fn ended_later(&self, thread: ThreadId, sleep: &Segment) -> Option<Sentence> {
        let timeline = &self.analysis.timeline;
        let ended = timeline.end_of_sleep(self.analysis.trace, thread, sleep);
        let is_later = ended > self.explanation.window.end && ended < timeline.window().end;
        is_later.then(|| {
            let after = duration(ended.since(self.explanation.window.end));
            sentence!("That wait ended only {} after this time.", after)
        })
    }

    /// A stack on one line.
    pub fn stack(&self, stack: StackId) -> Span {
        Span::new(stack_text(self.analysis, stack), Subject::Stack(stack))
    }

    /// Where the sleeper of a hop waited.
    pub fn wait_stack(&self, hop: &Hop) -> Span {
        self.stack(hop.wait_stack).seen_at(Reference {
            thread: Some(hop.sleeper),
            window: hop.slept,
            event: explain::fell_asleep(self.analysis, hop).map(Event::Switch),
        })
    }

    /// Where `thread` left its CPU before `segment`.
    pub fn segment_stack(&self, thread: ThreadId, segment: &Segment) -> Span {
        self.stack(segment.wait_stack(self.analysis.trace)).seen_at(Reference {
            thread: Some(thread),
            window: segment.window,
            event: segment.out().map(Event::Switch),
        })
    }

    /// Where a wake-up was issued.
    pub fn wake_stack(&self, wake: usize) -> Span {
        let wakings = &self.analysis.trace.wakings;
        let at = wakings.time[wake];
        self.stack(wakings.stack[wake]).seen_at(Reference {
            thread: Some(wakings.waker[wake]),
            window: Window::new(at, at.plus(1)),
            event: Some(Event::Waking(wake)),
        })
    }

    /// The file, pipe, socket or terminal that a wait is about; nothing where it is not known.
    fn waited_on(&self, wait: &Hop) -> Sentence {
        let sleep = explain::sleep_of(self.analysis, wait);
        let on =
            sleep.map(|sleep| peers::waited_on(self.analysis, wait.sleeper, &sleep, self.at()));
        on.unwrap_or_default()
    }

    /// `words` and where `thread` ended the longest wait for it; nothing where that was not seen.
    pub fn ended_wait_in(&self, thread: ThreadId, words: impl Into<Sentence>) -> Option<Sentence> {
        let wake = self.hop_to(thread)?.release()?;
        Some(sentence!("{} in\n  {}", words.into(), self.wake_stack(wake)))
    }

    /// Where the victim waited for a lock; nothing where it waited for nobody.
    pub fn waited_for_lock_in(&self) -> Vec<Sentence> {
        let Some(wait) = self.victims_wait().filter(|wait| wait.class == WaitClass::Lock) else {
            return self.waits();
        };
        let what = wait_words::wanted(self.analysis, wait.wait_stack)
            .unwrap_or_else(|| "a lock".to_owned());
        let on = as_place(self.waited_on(wait));
        vec![sentence!("It waited for {}{} in\n  {}", what, on, self.wait_stack(wait))]
    }

    /// What the victim waited for, and where; nothing where it waited for nobody.
    pub fn waited_in(&self) -> Option<Sentence> {
        let wait = self.victims_wait()?;
        let (on, stack) = (self.waited_on(wait), self.wait_stack(wait));
        Some(match wait_words::wanted(self.analysis, wait.wait_stack) {
            Some(what) => sentence!("It waited for {}{} in\n  {}", what, as_place(on), stack),
            None => sentence!("It waited ({}){} in\n  {}", wait.class.words(), on, stack),
        })
    }

    /// What the victim waited for, and where; and the same of whoever then waited for a lock for most
    /// of the stall. Nothing where the victim waited for nobody.
    pub fn waits(&self) -> Vec<Sentence> {
        let hops = self.explanation.hops.iter().filter(|hop| {
            let is_lock = hop.class == WaitClass::Lock && hop.depth > 1 && hop.meanwhile.is_none();
            is_lock && self.is_most(hop.window.duration_ns())
        });
        let behind = hops.max_by_key(|hop| (hop.window.duration_ns(), Reverse(hop.depth)));
        let behind = behind.map(|hop| {
            let what = wait_words::wanted(self.analysis, hop.wait_stack);
            let what = what.unwrap_or_else(|| "a lock".to_owned());
            sentence!(
                "{} waited for {} in\n  {}",
                self.name(hop.sleeper),
                what,
                self.wait_stack(hop)
            )
        });
        let own = self.waited_in();
        let behind = behind.filter(|_| own.is_some());
        own.into_iter().chain(behind).collect()
    }

    /// The instruction of `name` on which the samples of `thread` pile up; nothing where they are
    /// few or spread.
    pub fn hottest_instruction(
        &self,
        thread: ThreadId,
        name: NameId,
        windows: &[Window],
    ) -> Option<Sentence> {
        /// Minimum samples inside the function.
        const MIN_SAMPLES: u32 = 50;
        let trace = self.analysis.trace;
        let spot = self.analysis.samples.hot_instruction(trace, name, &runs(thread, windows))?;
        (spot.total >= MIN_SAMPLES && spot.on * 2 >= spot.total).then(|| {
            sentence!(
                "{} of {} samples in {} itself are on {}{}.",
                count(spot.on.into()),
                count(spot.total.into()),
                function(trace.name(name)),
                Span::new("one instruction", Subject::Instructions(name)),
                Span::new("; `unhitch hot` shows them by instruction", Subject::Command)
            )
        })
    }
}

/// `on the file X` for `for the file X`, after what was waited for.
fn as_place(mut on: Sentence) -> Sentence {
    if let Some(first) = on.spans.first_mut()
        && let Some(rest) = first.text.strip_prefix(" for the ")
    {
        first.text = format!(" on the {rest}");
    }
    on
}

/// `7,498 of 7,547 samples`.
pub(super) fn samples_of(spot: &HotSpot) -> Sentence {
    sentence!("{} of {}", count(spot.inside.into()), plural(spot.total.into(), "sample"))
}

/// One thread's windows.
pub(super) fn runs(thread: ThreadId, windows: &[Window]) -> Vec<(ThreadId, Window)> {
    windows.iter().map(|&window| (thread, window)).collect()
}

/// `words` and a function; nothing where that has no name.
pub(super) fn in_function(words: &'static str, name: &str) -> Sentence {
    match name {
        "" => Sentence::default(),
        _ => sentence!("{}{}", words, function(name)),
    }
}

/// A weaker evidence in place of a direct one.
pub(crate) fn weaken(finding: &mut Finding, words: impl FnOnce(Sentence) -> Sentence) {
    if finding.evidence == Evidence::Direct {
        finding.evidence = Evidence::Inferred;
        finding.evidence_words = words(std::mem::take(&mut finding.evidence_words));
    }
}
