//! Which kernel lock a wait was for: `lock:contention_begin` names its address, and the thread
//! falls asleep a moment later in the same call.
//!
//! *Why the stacks are compared, too:* an end that was lost would let a wait seem to last on, into
//! sleeps for something else. The events cover what the kernel itself waits for: mutexes,
//! rw-semaphores, rt-mutexes, per-CPU semaphores. A futex is no lock to the kernel.

use crate::timeline::{Segment, State};
use crate::{Analysis, Hop, WaitClass};
use rustc_hash::FxHashMap;
use unhitch_model::{ContentionKind, StackId, ThreadId, Time, Trace};

/// A thread's wait for one lock, as the kernel reported it.
struct Contention {
    begin: Time,
    /// When its end was reported; the end of time where that was not seen.
    end: Time,
    lock_avma: u64,
    stack: StackId,
}

/// The reported waits of each thread, in order of time.
#[derive(Default)]
pub(crate) struct KernelLocks(FxHashMap<ThreadId, Vec<Contention>>);

impl KernelLocks {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut waits: FxHashMap<ThreadId, Vec<Contention>> = FxHashMap::default();
        let events = &trace.contentions;
        for index in 0..events.len() {
            let (time, lock_avma) = (events.time[index], events.lock_avma[index]);
            let of_thread = waits.entry(events.thread[index]).or_default();
            // A pure spin ends without having begun: its beginning is not recorded.
            let open = of_thread
                .last_mut()
                .filter(|wait| wait.lock_avma == lock_avma && wait.end == Time::MAX);
            match (events.kind[index], open) {
                (ContentionKind::End, Some(wait)) => wait.end = time,
                // One wait may be told more than once: as it spins, as it goes to sleep.
                (ContentionKind::End, None) | (ContentionKind::Begin, Some(_)) => {}
                (ContentionKind::Begin, None) => {
                    of_thread.push(Contention {
                        begin: time,
                        end: Time::MAX,
                        lock_avma,
                        stack: events.stack[index],
                    });
                }
            }
        }
        Self(waits)
    }

    /// The wait inside which `thread` fell asleep at `time`.
    fn at(&self, thread: ThreadId, time: Time) -> Option<&Contention> {
        let waits = self.0.get(&thread)?;
        let last = waits.partition_point(|wait| wait.begin <= time).checked_sub(1)?;
        waits.get(last).filter(|wait| time < wait.end)
    }
}

impl Analysis<'_> {
    /// The address (kernel avma) of the lock for which a thread slept, where the kernel reported
    /// it.
    pub fn lock_of(&self, thread: ThreadId, segment: &Segment) -> Option<u64> {
        let State::Sleeping(_) = segment.state else { return None };
        let wait = self.kernel_locks.at(thread, *self.trace.switches.time.get(segment.out?)?)?;
        let stack = segment.wait_stack(self.trace);
        let in_kernel = &self.trace.stacks.frames_of(stack)[..self.trace.stacks.kernel_len(stack)];
        let functions = |frame| self.trace.symbols.get(frame).last().map(|symbol| symbol.function);
        let leaf = self.leaf(wait.stack);
        let same_call = leaf.is_none() || in_kernel.iter().any(|frame| functions(*frame) == leaf);
        (same_call && self.class_of(segment) == WaitClass::Lock).then_some(wait.lock_avma)
    }

    /// Whether `segment` of `thread` was a sleep for the lock of `hop`, where the addresses of both
    /// are known.
    pub(crate) fn is_same_address(
        &self,
        hop: &Hop,
        thread: ThreadId,
        segment: &Segment,
    ) -> Option<bool> {
        Some(hop.lock_avma? == self.lock_of(thread, segment)?)
    }
}
