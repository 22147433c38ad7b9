//! Adds members to a container that is on disk already, above all the function names.
//!
//! *Why names are added last*: they come from files of other users, which may make their reader
//! wait, fail or die. By then the trace is safe. A zip ends with its directory: the new member takes
//! the directory's place, and the new directory follows. Both are built in memory first, so the
//! file lacks a directory only during one write. [`recover`](super::recover) reads what a crash
//! leaves at that moment.

use super::members::SYMBOLS;
use super::symbols::SymbolFile;
use crate::Error;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter, result::ZipError};

/// Adds `symbols` to the container `file`, which is open for reading and writing and lies at
/// `path`. Returns its new length in bytes.
///
/// # Errors
/// If it is not a container, has names already, or cannot be written. The file is then unchanged.
pub fn add_symbols(file: &File, path: &Path, symbols: &SymbolFile) -> Result<u64, Error> {
    let json =
        serde_json::to_vec(symbols).map_err(|source| Error::Json { entry: SYMBOLS, source })?;
    add_members(file, path, &[(SYMBOLS, &json)])
}

/// Adds members to a container; as [`add_symbols`].
pub(super) fn add_members(
    file: &File,
    path: &Path,
    members: &[(&str, &[u8])],
) -> Result<u64, Error> {
    let start = ZipArchive::new(io::BufReader::new(file))?.central_directory_start();
    let (tail, old) = Tail::read(file, start).map_err(Error::at(path))?;
    let mut zip = ZipWriter::new_append(tail)?;
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let written = members.iter().try_for_each(|(name, bytes)| {
        zip.start_file(*name, deflated)?;
        zip.write_all(bytes).map_err(ZipError::Io)
    });
    if let Err(error) = written {
        // Its destructor would try to finish the archive.
        std::mem::forget(zip);
        return Err(error.into());
    }
    let new = zip.finish()?.bytes;
    let write = |bytes: &[u8]| {
        let mut out = file;
        out.seek(SeekFrom::Start(start))?;
        out.write_all(bytes)?;
        out.set_len(start + bytes.len() as u64)?;
        out.sync_all()
    };
    write(&new).map_err(|source| {
        // Works on a full disk too, because these bytes have their space already.
        let _ = write(&old);
        Error::Io { path: path.to_owned(), source }
    })?;
    Ok(start + new.len() as u64)
}

/// A file whose end, from `start` on, changes in memory only.
struct Tail<'a> {
    file: &'a File,
    start: u64,
    bytes: Vec<u8>,
    at: u64,
}

impl<'a> Tail<'a> {
    /// Also returns the file's present end.
    fn read(mut file: &'a File, start: u64) -> io::Result<(Self, Vec<u8>)> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.read_to_end(&mut bytes)?;
        Ok((Self { file, start, bytes: bytes.clone(), at: 0 }, bytes))
    }

    /// The position within the end; `None` before it.
    fn at(&self) -> Option<usize> {
        usize::try_from(self.at.checked_sub(self.start)?).ok()
    }
}

impl Read for Tail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.at() {
            Some(at) => self.bytes.get(at..).unwrap_or_default().read(buffer)?,
            None => {
                let len =
                    buffer.len().min(usize::try_from(self.start - self.at).unwrap_or(usize::MAX));
                self.file.seek(SeekFrom::Start(self.at))?;
                self.file.read(&mut buffer[..len])?
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Write for Tail<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at =
            self.at().filter(|&at| at <= self.bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
        let over = bytes.len().min(self.bytes.len() - at);
        self.bytes[at..at + over].copy_from_slice(&bytes[..over]);
        self.bytes.extend_from_slice(&bytes[over..]);
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Tail<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => (self.start + self.bytes.len() as u64).checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{ContainerMeta, ContainerParts, write_container};
    use std::fs;

    fn container(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("a.hitch");
        let meta = ContainerMeta { host: "here".to_owned(), ..ContainerMeta::default() };
        let parts = ContainerParts {
            meta: &meta,
            perf_data: &mut |out| out.write_all(&[7; 3000]),
            rings: None,
            symbols: None,
            notes: Some("note"),
            extra: Vec::new(),
        };
        write_container(&path, parts).unwrap();
        path
    }

    fn member(path: &Path, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut zip = ZipArchive::new(File::open(path).unwrap()).unwrap();
        zip.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn names_follow_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = container(folder.path());
        let before = fs::read(&path).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let symbols = SymbolFile::default();
        let len = add_symbols(&file, &path, &symbols).unwrap();
        let after = fs::read(&path).unwrap();
        assert_eq!(after.len() as u64, len);
        assert_eq!(after[..3000], before[..3000]);
        assert_eq!(member(&path, SYMBOLS), serde_json::to_vec(&symbols).unwrap());
        assert_eq!(
            (member(&path, "perf.data"), member(&path, "notes.md")),
            (vec![7; 3000], b"note".to_vec())
        );
        // Names are added once.
        assert!(add_symbols(&file, &path, &symbols).is_err());
        assert_eq!(fs::read(&path).unwrap(), after);
    }

    #[test]
    fn what_cannot_be_written_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = container(folder.path());
        let before = fs::read(&path).unwrap();
        let read_only = File::open(&path).unwrap();
        assert!(matches!(
            add_symbols(&read_only, &path, &SymbolFile::default()),
            Err(Error::Io { .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
