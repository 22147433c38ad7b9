//! The chain of an explanation: who waited for whom, as contiguous stretches that sum to the
//! window.
//!
//! A link is a stretch of the window and the thread whose wait (or run) accounts for it. Long
//! explanations have thousands of pieces; the chain keeps the large ones, and the victim's own
//! longest wait, and lets each absorb its small neighbours, so that it stays readable and still
//! sums exactly.

use super::explanation::{Cause, Explanation, Hop, Piece};
use crate::timeline::State;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unhitch_model::{ThreadId, Window};

/// A link shorter than one part in this many of the window is absorbed by a neighbour.
const SMALL: u64 = 200;
/// Minimum links of a chain from which on short links that name another thread are absorbed, too.
const HANDFUL: usize = 6;

/// What a link's thread was doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkState {
    /// On a CPU.
    Running,
    /// Waiting for a CPU.
    Runnable,
    /// Waiting for something else.
    Sleeping,
    /// Not known.
    Unknown,
}

impl LinkState {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Sleeping => "sleeping",
            Self::Unknown => "unknown",
        }
    }
}

/// A stretch of the window.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainLink {
    /// The stretch; the links of a chain leave no gap.
    pub window: Window,
    /// The thread that waited or ran.
    pub thread: ThreadId,
    /// What that thread was doing.
    pub state: LinkState,
    /// The longest piece in it.
    pub piece: Piece,
    /// The hop it stands for, when the thread slept until another woke it.
    pub hop: Option<Hop>,
    /// How many pieces it holds.
    pub pieces: usize,
    /// How many waits for another thread, its own included unless an earlier link has it, and those of its
    /// neighbours that are alike.
    pub hops: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    thread: ThreadId,
    state: LinkState,
    by: Option<ThreadId>,
}

struct Group {
    key: Key,
    window: Window,
    piece: Piece,
    hop: Option<Hop>,
    key_ns: u64,
    pieces: usize,
    hops: usize,
    prev: usize,
    next: usize,
    version: u32,
    gone: bool,
    /// No neighbour may absorb it.
    kept: bool,
}

impl Explanation {
    /// The chain in at most `most` links, in order of time.
    pub fn chain(&self, most: usize) -> Vec<ChainLink> {
        let mut groups: Vec<Group> = Vec::new();
        // A wait has several pieces, also with those of others in between.
        let mut is_counted = vec![false; self.hops.len()];
        for piece in &self.pieces {
            let hop = self.hop_of(piece).copied();
            let sleeping = piece.segment.is_sleep();
            let (key, hop) = match (hop, sleeping) {
                // A thread that slept for a reason of its own stands for itself; anything else is
                // the wait of the one who slept for it.
                (Some(hop), false) => (
                    Key { thread: hop.sleeper, state: LinkState::Sleeping, by: Some(hop.by) },
                    Some(hop),
                ),
                _ => (Key { thread: piece.thread, state: state_of(piece), by: None }, None),
            };
            let (length, pieces) = (piece.window.duration_ns(), piece.count() as usize);
            let new = hop.zip(piece.hop).filter(|(_, index)| {
                let counted = is_counted.get_mut(*index as usize);
                counted.is_some_and(|counted| !std::mem::replace(counted, true))
            });
            let hops = new.map_or(0, |(hop, _)| hop.waits as usize);
            match groups.last_mut() {
                Some(last) if last.key == key => {
                    last.absorb(piece.window, (pieces, hops), length, Some((*piece, hop)));
                }
                _ => {
                    let (prev, next) = (groups.len().wrapping_sub(1), groups.len() + 1);
                    groups.push(Group {
                        key,
                        window: piece.window,
                        piece: *piece,
                        hop,
                        key_ns: length,
                        pieces,
                        hops,
                        prev,
                        next,
                        version: 0,
                        gone: false,
                        kept: false,
                    });
                }
            }
        }
        // However short: with it the chain begins at the one who suffered.
        let own = groups
            .iter_mut()
            .filter(|group| group.hop.is_some() && group.key.thread == self.victim);
        if let Some(longest) = own.max_by_key(|group| group.key_ns) {
            longest.kept = true;
        }
        shorten(&mut groups, self.window.duration_ns(), most);
        let kept = groups.into_iter().filter(|group| !group.gone);
        kept.map(|group| ChainLink {
            window: group.window,
            thread: group.key.thread,
            state: group.key.state,
            piece: group.piece,
            hop: group.hop,
            pieces: group.pieces,
            hops: group.hops,
        })
        .collect()
    }
}

