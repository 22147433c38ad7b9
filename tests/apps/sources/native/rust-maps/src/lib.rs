//! What the programs have in common: a clock, a flag of the harness, and a rhythm that measures itself.

use std::time::Duration;

/// How long a hang takes.
pub const LONG: Duration = Duration::from_millis(1200);

const PERIOD: Duration = Duration::from_millis(20);
const SLOW_NS: i64 = 100_000_000;

/// The time of CLOCK_MONOTONIC.
fn now_ns() -> i64 {
    // SAFETY: all bytes of a timespec may be zero, and the kernel writes this one.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time
    };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The id of this thread.
pub fn thread_id() -> i64 {
    // SAFETY: it has no arguments, and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// Whether the harness has made the file since the last call.
pub fn told(flag: &str) -> bool {
    std::fs::remove_file(flag).is_ok()
}

/// Repeats the operation every 20 ms, and prints when it was slow.
pub fn rhythm(operation: impl Fn()) -> ! {
    loop {
        let from = now_ns();
        operation();
        let to = now_ns();
        if to - from >= SLOW_NS {
            println!("{{\"from\": {from}, \"to\": {to}}}");
        }
        std::thread::sleep(PERIOD);
    }
}
