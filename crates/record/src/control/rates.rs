//! How often each user may ask for what, and all of them together: with subordinate user ids
//! (subuid(5)), one person can be 65,536 users.

use super::peer::{Class, Peer};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Maximum number of users that are remembered.
const MAX_USERS: usize = 256;
/// How many times as much as one user all of them may ask for.
const ALL_USERS: u32 = 8;
/// The same for saves, each of which costs the machine much.
const ALL_USERS_SAVES: u32 = 4;

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
        match self.wait(now) {
            Some(wait) => Err(wait),
            None => {
                self.tokens -= 1.0;
                Ok(())
            }
        }
    }

    /// How long to wait for a token; `None` if there is one.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        let lacks = 1.0 - self.tokens;
        (lacks > 0.0).then(|| Duration::from_secs_f64(lacks / self.per_second))
    }
}

/// What a request counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rate {
    /// A save or a note.
    Saves,
    /// A request of any kind, understood or not.
    Requests,
}

struct Buckets {
    marks: Bucket,
    saves: Bucket,
    requests: Bucket,
    used: Instant,
}

impl Buckets {
    /// What one user may ask for, so many times.
    fn new(times: u32, saves_times: u32, now: Instant) -> Self {
        let bucket = |capacity: u32, interval_ms: u64, times: u32| {
            Bucket::new(capacity * times, Duration::from_millis(interval_ms) / times, now)
        };
        Self {
            marks: bucket(500, 5, times),
            saves: bucket(4, 15_000, saves_times),
            requests: bucket(50, 100, times),
            used: now,
        }
    }

    fn of(&mut self, rate: Rate) -> &mut Bucket {
        match rate {
            Rate::Saves => &mut self.saves,
            Rate::Requests => &mut self.requests,
        }
    }
}

/// The rates of all users other than the owner, who always may.
pub(crate) struct Rates {
    users: FxHashMap<u32, Buckets>,
    all: Buckets,
}

impl Rates {
    pub(super) fn new(now: Instant) -> Self {
        Self { users: FxHashMap::default(), all: Buckets::new(ALL_USERS, ALL_USERS_SAVES, now) }
    }

    /// Counts a request. Returns how long to wait if there were too many.
    pub(crate) fn take(&mut self, peer: Peer, rate: Rate, now: Instant) -> Result<(), Duration> {
        match self.wait(peer, rate, now) {
            Some(wait) => Err(wait),
            None if peer.class == Class::Owner => Ok(()),
            None => {
                self.user(peer.uid, now).of(rate).take(now)?;
                self.all.of(rate).take(now)
            }
        }
    }

    /// How long the peer must wait before such a request; `None` if it need not.
    pub(super) fn wait(&mut self, peer: Peer, rate: Rate, now: Instant) -> Option<Duration> {
        if peer.class == Class::Owner {
            return None;
        }
        let own = self.user(peer.uid, now).of(rate).wait(now);
        own.max(self.all.of(rate).wait(now))
    }

    /// How many of `wanted` marks are taken.
    pub(crate) fn marks(&mut self, peer: Peer, wanted: usize, now: Instant) -> usize {
        if peer.class == Class::Owner {
            return wanted;
        }
        let own = self.user(peer.uid, now).marks.take_up_to(wanted, now);
        self.all.marks.take_up_to(own, now)
    }

    fn user(&mut self, uid: u32, now: Instant) -> &mut Buckets {
        if self.users.len() >= MAX_USERS && !self.users.contains_key(&uid) {
            let oldest = self.users.iter().min_by_key(|(_, user)| user.used).map(|(uid, _)| *uid);
            oldest.map(|uid| self.users.remove(&uid));
        }
        let user = self.users.entry(uid).or_insert_with(|| Buckets::new(1, 1, now));
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

    fn member(uid: u32) -> Peer {
        Peer { pid: 1, uid, class: Class::Group }
    }

    #[test]
    fn users_do_not_take_from_each_other_and_are_not_kept_forever() {
        let now = Instant::now();
        let mut rates = Rates::new(now);
        let (one, other) = (member(7), member(8));
        assert_eq!((rates.marks(one, 600, now), rates.marks(one, 1, now)), (500, 0));
        assert_eq!(rates.marks(other, 600, now), 500);
        assert_eq!((0..9).filter(|_| rates.take(one, Rate::Saves, now).is_ok()).count(), 4);
        assert!(rates.take(other, Rate::Saves, now).is_ok());
        for uid in 0..9999 {
            rates.marks(member(uid), 1, now);
        }
        assert_eq!(rates.users.len(), MAX_USERS);
    }

    #[test]
    fn regression_many_users_have_no_more_than_a_few_and_the_owner_has_no_limit() {
        let now = Instant::now();
        let mut rates = Rates::new(now);
        let mut taken =
            |rate| (0..9999).filter(|uid| rates.take(member(*uid), rate, now).is_ok()).count();
        assert_eq!((taken(Rate::Saves), taken(Rate::Requests)), (16, 400));
        let marks: usize = (0..9999).map(|uid| rates.marks(member(uid), 500, now)).sum();
        assert_eq!(marks, 4000);
        // Who has to wait for the others keeps a token.
        let (mut later, mut waits) = (now, 0);
        while let Err(wait) = rates.take(member(7), Rate::Saves, later) {
            (later, waits) = (later + wait, waits + 1);
        }
        assert!(waits <= 2 && later - now < Duration::from_secs(4), "{waits}");
        let owner = Peer { class: Class::Owner, ..member(7) };
        assert!((0..9999).all(|_| rates.take(owner, Rate::Saves, now).is_ok()));
        assert_eq!(rates.marks(owner, 9999, now), 9999);
    }
}
