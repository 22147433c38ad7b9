//! Names the frames of a [`Trace`]: functions, source lines and inlined functions.
//!
//! What an offset counts from is said by [`ModuleKind`]; each kind has its source: `/proc/kallsyms` for the kernel, ELF and DWARF for
//! files, PDBs for Windows images, the runtime's perf map for JIT code. [`code`] and [`disassemble`] give the instructions behind the names. *Why on the
//! recording machine, at every save*: only there the files are the ones that ran.
//! So everything read is kept for the next save by a [`Symbolizer`].

mod code;
mod debug_file;
mod demangle;
mod disassembly;
mod elf;
mod file;
#[doc(hidden)]
pub mod fuzzing;
mod images;
mod kernel;
mod kernel_image;
mod lines;
mod module;
mod origin;
mod pdb;
mod perf_map;
mod plt;
mod unwind_table;
mod vdso;

pub use code::{Code, CodeOptions, Isa, NoCode, code};
pub use disassembly::{Instruction, disassemble};
pub use pdb::server::Fetching;
pub use pdb::store::SymbolPath;

use kernel::Kernel;
use module::{Function, Functions, Missing, Module, Recorded};
use perf_map::PerfMap;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use unhitch_model::{Format, FrameId, ModuleKind, Symbol, Trace};

/// Files and maps that this many saves in a row did not mention are forgotten.
const KEPT_SAVES: u64 = 8;
/// How much DWARF stays open between two saves, in all files together.
const MAX_KEPT_DWARF_BYTES: u64 = 512 << 20;
/// A warning lists this many modules by name.
const LISTED_MODULES: usize = 5;

/// Where names are looked for. The default is this machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders of separate debug files.
    pub debug_dirs: Vec<PathBuf>,
    /// The kernel's symbol list.
    pub kallsyms: PathBuf,
    /// The folder of JIT maps, `perf-PID.map`.
    pub perf_map_dir: PathBuf,
    /// Where the PDBs of Windows images are looked for; nowhere by default.
    pub pdbs: SymbolPath,
    /// How PDBs are fetched from the servers among these.
    pub fetching: Fetching,
    /// Whether to look up inlined functions and source lines where a file has DWARF.
    pub lines: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            kallsyms: origin::KALLSYMS.into(),
            perf_map_dir: origin::PERF_MAP_DIR.into(),
            pdbs: SymbolPath::default(),
            fetching: Fetching::default(),
            lines: true,
        }
    }
}

/// Names frames, and keeps what it read for the next trace.
pub struct Symbolizer {
    options: Options,
    kernel: Kernel,
    modules: FxHashMap<FileKey, Kept<Module>>,
    perf_maps: FxHashMap<u32, Kept<PerfMap>>,
    saves: u64,
}

/// Path and recorded build id.
type FileKey = (String, Vec<u8>);

struct Kept<T> {
    last_used: u64,
    value: T,
}

/// The frames of one mapped file that have no names yet.
struct Job {
    key: FileKey,
    frames: Vec<FrameId>,
    offsets: Vec<u64>,
    module: Option<Module>,
    names: Vec<Functions>,
    missing: Option<Missing>,
}

