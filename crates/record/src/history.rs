//! How fast the rings filled, and hence how far back each of them still reaches, known without
//! looking into it.

use std::collections::VecDeque;
use unhitch_model::Time;

/// Notes of write positions over time, for each ring.
pub(crate) struct History {
    rings: Vec<RingHistory>,
}

struct RingHistory {
    len: u64,
    notes: VecDeque<(Time, u64)>,
}

/// More notes than this are thinned out: an idle CPU's ring can reach back for days.
const NOTES_MAX: usize = 512;

impl History {
    /// For rings of these lengths, started at these times.
    pub(crate) fn new(rings: Vec<(u64, Time)>) -> Self {
        Self {
            rings: rings
                .into_iter()
                .map(|(len, started)| RingHistory { len, notes: VecDeque::from([(started, 0)]) })
                .collect(),
        }
    }

    /// The rings began to be written at these times.
    pub(crate) fn restart(&mut self, started: impl Iterator<Item = Time>) {
        for (ring, started) in self.rings.iter_mut().zip(started) {
            ring.notes = VecDeque::from([(started, 0)]);
        }
    }

    /// At `now` so many bytes had been written to each ring.
    pub(crate) fn note(&mut self, now: Time, written: &[u64]) {
        for (ring, &written) in self.rings.iter_mut().zip(written) {
            ring.notes.push_back((now, written));
            let gone = written.saturating_sub(ring.len);
            // The last note at or before the oldest byte must stay.
            while gone > 0 && ring.notes.get(1).is_some_and(|&(_, position)| position <= gone) {
                ring.notes.pop_front();
            }
            if ring.notes.len() > NOTES_MAX {
                let mut index = 0;
                ring.notes.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
            }
        }
    }

    /// From when on each ring holds everything, with so many bytes written: a little early, never
    /// late.
    pub(crate) fn held_from(&self, written: &[u64]) -> Vec<Time> {
        let from = |(ring, written): (&RingHistory, &u64)| {
            let gone = written.saturating_sub(ring.len);
            let overwritten =
                ring.notes.iter().rev().find(|(_, position)| gone > 0 && *position <= gone);
            overwritten.or(ring.notes.front()).map_or(Time::ZERO, |note| note.0)
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
        assert_eq!(history.rings[0].notes.len(), 5);
    }

    #[test]
    fn an_idle_ring_reaches_back_to_the_start_with_few_notes() {
        let mut history = History::new(vec![(100, time(1))]);
        for second in 2..100_000 {
            history.note(time(second), &[second / 2000]);
        }
        assert_eq!(history.held_from(&[50]), [time(1)]);
        assert!(history.rings[0].notes.len() <= NOTES_MAX);
    }
}
