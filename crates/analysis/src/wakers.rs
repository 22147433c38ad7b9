//! The wake-ups that each thread issued, in order of time.

use crate::stacks::StackClasses;
use unhitch_model::{ThreadId, Trace, Window};

/// Indices into the wakings, by waker; without those that an interrupt issued meanwhile.
pub(crate) struct Wakers {
    /// Where each thread's begin in `wakings`; one more than there are threads.
    starts: Vec<u32>,
    wakings: Vec<u32>,
}

impl Wakers {
    pub(crate) fn new(trace: &Trace, stacks: &StackClasses) -> Self {
        let wakers = &trace.wakings.waker;
        // What follows the end of each thread's part first counts them, then is where the next
        // goes.
        let mut starts = vec![0u32; trace.threads.len() + 2];
        let by_task = |index: usize| stacks.is_by_task(trace, index);
        let place = |waker: &ThreadId| waker.index().min(trace.threads.len().saturating_sub(1)) + 2;
        let issued: Vec<bool> = (0..wakers.len()).map(by_task).collect();
        for (waker, _) in wakers.iter().zip(&issued).filter(|(_, issued)| **issued) {
            starts[place(waker)] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut wakings = vec![0u32; starts.last().map_or(0, |all| *all as usize)];
        for (index, waker) in wakers.iter().enumerate().filter(|(index, _)| issued[*index]) {
            let next = &mut starts[place(waker) - 1];
            wakings[*next as usize] = index as u32;
            *next += 1;
        }
        starts.pop();
        Self { starts, wakings }
    }

    /// The wake-ups that `thread` issued inside `window`.
    pub(crate) fn of(&self, trace: &Trace, thread: ThreadId, window: Window) -> &[u32] {
        let bounds = self.starts.get(thread.index()).zip(self.starts.get(thread.index() + 1));
        let Some(own) =
            bounds.and_then(|(from, to)| self.wakings.get(*from as usize..*to as usize))
        else {
            return &[];
        };
        let time = |waking: &u32| trace.wakings.time[*waking as usize];
        let from = own.partition_point(|waking| time(waking) < window.start);
        let rest = &own[from..];
        &rest[..rest.partition_point(|waking| time(waking) < window.end)]
    }
}
