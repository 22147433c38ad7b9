//! CPUs of whose idle thread the kernel says nothing.
//!
//! Seen on a virtual machine with Linux 6.18: whatever happened while one CPU's idle thread was current (that it left, what its
//! interrupts woke) was in no perf event of any kind, in `perf record`'s files and `perf stat`'s counts as little as in ours, with no
//! loss reported; BPF programs on the same tracepoints saw it all. Left alone, every thread that comes on such a CPU out of idleness
//! would come from nowhere. So each CPU is tried for it, and where it is so, a second event records who arrives.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;
use unhitch_formats::perf_data::EventAttr;
use unhitch_formats::perf_data::attr::{TYPE_TRACEPOINT, flag};

/// Naps on each CPU; between any two, the CPU idles at least once unless others keep it busy.
const NAPS: usize = 3;
const NAP: Duration = Duration::from_micros(60);

/// Which of the `online` CPUs went idle without ever being reported to leave idleness. `switch_id` is the id of `sched:sched_switch`.
pub(crate) fn silent_cpus(online: &[u16], switch_id: u64) -> Vec<u16> {
    let online = online.to_vec();
    // A thread of its own, because it goes from CPU to CPU. Where the trial fails there is nothing to tell: recording begins without.
    let trial = move || online.into_iter().filter(|&cpu| is_silent(cpu, switch_id).unwrap_or(false)).collect();
    thread::Builder::new().name("unhitch-probe".to_owned()).spawn(trial).ok().and_then(|trial| trial.join().ok()).unwrap_or_default()
}

fn is_silent(cpu: u16, switch_id: u64) -> io::Result<bool> {
    let (to_idle, from_idle) = (counter(cpu, switch_id, "next_pid == 0")?, counter(cpu, switch_id, "prev_pid == 0")?);
    sys::pin(cpu)?;
    (0..NAPS).for_each(|_| thread::sleep(NAP));
    Ok(sys::read_count(to_idle.as_fd())? >= NAPS as u64 - 1 && sys::read_count(from_idle.as_fd())? == 0)
}

/// An event that only counts.
fn counter(cpu: u16, switch_id: u64, filter: &str) -> io::Result<OwnedFd> {
    let attr = EventAttr { kind: TYPE_TRACEPOINT, config: switch_id, flags: flag::DISABLED, ..EventAttr::default() };
    let fd = sys::perf_event_open(&attr.encode(), cpu)?;
    sys::set_filter(fd.as_fd(), filter)?;
    sys::enable(fd.as_fd())?;
    Ok(fd)
}
