//! [`Python`]: the interpreter of one process.

use unhitch_symbols::python::{Boundary, Instruction, PythonLayout, PythonRuntime};

/// Length of `struct python` of `python.h`, in words.
pub(crate) const PYTHON_WORDS: usize = 5;
/// In place of an offset that this version does not have.
const NONE: u16 = u16::MAX;

/// The interpreter of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Python {
    runtime: PythonRuntime,
    /// Where the lowest address of its file is.
    base_avma: u64,
}

impl Python {
    pub(crate) fn new(runtime: PythonRuntime, base_avma: u64) -> Self {
        Self { runtime, base_avma }
    }

    pub(crate) fn layout(&self) -> &PythonLayout {
        &self.runtime.layout
    }

    /// Where the pointer to the first interpreter is.
    pub(super) fn interpreters_avma(&self) -> u64 {
        let runtime = self.base_avma.wrapping_add(self.runtime.runtime_svma);
        runtime.wrapping_add(u64::from(self.layout().interpreters))
    }

    /// The type of code objects.
    pub(super) fn code_type_avma(&self) -> u64 {
        self.base_avma.wrapping_add(self.runtime.code_type_svma)
    }

    /// Where the interpreter's loop is: start and end.
    pub(crate) fn loops(&self) -> Vec<[u64; 2]> {
        let known = self.runtime.eval_svmas.iter().filter(|[_, end]| *end != 0);
        known.map(|range| range.map(|svma| self.base_avma.wrapping_add(svma))).collect()
    }

    /// `struct python` of `python.h`.
    pub(crate) fn for_kernel(&self) -> [u64; PYTHON_WORDS] {
        let layout = self.layout();
        let offsets = [
            [layout.next_interpreter, layout.first_thread, layout.next_thread, layout.thread_id],
            [layout.frame, layout.c_frame.unwrap_or(NONE), layout.previous, layout.code],
            [layout.instruction, layout.boundary, layout.names, layout.instructions],
        ];
        let [threads, frames, codes] = offsets.map(|four| {
            four.into_iter().rev().fold(0, |word, offset| word << 16 | u64::from(offset))
        });
        let boundary = match layout.boundary() {
            Boundary::Each => 0,
            Boundary::IsEntry => 1,
            Boundary::CStack => 2,
        };
        let instruction = match layout.instruction() {
            Instruction::Bytes => 0,
            Instruction::Units => 1,
            Instruction::Pointer => 2,
        };
        let frame_words = u64::from(layout.frame_bytes() / 8);
        let names_len = layout.names_len() as u64;
        let kinds = names_len | boundary << 8 | instruction << 16 | frame_words << 24;
        [self.interpreters_avma(), threads, frames, codes, kinds]
    }
}
