//! [`LogHeader`]: the first event of every file (`TRACE_LOGFILE_HEADER`), which says what
//! timestamps count. [`Clock`]: converts timestamps to time.

use super::buffer::{u32_at, u64_at};
use unhitch_model::Time;

/// The used fields of `TRACE_LOGFILE_HEADER`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogHeader {
    /// Timestamp of the event that carries it, which is the trace's zero.
    pub zero: i64,
    /// Length of a pointer on the recorded machine, bytes.
    pub pointer_bytes: u8,
    pub build: u32,
    pub cpus: u32,
    /// `EVENT_TRACE_*_MODE`.
    pub mode: u32,
    pub events_lost: u32,
    pub buffers_lost: u32,
    pub cpu_mhz: u32,
    /// 1: performance counter, 2: system time, 3: CPU cycles.
    pub clock_type: u32,
    pub frequency: u64,
    /// When the session began, 100 ns since 1601.
    pub start: u64,
    pub session: String,
    /// Number of buffers that the session claims to have written.
    pub buffers_written: u32,
}

impl LogHeader {
    /// Reads the payload of the event; `zero` is its timestamp.
    pub(crate) fn read(payload: &[u8], zero: i64) -> Option<Self> {
        let pointer_bytes = match u32_at(payload, 0x2c)? {
            4 => 4,
            _ => 8,
        };
        let wide = 2 * usize::from(pointer_bytes);
        let names = payload.get(264 + wide..).unwrap_or_default();
        Some(Self {
            zero,
            pointer_bytes,
            build: u32_at(payload, 8)?,
            cpus: u32_at(payload, 0xc)?,
            buffers_written: u32_at(payload, 0x24)?,
            mode: u32_at(payload, 0x20)?,
            events_lost: u32_at(payload, 0x30)?,
            cpu_mhz: u32_at(payload, 0x34)?,
            frequency: u64_at(payload, 240 + wide)?,
            start: u64_at(payload, 248 + wide)?,
            clock_type: u32_at(payload, 256 + wide)?,
            buffers_lost: u32_at(payload, 260 + wide)?,
            session: utf16_z(names).0,
        })
    }

    /// Ticks per second; never zero.
    pub(crate) fn ticks_per_second(&self) -> u64 {
        match self.clock_type {
            2 => 10_000_000,
            3 => u64::from(self.cpu_mhz).saturating_mul(1_000_000),
            _ => self.frequency,
        }
        .max(1)
    }

    /// True if `other` was recorded by the same system at about the same time: between the two
    /// starts, its clock and the wall clock advanced by the same amount.
    pub(crate) fn is_concurrent_with(&self, other: &Self) -> bool {
        /// Maximum time between the starts: an hour, in units of 100 ns.
        const MAX_APART: i128 = 36_000_000_000;
        /// Maximum difference between the clocks: a second, in units of 100 ns.
        const MAX_DRIFT: i128 = 10_000_000;
        let wall = i128::from(other.start) - i128::from(self.start);
        let ticks = i128::from(other.zero) - i128::from(self.zero);
        let counted = ticks * 10_000_000 / i128::from(self.ticks_per_second());
        wall.abs() <= MAX_APART && (wall - counted).abs() <= MAX_DRIFT
    }

    /// Wall-clock time of `zero`, nanoseconds since the Unix epoch.
    pub(crate) fn epoch_ns(&self) -> Option<i128> {
        /// 1970, in units of 100 ns since 1601.
        const UNIX: i128 = 116_444_736_000_000_000;
        let start =
            if self.clock_type == 2 { i128::from(self.zero) } else { i128::from(self.start) };
        (start > UNIX).then(|| (start - UNIX) * 100)
    }
}

/// Converts timestamps to [`Time`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: i64,
    /// Nanoseconds per tick if that is a whole number, as it nearly always is (10 MHz); else 0.
    whole_ns: u64,
    ticks_per_second: u64,
}

impl Clock {
    pub(crate) fn new(zero: i64, ticks_per_second: u64) -> Self {
        let ticks_per_second = ticks_per_second.max(1);
        let whole_ns = if 1_000_000_000 % ticks_per_second == 0 {
            1_000_000_000 / ticks_per_second
        } else {
            0
        };
        Self { zero, whole_ns, ticks_per_second }
    }

    /// A timestamp as nanoseconds since the trace's start; zero if it is earlier.
    #[inline]
    pub(crate) fn time(&self, ticks: i64) -> Time {
        let since = if ticks > self.zero { ticks.wrapping_sub(self.zero) as u64 } else { 0 };
        Time::from_nanos(self.nanos(since))
    }

    /// True for a timestamp before the trace's start.
    pub(crate) fn is_before(&self, ticks: i64) -> bool {
        ticks < self.zero
    }

    /// Converts a number of ticks to nanoseconds.
    #[inline]
    pub(crate) fn nanos(&self, ticks: u64) -> u64 {
        if self.whole_ns > 0 {
            return ticks.saturating_mul(self.whole_ns);
        }
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Reads a UTF-16 text up to its terminating zero. Also returns what follows.
pub(crate) fn utf16_z(bytes: &[u8]) -> (String, &[u8]) {
    let units = bytes.as_chunks::<2>().0;
    let len = units.iter().position(|unit| *unit == [0; 2]).unwrap_or(units.len());
    let text = units.iter().take(len).map(|unit| u16::from_le_bytes(*unit));
    let text = char::decode_utf16(text).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    (text, bytes.get(len * 2 + 2..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_without_overflow() {
        let qpc = Clock::new(1000, 10_000_000);
        assert_eq!(
            (qpc.time(1010).nanos(), qpc.time(0).nanos(), qpc.time(i64::MAX).nanos()),
            (1000, 0, u64::MAX)
        );
        let odd = Clock::new(i64::MIN, 3_579_545);
        assert_eq!(odd.nanos(3_579_545 * 7), 7_000_000_000);
        assert!(odd.time(i64::MAX).nanos() > 0);
        assert_eq!(Clock::new(0, 0).time(5).nanos(), 5_000_000_000);
    }
}
