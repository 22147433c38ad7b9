//! Blocked operations: what looks like many waits may be one call that never finished.
//!
//! A thread that is woken from a lock and goes back to sleep on the same stack a few microseconds
//! later was woken in vain: it is still inside the same call. Counting such sleeps as one operation
//! distinguishes "440 slow calls" from "one call, starved".

use super::wait_class::class_of;
use crate::Analysis;
use crate::locks::lock_of;
use crate::stacks::WaitClass;
use crate::timeline::{Segment, State};
use unhitch_model::{StackId, TaskState, ThreadId, Window};

/// Maximum time between two sleeps of a thread that only checks whether the lock is free,
/// nanoseconds.
pub(crate) const LOOK_NS: u64 = 250_000;
/// The same if an interrupt, or the host of a virtual machine, took the CPU meanwhile, nanoseconds.
const LONG_LOOK_NS: u64 = 5_000_000;
/// Maximum time between two sleeps for one lock, of which the first ended by its timer, nanoseconds:
/// PostgreSQL looks for deadlocks there, which takes all locks of its lock table, and may read a page
/// of its own code from a disk.
pub(super) const LONGEST_LOOK_NS: u64 = 20_000_000;
/// Maximum waits for something else in such a look.
const MAX_WAITS_OF_A_LOOK: usize = 8;
/// Minimum sleeps per such long check.
const SLEEPS_PER_LONG_LOOK: u32 = 32;

/// One blocked call of one thread: its sleeps on one stack, with nothing but a look at the lock in
/// between.
#[derive(Clone, PartialEq, Debug)]
pub struct Operation {
    /// The thread that waited.
    pub thread: ThreadId,
    /// From the first departure to the return to a CPU after the last sleep, or to the window's
    /// end.
    pub window: Window,
    /// What it waited for.
    pub class: WaitClass,
    /// True for an event loop's wait for its next event.
    pub pump: bool,
    /// The state it slept in.
    pub state: TaskState,
    /// The wait stack of its longest sleep.
    pub stack: StackId,
    /// What makes another wait the same, see
    /// [`StackClasses::signature`](crate::StackClasses::signature).
    pub signature: u64,
    /// The kernel lock of its last sleep, by its address (kernel avma), where the kernel reported
    /// that.
    pub lock_avma: Option<u64>,
    /// The wake-ups that ended its sleeps, as indices into the wakings, in order.
    pub wakes: Vec<usize>,
    /// How many times it slept.
    pub sleeps: u32,
    /// Time asleep.
    pub asleep_ns: u64,
    /// Time woken but without a CPU.
    pub runnable_ns: u64,
    /// Time on a CPU.
    pub ran_ns: u64,
    /// True when the recording ends before it does.
    pub open: bool,
    long_looks: u32,
}

impl Operation {
    /// Wake-ups after which it went back to sleep: all but the last; all, when the recording ends
    /// first.
    pub fn wakes_in_vain(&self) -> usize {
        match self.open {
            true => self.wakes.len(),
            false => self.wakes.len().saturating_sub(1),
        }
    }
}

impl Operation {
    /// How long its thread may run now without having made progress.
    fn longest_look_ns(&self) -> u64 {
        if self.sleeps > self.long_looks.saturating_add(1).saturating_mul(SLEEPS_PER_LONG_LOOK) {
            LONG_LOOK_NS
        } else {
            LOOK_NS
        }
    }
}

/// The blocked operations in a thread's segments, in order of time.
pub fn operations(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segments: &[Segment],
) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut current: Option<Operation> = None;
    // Time on a CPU since the current operation's last sleep: it belongs to the operation only
    // if it sleeps again.
    let mut ran_ns = 0u64;
    // The wake-ups that the thread issued, from the last look on: a search for each segment would be
    // most of the work here.
    let whole = segments.first().zip(segments.last());
    let whole = whole.map(|(first, last)| Window::new(first.window.start, last.window.end));
    let mut issued = whole.map_or(&[][..], |whole| analysis.issued(thread, whole));
    let mut woke_someone = |window: Window| {
        let time = |waking: &u32| analysis.trace.wakings.time[*waking as usize];
        while let [first, rest @ ..] = issued
            && time(first) < window.start
        {
            issued = rest;
        }
        issued.first().is_some_and(|first| time(first) < window.end)
    };
    for segment in segments {
        match segment.state {
            State::Sleeping(state) => {
                let stack = segment.wait_stack(analysis.trace);
                let signature = analysis.stacks.signature(stack);
                let lock_avma = lock_of(analysis, thread, segment);
                let same_lock = |op: &Operation| {
                    op.lock_avma.zip(lock_avma).is_none_or(|(before, now)| before == now)
                };
                let continues = current.as_ref().is_some_and(|op| {
                    signature != 0 && op.signature == signature && !op.pump && same_lock(op)
                });
                if !continues {
                    operations.extend(current.take());
                    current = Some(begin(analysis, thread, segment, state, stack, signature));
                }
                if let Some(op) = &mut current {
                    op.ran_ns += if continues { ran_ns } else { 0 };
                    op.long_looks += u32::from(continues && ran_ns > LOOK_NS);
                    op.lock_avma = lock_avma;
                    add_sleep(analysis, op, segment);
                }
                ran_ns = 0;
            }
            State::Runnable { .. } => {
                if let Some(op) = current.as_mut().filter(|_| ran_ns == 0) {
                    op.window.end = segment.window.end;
                }
            }
            State::Ran => {
                ran_ns += segment.window.duration_ns();
                if current
                    .as_ref()
                    .is_some_and(|op| ran_ns > op.longest_look_ns() || woke_someone(segment.window))
                {
                    operations.extend(current.take());
                }
            }
            State::Unknown => operations.extend(current.take()),
        }
    }
    if let Some(mut op) = current {
        op.open = op.window.end >= analysis.timeline.window().end;
        operations.push(op);
    }
    let mut operations = join_looks(analysis, operations);
    for op in &mut operations {
        // In the rest of its window it waited for a CPU, so that the parts add up to the window.
        op.runnable_ns = op.window.duration_ns().saturating_sub(op.asleep_ns + op.ran_ns);
    }
    operations
}

