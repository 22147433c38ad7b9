//! The threads of a [`Machine`](super::Machine) and the events of its trace.

use crate::code::Stack;

/// A thread of the machine; 0 is the idle thread of every CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Thread(pub usize);

/// The idle thread.
pub(crate) const IDLE: Thread = Thread(0);

/// What the kernel knows of a thread.
#[derive(Clone)]
pub(crate) struct Task {
    pub pid: u32,
    pub tid: u32,
    pub comm: String,
    /// When it was created, 0 for those that were there before.
    pub born: u64,
}

/// How a stay on a CPU ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// It waits, and a signal could end that.
    Sleeping(Stack),
    /// It waits for something that only the kernel can give.
    Blocked(Stack),
    /// It lost the CPU to another thread.
    Preempted(Stack),
    /// It has ended.
    Dead(Stack),
}

impl Left {
    /// Where it was.
    pub(crate) const fn stack(self) -> Stack {
        match self {
            Self::Preempted(stack)
            | Self::Sleeping(stack)
            | Self::Blocked(stack)
            | Self::Dead(stack) => stack,
        }
    }
}

/// A record of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Switch {
        prev: Thread,
        left: Left,
        next: Thread,
    },
    Waking {
        waker: Thread,
        wakee: Thread,
        target_cpu: usize,
        interrupt: bool,
        new: bool,
        stack: Stack,
    },
    Sample {
        thread: Thread,
        stack: Stack,
    },
    /// What only Windows notes.
    Note {
        thread: Thread,
        note: Note,
    },
}

/// What a running thread tells of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// It saw a key go down.
    Key,
    /// It looks at its messages again after so many milliseconds.
    UiDelay(u32),
}

/// A record with its time, nanoseconds of the trace's clock, and CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub time: u64,
    pub cpu: usize,
    pub action: Action,
}
