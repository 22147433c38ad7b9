//! Points and windows of time.

use std::fmt;

/// A point in time: nanoseconds of the trace's clock (Linux: `CLOCK_MONOTONIC` of the recording
/// machine; ETW: since the trace's start).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The clock's zero.
    pub const ZERO: Self = Self(0);
    /// The last representable time; means "no end".
    pub const MAX: Self = Self(u64::MAX);

    /// From nanoseconds of the trace's clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds of the trace's clock.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `nanos` later, saturating.
    pub const fn plus(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// `nanos` earlier, saturating at zero.
    pub const fn minus(self, nanos: u64) -> Self {
        Self(self.0.saturating_sub(nanos))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A half-open window `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Window {
    /// First instant inside.
    pub start: Time,
    /// First instant after.
    pub end: Time,
}

impl Window {
    /// The window from `start` to `end`; empty if `end` is not later.
    pub const fn new(start: Time, end: Time) -> Self {
        Self { start, end }
    }

    /// Length in nanoseconds.
    pub const fn duration_ns(self) -> u64 {
        self.end.since(self.start)
    }

    /// True if it contains no instant.
    pub const fn is_empty(self) -> bool {
        self.end.0 <= self.start.0
    }

    /// True if `time` is inside.
    pub const fn contains(self, time: Time) -> bool {
        self.start.0 <= time.0 && time.0 < self.end.0
    }

    /// The overlap of both windows; empty if they do not meet.
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }

    /// The smallest window that holds both.
    #[must_use]
    pub fn joined(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// Windows in order of time, joined where they overlap or touch.
    pub fn disjoint(mut windows: Vec<Self>) -> Vec<Self> {
        windows.sort_unstable();
        let mut joined: Vec<Self> = Vec::new();
        for window in windows {
            match joined.last_mut() {
                Some(last) if window.start <= last.end => *last = last.joined(window),
                _ => joined.push(window),
            }
        }
        joined
    }

    /// True if the windows share at least one instant.
    pub fn overlaps(self, other: Self) -> bool {
        !self.intersect(other).is_empty()
    }
}
