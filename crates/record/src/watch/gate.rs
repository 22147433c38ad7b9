//! Which hits of triggers become traces: each trigger has a minimum interval, and all of them share
//! a bucket. Members of the group have another one, as they could otherwise spend what the triggers
//! may save. What is held back is counted for the next trace.

use super::config::Limits;
use crate::control::{Bucket, Class};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use unhitch_formats::container::SuppressedHits;

/// Maximum number of different names of clients that are counted; the others are [`OTHERS`].
const MAX_NAMES: usize = 256;
const OTHERS: &str = "other clients";

/// Holds back hits that come too fast.
pub(super) struct Gate {
    /// Of our own triggers and the owner's clients.
    bucket: Bucket,
    /// Of all other clients.
    group_bucket: Bucket,
    /// The names of our own triggers, which no client's take the place of.
    own: FxHashSet<String>,
    /// When each name passed last.
    saved: FxHashMap<String, Instant>,
    suppressed: BTreeMap<(String, &'static str), u64>,
    counts: FxHashMap<String, Counts>,
}

/// What became of a trigger's hits since the recorder was started.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) fired: u64,
    pub(super) saved: u64,
    pub(super) suppressed: u64,
}

/// Why a hit was not saved.
pub(super) mod reason {
    pub const INTERVAL: &str = "too soon after its last save";
    pub const BUCKET: &str = "too many automatic saves";
    pub const BUSY: &str = "another save was under way";
    pub const DISK: &str = "too little free space on the disk";
    pub const REPEATED: &str = "it fired several times in a moment";
    pub const FAILED: &str = "the save failed";
    pub const USER: &str = "its user asked for too many saves";
}

impl Gate {
    pub(super) fn new(limits: Limits, own: FxHashSet<String>, now: Instant) -> Self {
        Self {
            bucket: bucket(limits, now),
            group_bucket: bucket(limits, now),
            own,
            saved: FxHashMap::default(),
            suppressed: BTreeMap::new(),
            counts: FxHashMap::default(),
        }
    }

    /// Sets other limits; what was counted stays, and a spent bucket is not filled.
    pub(super) fn set_limits(&mut self, limits: Limits, now: Instant) {
        for old in [&mut self.bucket, &mut self.group_bucket] {
            *old = bucket(limits, now).with_tokens_of(old, now);
        }
    }

    /// Sets the names of our own triggers.
    pub(super) fn set_own(&mut self, own: FxHashSet<String>) {
        self.own = own;
    }

