//! [`Symbolizer`]: names the frames of traces, and keeps what it read for the next one.

use crate::debuginfod::Debuginfod;
use crate::fetch::Fetching;
use crate::files::{Files, LocalFiles};
use crate::function::Functions;
use crate::kernel::Kernel;
use crate::module::{Missing, Module, RecordedFile, Resources};
use crate::naming::{listed, set_functions, set_names};
use crate::pdb::store::SymbolPath;
use crate::perf_map::{self, PerfMap};
use crate::{images, jobs, origin, vdso};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use unhitch_model::{self as model, FrameId, ModuleId, ModuleKind, System, Trace};

/// Maximum number of saves for which files and maps are kept without being used.
const MAX_UNUSED_SAVES: u64 = 8;
/// Folders where only root can put files. Their files are read before all others.
const SYSTEM_FOLDERS: [&str; 5] = ["/usr", "/lib", "/bin", "/sbin", "/opt"];

/// Where to look for names. The default is this machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders of separate debug files.
    pub debug_dirs: Vec<PathBuf>,
    /// The kernel's symbol list.
    pub kallsyms: PathBuf,
    /// The folder of JIT maps, `perf-PID.map`.
    pub perf_map_dir: PathBuf,
    /// Where to look for the PDBs of Windows images; nowhere by default.
    pub pdbs: SymbolPath,
    /// How to fetch PDBs from the servers in that path.
    pub fetching: Fetching,
    /// Servers of programs and debug files that are not on this machine; none by default.
    pub debuginfod: Debuginfod,
    /// Whether to look up inlined functions and source lines where a file has DWARF.
    pub lines: bool,
    /// Maximum CPU time for naming one trace. With a limit, files that do not answer are given up
    /// as well.
    pub effort: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            kallsyms: origin::KALLSYMS.into(),
            perf_map_dir: origin::PERF_MAP_DIR.into(),
            pdbs: SymbolPath::default(),
            fetching: Fetching::default(),
            debuginfod: Debuginfod::default(),
            lines: true,
            effort: None,
        }
    }
}

/// Names the frames of traces, and keeps what it read for the next one.
pub struct Symbolizer {
    options: Options,
    files: Arc<dyn Files>,
    kernel: Kernel,
    modules: FxHashMap<FileKey, Kept<Module>>,
    perf_maps: FxHashMap<u32, Kept<PerfMap>>,
    saves: u64,
    left_work_behind: bool,
}

/// Path and recorded build id.
type FileKey = (String, Vec<u8>);

struct Kept<T> {
    last_used: u64,
    value: T,
}

/// Frames that have no names yet, and their offsets.
#[derive(Default)]
struct Frames {
    ids: Vec<FrameId>,
    offsets: Vec<u64>,
}

/// The frames of one mapped file.
#[derive(Default)]
struct Job {
    id: ModuleId,
    key: FileKey,
    frames: Frames,
    module: Option<Module>,
    names: Vec<Functions>,
    /// The build id of the file that was read; empty if it has none.
    named_from: Vec<u8>,
    missing: Option<Missing>,
}

impl Symbolizer {
    /// A symbolizer that opens files itself. Reads nothing yet.
    pub fn new(options: Options) -> Self {
        let files = LocalFiles {
            kallsyms: options.kallsyms.clone(),
            perf_map_dir: options.perf_map_dir.clone(),
        };
        Self::with_files(options, Arc::new(files))
    }

    /// A symbolizer that gets its files from `files`. Reads nothing yet.
    pub fn with_files(options: Options, files: Arc<dyn Files>) -> Self {
        let (modules, perf_maps) = (FxHashMap::default(), FxHashMap::default());
        Self {
            options,
            files,
            kernel: Kernel::default(),
            modules,
            perf_maps,
            saves: 0,
            left_work_behind: false,
        }
    }

    /// True if abandoned threads may still be reading files that did not answer.
    pub fn left_work_behind(&self) -> bool {
        self.left_work_behind
    }

    /// Reads the kernel's symbols, the largest table of all, so that [`Symbolizer::resolve`] need
    /// not.
    pub fn prepare(&mut self) {
        // Naming reports it if this fails.
        let _ = self.kernel.name(&*self.files, &self.options.kallsyms, &[]);
    }

