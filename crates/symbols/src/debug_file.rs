//! Finds the separate debug file of a stripped one.
//!
//! Format: "Separate Debug Files" of the GDB manual: `DEBUG_DIR/.build-id/xx/yyyy.debug` by build
//! id, and the file named by `.gnu_debuglink`, in the stripped file's folder, in `.debug` there, or
//! under `DEBUG_DIR` with the path of that folder. *Why each candidate is checked*: a debug file of
//! another build gives names that look right and are wrong.

use crate::debuginfod::{Debuginfod, Kind};
use crate::elf::Elf;
use crate::files::{self, Files, Identity, Wanted};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use unhitch_model::units::hex;

/// Maximum length of a debug file whose checksum is computed, bytes. A debug link is the last
/// resort, and its file may be sparse.
const MAX_SUMMED_BYTES: u64 = 256 << 20;

/// A separate debug file of the right build.
pub(crate) struct DebugFile {
    pub(crate) wanted: Wanted,
    pub(crate) identity: Identity,
    pub(crate) elf: Elf,
}

/// Finds the debug file of `elf`, which was read from `module`.
pub(crate) fn find(
    files: &dyn Files,
    module: &Wanted,
    elf: &Elf,
    debug_dirs: &[PathBuf],
) -> Option<DebugFile> {
    let by_id = debug_dirs.iter().filter_map(|dir| by_build_id(dir, &elf.build_id));
    let by_id =
        by_id.filter_map(|candidate| accept(files, module.debug(candidate), elf, None)).next();
    by_id.or_else(|| {
        let (name, crc) = elf.debuglink.as_ref()?;
        let name = Path::new(file_name(name)?);
        let path = module.path();
        let folder = path.parent()?;
        let near = [folder.join(name), folder.join(".debug").join(name)].into_iter();
        let below = debug_dirs
            .iter()
            .map(|dir| dir.join(folder.strip_prefix("/").unwrap_or(folder)).join(name));
        let candidates = near.chain(below).filter(|candidate| candidate != path);
        candidates
            .map(|candidate| module.debug(candidate))
            .find_map(|candidate| accept(files, candidate, elf, Some(*crc)))
    })
}

/// Finds the debug file of `elf`, which was read from `module`, on a server.
pub(crate) fn fetch(
    files: &dyn Files,
    module: &Wanted,
    elf: &Elf,
    debuginfod: &Debuginfod,
) -> Option<DebugFile> {
    let path = debuginfod.find(Kind::DebugInfo, &elf.build_id)?;
    accept(files, module.debug(path), elf, None)
}

/// Finds the file that `debug`'s `.gnu_debugaltlink` names, into which dwz moved what several debug
/// files share. If `debug` is from a server, so may this be.
pub(crate) fn find_shared(
    files: &dyn Files,
    of: &Wanted,
    debug: &Elf,
    debug_dirs: &[PathBuf],
    debuginfod: &Debuginfod,
) -> Option<(DebugFile, File)> {
    let (name, build_id) = debug.debugaltlink.as_ref()?;
    let linked = of.path().parent()?.join(path_of(name)?);
    let by_id = debug_dirs.iter().filter_map(|dir| by_build_id(dir, build_id));
    let open = |path| {
        let wanted = of.debug(path);
        let (file, identity) = files::open(files, &wanted).ok()?;
        let elf = Elf::read(file.try_clone().ok()?)?;
        let belongs = elf.build_id == *build_id && elf.dwarf_bytes > 0;
        belongs.then_some((DebugFile { wanted, identity, elf }, file))
    };
    by_id.chain([linked]).find_map(open).or_else(|| {
        let is_fetched = debuginfod.has(of.path());
        open(is_fetched.then(|| debuginfod.find(Kind::DebugInfo, build_id))??)
    })
}

fn by_build_id(dir: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let hex = hex(build_id);
    let (first, rest) = hex.split_at_checked(2)?;
    (!rest.is_empty()).then(|| dir.join(".build-id").join(first).join(format!("{rest}.debug")))
}

fn accept(files: &dyn Files, wanted: Wanted, elf: &Elf, crc: Option<u32>) -> Option<DebugFile> {
    let (mut file, identity) = files::open(files, &wanted).ok()?;
    let debug = Elf::read(file.try_clone().ok()?)?;
    let belongs = if elf.build_id.is_empty() || debug.build_id.is_empty() {
        crc.is_some_and(|expected| {
            identity.len_bytes <= MAX_SUMMED_BYTES && crc32(&mut file) == Some(expected)
        })
    } else {
        elf.build_id == debug.build_id
    };
    belongs.then_some(DebugFile { wanted, identity, elf: debug })
}

/// The CRC-32 of a whole file, like zlib's, which `.gnu_debuglink` holds.
fn crc32(file: &mut (impl Read + Seek)) -> Option<u32> {
    let mut sum = crc32fast::Hasher::new();
    let mut chunk = vec![0; 256 << 10];
    file.rewind().ok()?;
    loop {
        match file.read(&mut chunk).ok()? {
            0 => return Some(sum.finalize()),
            read => sum.update(&chunk[..read]),
        }
    }
}

/// The checksum of the file at `path`.
pub(crate) fn crc_at(path: &Path) -> Option<u32> {
    crc32(&mut files::open_regular(path).ok()?)
}

/// The file name in a debug link. A path in it is ignored.
pub(crate) fn file_name(name: &[u8]) -> Option<&OsStr> {
    Path::new(path_of(name)?).file_name()
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> Option<&OsStr> {
    Some(std::os::unix::ffi::OsStrExt::from_bytes(name))
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> Option<&OsStr> {
    std::str::from_utf8(name).ok().map(OsStr::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_that_of_zlib() {
        assert_eq!(crc32(&mut std::io::Cursor::new(b"123456789")), Some(0xcbf4_3926));
    }

    #[test]
    fn build_id_paths() {
        let dir = Path::new("/usr/lib/debug");
        assert_eq!(
            by_build_id(dir, &[0xab, 0x01, 0xff]),
            Some(PathBuf::from("/usr/lib/debug/.build-id/ab/01ff.debug"))
        );
        assert_eq!(by_build_id(dir, &[0xab]), None);
        assert_eq!(by_build_id(dir, &[]), None);
    }
}
