//! Counts equal words at the start of a slice, in vectors of 128, 256 or 512 bits.
//!
//! *Why eight vectors at a time:* combined with AND or OR they need only one comparison and one
//! branch, so only the loads limit the speed.

/// A vector width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// 128 bits.
    Sse2,
    /// 256 bits.
    Avx2,
    /// 512 bits.
    Avx512,
}

/// The words as 32-bit halves, the low half of each word first.
pub fn halves(words: &[u64]) -> impl ExactSizeIterator<Item = u32> + '_ {
    // SAFETY: the same memory, which any u32 may be read from; u32 is aligned less strictly.
    let halves =
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u32>(), words.len() * 2) };
    (0..halves.len()).map(|index| halves[index ^ usize::from(cfg!(target_endian = "big"))])
}

/// True if this CPU has such vectors.
pub fn has(lanes: Lanes) -> bool {
    #[cfg(target_arch = "x86_64")]
    return match lanes {
        Lanes::Sse2 => true,
        Lanes::Avx2 => is_x86_feature_detected!("avx2"),
        Lanes::Avx512 => is_x86_feature_detected!("avx512f"),
    };
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// How many words at the start are all 0, or all ones (`ONES`), counted in whole vectors; 0 if the
/// CPU has no such vectors.
#[inline]
pub fn alike<const ONES: bool>(lanes: Lanes, words: &[u64]) -> usize {
    if !has(lanes) {
        return 0;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the CPU has the required feature, which was just checked.
    return unsafe {
        match lanes {
            Lanes::Sse2 => x86::sse2::<ONES>(words),
            Lanes::Avx2 => x86::avx2::<ONES>(words),
            Lanes::Avx512 => x86::avx512::<ONES>(words),
        }
    };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// `$all` checks whether a vector is all ones (true) or all zero (false).
    macro_rules! alike {
        ($name:ident, $feature:literal, $vector:ty, $load:ident as $pointer:ty, $and:ident, $or:ident, $all:ident) => {
            #[target_feature(enable = $feature)]
            pub fn $name<const ONES: bool>(words: &[u64]) -> usize {
                const WORDS: usize = size_of::<$vector>() / 8;
                // SAFETY: there is a whole vector at the start of these words; the load need not be
                // aligned.
                let load =
                    |words: &[u64; WORDS]| unsafe { $load(words.as_ptr().cast::<$pointer>()) };
                let (vectors, _) = words.as_chunks::<WORDS>();
                let (blocks, _) = vectors.as_chunks::<8>();
                let both = |a, b| if ONES { $and(a, b) } else { $or(a, b) };
                let mut at = 0;
                for [a, b, c, d, e, f, g, h] in blocks {
                    let low = both(both(load(a), load(b)), both(load(c), load(d)));
                    let high = both(both(load(e), load(f)), both(load(g), load(h)));
                    if !$all(both(low, high), ONES) {
                        break;
                    }
                    at += 8;
                }
                while vectors.get(at).is_some_and(|vector| $all(load(vector), ONES)) {
                    at += 1;
                }
                at * WORDS
            }
        };
    }

    alike!(
        sse2,
        "sse2",
        __m128i,
        _mm_loadu_si128 as __m128i,
        _mm_and_si128,
        _mm_or_si128,
        sse2_all
    );
    alike!(
        avx2,
        "avx2",
        __m256i,
        _mm256_loadu_si256 as __m256i,
        _mm256_and_si256,
        _mm256_or_si256,
        avx2_all
    );
    alike!(
        avx512,
        "avx512f",
        __m512i,
        _mm512_loadu_si512 as __m512i,
        _mm512_and_si512,
        _mm512_or_si512,
        avx512_all
    );

    #[inline]
    #[target_feature(enable = "sse2")]
    fn sse2_all(vector: __m128i, ones: bool) -> bool {
        _mm_movemask_epi8(_mm_cmpeq_epi8(vector, _mm_set1_epi8(if ones { -1 } else { 0 })))
            == 0xffff
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn avx2_all(vector: __m256i, ones: bool) -> bool {
        if ones {
            _mm256_testc_si256(vector, _mm256_set1_epi8(-1)) == 1
        } else {
            _mm256_testz_si256(vector, vector) == 1
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn avx512_all(vector: __m512i, ones: bool) -> bool {
        _mm512_cmpneq_epi64_mask(vector, _mm512_set1_epi64(if ones { -1 } else { 0 })) == 0
    }
}
