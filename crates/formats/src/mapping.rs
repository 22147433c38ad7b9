//! A trace file's bytes, mapped into memory: the only `unsafe` module of this crate.
//!
//! *Why mapped*: no copy of the file is needed, and pages can be dropped as soon as they are
//! decoded, since they belong to the kernel's page cache.

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

    /// Maps or reads an open file. `path` is for errors.
    pub(crate) fn of(file: File, path: &Path) -> Result<Self, Error> {
        let about = file.metadata().map_err(Error::at(path))?;
        if about.is_dir() {
            let directory = "a directory, and not one of LTTng; `unhitch list` and `unhitch view` \
                             read folders of traces. (What perf record --threads writes cannot be \
                             read: record without --threads.)";
            return Err(Error::Unsupported(directory.to_owned()));
        }
        if !about.is_file() || about.len() == 0 || others_may_truncate(&about) {
            return read(path, file, max_bytes_read()).map(Self::Read);
        }
        // SAFETY: the mapping is read-only and private to this value. If another process of this
        // user changes the file meanwhile, the decoder sees other bytes, which it checks like any
        // bytes: it never reads a length a second time and trusts that. If the user truncates the
        // file meanwhile, the process ends with SIGBUS, like every program that maps its input.
        // Other users cannot truncate it, as was just checked.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::at(path))?;
        // Only a hint, so a failure does not matter.
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

    /// Drops the pages that lie wholly inside `part`. They come back when they are read again. Does
    /// nothing if `part` is not a part of `bytes`.
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

    /// Does nothing: pages cannot be dropped on this system.
    #[cfg(not(unix))]
    pub(crate) fn release(&self, _part: &[u8]) {}
}

/// True if another user, other than root, may truncate the file while it is mapped, which would end
/// this process. A user who opened the file before its permissions were closed is not detected;
/// only the file's owner could have allowed that.
#[cfg(target_os = "linux")]
fn others_may_truncate(about: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let trusted = [0, rustix::process::geteuid().as_raw()];
    !trusted.contains(&about.uid()) || about.mode() & 0o022 != 0
}

/// On other systems a trace is not read with another user's rights.
#[cfg(not(target_os = "linux"))]
fn others_may_truncate(_about: &Metadata) -> bool {
    false
}

/// Reads a file or a pipe to its end. Fails if it is longer than `max_bytes`. The stated length of
/// the file is not trusted: a sparse file may claim terabytes.
fn read(path: &Path, file: File, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::at(path))?;
    if bytes.len() as u64 > max_bytes {
        let why = format!(
            "longer than {} MiB, which is half of the free memory: copy it to a file that belongs \
             to you and that only you can write, because such a file need not fit into memory",
            max_bytes >> 20
        );
        return Err(Error::Together { path: path.to_owned(), why });
    }
    Ok(bytes)
}

/// Maximum number of bytes that are read into memory: half of the free memory, so that the decoded
/// trace has room too.
fn max_bytes_read() -> u64 {
    const IF_UNKNOWN: u64 = 4 << 30;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    available.map_or(IF_UNKNOWN, |kib| kib * 1024 / 2)
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
    fn what_others_may_truncate_is_read_and_not_mapped() {
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
        assert!(error.contains("sparse") && error.contains("longer than 1 MiB"), "{error}");
        file.set_len(1 << 20).unwrap();
        assert_eq!(read(&path, File::open(&path).unwrap(), 1 << 20).unwrap().len(), 1 << 20);
    }
}
