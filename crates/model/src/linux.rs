//! Numbers and names of the Linux kernel that more than one crate needs, and the events that the
//! recorder makes of its tracepoints.

/// The priority of a thread of niceness 0, as the kernel has it.
pub const USUAL_PRIO: i16 = 120;

/// `CLOCK_MONOTONIC` (clock_gettime(2)).
pub const CLOCK_MONOTONIC: u32 = 1;
/// `CLOCK_BOOTTIME` (clock_gettime(2)).
pub const CLOCK_BOOTTIME: u32 = 7;

/// The provider and the name of an event.
pub type EventName = (&'static str, &'static str);

/// A signal was sent.
pub const SIGNAL: EventName = ("signal", "signal_generate");
/// A request to a disk is done.
pub const REQUEST: EventName = ("block", "block_rq_complete");
/// A process has written to the page cache.
pub const DIRTIED: EventName = ("writeback", "writeback_dirty_folio");
/// A lock on a file was wanted by flock(2), and refused at once.
pub const FLOCK: EventName = ("filelock", "flock_lock_inode");
/// The same by fcntl(2).
pub const POSIX_LOCK: EventName = ("filelock", "posix_lock_inode");

/// Signals that end, stop and continue programs (signal(7), x86).
pub const SIGNALS: [(u64, &str); 9] = [
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (9, "SIGKILL"),
    (15, "SIGTERM"),
    (18, "SIGCONT"),
    (19, "SIGSTOP"),
    (20, "SIGTSTP"),
    (21, "SIGTTIN"),
    (22, "SIGTTOU"),
];

/// The name of one of [`SIGNALS`].
pub fn signal_name(number: u64) -> Option<&'static str> {
    SIGNALS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// `8:1`, from the kernel's own encoding of a device.
pub fn device_text(device: u64) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}
