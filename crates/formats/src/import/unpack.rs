//! Compressed parts of foreign traces, unpacked within limits.

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::io::Read;

/// How much a file's parts may unpack to.
pub(super) struct Budget {
    left: u64,
}

impl Budget {
    /// Maximum growth of a file: events of the scheduler shrink 10 to 20 times.
    const MAX_GROWTH: u64 = 64;
    /// A small file may grow to this, bytes.
    const MIN_BYTES: u64 = 4 << 20;

    /// That of a file of `len` bytes.
    pub fn of(len: usize) -> Self {
        Self { left: (len as u64).saturating_mul(Self::MAX_GROWTH).max(Self::MIN_BYTES) }
    }

    /// What zlib packed.
    pub fn zlib(&mut self, packed: &[u8]) -> Option<Vec<u8>> {
        self.read(ZlibDecoder::new(packed))
    }

    /// What gzip packed, in one or more members.
    pub fn gzip(&mut self, packed: &[u8]) -> Option<Vec<u8>> {
        self.read(MultiGzDecoder::new(packed))
    }

    /// What zstd packed, in one frame.
    pub fn zstd(&mut self, packed: &[u8]) -> Option<Vec<u8>> {
        let decoder = ruzstd::decoding::StreamingDecoder::new(packed).ok()?;
        self.read(decoder)
    }

    /// `None` if it is damaged or too much.
    fn read(&mut self, from: impl Read) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut from = from.take(self.left.saturating_add(1));
        from.read_to_end(&mut out).ok()?;
        self.left = self.left.checked_sub(out.len() as u64)?;
        Some(out)
    }
}
