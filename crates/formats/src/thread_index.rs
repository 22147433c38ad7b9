//! [`ThreadIndex`]: thread ids to incarnations, for the loaders' inner loops.

use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Threads, Time};

/// Which incarnation a thread id means at a time. *Why not [`Threads::at`]*: nearly every id has
/// one incarnation, which this finds without looking at the thread.
pub(crate) struct ThreadIndex(FxHashMap<u32, Incarnations>);

enum Incarnations {
    One(ThreadId),
    /// Each with its start time, in that order.
    Many(Box<[(Time, ThreadId)]>),
}

impl ThreadIndex {
    pub(crate) fn new(threads: &Threads) -> Self {
        let mut index = FxHashMap::default();
        for (_, thread) in threads.iter() {
            index.entry(thread.tid).or_insert_with(|| match threads.incarnations(thread.tid) {
                [only] => Incarnations::One(*only),
                many => Incarnations::Many(
                    many.iter()
                        .map(|id| (threads.get(*id).start.unwrap_or(Time::ZERO), *id))
                        .collect(),
                ),
            });
        }
        Self(index)
    }

    /// The incarnation of `tid` at `time`, the same as [`Threads::at`]; the idle thread for an
    /// unknown id.
    #[inline]
    pub(crate) fn at(&self, tid: u32, time: Time) -> ThreadId {
        match self.0.get(&tid) {
            Some(Incarnations::One(id)) => *id,
            Some(Incarnations::Many(many)) => {
                let next = many.partition_point(|(start, _)| *start <= time);
                many[next.saturating_sub(1)].1
            }
            None => ThreadId::IDLE,
        }
    }

    /// True if every time has the same incarnation of `tid`.
    pub(crate) fn is_only(&self, tid: u32) -> bool {
        !matches!(self.0.get(&tid), Some(Incarnations::Many(_)))
    }
}
