//! The search for a run of free blocks, in six ways with the same result: as slow as possible, as
//! Windows did it when seven instructions blocked 63 cores, and fixed.
//!
//! A word that is neither full nor empty costs the same in [`Way::Word`] to [`Way::Avx512`],
//! because they use the same code for it. They differ in how they skip words that are all used or
//! all free.

use crate::bitmap::Bitmap;
use crate::sys::{self, Lanes};

/// How to search for free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Bit by bit.
    Bit,
    /// 32 bits at a time if all are used or all are free, else bit by bit: the loop of seven
    /// instructions.
    Loop32,
    /// 64 bits at a time in any case.
    Word,
    /// 128 bits at a time.
    Sse2,
    /// 256 bits at a time.
    Avx2,
    /// 512 bits at a time.
    Avx512,
}

impl Way {
    /// All ways, slowest first.
    pub const ALL: [Self; 6] =
        [Self::Bit, Self::Loop32, Self::Word, Self::Sse2, Self::Avx2, Self::Avx512];

    /// The name that the user types.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit => "bit",
            Self::Loop32 => "loop32",
            Self::Word => "word",
            Self::Sse2 => "sse2",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Finds a way by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }

    fn lanes(self) -> Option<Lanes> {
        match self {
            Self::Bit | Self::Loop32 | Self::Word => None,
            Self::Sse2 => Some(Lanes::Sse2),
            Self::Avx2 => Some(Lanes::Avx2),
            Self::Avx512 => Some(Lanes::Avx512),
        }
    }

    /// True if this CPU supports it.
    pub fn is_possible(self) -> bool {
        self.lanes().is_none_or(sys::has_lanes)
    }
}

/// Finds the first of `len` (at least 1) consecutive free blocks at or after block `from`.
///
/// If this CPU does not support the way, [`Way::Word`] is used.
///
/// ```
/// use unhitch_lab::bitmap::Bitmap;
/// use unhitch_lab::search::{Way, find_clear_run};
///
/// let mut blocks = Bitmap::new(1_000);
/// blocks.take(0..100);
/// blocks.take(120..900);
/// assert_eq!(find_clear_run(&blocks, Way::Word, 0, 20), Some(100));
/// assert_eq!(find_clear_run(&blocks, Way::Word, 0, 21), Some(900));
/// ```
pub fn find_clear_run(map: &Bitmap, way: Way, from: usize, len: usize) -> Option<usize> {
    if from >= map.bits() {
        return None;
    }
    match way {
        Way::Bit => by_bit(map, from, len.max(1)),
        Way::Loop32 => by_loop32(map, from, len.max(1)),
        _ => Scan {
            map,
            len: len.max(1),
            run: 0,
            lanes: way.lanes(),
            vector_delay: MIN_VECTOR_DELAY,
        }
        .find(from),
    }
}

fn by_bit(map: &Bitmap, from: usize, len: usize) -> Option<usize> {
    let mut run = 0;
    for bit in from..map.bits() {
        run = if map.is_taken(bit) { 0 } else { run + 1 };
        if run == len {
            return Some(bit + 1 - len);
        }
    }
    None
}

fn by_loop32(map: &Bitmap, from: usize, len: usize) -> Option<usize> {
    let mut run = 0;
    let mut start = from / 32 * 32;
    for half in sys::halves(map.words()).skip(from / 32) {
        let is_inside = start >= from && start + 32 <= map.bits();
        if half == u32::MAX {
            run = 0;
        } else if half == 0 && is_inside && run + 32 < len {
            run += 32;
        } else {
            for bit in start..start + 32 {
                let is_free = bit >= from && bit < map.bits() && half >> (bit - start) & 1 == 0;
                run = if is_free { run + 1 } else { 0 };
                if run == len {
                    return Some(bit + 1 - len);
                }
            }
        }
        start += 32;
    }
    None
}

/// How many equal words are skipped one by one before trying vectors, at first.
const MIN_VECTOR_DELAY: usize = 4;
/// If vectors skip fewer words than this, they were not worth it, and the next try comes later.
const WORTHWHILE_WORDS: usize = 32;
/// Maximum number of equal words skipped one by one before trying vectors.
const MAX_VECTOR_DELAY: usize = 1 << 12;

/// A search by whole words, and by vectors to skip several equal words.
struct Scan<'a> {
    map: &'a Bitmap,
    len: usize,
    /// Number of free blocks just before the current position.
    run: usize,
    lanes: Option<Lanes>,
    vector_delay: usize,
}