    /// Names every frame of `trace` that has no name yet, in `trace.symbols`. Adds to
    /// `trace.warnings` which frames get no name, and why.
    ///
    /// Frames whose module is gone, damaged or of another build get no name, which is better than a
    /// wrong one.
    pub fn resolve(&mut self, trace: &mut Trace) {
        if trace.meta.system == System::Windows {
            images::name(trace, &self.options.pdbs, &self.options.fetching);
            return;
        }
        self.saves += 1;
        let by_module = nameless_frames(trace);
        let foreign = origin::foreign(&trace.meta);
        let (mut jobs, mut jit, mut kernel) = (Vec::new(), Vec::new(), Frames::default());
        for (id, mut frames) in by_module {
            let Some(module) = trace.modules.get(id) else { continue };
            match module.kind {
                ModuleKind::Kernel => {
                    kernel.ids.append(&mut frames.ids);
                    kernel.offsets.append(&mut frames.offsets);
                }
                ModuleKind::Anonymous { .. }
                    if foreign.is_some()
                        && self.options.perf_map_dir == Path::new(origin::PERF_MAP_DIR) => {}
                ModuleKind::Anonymous { pid } => jit.push((pid, frames)),
                ModuleKind::Image { .. }
                | ModuleKind::Jit { .. }
                | ModuleKind::Script
                | ModuleKind::Named
                | ModuleKind::Cut => {}
                ModuleKind::File if trace.name(module.path) == vdso::NAME && foreign.is_some() => {}
                ModuleKind::File => jobs.extend(self.job(trace, id, frames)),
            }
        }
        let foreign_kernel =
            foreign.filter(|_| self.options.kallsyms == Path::new(origin::KALLSYMS));
        let (files, kallsyms) = (Arc::clone(&self.files), self.options.kallsyms.clone());
        let mut symbols = std::mem::take(&mut self.kernel);
        let mut kernel_names = Ok(Vec::new());
        let missing = self.name_files(trace, jobs, false, || {
            kernel_names = match foreign_kernel {
                _ if kernel.ids.is_empty() => Ok(Vec::new()),
                Some(why) => Err(format!("kernel functions have no names: {why}")),
                None => symbols
                    .name(&*files, &kallsyms, &kernel.offsets)
                    .map_err(|unnamed| unnamed.warning()),
            };
        });
        self.kernel = symbols;
        match kernel_names {
            Ok(names) => set_names(trace, kernel.ids.into_iter().zip(names)),
            Err(warning) => trace.warnings.add(warning),
        }
        for (why, mut files) in missing {
            let modules = files.len();
            files.sort_unstable();
            files.dedup();
            trace.warnings.add(why.warning(modules, &listed(&files)));
        }
        self.name_jit(trace, jit);
        self.drop_unused();
    }

    /// Names frames in files whose build id is known, from the same builds here or on a server.
    /// Names nothing else, so the trace may be from any machine. The recording has warned about
    /// frames that it could not name, so this does not.
    pub fn resolve_by_build_id(&mut self, trace: &mut Trace) {
        self.saves += 1;
        let mut jobs = Vec::new();
        for (id, frames) in nameless_frames(trace) {
            let is_file = |module: &model::Module| module.kind == ModuleKind::File;
            if trace.modules.get(id).is_some_and(is_file) && !trace.modules.build_id(id).is_empty()
            {
                jobs.extend(self.job(trace, id, frames));
            }
        }
        self.name_files(trace, jobs, true, || {});
        self.drop_unused();
    }

    /// The job to name `frames` of module `id`; `None` if it has no file.
    fn job(&mut self, trace: &Trace, id: ModuleId, frames: Frames) -> Option<Job> {
        let path = trace.name(trace.modules.get(id)?.path).to_owned();
        let key = (path, trace.modules.build_id(id).to_vec());
        let has_file =
            key.0.starts_with('/') && !key.0.starts_with("/memfd:") || key.0 == vdso::NAME;
        has_file.then(|| {
            let module = self.modules.remove(&key).map(|kept| kept.value);
            Job { id, key, frames, module, ..Job::default() }
        })
    }

    /// Names the frames of mapped files, and does `meanwhile` on this thread. If files `must_prove`
    /// that they are the recorded ones, only those with the same build id are used. Returns the
    /// files whose frames have no names, by the reason.
    fn name_files(
        &mut self,
        trace: &mut Trace,
        mut jobs: Vec<Job>,
        must_prove: bool,
        meanwhile: impl FnOnce(),
    ) -> BTreeMap<Missing, Vec<String>> {
        jobs.sort_by_key(|job| {
            !SYSTEM_FOLDERS.iter().any(|folder| Path::new(&job.key.0).starts_with(folder))
        });
        let pending: FxHashSet<FileKey> = jobs.iter().map(|job| job.key.clone()).collect();
        let kept_bytes = self.modules.values().map(|kept| kept.value.memory()).sum();
        let resources = Resources::new(
            Arc::clone(&self.files),
            self.options.debug_dirs.clone(),
            self.options.debuginfod.clone(),
            self.options.lines,
            kept_bytes,
        );
        let until = origin::recorded_until(trace);
        let run = move |job: &mut Job| job.run(until, must_prove, &resources);
        let done = jobs::run(jobs, run, self.options.effort, meanwhile);
        for why in self.options.debuginfod.take_failures() {
            trace.warnings.add(format!("names may be missing: debuginfod server {why}"));
        }
        self.finish(trace, done, pending)
    }

