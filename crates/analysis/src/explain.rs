//! Why a thread did not get on: an exact partition of a window by cause, following every wait to the thread that ended it.
//!
//! Walks right to left. A sleep ended by a task is that task's fault for as long as the sleep lasted, so its time is explained by what
//! *that* task did meanwhile, and so on: the windows nest and their ends strictly decrease, so it ends, and the pieces sum to the window.

use crate::Analysis;
use crate::facts::{WakeContext, WakeSource};
use crate::timeline::{Segment, State};
use crate::waits::{InterruptSource, WaitClass};
use unhitch_model::{NameId, StackId, ThreadId, Window};

/// What a piece of time went to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// The piece's thread was on a CPU.
    Ran,
    /// The piece's thread wanted a CPU.
    WaitedForCpu,
    /// It slept until a time it had set itself.
    Timer,
    /// It waited for something that did not come before its own timeout.
    Timeout,
    /// It waited for a block device or a file system.
    Io,
    /// It waited for memory.
    Memory,
    /// It waited for a message from outside the trace: network, another machine, a user.
    Message,
    /// It was stopped.
    Stopped,
    /// It slept, and who woke it is not known.
    UnknownWaker,
    /// What it did is not known.
    Lost,
}

/// One wait on the way from the victim to the cause: `sleeper` slept until `by` woke it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hop {
    /// Who slept.
    pub sleeper: ThreadId,
    /// The part of the sleep that is being explained.
    pub window: Window,
    /// The whole sleep, as far as the recording goes.
    pub slept: Window,
    /// What it waited for.
    pub class: WaitClass,
    /// Where it waited.
    pub wait_stack: StackId,
    /// The wake-up, as an index into the wakings; none when the lock word named the owner instead.
    pub wake: Option<usize>,
    /// In which context the wake-up was issued.
    pub source: WakeSource,
    /// Who woke it, or owned the lock.
    pub by: ThreadId,
    /// The hop that led here; none when the sleeper is the victim.
    pub parent: Option<u32>,
    /// 1 for the victim's own waits, one more for each hop.
    pub depth: u32,
}

/// A stretch of the window with its cause. Pieces do not overlap and leave no gap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece {
    /// From when to when.
    pub window: Window,
    /// What it went to.
    pub cause: Cause,
    /// The thread whose doing it was.
    pub thread: ThreadId,
    /// The hop that led to that thread; none for the victim itself.
    pub hop: Option<u32>,
    /// The thread's own segment (clipped), with its stack and wake-up.
    pub segment: Segment,
}

/// A window of one thread's time, explained.
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    /// Whose time.
    pub victim: ThreadId,
    /// Which time, clipped to the thread's life.
    pub window: Window,
    /// The partition, in order of time.
    pub pieces: Vec<Piece>,
    /// The waits that were followed.
    pub hops: Vec<Hop>,
}

impl Hop {
    /// True when more than the sleep is explained by it: who had the lock before the sleeper came to its queue is concluded.
    pub fn is_queued(&self) -> bool {
        self.window.start < self.slept.start
    }
}

impl Explanation {
    /// The hop that led to a piece.
    pub fn hop_of(&self, piece: &Piece) -> Option<&Hop> {
        piece.hop.and_then(|hop| self.hops.get(hop as usize))
    }
}

