//! An explanation: the pieces of a window by cause, and the hops that lead to them.

use crate::stacks::{WaitClass, WakeSource};
use crate::timeline::Segment;
use std::ops::Range;
use unhitch_model::{StackId, ThreadId, Window};

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
    /// It waited for a device other than a disk: graphics, sound, USB.
    Device,
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

/// What a thread did that let others wait, of whom it woke none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Meanwhile {
    /// It ran, in the same process.
    Ran,
    /// It served the disk that was waited for, a file.
    ServedDisk,
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
    /// The lock that it waited for, by its address (avma), where the kernel or the system call
    /// tells it.
    pub lock_avma: Option<u64>,
    /// Who held the lock when the wait began, where the lock's memory said so.
    pub owner: Option<ThreadId>,
    /// The wake-up of another waiter by which `by` released the lock, as an index into the wakings,
    /// where `by` is the owner that the lock's memory named, and not the thread that woke the
    /// sleeper in the end.
    pub released: Option<usize>,
    /// How often it woke by its own timer meanwhile, only to check whether it could go on.
    pub looks: u32,
    /// The sleeper's wake-up, as an index into the wakings; none when the lock word named the owner
    /// instead, or `by` only did something meanwhile, or only started the waker.
    pub wake: Option<usize>,
    /// What `by` did meanwhile, for which it waited, when nobody woke it for that.
    pub meanwhile: Option<Meanwhile>,
    /// True when its own timer ended the sleep: it had no answer yet from `by`, which it had asked.
    pub gave_up: bool,
    /// The thread that ended the sleep, where it did not exist yet, and `by` is the one that started it.
    pub started: Option<ThreadId>,
    /// In which context the wake-up was issued.
    pub source: WakeSource,
    /// Who woke it, or owned the lock.
    pub by: ThreadId,
    /// The hop that led here; none when the sleeper is the victim.
    pub parent: Option<u32>,
    /// The victim's own wait that leads here, which may be this one, by its number.
    pub root: u32,
    /// 1 for the victim's own waits, one more for each hop.
    pub depth: u32,
    /// How many waits it stands for: 1, but for those of a burst.
    pub waits: u32,
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
    /// The thread's own segment (clipped), with its stack and wake-up; of a burst, the longest.
    pub segment: Segment,
    /// The burst that it is a sum of.
    pub burst: Option<Burst>,
}

/// Many short pieces in a row, of which those alike are summed: what they sum to is exact, when in the
/// burst each came is not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Burst {
    /// All of the burst.
    pub window: Window,
    /// How many pieces were summed.
    pub pieces: u32,
    /// Who had the CPU, where the pieces waited for one.
    pub occupant: Option<ThreadId>,
}

impl Piece {
    /// A time that holds all that its thread did in it: its window, or the burst that it is a part of.
    pub fn span(&self) -> Window {
        self.burst.map_or(self.window, |burst| burst.window)
    }

    /// How many pieces it stands for: 1, but for those of a burst.
    pub fn count(&self) -> u32 {
        self.burst.map_or(1, |burst| burst.pieces)
    }
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
    /// The other thread that the verdict blames: a wait for any event that leads to it was one for it.
    pub blames: Option<ThreadId>,
}

impl Hop {
    /// True when it explains more than the sleep: the lock's holder before the sleeper queued is
    /// inferred, or that events before the last did not matter.
    pub fn is_queued(&self) -> bool {
        self.window.start < self.slept.start
    }

    /// The wake-up by which `by` let the sleeper, or another waiter, go on.
    pub fn release(&self) -> Option<usize> {
        self.wake.or(self.released)
    }

    /// True when the sleeper polled by its own timer: the thread that it waited for until the last
    /// poll is inferred from the thread that finally woke it.
    pub fn is_timed(&self) -> bool {
        self.looks > 0
    }
}

impl Explanation {
    /// The hop that led to a piece.
    pub fn hop_of(&self, piece: &Piece) -> Option<&Hop> {
        self.hop(piece.hop)
    }

    /// The victim's own wait that leads to the hop with this number, which may be that one.
    pub(crate) fn root(&self, number: u32) -> Option<&Hop> {
        self.hop(Some(self.hop(Some(number))?.root))
    }

    /// Adds a hop, of which the root is not known yet. Returns its number.
    pub(crate) fn lead(&mut self, hop: Hop) -> u32 {
        let number = self.hops.len() as u32;
        let root = self.hop(hop.parent).map_or(number, |parent| parent.root);
        self.hops.push(Hop { root, ..hop });
        number
    }

    /// The hop with this number.
    pub(crate) fn hop(&self, number: Option<u32>) -> Option<&Hop> {
        self.hops.get(number? as usize)
    }

    /// By hop: what `of` tells of it, or else of the nearest of those that led to it.
    pub(crate) fn nearest<T: Copy>(&self, of: impl Fn(u32, &Hop) -> Option<T>) -> Vec<Option<T>> {
        let mut nearest: Vec<Option<T>> = Vec::with_capacity(self.hops.len());
        for (number, hop) in (0..).zip(&self.hops) {
            let above = hop.parent.and_then(|parent| *nearest.get(parent as usize)?);
            nearest.push(of(number, hop).or(above));
        }
        nearest
    }

    /// By hop: its place, and one past those of all that it led to, in an order in which they follow it.
    pub(crate) fn places(&self) -> Vec<Range<usize>> {
        let parent = |at: usize| self.hops.get(at)?.parent.map(|parent| parent as usize);
        let mut counts = vec![1; self.hops.len()];
        for at in (0..counts.len()).rev() {
            if let Some(parent) = parent(at) {
                counts[parent] += counts[at];
            }
        }
        let mut places: Vec<Range<usize>> = Vec::with_capacity(counts.len());
        // Where the next hop goes that each led to, and the next own wait of the victim.
        let (mut next, mut root) = (vec![0; counts.len()], 0);
        for (at, count) in counts.into_iter().enumerate() {
            let slot = parent(at).map_or(&mut root, |parent| &mut next[parent]);
            let place = *slot..*slot + count;
            *slot = place.end;
            next[at] = place.start + 1;
            places.push(place);
        }
        places
    }

    /// The hop with this number and those that led to it, up to the victim's own wait, each with its
    /// number.
    pub(crate) fn hops_to(&self, number: Option<u32>) -> impl Iterator<Item = (u32, &Hop)> {
        let numbered = |number: Option<u32>| number.zip(self.hop(number));
        std::iter::successors(numbered(number), move |(_, hop)| numbered(hop.parent))
    }
}
