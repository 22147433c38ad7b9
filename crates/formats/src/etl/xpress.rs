//! Plain LZ77 of XPRESS ([MS-XCA] 2.4), as ETW packs its buffers.
//!
//! Words of 32 flags, highest first: 0 is a byte to copy, 1 a match of 16 bits: 13 of distance, 3 of length. Longer lengths go on in a
//! nibble (two matches share a byte), a byte, 16 and 32 bits.

/// Unpacks `packed` to `out` until it holds `len` bytes.
///
/// # Errors
/// Where in `packed` it is damaged or ends too early; `out` then holds what came before.
pub(crate) fn unpack(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), usize> {
    // No match of a sane stream is that much longer than its bytes; a wrong `len` must not reserve memory for nothing.
    out.reserve(len.min(packed.len().saturating_mul(64)));
    let mut input = Input { packed, at: 0, nibble: None };
    let (mut flags, mut left) = (0_u32, 0_u32);
    while out.len() < len {
        if left == 0 {
            flags = input.u32().ok_or(input.at)?;
            left = 32;
        }
        if flags == 0 && left == 32 && len - out.len() >= 32 {
            // Thirty-two bytes to copy are common where nothing repeats.
            if let Some(bytes) = packed.get(input.at..input.at + 32) {
                out.extend_from_slice(bytes);
                input.at += 32;
                left = 0;
                continue;
            }
        }
        left -= 1;
        let is_match = flags >> 31 == 1;
        flags <<= 1;
        if !is_match {
            out.push(input.u8().ok_or(input.at)?);
            continue;
        }
        let at = input.at;
        let token = usize::from(input.u16().ok_or(at)?);
        let distance = (token >> 3) + 1;
        let length = input.length(token & 7).ok_or(at)?.min(len - out.len());
        let start = out.len().checked_sub(distance).ok_or(at)?;
        copy(out, start, distance, length);
    }
    Ok(())
}

/// Appends `length` bytes from `start`, which lies `distance` before the end: what is appended may be copied again.
#[inline]
fn copy(out: &mut Vec<u8>, start: usize, distance: usize, length: usize) {
    if distance >= length {
        out.extend_from_within(start..start + length);
        return;
    }
    let mut left = length;
    // The run doubles with each copy.
    while left > 0 {
        let run = (out.len() - start).min(left);
        out.extend_from_within(start..start + run);
        left -= run;
    }
}

struct Input<'a> {
    packed: &'a [u8],
    at: usize,
    /// Where the byte is of which the next nibble is the upper half.
    nibble: Option<usize>,
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

    /// The length of a match whose token has these low bits.
    #[inline]
    fn length(&mut self, low: usize) -> Option<usize> {
        const SHORTEST: usize = 3;
        if low < 7 {
            return Some(low + SHORTEST);
        }
        let nibble = match self.nibble.take() {
            Some(at) => self.packed.get(at)? >> 4,
            None => {
                self.nibble = Some(self.at);
                self.u8()? & 15
            }
        };
        if nibble < 15 {
            return Some(usize::from(nibble) + 7 + SHORTEST);
        }
        let byte = self.u8()?;
        if byte < 255 {
            return Some(usize::from(byte) + 15 + 7 + SHORTEST);
        }
        let long = match self.u16()? {
            0 => self.u32()? as usize,
            long => usize::from(long),
        };
        // The long forms hold the whole length.
        (long >= 15 + 7).then_some(long.checked_add(SHORTEST)?)
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
    fn damage_is_an_error_and_never_more_than_was_asked_for() {
        assert_eq!(unpacked(&[0, 0, 0, 0x80, 0xf8, 0xff], 10), Err(4), "a match before the beginning");
        assert_eq!(unpacked(&[0, 0, 0], 10), Err(0));
        assert_eq!(unpacked(&[0, 0, 0, 0], 1), Err(4));
        let bomb = [0, 0, 0, 0x40, b'x', 7, 0, 0x0f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(unpacked(&bomb, 5000).map(|out| out.len()), Ok(5000));
    }
}