impl Analysis<'_> {
    /// Explains what kept `victim` inside `window`.
    pub fn explain(&self, victim: ThreadId, window: Window) -> Explanation {
        let window = window.intersect(self.timeline.life(victim));
        let mut explanation = Explanation { victim, window, pieces: Vec::new(), hops: Vec::new() };
        let mut open: Vec<(ThreadId, Window, Option<u32>)> = vec![(victim, window, None)];
        while let Some((thread, window, hop)) = open.pop() {
            if window.is_empty() {
                continue;
            }
            let mut segments = self.segments(thread, window);
            let queued = self.cut_at_acquisition(&mut segments, window, hop.and_then(|hop| explanation.hops.get(hop as usize)));
            let before = self.timeline.life(thread).start.min(window.end);
            if window.start < before && !queued {
                // The waker did not exist yet: what came before its birth is not explained by it.
                explanation.pieces.push(unseen(thread, Window::new(window.start, before), hop));
            }
            let seen_end = segments.last().map_or(before.max(window.start), |last| last.window.end);
            if seen_end < window.end {
                explanation.pieces.push(unseen(thread, Window::new(seen_end, window.end), hop));
            }
            for segment in segments.into_iter().rev() {
                // A waker that seems asleep while it wakes is damage; following only earlier ends is also what makes this terminate.
                let earlier = hop.is_none() || segment.window.end < window.end;
                match self.follow(thread, &segment, hop, &explanation).filter(|_| earlier) {
                    Some(next) => {
                        let by = next.by;
                        explanation.hops.push(next);
                        open.push((by, segment.window, Some(explanation.hops.len() as u32 - 1)));
                    }
                    None => {
                        let asleep = matches!(segment.state, State::Sleeping(_));
                        let led = hop.and_then(|hop| explanation.hops.get(hop as usize));
                        // A kernel worker that only tells that the device is done rested until then: the device took that time.
                        let device = led.filter(|hop| hop.class.is_disk() && self.class_of(&segment) == WaitClass::KernelIdle);
                        let (cause, thread) = match device {
                            Some(hop) => (Cause::Io, hop.sleeper),
                            None if asleep && !earlier => (Cause::Lost, thread),
                            None => (self.terminal(&segment), thread),
                        };
                        explanation.pieces.push(Piece { window: segment.window, cause, thread, hop, segment });
                    }
                }
            }
        }
        explanation.pieces.sort_by_key(|piece| piece.window);
        debug_assert_eq!(explanation.pieces.iter().map(|piece| piece.window.duration_ns()).sum::<u64>(), window.duration_ns());
        explanation
    }

    /// Waker is not holder: who let the sleeper of `hop` into a lock may have had it for a moment only, after a wait of its own. What it did
    /// before that wait has nothing to do with the lock, which others had: that time belongs to the wait, and is explained by whoever
    /// ended it. Returns true when `segments` of `window` were cut so.
    fn cut_at_acquisition(&self, segments: &mut Vec<Segment>, window: Window, hop: Option<&Hop>) -> bool {
        let Some(hop) = hop.filter(|hop| hop.class == WaitClass::Lock) else { return false };
        let waits_for_lock = |segment: &Segment| {
            let by_task = segment.wake.is_some_and(|wake| self.facts.wake_source(self.trace, wake).context.is_task());
            by_task && matches!(segment.state, State::Sleeping(_)) && self.class_of(segment) == WaitClass::Lock
        };
        let same_code = |segment: &Segment| {
            waits_for_lock(segment) && self.facts.signature(segment.wait_stack(self.trace)) == self.facts.signature(hop.wait_stack)
        };
        let same_leaf =
            |segment: &Segment| waits_for_lock(segment) && self.leaf(segment.wait_stack(self.trace)) == self.leaf(hop.wait_stack);
        let rested = |segment: &Segment| matches!(segment.state, State::Sleeping(_)) && self.class_of(segment) != WaitClass::Lock;
        // Nobody waits for the lock that it has; and who slept for something else and waited for such a lock after that, did not have it.
        let after_rest = segments.iter().rposition(rested).map_or(segments.len(), |rest| rest + 1);
        let first_after_rest = || segments.iter().skip(after_rest).position(same_leaf).map(|wait| wait + after_rest);
        let Some(wait) = segments.iter().rposition(same_code).or_else(first_after_rest).filter(|wait| *wait > 0) else { return false };
        segments.drain(..wait);
        if let Some(first) = segments.first_mut() {
            first.window.start = window.start;
        }
        true
    }

    /// The function that waits, below the scheduler's own.
    fn leaf(&self, stack: StackId) -> Option<NameId> {
        let frame = self.trace.stacks.frames_of(stack).get(self.facts.noise_len(stack))?;
        self.trace.symbols.get(*frame).last().map(|symbol| symbol.function)
    }

    /// The hop behind a sleep, when a task is known to have ended it, or to own what it waits for.
    fn follow(&self, thread: ThreadId, segment: &Segment, parent: Option<u32>, explanation: &Explanation) -> Option<Hop> {
        let State::Sleeping(_) = segment.state else { return None };
        let class = self.class_of(segment);
        // Who lets a stopped thread go on is not the one who had stopped it.
        if class == WaitClass::Stopped {
            return None;
        }
        let (by, source) = match segment.wake {
            Some(wake) => {
                let source = self.facts.wake_source(self.trace, wake);
                (source.context.is_task().then(|| self.trace.wakings.waker[wake])?, source)
            }
            None => {
                let waits_at_end = segment.window.end == self.timeline.window().end;
                let wait = self.trace.futex_waits.iter().find(|wait| waits_at_end && wait.waiter == thread)?;
                (wait.owner?, WakeSource { context: WakeContext::Task, interrupt: None })
            }
        };
        let depth = parent.and_then(|hop| explanation.hops.get(hop as usize)).map_or(1, |hop| hop.depth + 1);
        let usable = by != thread && !by.is_idle() && (segment.wake.is_some() || depth == 1);
        usable.then(|| Hop {
            sleeper: thread,
            window: segment.window,
            slept: Window::new(segment.out.map_or(segment.window.start, |out| self.trace.switches.time[out]), segment.window.end),
            class,
            wait_stack: segment.wait_stack(self.trace),
            wake: segment.wake,
            source,
            by,
            parent,
            depth,
        })
    }

    /// The cause of a segment that leads no further.
    fn terminal(&self, segment: &Segment) -> Cause {
        match segment.state {
            State::Ran => Cause::Ran,
            State::Runnable { .. } => Cause::WaitedForCpu,
            State::Unknown => Cause::Lost,
            State::Sleeping(_) => {
                let interrupt = segment.wake.and_then(|wake| self.facts.wake_source(self.trace, wake).interrupt);
                match (self.class_of(segment), interrupt) {
                    (WaitClass::Stopped, _) => Cause::Stopped,
                    (WaitClass::Memory, _) => Cause::Memory,
                    (class, _) if class.is_disk() => Cause::Io,
                    (_, Some(InterruptSource::BlockIo)) => Cause::Io,
                    (WaitClass::Timer, _) => Cause::Timer,
                    (_, Some(InterruptSource::Timeout | InterruptSource::Timer)) => Cause::Timeout,
                    (WaitClass::Network, _) | (_, Some(InterruptSource::Network)) => Cause::Message,
                    _ => Cause::UnknownWaker,
                }
            }
        }
    }

    /// Who wanted what inside `window`: the occupants of the CPU for which a runnable piece waited, with their time, in order.
    pub fn occupants(&self, piece: &Piece) -> Vec<(Option<ThreadId>, Window)> {
        match self.cpu_of(&piece.segment) {
            Some(cpu) => self.cpus.occupancy(self.trace, cpu, piece.window).into_iter().map(|o| (o.thread, o.window)).collect(),
            None => vec![(None, piece.window)],
        }
    }
}

fn unseen(thread: ThreadId, window: Window, hop: Option<u32>) -> Piece {
    let segment = Segment { window, state: State::Unknown, out: None, wake: None, back: None };
    Piece { window, cause: Cause::Lost, thread, hop, segment }
}
