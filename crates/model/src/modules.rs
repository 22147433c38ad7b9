//! Modules: where code was mapped from. The kernel, files, anonymous (JIT) memory.

use crate::{ModuleId, NameId};
use rustc_hash::FxHashMap;

/// Where a module's code comes from. It decides what a [`Frame`](crate::Frame)'s offset counts
/// from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModuleKind {
    /// The kernel and its modules: offsets are actual virtual addresses (avma).
    Kernel,
    /// A mapped file: offsets are file offsets.
    File,
    /// A Windows program or library, of the kernel or a process: offsets are RVAs. The build id is
    /// that of its debug information: the GUID as it lies in memory, then the age (u32,
    /// little-endian); empty if it was not recorded.
    Image {
        /// Path of the PDB as the linker wrote it; empty if it was not recorded.
        pdb: NameId,
        /// `TimeDateStamp` of the PE header. Symbol servers store images by it and the size.
        timestamp: u32,
        /// Size in memory, bytes.
        size_bytes: u32,
        /// True if it lies in the kernel's half of the addresses.
        kernel: bool,
    },
    /// Code that a runtime interpreted or compiled while the program ran, with its methods in the trace.
    /// .NET on Windows: offsets are avmas; the path is that of the method's own module. Java: offsets
    /// are a method's number above [`NO_AVMA`](Self::NO_AVMA), because all interpreted methods
    /// have the interpreter's addresses.
    Jit {
        /// The process whose address space it is.
        pid: u32,
        /// Number of other methods that were at the address before, as far as the trace has them.
        generation: u32,
    },
    /// Anonymous memory, unknown JIT code, or any address of a process whose mappings are unknown:
    /// offsets are avmas.
    Anonymous {
        /// The process whose address space it is.
        pid: u32,
    },
    /// What an interpreter executes: the path is that of the source file. Offsets are the number of
    /// the function in the file, from 1, in the upper 32 bits, and the line in the lower; 0 if the
    /// function is not known, and then the path says why.
    Script,
    /// A file of which a foreign trace has the functions, but not where it was mapped. Offsets are
    /// [`NO_AVMA`](Self::NO_AVMA), plus the number of the function in the file, from 1, in the upper 32 bits, and the offset
    /// in the function in the lower. Those of code without a name are avmas.
    Named,
    /// Not code: the place where a stack was cut. The next recorded address lies in no executable
    /// mapping of its process, so it is not a return address, and what follows it is meaningless.
    Cut,
}

impl Module {
    /// The module of [`ModuleKind::Cut`], whose only offset is 0.
    pub const fn cut(path: NameId) -> Self {
        Self { path, kind: ModuleKind::Cut, build_id: Vec::new() }
    }
}

impl ModuleKind {
    /// Offsets from here on are no addresses where others are avmas.
    pub const NO_AVMA: u64 = 1 << 62;

    /// The last part of a module's path, which frames without names show: `clr.dll` of
    /// `C:\Windows\…\clr.dll`.
    pub fn file_name(self, path: &str) -> &str {
        // On Linux a backslash is an ordinary character.
        let name = match self {
            Self::Image { .. } | Self::Jit { .. } => path.rsplit(['/', '\\']).next(),
            _ => path.rsplit('/').next(),
        };
        name.unwrap_or(path)
    }

    /// True for a program's own code, its libraries' code, and code compiled from them.
    pub const fn is_program(self) -> bool {
        matches!(
            self,
            Self::File | Self::Image { .. } | Self::Jit { .. } | Self::Script | Self::Named
        )
    }

    /// True for code of the kernel.
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Image { kernel: true, .. })
    }
}

/// The path of [`ModuleKind::Cut`], as it is printed.
pub const CUT: &str = "(cut)";

/// A module of the trace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Module {
    /// Path of the file, `[kernel]`, `[vdso]`, `[jit]`, `[anon]`, or [`CUT`].
    pub path: NameId,
    /// Where its code comes from.
    pub kind: ModuleKind,
    /// The file's build id (up to 20 bytes); empty if it was not recorded. [`Modules::build_id`] may
    /// know more.
    pub build_id: Vec<u8>,
}

impl Module {
    /// The path of a module whose file was at `path` before another one, or in another container.
    pub fn path_of_other(path: &str, inode: u64) -> String {
        format!("{path} (inode {inode})")
    }

    /// The path of a module whose file was replaced ([`Module::path_of_other`]), or deleted, as the
    /// kernel calls it, without that; `None` for any other. What is at that path now is another file:
    /// the module's is only in the memory of the processes that have it mapped.
    pub fn path_before(path: &str) -> Option<&str> {
        let other = path.strip_suffix(')').and_then(|path| path.rsplit_once(" (inode "));
        let is_number = |inode: &str| inode.parse::<u64>().is_ok();
        let before = other.filter(|(_, inode)| is_number(inode)).map_or(path, |(before, _)| before);
        let before = before.strip_suffix(" (deleted)").unwrap_or(before);
        (before.len() < path.len()).then_some(before)
    }
}

/// All modules of a trace, each once.
#[derive(Clone, Default, Debug)]
pub struct Modules {
    list: Vec<Module>,
    ids: FxHashMap<Module, ModuleId>,
    /// Build ids of the files that functions were named from, where none was recorded.
    named_from: FxHashMap<ModuleId, Vec<u8>>,
}

impl Modules {
    /// The id of `module`, stored if new.
    pub fn intern(&mut self, module: Module) -> ModuleId {
        if let Some(&id) = self.ids.get(&module) {
            return id;
        }
        let id = ModuleId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(module.clone());
        self.ids.insert(module, id);
        id
    }

    /// Changes a module's path.
    pub(crate) fn set_path(&mut self, id: ModuleId, path: NameId) {
        if let Some(module) = self.list.get_mut(id.index()) {
            self.ids.remove(module);
            module.path = path;
            self.ids.insert(module.clone(), id);
        }
    }

    /// The build id of a module's file: as recorded, or else that of the file at its path from which
    /// its functions were named; empty if neither is known.
    pub fn build_id(&self, id: ModuleId) -> &[u8] {
        let recorded = self.get(id).map_or(&[][..], |module| &module.build_id);
        let named_from = || self.named_from.get(&id).map_or(&[][..], Vec::as_slice);
        if recorded.is_empty() { named_from() } else { recorded }
    }

    /// Sets the build id of the file that a module's functions were named from.
    pub fn set_named_from(&mut self, id: ModuleId, build_id: Vec<u8>) {
        self.named_from.insert(id, build_id);
    }

    /// The module `id`, if it is in this trace.
    pub fn get(&self, id: ModuleId) -> Option<&Module> {
        self.list.get(id.index())
    }

    /// All modules with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ModuleId, &Module)> {
        self.list.iter().enumerate().map(|(index, module)| (ModuleId(index as u32), module))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_that_are_gone_are_recognized() {
        let other = Module::path_of_other("/a b", 7);
        assert_eq!(Module::path_before(&other), Some("/a b"));
        assert_eq!(Module::path_before("/a (deleted)"), Some("/a"));
        assert_eq!(Module::path_before("/a (deleted) (inode 7)"), Some("/a"));
        assert_eq!(["/a", "/a (inode )", "/a (1)", ")"].map(Module::path_before), [None; 4]);
    }
}
