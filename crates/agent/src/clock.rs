//! The recorder's clock, and the X server's times on it.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Maximum difference between a time of the X server's and ours for both to be the same clock.
pub const MAX_OFFSET_MS: i64 = 5;

/// The time of an event of the X server's, which has 32 bits of milliseconds: the one closest to
/// `now_ns` with these bits. The counter wraps every 49.7 days.
pub fn event_time_ns(server_ms: u32, now_ns: u64) -> u64 {
    let now_ms = now_ns / 1_000_000;
    now_ms.saturating_add_signed(offset_ms(server_ms, now_ns)) * 1_000_000
}

/// How far the server's time is ahead of ours.
pub fn offset_ms(server_ms: u32, now_ns: u64) -> i64 {
    let now_ms = now_ns / 1_000_000;
    // Only the low 32 bits are known: what differs is at most half of their range.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    let difference = server_ms.wrapping_sub(now_ms as u32) as i32;
    i64::from(difference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_extended_over_a_wrap() {
        let wrap_ms = 1_u64 << 32;
        let now = (wrap_ms + 3) * 1_000_000 + 400_000;
        assert_eq!(event_time_ns(2, now), (wrap_ms + 2) * 1_000_000);
        assert_eq!(event_time_ns(u32::MAX, now), (wrap_ms - 1) * 1_000_000);
        assert_eq!(event_time_ns(7, 5_000_000), 7_000_000);
        assert_eq!(offset_ms(u32::MAX, now), -4);
        assert_eq!(event_time_ns(u32::MAX, 0), 0, "before our clock began");
    }
}
