//! Sources of names: ELF files with debug files, PDBs, lists of symbols, mangled names.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use unhitch_model::{Frame, Module, ModuleKind, Trace};
use unhitch_symbols::{Options, Symbolizer, fuzzing};

/// Addresses to look up in lists: those in the list itself, and the extremes.
fn addresses(bytes: &[u8]) -> Vec<u64> {
    let number = |line: &[u8]| {
        let digits = line.split(|byte| *byte == b' ').next()?;
        u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut all: Vec<u64> = bytes.split(|byte| *byte == b'\n').take(8).filter_map(number).collect();
    all.extend([0, 0x1008, u64::MAX]);
    all.extend(all.clone().iter().map(|avma| avma.wrapping_add(1)));
    all
}

pub(super) fn perf_map(bytes: &[u8]) {
    let mut avmas = addresses(bytes);
    avmas.sort_unstable();
    assert_eq!(fuzzing::perf_map(bytes, &avmas).len(), avmas.len());
}

pub(super) fn kallsyms(bytes: &[u8]) {
    let avmas = addresses(bytes);
    assert_eq!(fuzzing::kallsyms(bytes, &avmas).len(), avmas.len());
}

pub(super) fn demangle(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    let _ = fuzzing::demangle(&name, false);
    let _ = fuzzing::demangle(&name, true);
}

/// Addresses all over a small program, and the extremes.
const PLACES: [u64; 12] = [
    0,
    1,
    0x238,
    0x1000,
    0x1010,
    0x1020,
    0x1040,
    0x2000,
    0x40_1000,
    0x40_1010,
    u64::MAX - 1,
    u64::MAX,
];

pub(super) fn elf(bytes: &[u8]) {
    fuzzing::elf(bytes, &PLACES);
}

pub(super) fn mini_debug_info(bytes: &[u8]) {
    assert!(
        fuzzing::mini_debug_info(bytes, &PLACES).is_none_or(|names| names.len() == PLACES.len()),
        "a place that got no answer"
    );
}

pub(super) fn pdb(bytes: &[u8]) {
    let rvas: Vec<u32> = (0..24).map(|at| 0xff0 + at * 0x10).chain([0, u32::MAX]).collect();
    assert!(
        fuzzing::pdb(bytes, &rvas).is_none_or(|names| names.len() == rvas.len()),
        "a place that got no answer"
    );
}

/// A folder in memory, if there is one, because every run writes and reads files.
struct Folder {
    dir: tempfile::TempDir,
    program: PathBuf,
    debug_dirs: Vec<PathBuf>,
}

static FOLDER: LazyLock<Folder> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let dir = tempfile::tempdir_in(parent).expect("a folder for files that are read from disk");
    let program = dir.path().join("program");
    let debug_dirs = vec![dir.path().join("debug")];
    Folder { dir, program, debug_dirs }
});

/// Does what a save does: opens the file, finds its debug file, and names frames all over it.
pub(super) fn dwarf(bytes: &[u8]) {
    if !bytes.starts_with(b"\x7fELF") {
        return;
    }
    fs::write(&FOLDER.program, bytes).expect("a file in memory");
    let mut trace = Trace::default();
    let path = trace.strings.intern(FOLDER.program.to_str().unwrap_or_default());
    let module =
        trace.modules.intern(Module { path, kind: ModuleKind::File, build_id: Vec::new() });
    for offset in (0..bytes.len() as u64).step_by(bytes.len() / 16 + 1).chain(PLACES) {
        trace.stacks.intern_frame(Frame { module, offset });
    }
    let missing = || FOLDER.dir.path().join("missing");
    let options = Options {
        debug_dirs: FOLDER.debug_dirs.clone(),
        kallsyms: missing(),
        perf_map_dir: missing(),
        ..Options::default()
    };
    Symbolizer::new(options).resolve(&mut trace);
}

/// The first two bytes are the length of the stripped file. The rest is its debug file, which is
/// put where the debug link says.
pub(super) fn debug_files(bytes: &[u8]) {
    const MAX_NAME_LEN: usize = 32;
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (stripped, debug) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    let Some(name) =
        fuzzing::debug_link(stripped).filter(|name| (1..=MAX_NAME_LEN).contains(&name.len()))
    else {
        return;
    };
    let Ok(name) = std::str::from_utf8(&name) else { return };
    let Some(name) = Path::new(name)
        .file_name()
        .filter(|name| !name.is_empty() && *name != "program" && *name != "debug")
    else {
        return;
    };
    let at = FOLDER.dir.path().join(name);
    if fs::write(&at, debug).is_err() {
        return;
    }
    let found = fuzzing::debug_file(&FOLDER.program, stripped, &FOLDER.debug_dirs, true);
    assert!(
        found.is_none_or(|found| found.starts_with(FOLDER.dir.path())),
        "a debug file from elsewhere"
    );
    let _ = fs::remove_file(&at);
}
