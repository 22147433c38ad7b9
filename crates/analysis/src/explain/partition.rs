//! Where a stall's time went, summed by cause and by who was responsible. Every number in an answer
//! comes from here.

use super::explanation::{Cause, Explanation, Hop, Piece};
use super::occupants::occupant_shares;
use super::wait_class::class_of;
use crate::Analysis;
use crate::stacks::WaitClass;
use crate::timeline::State;
use rustc_hash::FxHashMap;
use unhitch_model::{StackId, ThreadId};

/// What time went to, as the victim experienced it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// The victim was on a CPU.
    Ran,
    /// The victim, or the thread it waited for, wanted a CPU; `who` had it.
    WaitedForCpu,
    /// `who` ran while the victim waited for its lock.
    Lock,
    /// A block device or file system; `who` waited for it.
    Io,
    /// `who` slept until a time it had set.
    Timer,
    /// `who` waited for a device other than a disk.
    Device,
    /// `who` waited for memory.
    Memory,
    /// `who` ran while the victim waited for its message.
    Ipc,
    /// `who` waited for a message from outside the trace.
    Outside,
    /// `who` ran while the victim waited for the network.
    Network,
    /// The same of a message from outside the trace.
    OutsideNetwork,
    /// `who` ran while the victim waited for its signal: a condition variable, a semaphore.
    Condition,
    /// `who` ran, and ended a sleep that the victim had set a time for.
    Sleep,
    /// `who` ran while the victim waited for a device, or for something that no rule classifies.
    Slept,
    /// `who` was stopped.
    Stopped,
    /// Lost, or the waker is not in the recording.
    Unknown,
    /// The victim had nothing to do, whoever gave it something in the end.
    Idle,
}

impl What {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::WaitedForCpu => "waited_for_cpu",
            Self::Lock => "lock",
            Self::Io => "io",
            Self::Timer => "timer",
            Self::Memory => "memory",
            Self::Device => "device",
            Self::Ipc | Self::Outside => "ipc",
            Self::Network | Self::OutsideNetwork => "network",
            Self::Condition => "condition",
            Self::Sleep => "timer",
            Self::Slept => "slept",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
            Self::Idle => "idle",
        }
    }

    /// What another thread's running means to whoever waits in a wait of that class. *Why by
    /// class:* lanes and tables name waits by their classes, and one wait must not have two names.
    pub const fn of_class(class: WaitClass) -> Self {
        match class {
            WaitClass::Lock => Self::Lock,
            WaitClass::BlockIo | WaitClass::FileSystem => Self::Io,
            WaitClass::Memory => Self::Memory,
            WaitClass::Stopped => Self::Stopped,
            WaitClass::Condition => Self::Condition,
            WaitClass::Network => Self::Network,
            WaitClass::Timer => Self::Sleep,
            WaitClass::Device | WaitClass::Unknown => Self::Slept,
            // A thread with nothing to do that somebody waits for is on its way to reply.
            WaitClass::Ipc
            | WaitClass::Process
            | WaitClass::KernelWork
            | WaitClass::Idle
            | WaitClass::KernelIdle => Self::Ipc,
        }
    }
}

/// Words.
impl What {
    /// The label of a share; where it ends in "by", "from" or "for", a thread follows.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::WaitedForCpu => "CPU used by",
            Self::Lock => "lock held by",
            Self::Io => "disk",
            Self::Timer => "timer set by",
            Self::Memory => "memory",
            Self::Device => "device",
            Self::Ipc => "reply from",
            Self::Outside => "message for",
            Self::Network => "network reply from",
            Self::OutsideNetwork => "network message for",
            Self::Condition => "signal from",
            Self::Sleep => "sleep ended by",
            Self::Slept => "wait ended by",
            Self::Stopped => "stopped",
            Self::Unknown => "not known",
            Self::Idle => "idle",
        }
    }

    /// The label of a share that the idle thread has.
    pub const fn words_of_idle(self) -> &'static str {
        match self {
            Self::WaitedForCpu => "CPU idle while ready to run",
            other => other.words(),
        }
    }
}

/// One line of the partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// What the time went to.
    pub what: What,
    /// Who was responsible; none where nobody is known.
    pub who: Option<ThreadId>,
    /// How long, nanoseconds.
    pub ns: u64,
}

