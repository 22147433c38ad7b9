//! One mapped file: names its locations and remembers them.
//!
//! Frames have file offsets ([`ModuleKind::File`](unhitch_model::ModuleKind)), symbols and DWARF
//! have svmas, see [`Elf::svma`]. *Why names are kept by offset*: two saves of a flight recorder
//! share nearly all their frames, so most of a save is one hash lookup per frame.

use crate::budget::Budget;
use crate::debug_file::{self, DebugFile};
use crate::debuginfod::{Debuginfod, Kind};
use crate::demangle::demangle;
use crate::elf::Elf;
use crate::files::{self, Files, Identity, Wanted};
use crate::function::{Function, Functions};
use crate::limited::Image;
use crate::lines::{Lines, MAX_DWARF_BYTES};
use crate::mini_debug_info::{MAX_PACKED_BYTES, MAX_UNPACKED_BYTES, MiniDebugInfo, Unusable};
use crate::{plt, unwind_table, vdso};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use unhitch_model::units::plural;

/// Maximum number of remembered locations of a file. A program with more never repeats itself, so
/// they are all dropped.
const MAX_REMEMBERED: usize = 1 << 18;

/// Maximum DWARF, and packed tables unpacked, that is read for one trace, bytes.
const MAX_ALL_DWARF_BYTES: u64 = 56 << 20;
/// Maximum memory for tables and DWARF that are kept between traces, bytes.
const MAX_KEPT_BYTES: u64 = 64 << 20;

/// The files and the memory that naming one trace may use.
pub(crate) struct Resources {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) debug_dirs: Vec<PathBuf>,
    pub(crate) debuginfod: Debuginfod,
    pub(crate) lines: bool,
    dwarf_bytes: Budget,
    kept_bytes: Budget,
}

impl Resources {
    /// Resources of which `kept_bytes` are in use since the last trace.
    pub(crate) fn new(
        files: Arc<dyn Files>,
        debug_dirs: Vec<PathBuf>,
        debuginfod: Debuginfod,
        lines: bool,
        kept_bytes: u64,
    ) -> Self {
        Self {
            files,
            debug_dirs,
            debuginfod,
            lines,
            dwarf_bytes: Budget::new(MAX_ALL_DWARF_BYTES),
            kept_bytes: Budget::new(MAX_KEPT_BYTES.saturating_sub(kept_bytes)),
        }
    }
}

/// Why a module's frames have no names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Missing {
    /// The file is missing, may not be read, or is not a regular file.
    Unreadable,
    /// The file is damaged, or is not an ELF file.
    Damaged,
    /// The file at the path is another build than the recorded one.
    OtherBuild,
    /// No build id proves that it is the recorded one, and the file was written or replaced after the
    /// recording.
    WrittenSince,
    /// No symbol table and no debug file.
    Nameless,
    /// Its packed symbol table is too large.
    TooLargeTable,
    /// The functions have names, but there is too much DWARF for lines.
    TooMuchDwarf,
    /// Its file did not answer, or took too long.
    Late,
}

impl Missing {
    /// The warning for `count` modules, listed in `names`.
    pub(crate) fn warning(self, count: usize, names: &str) -> String {
        let modules = plural(count as u64, "module");
        let why = match self {
            Self::Unreadable => "whose file is gone or cannot be read",
            Self::Damaged => "whose file is damaged or not an ELF file",
            Self::OtherBuild => {
                "whose file has been replaced by another build (the build ids differ)"
            }
            Self::WrittenSince => "whose file was written or replaced after the recording",
            Self::Nameless => "whose file is stripped and has no debug file",
            Self::Late => "whose file took too long to read",
            Self::TooLargeTable => {
                return format!(
                    "some functions of {modules} have no names: a packed symbol table is read up \
                     to {} MiB packed and {} MiB unpacked, and {} MiB in all with debug \
                     information: {names}",
                    MAX_PACKED_BYTES >> 20,
                    MAX_UNPACKED_BYTES >> 20,
                    MAX_ALL_DWARF_BYTES >> 20
                );
            }
            Self::TooMuchDwarf => {
                return format!(
                    "no source lines for {modules}: debug information is read up to {} MiB per \
                     module and {} MiB in all: {names}",
                    MAX_DWARF_BYTES >> 20,
                    MAX_ALL_DWARF_BYTES >> 20
                );
            }
        };
        format!("no symbols for {modules} {why}: {names}")
    }
}

