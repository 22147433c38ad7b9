//! A trace file's bytes, mapped into memory: the one `unsafe` module of this crate.
//!
//! Mapping spares a copy of the file, and lets pages go as soon as they are decoded: they are the
//! kernel's page cache, not ours.

#![allow(unsafe_code, reason = "mapping a file cannot be expressed in safe Rust")]

use crate::Error;
use memmap2::Mmap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

/// The content of a file, or of a pipe that was read to its end.
pub(crate) enum Content {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Content {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::of(File::open(path).map_err(Error::at(path))?, path)
    }

    /// Of a file that is open; `path` is for errors.
    pub(crate) fn of(file: File, path: &Path) -> Result<Self, Error> {
        let about = file.metadata().map_err(Error::at(path))?;
        if about.is_dir() {
            let directory = "a directory: a perf.data directory (perf record --threads) cannot be read; record without --threads";
            return Err(Error::Unsupported(directory.to_owned()));
        }
        if !about.is_file() || about.len() == 0 || others_may_cut(&about) {
            return read(path, file, most_bytes_read()).map(Self::Read);
        }
        // SAFETY: the mapping is read-only and private to this value. Should another process of
        // this user change the file meanwhile, the decoder sees other bytes, which it checks like
        // all bytes: it never reads a length twice to trust the second reading. Should the user cut
        // the file meanwhile, the process ends with SIGBUS, as it does with every program that maps
        // its input; others cannot, which was just looked at.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::at(path))?;
        // Only a hint; a kernel without it is as correct.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Sequential);
        Ok(Self::Mapped(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }

    /// Lets the pages that lie wholly inside `part` go; they come back when they are read again.
    /// `part` must be a part of `bytes`, anything else is ignored.
    #[cfg(unix)]
    pub(crate) fn release(&self, part: &[u8]) {
        const PAGE: usize = 64 << 10;
        let Self::Mapped(map) = self else { return };
        let Some(start) = (part.as_ptr() as usize).checked_sub(map.as_ptr() as usize) else {
            return;
        };
        let (start, end) = (start.next_multiple_of(PAGE), (start + part.len()) / PAGE * PAGE);
        if start < end && end <= map.len() {
            // SAFETY: the range lies inside the mapping, which is shared and read-only: no page
            // holds anything but the file's content, and reading a dropped page brings the same
            // content back, so no reference into the mapping becomes invalid.
            let _ = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }

    /// Here pages cannot be let go: they stay.
    #[cfg(not(unix))]
    pub(crate) fn release(&self, _part: &[u8]) {}
}

/// Whether a user who is not root may cut the file of another while it is mapped, which would end
/// this process. Who opened it before it was closed to others is not seen here: who made it had to
/// want that.
#[cfg(target_os = "linux")]
fn others_may_cut(about: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let trusted = [0, rustix::process::geteuid().as_raw()];
    !trusted.contains(&about.uid()) || about.mode() & 0o022 != 0
}

/// Elsewhere a trace is not read with another user's rights.
#[cfg(not(target_os = "linux"))]
fn others_may_cut(_about: &Metadata) -> bool {
    false
}

/// Reads a file or a pipe to its end; a longer one than `most` is refused. No length is believed: a
/// file that says it has terabytes may have none.
fn read(path: &Path, file: File, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::at(path))?;
    if bytes.len() as u64 > most {
        let why = format!(
            "more than {} MiB, half of the free memory: copy it to a file of your own, which need not be in memory",
            most >> 20
        );
        return Err(Error::Together { path: path.to_owned(), why });
    }
    Ok(bytes)
}

/// Half of the memory that is free, so that what is decoded from the file has room too.
fn most_bytes_read() -> u64 {
    const WHERE_NOT_KNOWN: u64 = 4 << 30;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    available.map_or(WHERE_NOT_KNOWN, |kib| kib * 1024 / 2)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    /// Opens a file of this mode and owner, cuts it, and says whether its bytes are still there.
    fn survives_a_cut(mode: u32, owner: Option<u32>) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        chown(&path, owner, None).unwrap();
        let content = Content::open(&path).unwrap();
        if matches!(content, Content::Mapped(_)) {
            return false;
        }
        OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
        content.bytes() == [7; 1 << 20]
    }

    #[test]
    fn what_others_may_cut_is_read_and_not_mapped() {
        assert!(survives_a_cut(0o602, None) && survives_a_cut(0o620, None));
        assert!(!survives_a_cut(0o644, None), "one's own is mapped");
        if rustix::process::geteuid().is_root() {
            assert!(survives_a_cut(0o644, Some(4711)));
        } else {
            eprintln!("SKIPPED a file of another user: only root can make one");
        }
    }

    #[test]
    fn a_file_that_says_it_is_huge_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        let error = read(&path, File::open(&path).unwrap(), 1 << 20).unwrap_err().to_string();
        assert!(error.contains("sparse") && error.contains("more than 1 MiB"), "{error}");
        file.set_len(1 << 20).unwrap();
        assert_eq!(read(&path, File::open(&path).unwrap(), 1 << 20).unwrap().len(), 1 << 20);
    }
}
