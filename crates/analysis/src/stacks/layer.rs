//! Whose code a frame is: the program's own, its runtime's, the system libraries' or the kernel's.
//!
//! *Why:* the author of a program knows its functions, not those of the interpreter or of the C
//! library in which a thread was seen. The lists are data: `waits/code.toml`.

use super::name_patterns::NamePatterns;
use serde::Deserialize;
use unhitch_model::{FrameId, Module, ModuleKind, Symbol, Trace};

/// Whose code a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layer {
    /// The program's: its main binary, its libraries, code compiled for it, its scripts.
    Program,
    /// An interpreter's, a virtual machine's, a toolkit's.
    Runtime,
    /// The C library's, the loader's.
    System,
    /// The kernel's.
    Kernel,
    /// Nobody's: an address without a module, or where a stack was cut.
    Unknown,
}

impl Layer {
    /// True for code below every program.
    pub(crate) const fn is_below_programs(self) -> bool {
        matches!(self, Self::System | Self::Unknown)
    }
}

/// The lists as they are written.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayerLists {
    #[serde(default)]
    system_modules: Vec<String>,
    #[serde(default)]
    runtime_modules: Vec<String>,
    #[serde(default)]
    runtime_functions: Vec<String>,
    #[serde(default)]
    runtime_methods: Vec<String>,
    #[serde(default)]
    runtime_sources: Vec<String>,
    #[serde(default)]
    program_sources: Vec<String>,
}

/// The lists, ready to be compared with names.
#[derive(Clone, Default)]
pub(super) struct LayerRules {
    system_modules: NamePatterns,
    runtime_modules: NamePatterns,
    runtime_functions: NamePatterns,
    /// In code that a runtime compiled.
    runtime_methods: NamePatterns,
    runtime_sources: NamePatterns,
    program_sources: NamePatterns,
}

impl LayerRules {
    /// Adds a file's lists.
    pub(super) fn extend(&mut self, lists: &LayerLists) {
        self.system_modules.add_all(&lists.system_modules);
        self.runtime_modules.add_all(&lists.runtime_modules);
        self.runtime_functions.add_all(&lists.runtime_functions);
        self.runtime_methods.add_all(&lists.runtime_methods);
        self.runtime_sources.add_all(&lists.runtime_sources);
        self.program_sources.add_all(&lists.program_sources);
    }

    /// Whose code each module of the trace holds, by module id. Code in anonymous memory belongs to
    /// the program if it has a name: a runtime compiled it.
    pub(super) fn of_modules(&self, trace: &Trace) -> Vec<Layer> {
        trace.modules.iter().map(|(_, module)| self.of_module(trace, module)).collect()
    }

    fn of_module(&self, trace: &Trace, module: &Module) -> Layer {
        let path = trace.name(module.path);
        let path = Module::path_before(path).unwrap_or(path);
        let file = module.kind.file_name(path);
        let is_in = |list: &NamePatterns| list.has(file) || (path.contains('/') && list.has(path));
        match module.kind {
            kind if kind.is_kernel() => Layer::Kernel,
            ModuleKind::Cut => Layer::Unknown,
            _ if is_in(&self.system_modules) => Layer::System,
            _ if is_in(&self.runtime_modules) => Layer::Runtime,
            _ => Layer::Program,
        }
    }

    /// Whose code a frame is, given that of its module.
    pub(super) fn of_frame(&self, trace: &Trace, frame: FrameId, modules: &[Layer]) -> Layer {
        let Some(code) = trace.stacks.frame(frame) else { return Layer::Unknown };
        let layer = modules.get(code.module.index()).copied().unwrap_or(Layer::Unknown);
        if layer != Layer::Program {
            return layer;
        }
        let kind = trace.modules.get(code.module).map(|module| module.kind);
        match trace.symbols.get(frame).last() {
            Some(symbol) if self.is_runtimes(trace, symbol, kind) => Layer::Runtime,
            None if matches!(kind, Some(ModuleKind::Anonymous { .. })) => Layer::Unknown,
            _ => layer,
        }
    }

    fn is_runtimes(&self, trace: &Trace, symbol: &Symbol, kind: Option<ModuleKind>) -> bool {
        let (function, source) = (trace.name(symbol.function), trace.name(symbol.file));
        // Each kind of code has names of its own: what is a package of Go may be one of Java's users.
        let is_listed = match kind {
            Some(ModuleKind::File | ModuleKind::Image { .. } | ModuleKind::Named) => {
                self.runtime_functions.has(function)
            }
            Some(ModuleKind::Anonymous { .. } | ModuleKind::Jit { .. }) => {
                self.runtime_methods.has(function)
            }
            _ => false,
        };
        is_listed || (self.runtime_sources.has(source) && !self.program_sources.has(source))
    }
}
