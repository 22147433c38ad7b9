//! Which kernel lock a wait was for: `lock:contention_begin` names its address, and the thread
//! falls asleep a moment later in the same call.
//!
//! *Why the stacks are compared, too:* an end that was lost would let a wait seem to last on, into
//! sleeps for something else. The events cover what the kernel itself waits for: mutexes,
//! rw-semaphores, rt-mutexes, per-CPU semaphores. A futex is no lock to the kernel.

use rustc_hash::FxHashMap;
use unhitch_model::{ContentionKind, StackId, ThreadId, Time, Trace};

/// A thread's wait for one lock, as the kernel reported it.
pub(super) struct Contention {
    begin: Time,
    /// When its end was reported; [`Time::MAX`] if it was not.
    end: Time,
    pub(super) lock_avma: u64,
    pub(super) stack: StackId,
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
            // A pure spin has an end but no beginning, which is not recorded.
            let open = of_thread
                .last_mut()
                .filter(|wait| wait.lock_avma == lock_avma && wait.end == Time::MAX);
            match (events.kind[index], open) {
                (ContentionKind::End, Some(wait)) => wait.end = time,
                // One wait may be reported more than once: when it spins, and when it sleeps.
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
    pub(super) fn at(&self, thread: ThreadId, time: Time) -> Option<&Contention> {
        let waits = self.0.get(&thread)?;
        let last = waits.partition_point(|wait| wait.begin <= time).checked_sub(1)?;
        waits.get(last).filter(|wait| time < wait.end)
    }
}
