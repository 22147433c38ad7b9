//! Writes a container so that it is there whole or not at all.
//!
//! It grows under a temporary name in the target's folder, is synced, and then linked to its name, which fails when the name is
//! taken: a trace of a hang cannot be made again, so none is ever overwritten.

use super::{ContainerMeta, META, NOTES, PERF_DATA, SYMBOLS, SymbolFile};
use crate::Error;
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// What goes into a container.
pub struct ContainerParts<'a> {
    /// Becomes `meta.json`.
    pub meta: &'a ContainerMeta,
    /// Writes the `perf.data`.
    pub perf_data: &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    /// Becomes `symbols.json`.
    pub symbols: Option<&'a SymbolFile>,
    /// Becomes `notes.md`.
    pub notes: Option<&'a str>,
    /// Further entries, e.g. `lab.json`.
    pub extra: Vec<(String, Vec<u8>)>,
}

/// Writes `parts` to `path`; gives the file, which can be read and written.
///
/// # Errors
/// [`Error::Exists`] when there is a file already; else what went wrong. In both cases nothing is left behind.
pub fn write_container(path: &Path, parts: ContainerParts<'_>) -> Result<File, Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write(path, parts, is_shared(folder))
}

/// The same, for a place that nobody chose: only the owner may read the file.
///
/// # Errors
/// Those of [`write_container`].
pub fn write_private_container(path: &Path, parts: ContainerParts<'_>) -> Result<File, Error> {
    write(path, parts, true)
}

/// True for a folder in which everybody may put files, as `/var/tmp` is: a trace shows what all programs of a machine did.
#[cfg(unix)]
fn is_shared(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_shared(_folder: &Path) -> bool {
    false
}

/// A new file; readable by its owner alone where `private`.
fn create(path: &Path, private: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    options.open(path)
}

fn write(path: &Path, parts: ContainerParts<'_>, private: bool) -> Result<File, Error> {
    if path.exists() {
        return Err(Error::Exists(path.to_owned()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = Temporary(folder.join(format!(".{name}.{}.partial", std::process::id())));
    let file = create(&temporary.0, private).map_err(Error::at(path))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write_zip(&mut out, parts).map_err(|error| match error {
        Error::Container(zip::result::ZipError::Io(source)) => Error::Io { path: path.to_owned(), source },
        other => other,
    })?;
    let file = out.into_inner().map_err(|error| Error::at(path)(error.into_error()))?;
    file.sync_all().map_err(Error::at(path))?;
    publish(&temporary.0, path)?;
    // The trace is there, under its name. A folder that cannot be synced (some file systems know no such thing) is no failed save.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(file)
}

/// Gives the finished file its name, never taking it from another.
fn publish(temporary: &Path, path: &Path) -> Result<(), Error> {
    let exists_or = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
        _ => Error::Io { path: path.to_owned(), source: error },
    };
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists_or(error)),
        // A file system without hard links: claim the name with an empty file, which is then ours to replace.
        Err(_) => {
            File::create_new(path).map_err(exists_or)?;
            fs::rename(temporary, path).map_err(|error| {
                let _ = fs::remove_file(path);
                exists_or(error)
            })
        }
    }
}

/// A file that goes away with this.
pub(super) struct Temporary(pub PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It is gone already where it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}

fn write_zip<W: Write + Seek>(out: &mut W, parts: ContainerParts<'_>) -> Result<(), Error> {
    let mut zip = ZipWriter::new(out);
    match write_entries(&mut zip, parts) {
        Ok(()) => Ok(zip.finish().map(drop)?),
        Err(error) => {
            // Dropped, it would try once more to finish an archive that is about to be removed, and print that it cannot.
            std::mem::forget(zip);
            Err(error)
        }
    }
}

fn write_entries<W: Write + Seek>(zip: &mut ZipWriter<W>, parts: ContainerParts<'_>) -> Result<(), Error> {
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).with_alignment(8).large_file(true);
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);

    zip.start_file(PERF_DATA, stored)?;
    (parts.perf_data)(zip).map_err(zip::result::ZipError::Io)?;
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

fn json(entry: &'static str, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|source| Error::Json { entry, source })
}

/// The name of a new trace: `stamp` is local time as `YYYY-MM-DD_HH-MM-SS`. What a file name cannot hold becomes `-`.
pub fn trace_file_name(stamp: &str, what: &str) -> String {
    let keep = |letter: char| if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
    format!("{stamp}_{}.hitch", what.chars().map(keep).take(80).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(meta: &'a ContainerMeta, perf_data: &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> ContainerParts<'a> {
        ContainerParts { meta, perf_data, symbols: None, notes: Some("note"), extra: vec![("lab.json".to_owned(), b"{}".to_vec())] }
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_what_lies_among_others() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let meta = ContainerMeta::default();
        let (own, private, shared) = (folder.path().join("a.hitch"), folder.path().join("b.hitch"), folder.path().join("shared/c.hitch"));
        write_container(&own, parts(&meta, &mut |out| out.write_all(b"x"))).unwrap();
        write_private_container(&private, parts(&meta, &mut |out| out.write_all(b"x"))).unwrap();
        fs::create_dir(folder.path().join("shared")).unwrap();
        fs::set_permissions(folder.path().join("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
        write_container(&shared, parts(&meta, &mut |out| out.write_all(b"x"))).unwrap();
        fs::write(folder.path().join("any"), b"").unwrap();
        assert_eq!((mode(&own), mode(&private), mode(&shared)), (mode(&folder.path().join("any")), 0o600, 0o600));
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
        let result = write_container(&failing, parts(&meta, &mut |_| Err(io::Error::other("the ring is gone"))));
        let cause = std::error::Error::source(&result.unwrap_err()).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("the ring is gone"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
