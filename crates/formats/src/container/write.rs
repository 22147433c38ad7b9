//! Writes a container completely or not at all, see [`NewFile`].

use super::members::{META, NOTES, PERF_DATA, RINGS, SYMBOLS};
use super::meta::ContainerMeta;
use super::symbols::SymbolFile;
use crate::Error;
use crate::new_file::{Existing, NewFile, Readers};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Seek, Write},
    path::Path,
};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// The content of a container.
pub struct ContainerParts<'a> {
    /// Becomes `meta.json`.
    pub meta: &'a ContainerMeta,
    /// Writes the `perf.data`.
    pub perf_data: &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    /// Becomes `rings.bin`.
    pub rings: Option<&'a [u8]>,
    /// Becomes `symbols.json`.
    pub symbols: Option<&'a SymbolFile>,
    /// Becomes `notes.md`.
    pub notes: Option<&'a str>,
    /// Further entries, e.g. `lab.json`.
    pub extra: Vec<(String, Vec<u8>)>,
}

/// Writes `parts` to `path`, readable by the owner only. Returns the file, open for reading and
/// writing.
///
/// # Errors
/// [`Error::Exists`] if the file exists already; else what went wrong. Neither leaves anything
/// behind.
pub fn write_container(path: &Path, parts: ContainerParts<'_>) -> Result<File, Error> {
    write_container_for(Readers::Owner, path, parts)
}

/// The same, readable by `readers`.
///
/// # Errors
/// Those of [`write_container`].
pub fn write_container_for(
    readers: Readers,
    path: &Path,
    parts: ContainerParts<'_>,
) -> Result<File, Error> {
    write(path, parts, readers)
}

fn write(path: &Path, parts: ContainerParts<'_>, readers: Readers) -> Result<File, Error> {
    let mut out = NewFile::create_readable(path, readers, Existing::Kept)?;
    write_zip(&mut out, parts).map_err(|error| match error {
        Error::Container(zip::result::ZipError::Io(source)) => {
            Error::Io { path: path.to_owned(), source }
        }
        other => other,
    })?;
    out.publish()
}

fn write_zip<W: Write + Seek>(out: &mut W, parts: ContainerParts<'_>) -> Result<(), Error> {
    let mut zip = ZipWriter::new(out);
    match write_entries(&mut zip, parts) {
        Ok(()) => Ok(zip.finish().map(drop)?),
        Err(error) => {
            // Its destructor would try again to finish an archive that is about to be removed, and
            // print that it cannot.
            std::mem::forget(zip);
            Err(error)
        }
    }
}

fn write_entries<W: Write + Seek>(
    zip: &mut ZipWriter<W>,
    parts: ContainerParts<'_>,
) -> Result<(), Error> {
    let stored = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(8)
        .large_file(true);
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);

    zip.start_file(PERF_DATA, stored)?;
    (parts.perf_data)(zip).map_err(zip::result::ZipError::Io)?;
    if let Some(rings) = parts.rings {
        zip.start_file(RINGS, stored)?;
        zip.write_all(rings).map_err(zip::result::ZipError::Io)?;
    }
    let mut entries = vec![(META, json(META, parts.meta)?)];
    if let Some(symbols) = parts.symbols {
        entries.push((SYMBOLS, json(SYMBOLS, symbols)?));
    }
    if let Some(notes) = parts.notes {
        entries.push((NOTES, notes.as_bytes().to_vec()));
    }
    let extra = parts.extra.iter().map(|(name, bytes)| (name.as_str(), bytes));
    for (name, bytes) in entries.iter().map(|(name, bytes)| (*name, bytes)).chain(extra) {
        zip.start_file(name, deflated)?;
        zip.write_all(bytes).map_err(zip::result::ZipError::Io)?;
    }
    Ok(())
}

pub(super) fn json(entry: &'static str, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|source| Error::Json { entry, source })
}

/// The file name of a new trace. `stamp` is local time as `YYYY-MM-DD_HH-MM-SS`. Characters of
/// `what` that may not be in file names become `-`.
pub fn trace_file_name(stamp: &str, what: &str) -> String {
    let keep = |letter: char| {
        if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '-' }
    };
    format!("{stamp}_{}.hitch", what.chars().map(keep).take(80).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn parts<'a>(
        meta: &'a ContainerMeta,
        perf_data: &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> ContainerParts<'a> {
        ContainerParts {
            meta,
            perf_data,
            rings: None,
            symbols: None,
            notes: Some("note"),
            extra: vec![("lab.json".to_owned(), b"{}".to_vec())],
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_trace_is_its_owners_or_a_groups_while_it_grows_too() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        // Everybody may put files here, and none of it helps.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let meta = ContainerMeta::default();
        let own_group = fs::metadata(folder.path()).unwrap().gid();
        for (name, readers, expected) in
            [("a", Readers::Owner, 0o600), ("b", Readers::Group(own_group), 0o640)]
        {
            let modes = || {
                let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
                let new = entries.filter(|entry| {
                    entry.file_name().to_string_lossy().contains(&format!("{name}.hitch"))
                });
                new.map(|entry| entry.metadata().unwrap().mode() & 0o777).collect::<Vec<_>>()
            };
            let mut while_it_grows = Vec::new();
            let mut perf_data = |out: &mut dyn Write| {
                while_it_grows = modes();
                out.write_all(b"x")
            };
            write_container_for(
                readers,
                &folder.path().join(format!("{name}.hitch")),
                parts(&meta, &mut perf_data),
            )
            .unwrap();
            assert_eq!((while_it_grows, modes()), (vec![expected], vec![expected]), "{name}");
        }
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(trace_file_name("2026-01-02_03-04-05", "a/b c"));
        assert!(path.ends_with("2026-01-02_03-04-05_a-b-c.hitch"));
        let meta = ContainerMeta::default();
        write_container(&path, parts(&meta, &mut |out| out.write_all(b"first"))).unwrap();
        let written = fs::read(&path).unwrap();
        let again = write_container(&path, parts(&meta, &mut |out| out.write_all(b"second")));
        assert!(matches!(again, Err(Error::Exists(_))));
        assert_eq!(fs::read(&path).unwrap(), written);

        let failing = folder.path().join("other.hitch");
        let result = write_container(
            &failing,
            parts(&meta, &mut |_| Err(io::Error::other("the ring is gone"))),
        );
        let cause = std::error::Error::source(&result.unwrap_err()).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("the ring is gone"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