/// What a recording has to identify a mapped file.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecordedFile<'a> {
    /// Empty if it was not recorded.
    pub(crate) build_id: &'a [u8],
    /// When the recording ended; `None` if unknown.
    pub(crate) until: Option<SystemTime>,
    /// True if only the build id can prove that a file is the recorded one.
    pub(crate) must_prove: bool,
}

/// A mapped file with its tables and the locations named so far.
pub(crate) struct Module {
    wanted: Wanted,
    /// True if its build id proves that it is the recorded file.
    pub(crate) is_proven: bool,
    identity: Option<Identity>,
    elf: Elf,
    debug: Option<DebugFile>,
    mini: Option<MiniDebugInfo>,
    lines: Option<Lines>,
    has_too_large_table: bool,
    has_too_much_dwarf: bool,
    stubs: Option<FxHashMap<u64, String>>,
    remembered: FxHashMap<u64, Functions>,
}

impl Module {
    /// Reads the file at `path`, or the running kernel's vdso. If both have a build id it must be
    /// the recorded one; otherwise the file must not have been written or replaced since the
    /// recording. If it is not the recorded one, a server may have that.
    pub(crate) fn open(
        path: &str,
        recorded: RecordedFile<'_>,
        resources: &Resources,
    ) -> Result<Self, Missing> {
        let local = Opened::local(path, recorded, &*resources.files);
        let Opened { wanted, mut image, identity, elf, is_proven } =
            local.or_else(|why| Opened::fetched(path, recorded, resources).ok_or(why))?;
        let debug = if elf.has_symtab && elf.dwarf_bytes > 0 {
            None
        } else {
            debug_file::find(&*resources.files, &wanted, &elf, &resources.debug_dirs)
        };
        let has_symtab = elf.has_symtab || debug.as_ref().is_some_and(|debug| debug.elf.has_symtab);
        let packed = elf.mini_debug_info.as_ref().filter(|_| !has_symtab);
        let may_take = |bytes| resources.dwarf_bytes.take(bytes);
        let mini = packed.map(|section| MiniDebugInfo::read(&mut *image, section, may_take));
        Ok(Self {
            wanted,
            is_proven,
            identity,
            elf,
            debug,
            has_too_large_table: matches!(mini, Some(Err(Unusable::TooLarge))),
            mini: mini.and_then(Result::ok),
            lines: None,
            has_too_much_dwarf: false,
            stubs: None,
            remembered: FxHashMap::default(),
        })
    }

    /// The tables of the file itself, and the image to read its code from.
    pub(crate) fn code(&self, resources: &Resources) -> io::Result<(&Elf, Box<dyn Image>)> {
        Ok((&self.elf, open_image(&*resources.files, &self.wanted)?.0))
    }

    /// The file offsets of the function that covers `file_offset`.
    pub(crate) fn extent_at(&self, file_offset: u64, resources: &Resources) -> Option<Range<u64>> {
        let svma = self.elf.svma(file_offset)?;
        let unwound =
            || unwind_table::extent_at(open_image(&*resources.files, &self.wanted).ok()?.0, svma);
        let mini = || self.mini.as_ref()?.elf().extent_at(svma);
        let extent = self.symbols().1.extent_at(svma).or_else(mini).or_else(unwound)?;
        let start = file_offset.checked_sub(svma.checked_sub(extent.start)?)?;
        Some(start..start.checked_add(extent.end - extent.start)?)
    }

