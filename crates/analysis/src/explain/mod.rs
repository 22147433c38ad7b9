//! Why a thread did not get on: an exact partition of a window by cause, following every wait to
//! the thread that ended it.
//!
//! Walks right to left. A sleep ended by a task is that task's fault for as long as the sleep
//! lasted, so its time is explained by what *that* task did meanwhile, and so on: the windows nest
//! and their ends strictly decrease, so it ends, and the pieces sum to the window.

mod acquisition;
mod asked;
mod awaited;
mod bursts;
mod chain;
mod creator;
mod disk_servers;
mod ends;
mod explanation;
mod file_server;
mod idle_waits;
mod loops;
mod occupants;
mod operations;
pub(crate) mod other_end;
mod owners;
mod partition;
mod processes;
mod runner;
mod share_lines;
mod sleeps;
pub mod throttling;
mod timed_waits;
mod transactions;
mod wait_class;

pub use chain::{ChainLink, LinkState};
pub(crate) use disk_servers::disk_servers;
pub use explanation::{Burst, Cause, Explanation, Hop, Meanwhile, Piece};
pub(crate) use file_server::file_server;
pub use occupants::awaited_cpu;
pub(crate) use occupants::occupant_shares;
pub(crate) use operations::woke_someone_of;
pub use operations::{Operation, operations};
pub(crate) use partition::is_idle;
pub use partition::{Share, What, partition};
pub use share_lines::{ShareLine, ShareLines};
pub use wait_class::class_of;
pub(crate) use wait_class::kept_wait;

use crate::Analysis;
use crate::locks::lock_of;
use crate::stacks::classes::{WakeContext, WakeSource};
use crate::stacks::{InterruptSource, WaitClass};
use crate::timeline::{Segment, State};
use acquisition::acquisition;
pub(crate) use asked::asked_in_vain;
pub(crate) use awaited::owned_at_end;
use bursts::Bursts;
use creator::{Line, until_birth};
use disk_servers::disk_server_of;
use ends::gave_up;
pub(crate) use ends::timed_out;
use idle_waits::{join_idle_waits, join_unanswered};
pub(crate) use owners::signalled_by;
use owners::{ended_by, released_by_owner};
pub(crate) use runner::active_ns;
use runner::runner_of;
use sleeps::began;
use timed_waits::{join_timed_waits, looks};
pub(crate) use transactions::is_of_transaction;
use unhitch_model::{ThreadId, Time, Window};

/// Maximum segments of one thread that are explained by one core.
const MAX_SEGMENTS: usize = 1 << 16;

/// A thread's time that is being explained.
struct Frame {
    thread: ThreadId,
    window: Window,
    /// The hop that led to it; none for the victim.
    hop: Option<u32>,
    /// What of it is left.
    segments: std::vec::IntoIter<Segment>,
    bursts: Bursts,
}

/// Explains what kept `victim` inside `window`.
pub fn explain(analysis: &Analysis<'_>, victim: ThreadId, window: Window) -> Explanation {
    let window = window.intersect(analysis.timeline.life(victim));
    let mut explanation =
        Explanation { victim, window, pieces: Vec::new(), hops: Vec::new(), blames: None };
    let mut frames: Vec<Frame> = Vec::new();
    enter(analysis, &mut explanation, &mut frames, (victim, window, None));
    walk(analysis, &mut explanation, frames);
    explanation.pieces.sort_by_key(|piece| piece.window);
    explanation
}