impl Symbolizer {
    /// Reads nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, kernel: Kernel::default(), modules: FxHashMap::default(), perf_maps: FxHashMap::default(), saves: 0 }
    }

    /// Reads the kernel's symbols, the largest table of all, so that a later [`Symbolizer::resolve`] need not.
    pub fn prepare(&mut self) {
        // What cannot be read now is told when names are wanted.
        let _ = self.kernel.name(&self.options.kallsyms, &[]);
    }

    /// Names every frame of `trace` that has no name yet, in `trace.symbols`; says in `trace.warnings` what has none and why.
    ///
    /// Frames whose module is gone, damaged or of another build stay without a name: no name is better than a wrong one.
    pub fn resolve(&mut self, trace: &mut Trace) {
        if trace.meta.format == Format::Etl {
            images::name(trace, &self.options.pdbs, &self.options.fetching);
            return;
        }
        self.saves += 1;
        let mut by_module: BTreeMap<_, (Vec<FrameId>, Vec<u64>)> = BTreeMap::new();
        for (index, frame) in trace.stacks.frames().iter().enumerate() {
            let id = FrameId(index as u32);
            if trace.symbols.get(id).is_empty() {
                let (frames, offsets) = by_module.entry(frame.module).or_default();
                frames.push(id);
                offsets.push(frame.offset);
            }
        }
        let foreign = origin::foreign(&trace.meta);
        let mut jobs = Vec::new();
        let mut kernel = (Vec::new(), Vec::new());
        for (id, (frames, offsets)) in by_module {
            let Some(module) = trace.modules.get(id) else { continue };
            match module.kind {
                ModuleKind::Kernel => {
                    kernel.0.extend(frames);
                    kernel.1.extend(offsets);
                }
                ModuleKind::Anonymous { .. } if foreign.is_some() && self.options.perf_map_dir == Path::new(origin::PERF_MAP_DIR) => {}
                ModuleKind::Anonymous { pid } => self.name_jit(trace, pid, &frames, &offsets),
                ModuleKind::Image { .. } | ModuleKind::Jit { .. } | ModuleKind::Cut => {}
                ModuleKind::File => {
                    let key = (trace.name(module.path).to_owned(), module.build_id.clone());
                    let is_here = key.0.starts_with('/') && !key.0.starts_with("/memfd:") || key.0 == vdso::NAME && foreign.is_none();
                    if is_here {
                        let module = self.modules.remove(&key).map(|kept| kept.value);
                        jobs.push(Job { key, frames, offsets, module, names: Vec::new(), missing: None });
                    }
                }
            }
        }
        let foreign_kernel = foreign.filter(|_| self.options.kallsyms == Path::new(origin::KALLSYMS));
        let (kernel_frames, kernel_avmas) = kernel;
        let name_kernel = || match foreign_kernel {
            _ if kernel_avmas.is_empty() => Ok(Vec::new()),
            Some(why) => Err(format!("kernel functions have no names: {why}")),
            None => self.kernel.name(&self.options.kallsyms, &kernel_avmas).map_err(|unnamed| unnamed.warning()),
        };
        let until = origin::recorded_until(trace);
        let (kernel_names, ()) = rayon::join(name_kernel, || jobs.par_iter_mut().for_each(|job| job.run(until, &self.options)));
        match kernel_names {
            Ok(names) => set_names(trace, kernel_frames.into_iter().zip(names)),
            Err(warning) => trace.warnings.add(warning),
        }
        self.finish(trace, jobs);
        self.modules.values_mut().filter(|kept| kept.last_used < self.saves).for_each(|kept| kept.value.close_dwarf());
        self.modules.retain(|_, kept| kept.last_used + KEPT_SAVES > self.saves);
        self.perf_maps.retain(|_, kept| kept.last_used + KEPT_SAVES > self.saves);
    }

    fn name_jit(&mut self, trace: &mut Trace, pid: u32, frames: &[FrameId], avmas: &[u64]) {
        let known = self.perf_maps.remove(&pid).map(|kept| kept.value).filter(PerfMap::is_current);
        let Some(map) = known.or_else(|| PerfMap::open(pid, &self.options.perf_map_dir)) else { return };
        set_names(trace, frames.iter().copied().zip(avmas.iter().map(|&avma| map.function_at(avma))));
        self.perf_maps.insert(pid, Kept { last_used: self.saves, value: map });
    }

    fn finish(&mut self, trace: &mut Trace, jobs: Vec<Job>) {
        let mut missing: BTreeMap<Missing, Vec<String>> = BTreeMap::new();
        let mut kept_dwarf_bytes = 0_u64;
        for job in jobs {
            for (&frame, functions) in job.frames.iter().zip(&job.names) {
                set_functions(trace, frame, functions);
            }
            if let Some(why) = job.missing {
                let file = job.key.0.rsplit('/').next().unwrap_or_default();
                missing.entry(why).or_default().push(file.to_owned());
            }
            if let Some(mut module) = job.module {
                kept_dwarf_bytes = kept_dwarf_bytes.saturating_add(module.open_dwarf_bytes());
                if kept_dwarf_bytes > MAX_KEPT_DWARF_BYTES {
                    module.close_dwarf();
                }
                self.modules.insert(job.key, Kept { last_used: self.saves, value: module });
            }
        }
        for (why, mut files) in missing {
            files.sort_unstable();
            let more = if files.len() > LISTED_MODULES { ", …" } else { "" };
            let listed = files.iter().take(LISTED_MODULES).map(String::as_str).collect::<Vec<_>>().join(", ");
            trace.warnings.add(why.warning(files.len(), &format!("{listed}{more}")));
        }
    }
}

impl Job {
    fn run(&mut self, until: Option<SystemTime>, options: &Options) {
        let known = self.module.take().filter(Module::is_current);
        let recorded = Recorded { build_id: &self.key.1, until };
        match known.map_or_else(|| Module::open(&self.key.0, recorded, &options.debug_dirs), Ok) {
            Ok(mut module) => {
                (self.names, self.missing) = module.name(&self.offsets, options.lines, &options.debug_dirs);
                self.module = Some(module);
            }
            Err(why) => self.missing = Some(why),
        }
    }
}

fn set_names(trace: &mut Trace, names: impl Iterator<Item = (FrameId, Option<String>)>) {
    for (frame, name) in names {
        if let Some(name) = name {
            set_functions(trace, frame, &[Function { name, file: String::new(), line: 0 }]);
        }
    }
}

fn set_functions(trace: &mut Trace, frame: FrameId, functions: &[Function]) {
    let strings = &mut trace.strings;
    let symbols: Vec<Symbol> = functions
        .iter()
        .map(|Function { name, file, line }| Symbol { function: strings.intern(name), file: strings.intern(file), line: *line })
        .collect();
    if !symbols.is_empty() {
        trace.symbols.set(frame, &symbols);
    }
}