    /// True if the files that this was read from have not changed since.
    pub(crate) fn is_current(&self, files: &dyn Files) -> bool {
        let is_current = |wanted, identity| files::is_current(files, wanted, identity);
        self.debug.as_ref().is_none_or(|debug| is_current(&debug.wanted, debug.identity))
            && self.lines.as_ref().is_none_or(|lines| lines.is_current(files))
            && self.identity.is_none_or(|identity| is_current(&self.wanted, identity))
    }

    /// Names each of `file_offsets`. Also returns what is missing from the names.
    pub(crate) fn name(
        &mut self,
        file_offsets: &[u64],
        resources: &Resources,
    ) -> (Vec<Functions>, Option<Missing>) {
        if self.remembered.len() > MAX_REMEMBERED {
            self.remembered.clear();
        }
        let mut fresh: Vec<u64> = file_offsets
            .iter()
            .copied()
            .filter(|offset| !self.remembered.contains_key(offset))
            .collect();
        fresh.sort_unstable();
        if !fresh.is_empty() {
            self.name_fresh(&fresh, resources);
            if self.fetch_debug(&fresh, resources) {
                self.name_fresh(&fresh, resources);
            }
        }
        let names: Vec<Functions> = file_offsets
            .iter()
            .map(|offset| self.remembered.get(offset).cloned().unwrap_or_default())
            .collect();
        let (_, symbols) = self.symbols();
        let is_nameless = names.iter().any(|functions| functions.is_empty());
        let missing = match () {
            () if self.has_too_large_table && is_nameless => Some(Missing::TooLargeTable),
            () if symbols.is_nameless() && self.mini.is_none() => Some(Missing::Nameless),
            () if self.has_too_much_dwarf => Some(Missing::TooMuchDwarf),
            () => None,
        };
        (names, missing)
    }

    /// Memory that it takes, bytes.
    pub(crate) fn memory(&self) -> u64 {
        /// Memory of a location with its names, estimated.
        const REMEMBERED_BYTES: usize = 256;
        let dwarf = self.lines.as_ref().map_or(0, Lines::memory);
        let tables = self.elf.memory()
            + self.debug.as_ref().map_or(0, |debug| debug.elf.memory())
            + self.mini.as_ref().map_or(0, MiniDebugInfo::memory);
        dwarf + (tables + self.remembered.len() * REMEMBERED_BYTES) as u64
    }

    /// Drops what is too large to keep for the next trace; `None` if that is everything.
    pub(crate) fn keep(mut self, resources: &Resources) -> Option<Self> {
        if resources.kept_bytes.take(self.memory()) {
            return Some(self);
        }
        self.close_dwarf();
        resources.kept_bytes.take(self.memory()).then_some(self)
    }

    /// Closes the DWARF. Locations named so far stay named.
    pub(crate) fn close_dwarf(&mut self) {
        self.lines = None;
    }

    /// Fetches the debug file if some of the locations have no name. True if there is one now.
    ///
    /// *Why only then, and only for a recorded build id*: a server learns which builds are looked
    /// for.
    fn fetch_debug(&mut self, file_offsets: &[u64], resources: &Resources) -> bool {
        let is_named = |offset| self.remembered.get(offset).is_some_and(|names| !names.is_empty());
        // The vdso has no identity, and no server has it.
        if !self.is_proven
            || self.identity.is_none()
            || self.symbols().1.has_symtab
            || file_offsets.iter().all(is_named)
        {
            return false;
        }
        let (files, debuginfod) = (&*resources.files, &resources.debuginfod);
        let Some(debug) = debug_file::fetch(files, &self.wanted, &self.elf, debuginfod) else {
            return false;
        };
        self.has_too_large_table &= !debug.elf.has_symtab;
        (self.debug, self.lines) = (Some(debug), None);
        true
    }

