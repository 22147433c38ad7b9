//! Which threads waited at which address.

use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{ThreadId, Trace};

/// The kernel's number of `futex(2)`, on x86-64.
pub(super) const SYS_FUTEX: u16 = 202;

/// The threads that ever waited at an address (avma), as far as the recorder noted it.
pub(crate) struct Waiters(FxHashMap<u64, FxHashSet<ThreadId>>);

impl Waiters {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut waiters: FxHashMap<u64, FxHashSet<ThreadId>> = FxHashMap::default();
        let mut add = |avma, thread| {
            waiters.entry(avma).or_default().insert(thread);
        };
        for wait in &trace.kept_waits {
            let futex = (wait.syscall == Some(SYS_FUTEX)).then_some(wait.arguments[0]);
            if let Some(avma) = wait.kernel_lock_avma.or(futex) {
                add(avma, wait.thread);
            }
        }
        trace.kept_wakes.iter().for_each(|wake| add(wake.futex_avma, wake.wakee));
        let reported = trace.contentions.lock_avma.iter().zip(&trace.contentions.thread);
        reported.for_each(|(avma, thread)| add(*avma, *thread));
        Self(waiters)
    }

    /// Those of one address.
    pub(super) fn at(&self, avma: u64) -> impl Iterator<Item = ThreadId> {
        self.0.get(&avma).into_iter().flatten().copied()
    }
}
