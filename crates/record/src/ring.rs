//! The ring of one CPU: overwritten by the kernel and copied meanwhile, or drained; and iterated
//! record by record.
//!
//! The layout of the first is that of perf_event_open(2) with `write_backward`: the kernel writes each record
//! *below* the previous one, so the bytes from `data_head` upwards are complete records, newest
//! first, until the ring ends in the middle of a record.
//!
//! # Why a copy needs no pause
//!
//! `PERF_EVENT_IOC_PAUSE_OUTPUT` would stop the kernel from overwriting what we copy, but every
//! record of that time would be dropped silently: a hole in the middle of the next save. We do
//! without. Let W = −`data_head` be the bytes written so far, and N the ring's size. Before the
//! copy, the ring holds the positions [W₁ − N, W₁). While we copy, the kernel appends up to W₂,
//! which we read after the copy, and it may be writing beyond that: the records of an interrupt
//! that strikes while a record is being written stay unpublished until the interrupted record is
//! complete. What the kernel has overwritten are the *oldest* positions, those below W₂ + in flight
//! − N. So [W₂ + in flight − N, W₁) of the copy is intact. The copy loses a little of its oldest
//! past, never of its middle; the recorder loses nothing at all; and the next copy continues
//! without a gap.
//!
//! The outermost writer publishes `data_head` after its records are complete, so after a load with
//! acquire ordering, everything above it may be read.

use crate::sys::{self, Mapping};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use unhitch_model::Time;

/// One CPU's overwriting ring.
pub(crate) struct OverwriteRing {
    map: Mapping,
}

/// A copy of a ring at one instant.
pub(crate) struct RingCopy {
    /// The copy; only the first `len` bytes are records, newest first.
    buffer: Vec<u8>,
    len: usize,
    /// The time up to which the copy is complete.
    pub(crate) taken: Time,
    /// True if nothing has ever been overwritten.
    pub(crate) from_start: bool,
}

/// The write position and time at which a copy ends. The heads of all CPUs are read together, so
/// that all copies end at the same time.
#[derive(Clone, Copy)]
pub(crate) struct CopyPoint {
    written: u64,
    taken: Time,
}

impl OverwriteRing {
    /// Maps a ring of `len` bytes (2^n pages) for the event `fd`.
    pub(crate) fn new(fd: BorrowedFd, len: usize) -> io::Result<Self> {
        Ok(Self { map: Mapping::new(fd, len, false)? })
    }

    /// Size of the ring in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.data_len()
    }

    /// How many bytes the kernel has written since the start.
    pub(crate) fn written(&self) -> u64 {
        self.map.head().wrapping_neg()
    }

    /// The current position, as the end of a copy. The clock is read first: every event before
    /// `taken` is in the copy, unless its record is being written at this very moment.
    pub(crate) fn copy_point(&self) -> CopyPoint {
        let taken = sys::monotonic_now();
        CopyPoint { written: self.written(), taken }
    }

    /// Copies what was written before `point` into `buffer`, newest first. The buffer is resized to
    /// the size of the ring.
    pub(crate) fn copy(&self, point: CopyPoint, mut buffer: Vec<u8>) -> RingCopy {
        let available = point.written.min(self.len() as u64) as usize;
        buffer.resize(self.len(), 0);
        self.map.copy(point.written.wrapping_neg(), &mut buffer[..available]);
        // The loads of the copy must not move past the load of the head, which decides how much of
        // the copy is intact.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let (len, from_start) =
            intact(point.written, self.written(), self.len() as u64, max_in_flight(self.len()));
        RingCopy { buffer, len, taken: point.taken, from_start }
    }
}

/// Maximum number of bytes that the kernel may be writing beyond the published head: some hundred
/// records of one interrupt.
fn max_in_flight(ring_len: usize) -> u64 {
    (ring_len as u64 / 8).min(64 << 10)
}

/// For a copy made between the write positions `before` and `after`: how many bytes, counted from
/// the newest, were not overwritten, and whether that is everything ever written.
fn intact(before: u64, after: u64, ring_len: u64, max_in_flight: u64) -> (usize, bool) {
    let oldest = (after + max_in_flight).saturating_sub(ring_len);
    (before.saturating_sub(oldest) as usize, oldest == 0)
}

impl RingCopy {
    /// The records, newest first.
    pub(crate) fn records(&self) -> Records<'_> {
        Records { rest: &self.buffer[..self.len.min(self.buffer.len())], damaged: false }
    }

    /// Returns the buffer for the next copy.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// Iterates over the records of a ring copy, newest first; the record cut by the end of the ring is
/// left out.
pub(crate) struct Records<'a> {
    rest: &'a [u8],
    damaged: bool,
}

impl Records<'_> {
    /// True if the iteration ended at something that is not a record, which should never happen.
    pub(crate) fn damaged(&self) -> bool {
        self.damaged
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let header = self.rest.first_chunk::<8>()?;
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let len = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if kind == 0 || kind > 64 || len < 8 || len % 8 != 0 {
            self.damaged = true;
            self.rest = &[];
            return None;
        }
        let Some((record, rest)) = self.rest.split_at_checked(len) else {
            self.rest = &[];
            return None;
        };
        self.rest = rest;
        Some(record)
    }
}

/// One CPU's ring of events.
pub(crate) enum EventRing {
    /// For saves: the kernel overwrites the oldest records.
    Overwriting(OverwriteRing),
    /// For a recording that is written while it goes on: the kernel drops the newest records if
    /// there is no room, and counts them.
    Drained(Mutex<DrainedRing>),
}