    fn open_lines(&mut self, resources: &Resources) -> Option<Lines> {
        let Resources { files, debug_dirs, debuginfod, .. } = resources;
        let files = &**files;
        let (wanted, elf) = self.dwarf()?;
        let shared = debug_file::find_shared(files, wanted, elf, debug_dirs, debuginfod);
        let bytes = [elf.dwarf_bytes, shared.as_ref().map_or(0, |(file, _)| file.elf.dwarf_bytes)];
        let is_too_large = bytes.iter().any(|&bytes| bytes > MAX_DWARF_BYTES);
        if is_too_large || !resources.dwarf_bytes.take(bytes.iter().sum()) {
            self.has_too_much_dwarf = true;
            return None;
        }
        let shared = shared.map(|(found, file)| (found.wanted, file, found.identity));
        Lines::read(files, files::open(files, wanted).ok()?.0, shared)
    }

    fn name_fresh(&mut self, file_offsets: &[u64], resources: &Resources) {
        if resources.lines && self.lines.is_none() {
            self.lines = self.open_lines(resources);
        }
        let Ok((mut image, _)) = open_image(&*resources.files, self.symbols().0) else { return };
        for &offset in file_offsets {
            let functions = self.elf.svma(offset).map_or_else(Vec::new, |svma| {
                let symbol = self
                    .symbols()
                    .1
                    .function_at(&mut *image, svma)
                    .or_else(|| self.mini.as_ref()?.function_at(svma))
                    .map(|symbol| demangle(&symbol))
                    .or_else(|| self.stub_at(svma, resources));
                let inlined = self
                    .lines
                    .as_ref()
                    .map_or_else(Vec::new, |lines| lines.functions_at(svma, symbol.as_deref()));
                match symbol {
                    Some(name) if inlined.is_empty() => vec![Function::named(name)],
                    _ => inlined,
                }
            });
            self.remembered.insert(offset, functions.into());
        }
    }

    /// The file with the fuller symbol table.
    fn symbols(&self) -> (&Wanted, &Elf) {
        match &self.debug {
            Some(debug) if debug.elf.has_symtab && !self.elf.has_symtab => {
                (&debug.wanted, &debug.elf)
            }
            _ => (&self.wanted, &self.elf),
        }
    }

    /// The file with the DWARF.
    fn dwarf(&self) -> Option<(&Wanted, &Elf)> {
        let debug = self.debug.as_ref().map(|debug| (&debug.wanted, &debug.elf));
        [Some((&self.wanted, &self.elf)), debug]
            .into_iter()
            .flatten()
            .find(|(_, elf)| elf.dwarf_bytes > 0)
    }

    /// The build id of the file; empty if it has none.
    pub(crate) fn build_id(&self) -> &[u8] {
        &self.elf.build_id
    }

    fn stub_at(&mut self, svma: u64, resources: &Resources) -> Option<String> {
        if !self.elf.plt_svmas.iter().any(|range| range.contains(&svma)) {
            return None;
        }
        let wanted = &self.wanted;
        let read = || {
            open_image(&*resources.files, wanted)
                .map(|(image, _)| plt::stubs(image))
                .unwrap_or_default()
        };
        let stubs = self.stubs.get_or_insert_with(read);
        let name = stubs.get(&(svma & !7)).or_else(|| stubs.get(&(svma & !15)))?;
        Some(format!("{}@plt", demangle(name)))
    }
}

/// A file that is the recorded one, as far as that can be known.
struct Opened {
    wanted: Wanted,
    image: Box<dyn Image>,
    identity: Option<Identity>,
    elf: Elf,
    is_proven: bool,
}

