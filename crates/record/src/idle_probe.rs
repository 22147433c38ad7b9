//! Finds CPUs whose idle thread produces no perf events.
//!
//! Seen on a virtual machine with Linux 6.18: on one CPU, nothing that happened while the idle
//! thread was current (switches away from it, wake-ups by its interrupts) showed up in any perf
//! event. `perf record` and `perf stat` missed it, too, and no loss was reported, while BPF
//! programs on the same tracepoints saw everything. Without countermeasures, every thread that runs
//! after idle on such a CPU would seem to come from nowhere. So we probe each CPU, and where this
//! happens, a second event records which thread arrives.

use crate::sys;
use crate::tracepoint_count::TracepointCount;
use std::io;
use std::thread;
use std::time::Duration;

/// How often to sleep on each CPU. Each time, the CPU goes idle unless other threads keep it busy.
const SLEEPS: usize = 3;
/// How long each sleep lasts.
const SLEEP: Duration = Duration::from_micros(60);

/// A CPU on which no switch away from the idle thread was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SilentCpu {
    pub(crate) cpu: u16,
    /// True if it was seen to go idle: then it must also have left idle. Otherwise other threads
    /// kept it busy, and we cannot know.
    pub(crate) certain: bool,
}

/// The `online` CPUs on which no switch away from the idle thread was seen. `switch_id` is the id
/// of `sched:sched_switch`.
pub(crate) fn silent_cpus(online: &[u16], switch_id: u64) -> Vec<SilentCpu> {
    let online = online.to_vec();
    // This uses its own thread because it moves from CPU to CPU. If the probe fails, recording
    // starts without it.
    let probe_all =
        move || online.into_iter().filter_map(|cpu| probe(cpu, switch_id).ok().flatten()).collect();
    thread::Builder::new()
        .name("unhitch-probe".to_owned())
        .spawn(probe_all)
        .ok()
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default()
}

fn probe(cpu: u16, switch_id: u64) -> io::Result<Option<SilentCpu>> {
    let count = |filter: &str| TracepointCount::start(switch_id, filter, &[cpu]);
    let (to_idle, from_idle) = (count("next_pid == 0")?, count("prev_pid == 0")?);
    sys::pin(cpu)?;
    (0..SLEEPS).for_each(|_| thread::sleep(SLEEP));
    let certain = to_idle.read()? >= SLEEPS as u64 - 1;
    Ok((from_idle.read()? == 0).then_some(SilentCpu { cpu, certain }))
}