impl EventRing {
    /// Size of the ring in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Overwriting(ring) => ring.len(),
            Self::Drained(ring) => lock(ring).len(),
        }
    }

    /// How many bytes the kernel has written since the start.
    pub(crate) fn written(&self) -> u64 {
        match self {
            Self::Overwriting(ring) => ring.written(),
            Self::Drained(ring) => lock(ring).map.head(),
        }
    }

    /// The ring, if saves copy it.
    pub(crate) fn overwriting(&self) -> Option<&OverwriteRing> {
        match self {
            Self::Overwriting(ring) => Some(ring),
            Self::Drained(_) => None,
        }
    }

    /// The ring, if it is drained.
    pub(crate) fn drained(&self) -> Option<MutexGuard<'_, DrainedRing>> {
        match self {
            Self::Overwriting(_) => None,
            Self::Drained(ring) => Some(lock(ring)),
        }
    }
}

fn lock(ring: &Mutex<DrainedRing>) -> MutexGuard<'_, DrainedRing> {
    // A panic under this lock leaves the ring as it was.
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A forward ring that is drained continuously: the side-band's, or one of a recording that is
/// written while it goes on.
pub(crate) struct DrainedRing {
    map: Mapping,
    tail: u64,
}

impl DrainedRing {
    /// Maps a ring of `len` bytes (2^n pages) for the event `fd`.
    pub(crate) fn new(fd: BorrowedFd, len: usize) -> io::Result<Self> {
        Ok(Self { map: Mapping::new(fd, len, true)?, tail: 0 })
    }

    /// Size of the ring in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.data_len()
    }

    /// How many bytes are waiting to be drained.
    pub(crate) fn waiting(&self) -> u64 {
        self.map.head().wrapping_sub(self.tail)
    }

    /// Appends all new records to `out`, oldest first.
    pub(crate) fn drain(&mut self, out: &mut Vec<u8>) {
        let head = self.map.head();
        let start = out.len();
        let new = head.wrapping_sub(self.tail).min(self.map.data_len() as u64) as usize;
        out.resize(start + new, 0);
        self.map.copy(self.tail, &mut out[start..]);
        self.tail = head;
        self.map.set_tail(head);
    }
}

/// Iterates over records in the order in which they are stored in `bytes`.
pub(crate) fn records(bytes: &[u8]) -> Records<'_> {
    Records { rest: bytes, damaged: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, len: u16, fill: u8) -> Vec<u8> {
        let mut record = vec![fill; usize::from(len)];
        record[..4].copy_from_slice(&kind.to_le_bytes());
        record[4..6].fill(0);
        record[6..8].copy_from_slice(&len.to_le_bytes());
        record
    }

    /// A ring of `len` bytes to which `records` were written downwards, as the kernel does,
    /// linearized from its head.
    fn written(len: usize, records: &[Vec<u8>]) -> (Vec<u8>, u64) {
        let mut ring = vec![0; len];
        let mut head = 0u64;
        for record in records {
            head = head.wrapping_sub(record.len() as u64);
            for (index, byte) in record.iter().enumerate() {
                ring[((head + index as u64) % len as u64) as usize] = *byte;
            }
        }
        ring.rotate_left((head % len as u64) as usize);
        (ring, head.wrapping_neg())
    }

    fn walk(copy: &RingCopy) -> (Vec<u8>, bool) {
        let mut records = copy.records();
        let fills = records.by_ref().map(|record| record[8]).collect();
        (fills, records.damaged())
    }

    fn copy_of(len: usize, records: &[Vec<u8>], written_after: u64) -> RingCopy {
        let (buffer, written) = written(len, records);
        let (len, from_start) = intact(written, written + written_after, len as u64, 0);
        RingCopy { buffer, len, taken: Time::ZERO, from_start }
    }

    #[test]
    fn a_ring_that_never_wrapped_returns_all_newest_first() {
        let copy = copy_of(256, &[record(9, 16, 1), record(9, 32, 2), record(9, 24, 3)], 0);
        assert_eq!(walk(&copy), (vec![3, 2, 1], false));
        assert!(copy.from_start);
    }

    #[test]
    fn a_wrapped_ring_leaves_out_the_cut_record() {
        let records: Vec<_> = (1..=9).map(|fill| record(9, 40, fill)).collect();
        let copy = copy_of(128, &records, 0);
        assert_eq!(walk(&copy), (vec![9, 8, 7], false));
        assert!(!copy.from_start);
    }

    #[test]
    fn what_was_overwritten_during_the_copy_is_discarded() {
        let records: Vec<_> = (1..=9).map(|fill| record(9, 32, fill)).collect();
        assert_eq!(walk(&copy_of(128, &records, 0)).0, vec![9, 8, 7, 6]);
        assert_eq!(walk(&copy_of(128, &records, 32)).0, vec![9, 8, 7]);
        assert_eq!(walk(&copy_of(128, &records, 40)).0, vec![9, 8]);
        assert_eq!(walk(&copy_of(128, &records, 128)).0, Vec::<u8>::new());
        assert_eq!(walk(&copy_of(128, &records, 9999)).0, Vec::<u8>::new());
    }

    #[test]
    fn damage_ends_the_iteration_and_is_reported() {
        let mut bytes = record(9, 16, 1);
        bytes.extend([0xff; 16]);
        let mut records = records(&bytes);
        assert_eq!(records.by_ref().count(), 1);
        assert!(records.damaged());
        for len in 0..bytes.len() {
            assert!(super::records(&bytes[..len]).count() <= 1);
        }
    }

    #[test]
    fn in_flight_records_count_as_overwritten() {
        assert_eq!(intact(100, 100, 1000, 64), (100, true));
        assert_eq!(intact(1000, 1000, 1000, 64), (936, false));
        assert_eq!(intact(5000, 5100, 1000, 64), (836, false));
    }
}
