//! Compresses with the plain LZ77 variant of XPRESS (MS-XCA 2.3), which Windows 8 and later use for
//! trace buffers.
//!
//! It is greedy, with one candidate per hash, which is enough to produce every form of match that a
//! reader must know.

/// Maximum distance of a match, bytes.
const MAX_DISTANCE: usize = 8192;
/// Minimum length of a match, bytes.
const MIN_MATCH: usize = 3;
const HASH_BITS: u32 = 13;

/// Compresses `bytes` to one stream without a header.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut out = Stream { out: vec![0; 4], flags: 0, count: 0, flags_at: 0, nibble_at: None };
    let mut last = vec![usize::MAX; 1 << HASH_BITS];
    let mut at = 0;
    while at < bytes.len() {
        let found = bytes.get(at..at + MIN_MATCH).and_then(|head| {
            let slot = &mut last[hash(head)];
            let candidate = std::mem::replace(slot, at);
            (candidate < at
                && at - candidate <= MAX_DISTANCE
                && bytes[candidate..candidate + MIN_MATCH] == *head)
                .then_some(candidate)
        });
        match found {
            Some(candidate) => {
                let len =
                    bytes[at..].iter().zip(&bytes[candidate..]).take_while(|(a, b)| a == b).count();
                out.copy(at - candidate, len);
                at += len;
            }
            None => {
                out.out.push(bytes[at]);
                out.flag(false);
                at += 1;
            }
        }
    }
    out.finish()
}

fn hash(head: &[u8]) -> usize {
    let value = u32::from(head[0]) | u32::from(head[1]) << 8 | u32::from(head[2]) << 16;
    (value.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

struct Stream {
    out: Vec<u8>,
    flags: u32,
    count: u32,
    flags_at: usize,
    /// Offset of a byte of which only the low half is used.
    nibble_at: Option<usize>,
}

impl Stream {
    fn flag(&mut self, copy: bool) {
        self.flags = self.flags << 1 | u32::from(copy);
        self.count += 1;
        if self.count == 32 {
            self.put_flags();
            (self.flags, self.count, self.flags_at) = (0, 0, self.out.len());
            self.out.extend_from_slice(&[0; 4]);
        }
    }

    fn put_flags(&mut self) {
        self.out[self.flags_at..self.flags_at + 4].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn copy(&mut self, distance: usize, len: usize) {
        let long = len - MIN_MATCH;
        self.out.extend_from_slice(&(((distance - 1) << 3 | long.min(7)) as u16).to_le_bytes());
        if let Some(more) = long.checked_sub(7) {
            let half = more.min(15) as u8;
            match self.nibble_at.take() {
                Some(at) => self.out[at] |= half << 4,
                None => {
                    self.nibble_at = Some(self.out.len());
                    self.out.push(half);
                }
            }
            if let Some(more) = more.checked_sub(15) {
                self.out.push(more.min(255) as u8);
                if more >= 255 {
                    match u16::try_from(long) {
                        Ok(long) => self.out.extend_from_slice(&long.to_le_bytes()),
                        Err(_) => {
                            self.out.extend_from_slice(&[0; 2]);
                            self.out.extend_from_slice(&(long as u32).to_le_bytes());
                        }
                    }
                }
            }
        }
        self.flag(true);
    }

    /// What is left of the flags are ones: a copy with nothing behind it is the end.
    fn finish(mut self) -> Vec<u8> {
        let left = 32 - self.count;
        self.flags = (u64::from(self.flags) << left | ((1 << left) - 1)) as u32;
        self.put_flags();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of MS-XCA 3.1 and 3.2.
    #[test]
    fn the_specifications_examples() {
        let alphabet = b"abcdefghijklmnopqrstuvwxyz";
        let mut expected = vec![0x3f, 0, 0, 0];
        expected.extend_from_slice(alphabet);
        assert_eq!(compress(alphabet), expected);
        let repeated = b"abc".repeat(100);
        assert_eq!(
            compress(&repeated),
            [0xff, 0xff, 0xff, 0x1f, b'a', b'b', b'c', 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01]
        );
    }

    #[test]
    fn every_length_of_match_is_written() {
        let long = vec![7; 100_000];
        let small = compress(&long);
        assert_eq!(small[..4], 0x7fff_ffff_u32.to_le_bytes());
        assert_eq!(small[4..], [7, 7, 0, 15, 255, 0, 0, 0x9c, 0x86, 1, 0]);
    }
}
