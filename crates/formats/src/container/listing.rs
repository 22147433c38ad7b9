//! Reads what lists of traces show about a container, without its records.

use super::members::{META, NOTES};
use super::meta::ContainerMeta;
use super::read::windows_traces;
use crate::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

/// Maximum number of bytes that are read of each member: a list is not worth more.
const MAX_LEN: u64 = 16 << 20;

/// The `meta.json` and the notes of the container at `path`; `None` if it is not a container.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn read_meta(path: &Path) -> Result<Option<(ContainerMeta, String)>, Error> {
    let file = File::open(path).map_err(Error::at(path))?;
    let mut zip = match ZipArchive::new(BufReader::new(file)) {
        Ok(zip) => zip,
        Err(ZipError::InvalidArchive(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = |name: &str| -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        match zip.by_name(name) {
            Ok(entry) => entry.take(MAX_LEN).read_to_end(&mut text).map_err(Error::member(name))?,
            Err(ZipError::FileNotFound) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(text)
    };
    let (meta, notes) = (text(META)?, text(NOTES)?);
    let meta =
        if meta.is_empty() { Ok(ContainerMeta::default()) } else { serde_json::from_slice(&meta) };
    let meta = meta.map_err(|source| Error::Json { entry: META, source })?;
    Ok(Some((meta, String::from_utf8_lossy(&notes).into_owned())))
}

/// True for a zip with `.etl` files of Windows, as made by UIforETW and by people who send traces.
pub fn holds_etl(path: &Path) -> bool {
    let zip = File::open(path).ok().and_then(|file| ZipArchive::new(BufReader::new(file)).ok());
    zip.is_some_and(|zip| !windows_traces(&zip).is_empty())
}
