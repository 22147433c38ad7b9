//! One mapped file: names its locations and remembers them.
//!
//! Frames give file offsets ([`ModuleKind::File`](unhitch_model::ModuleKind)), symbols and DWARF stated addresses (svma), see
//! [`Elf::svma`]. *Why names are remembered by offset*: two saves of a flight recorder share nearly all their frames, so most of a save is
//! one hash lookup per frame.

use crate::debug_file::{self, DebugFile};
use crate::demangle::demangle;
use crate::elf::{Elf, Image};
use crate::file::{Identity, open_regular};
use crate::lines::{Lines, MAX_DWARF_BYTES};
use crate::{plt, unwind_table, vdso};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A file with more remembered locations than this is a program that never repeats itself; forget and start again.
const MAX_REMEMBERED: usize = 1 << 18;

/// One function at a location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Source file, empty when unknown.
    pub(crate) file: String,
    /// Source line, 0 when unknown.
    pub(crate) line: u32,
}

/// The functions at one location, innermost first; empty when it has no name.
pub(crate) type Functions = Arc<[Function]>;

/// Why a module's frames have no names, in the words of the warning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Missing {
    /// No file, no right to read it, or not a regular file.
    Unreadable,
    /// Neither ELF nor whole.
    Damaged,
    /// Another build than the recorded one lies at the path.
    OtherBuild,
    /// No build id proves that it is the recorded one, and the file was written after the recording.
    WrittenSince,
    /// No symbol table and no debug file.
    Nameless,
    /// The functions have names, but there is too much DWARF for lines.
    TooMuchDwarf,
}

impl Missing {
    /// The warning for `count` modules, listed in `names`.
    pub(crate) fn warning(self, count: usize, names: &str) -> String {
        let modules = if count == 1 { "module" } else { "modules" };
        match self {
            Self::Unreadable => format!("no symbols for {count} {modules}, gone or not readable: {names}"),
            Self::Damaged => format!("no symbols for {count} {modules}, damaged or not ELF files: {names}"),
            Self::OtherBuild => {
                format!("no symbols for {count} {modules}, replaced by another build since (the build ids differ): {names}")
            }
            Self::WrittenSince => format!("no symbols for {count} {modules}, written after the recording: {names}"),
            Self::Nameless => format!("no symbols for {count} {modules}, stripped and without a debug file: {names}"),
            Self::TooMuchDwarf => {
                format!("no source lines for {count} {modules} with more than {} MiB of debug information: {names}", MAX_DWARF_BYTES >> 20)
            }
        }
    }
}

/// What a recording tells of a mapped file, by which the file at its path is known again.
#[derive(Clone, Copy, Default)]
pub(crate) struct Recorded<'a> {
    /// Empty when it was not recorded.
    pub(crate) build_id: &'a [u8],
    /// When the recording ended; none when that is not known.
    pub(crate) until: Option<SystemTime>,
}

/// A mapped file with its tables and the locations named so far.
pub(crate) struct Module {
    path: PathBuf,
    /// True when its build id proves that it is the recorded file.
    pub(crate) is_proven: bool,
    identity: Option<Identity>,
    elf: Elf,
    debug: Option<DebugFile>,
    lines: Option<Lines>,
    stubs: Option<FxHashMap<u64, String>>,
    remembered: FxHashMap<u64, Functions>,
}

impl Module {
    /// Reads the file at `path` (or the running kernel's vdso), which must have the recorded build id if both have one, and else must not
    /// have been written since.
    pub(crate) fn open(path: &str, recorded: Recorded<'_>, debug_dirs: &[PathBuf]) -> Result<Self, Missing> {
        // The kernel appends this to the path of a file that was unlinked; what lies there now must prove that it is the same.
        let (path, unlinked) = path.strip_suffix(" (deleted)").map_or((path, false), |path| (path, true));
        let path = Path::new(path);
        let (image, identity) = open_image(path).map_err(|_| Missing::Unreadable)?;
        let elf = Elf::read(image).ok_or(Missing::Damaged)?;
        let is_proven = !recorded.build_id.is_empty() && !elf.build_id.is_empty();
        if is_proven && !same_build(recorded.build_id, &elf.build_id) {
            return Err(Missing::OtherBuild);
        }
        if unlinked && !is_proven {
            return Err(Missing::Unreadable);
        }
        let written = identity.and_then(|identity| identity.modified);
        if !is_proven && written.zip(recorded.until).is_some_and(|(written, until)| written > until) {
            return Err(Missing::WrittenSince);
        }
        let debug = if elf.has_symtab && elf.dwarf_bytes > 0 { None } else { debug_file::find(path, &elf, debug_dirs) };
        Ok(Self { path: path.to_owned(), is_proven, identity, elf, debug, lines: None, stubs: None, remembered: FxHashMap::default() })
    }

    /// The tables of the file itself, and the image to read its code from.
    pub(crate) fn code(&self) -> io::Result<(&Elf, Box<dyn Image>)> {
        Ok((&self.elf, open_image(&self.path)?.0))
    }

    /// The file offsets of the function that covers `file_offset`.
    pub(crate) fn extent_at(&self, file_offset: u64) -> Option<Range<u64>> {
        let svma = self.elf.svma(file_offset)?;
        let unwound = || unwind_table::extent_at(open_image(&self.path).ok()?.0, svma);
        let extent = self.symbols().1.extent_at(svma).or_else(unwound)?;
        let start = file_offset.checked_sub(svma.checked_sub(extent.start)?)?;
        Some(start..start.checked_add(extent.end - extent.start)?)
    }

