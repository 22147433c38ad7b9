//! Inlined functions and source lines of one file, from its DWARF.
//!
//! Format: DWARF 2 to 5, read with the `addr2line` crate. *Why it stays open between two saves*: opening means decompressing and indexing
//! all of it, 150 ms for libc's. It is mapped, and a mapped file that somebody truncates kills the reader; so
//! [`Module`](crate::module::Module) makes sure before each use that the file has not changed.

use crate::demangle::demangle;
use crate::elf::Elf;
use crate::file::Identity;
use crate::module::Function;
use addr2line::Loader;
use std::path::{Path, PathBuf};

/// A file with more DWARF than this gets no lines: reading it could take longer than the recorder may.
pub(crate) const MAX_DWARF_BYTES: u64 = 256 << 20;

/// The DWARF of one file.
pub(crate) struct Lines {
    loader: Loader,
    shared: Option<(PathBuf, Identity)>,
}

impl Lines {
    /// Opens the DWARF in `path`, whose tables are `elf`, and the file `shared` with others that it refers to. None when there is none, or
    /// more than [`MAX_DWARF_BYTES`].
    pub(crate) fn open(path: &Path, elf: &Elf, shared: Option<PathBuf>) -> Option<Self> {
        if !(1..=MAX_DWARF_BYTES).contains(&elf.dwarf_bytes) {
            return None;
        }
        let shared = shared.and_then(|path| Identity::at(&path).map(|identity| (path, identity)));
        let loader = Loader::new_with_sup(path, shared.as_ref().map(|(path, _)| path)).ok()?;
        Some(Self { loader, shared })
    }

    /// True when the shared file has not changed since.
    pub(crate) fn is_current(&self) -> bool {
        self.shared.as_ref().is_none_or(|(path, identity)| Identity::at(path) == Some(*identity))
    }

    /// The functions at `svma`, innermost first. The outermost, the only one that is not inlined, gets the linker's name for it, `symbol`,
    /// where that is known.
    pub(crate) fn functions_at(&self, svma: u64, symbol: Option<&str>) -> Vec<Function> {
        let mut functions = Vec::new();
        // addr2line adds one to the address.
        if svma == u64::MAX {
            return functions;
        }
        let Ok(mut frames) = self.loader.find_frames(svma) else { return functions };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok()).unwrap_or_default();
            let (file, line) = frame.location.map_or((None, None), |location| (location.file, location.line));
            functions.push(Function { name: demangle(&name), file: file.unwrap_or_default().to_owned(), line: line.unwrap_or(0) });
        }
        if let (Some(outermost), Some(symbol)) = (functions.last_mut(), symbol) {
            symbol.clone_into(&mut outermost.name);
        }
        functions.retain(|function| !function.name.is_empty());
        functions
    }
}
