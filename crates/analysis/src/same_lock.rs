//! Which waits are for one lock, as far as stacks tell: for locks whose addresses were not
//! recorded.
//!
//! *Why by release:* who waits for a lock does so in many functions, and everybody who waits for
//! any mutex sleeps in `futex_wait`. But a function that lets a lock go lets in whoever waits for
//! it, wherever: waits that sleep in one function, and that one releasing function has ended, are
//! waits for one lock.

use crate::timeline::{Segment, State};
use crate::{Analysis, WaitClass};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use unhitch_model::{NameId, StackId, ThreadId};

/// The functions that were seen to end the waits of each signature, anywhere in the recording, as
/// numbers.
pub(crate) type Releasing = FxHashMap<u64, FxHashSet<u32>>;

impl Analysis<'_> {
    /// True when `segment` is a sleep for a lock that a task ended.
    pub(crate) fn waits_for_lock(&self, segment: &Segment) -> bool {
        let by_task = segment.wake.is_some_and(|wake| self.facts.is_by_task(self.trace, wake));
        by_task
            && matches!(segment.state, State::Sleeping(_))
            && self.class_of(segment) == WaitClass::Lock
    }

    /// True when waits on these two stacks are for one lock.
    pub(crate) fn is_same_lock(&self, one: StackId, other: StackId) -> bool {
        let [a, b] = [one, other].map(|wait| self.facts.signature(wait));
        if a == b || a == 0 || b == 0 || self.leaf(one) != self.leaf(other) {
            return a == b;
        }
        let releasing = self.releasing.get_or_init(|| self.all_releasing());
        let (Some(a), Some(b)) = (releasing.get(&a), releasing.get(&b)) else { return false };
        !a.is_disjoint(b)
    }

    /// The function that waits, below the scheduler's own.
    pub(crate) fn leaf(&self, stack: StackId) -> Option<NameId> {
        let frame = self.trace.stacks.frames_of(stack).get(self.facts.noise_len(stack))?;
        self.trace.symbols.get(*frame).last().map(|symbol| symbol.function)
    }

    fn all_releasing(&self) -> Releasing {
        let pairs: FxHashSet<(StackId, u64)> = (1..self.timeline.threads() as u32)
            .into_par_iter()
            .fold(FxHashSet::default, |mut pairs, thread| {
                self.timeline.each_segment(
                    self.trace,
                    ThreadId(thread),
                    self.timeline.window(),
                    &mut |segment| {
                        if let Some(wake) = segment.wake.filter(|_| self.waits_for_lock(&segment)) {
                            pairs.insert((
                                self.trace.wakings.stack[wake],
                                self.facts.signature(segment.wait_stack(self.trace)),
                            ));
                        }
                    },
                );
                pairs
            })
            .reduce(FxHashSet::default, |mut all, pairs| {
                all.extend(pairs);
                all
            });
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut functions: FxHashMap<StackId, Option<u32>> = FxHashMap::default();
        let mut releasing = Releasing::default();
        for (stack, signature) in pairs {
            let number = *functions.entry(stack).or_insert_with(|| {
                let next = numbers.len() as u32;
                self.deepest_function(stack)
                    .map(|function| *numbers.entry(function).or_insert(next))
            });
            if let Some(number) = number {
                releasing.entry(signature).or_default().insert(number);
            }
        }
        releasing
    }
}
