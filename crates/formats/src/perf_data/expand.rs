//! Unpacks `perf record -z`.
//!
//! COMPRESSED records (`struct perf_record_compressed`) hold pieces of one zstd stream, which as a
//! rule is never ended; what comes out are records again, cut anywhere. COMPRESSED2 is the same
//! with its length stated, because it is padded.

use super::{
    record::kind,
    records::{Record, Records},
};
use crate::cursor::Cursor;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use unhitch_model::Warnings;

/// Records of scheduling shrink to a tenth or a fiftieth of their size; what claims to unpack to
/// more than this many times its size is made to harm.
const MAX_RATIO: usize = 200;
/// No recording is unpacked to more than this.
const MAX_LEN: usize = 8 << 30;

/// All records of `data`: the plain ones, then the unpacked ones.
pub(crate) fn expand(data: &[u8], warnings: &mut Warnings) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = Vec::new();
    let mut records = Records::new(data);
    let mut start = 0;
    while let Some(record) = records.next() {
        match packed(&record) {
            Some(piece) => stream.extend_from_slice(piece),
            None => out.extend_from_slice(&data[start..records.position()]),
        }
        start = records.position();
    }
    if let Some(damage) = records.damage() {
        warnings.add(damage);
    }
    let max_len = out.len().saturating_add(stream.len().saturating_mul(MAX_RATIO).min(MAX_LEN));
    if let Err(error) = unpack(&stream, &mut out, max_len) {
        warnings.add(format!("compressed records: {error}; the rest of them was left out"));
    }
    out
}

/// True for records that hold packed ones.
pub(crate) fn is_packed(record_kind: u32) -> bool {
    matches!(record_kind, kind::COMPRESSED | kind::COMPRESSED2)
}

fn packed<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    match record.kind {
        kind::COMPRESSED => Some(record.body),
        kind::COMPRESSED2 => {
            let mut from = Cursor::new(record.body);
            let len = from.u64()?;
            Some(from.bytes_u64(len).unwrap_or(from.rest()))
        }
        _ => None,
    }
}

/// Appends what `stream` holds to `out`; an error tells why it could not be all.
fn unpack(mut stream: &[u8], out: &mut Vec<u8>, max_len: usize) -> Result<(), String> {
    let mut decoder = FrameDecoder::new();
    while !stream.is_empty() {
        decoder.reset(&mut stream).map_err(|error| error.to_string())?;
        let mut result = Ok(());
        while !decoder.is_finished() {
            // Between two blocks is where perf leaves its stream.
            let at_end = stream.is_empty();
            let decoded = decoder.decode_blocks(&mut stream, BlockDecodingStrategy::UptoBlocks(1));
            if let Err(error) = decoded {
                result = if at_end { Ok(()) } else { Err(error.to_string()) };
                stream = &[];
                // An empty last block, with a checksum for a frame that wants one, makes the
                // decoder give away what it still holds.
                let end = [1, 0, 0, 0, 0, 0, 0];
                decoder
                    .decode_blocks(&end[..], BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(|error| error.to_string())?;
            }
            decoder.collect_to_writer(&mut *out).map_err(|error| error.to_string())?;
            if out.len() > max_len {
                return Err(format!("they unpack to more than {max_len} bytes"));
            }
        }
        result?;
    }
    Ok(())
}
