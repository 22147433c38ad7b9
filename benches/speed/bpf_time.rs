//! How long BPF programs ran, as the kernel counts it (`kernel.bpf_stats_enabled`). Counting adds some
//! 40 ns to each run; what the kernel needs to call a program (some 0.1 µs) is not in it.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Counts the run time of BPF programs while it exists.
pub struct Counting(String);

impl Counting {
    pub fn start() -> anyhow::Result<Self> {
        let before = fs::read_to_string(STATS).context("the kernel counts no BPF run time")?;
        fs::write(STATS, "1").context("only root may count BPF run time")?;
        Ok(Self(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = fs::write(STATS, &self.0);
    }
}

/// The run time so far of the programs that a process has loaded, in seconds.
pub fn of_process(pid: u32) -> f64 {
    let texts = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = texts.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    // A program may have several descriptors: those of its links have no run time.
    let time = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("run_time_ns:"))?;
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
        Some((id.trim().to_owned(), line.trim().parse::<u64>().ok()?))
    };
    let times: BTreeMap<String, u64> = texts.filter_map(time).collect();
    times.values().sum::<u64>() as f64 / 1e9
}
