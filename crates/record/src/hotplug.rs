//! CPUs that go offline and come online while a recording goes on.
//!
//! What perf events of such a CPU there were, the kernel has taken away for good. Every suspend to
//! memory does that to all CPUs but the first, and they are back before any program runs.

use crate::{procfs, sys};
use rustc_hash::FxHashSet;
use unhitch_model::Time;

/// When to look for events that the kernel has taken away.
pub(crate) struct Hotplug {
    online: Vec<u16>,
    /// For how long the machine has been suspended, in nanoseconds.
    suspended_ns: u64,
    looked: Time,
    /// Not all of them could be opened again.
    pub(crate) is_open: bool,
}

/// The clocks are not read at the same instant.
const CLOCK_NOISE_NS: u64 = 1_000_000;
/// A CPU that was offline for a moment leaves no trace but that.
const INTERVAL_NS: u64 = 10_000_000_000;

impl Hotplug {
    pub(crate) fn new(now: Time) -> Self {
        let (online, suspended_ns) = (procfs::online_cpus(), sys::suspended_ns());
        Self { online, suspended_ns, looked: now, is_open: false }
    }

    /// True if a CPU may have come back since the last time: others are online, the machine was
    /// suspended, or it is some time ago.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let new = Self::new(now);
        let slept = new.suspended_ns.abs_diff(self.suspended_ns) > CLOCK_NOISE_NS;
        let is_old = now.since(self.looked) >= INTERVAL_NS;
        let is_due = slept || is_old || self.is_open || new.online != self.online;
        if is_due {
            *self = new;
        }
        is_due
    }
}

/// What is missing, as warnings for the user. `unrecorded` went offline and came back, but not what
/// recorded them: all of it, or by `programs` of ours in the kernel only their samples.
pub(crate) fn warnings(
    recorded: &[u16],
    unrecorded: &FxHashSet<u16>,
    programs: bool,
) -> Vec<String> {
    let online = procfs::online_cpus();
    let came = online.iter().filter(|cpu| !recorded.contains(cpu)).map(|cpu| {
        format!(
            "CPU {cpu} came online after recording started and is not recorded: restart the \
             recorder"
        )
    });
    let went = recorded.iter().filter(|cpu| !online.contains(cpu));
    let went =
        went.map(|cpu| format!("CPU {cpu} went offline while recording: nothing runs there"));
    let mut back: Vec<u16> =
        unrecorded.iter().copied().filter(|cpu| online.contains(cpu)).collect();
    back.sort_unstable();
    let missing = if programs { "no CPU samples of it are" } else { "nothing of it is" };
    let back = back.into_iter().map(|cpu| {
        format!(
            "CPU {cpu} went offline and came back; since then {missing} recorded: restart the \
             recorder"
        )
    });
    came.chain(went).chain(back).collect()
}
