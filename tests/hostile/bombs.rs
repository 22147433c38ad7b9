//! Archives that are small on disk and large when unpacked.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Writes `len` zeros, compressed, without a header (RFC 1951).
pub fn deflated_zeros(len: u64) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    write_zeros(&mut zip, "zeros", len).expect("memory takes it");
    let archive = zip.finish().expect("memory takes it").into_inner();
    let mut archive = ZipArchive::new(Cursor::new(archive)).expect("an archive");
    let mut packed = Vec::new();
    archive.by_index_raw(0).expect("one member").read_to_end(&mut packed).expect("memory");
    packed
}

fn write_zeros<W: Write + std::io::Seek>(
    zip: &mut ZipWriter<W>,
    name: &str,
    len: u64,
) -> zip::result::ZipResult<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .large_file(true);
    zip.start_file(name, options)?;
    std::io::copy(&mut std::io::repeat(0).take(len), zip)?;
    Ok(())
}

/// Copies the container `trace` to `path`, but replaces `member` by zeros.
pub fn blow_up(trace: &Path, path: &Path, member: &str, len: u64) -> zip::result::ZipResult<()> {
    let mut from = ZipArchive::new(std::fs::File::open(trace)?)?;
    let mut zip = ZipWriter::new(std::io::BufWriter::new(std::fs::File::create(path)?));
    for index in 0..from.len() {
        let file = from.by_index_raw(index)?;
        if file.name()? == member {
            drop(file);
            write_zeros(&mut zip, member, len)?;
        } else {
            zip.raw_copy_file(file)?;
        }
    }
    zip.finish()?.flush()?;
    Ok(())
}

/// Writes an archive with this number of empty members.
pub fn many_members(path: &Path, count: usize) -> zip::result::ZipResult<()> {
    let mut zip = ZipWriter::new(std::io::BufWriter::new(std::fs::File::create(path)?));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for number in 0..count {
        zip.start_file(format!("{number}"), options)?;
    }
    zip.finish()?.flush()?;
    Ok(())
}
