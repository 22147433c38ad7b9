//! A bitmap of the used blocks of a volume.

/// The used blocks of a volume.
#[derive(Clone, Debug)]
pub struct Bitmap {
    words: Vec<u64>,
    bits: usize,
}

impl Bitmap {
    /// `bits` blocks, all free.
    pub fn new(bits: usize) -> Self {
        Self { words: vec![0; bits.div_ceil(64)], bits }
    }

    /// `bits` blocks, at most 64 per word. A set bit marks a used block, lowest bit first.
    pub fn from_words(words: Vec<u64>, bits: usize) -> Self {
        assert!(bits <= words.len() * 64, "{bits} blocks in {} words", words.len());
        Self { words, bits }
    }

    /// A fragmented volume: `regions` of `region_bits` each, with free blocks everywhere, but only
    /// the last `run` of each region contiguous.
    pub fn fragmented(regions: usize, region_bits: usize, run: usize) -> Self {
        let mut map = Self::new(regions * region_bits);
        let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
        for bit in 0..map.bits {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let to_region_end = region_bits - bit % region_bits;
            let is_border = to_region_end == run + 1 || to_region_end == region_bits;
            if to_region_end > run && (is_border || bit % (run / 2).max(1) == 0 || noise >> 62 == 0)
            {
                map.take(bit..bit + 1);
            }
        }
        map
    }

    /// A full volume: `regions` of `region_bits` each, with everything used except for the last
    /// `run` of each region.
    pub fn full(regions: usize, region_bits: usize, run: usize) -> Self {
        let mut map = Self::new(regions * region_bits);
        for region in 0..regions {
            let start = region * region_bits;
            map.take(start..start + region_bits.saturating_sub(run));
        }
        map
    }

    /// Marks blocks as used.
    pub fn take(&mut self, blocks: std::ops::Range<usize>) {
        for bit in blocks {
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Number of blocks.
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// The bits, 64 per word; those after the last block are unspecified.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn is_taken(&self, bit: usize) -> bool {
        self.words[bit / 64] >> (bit % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Way, find_clear_run};

    /// The definition, implemented literally.
    fn first_clear_run(taken: &[bool], len: usize) -> Option<usize> {
        taken.windows(len).position(|window| window.iter().all(|taken| !taken))
    }

    #[test]
    fn finds_the_first_clear_run_of_random_bitmaps() {
        let mut noise = 1_u64;
        let mut random = |below: u64| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise % below
        };
        for _ in 0..2_000 {
            let bits = random(300) as usize;
            let density = 1 + random(8);
            let taken: Vec<bool> = (0..bits).map(|_| random(9) < density).collect();
            let mut map = Bitmap::new(bits);
            for bit in (0..bits).filter(|&bit| taken[bit]) {
                map.take(bit..bit + 1);
            }
            let len = 1 + random(20) as usize;
            for way in Way::ALL {
                assert_eq!(
                    find_clear_run(&map, way, 0, len),
                    first_clear_run(&taken, len),
                    "{way:?}: {len} in {taken:?}"
                );
            }
        }
    }

    #[test]
    fn each_region_has_one_run_at_its_end() {
        let (regions, region_bits, run) = (7, 1_000, 64);
        for mut map in
            [Bitmap::fragmented(regions, region_bits, run), Bitmap::full(regions, region_bits, run)]
        {
            for region in 0..regions {
                let start = find_clear_run(&map, Way::Bit, 0, run);
                assert_eq!(start, Some((region + 1) * region_bits - run));
                map.take(start.unwrap()..start.unwrap() + run);
            }
            assert_eq!(find_clear_run(&map, Way::Bit, 0, run), None);
        }
    }
}
