//! CPUs of whose idle thread the kernel says nothing.
//!
//! Seen on a virtual machine with Linux 6.18: whatever happened while one CPU's idle thread was
//! current (that it left, what its interrupts woke) was in no perf event of any kind, in `perf
//! record`'s files and `perf stat`'s counts as little as in ours, with no loss reported; BPF
//! programs on the same tracepoints saw it all. Left alone, every thread that comes on such a CPU
//! out of idleness would come from nowhere. So each CPU is tried for it, and where it is so, a
//! second event records who arrives.

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

/// A CPU that was not seen to leave idleness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Silent {
    pub(crate) cpu: u16,
    /// It was seen to go idle: then it must have left that, too. Otherwise others kept it busy, and
    /// nobody knows.
    pub(crate) certain: bool,
}

/// Which of the `online` CPUs were not seen to leave idleness. `switch_id` is the id of
/// `sched:sched_switch`.
pub(crate) fn silent_cpus(online: &[u16], switch_id: u64) -> Vec<Silent> {
    let online = online.to_vec();
    // A thread of its own, because it goes from CPU to CPU. Where the trial fails there is nothing
    // to tell: recording begins without.
    let trial = move || {
        online.into_iter().filter_map(|cpu| silent(cpu, switch_id).ok().flatten()).collect()
    };
    thread::Builder::new()
        .name("unhitch-probe".to_owned())
        .spawn(trial)
        .ok()
        .and_then(|trial| trial.join().ok())
        .unwrap_or_default()
}

fn silent(cpu: u16, switch_id: u64) -> io::Result<Option<Silent>> {
    let (to_idle, from_idle) =
        (counter(cpu, switch_id, "next_pid == 0")?, counter(cpu, switch_id, "prev_pid == 0")?);
    sys::pin(cpu)?;
    (0..NAPS).for_each(|_| thread::sleep(NAP));
    let certain = sys::read_count(to_idle.as_fd())? >= NAPS as u64 - 1;
    Ok((sys::read_count(from_idle.as_fd())? == 0).then_some(Silent { cpu, certain }))
}

/// An event that only counts.
fn counter(cpu: u16, switch_id: u64, filter: &str) -> io::Result<OwnedFd> {
    let attr = EventAttr {
        kind: TYPE_TRACEPOINT,
        config: switch_id,
        flags: flag::DISABLED,
        ..EventAttr::default()
    };
    let fd = sys::perf_event_open(&attr.encode(), cpu)?;
    sys::set_filter(fd.as_fd(), filter)?;
    sys::enable(fd.as_fd())?;
    Ok(fd)
}
