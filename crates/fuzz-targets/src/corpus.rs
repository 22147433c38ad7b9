//! The kept corpus: `fuzz/corpus/TARGET.zip`, an entry per input, named by its CRC.
//!
//! *Why a zip*: otherwise hundreds of similar inputs of a few bytes each would be hundreds of files
//! in the repository.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// The folder of the kept corpora.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// The kept inputs of the target called `name`, with their names; empty if there are none.
///
/// # Errors
/// If the file exists but cannot be read.
pub fn read(name: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let path = folder().join(format!("{name}.zip"));
    let Ok(bytes) = fs::read(path) else { return Ok(Vec::new()) };
    let mut zip = ZipArchive::new(Cursor::new(bytes))?;
    let mut inputs = Vec::new();
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index)?;
        let name = entry.name()?.into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        inputs.push((name, bytes));
    }
    Ok(inputs)
}

/// Keeps `inputs` for the target called `name`, and drops those kept before. Keeps as many as fit
/// into `max_len` bytes, in their order.
///
/// # Errors
/// If the file cannot be written.
pub fn write(name: &str, inputs: &[(String, Vec<u8>)], max_len: usize) -> io::Result<()> {
    // Length of an entry without its packed bytes: two headers with its name.
    const ENTRY_LEN: usize = 30 + 46;
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(9))
        .last_modified_time(DateTime::default());
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut len = 0;
    for (name, bytes) in inputs {
        let alone = packed_len(bytes)? + ENTRY_LEN + 2 * name.len();
        if len + alone > max_len {
            continue;
        }
        len += alone;
        zip.start_file(name.as_str(), options)?;
        zip.write_all(bytes)?;
    }
    fs::create_dir_all(folder())?;
    fs::write(folder().join(format!("{name}.zip")), zip.finish()?.into_inner())
}

/// The packed length of an input, bytes.
fn packed_len(bytes: &[u8]) -> io::Result<usize> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file(
        "",
        SimpleFileOptions::default().compression_method(CompressionMethod::Deflated),
    )?;
    zip.write_all(bytes)?;
    // Two headers and the end.
    Ok(zip.finish()?.into_inner().len().saturating_sub(30 + 46 + 22))
}
