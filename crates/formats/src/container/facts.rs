//! What a container says about itself without its records being read: for lists of traces.

use super::read::windows_traces;
use super::{ContainerMeta, META, NOTES};
use crate::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

/// Facts for a list are not worth more than this.
const MAX_LEN: u64 = 16 << 20;

/// The `meta.json` and the notes of the container at `path`; `None` when it is no container.
///
/// # Errors
/// When it cannot be read, or is damaged.
pub fn facts(path: &Path) -> Result<Option<(ContainerMeta, String)>, Error> {
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

/// True for a zip in which Windows' `.etl` files are read, as UIforETW and people who send traces
/// make them.
pub fn holds_etl(path: &Path) -> bool {
    let zip = File::open(path).ok().and_then(|file| ZipArchive::new(BufReader::new(file)).ok());
    zip.is_some_and(|zip| !windows_traces(&zip).is_empty())
}
