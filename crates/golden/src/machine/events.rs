//! The threads of a [`Machine`](super::Machine) and the events of its trace.

use crate::code::Stack;

/// A thread of the machine; 0 is the idle thread of every CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thread(pub(crate) usize);

/// The idle thread.
pub(crate) const IDLE: Thread = Thread(0);

/// A thread as the kernel knows it.
#[derive(Clone)]
pub(crate) struct Task {
    pub pid: u32,
    pub tid: u32,
    pub comm: String,
    /// When it was created; 0 if it existed before the trace.
    pub born: u64,
}

/// How a stay on a CPU ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// It waits, and a signal could end the wait.
    Sleeping(Stack),
    /// It waits, and only the kernel can end the wait.
    Blocked(Stack),
    /// It lost the CPU to another thread.
    Preempted(Stack),
    /// It has ended.
    Dead(Stack),
}

impl Left {
    /// Its stack.
    pub(crate) const fn stack(self) -> Stack {
        match self {
            Self::Preempted(stack)
            | Self::Sleeping(stack)
            | Self::Blocked(stack)
            | Self::Dead(stack) => stack,
        }
    }
}

/// The content of an event.
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
    /// An event that only Windows records.
    Note {
        thread: Thread,
        note: Note,
    },
}

/// What a running thread reports about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// It saw a key press.
    Key,
    /// It checks its messages again after this many milliseconds.
    UiDelay(u32),
}

/// An event with its time, nanoseconds of the trace's clock, and CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub time: u64,
    pub cpu: usize,
    pub action: Action,
}