/// The partition of an explanation, largest share first. The shares sum to the window.
pub fn partition(analysis: &Analysis<'_>, explanation: &Explanation) -> Vec<Share> {
    let mut sums: FxHashMap<(What, Option<ThreadId>), u64> = FxHashMap::default();
    // Of the hops that lead to the thread that the verdict blames.
    let for_culprit =
        explanation.nearest(|_, hop| (explanation.blames == Some(hop.by)).then_some(()));
    for piece in &explanation.pieces {
        match piece.cause {
            Cause::WaitedForCpu => {
                for (occupant, ns) in occupant_shares(analysis, piece) {
                    *sums.entry((What::WaitedForCpu, occupant)).or_default() += ns;
                }
            }
            _ => {
                let (what, who) = what(analysis, explanation, &for_culprit, piece);
                *sums.entry((what, Some(who))).or_default() += piece.window.duration_ns();
            }
        }
    }
    let mut shares: Vec<Share> =
        sums.into_iter().map(|((what, who), ns)| Share { what, who, ns }).collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.ns), share.what, share.who));
    shares
}

fn what(
    analysis: &Analysis<'_>,
    explanation: &Explanation,
    for_culprit: &[Option<()>],
    piece: &Piece,
) -> (What, ThreadId) {
    let is_for_culprit = || piece.hop.is_some_and(|hop| for_culprit[hop as usize].is_some());
    if is_idle(analysis, explanation, piece) && !is_for_culprit() {
        return (What::Idle, explanation.victim);
    }
    let what = match (piece.cause, explanation.hop_of(piece)) {
        (Cause::Ran, None) => What::Ran,
        // Someone else ran: what that meant depends on what was waited for.
        // A file system's server in user space replies; the kernel's own threads do the disk's work.
        (Cause::Ran, Some(hop)) if is_by_server(analysis, hop) => What::Ipc,
        (Cause::Ran, Some(hop)) => What::of_class(hop.class),
        (Cause::WaitedForCpu, _) => What::WaitedForCpu,
        (Cause::Timer | Cause::Timeout, _) => What::Timer,
        (Cause::Io, _) => What::Io,
        (Cause::Device, _) => What::Device,
        (Cause::Memory, _) => What::Memory,
        (Cause::Message, _) => match class_of(analysis, &piece.segment) {
            WaitClass::Network => What::OutsideNetwork,
            _ => What::Outside,
        },
        (Cause::Stopped, _) => What::Stopped,
        (Cause::UnknownWaker | Cause::Lost, _) => What::Unknown,
    };
    (what, piece.thread)
}

/// True for a wait for a file system that a program ended: its server in user space.
fn is_by_server(analysis: &Analysis<'_>, hop: &Hop) -> bool {
    let stack = hop.release().map(|wake| analysis.trace.wakings.stack[wake]).unwrap_or_default();
    let is_programs = !analysis.trace.stacks.user_frames(stack).is_empty();
    hop.class == WaitClass::FileSystem && is_programs
}

/// True for a wait of the victim itself in which it had nothing to do. What others did meanwhile is
/// no answer to what kept it.
pub(crate) fn is_idle(analysis: &Analysis<'_>, explanation: &Explanation, piece: &Piece) -> bool {
    let own = own_wait(analysis, explanation, piece);
    own.is_some_and(|(class, _)| matches!(class, WaitClass::Idle | WaitClass::KernelIdle))
}

/// The class and the stack of the victim's own wait that a piece is part of.
fn own_wait(
    analysis: &Analysis<'_>,
    explanation: &Explanation,
    piece: &Piece,
) -> Option<(WaitClass, StackId)> {
    match (piece.hop.and_then(|hop| explanation.root(hop)), piece.segment.state) {
        (Some(hop), _) => Some((hop.class, hop.wait_stack)),
        (None, State::Sleeping(_)) => {
            let stack = piece.segment.wait_stack(analysis.trace);
            Some((class_of(analysis, &piece.segment), stack))
        }
        (None, _) => None,
    }
}

impl Explanation {
    /// True for a wait of the victim itself for another process.
    pub(crate) fn is_for_process(&self, analysis: &Analysis<'_>, piece: &Piece) -> bool {
        own_wait(analysis, self, piece).is_some_and(|(class, _)| class == WaitClass::Process)
    }

    /// True for a wait of the victim itself in which it had nothing to do, other than that of an
    /// event loop for its next event.
    pub(crate) fn is_rest(&self, analysis: &Analysis<'_>, piece: &Piece) -> bool {
        own_wait(analysis, self, piece).is_some_and(|(class, stack)| match class {
            WaitClass::KernelIdle => true,
            WaitClass::Idle => !analysis.stacks.is_pump(stack),
            _ => false,
        })
    }
}
