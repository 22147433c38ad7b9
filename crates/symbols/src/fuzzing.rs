//! Entry points to readers of bytes in memory, for fuzz targets. Elsewhere these readers work on
//! files.

use crate::files::{LocalFiles, Wanted};
use crate::{
    Debuginfod, UnwindRules, debug_file, demangle, elf::Elf, jit_name, kernel, limited,
    mini_debug_info::MiniDebugInfo, pdb::Pdb, perf_map, plt, unwind_rules, unwind_table,
};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Reads a perf map. Returns the names at `avmas`, which are sorted.
pub fn perf_map(text: &[u8], avmas: &[u64]) -> Vec<Option<String>> {
    let names = perf_map::names_at(text, avmas).into_iter();
    names.map(|name| Some(jit_name::function(&name?).name)).collect()
}

/// Reads a list of kernel symbols. Returns the names at `avmas`.
pub fn kallsyms(text: &[u8], avmas: &[u64]) -> Vec<Option<String>> {
    kernel::names(text.to_vec(), avmas)
}

/// Reads an ELF file with its linkage stubs and unwind table. Returns the names at `svmas`; `None`
/// if it is not an ELF file.
pub fn elf(bytes: &[u8], svmas: &[u64]) -> Option<Vec<Option<String>>> {
    if let Some(rules) = unwind_rules::read(Cursor::new(bytes)) {
        assert!(UnwindRules::decode(&rules.encode()).is_some(), "the recorder would refuse them");
    }
    let elf = Elf::read(Cursor::new(bytes))?;
    let stubs = plt::stubs(Cursor::new(bytes));
    let mut image = Cursor::new(bytes);
    let name_at = |&svma: &u64| {
        let extents = [elf.extent_at(svma), unwind_table::extent_at(Cursor::new(bytes), svma)];
        assert!(
            extents.into_iter().flatten().all(|extent| extent.contains(&svma)),
            "an extent without its own address"
        );
        let back = elf.file_offset(svma).and_then(|offset| elf.svma(offset));
        elf.function_at(&mut image, svma)
            .or_else(|| stubs.get(&svma).cloned())
            .or(back.map(|svma| format!("{svma:#x}")))
    };
    let names = svmas.iter().map(name_at).collect();
    let _ = elf.functions_by_name(&mut Cursor::new(bytes));
    Some(names)
}

/// Unpacks the content of a `.gnu_debugdata` section. Returns the names at `svmas`.
pub fn mini_debug_info(packed: &[u8], svmas: &[u64]) -> Option<Vec<Option<String>>> {
    let mini = MiniDebugInfo::unpack(packed, &limited::alone()).ok()?;
    Some(svmas.iter().map(|&svma| mini.function_at(svma)).collect())
}

/// The name of the debug file in the debug link of the ELF file `bytes`.
pub fn debug_link(bytes: &[u8]) -> Option<Vec<u8>> {
    Elf::read(Cursor::new(bytes))?.debuglink.map(|(name, _)| name)
}

/// Finds the debug file of the stripped file at `path`, in its folder and in `debug_dirs`. With
/// `any_crc`, any checksum in a debug link counts as right, because no mutation would ever hit it.
pub fn debug_file(
    path: &Path,
    stripped: &[u8],
    debug_dirs: &[PathBuf],
    any_crc: bool,
) -> Option<PathBuf> {
    let mut elf = Elf::read(Cursor::new(stripped))?;
    if let Some((name, crc)) = elf.debuglink.as_mut().filter(|_| any_crc) {
        *crc =
            debug_file::crc_at(&path.parent()?.join(debug_file::file_name(name)?)).unwrap_or(*crc);
    }
    let files = LocalFiles { kallsyms: PathBuf::new(), perf_map_dir: PathBuf::new() };
    let none = Debuginfod::default();
    let found = debug_file::find(&files, &Wanted::Mapped(path.to_owned()), &elf, debug_dirs)?;
    let _ = debug_file::find_shared(&files, &found.wanted, &found.elf, debug_dirs, &none);
    Some(found.wanted.path().to_owned())
}

/// Reads a PDB. Returns the names at `rvas`.
pub fn pdb(bytes: &[u8], rvas: &[u32]) -> Option<Vec<Option<String>>> {
    Pdb::open(Cursor::new(bytes)).map(|mut pdb| pdb.names(rvas))
}

/// Makes a linker symbol readable, of Microsoft's compiler or of any other.
pub fn demangle(name: &str, microsoft: bool) -> String {
    if microsoft { demangle::demangle_msvc(name) } else { demangle::demangle(name) }
}