impl Scan<'_> {
    // If this were inlined, the compiler would make separate versions for words and for vectors,
    // which could differ in speed where they should not.
    #[inline(never)]
    fn find(mut self, from: usize) -> Option<usize> {
        let (words, whole) = (self.map.words(), self.map.bits() / 64);
        let first = from / 64;
        // Blocks before `from` and after the end count as used.
        let tail =
            if self.map.bits().is_multiple_of(64) { 0 } else { u64::MAX << (self.map.bits() % 64) };
        let head = (1 << (from % 64)) - 1;
        if first >= whole {
            return self.examine(first, words[first] | head | tail);
        }
        if let found @ Some(_) = self.examine(first, words[first] | head) {
            return found;
        }
        let mut at = first + 1;
        while at < whole {
            match words[at] {
                u64::MAX => {
                    self.run = 0;
                    at = self.skip::<true>(at + 1, whole);
                }
                0 => {
                    // Go no further than needed for the run: the last word is examined below.
                    let missing = self.len.saturating_sub(self.run) / 64;
                    let end = self.skip::<false>(at, whole.min(at + missing));
                    self.run += (end - at) * 64;
                    at = end;
                    if self.run >= self.len {
                        return Some(at * 64 - self.run);
                    }
                    if at < whole {
                        if let found @ Some(_) = self.examine(at, words[at]) {
                            return found;
                        }
                        at += 1;
                    }
                }
                word => {
                    if let found @ Some(_) = self.examine(at, word) {
                        return found;
                    }
                    at += 1;
                }
            }
        }
        if tail == 0 { None } else { self.examine(whole, words[whole] | tail) }
    }

    /// Skips words that are all used (`ONES`) or all free: returns the first other word at or after
    /// `at`, or `end` if there is none.
    #[inline]
    fn skip<const ONES: bool>(&mut self, mut at: usize, end: usize) -> usize {
        let words = &self.map.words()[..end];
        let alike = |word: &u64| *word == if ONES { u64::MAX } else { 0 };
        let soon = end.min(at + self.vector_delay);
        while at < soon && alike(&words[at]) {
            at += 1;
        }
        if at < soon {
            return at;
        }
        if let Some(lanes) = self.lanes {
            let skipped = sys::words_alike::<ONES>(lanes, &words[at..]);
            self.vector_delay = if skipped < WORTHWHILE_WORDS {
                (self.vector_delay * 2).min(MAX_VECTOR_DELAY)
            } else {
                MIN_VECTOR_DELAY
            };
            at += skipped;
        }
        while at < end && alike(&words[at]) {
            at += 1;
        }
        at
    }

    /// Examines one word for the end of a run, a complete run, or the start of one.
    #[inline]
    fn examine(&mut self, at: usize, word: u64) -> Option<usize> {
        if self.run + word.trailing_zeros() as usize >= self.len {
            return Some(at * 64 - self.run);
        }
        if let Some(start) = run_inside(word, self.len) {
            return Some(at * 64 + start);
        }
        self.run = if word == 0 { self.run + 64 } else { word.leading_zeros() as usize };
        None
    }
}

/// The first of `len` clear bits in one word.
#[inline]
fn run_inside(word: u64, len: usize) -> Option<usize> {
    // Bit i of `starts` is set if a clear run of length `so_far` starts at i.
    let (mut starts, mut missing, mut so_far) = (!word, len - 1, 1);
    if len > 64 {
        return None;
    }
    while missing > 0 && starts != 0 {
        let step = missing.min(so_far);
        starts &= starts >> step;
        missing -= step;
        so_far += step;
    }
    (starts != 0).then(|| starts.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bitmaps made of stretches that are full, empty, random or nearly full.
    fn bitmaps() -> impl Strategy<Value = (Vec<u64>, usize)> {
        let stretch = (0..4_u8, 1..200_usize, any::<u64>());
        (proptest::collection::vec(stretch, 1..8), 0..64_usize).prop_map(|(stretches, short)| {
            let mut words = Vec::new();
            for (kind, len, mut noise) in stretches {
                words.extend((0..len).map(|_| {
                    noise = noise
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    match kind {
                        0 => u64::MAX,
                        1 => 0,
                        2 => noise ^ noise >> 29,
                        _ => u64::MAX ^ (u64::from(noise >> 60 == 0) << (noise >> 58)),
                    }
                }));
            }
            let bits = words.len() * 64 - short;
            (words, bits)
        })
    }

    fn all_find_the_same(map: &Bitmap, from: usize, len: usize) {
        let right = find_clear_run(map, Way::Bit, from, len);
        for way in Way::ALL {
            assert_eq!(
                find_clear_run(map, way, from, len),
                right,
                "{way:?} from {from}, {len} of {} blocks",
                map.bits()
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_ways_find_the_same((words, bits) in bitmaps(), from in 0.0..1.01_f64, len in prop_oneof![1..70_usize, 1..6_000_usize]) {
            all_find_the_same(&Bitmap::from_words(words, bits), (bits as f64 * from) as usize, len);
        }
    }

    #[test]
    fn full_empty_and_fragmented_bitmaps() {
        for bits in [0, 1, 63, 64, 65, 4_095, 4_096, 4_097, 40_000] {
            let empty = Bitmap::new(bits);
            let full = Bitmap::from_words(vec![u64::MAX; bits.div_ceil(64)], bits);
            for (from, len) in [
                (0, 1),
                (1, 64),
                (bits / 2, bits / 2),
                (bits / 3, bits),
                (0, bits.max(1)),
                (0, bits + 1),
                (bits, 1),
            ] {
                all_find_the_same(&empty, from, len);
                all_find_the_same(&full, from, len);
            }
        }
        for map in [Bitmap::fragmented(5, 9_000, 64), Bitmap::full(5, 9_000, 64)] {
            for from in (0..map.bits() + 100).step_by(997) {
                for len in [1, 2, 31, 63, 64, 65] {
                    all_find_the_same(&map, from, len);
                }
            }
        }
    }

    /// Without this, "all ways find the same" would prove nothing about vectors.
    #[test]
    fn vectors_are_used_if_the_cpu_has_them() {
        let words = [vec![u64::MAX; 1_000], vec![0; 1_000]].concat();
        for way in Way::ALL {
            assert_eq!(Way::named(way.name()), Some(way));
            let Some(lanes) = way.lanes().filter(|_| way.is_possible()) else { continue };
            assert!((993..=1_000).contains(&sys::words_alike::<true>(lanes, &words)), "{way:?}");
            assert!(
                (993..=1_000).contains(&sys::words_alike::<false>(lanes, &words[1_000..])),
                "{way:?}"
            );
            assert_eq!(sys::words_alike::<false>(lanes, &words), 0);
        }
    }
}