    /// The name under which hits of `name` are counted.
    fn counted<'a>(&self, name: &'a str) -> &'a str {
        let is_known = self.own.contains(name) || self.counts.contains_key(name);
        if is_known || self.counts.len() < MAX_NAMES + self.own.len() { name } else { OTHERS }
    }

    /// Asks whether a hit of `name`, of somebody of this class, may be saved. If not, it is counted.
    pub(super) fn pass(
        &mut self,
        name: &str,
        class: Class,
        min_interval: Duration,
        is_busy: bool,
        now: Instant,
    ) -> Result<(), (&'static str, Duration)> {
        self.counts.entry(self.counted(name).to_owned()).or_default().fired += 1;
        let left = self
            .saved
            .get(name)
            .and_then(|last| min_interval.checked_sub(now.saturating_duration_since(*last)));
        let refused = match left.filter(|left| !left.is_zero()) {
            Some(left) => Some((reason::INTERVAL, left)),
            None if is_busy => Some((reason::BUSY, Duration::ZERO)),
            None => {
                let bucket = match class {
                    Class::Owner => &mut self.bucket,
                    Class::Group => &mut self.group_bucket,
                };
                bucket.take(now).err().map(|wait| (reason::BUCKET, wait))
            }
        };
        match refused {
            Some((reason, wait)) => {
                self.suppress(name, reason, 1);
                Err((reason, wait))
            }
            None => {
                self.note_passed(name, now);
                Ok(())
            }
        }
    }

    /// Notes when a name passed. There are as few of them as the buckets let through; of too many,
    /// the oldest is forgotten, but none of our own triggers.
    fn note_passed(&mut self, name: &str, now: Instant) {
        if self.saved.len() >= MAX_NAMES + self.own.len() && !self.saved.contains_key(name) {
            let others = self.saved.iter().filter(|(name, _)| !self.own.contains(*name));
            let oldest = others.min_by_key(|(_, last)| **last).map(|(name, _)| name.clone());
            oldest.map(|name| self.saved.remove(&name));
        }
        self.saved.insert(name.to_owned(), now);
    }

    /// Counts hits that were not saved.
    pub(super) fn suppress(&mut self, name: &str, reason: &'static str, times: u64) {
        if times == 0 {
            return;
        }
        let name = self.counted(name);
        self.counts.entry(name.to_owned()).or_default().suppressed += times;
        *self.suppressed.entry((name.to_owned(), reason)).or_default() += times;
    }

    /// Counts a save.
    pub(super) fn note_saved(&mut self, name: &str) {
        if let Some(counts) = self.counts.get_mut(self.counted(name)) {
            counts.saved += 1;
        }
    }

    /// What was held back since the last trace.
    pub(super) fn suppressed(&self) -> Vec<SuppressedHits> {
        let hits = self.suppressed.iter().map(|((name, reason), times)| SuppressedHits {
            name: name.clone(),
            times: *times,
            reason: (*reason).to_owned(),
        });
        hits.collect()
    }

    /// A trace holds what was held back before.
    pub(super) fn forget_suppressed(&mut self) {
        self.suppressed.clear();
    }

    /// What became of a trigger's hits.
    pub(super) fn counts(&self, name: &str) -> Counts {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// All hits that were held back since the recorder was started.
    pub(super) fn all_suppressed(&self) -> u64 {
        self.counts.values().map(|counts| counts.suppressed).sum()
    }
}

