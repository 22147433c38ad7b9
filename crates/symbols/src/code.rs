//! Reads the machine code of a function from its file, the vdso, the running kernel's memory or a
//! kernel image.
//!
//! Formats: ELF; `/proc/kcore` is an ELF core file of the kernel's memory (`fs/proc/kcore.c`,
//! `proc_kcore(5)`), with `PT_LOAD` segments by avma. *Why so many refusals*: next to the samples,
//! the instructions of another build look as plausible as the right ones.

use crate::debuginfod::Debuginfod;
use crate::files::LocalFiles;
use crate::kernel_image::KernelImage;
use crate::machine_code::{Code, Isa, NoCode, bounds, read_at};
use crate::module::{Missing, Module, RecordedFile, Resources};
use crate::{kernel, origin, vdso};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use unhitch_model::{ModuleId, ModuleKind, Trace};

/// Maximum number of bytes that are read of the headers of `/proc/kcore`, which lie at its start.
/// Real ones have a few kilobytes.
const MAX_CORE_HEADER_BYTES: u64 = 1 << 20;

/// Where to look for code. The default is this machine.
#[derive(Clone, Debug)]
pub struct CodeOptions {
    /// Folders of separate debug files, which say where functions end.
    pub debug_dirs: Vec<PathBuf>,
    /// The kernel's symbol list.
    pub kallsyms: PathBuf,
    /// The kernel's memory.
    pub kcore: PathBuf,
    /// The same, opened while the process still had the right to.
    pub opened_kcore: Option<Arc<Mutex<File>>>,
    /// A `vmlinux` to read kernel code from instead.
    pub kernel_image: Option<PathBuf>,
}

impl Default for CodeOptions {
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            kallsyms: origin::KALLSYMS.into(),
            kcore: "/proc/kcore".into(),
            opened_kcore: None,
            kernel_image: None,
        }
    }
}

/// The code of the function that has the module offsets `near`, or the code around them if no
/// function is known.
///
/// # Errors
/// If the code is not on this machine, cannot be read, or may not be what was recorded.
pub fn code(
    trace: &Trace,
    module: ModuleId,
    near: Range<u64>,
    options: &CodeOptions,
) -> Result<Code, NoCode> {
    let found = trace.modules.get(module).ok_or(NoCode::NoModule)?;
    match (found.kind, &options.kernel_image) {
        (ModuleKind::File, _) => {
            let build_id = trace.modules.build_id(module);
            file_code(trace, trace.name(found.path), build_id, near, options)
        }
        (ModuleKind::Anonymous { .. } | ModuleKind::Jit { .. }, _) => Err(NoCode::Anonymous),
        (ModuleKind::Image { .. }, _) => Err(NoCode::Image),
        (ModuleKind::Cut | ModuleKind::Script | ModuleKind::Named, _) => Err(NoCode::NoModule),
        (ModuleKind::Kernel, Some(path)) => KernelImage::open(path, trace, module)?.code(near),
        (ModuleKind::Kernel, None) => running_kernel_code(trace, near, options),
    }
}

fn file_code(
    trace: &Trace,
    path: &str,
    build_id: &[u8],
    near: Range<u64>,
    options: &CodeOptions,
) -> Result<Code, NoCode> {
    let other_build = |how| NoCode::OtherBuild { path: path.to_owned(), how };
    if path == vdso::NAME && origin::foreign(&trace.meta).is_some() {
        return Err(NoCode::Unreadable(path.to_owned()));
    }
    let until = origin::recorded_until(trace);
    let recorded = RecordedFile { build_id, until, must_prove: false };
    let files = LocalFiles {
        kallsyms: options.kallsyms.clone(),
        perf_map_dir: origin::PERF_MAP_DIR.into(),
    };
    let debug_dirs = options.debug_dirs.clone();
    let resources = Resources::new(Arc::new(files), debug_dirs, Debuginfod::default(), false, 0);
    let module = Module::open(path, recorded, &resources).map_err(|missing| match missing {
        Missing::Unreadable => NoCode::Unreadable(path.to_owned()),
        Missing::OtherBuild => other_build("the build ids differ"),
        Missing::WrittenSince => other_build("it was written or replaced after the recording"),
        _ => NoCode::Damaged(path.to_owned()),
    })?;
    let (bounds, is_function) = bounds(module.extent_at(near.start, &resources), &near);
    let (elf, mut image) =
        module.code(&resources).map_err(|_| NoCode::Unreadable(path.to_owned()))?;
    let bytes = read_at(&mut image, bounds.start, bounds.end - bounds.start)
        .map_err(|_| NoCode::Damaged(path.to_owned()))?;
    if (bytes.len() as u64) < near.start - bounds.start {
        return Err(NoCode::Damaged(path.to_owned()));
    }
    Ok(Code {
        start: bounds.start,
        bytes,
        start_address: elf
            .svma(near.start)
            .unwrap_or(near.start)
            .wrapping_sub(near.start - bounds.start),
        is_function,
        isa: Isa::of_machine(elf.machine),
        source: path.into(),
        doubt: (!module.is_proven && path != vdso::NAME).then_some(
            "the recording has no build id to compare; the file is older than the recording",
        ),
    })
}

fn running_kernel_code(
    trace: &Trace,
    near: Range<u64>,
    options: &CodeOptions,
) -> Result<Code, NoCode> {
    if let Some(why) = origin::foreign(&trace.meta) {
        return Err(NoCode::OtherKernel(why));
    }
    let no_kcore = |kind| NoCode::NoKcore { path: options.kcore.clone(), kind };
    let (bounds, is_function) = bounds(kernel::extent_at(&options.kallsyms, near.start), &near);
    let read = match &options.opened_kcore {
        Some(core) => read_core(
            &mut *core.lock().unwrap_or_else(PoisonError::into_inner),
            &bounds,
            near.start,
        ),
        None => {
            open_core(&options.kcore).and_then(|mut core| read_core(&mut core, &bounds, near.start))
        }
    };
    let (start, bytes, isa) = read.map_err(|error| no_kcore(error.kind()))?;
    let is_function = is_function && start == bounds.start;
    Ok(Code {
        start,
        bytes,
        start_address: start,
        is_function,
        isa,
        source: options.kcore.clone(),
        doubt: None,
    })
}

fn open_core(path: &Path) -> io::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Reads the part of `avmas` that lies in the same segment as `near_avma`.
fn read_core(
    core: &mut (impl Read + Seek),
    avmas: &Range<u64>,
    near_avma: u64,
) -> io::Result<(u64, Vec<u8>, Isa)> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let headers = read_at(core, 0, MAX_CORE_HEADER_BYTES)?;
    let header =
        elf::FileHeader64::<object::Endianness>::parse(&*headers).map_err(|_| damaged())?;
    let endian = header.endian().map_err(|_| damaged())?;
    let programs = header.program_headers(endian, &*headers).map_err(|_| damaged())?;
    let segment = programs.iter().find_map(|program| {
        let start = program.p_vaddr(endian);
        let segment = start..start.checked_add(program.p_filesz(endian))?;
        (program.p_type(endian) == elf::PT_LOAD && segment.contains(&near_avma))
            .then(|| (segment, program.p_offset(endian)))
    });
    let (segment, file_offset) = segment.ok_or(io::ErrorKind::NotFound)?;
    let start = avmas.start.max(segment.start);
    let len = avmas.end.min(segment.end).saturating_sub(start);
    let bytes =
        read_at(core, file_offset.checked_add(start - segment.start).ok_or_else(damaged)?, len)?;
    Ok((start, bytes, Isa::of_machine(header.e_machine(endian).0)))
}
