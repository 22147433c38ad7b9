//! Unpacks `perf record -z`.
//!
//! COMPRESSED records (`struct perf_record_compressed`) hold pieces of one zstd stream, which is
//! usually never finished. The stream unpacks to records, which the pieces may cut anywhere.
//! COMPRESSED2 is the same but padded, so it also has the length of its content.

use super::{
    record::kind,
    records::{Record, Records},
};
use crate::cursor::Cursor;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use unhitch_model::Warnings;

/// Maximum ratio of unpacked to packed bytes. Scheduling records compress 10 to 50 times; a higher
/// ratio means a hostile file.
const MAX_RATIO: usize = 200;
/// Maximum number of bytes that a recording is unpacked to.
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
        warnings.add(format!(
            "not all compressed records can be unpacked: {error}; the rest was left out"
        ));
    }
    out
}

/// True for records that hold compressed records.
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

/// Unpacks `stream` to the end of `out`. The error says why not all of it could be unpacked.
fn unpack(mut stream: &[u8], out: &mut Vec<u8>, max_len: usize) -> Result<(), String> {
    let mut decoder = FrameDecoder::new();
    while !stream.is_empty() {
        decoder.reset(&mut stream).map_err(|error| error.to_string())?;
        let mut result = Ok(());
        while !decoder.is_finished() {
            // perf leaves its stream between two blocks.
            let at_end = stream.is_empty();
            let decoded = decoder.decode_blocks(&mut stream, BlockDecodingStrategy::UptoBlocks(1));
            if let Err(error) = decoded {
                result = if at_end { Ok(()) } else { Err(error.to_string()) };
                stream = &[];
                // An empty last block, with a checksum for frames that have one, makes the decoder
                // hand out what it still holds.
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
