//! One thread's time in one state.

use super::cycle::{NONE, number, seen};
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

/// An interval of one thread's time in one state. *Why numbers of 32 bits:* a storm has millions of
/// segments, and copying them is what takes the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// When.
    pub window: Window,
    /// The state.
    pub state: State,
    out: u32,
    earlier: u32,
    wake: u32,
    back: u32,
}

impl Segment {
    /// Time of which nothing is known.
    pub fn unknown(window: Window) -> Self {
        Self::new(window, State::Unknown)
    }

    /// Time in a state, of whose begin and end nothing is known.
    pub fn new(window: Window, state: State) -> Self {
        Self { window, state, out: NONE, earlier: NONE, wake: NONE, back: NONE }
    }

    /// The same, with the switch that took the thread off the CPU.
    pub fn with_out(self, out: Option<usize>) -> Self {
        Self { out: number(out), ..self }
    }

    /// The same, with the wait that began before the window.
    pub fn with_earlier(self, earlier: Option<usize>) -> Self {
        Self { earlier: number(earlier), ..self }
    }

    /// The same, with its wake-up.
    pub fn with_wake(self, wake: Option<usize>) -> Self {
        Self { wake: number(wake), ..self }
    }

    /// The same, with the switch that put the thread on a CPU.
    pub fn with_back(self, back: Option<usize>) -> Self {
        Self { back: number(back), ..self }
    }

    /// The same state and events in another window.
    pub fn within(self, window: Window) -> Self {
        Self { window, ..self }
    }

    /// The same, begun by another departure from the CPU.
    pub fn begun_by(self, earlier: &Self) -> Self {
        let window = Window::new(earlier.window.start, self.window.end);
        Self { window, out: earlier.out, earlier: earlier.earlier, ..self }
    }

    /// True if the thread waited for something other than a CPU.
    pub fn is_sleep(&self) -> bool {
        matches!(self.state, State::Sleeping(_))
    }

    /// The switch that took it off the CPU, whose stack is the wait stack (Runnable, Sleeping).
    pub fn out(&self) -> Option<usize> {
        seen(self.out)
    }

    /// Instead of `out`, for a sleep that began before the window: its number in
    /// [`Trace::earlier_waits`].
    pub fn earlier(&self) -> Option<usize> {
        seen(self.earlier)
    }

    /// The wake-up that ended the sleep (Sleeping) or began the wait for a CPU (Runnable).
    pub fn wake(&self) -> Option<usize> {
        seen(self.wake)
    }

    /// The switch that put it on a CPU: at the end of Runnable, at the start of Ran.
    pub fn back(&self) -> Option<usize> {
        seen(self.back)
    }

    /// The wait stack, empty when none was recorded.
    pub fn wait_stack(&self, trace: &Trace) -> StackId {
        match (self.out(), self.earlier_wait(trace)) {
            (Some(out), _) => trace.switches.stack.get(out).copied().unwrap_or_default(),
            (None, Some(earlier)) => earlier.stack,
            (None, None) => StackId::EMPTY,
        }
    }

    /// The sleep, if it began before the window.
    pub fn earlier_wait<'a>(&self, trace: &'a Trace) -> Option<&'a EarlierWait> {
        trace.earlier_waits.get(self.earlier()?)
    }

    /// When the thread left its CPU (Runnable, Sleeping), if that is known.
    pub fn left(&self, trace: &Trace) -> Option<Time> {
        let earlier = || self.earlier_wait(trace).map(|earlier| earlier.since);
        self.out().and_then(|out| trace.switches.time.get(out).copied()).or_else(earlier)
    }
}
