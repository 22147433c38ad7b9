//! A container that is written while the recording goes on.
//!
//! The `perf.data` grows in it: it is the last member until the recording ends, and its header says
//! that its length is not known yet. So whatever is in the file at any moment can be read, by
//! [`recover`](super::recover), with `start.json` and `start.data` in front of it, which say what a
//! finished trace has at its end. When the recording ends, the lengths are filled in, and the other
//! members and the directory follow.
//!
//! *Why one growing member, and not a member for each piece*: it is a `perf.data` that perf reads,
//! and a recording of a day would have a million members.

use super::append::add_members;
use super::headers::{LOCAL_LEN, Member, add_entry, end_of_directory, stored};
use super::members::{META, NOTES, PERF_DATA, START, START_EVENTS};
use super::meta::ContainerMeta;
use super::write::json;
use crate::Error;
use crate::new_file::{Existing, NewFile, Readers};
use crc32fast::Hasher;
use std::fs::File;
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter, result::ZipError};

/// A container whose records are still being written.
pub struct Growing {
    file: File,
    path: PathBuf,
    /// The members in front of the records, and the entries of the directory for them.
    entries: Vec<u8>,
    entry_count: u16,
    /// Where the header of the records and their content begin.
    header_at: u64,
    content_at: u64,
    /// Length of what is filled in again at the end.
    head_len: u64,
    /// Length of the content.
    len: u64,
    /// The checksum of the content after the head.
    sum: Hasher,
}

/// What is added when the recording ends.
pub struct LastParts<'a> {
    /// What is before and after the records in their `perf.data`.
    pub around: [Vec<u8>; 2],
    /// Becomes `meta.json`.
    pub meta: &'a ContainerMeta,
    /// Becomes `notes.md`.
    pub notes: Option<&'a str>,
    /// Further entries, e.g. `machine.json`.
    pub extra: Vec<(String, Vec<u8>)>,
}

impl Growing {
    /// Creates the file at `path`, readable by `readers`; it has its name once it can be read.
    /// `meta` and `description`, of [`describe`](crate::perf_data::describe), are what is known now;
    /// `head` is the beginning of the `perf.data`.
    ///
    /// # Errors
    /// [`Error::Exists`] if the file exists already; else what went wrong. Neither leaves anything
    /// behind.
    pub fn create(
        readers: Readers,
        path: &Path,
        meta: &ContainerMeta,
        description: &[u8],
        head: &[u8],
    ) -> Result<Self, Error> {
        let (mut begin, entries) =
            first_members(&[(START, &json(START, meta)?), (START_EVENTS, description)])?;
        let header_at = begin.len() as u64;
        begin.extend(stored(PERF_DATA, header_at, None));
        let content_at = begin.len() as u64;
        begin.extend_from_slice(head);
        // A process that is killed may have written half of it.
        let mut file = NewFile::create_readable(path, readers, Existing::Kept)?;
        file.write_all(&begin).map_err(Error::at(path))?;
        let head_len = head.len() as u64;
        Ok(Self {
            file: file.publish_growing()?,
            path: path.to_owned(),
            entries,
            entry_count: 2,
            header_at,
            content_at,
            head_len,
            len: head_len,
            sum: Hasher::new(),
        })
    }

    /// Adds records. They are in the file when this returns, though perhaps not on the disk.
    ///
    /// # Errors
    /// When they cannot be written. The file then ends where it ended before.
    pub fn append(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        for part in parts {
            if let Err(error) = self.file.write_all(part) {
                self.cut();
                return Err(Error::at(&self.path)(error));
            }
        }
        for part in parts {
            self.sum.update(part);
            self.len += part.len() as u64;
        }
        Ok(())
    }

    /// Cuts off what was written in part. If that fails, the reader does it.
    fn cut(&mut self) {
        let end = self.content_at + self.len;
        let _ = self.file.set_len(end);
        let _ = self.file.seek(SeekFrom::Start(end));
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.content_at + self.len
    }

    /// Length of the records in bytes.
    pub fn record_bytes(&self) -> u64 {
        self.len - self.head_len
    }

    /// The file, open for reading and writing.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finishes the file: it is a whole container then. Returns its length in bytes.
    ///
    /// # Errors
    /// When it cannot be written. What was recorded can be read all the same.
    pub fn finish(&mut self, parts: LastParts<'_>) -> Result<u64, Error> {
        let [head, tail] = &parts.around;
        debug_assert_eq!(head.len() as u64, self.head_len, "the head has changed its length");
        self.append(&[tail])?;
        self.write_at(self.content_at, head)?;
        let mut sum = Hasher::new();
        sum.update(head);
        sum.combine(&self.sum);
        let header = stored(PERF_DATA, self.header_at, Some((self.len, sum.finalize())));
        self.write_at(self.header_at, &header)?;

        let mut directory = self.entries.clone();
        let offset = u32::try_from(self.header_at).map_err(|_| Error::truncated("the trace", 0))?;
        if let Some(member) = Member::at(&header, 0) {
            add_entry(&mut directory, &header[..LOCAL_LEN], &member, offset);
        }
        let (end, len) = (self.bytes(), directory.len() as u32);
        directory.extend(end_of_directory(self.entry_count + 1, len, end));
        if let Err(error) = self.write_at(end, &directory) {
            self.cut();
            return Err(error);
        }
        let meta = json(META, parts.meta)?;
        let mut members: Vec<(&str, &[u8])> = vec![(META, &meta)];
        members.extend(parts.notes.map(|notes| (NOTES, notes.as_bytes())));
        members.extend(parts.extra.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
        add_members(&self.file, &self.path, &members)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut file = &self.file;
        let written = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(bytes));
        written.map_err(Error::at(&self.path))
    }
}

/// Small members as they are at the beginning of a file, and the entries of the directory for them.
fn first_members(members: &[(&str, &[u8])]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, deflated)?;
        zip.write_all(bytes).map_err(ZipError::Io)?;
    }
    let mut bytes = zip.finish()?.into_inner();
    let at = ZipArchive::new(Cursor::new(bytes.as_slice()))?.central_directory_start() as usize;
    let mut entries = bytes.split_off(at);
    // What follows the entries is of a fixed length, as there is no comment and few members.
    entries.truncate(entries.len().saturating_sub(end_of_directory(0, 0, 0).len()));
    Ok((bytes, entries))
}
