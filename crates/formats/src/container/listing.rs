//! Reads what lists of traces show about a container, without its records.

use super::members::{META, NOTES, SAVE, START};
use super::meta::ContainerMeta;
use super::read::windows_traces;
use super::recover;
use super::save::SaveFile;
use crate::Error;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

/// Maximum number of bytes that are read of each member: a list is not worth more.
const MAX_LEN: u64 = 16 << 20;

/// The `meta.json` and the notes of the container at `path`; `None` if it is not a container. Of a
/// recording that was interrupted, what was known at its start.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn read_meta(path: &Path) -> Result<Option<(ContainerMeta, String)>, Error> {
    let file = File::open(path).map_err(Error::at(path))?;
    if recover::is_growing(&file) {
        let mut begin = Vec::new();
        let read = (&file).rewind().and_then(|()| (&file).take(MAX_LEN).read_to_end(&mut begin));
        read.map_err(Error::at(path))?;
        let found = recover::find(&begin);
        let zip = found.as_ref().map(|found| Cursor::new(found.others.as_slice()));
        let zip = zip.and_then(|members| ZipArchive::new(members).ok());
        return zip.map(meta_of).transpose();
    }
    match ZipArchive::new(BufReader::new(&file)) {
        Ok(zip) => meta_of(zip).map(Some),
        Err(ZipError::InvalidArchive(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn meta_of<R: Read + Seek>(mut zip: ZipArchive<R>) -> Result<(ContainerMeta, String), Error> {
    let mut text = |name: &str| -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        match zip.by_name(name) {
            Ok(entry) => entry.take(MAX_LEN).read_to_end(&mut text).map_err(Error::member(name))?,
            Err(ZipError::FileNotFound) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(text)
    };
    let (mut meta, notes) = (text(META)?, text(NOTES)?);
    if meta.is_empty() {
        meta = text(START)?;
    }
    let meta =
        if meta.is_empty() { Ok(ContainerMeta::default()) } else { serde_json::from_slice(&meta) };
    let meta = meta.map_err(|source| Error::Json { entry: META, source })?;
    Ok((meta, String::from_utf8_lossy(&notes).into_owned()))
}

/// Why the container at `path` was saved, if it says so, and whether it has notes; `None` if it is
/// not a whole container.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn read_save(path: &Path) -> Result<Option<(Option<SaveFile>, bool)>, Error> {
    let file = File::open(path).map_err(Error::at(path))?;
    if recover::is_growing(&file) {
        return Ok(None);
    }
    let mut zip = match ZipArchive::new(BufReader::new(&file)) {
        Ok(zip) => zip,
        Err(ZipError::InvalidArchive(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let has_notes = match zip.by_name(NOTES) {
        Ok(entry) => entry.size() > 0,
        Err(ZipError::FileNotFound) => false,
        Err(error) => return Err(error.into()),
    };
    let mut text = Vec::new();
    match zip.by_name(SAVE) {
        Ok(entry) => entry.take(MAX_LEN).read_to_end(&mut text).map_err(Error::member(SAVE))?,
        Err(ZipError::FileNotFound) => return Ok(Some((None, has_notes))),
        Err(error) => return Err(error.into()),
    };
    let save = serde_json::from_slice(&text);
    let save = save.map_err(|source| Error::Json { entry: SAVE, source })?;
    Ok(Some((Some(save), has_notes)))
}

/// True for a zip with `.etl` files of Windows, as made by UIforETW and by people who send traces.
pub fn holds_etl(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    ZipArchive::new(BufReader::new(&file)).is_ok_and(|zip| !windows_traces(&zip).is_empty())
}