fn bucket(limits: Limits, now: Instant) -> Bucket {
    match limits.per_hour {
        0 => Bucket::new(0, Duration::from_secs(3600), now),
        hits => Bucket::new(limits.burst.max(1), Duration::from_secs(3600) / hits, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(limits: Limits, now: Instant) -> Gate {
        Gate::new(limits, FxHashSet::from_iter(["a".to_owned()]), now)
    }

    #[test]
    fn a_thousand_hits_in_a_minute_become_a_few_traces() {
        let begin = Instant::now();
        let limits = Limits { per_hour: 10, burst: 3, ..Limits::default() };
        let mut gate = gate(limits, begin);
        let mut saved = 0;
        for hit in 0..1000_u64 {
            let now = begin + Duration::from_millis(hit * 60);
            let name = ["a", "b"][hit as usize % 2];
            saved += u64::from(
                gate.pass(name, Class::Owner, Duration::from_secs(5), false, now).is_ok(),
            );
        }
        assert_eq!(saved, 3);
        let counted: u64 = gate.suppressed().iter().map(|hits| hits.times).sum();
        assert_eq!((counted, gate.all_suppressed()), (997, 997));
        assert_eq!(gate.counts("a").fired, 500);
        gate.forget_suppressed();
        assert!(gate.suppressed().is_empty());
        // Ten in an hour: one every six minutes.
        let later = begin + Duration::from_secs(60 + 361);
        assert!(gate.pass("a", Class::Owner, Duration::ZERO, false, later).is_ok());
        assert_eq!(
            gate.pass("b", Class::Owner, Duration::ZERO, false, later).unwrap_err().0,
            reason::BUCKET
        );
        assert_eq!(
            gate.pass("b", Class::Owner, Duration::ZERO, true, later).unwrap_err().0,
            reason::BUSY
        );
        let (why, wait) =
            gate.pass("a", Class::Owner, Duration::from_secs(60), false, later).unwrap_err();
        assert_eq!((why, wait), (reason::INTERVAL, Duration::from_secs(60)));
    }

    #[test]
    fn other_limits_do_not_fill_the_bucket() {
        let now = Instant::now();
        let mut gate = gate(Limits { per_hour: 10, burst: 1, ..Limits::default() }, now);
        assert!(gate.pass("a", Class::Owner, Duration::ZERO, false, now).is_ok());
        gate.set_limits(Limits { per_hour: 60, burst: 5, ..Limits::default() }, now);
        assert_eq!(
            gate.pass("a", Class::Owner, Duration::ZERO, false, now).unwrap_err().0,
            reason::BUCKET
        );
        let later = now + Duration::from_secs(61);
        assert!(gate.pass("a", Class::Owner, Duration::ZERO, false, later).is_ok());
        gate.set_limits(Limits { per_hour: 60, burst: 2, ..Limits::default() }, later);
        let much_later = later + Duration::from_secs(3600);
        gate.set_limits(Limits { per_hour: 60, burst: 1, ..Limits::default() }, much_later);
        assert!(gate.pass("a", Class::Owner, Duration::ZERO, false, much_later).is_ok());
        assert!(gate.pass("a", Class::Owner, Duration::ZERO, false, much_later).is_err());
    }

    #[test]
    fn none_in_an_hour_is_none() {
        let now = Instant::now();
        let mut gate = gate(Limits { per_hour: 0, ..Limits::default() }, now);
        let later = now + Duration::from_secs(99_999);
        assert!(gate.pass("a", Class::Owner, Duration::ZERO, false, later).is_err());
        // Names from clients cannot fill the memory, nor take the place of our own.
        for name in 0..9999 {
            let _ = gate.pass(&name.to_string(), Class::Group, Duration::ZERO, false, now);
            gate.suppress(&name.to_string(), reason::USER, 1);
        }
        assert!(gate.counts.len() <= MAX_NAMES + 2 && gate.suppressed.len() <= 2 * MAX_NAMES + 4);
        gate.set_own(FxHashSet::from_iter(["b".to_owned()]));
        assert!(gate.pass("b", Class::Owner, Duration::ZERO, false, now).is_err());
        assert_eq!(gate.counts("b").suppressed, 1);
        let told = gate.suppressed();
        let of = |name: &str| -> u64 {
            told.iter().filter(|hits| hits.name == name).map(|hits| hits.times).sum()
        };
        assert_eq!((of("b"), of("a")), (1, 1));
        assert!(of(OTHERS) > 9000);
    }

    #[test]
    fn regression_members_of_the_group_cannot_spend_what_the_triggers_may_save() {
        let now = Instant::now();
        let mut gate = gate(Limits { per_hour: 10, burst: 3, ..Limits::default() }, now);
        let mut passes = |name: &str, class| {
            gate.pass(name, class, Duration::from_secs(60), false, now).map_err(|why| why.0)
        };
        let saved = (0..9999).filter(|uid| passes(&uid.to_string(), Class::Group).is_ok());
        assert_eq!(saved.count(), 3);
        assert_eq!(passes("a", Class::Owner), Ok(()));
        assert_eq!(passes("a", Class::Owner), Err(reason::INTERVAL));
    }

    #[test]
    fn regression_invented_names_do_not_share_an_interval_with_others() {
        let now = Instant::now();
        let limits = Limits { per_hour: 3600, burst: 2000, ..Limits::default() };
        let mut gate = gate(limits, now);
        let interval = Duration::from_secs(60);
        assert!(gate.pass("a", Class::Owner, interval, false, now).is_ok());
        for name in 0..1000 {
            let passed = gate.pass(&name.to_string(), Class::Group, interval, false, now);
            assert_eq!(passed, Ok(()));
        }
        let passed = gate.pass("another agent", Class::Group, interval, false, now);
        assert_eq!(passed, Ok(()));
        let why = gate.pass("another agent", Class::Group, interval, false, now).unwrap_err().0;
        assert_eq!((why, gate.saved.len()), (reason::INTERVAL, MAX_NAMES + 1));
        assert!(gate.pass("a", Class::Owner, interval, false, now).is_err());
    }
}