/// Joins waits for one lock between which their thread only looked at it: the first ended by its own
/// timer, and the thread came back to the same wait soon, whatever it did meanwhile.
fn join_looks(analysis: &Analysis<'_>, operations: Vec<Operation>) -> Vec<Operation> {
    let trace = analysis.trace;
    let timed_out = |op: &Operation| {
        let by_task = |wake: &usize| analysis.stacks.is_by_task(trace, *wake);
        op.class == WaitClass::Lock && op.signature != 0 && !op.wakes.last().is_some_and(by_task)
    };
    let mut joined: Vec<Operation> = Vec::with_capacity(operations.len());
    for op in operations {
        let is_same = |earlier: &Operation| {
            earlier.signature == op.signature
                && op.window.start.since(earlier.window.end) <= LONGEST_LOOK_NS
                && timed_out(earlier)
        };
        // A look takes few waits of its own.
        let recent = joined.len().saturating_sub(MAX_WAITS_OF_A_LOOK)..joined.len();
        let Some(first) = recent.rev().find(|at| joined.get(*at).is_some_and(is_same)) else {
            joined.push(op);
            continue;
        };
        let look = joined.split_off(first + 1);
        let Some(wait) = joined.last_mut() else { continue };
        let between_ns = op.window.start.since(wait.window.end);
        let asleep_ns: u64 = look.iter().map(|own| own.asleep_ns).sum();
        wait.ran_ns += op.ran_ns + between_ns.saturating_sub(asleep_ns);
        wait.asleep_ns += op.asleep_ns + asleep_ns;
        wait.sleeps += op.sleeps;
        wait.wakes.extend(op.wakes);
        wait.window.end = op.window.end;
        wait.open = op.open;
    }
    joined
}

fn begin(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
    state: TaskState,
    stack: StackId,
    signature: u64,
) -> Operation {
    Operation {
        thread,
        window: segment.window,
        class: WaitClass::Unknown,
        pump: analysis.stacks.is_pump(stack),
        state,
        stack,
        signature,
        lock_avma: None,
        wakes: Vec::new(),
        sleeps: 0,
        asleep_ns: 0,
        runnable_ns: 0,
        ran_ns: 0,
        open: false,
        long_looks: 0,
    }
}

fn add_sleep(analysis: &Analysis<'_>, op: &mut Operation, segment: &Segment) {
    op.window.end = segment.window.end;
    op.sleeps += 1;
    op.asleep_ns += segment.window.duration_ns();
    op.wakes.extend(segment.wake());
    op.class = op.class.max_certainty(class_of(analysis, segment));
}

/// True when a thread woke another inside `window`: it held something and let it go, so it had
/// made progress.
pub(crate) fn woke_someone(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> bool {
    !analysis.issued(thread, window).is_empty()
}

/// True when a thread woke a certain other one inside `window`.
pub(crate) fn woke_someone_of(
    analysis: &Analysis<'_>,
    waker: ThreadId,
    woken: ThreadId,
    window: Window,
) -> bool {
    let wakee = |waking: &u32| analysis.trace.wakings.wakee[*waking as usize];
    analysis.issued(waker, window).iter().any(|waking| wakee(waking) == woken)
}

impl WaitClass {
    /// The more certain of two classes of the same wait: a wake-up by an unlock makes an ambiguous
    /// futex a lock for good.
    fn max_certainty(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown | Self::Condition, other) => other,
            (known, _) => known,
        }
    }
}
