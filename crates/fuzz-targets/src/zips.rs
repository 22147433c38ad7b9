//! Zips in memory: containers around the records of the seeds, and others.

use crate::{perf, perf_records};
use std::io::{Cursor, Write};
use std::sync::LazyLock;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

static PERF_DATA: LazyLock<Vec<u8>> = LazyLock::new(|| perf::file(&perf_records::perf_records()));

/// A container with the first of `meta.json`, `symbols.json` and `notes.md`, one for each text.
pub fn container(texts: &[&[u8]]) -> Vec<u8> {
    let texts = ["meta.json", "symbols.json", "notes.md"].into_iter().zip(texts.iter().copied());
    let parts: Vec<(&str, &[u8])> =
        [("perf.data", PERF_DATA.as_slice())].into_iter().chain(texts).collect();
    zip(&parts)
}

/// A container with rings of the BPF recorder.
pub fn with_rings(rings: &[u8]) -> Vec<u8> {
    zip(&[("perf.data", &PERF_DATA), ("rings.bin", rings)])
}

/// A zip of uncompressed parts, so that a fuzzer sees their content.
///
/// # Panics
/// If two parts have the same name.
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