impl Group {
    /// Absorbs a neighbour, which adds to its weight. If their keys are equal, the longer piece
    /// represents the group.
    fn absorb(
        &mut self,
        window: Window,
        (pieces, hops): (usize, usize),
        key_ns: u64,
        same_key: Option<(Piece, Option<Hop>)>,
    ) {
        self.window = self.window.joined(window);
        self.pieces += pieces;
        self.hops += hops;
        self.key_ns += key_ns;
        if let Some((piece, hop)) = same_key
            .filter(|(piece, _)| piece.window.duration_ns() > self.piece.window.duration_ns())
        {
            (self.piece, self.hop) = (piece, hop);
        }
    }

    /// Waits of one class are alike, whoever waits: many short ones in turn weigh as much as one
    /// long one.
    fn is_like(&self, other: &Self) -> bool {
        self.key == other.key
            || self.hop.zip(other.hop).is_some_and(|(own, other)| own.class == other.class)
    }
}

/// Lets neighbours absorb the smallest group until the chain is short enough, and joins equal
/// neighbours.
fn shorten(groups: &mut [Group], window_ns: u64, most: usize) {
    let mut count = groups.len();
    let mut heap: BinaryHeap<Reverse<(u64, usize, u32)>> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| Reverse((group.window.duration_ns(), index, 0)))
        .collect();
    while let Some(Reverse((length, index, version))) = heap.pop() {
        if groups[index].gone || groups[index].kept || groups[index].version != version {
            continue;
        }
        // A short run, or a short wait for a CPU, says nothing; a short wait for another thread may
        // be the hop that matters.
        let tells = groups[index].hop.is_some() && count <= HANDFUL;
        if count <= most && (tells || length.saturating_mul(SMALL) >= window_ns) {
            continue;
        }
        let (prev, next) = (groups[index].prev, groups[index].next);
        let weight = |at: usize| groups.get(at).map_or(0, |group| group.key_ns + 1);
        let into = if weight(prev) >= weight(next) { prev } else { next };
        if into >= groups.len() {
            break;
        }
        count -= merge(groups, into, index, false);
        for side in [groups[into].prev, groups[into].next] {
            if groups.get(side).is_some_and(|other| other.key == groups[into].key) {
                count -= merge(groups, into, side, true);
            }
        }
        heap.push(Reverse((groups[into].window.duration_ns(), into, groups[into].version)));
    }
}

/// Merges `from` into its neighbour `into` and unlinks it. Returns the number of groups removed: 1.
fn merge(groups: &mut [Group], into: usize, from: usize, same_key: bool) -> usize {
    let is_like = groups[into].is_like(&groups[from]);
    let (window, counts, key_ns, piece, hop) = {
        let group = &mut groups[from];
        group.gone = true;
        let (hops, key_ns) = if is_like { (group.hops, group.key_ns) } else { (0, 0) };
        (group.window, (group.pieces, hops), key_ns, group.piece, group.hop)
    };
    let (prev, next) = (groups[from].prev, groups[from].next);
    if let Some(group) = groups.get_mut(prev) {
        group.next = next;
    }
    if let Some(group) = groups.get_mut(next) {
        group.prev = prev;
    }
    groups[into].kept |= groups[from].kept;
    groups[into].absorb(window, counts, key_ns, same_key.then_some((piece, hop)));
    groups[into].version += 1;
    1
}

fn state_of(piece: &Piece) -> LinkState {
    match (piece.segment.state, piece.cause) {
        (State::Ran, _) => LinkState::Running,
        (State::Runnable { .. }, _) => LinkState::Runnable,
        (State::Unknown, _) | (_, Cause::Lost) => LinkState::Unknown,
        (State::Sleeping(_), _) => LinkState::Sleeping,
    }
}