/// Explains frames and all that they lead to, the last one first.
fn walk(analysis: &Analysis<'_>, explanation: &mut Explanation, mut frames: Vec<Frame>) {
    loop {
        if let Some(long) = frames.pop_if(|frame| frame.segments.len() > MAX_SEGMENTS) {
            in_halves(analysis, explanation, long);
            continue;
        }
        let Some(frame) = frames.last_mut() else { return };
        let Some(segment) = frame.segments.next() else {
            frame.bursts.end(analysis, explanation);
            frames.pop();
            continue;
        };
        frame.bursts.begin(analysis, explanation, &segment);
        let (thread, window, hop) = (frame.thread, frame.window, frame.hop);
        // A waker that seems asleep while it wakes is damage; following only earlier ends
        // is also what makes this terminate. An owner may well sleep until the end.
        let is_owner = || {
            let led = explanation.hop(hop);
            led.is_none_or(|hop| {
                let ran = hop.meanwhile == Some(Meanwhile::Ran);
                hop.release().is_none() && hop.started.is_none() && !ran
            })
        };
        let earlier = segment.window.end < window.end
            || is_owner()
            || really_ends(analysis, &segment) < wait_ends(analysis, explanation, hop);
        match follow(analysis, thread, &segment, hop, explanation).filter(|_| earlier) {
            Some(next) => {
                let first = explanation.hops.len() as u32;
                for hop in owner_then_waker(analysis, next, &segment) {
                    explanation.lead(hop);
                }
                // The last is entered first: the frame on top is the earliest.
                for at in (first..explanation.hops.len() as u32).rev() {
                    let Hop { by, window, .. } = explanation.hops[at as usize];
                    enter(analysis, explanation, &mut frames, (by, window, Some(at)));
                }
            }
            None => {
                let asleep = segment.is_sleep();
                let device = completed(analysis, explanation, hop, &segment);
                let (cause, thread) = match device {
                    Some(hop) => (Cause::Io, hop.sleeper),
                    None if asleep && !earlier => (Cause::Lost, thread),
                    None => (terminal(analysis, &segment), thread),
                };
                explanation.pieces.push(Piece {
                    window: segment.window,
                    cause,
                    thread,
                    hop,
                    segment,
                    burst: None,
                });
            }
        }
    }
}

/// The wait for a disk to which `hop` led, if `segment` is the rest of a kernel worker that only reported
/// the disk's completion, or gave that to another one to do: the disk took that time.
fn completed<'a>(
    analysis: &Analysis<'_>,
    explanation: &'a Explanation,
    hop: Option<u32>,
    segment: &Segment,
) -> Option<&'a Hop> {
    let is_rest = segment.is_sleep() && class_of(analysis, segment) == WaitClass::KernelIdle;
    let mut led = explanation.hops_to(hop.filter(|_| is_rest)).map(|(_, hop)| hop);
    led.find(|hop| hop.class != WaitClass::KernelIdle).filter(|hop| hop.class.is_disk())
}

/// Explains the two halves of a frame side by side: a storm has a million segments.
fn in_halves(analysis: &Analysis<'_>, explanation: &mut Explanation, frame: Frame) {
    let Frame { thread, window, hop, segments, .. } = frame;
    let mut first: Vec<Segment> = segments.collect();
    let second = first.split_off(first.len() / 2);
    let half = |segments: Vec<Segment>| {
        let segments = segments.into_iter();
        let frame = Frame { thread, window, hop, segments, bursts: Bursts::default() };
        let (hops, pieces) = (explanation.hops.clone(), Vec::new());
        let mut own = Explanation { hops, pieces, ..*explanation };
        walk(analysis, &mut own, vec![frame]);
        own
    };
    let halves = rayon::join(|| half(first), || half(second));
    let before = explanation.hops.len() as u32;
    for half in [halves.0, halves.1] {
        let shift = explanation.hops.len() as u32 - before;
        let shifted = |hop: Option<u32>| match hop {
            Some(own) if own >= before => Some(own + shift),
            other => other,
        };
        for hop in half.hops.into_iter().skip(before as usize) {
            explanation.lead(Hop { parent: shifted(hop.parent), ..hop });
        }
        let pieces = half.pieces.into_iter();
        explanation.pieces.extend(pieces.map(|piece| Piece { hop: shifted(piece.hop), ..piece }));
    }
}

