//! Decides whether a trace can be from this machine since its last boot. Only then do this
//! machine's symbol list and JIT maps apply.
//!
//! Format: `proc_sys_kernel(5)` and `btime` of `proc_stat(5)`. *Why the boot matters*: after each
//! boot the kernel lies at another address and pids start over, so the same machine's list gives
//! wrong names that look right.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use unhitch_model::{Meta, Trace};

/// The running kernel's symbol list.
pub(crate) const KALLSYMS: &str = "/proc/kallsyms";
/// Where JIT runtimes put their maps.
pub(crate) const PERF_MAP_DIR: &str = "/tmp";
/// Maximum correction of the clock between the recording and now, seconds.
const MAX_CLOCK_CORRECTION_S: i128 = 60;

/// Why the trace is not from this machine since its last boot; `None` if it is, or if that is
/// unknown.
pub(crate) fn foreign(meta: &Meta) -> Option<&'static str> {
    let differs = |recorded: &str, path| {
        !recorded.is_empty()
            && std::fs::read_to_string(path).is_ok_and(|ours| ours.trim_end() != recorded)
    };
    if differs(&meta.host, "/proc/sys/kernel/hostname") {
        return Some("the trace is from another machine");
    }
    if differs(&meta.kernel, "/proc/sys/kernel/osrelease") {
        return Some("the trace is from a different kernel than the running one");
    }
    // The monotonic clock starts with the kernel and stops while the machine sleeps, so its zero
    // only moves forward.
    let started_before = |epoch_ns: i128| {
        boot_time_s()
            .is_some_and(|boot_s| epoch_ns / 1_000_000_000 + MAX_CLOCK_CORRECTION_S < boot_s)
    };
    meta.epoch_ns
        .is_some_and(started_before)
        .then_some("the machine has been restarted since the recording")
}

/// When the recording ended, by the wall clock. A file written later is not what ran.
pub(crate) fn recorded_until(trace: &Trace) -> Option<SystemTime> {
    let end_ns =
        u64::try_from(trace.meta.epoch_ns?).ok()?.checked_add(trace.common_window().end.nanos())?;
    UNIX_EPOCH.checked_add(Duration::from_nanos(end_ns))
}

fn boot_time_s() -> Option<i128> {
    std::fs::read_to_string("/proc/stat")
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn live_origin() {
        let now_ns = |since_s: i128| boot_time_s().map(|boot_s| (boot_s + since_s) * 1_000_000_000);
        let kernel =
            std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_owned();
        assert_eq!(foreign(&Meta::default()), None);
        assert_eq!(foreign(&Meta { kernel, epoch_ns: now_ns(0), ..Meta::default() }), None);
        assert_eq!(
            foreign(&Meta { epoch_ns: now_ns(3600), ..Meta::default() }),
            None,
            "it slept for an hour"
        );
        assert!(foreign(&Meta { epoch_ns: now_ns(-3600), ..Meta::default() }).is_some());
        assert!(foreign(&Meta { kernel: "2.6.32".into(), ..Meta::default() }).is_some());
        assert!(foreign(&Meta { host: "not this one".into(), ..Meta::default() }).is_some());
    }
}
