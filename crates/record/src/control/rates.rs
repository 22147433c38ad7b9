//! How often each user may ask for what.

use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Maximum number of users that are remembered.
const MAX_USERS: usize = 256;

/// Tokens that fill up again with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    /// A full bucket of `capacity` tokens, one more after each `interval`.
    pub(crate) fn new(capacity: u32, interval: Duration, now: Instant) -> Self {
        let capacity = f64::from(capacity);
        let per_second = 1.0 / interval.as_secs_f64().max(1e-9);
        Self { capacity, per_second, tokens: capacity, filled: now }
    }

    /// As full as another bucket, as far as it has room.
    pub(crate) fn with_tokens_of(self, other: &mut Self, now: Instant) -> Self {
        other.fill(now);
        Self { tokens: other.tokens.min(self.capacity), ..self }
    }

    fn fill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + seconds * self.per_second).min(self.capacity);
        self.filled = now;
    }

    /// Takes up to `wanted` tokens; returns how many.
    pub(crate) fn take_up_to(&mut self, wanted: usize, now: Instant) -> usize {
        self.fill(now);
        let taken = wanted.min(self.tokens as usize);
        self.tokens -= taken as f64;
        taken
    }

    /// Takes a token. Returns how long to wait for one if there is none.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        if self.take_up_to(1, now) == 1 {
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.tokens) / self.per_second))
    }
}

/// What a request counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    Saves,
    Others,
}

struct User {
    marks: Bucket,
    saves: Bucket,
    others: Bucket,
    used: Instant,
}

impl User {
    fn new(now: Instant) -> Self {
        Self {
            marks: Bucket::new(500, Duration::from_millis(5), now),
            saves: Bucket::new(4, Duration::from_secs(15), now),
            others: Bucket::new(50, Duration::from_millis(100), now),
            used: now,
        }
    }
}

/// The rates of all users other than the owner.
#[derive(Default)]
pub(crate) struct Rates(FxHashMap<u32, User>);

impl Rates {
    /// Counts a request of a user. Returns how long to wait if there were too many.
    pub(crate) fn take(&mut self, uid: u32, rate: Rate, now: Instant) -> Result<(), Duration> {
        let user = self.user(uid, now);
        match rate {
            Rate::Saves => user.saves.take(now),
            Rate::Others => user.others.take(now),
        }
    }

    /// How many of `wanted` marks of a user are taken.
    pub(crate) fn marks(&mut self, uid: u32, wanted: usize, now: Instant) -> usize {
        self.user(uid, now).marks.take_up_to(wanted, now)
    }

    fn user(&mut self, uid: u32, now: Instant) -> &mut User {
        if self.0.len() >= MAX_USERS && !self.0.contains_key(&uid) {
            let oldest = self.0.iter().min_by_key(|(_, user)| user.used).map(|(uid, _)| *uid);
            oldest.map(|uid| self.0.remove(&uid));
        }
        let user = self.0.entry(uid).or_insert_with(|| User::new(now));
        user.used = now;
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_it_has_and_fills_up_with_time() {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let mut bucket = Bucket::new(3, Duration::from_millis(100), begin);
        assert_eq!(bucket.take_up_to(2, begin), 2);
        assert_eq!(bucket.take_up_to(2, begin), 1);
        let wait = bucket.take(after(40)).unwrap_err();
        assert!((59..=61).contains(&wait.as_millis()), "{wait:?}");
        assert!(bucket.take(after(101)).is_ok());
        assert_eq!(bucket.take_up_to(99, after(3_600_000)), 3, "never more than it holds");
        assert!(bucket.take(after(0)).is_err(), "time does not run back");
    }

    #[test]
    fn users_do_not_take_from_each_other_and_are_not_kept_forever() {
        let now = Instant::now();
        let mut rates = Rates::default();
        assert_eq!((rates.marks(7, 600, now), rates.marks(7, 1, now)), (500, 0));
        assert_eq!(rates.marks(8, 600, now), 500);
        assert_eq!((0..9).filter(|_| rates.take(7, Rate::Saves, now).is_ok()).count(), 4);
        assert!(rates.take(8, Rate::Saves, now).is_ok());
        for uid in 0..9999 {
            rates.marks(uid, 1, now);
        }
        assert_eq!(rates.0.len(), MAX_USERS);
    }
}
