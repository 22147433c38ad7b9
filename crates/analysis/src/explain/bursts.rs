//! Bursts: many short waits in a row, summed.
//!
//! Two threads that hand each other a byte a hundred thousand times a second wait as often. Each of
//! those waits is followed, but an explanation of a minute needs no piece for each: what a thread did
//! in a stretch of about a four-thousandth of the window is summed by who did what, and the sums are
//! laid one after the other. The sums are exact, and so is the stretch; only the order inside it is
//! not kept.
//!
//! *Why not waits for locks:* their order tells who held the lock.

use super::explanation::{Burst, Cause, Explanation, Hop, Meanwhile, Piece};
use super::occupants::occupants;
use crate::Analysis;
use crate::stacks::{WaitClass, WakeSource};
use crate::timeline::{Segment, State};
use rustc_hash::FxHashMap;
use unhitch_model::{StackId, ThreadId, Time, Window};

/// Bursts in the window that is explained: a shorter segment is a part of one, and a burst is about as
/// long as the longest segment of one.
const BURSTS: u64 = 4096;
/// Minimum pieces of a burst: fewer are kept as they are.
const MIN_PIECES: usize = 32;

/// The segments of one thread, in order of time, of which the short ones are summed.
#[derive(Default)]
pub(super) struct Bursts {
    open: Option<Open>,
}

/// A burst that goes on.
struct Open {
    window: Window,
    /// The first piece and the first hop that it led to.
    pieces: usize,
    hops: usize,
}

impl Bursts {
    /// Takes the next segment, before what it leads to is explained.
    pub(super) fn begin(
        &mut self,
        analysis: &Analysis<'_>,
        explanation: &mut Explanation,
        segment: &Segment,
    ) {
        let longest_ns = explanation.window.duration_ns() / BURSTS;
        let is_short = segment.window.duration_ns() < longest_ns;
        match &mut self.open {
            Some(open) if is_short && open.window.duration_ns() < longest_ns => {
                open.window.end = segment.window.end;
            }
            _ => {
                self.end(analysis, explanation);
                let (pieces, hops) = (explanation.pieces.len(), explanation.hops.len());
                self.open = is_short.then_some(Open { window: segment.window, pieces, hops });
            }
        }
    }

    /// Ends the burst that goes on, when all that it led to is explained.
    pub(super) fn end(&mut self, analysis: &Analysis<'_>, explanation: &mut Explanation) {
        let Some(open) = self.open.take() else { return };
        let is_lock = |hop: &Hop| hop.class == WaitClass::Lock;
        let hops = explanation.hops.get(open.hops..).unwrap_or_default();
        if explanation.pieces.len() >= open.pieces + MIN_PIECES && !hops.iter().any(is_lock) {
            let mut sums = Sums::new(analysis, explanation.hops.split_off(open.hops), open.hops);
            for piece in explanation.pieces.drain(open.pieces..) {
                sums.add(analysis, piece);
            }
            sums.lay(open.window, explanation);
        }
    }
}

/// What makes hops one.
#[derive(PartialEq, Eq, Hash)]
struct HopKey {
    parent: Option<usize>,
    sleeper: ThreadId,
    by: ThreadId,
    class: WaitClass,
    wait_stack: StackId,
    wake_stack: StackId,
    owner: Option<ThreadId>,
    started: Option<ThreadId>,
    source: WakeSource,
    is_woken: bool,
    is_queued: bool,
    is_timed: bool,
    meanwhile: Option<Meanwhile>,
    gave_up: bool,
}

/// What makes pieces one.
#[derive(PartialEq, Eq, Hash)]
struct PieceKey {
    hop: Option<usize>,
    thread: ThreadId,
    cause: Cause,
    state: State,
    wait_stack: StackId,
    occupant: Option<ThreadId>,
}

/// Things of one key, for which the longest stands.
struct Sum<T> {
    longest: T,
    longest_ns: u64,
    ns: u64,
    count: u32,
}

impl<T> Sum<T> {
    fn new(longest: T) -> Self {
        Self { longest, longest_ns: 0, ns: 0, count: 0 }
    }

    fn add(&mut self, other: T, ns: u64, count: u32) {
        if ns > self.longest_ns {
            (self.longest, self.longest_ns) = (other, ns);
        }
        self.ns += ns;
        self.count += count;
    }
}

/// The hops and pieces of a burst, summed.
struct Sums {
    /// How many hops the explanation has before them.
    before: usize,
    /// The sum of each hop of the burst.
    of_hop: Vec<usize>,
    /// Parents first. Their `ns` is that of the pieces behind them.
    hops: Vec<HopSum>,
    by_key: FxHashMap<PieceKey, usize>,
    pieces: Vec<(Option<usize>, Option<ThreadId>, Sum<Piece>)>,
}

struct HopSum {
    parent: Option<usize>,
    sum: Sum<Hop>,
    /// Time before the last of several waits began.
    queued_ns: u64,
}

