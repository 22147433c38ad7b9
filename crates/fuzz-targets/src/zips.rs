//! Zips in memory: containers around the records of the seeds, and any other.

use crate::{perf, perf_records};
use std::io::{Cursor, Write};
use std::sync::LazyLock;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

static PERF_DATA: LazyLock<Vec<u8>> = LazyLock::new(|| perf::file(&perf_records::perf_records()));

/// A container with as many of `meta.json`, `symbols.json` and `notes.md` as there are texts.
pub fn container(texts: &[&[u8]]) -> Vec<u8> {
    let texts = ["meta.json", "symbols.json", "notes.md"].into_iter().zip(texts.iter().copied());
    let parts: Vec<(&str, &[u8])> =
        [("perf.data", PERF_DATA.as_slice())].into_iter().chain(texts).collect();
    zip(&parts)
}

/// A zip of parts that are not compressed, so that a fuzzer sees what is in them.
///
/// # Panics
/// When two have the same name.
pub fn zip(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in parts {
        zip.start_file(*name, options)
            .and_then(|()| Ok(zip.write_all(bytes)?))
            .expect("memory takes everything");
    }
    zip.finish().expect("memory takes everything").into_inner()
}
