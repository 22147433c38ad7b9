//! How fast the rings fill, and hence how far back each one reaches, without reading its content.

use std::collections::VecDeque;
use unhitch_model::Time;

/// Write positions over time, for each ring.
pub(crate) struct History {
    rings: Vec<RingHistory>,
}

struct RingHistory {
    len: u64,
    positions: VecDeque<(Time, u64)>,
}

/// Maximum number of positions per ring; beyond this, every other one is dropped. The ring of an
/// idle CPU can reach back for days.
const MAX_POSITIONS: usize = 512;

impl History {
    /// Starts with rings of these sizes (in bytes), started at these times.
    pub(crate) fn new(rings: Vec<(u64, Time)>) -> Self {
        Self {
            rings: rings
                .into_iter()
                .map(|(len, started)| RingHistory {
                    len,
                    positions: VecDeque::from([(started, 0)]),
                })
                .collect(),
        }
    }

    /// Notes that `written` bytes have been written to each ring at time `now`.
    pub(crate) fn note(&mut self, now: Time, written: &[u64]) {
        for (ring, &written) in self.rings.iter_mut().zip(written) {
            ring.positions.push_back((now, written));
            let gone = written.saturating_sub(ring.len);
            // The last position at or before the oldest byte must stay.
            while gone > 0 && ring.positions.get(1).is_some_and(|&(_, position)| position <= gone) {
                ring.positions.pop_front();
            }
            if ring.positions.len() > MAX_POSITIONS {
                let mut index = 0;
                ring.positions.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
        }
    }

    /// The time from which on each ring holds everything, given how many bytes were written to it:
    /// may be a little too early, but never too late.
    pub(crate) fn held_from(&self, written: &[u64]) -> Vec<Time> {
        let from = |(ring, written): (&RingHistory, &u64)| {
            let gone = written.saturating_sub(ring.len);
            let overwritten =
                ring.positions.iter().rev().find(|(_, position)| gone > 0 && *position <= gone);
            overwritten.or(ring.positions.front()).map_or(Time::ZERO, |position| position.0)
        };
        self.rings.iter().zip(written).map(from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: u64) -> Time {
        Time::from_nanos(seconds)
    }

    #[test]
    fn a_ring_reaches_back_to_the_last_note_before_its_oldest_byte() {
        let mut history = History::new(vec![(100, time(1))]);
        for second in 2..=10 {
            history.note(time(second), &[second * 30]);
        }
        assert_eq!(history.held_from(&[300]), [time(6)]);
        assert_eq!(history.held_from(&[50]), [time(6)], "what is forgotten stays forgotten");
        assert_eq!(history.rings[0].positions.len(), 5);
    }

    #[test]
    fn an_idle_ring_reaches_back_to_the_start_with_few_notes() {
        let mut history = History::new(vec![(100, time(1))]);
        for second in 2..100_000 {
            history.note(time(second), &[second / 2000]);
        }
        assert_eq!(history.held_from(&[50]), [time(1)]);
        assert!(history.rings[0].positions.len() <= MAX_POSITIONS);
    }
}