/// Goes on with what a thread did in a window, to which a hop led, and first with who started it, and with
/// who started that one, and so on: a trace may have thousands that each started the next.
fn enter(
    analysis: &Analysis<'_>,
    explanation: &mut Explanation,
    frames: &mut Vec<Frame>,
    entered: (ThreadId, Window, Option<u32>),
) {
    let mut line = Line::new(entered.2);
    let mut next = Some(entered);
    while let Some((thread, window, hop)) = next.filter(|(_, window, _)| !window.is_empty()) {
        let unborn = enter_life(analysis, explanation, frames, (thread, window, hop));
        next = unborn.and_then(|unborn| {
            match until_birth(analysis, explanation, hop, unborn, &mut line) {
                Some(starter) => Some((starter.by, unborn, Some(explanation.lead(starter)))),
                None => {
                    let piece = unheld(analysis, explanation.hop(hop), unborn);
                    explanation.pieces.push(piece.unwrap_or_else(|| unseen(thread, unborn, hop)));
                    None
                }
            }
        });
    }
}

/// Goes on with what a thread did in a window, to which a hop led. Returns the part before its birth.
fn enter_life(
    analysis: &Analysis<'_>,
    explanation: &mut Explanation,
    frames: &mut Vec<Frame>,
    (thread, window, hop): (ThreadId, Window, Option<u32>),
) -> Option<Window> {
    let (segments, queued) = since_acquisition(analysis, thread, window, explanation.hop(hop));
    let before = analysis.timeline.life(thread).start.min(window.end);
    let seen_end = segments.last().map_or(before.max(window.start), |last| last.window.end);
    if seen_end < window.end {
        explanation.pieces.push(unseen(thread, Window::new(seen_end, window.end), hop));
    }
    let segments = segments.into_iter();
    frames.push(Frame { thread, window, hop, segments, bursts: Bursts::default() });
    (window.start < before && !queued).then(|| Window::new(window.start, before))
}

/// When a sleep ended, even if that was after the window that it was cut to.
fn really_ends(analysis: &Analysis<'_>, segment: &Segment) -> Time {
    let wake = segment.wake().and_then(|wake| analysis.trace.wakings.time.get(wake));
    wake.map_or(segment.window.end, |wake| segment.window.end.max(*wake))
}

/// When the wait of a hop ended: after the window that is explained, if that ends inside the wait.
fn wait_ends(analysis: &Analysis<'_>, explanation: &Explanation, hop: Option<u32>) -> Time {
    let cut = explanation.hop(hop).filter(|hop| hop.window.end == explanation.window.end);
    let wake = cut.and_then(|hop| analysis.trace.wakings.time.get(hop.wake?));
    wake.copied().unwrap_or_default()
}

/// The waker is not necessarily the holder: the thread that handed the lock to the sleeper of `hop`
/// may have held it only for a moment, after a wait of its own. What it did before that wait has
/// nothing to do with the lock, which others held. That time belongs to the wait, and is explained
/// by the thread that ended it. Returns the segments of `thread` inside `window`, and true if they
/// were cut in this way.
///
/// *Why from the end, by growing steps:* in a long queue, every thread has waited thousands of
/// times, and only the last time matters.
fn since_acquisition(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    window: Window,
    hop: Option<&Hop>,
) -> (Vec<Segment>, bool) {
    const FIRST_STEP_NS: u64 = 1_000_000;
    let lock = hop.filter(|hop| hop.class == WaitClass::Lock);
    let mut length = FIRST_STEP_NS;
    loop {
        let all = lock.is_none() || length >= window.duration_ns();
        let from = if all { window.start } else { window.end.minus(length) };
        let mut segments = join_timed_waits(
            analysis,
            thread,
            analysis.segments(thread, Window::new(from, window.end)),
        );
        match lock.and_then(|hop| acquisition(analysis, &segments, hop)).filter(|wait| *wait > 0) {
            Some(wait) => {
                segments.drain(..wait);
                segments.iter_mut().take(1).for_each(|first| first.window.start = window.start);
                return (segments, true);
            }
            None if all => {
                if let Some(hop) = hop.filter(|hop| hop.class != WaitClass::Lock) {
                    let is_unanswered = hop.wake.is_none() && hop.meanwhile.is_none();
                    if !is_unanswered || !join_unanswered(analysis, thread, &mut segments) {
                        join_idle_waits(analysis, thread, &mut segments, window.end);
                    }
                }
                return (segments, false);
            }
            None => length = length.saturating_mul(8),
        }
    }
}