impl Opened {
    /// The file at `path` on this machine.
    fn local(path: &str, recorded: RecordedFile<'_>, files: &dyn Files) -> Result<Self, Missing> {
        let mut wanted = Wanted::Mapped(path.into());
        let mut opened = open_image(files, &wanted);
        // What is at the path of a file that is gone must prove that it is the same.
        let gone = opened.as_ref().err().and(unhitch_model::Module::path_before(path));
        if gone.is_some() && recorded.build_id.is_empty() {
            return Err(Missing::Unreadable);
        }
        if let Some(path) = gone {
            wanted = Wanted::Mapped(path.into());
            opened = open_image(files, &wanted);
        }
        let (mut image, identity) = opened.map_err(|_| Missing::Unreadable)?;
        let elf = Elf::read(&mut image).ok_or(Missing::Damaged)?;
        let is_proven = !recorded.build_id.is_empty() && !elf.build_id.is_empty();
        if is_proven && !same_build(recorded.build_id, &elf.build_id) {
            return Err(Missing::OtherBuild);
        }
        if (gone.is_some() || recorded.must_prove) && !is_proven {
            return Err(Missing::Unreadable);
        }
        let changed = identity.and_then(|identity| identity.changed);
        if !is_proven && changed.zip(recorded.until).is_some_and(|(changed, until)| changed > until)
        {
            return Err(Missing::WrittenSince);
        }
        Ok(Self { wanted, image, identity, elf, is_proven })
    }

    /// The recorded file from a server.
    fn fetched(path: &str, recorded: RecordedFile<'_>, resources: &Resources) -> Option<Self> {
        let build_id = without_padding(recorded.build_id);
        let fetched = resources.debuginfod.find(Kind::Executable, build_id)?;
        let wanted = Wanted::Mapped(path.into()).debug(fetched);
        let (mut image, identity) = open_image(&*resources.files, &wanted).ok()?;
        let elf = Elf::read(&mut image).filter(|elf| elf.build_id == build_id)?;
        Some(Self { wanted, image, identity, elf, is_proven: true })
    }
}

/// Opens a file or, for `[vdso]`, the image that the kernel maps into every process.
fn open_image(
    files: &dyn Files,
    wanted: &Wanted,
) -> io::Result<(Box<dyn Image>, Option<Identity>)> {
    if wanted.path() == Path::new(vdso::NAME) {
        return Ok((Box::new(io::Cursor::new(vdso::image()?)), None));
    }
    let (file, identity) = files::open(files, wanted)?;
    Ok((Box::new(file), Some(identity)))
}

/// perf pads recorded build ids with zeros to 20 bytes.
pub(crate) fn same_build(recorded: &[u8], actual: &[u8]) -> bool {
    recorded.strip_prefix(actual).is_some_and(|padding| padding.iter().all(|&byte| byte == 0))
}

/// A recorded build id without those zeros: ids of 20 bytes are the usual ones, those of 16 bytes
/// come next.
fn without_padding(recorded: &[u8]) -> &[u8] {
    const MD5_LEN: usize = 16;
    match recorded.split_at_checked(MD5_LEN) {
        Some((id, [0, 0, 0, 0])) => id,
        _ => recorded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::LocalFiles;

    #[test]
    fn padded_build_ids_are_equal() {
        assert!(same_build(&[1, 2, 3], &[1, 2, 3]));
        assert!(same_build(&[1, 2, 3, 0, 0], &[1, 2, 3]));
        assert!(!same_build(&[1, 2, 3, 0, 4], &[1, 2, 3]));
        assert!(!same_build(&[1, 2], &[1, 2, 3]));
        let padded = [[7; 16].as_slice(), &[0; 4]].concat();
        assert_eq!(without_padding(&padded), [7; 16]);
        assert_eq!(without_padding(&[7; 20]), [7; 20]);
    }

    #[test]
    fn a_fifo_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let files = LocalFiles { kallsyms: PathBuf::new(), perf_map_dir: PathBuf::new() };
        let resources = Resources::new(Arc::new(files), Vec::new(), Debuginfod::default(), true, 0);
        assert_eq!(
            Module::open(path.to_str().unwrap(), RecordedFile::default(), &resources).err(),
            Some(Missing::Unreadable)
        );
    }
}