impl Sums {
    fn new(analysis: &Analysis<'_>, burst: Vec<Hop>, before: usize) -> Self {
        let wakings = &analysis.trace.wakings;
        let mut by_key: FxHashMap<HopKey, usize> = FxHashMap::default();
        let mut hops: Vec<HopSum> = Vec::new();
        let mut of_hop: Vec<usize> = Vec::with_capacity(burst.len());
        for hop in burst {
            let parent = hop.parent.and_then(|parent| (parent as usize).checked_sub(before));
            let parent = parent.and_then(|parent| of_hop.get(parent).copied());
            let key = HopKey {
                parent,
                sleeper: hop.sleeper,
                by: hop.by,
                class: hop.class,
                wait_stack: hop.wait_stack,
                wake_stack: hop.wake.map(|wake| wakings.stack[wake]).unwrap_or_default(),
                owner: hop.owner,
                started: hop.started,
                source: hop.source,
                is_woken: hop.wake.is_some(),
                is_queued: hop.is_queued(),
                is_timed: hop.is_timed(),
                meanwhile: hop.meanwhile,
                gave_up: hop.gave_up,
            };
            let at = *by_key.entry(key).or_insert_with(|| {
                hops.push(HopSum { parent, sum: Sum::new(hop), queued_ns: 0 });
                hops.len() - 1
            });
            let queued_ns = hop.slept.start.min(hop.window.end).since(hop.window.start);
            hops[at].queued_ns += queued_ns;
            hops[at].sum.add(hop, hop.window.duration_ns(), hop.waits);
            of_hop.push(at);
        }
        hops.iter_mut().for_each(|hop| hop.sum.ns = 0);
        Self { before, of_hop, hops, by_key: FxHashMap::default(), pieces: Vec::new() }
    }

    fn add(&mut self, analysis: &Analysis<'_>, piece: Piece) {
        if piece.cause == Cause::WaitedForCpu {
            occupants(analysis, &piece).for_each(|(occupant, window)| {
                self.add_part(analysis, Piece { window, ..piece }, occupant);
            });
        } else {
            self.add_part(analysis, piece, None);
        }
    }

    fn add_part(&mut self, analysis: &Analysis<'_>, piece: Piece, occupant: Option<ThreadId>) {
        let own = piece.hop.and_then(|hop| (hop as usize).checked_sub(self.before));
        let hop = own.and_then(|own| self.of_hop.get(own).copied());
        let wait_stack = match piece.segment.state {
            State::Sleeping(_) => piece.segment.wait_stack(analysis.trace),
            _ => StackId::EMPTY,
        };
        let (thread, cause, state) = (piece.thread, piece.cause, piece.segment.state);
        let key = PieceKey { hop, thread, cause, state, wait_stack, occupant };
        let at = *self.by_key.entry(key).or_insert_with(|| {
            self.pieces.push((hop, occupant, Sum::new(piece)));
            self.pieces.len() - 1
        });
        let ns = piece.window.duration_ns();
        self.pieces[at].2.add(piece, ns, piece.count());
        if let Some(hop) = hop {
            self.hops[hop].sum.ns += ns;
        }
    }

    /// Lays the sums into `window`: each hop around the pieces behind it, as long as they are.
    fn lay(mut self, window: Window, explanation: &mut Explanation) {
        for at in (0..self.hops.len()).rev() {
            if let Some(parent) = self.hops[at].parent {
                self.hops[parent].sum.ns += self.hops[at].sum.ns;
            }
        }
        // Where the next sum behind each hop goes; the last is for those behind no hop of the burst.
        let root = self.hops.len();
        let mut next: Vec<Time> = vec![window.start; root + 1];
        let mut place = |behind: Option<usize>, of: Option<usize>, ns: u64| {
            let start = next[behind.unwrap_or(root)];
            let placed = Window::new(start, start.plus(ns));
            next[behind.unwrap_or(root)] = placed.end;
            if let Some(of) = of {
                next[of] = placed.start;
            }
            placed
        };
        let number = |at: usize| (self.before + at) as u32;
        for (at, HopSum { parent, sum, queued_ns }) in self.hops.iter().enumerate() {
            let window = place(*parent, Some(at), sum.ns);
            let waits_from = window.start.plus(*queued_ns).min(window.end);
            explanation.lead(Hop {
                window,
                slept: Window::new(waits_from, window.end),
                waits: sum.count,
                parent: parent.map_or(sum.longest.parent, |parent| Some(number(parent))),
                ..sum.longest
            });
        }
        for (hop, occupant, sum) in &self.pieces {
            let placed = place(*hop, None, sum.ns);
            explanation.pieces.push(Piece {
                window: placed,
                hop: hop.map_or(sum.longest.hop, |hop| Some(number(hop))),
                segment: sum.longest.segment.within(placed),
                burst: Some(Burst { window, pieces: sum.count, occupant: *occupant }),
                ..sum.longest
            });
        }
    }
}
