//! The frames of Python's threads: the recorder's part in the kernel writes them beside the native
//! stack (`bpf/python.h`), and here they are read for threads that sleep at the save. A frame is a
//! [word](unhitch_formats::scripts::ScriptFrame) that names a code object.
//!
//! A code object's name, file and lines are read when it is first seen, because the process may end
//! before the save. *Why nothing is waited for*: only private memory that is present is read
//! ([`memory`](crate::memory)), as much as a limit allows, and what has changed since the frame was
//! seen is left out.

mod function;
mod process;
mod walk;

pub(crate) use function::read;
pub(crate) use process::{PYTHON_WORDS, Python};
pub(crate) use walk::walk;

#[cfg(test)]
pub(crate) use walk::tests;
