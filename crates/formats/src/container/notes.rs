//! Replaces a container's notes, the only part that changes after the recording.
//!
//! The container is written again under a temporary name and then replaces the old one in one step.
//! A process that has the old one open goes on reading that.

use super::members::{NOTES, PERF_DATA};
use super::read::directory;
use crate::Error;
use crate::new_file::{Existing, NewFile, Readers};
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter, result::ZipError};

/// Replaces the notes of the container at `path`. Nothing else in it changes.
///
/// # Errors
/// If it is not a whole container or cannot be written. The file is then unchanged.
pub fn set_notes(path: &Path, notes: &str) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::at(path))?;
    let readers = readers_of(&file.metadata().map_err(Error::at(path))?);
    let mut zip = directory(BufReader::new(&file))?;
    let mut new = NewFile::create(path, readers, Existing::Replaced)?;
    let mut out = ZipWriter::new(&mut new);
    let written = copy(&mut zip, &mut out, notes);
    if let Err(error) = written {
        // Its destructor would try again to finish an archive that is about to be removed, and
        // print that it cannot.
        std::mem::forget(out);
        return Err(error);
    }
    out.finish()?;
    new.publish().map(drop)
}

/// Who may read the new file: the owner, and the group if it may read the old one. Others never
/// may, even if an older version allowed it.
#[cfg(unix)]
fn readers_of(about: &fs::Metadata) -> Readers {
    use std::os::unix::fs::MetadataExt;
    if about.mode() & 0o040 == 0 { Readers::Owner } else { Readers::Group(about.gid()) }
}

#[cfg(not(unix))]
fn readers_of(_about: &fs::Metadata) -> Readers {
    Readers::Owner
}

fn copy(
    zip: &mut ZipArchive<BufReader<&File>>,
    out: &mut ZipWriter<&mut NewFile>,
    notes: &str,
) -> Result<(), Error> {
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index)?;
        match &*entry.name()? {
            NOTES => {}
            PERF_DATA if entry.compression() == CompressionMethod::Stored => {
                // A raw copy would lose the alignment for mapping. The checksum is computed anew,
                // so damage must end the copy here.
                let options =
                    SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
                out.start_file(PERF_DATA, options.with_alignment(8).large_file(true))?;
                copy_checked(&mut entry, out)?;
            }
            _ => out.raw_copy_file(entry)?,
        }
    }
    out.start_file(
        NOTES,
        SimpleFileOptions::default().compression_method(CompressionMethod::Deflated),
    )?;
    out.write_all(notes.as_bytes()).map_err(ZipError::Io)?;
    Ok(())
}

/// Copies the records. The reader compares their checksum at the end.
fn copy_checked(records: &mut impl io::Read, out: &mut impl Write) -> Result<(), Error> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match records.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => out.write_all(&buffer[..len]).map_err(ZipError::Io)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::member(PERF_DATA)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ContainerMeta, ContainerParts, read_meta, write_container};
    use super::*;
    use std::io::Read;

    #[test]
    fn only_the_notes_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.hitch");
        let meta = ContainerMeta { host: "box".to_owned(), ..ContainerMeta::default() };
        let perf_data: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let parts = ContainerParts {
            meta: &meta,
            perf_data: &mut |out| out.write_all(&perf_data),
            rings: None,
            symbols: None,
            notes: Some("old"),
            extra: vec![("lab.json".to_owned(), b"{}".to_vec())],
        };
        write_container(&path, parts).unwrap();
        for notes in ["new", "", "longer than before\nby far"] {
            set_notes(&path, notes).unwrap();
            assert_eq!(read_meta(&path).unwrap(), Some((meta.clone(), notes.to_owned())));
        }
        let mut zip = ZipArchive::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(zip.len(), 4, "perf.data, meta.json, lab.json and notes.md");
        assert_eq!(zip.by_name(PERF_DATA).unwrap().data_start().unwrap() % 8, 0);
        let mut read = Vec::new();
        zip.by_name(PERF_DATA).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == perf_data);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        fs::write(&path, b"no zip").unwrap();
        assert!(set_notes(&path, "x").is_err() && read_meta(&path).unwrap().is_none());
        assert_eq!(fs::read(&path).unwrap(), b"no zip");
    }
}
