//! Unpacks the plain LZ77 variant of XPRESS ([MS-XCA] 2.4), with which ETW compresses its buffers.
//!
//! A word has 32 flags, highest first. 0 is a literal byte. 1 is a match of 16 bits: 13 bits of
//! distance and 3 of length. Longer lengths continue in a nibble (two matches share a byte), a
//! byte, 16 and 32 bits.

/// Flags in a word, and so the maximum number of literal bytes between two matches. Always this
/// many are copied at once, even if fewer count, because a copy of known length takes few
/// instructions. The output has room for as many behind its end.
const FLAGS: usize = 32;
/// Minimum length of a match, bytes.
const MIN_MATCH: usize = 3;

/// Unpacks `packed` to `out`, which then holds exactly `len` bytes.
///
/// # Errors
/// The offset at which `packed` is damaged or ends too early. `out` then holds what came before.
pub(crate) fn unpack(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), usize> {
    // Real streams do not expand more than this, and a wrong `len` must not cost memory.
    let likely = len.min(packed.len().saturating_mul(64));
    out.resize(likely + FLAGS, 0);
    let (mut done, mut result) = unpack_to(packed, likely, out);
    if result.is_ok() && done < len {
        out.resize(len + FLAGS, 0);
        (done, result) = unpack_to(packed, len, out);
    }
    out.truncate(done);
    result
}

/// Unpacks to the first `len` bytes of `out`, which must have room behind them. Returns the number
/// of bytes unpacked.
fn unpack_to(packed: &[u8], len: usize, out: &mut [u8]) -> (usize, Result<(), usize>) {
    let mut input = Input { packed, at: 0, nibble: 0 };
    let mut done = 0;
    while done < len {
        let Some(mut flags) = input.u32() else { return (done, Err(input.at)) };
        let mut left = FLAGS;
        while left > 0 && done < len {
            let bytes = left.min(flags.leading_zeros() as usize);
            if bytes > 0 {
                let count = bytes.min(len - done);
                match (packed.get(input.at..input.at + FLAGS), out.get_mut(done..done + FLAGS)) {
                    (Some(from), Some(to)) => to.copy_from_slice(from),
                    _ => {
                        let from = packed.get(input.at..).unwrap_or_default();
                        let to = out.get_mut(done..done + count).unwrap_or_default();
                        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                        if from.len() < count {
                            return (done + from.len(), Err(packed.len()));
                        }
                    }
                }
                input.at += count;
                done += count;
                left -= bytes;
                flags = flags.unbounded_shl(bytes as u32);
                continue;
            }
            (left, flags) = (left - 1, flags << 1);
            let at = input.at;
            let Some((distance, length)) = input.one_match() else { return (done, Err(at)) };
            let Some(start) = done.checked_sub(distance) else { return (done, Err(at)) };
            let length = length.min(len - done);
            copy(out, start, done, length);
            done += length;
        }
    }
    (done, Ok(()))
}

/// Copies `length` bytes from `start` forward to `to`. The ranges may overlap, so that copied bytes
/// are copied again.
#[inline]
fn copy(out: &mut [u8], start: usize, to: usize, length: usize) {
    match to - start {
        16.. => copy_runs::<16>(out, start, to, length),
        8.. => copy_runs::<8>(out, start, to, length),
        _ => {
            // The run doubles with each copy.
            let mut copied = 0;
            while copied < length {
                let run = (to + copied - start).min(length - copied);
                out.copy_within(start..start + run, to + copied);
                copied += run;
            }
        }
    }
}

/// The same for a distance of at least `N` bytes. Most matches are no longer than one run, and the
/// output has room behind the last one.
#[inline]
fn copy_runs<const N: usize>(out: &mut [u8], start: usize, to: usize, length: usize) {
    let mut copied = 0;
    while copied < length {
        let Some(run) = out.get(start + copied..).and_then(|rest| rest.first_chunk::<N>()).copied()
        else {
            return;
        };
        let Some(room) = out.get_mut(to + copied..).and_then(|rest| rest.first_chunk_mut::<N>())
        else {
            return;
        };
        *room = run;
        copied += N;
    }
}

struct Input<'a> {
    packed: &'a [u8],
    at: usize,
    /// Offset of the byte whose upper half is the next nibble; 0 for none.
    nibble: usize,
}

