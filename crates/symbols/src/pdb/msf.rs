//! [`Msf`]: the container of a PDB, with streams in blocks.
//!
//! Format: "The MSF File Format" of the LLVM documentation. A stream is a list of blocks. The
//! directory that lists the streams is a stream itself. No stream may be longer than the file, so
//! reading never allocates more than that.

use std::io::{Read, Seek, SeekFrom};

const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";
/// The length of a missing stream.
const NO_STREAM: u32 = u32::MAX;
/// Maximum length of a stream, bytes. The largest ones in real PDBs have a few hundred MB.
const MAX_STREAM_BYTES: u64 = 1 << 30;

/// The streams of a file.
pub(super) struct Msf<F> {
    file: F,
    file_len: u64,
    block_len: u64,
    streams: Vec<Stream>,
}

/// A stream: its length, and its blocks in order.
struct Stream {
    len: u64,
    blocks: Vec<u32>,
}

impl<F: Read + Seek> Msf<F> {
    pub(super) fn open(mut file: F) -> Option<Self> {
        let file_len = file.seek(SeekFrom::End(0)).ok()?;
        file.rewind().ok()?;
        let mut superblock = [0; 56];
        file.read_exact(&mut superblock).ok()?;
        let mut head = Bytes(superblock.strip_prefix(MAGIC)?);
        let block_len = u64::from(head.u32()?);
        let (_free_map, blocks, directory_len) = (head.u32()?, head.u32()?, u64::from(head.u32()?));
        let (_unknown, map) = (head.u32()?, head.u32()?);
        if !(512..=1 << 16).contains(&block_len) || !block_len.is_power_of_two() {
            return None;
        }
        // A truncated copy would have names for some RVAs and silently none for others.
        if file_len < u64::from(blocks) * block_len {
            return None;
        }
        let mut msf = Self { file, file_len, block_len, streams: Vec::new() };
        // The blocks that list the directory's blocks are consecutive.
        let map_len = directory_len.div_ceil(block_len).checked_mul(4)?;
        let map_blocks = u32::try_from(map_len.div_ceil(block_len)).ok()?;
        let map = msf.read(&Stream {
            len: map_len,
            blocks: (0..map_blocks).map(|at| map.checked_add(at)).collect::<Option<_>>()?,
        })?;
        let directory = msf.read(&Stream { len: directory_len, blocks: Bytes(&map).rest_u32() })?;
        msf.streams = streams(&directory, block_len)?;
        Some(msf)
    }

    /// The whole stream; `None` if the file does not have it.
    pub(super) fn stream(&mut self, number: usize) -> Option<Vec<u8>> {
        let stream = self.streams.get_mut(number)?;
        let taken = Stream { len: stream.len, blocks: std::mem::take(&mut stream.blocks) };
        let bytes = self.read(&taken);
        self.streams.get_mut(number)?.blocks = taken.blocks;
        bytes
    }

    fn read(&mut self, stream: &Stream) -> Option<Vec<u8>> {
        if stream.len > self.file_len.min(MAX_STREAM_BYTES)
            || stream.len.div_ceil(self.block_len) > stream.blocks.len() as u64
        {
            return None;
        }
        let mut out = vec![0; usize::try_from(stream.len).ok()?];
        let mut rest = out.as_mut_slice();
        // Consecutive blocks are read at once.
        for run in stream.blocks.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            let len = (self.block_len * run.len() as u64).min(rest.len() as u64);
            let start = u64::from(*run.first()?) * self.block_len;
            let (part, after) = rest.split_at_mut_checked(usize::try_from(len).ok()?)?;
            self.file.seek(SeekFrom::Start(start)).ok()?;
            self.file.read_exact(part).ok()?;
            rest = after;
        }
        rest.is_empty().then_some(out)
    }
}

/// Reads the directory: the number of streams, their lengths, their blocks.
fn streams(directory: &[u8], block_len: u64) -> Option<Vec<Stream>> {
    let mut directory = Bytes(directory);
    let count = directory.u32()? as usize;
    let mut lens = Bytes(directory.take(count.checked_mul(4)?)?);
    let mut streams = Vec::new();
    while let Some(len) = lens.u32() {
        let len = if len == NO_STREAM { 0 } else { u64::from(len) };
        let blocks = usize::try_from(len.div_ceil(block_len)).ok()?;
        streams.push(Stream {
            len,
            blocks: Bytes(directory.take(blocks.checked_mul(4)?)?).rest_u32(),
        });
    }
    Some(streams)
}

/// The bytes that are left to read.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The bytes up to a zero. Consumes the zero too.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(len)?;
        self.take(1)?;
        Some(text)
    }

    fn rest_u32(self) -> Vec<u32> {
        self.0.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }
}