    /// True when the files that this was read from have not changed since.
    pub(crate) fn is_current(&self) -> bool {
        let debug_is_current = self.debug.as_ref().is_none_or(|debug| Identity::at(&debug.path) == Some(debug.identity));
        let lines_are_current = self.lines.as_ref().is_none_or(Lines::is_current);
        debug_is_current && lines_are_current && (self.identity.is_none() || Identity::at(&self.path) == self.identity)
    }

    /// Names each of `file_offsets`, and what is missing from the names.
    pub(crate) fn name(&mut self, file_offsets: &[u64], lines: bool, debug_dirs: &[PathBuf]) -> (Vec<Functions>, Option<Missing>) {
        if self.remembered.len() > MAX_REMEMBERED {
            self.remembered.clear();
        }
        let mut fresh: Vec<u64> = file_offsets.iter().copied().filter(|offset| !self.remembered.contains_key(offset)).collect();
        fresh.sort_unstable();
        if !fresh.is_empty() {
            self.name_fresh(&fresh, lines, debug_dirs);
        }
        let names = file_offsets.iter().map(|offset| self.remembered.get(offset).cloned().unwrap_or_default()).collect();
        let (_, symbols) = self.symbols();
        let missing = match () {
            () if symbols.is_nameless() => Some(Missing::Nameless),
            () if lines && self.dwarf().is_some_and(|(_, elf)| elf.dwarf_bytes > MAX_DWARF_BYTES) => Some(Missing::TooMuchDwarf),
            () => None,
        };
        (names, missing)
    }

    /// How much DWARF is kept open.
    pub(crate) fn open_dwarf_bytes(&self) -> u64 {
        self.lines.as_ref().and_then(|_| self.dwarf()).map_or(0, |(_, elf)| elf.dwarf_bytes)
    }

    /// Closes the DWARF; the locations named so far stay named.
    pub(crate) fn close_dwarf(&mut self) {
        self.lines = None;
    }

    fn name_fresh(&mut self, file_offsets: &[u64], lines: bool, debug_dirs: &[PathBuf]) {
        if lines && self.lines.is_none() {
            self.lines = self.dwarf().and_then(|(path, elf)| {
                let shared = debug_file::find_shared(path, elf, debug_dirs);
                Lines::open(path, elf, shared)
            });
        }
        let Ok((mut image, _)) = open_image(self.symbols().0) else { return };
        for &offset in file_offsets {
            let functions = self.elf.svma(offset).map_or_else(Vec::new, |svma| {
                let symbol = self.symbols().1.function_at(&mut *image, svma).map(|symbol| demangle(&symbol)).or_else(|| self.stub_at(svma));
                let inlined = self.lines.as_ref().map_or_else(Vec::new, |lines| lines.functions_at(svma, symbol.as_deref()));
                match symbol {
                    Some(name) if inlined.is_empty() => vec![Function { name, file: String::new(), line: 0 }],
                    _ => inlined,
                }
            });
            self.remembered.insert(offset, functions.into());
        }
    }

    /// The file with the fuller symbol table.
    fn symbols(&self) -> (&Path, &Elf) {
        match &self.debug {
            Some(debug) if debug.elf.has_symtab && !self.elf.has_symtab => (&debug.path, &debug.elf),
            _ => (&self.path, &self.elf),
        }
    }

    /// The file with the DWARF.
    fn dwarf(&self) -> Option<(&Path, &Elf)> {
        let debug = self.debug.as_ref().map(|debug| (debug.path.as_path(), &debug.elf));
        [Some((self.path.as_path(), &self.elf)), debug].into_iter().flatten().find(|(_, elf)| elf.dwarf_bytes > 0)
    }

    fn stub_at(&mut self, svma: u64) -> Option<String> {
        if !self.elf.plt_svmas.iter().any(|range| range.contains(&svma)) {
            return None;
        }
        let path = &self.path;
        let stubs = self.stubs.get_or_insert_with(|| open_image(path).map(|(image, _)| plt::stubs(image)).unwrap_or_default());
        let name = stubs.get(&(svma & !7)).or_else(|| stubs.get(&(svma & !15)))?;
        Some(format!("{}@plt", demangle(name)))
    }
}

/// Opens a file or, for `[vdso]`, the image that the kernel maps into every process.
fn open_image(path: &Path) -> io::Result<(Box<dyn Image>, Option<Identity>)> {
    if path == Path::new(vdso::NAME) {
        return Ok((Box::new(io::Cursor::new(vdso::read()?)), None));
    }
    let (file, identity) = open_regular(path)?;
    Ok((Box::new(file), Some(identity)))
}

/// perf pads recorded build ids with zeros to 20 bytes.
pub(crate) fn same_build(recorded: &[u8], actual: &[u8]) -> bool {
    recorded.strip_prefix(actual).is_some_and(|padding| padding.iter().all(|&byte| byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_build_ids_are_equal() {
        assert!(same_build(&[1, 2, 3], &[1, 2, 3]));
        assert!(same_build(&[1, 2, 3, 0, 0], &[1, 2, 3]));
        assert!(!same_build(&[1, 2, 3, 0, 4], &[1, 2, 3]));
        assert!(!same_build(&[1, 2], &[1, 2, 3]));
    }

    #[test]
    fn a_fifo_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(Module::open(path.to_str().unwrap(), Recorded::default(), &[]).err(), Some(Missing::Unreadable));
    }
}