impl Input<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.packed.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(bytes)
    }

    #[inline]
    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    #[inline]
    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// The distance and the length of a match.
    #[inline]
    fn one_match(&mut self) -> Option<(usize, usize)> {
        let token = usize::from(self.u16()?);
        let (distance, low) = ((token >> 3) + 1, token & 7);
        Some((distance, if low < 7 { low + MIN_MATCH } else { self.long()? }))
    }

    /// The length of a match that does not fit into its token.
    fn long(&mut self) -> Option<usize> {
        let nibble = match std::mem::take(&mut self.nibble) {
            0 => {
                self.nibble = self.at;
                self.u8()? & 15
            }
            at => self.packed.get(at)? >> 4,
        };
        if nibble < 15 {
            return Some(usize::from(nibble) + 7 + MIN_MATCH);
        }
        let byte = self.u8()?;
        if byte < 255 {
            return Some(usize::from(byte) + 15 + 7 + MIN_MATCH);
        }
        let long = match self.u16()? {
            0 => self.u32()? as usize,
            long => usize::from(long),
        };
        // The long forms hold the whole length.
        (long >= 15 + 7).then_some(long.checked_add(MIN_MATCH)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8], len: usize) -> Result<Vec<u8>, usize> {
        let mut out = Vec::new();
        unpack(packed, len, &mut out).map(|()| out)
    }

    /// The two examples of [MS-XCA] 3.1.
    #[test]
    fn the_specification_s_examples() {
        let alphabet = b"abcdefghijklmnopqrstuvwxyz";
        let packed = [&[0x3f, 0, 0, 0][..], alphabet].concat();
        assert_eq!(unpacked(&packed, 26).as_deref(), Ok(&alphabet[..]));
        let packed = [0xff, 0xff, 0xff, 0x1f, b'a', b'b', b'c', 0x17, 0, 0x0f, 0xff, 0x26, 1];
        assert_eq!(unpacked(&packed, 300).as_deref(), Ok(&b"abc".repeat(100)[..]));
    }

    #[test]
    fn matches_of_any_length_and_distance() {
        for distance in (1..40).chain([100, 8_000]) {
            for length in (3..=10).chain([11, 16, 17, 24, 25, 31, 33, 48, 100, 300, 70_000]) {
                let before: Vec<u8> = (0..distance).map(|n| (n * 7 % 251) as u8).collect();
                let mut packed: Vec<u8> = Vec::new();
                for bytes in before.chunks(FLAGS) {
                    packed.extend(
                        (u32::MAX.checked_shr(bytes.len() as u32).unwrap_or(0)).to_le_bytes(),
                    );
                    packed.extend(bytes);
                }
                if distance % FLAGS == 0 {
                    packed.extend(u32::MAX.to_le_bytes());
                }
                let short = (length - 3).min(7);
                packed.extend((((distance - 1) << 3 | short) as u16).to_le_bytes());
                if short == 7 {
                    let more = length - 10;
                    packed.push(more.min(15) as u8);
                    if more >= 15 {
                        packed.push((more - 15).min(255) as u8);
                    }
                    if more >= 15 + 255 {
                        let long = length - 3;
                        match u16::try_from(long) {
                            Ok(long) => packed.extend(long.to_le_bytes()),
                            Err(_) => {
                                packed.extend([&[0, 0][..], &(long as u32).to_le_bytes()].concat())
                            }
                        }
                    }
                }
                let expected: Vec<u8> =
                    (0..distance + length).map(|at| before[at % distance]).collect();
                assert_eq!(
                    unpacked(&packed, expected.len()).as_ref(),
                    Ok(&expected),
                    "{length} bytes, {distance} back"
                );
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_never_more_than_was_asked_for() {
        assert_eq!(
            unpacked(&[0, 0, 0, 0x80, 0xf8, 0xff], 10),
            Err(4),
            "a match before the beginning"
        );
        assert_eq!(unpacked(&[0, 0, 0], 10), Err(0));
        assert_eq!(unpacked(&[0, 0, 0, 0], 1), Err(4));
        let bomb = [0, 0, 0, 0x40, b'x', 7, 0, 0x0f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(unpacked(&bomb, 5000).map(|out| out.len()), Ok(5000));
    }
}
