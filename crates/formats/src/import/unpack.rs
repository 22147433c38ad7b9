//! Compressed parts of foreign traces, unpacked within limits.

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use std::io::Read;

/// How much a file's parts may unpack to, and how much of it may be read as it is stored.
pub(super) struct Budget {
    left: u64,
    stored: u64,
}

impl Budget {
    /// Maximum growth of a file: events of the scheduler shrink 10 to 20 times.
    const MAX_GROWTH: u64 = 64;
    /// A small file may grow to this, bytes.
    const MIN_BYTES: u64 = 4 << 20;

    /// That of a file of `len` bytes.
    pub fn of(len: usize) -> Self {
        let len = len as u64;
        Self { left: len.saturating_mul(Self::MAX_GROWTH).max(Self::MIN_BYTES), stored: len }
    }

    /// Reads `len` bytes as they are stored. `None` if all such parts together are longer than the
    /// file: they overlap, and a small file could be read a million times over.
    pub fn stored(&mut self, len: usize) -> Option<()> {
        self.stored = self.stored.checked_sub(len as u64)?;
        Some(())
    }

    /// What zlib packed.
    pub fn zlib(&mut self, packed: &[u8]) -> Option<Vec<u8>> {
        self.read(ZlibDecoder::new(packed))
    }

    /// What gzip packed, in one or more members: the whole file, which is stored as this now.
    pub fn gzip(&mut self, packed: &[u8]) -> Option<Vec<u8>> {
        let content = self.read(MultiGzDecoder::new(packed))?;
        self.stored = content.len() as u64;
        Some(content)
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
        let read = from.read_to_end(&mut out);
        // What is damaged behind its beginning took as long.
        let left = self.left.checked_sub(out.len() as u64);
        self.left = left.unwrap_or(0);
        left.and(read.ok()).map(|_| out)
    }
}
