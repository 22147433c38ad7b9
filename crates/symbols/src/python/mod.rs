//! What must be known of CPython to read the frames of its threads from memory: where the runtime
//! is in a program's file, where the fields of its structures are, and how code objects map
//! instructions to lines.
//!
//! Source: CPython's headers (`Include/internal/pycore_*.h`) of 3.9 to 3.13. *Why from the file and
//! not from the process*: a recorder with rights must not search a stranger's memory, and the file
//! is parsed where nothing can be broken ([`UnwindRules`](crate::UnwindRules)).

mod layout;
mod lines;
mod runtime;

pub use layout::{Boundary, Instruction, PythonLayout};
pub use lines::lines;
pub use runtime::PythonRuntime;
pub(crate) use runtime::read;