/// The hop behind a sleep, when a task is known to have ended it, or to own what it waits for.
fn follow(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    segment: &Segment,
    parent: Option<u32>,
    explanation: &Explanation,
) -> Option<Hop> {
    let State::Sleeping(_) = segment.state else { return None };
    let class = class_of(analysis, segment);
    // The thread that continues a stopped thread is not the one that stopped it, unless it traces it.
    if class == WaitClass::Stopped && !tracer_waited(analysis, segment) {
        return None;
    }
    let by_task = WakeSource { context: WakeContext::Task, interrupt: None };
    let ended = ended_by(analysis, thread, segment);
    let unwoken = || {
        let runner = || runner_of(analysis, thread, segment).map(|by| (by, Meanwhile::Ran));
        let server = || disk_server_of(analysis, thread, segment);
        runner().or_else(|| server().map(|by| (by, Meanwhile::ServedDisk)))
    };
    let (by, source, meanwhile) = match ended {
        Some((by, source)) => (by, source, None),
        None => unwoken().map(|(by, meanwhile)| (by, by_task, Some(meanwhile)))?,
    };
    let depth = explanation.hop(parent).map_or(1, |hop| hop.depth + 1);
    let gave_up = gave_up(analysis, segment);
    let is_end = || meanwhile.is_none() && !gave_up && signalled_by(analysis, segment).is_none();
    let wake = segment.wake().filter(|_| is_end());
    let usable =
        by != thread && !by.is_idle() && (wake.is_some() || !is_in_chain(explanation, by, parent));
    let slept = Window::new(began(analysis, segment), segment.window.end);
    usable.then(|| Hop {
        sleeper: thread,
        window: segment.window,
        slept,
        class,
        wait_stack: segment.wait_stack(analysis.trace),
        lock_avma: lock_of(analysis, thread, segment),
        owner: kept_wait(analysis, segment).and_then(|wait| wait.owner),
        released: None,
        looks: looks(analysis, thread, slept),
        wake,
        meanwhile,
        gave_up,
        started: None,
        source,
        by,
        parent,
        root: 0,
        depth,
        waits: 1,
    })
}

/// True for a stop by a tracer that was itself kept from continuing the thread, for most of the stop:
/// one that waits for whoever reads its output. One that rests, before a person, stopped it.
fn tracer_waited(analysis: &Analysis<'_>, stop: &Segment) -> bool {
    let wakings = &analysis.trace.wakings;
    let Some(wake) = stop.wake().filter(|wake| analysis.stacks.is_debuggers(wakings.stack[*wake]))
    else {
        return false;
    };
    let segments = analysis.segments(wakings.waker[wake], stop.window);
    let waits = segments.iter().filter(|segment| {
        let class = class_of(analysis, segment);
        segment.is_sleep()
            && (class.is_unwanted() || matches!(class, WaitClass::Ipc | WaitClass::Network))
    });
    let waited_ns: u64 = waits.map(|wait| wait.window.duration_ns()).sum();
    waited_ns.saturating_mul(2) >= stop.window.duration_ns()
}

