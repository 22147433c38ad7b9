//! Names the frames of a [`Trace`]: functions, source lines and inlined functions.
//!
//! What an offset counts from is said by [`ModuleKind`]; each kind has its source: `/proc/kallsyms`
//! for the kernel, ELF and DWARF for files, PDBs for Windows images, the runtime's perf map for JIT
//! code. [`code`] and [`disassemble`] give the instructions behind the names. *Why on the recording
//! machine, at every save*: only there the files are the ones that ran. So everything read is kept
//! for the next save by a [`Symbolizer`].
//!
//! Whatever a file claims, naming one trace takes no more than some 400 MB of memory; [`Files`]
//! says who opens files.

mod code;
mod debug_file;
mod demangle;
mod disassembly;
mod elf;
pub mod files;
mod function;
#[doc(hidden)]
pub mod fuzzing;
mod images;
mod jobs;
mod kernel;
mod kernel_image;
mod limited;
mod lines;
mod machine_code;
mod module;
mod naming;
mod origin;
mod pdb;
mod perf_map;
mod plt;
mod symbolizer;
mod unwind_table;
mod vdso;

pub use code::{CodeOptions, code};
pub use disassembly::{Instruction, disassemble};
pub use files::{Files, LocalFiles, Wanted};
pub use machine_code::{Code, Isa, NoCode};
pub use pdb::server::Fetching;
pub use pdb::store::SymbolPath;
pub use symbolizer::{Options, Symbolizer};

/// Reads the code that the kernel maps into every process: from our own memory, which a process
/// without rights cannot open later.
pub fn read_vdso() {
    // What cannot be read now is told when names are wanted.
    let _ = vdso::image();
}
