//! The stacks that were taken for waits, or for wake-ups, by thread and time, and by thread and place.

use super::segment::Taken;
use rustc_hash::FxHashMap;

/// The stacks of waits, or of wakers.
#[derive(Default)]
pub(super) struct KeptStacks {
    /// By thread and place, in order of time.
    of_place: FxHashMap<(u32, u8), Vec<Kept>>,
    /// Their chains, by thread and time.
    at_time: FxHashMap<(u32, u64), u32>,
    /// What `at_time` may have. Most waits have no stack of their own, and this says so faster.
    may_have: Filter,
}

/// A stack that was taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kept {
    pub(super) time: u64,
    pub(super) chain: u32,
    /// In a soft interrupt that the waker caused.
    pub(super) by_thread: bool,
}

impl KeptStacks {
    pub(super) fn add(&mut self, taken: &Taken) {
        let kept = Kept { time: taken.time, chain: taken.stack, by_thread: taken.by_thread };
        self.of_place.entry((taken.tid, taken.place)).or_default().push(kept);
        self.at_time.insert((taken.tid, taken.time), taken.stack);
    }

    /// When all have been added.
    pub(super) fn finish(&mut self) {
        self.of_place.values_mut().for_each(|list| list.sort_unstable());
        self.may_have = Filter::new(self.at_time.len());
        self.at_time.keys().for_each(|(tid, time)| self.may_have.add(*tid, *time));
    }

    /// The chain of the stack that was taken for this very time; 0 if none was.
    #[inline]
    pub(super) fn at(&self, tid: u32, time: u64) -> u32 {
        if !self.may_have.has(tid, time) {
            return 0;
        }
        self.at_time.get(&(tid, time)).copied().unwrap_or(0)
    }

    /// The last stack of a place before `time`, and until when it is that. The caller asks whether a
    /// later one may be missing.
    pub(super) fn before(&self, tid: u32, time: u64, place: u8) -> (Option<Kept>, u64) {
        let Some(list) = self.of_place.get(&(tid, place)) else { return (None, u64::MAX) };
        let next = list.partition_point(|kept| kept.time <= time);
        let last = next.checked_sub(1).map(|last| list[last]);
        let until = list.get(next).map_or(u64::MAX, |next| next.time);
        (last.filter(|last| last.chain != 0), until)
    }
}

/// A set that may have more than was added: one bit for a hash, of sixteen for each.
#[derive(Default)]
struct Filter {
    bits: Vec<u64>,
    shift: u32,
}

impl Filter {
    fn new(len: usize) -> Self {
        let words = (len / 4 + 1).next_power_of_two();
        // The upper bits of a hash choose the bit.
        Self { bits: vec![0; words], shift: 64 - 6 - words.ilog2() }
    }

    #[inline]
    fn bit(&self, tid: u32, time: u64) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        ((time ^ u64::from(tid) << 40).wrapping_mul(ODD) >> self.shift) as usize
    }

    fn add(&mut self, tid: u32, time: u64) {
        let bit = self.bit(tid, time);
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    #[inline]
    fn has(&self, tid: u32, time: u64) -> bool {
        let bit = self.bit(tid, time);
        self.bits.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }
}
