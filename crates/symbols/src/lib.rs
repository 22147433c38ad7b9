//! Names the frames of a [`Trace`](unhitch_model::Trace): functions, source lines and inlined
//! functions.
//!
//! Names come from `/proc/kallsyms` for the kernel, from ELF and DWARF for files, from PDBs for
//! Windows images, and from the runtime's perf map for JIT code. A frame's
//! [`ModuleKind`](unhitch_model::ModuleKind) decides. [`code()`] and [`disassemble`] give the
//! instructions behind the names. *Why on the recording machine, at every save*: only there are the
//! files the ones that ran. A [`Symbolizer`] therefore keeps what it read for the next save.
//!
//! Whatever a file claims, naming one trace takes no more than about 400 MB of memory. [`Files`]
//! decides who opens files.
//!
//! Name a frame in the kernel from a symbol list:
//!
//! ```
//! use unhitch_model::{Frame, Module, ModuleKind, Trace};
//! use unhitch_symbols::{Options, Symbolizer};
//!
//! let folder = tempfile::tempdir()?;
//! let kallsyms = folder.path().join("kallsyms");
//! std::fs::write(&kallsyms, "ffffffff81000000 T schedule\nffffffff81000100 T other\n")?;
//!
//! let mut trace = Trace::default();
//! let path = trace.strings.intern("[kernel]");
//! let build_id = Vec::new();
//! let kernel = trace.modules.intern(Module { path, kind: ModuleKind::Kernel, build_id });
//! let avma = 0xffff_ffff_8100_0042;
//! let frame = trace.stacks.intern_frame(Frame { module: kernel, offset: avma });
//!
//! Symbolizer::new(Options { kallsyms, ..Options::default() }).resolve(&mut trace);
//! assert_eq!(trace.frame_names(frame), ["schedule"]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod budget;
mod code;
mod debug_file;
mod debuginfod;
mod demangle;
mod disassembly;
mod elf;
mod exported;
mod fetch;
pub mod files;
mod function;
mod function_table;
#[doc(hidden)]
pub mod fuzzing;
mod gopclntab;
mod images;
pub mod java;
mod jit_name;
mod jobs;
mod kernel;
mod kernel_image;
mod limited;
mod lines;
mod machine_code;
mod mini_debug_info;
mod module;
mod naming;
mod origin;
mod pdb;
mod perf_map;
mod plt;
pub mod python;
mod section;
mod server;
mod symbolizer;
mod unwind_rules;
mod unwind_table;
mod vdso;
mod xz;

pub use code::{CodeOptions, code};
pub use debuginfod::Debuginfod;
pub use disassembly::{Instruction, disassemble};
pub use fetch::{Allowance, Fetching};
pub use files::{Files, LocalFiles, Wanted};
pub use machine_code::{Code, Isa, NoCode};
pub use pdb::store::SymbolPath;
pub use symbolizer::{Options, Symbolizer};
pub use unwind_rules::{CodeSegment, UnwindRules};

/// Reads the vdso, the code that the kernel maps into every process, from this process's memory. A
/// process that gives up its rights cannot open that later.
pub fn read_vdso() {
    // Naming reports it if this fails.
    let _ = vdso::image();
}

/// The rules for unwinding the code of an ELF file without frame pointers; `None` if it is not one
/// for x86-64, or damaged.
pub fn unwind_rules(file: std::fs::File) -> Option<UnwindRules> {
    unwind_rules::read(std::io::BufReader::new(file))
}

/// The rules for unwinding the code that the kernel maps into every process.
pub fn vdso_unwind_rules() -> Option<UnwindRules> {
    unwind_rules::of_vdso()
}