/// A sleep for a lock that named its owner, ended by a thread that had not waited for the lock: up to
/// where the owner released it, the sleep was for the owner, and only then for that thread. Otherwise
/// the hop as it is.
fn owner_then_waker(
    analysis: &Analysis<'_>,
    hop: Hop,
    segment: &Segment,
) -> impl Iterator<Item = Hop> + use<> {
    // The window that is explained may end before the release.
    let until = |released: usize| analysis.trace.wakings.time[released].min(hop.window.end);
    let owner = released_by_owner(analysis, &hop, segment).map(|(by, released)| Hop {
        window: Window::new(hop.window.start, until(released)),
        source: WakeSource { context: WakeContext::Task, interrupt: None },
        released: Some(released),
        wake: None,
        by,
        ..hop
    });
    let waker = match owner {
        // Whose it was when the sleep began is over by then.
        Some(Hop { window: Window { end, .. }, .. }) => {
            Hop { window: Window::new(end, hop.window.end), owner: None, ..hop }
        }
        None => hop,
    };
    owner.into_iter().chain(std::iter::once(waker))
}

/// True for the victim, and for who led to `hop`: in a deadlock, owners wait for each other.
fn is_in_chain(explanation: &Explanation, thread: ThreadId, hop: Option<u32>) -> bool {
    explanation.victim == thread || explanation.hops_to(hop).any(|(_, led)| led.by == thread)
}

/// The cause of a segment that leads no further.
fn terminal(analysis: &Analysis<'_>, segment: &Segment) -> Cause {
    match segment.state {
        State::Ran => Cause::Ran,
        State::Runnable { .. } => Cause::WaitedForCpu,
        State::Unknown => Cause::Lost,
        State::Sleeping(_) => {
            let interrupt = segment
                .wake()
                .and_then(|wake| analysis.stacks.wake_source(analysis.trace, wake).interrupt);
            match (class_of(analysis, segment), interrupt) {
                (WaitClass::Stopped, _) => Cause::Stopped,
                (WaitClass::Memory, _) => Cause::Memory,
                (class, _) if class.is_disk() => Cause::Io,
                (_, Some(InterruptSource::BlockIo)) => Cause::Io,
                (WaitClass::Timer, _) => Cause::Timer,
                (
                    _,
                    Some(
                        InterruptSource::Timeout | InterruptSource::Alarm | InterruptSource::Timer,
                    ),
                ) => Cause::Timeout,
                (WaitClass::Network, _) | (_, Some(InterruptSource::Network)) => Cause::Message,
                (WaitClass::Device, _) => Cause::Device,
                _ => Cause::UnknownWaker,
            }
        }
    }
}

fn unseen(thread: ThreadId, window: Window, hop: Option<u32>) -> Piece {
    let segment = Segment::unknown(window);
    Piece { window, cause: Cause::Lost, thread, hop, segment, burst: None }
}

/// The part of a wait for a lock that was over when the thread that ended it was born: others had the
/// lock, and who is not known.
fn unheld(analysis: &Analysis<'_>, led: Option<&Hop>, window: Window) -> Option<Piece> {
    let led = led.filter(|led| led.class == WaitClass::Lock && led.wake.is_some())?;
    // Whoever lived when the recording began has no birth in it.
    let is_born = analysis.timeline.life(led.by).start > analysis.timeline.window().start;
    let segment = sleep_of(analysis, led).filter(|_| is_born)?.within(window);
    let (cause, thread) = (Cause::UnknownWaker, led.sleeper);
    Some(Piece { window, cause, thread, hop: led.parent, segment, burst: None })
}

/// The beginning of the sleep of a hop.
pub(crate) fn sleep_of(analysis: &Analysis<'_>, hop: &Hop) -> Option<Segment> {
    // One that covers waits for other events is about the last.
    let start = match hop.class {
        WaitClass::Idle => hop.window.start.max(hop.slept.start),
        _ => hop.window.start,
    };
    let begin = Window::new(start, start.plus(1));
    let segments = analysis.segments(hop.sleeper, begin);
    segments.into_iter().find(|segment| segment.is_sleep())
}

/// The switch with which the sleeper of a hop left its CPU.
pub(crate) fn fell_asleep(analysis: &Analysis<'_>, hop: &Hop) -> Option<usize> {
    sleep_of(analysis, hop)?.out()
}