    /// Drops what recent traces did not need.
    fn drop_unused(&mut self) {
        self.modules
            .values_mut()
            .filter(|kept| kept.last_used < self.saves)
            .for_each(|kept| kept.value.close_dwarf());
        self.modules.retain(|_, kept| kept.last_used + MAX_UNUSED_SAVES > self.saves);
        self.perf_maps.retain(|_, kept| kept.last_used + MAX_UNUSED_SAVES > self.saves);
    }

    /// Names JIT code from the maps of its processes.
    fn name_jit(&mut self, trace: &mut Trace, processes: Vec<(u32, Frames)>) {
        let pending: FxHashSet<u32> = processes.iter().map(|(pid, _)| *pid).collect();
        let known = processes
            .into_iter()
            .map(|(pid, frames)| (pid, frames, self.perf_maps.remove(&pid).map(|kept| kept.value)))
            .collect();
        let files = Arc::clone(&self.files);
        let read = move |job: &mut (u32, Frames, Option<PerfMap>)| {
            job.2 = PerfMap::read(&*files, job.0, &job.1.offsets, job.2.take());
        };
        let done = jobs::run(known, read, self.options.effort, || {});
        let mut late = pending;
        let mut cut = Vec::new();
        for (pid, frames, map) in done {
            late.remove(&pid);
            let Some(map) = map else { continue };
            for (&frame, &avma) in frames.ids.iter().zip(&frames.offsets) {
                if let Some(function) = map.function_at(avma) {
                    set_functions(trace, frame, &[function]);
                }
            }
            if map.is_cut() {
                cut.push(pid);
            }
            self.perf_maps.insert(pid, Kept { last_used: self.saves, value: map });
        }
        for pid in cut {
            trace.warnings.add(format!(
                "JIT code of process {pid} may lack names or have old ones: only the first {} MiB \
                 of its perf map were read",
                perf_map::MAX_MAP_BYTES >> 20
            ));
        }
        self.left_work_behind |= !late.is_empty();
        for pid in late {
            trace.warnings.add(format!(
                "JIT code of process {pid} has no names: reading its perf map took too long"
            ));
        }
    }

    /// Puts the names into the trace. Returns the files whose frames have none, by the reason.
    fn finish(
        &mut self,
        trace: &mut Trace,
        done: Vec<Job>,
        mut pending: FxHashSet<FileKey>,
    ) -> BTreeMap<Missing, Vec<String>> {
        let mut missing: BTreeMap<Missing, Vec<String>> = BTreeMap::new();
        let mut miss = |why, path: &str| {
            missing
                .entry(why)
                .or_default()
                .push(path.rsplit('/').next().unwrap_or_default().to_owned())
        };
        for job in done {
            pending.remove(&job.key);
            for (&frame, functions) in job.frames.ids.iter().zip(&job.names) {
                set_functions(trace, frame, functions);
            }
            if job.key.1.is_empty() && !job.named_from.is_empty() {
                trace.modules.set_named_from(job.id, job.named_from);
            }
            if let Some(why) = job.missing {
                miss(why, &job.key.0);
            }
            if let Some(module) = job.module {
                self.modules.insert(job.key, Kept { last_used: self.saves, value: module });
            }
        }
        self.left_work_behind |= !pending.is_empty();
        pending.iter().for_each(|(path, _)| miss(Missing::Late, path));
        missing
    }
}

/// The frames that have no names yet, by module.
fn nameless_frames(trace: &Trace) -> BTreeMap<ModuleId, Frames> {
    let mut by_module: BTreeMap<ModuleId, Frames> = BTreeMap::new();
    for (index, frame) in trace.stacks.frames().iter().enumerate() {
        let id = FrameId(index as u32);
        if trace.symbols.get(id).is_empty() {
            let frames = by_module.entry(frame.module).or_default();
            frames.ids.push(id);
            frames.offsets.push(frame.offset);
        }
    }
    by_module
}

impl Job {
    fn run(&mut self, until: Option<SystemTime>, must_prove: bool, resources: &Resources) {
        let known = self.module.take().filter(|module| module.is_current(&*resources.files));
        let recorded = RecordedFile { build_id: &self.key.1, until, must_prove };
        match known.map_or_else(|| Module::open(&self.key.0, recorded, resources), Ok) {
            Ok(mut module) => {
                (self.names, self.missing) = module.name(&self.frames.offsets, resources);
                self.named_from = module.build_id().to_vec();
                self.module = module.keep(resources);
            }
            Err(why) => self.missing = Some(why),
        }
    }
}
