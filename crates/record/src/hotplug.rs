//! CPUs that go offline and come online while a recording goes on.
//!
//! What perf events of such a CPU there were, the kernel has taken away for good. Every suspend to
//! memory does that to all CPUs but the first, and they are back before any program runs.

use crate::{procfs, sys};
use rustc_hash::FxHashSet;

/// When it is worth looking for events that the kernel has taken away.
pub(crate) struct Hotplug {
    online: Vec<u16>,
    /// For how long the machine has been suspended, in nanoseconds.
    suspended_ns: u64,
}

/// The clocks are not read at the same instant.
const CLOCK_NOISE_NS: u64 = 1_000_000;

impl Hotplug {
    pub(crate) fn new() -> Self {
        Self { online: procfs::online_cpus(), suspended_ns: sys::suspended_ns() }
    }

    /// True if a CPU may have come back since the last call: others are online, or the machine was
    /// suspended.
    pub(crate) fn is_possible(&mut self) -> bool {
        let now = Self::new();
        let slept = now.suspended_ns.abs_diff(self.suspended_ns) > CLOCK_NOISE_NS;
        let is_possible = slept || now.online != self.online;
        if is_possible {
            *self = now;
        }
        is_possible
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
