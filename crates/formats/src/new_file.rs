//! [`NewFile`]: a file that is complete or absent.
//!
//! It is written under a temporary name in the folder where it goes, synced, and then linked to its
//! name, which fails if the name is taken. A trace of a hang cannot be recorded again, so none is
//! ever overwritten by accident. A file that grows gets its name once its beginning is written.

use crate::Error;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Who may read a file. A trace shows what every program of a machine did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Readers {
    /// Its owner alone (0600).
    #[default]
    Owner,
    /// Its owner and this group (0640).
    Group(u32),
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It stays, and the new file is not written.
    Kept,
    /// The new file takes its place.
    Replaced,
}

/// How the name of a file ends that is being written.
const PARTIAL: &str = ".partial";

/// What a file that is being written will be called, and the process that writes it; `None` if this
/// is not the name of such a file.
pub fn unfinished(name: &str) -> Option<(&str, u32)> {
    let (name, pid) = name.strip_prefix('.')?.strip_suffix(PARTIAL)?.rsplit_once('.')?;
    Some((name, pid.parse().ok()?))
}

/// A file that is being written. It is removed again unless it is [published](Self::publish).
pub struct NewFile {
    out: BufWriter<File>,
    temporary: Temporary,
    path: PathBuf,
    existing: Existing,
}

impl NewFile {
    /// Starts to write the file at `path`.
    ///
    /// # Errors
    /// [`Error::Exists`] if the file exists already and is to be kept; else what went wrong.
    pub fn create(path: &Path, readers: Readers, existing: Existing) -> Result<Self, Error> {
        Self::open(path, readers, existing, File::options().write(true))
    }

    /// The same, for a file that is read again once it is written.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub(crate) fn create_readable(
        path: &Path,
        readers: Readers,
        existing: Existing,
    ) -> Result<Self, Error> {
        Self::open(path, readers, existing, File::options().read(true).write(true))
    }

    fn open(
        path: &Path,
        readers: Readers,
        existing: Existing,
        options: &mut OpenOptions,
    ) -> Result<Self, Error> {
        if existing == Existing::Kept && path.exists() {
            return Err(Error::Exists(path.to_owned()));
        }
        let temporary = Temporary(Self::temporary(path));
        let file = create(&temporary.0, readers, options).map_err(Error::at(path))?;
        let out = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { out, temporary, path: path.to_owned(), existing })
    }

    /// The name under which this process writes the file at `path`.
    pub fn temporary(path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        folder_of(path).join(format!(".{name}.{}{PARTIAL}", std::process::id()))
    }

    /// Gives the finished file its name. Returns it, open as it was.
    ///
    /// # Errors
    /// Those of [`create`](Self::create). Nothing is left behind then.
    pub fn publish(mut self) -> Result<File, Error> {
        self.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(Error::at(&self.path))?;
        let folder = folder_of(&self.path).to_owned();
        let file = self.publish_growing()?;
        // The file has its name now. If the folder cannot be synced, as on some file systems, the
        // save has not failed.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
        Ok(file)
    }

    /// The same for a file that grows from now on: whoever sees its name finds what was written so
    /// far. It may not be on the disk yet, which is not waited for.
    ///
    /// # Errors
    /// Those of [`publish`](Self::publish).
    pub(crate) fn publish_growing(self) -> Result<File, Error> {
        let Self { out, temporary, path, existing } = self;
        let file = out.into_inner().map_err(|error| Error::at(&path)(error.into_error()))?;
        match existing {
            Existing::Kept => link(&temporary.0, &path)?,
            Existing::Replaced => fs::rename(&temporary.0, &path).map_err(Error::at(&path))?,
        }
        Ok(file)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.out.seek(to)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file. Only its owner may read it at first. A group may read it once the file belongs
/// to the group, which takes two steps.
pub(crate) fn create(path: &Path, readers: Readers, options: &mut OpenOptions) -> io::Result<File> {
    options.create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
        let file = options.mode(0o600).open(path)?;
        // If the owner may not give the file to that group, the trace is still saved.
        if let Readers::Group(group) = readers
            && fchown(&file, None, Some(group)).is_ok()
        {
            file.set_permissions(fs::Permissions::from_mode(0o640))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    {
        let _ = readers;
        options.open(path)
    }
}

/// Gives the finished file its name. Never replaces another file.
fn link(temporary: &Path, path: &Path) -> Result<(), Error> {
    let exists_or = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists(path.to_owned()),
        _ => Error::Io { path: path.to_owned(), source: error },
    };
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(()),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) =>
        {
            Err(exists_or(error))
        }
        // A file system without hard links: claim the name with an empty file, then replace that.
        Err(_) => {
            create(path, Readers::Owner, File::options().write(true)).map_err(exists_or)?;
            fs::rename(temporary, path).map_err(|error| {
                let _ = fs::remove_file(path);
                exists_or(error)
            })
        }
    }
}

/// A file that is removed when this is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may have been renamed, and is gone then.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_only_on_request_and_only_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let write = |existing, text: &[u8], publish: bool| -> Result<(), Error> {
            let mut file = NewFile::create(&path, Readers::Owner, existing)?;
            file.write_all(text).unwrap();
            if publish { file.publish().map(drop) } else { Ok(()) }
        };
        write(Existing::Kept, b"first", true).unwrap();
        assert!(matches!(write(Existing::Kept, b"second", true), Err(Error::Exists(_))));
        write(Existing::Replaced, b"third", false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        write(Existing::Replaced, b"fourth", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"fourth");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
