//! One thread's time in one state.

use unhitch_model::{EarlierWait, StackId, TaskState, Time, Trace, Window};

/// What a thread was doing in a [`Segment`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// On a CPU.
    Ran,
    /// Ready to run, but without a CPU: woken, or preempted.
    Runnable {
        /// True if it was taken off the CPU, false if it was woken.
        preempted: bool,
    },
    /// Waiting for something other than a CPU.
    Sleeping(TaskState),
    /// Hidden by lost records or by the start or end of the recording.
    Unknown,
}

/// An interval of one thread's time in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// When.
    pub window: Window,
    /// The state.
    pub state: State,
    /// The switch that took it off the CPU, whose stack is the wait stack (Runnable, Sleeping).
    pub out: Option<usize>,
    /// Instead of `out`, for a sleep that began before the window: its number in
    /// [`Trace::earlier_waits`].
    pub earlier: Option<usize>,
    /// The wake-up that ended the sleep (Sleeping) or began the wait for a CPU (Runnable).
    pub wake: Option<usize>,
    /// The switch that put it on a CPU: at the end of Runnable, at the start of Ran.
    pub back: Option<usize>,
}

impl Segment {
    /// Time of which nothing is known.
    pub fn unknown(window: Window) -> Self {
        Self { window, state: State::Unknown, out: None, earlier: None, wake: None, back: None }
    }

    /// The wait stack, empty when none was recorded.
    pub fn wait_stack(&self, trace: &Trace) -> StackId {
        match (self.out, self.earlier_wait(trace)) {
            (Some(out), _) => trace.switches.stack.get(out).copied().unwrap_or_default(),
            (None, Some(earlier)) => earlier.stack,
            (None, None) => StackId::EMPTY,
        }
    }

    /// The sleep, if it began before the window.
    pub fn earlier_wait<'a>(&self, trace: &'a Trace) -> Option<&'a EarlierWait> {
        trace.earlier_waits.get(self.earlier?)
    }

    /// When the thread left its CPU (Runnable, Sleeping), if that is known.
    pub fn left(&self, trace: &Trace) -> Option<Time> {
        let earlier = || self.earlier_wait(trace).map(|earlier| earlier.since);
        self.out.and_then(|out| trace.switches.time.get(out).copied()).or_else(earlier)
    }
}
