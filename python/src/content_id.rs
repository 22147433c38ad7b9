//! Ids of functions and stacks that hold across recordings, machines and reboots: hashes of what
//! they are, not numbers of where they are in a file.
//!
//! An id is the first 128 bits of a SHA-256, as 32 hexadecimal digits, so that anybody can compute
//! it (docs/sql.md has the recipe in Python):
//!
//! * a function: `function`, its module's file name, its name, with a zero byte in between;
//! * a stack: `stack`, then the ids of its functions as text, root first, a zero byte before each.
//!
//! *Why the outer function only:* what a compiler inlined differs between builds of one source, and
//! `unhitch table` groups stacks in the same way.

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use unhitch_analysis::{Analysis, StackKind};
use unhitch_model::{FrameId, ModuleKind, StackId, Trace};

/// An id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ContentId([u8; 16]);

impl ContentId {
    /// The id of these parts.
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hash = Sha256::new();
        for (at, part) in parts.into_iter().enumerate() {
            if at > 0 {
                hash.update([0]);
            }
            hash.update(part);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        Self(id)
    }

    /// As 32 hexadecimal digits.
    pub fn hex(self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
    }
}

/// A function as it is called in every recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name; without one, the module and the offset in it.
    pub name: String,
    /// The file name of its module.
    pub module: String,
    /// Its source file; empty if unknown.
    pub file: String,
    /// True for code of the kernel.
    pub is_kernel: bool,
}

/// The function that a frame is in, not one inlined into it.
pub fn function(trace: &Trace, frame: FrameId) -> Function {
    let module = trace.stacks.frame(frame).and_then(|at| trace.modules.get(at.module));
    let symbol = trace.symbols.get(frame).last();
    let file = symbol.map_or("", |symbol| trace.name(symbol.file)).to_owned();
    let module_name = match module {
        Some(module) if module.kind == ModuleKind::Script => ModuleKind::Script.file_name(&file),
        Some(module) => module.kind.file_name(trace.name(module.path)),
        None => "",
    };
    let name = match symbol {
        Some(symbol) => trace.name(symbol.function).to_owned(),
        None => trace.frame_names(frame).pop().unwrap_or_default(),
    };
    let is_kernel = module.is_some_and(|module| module.kind.is_kernel());
    Function { name, module: module_name.to_owned(), file, is_kernel }
}

/// The ids of a trace's functions and stacks.
pub struct ContentIds {
    frames: Vec<ContentId>,
    stacks: Mutex<FxHashMap<(StackKind, StackId), ContentId>>,
}

impl ContentIds {
    /// The ids of all functions of `trace`; those of stacks are computed when asked for.
    pub fn new(trace: &Trace) -> Self {
        let id = |frame: u32| {
            let function = function(trace, FrameId(frame));
            ContentId::of([b"function", function.module.as_bytes(), function.name.as_bytes()])
        };
        let frames = (0..trace.stacks.frames().len() as u32).map(id).collect();
        Self { frames, stacks: Mutex::default() }
    }

    /// The id of a frame's function.
    pub fn of_frame(&self, frame: FrameId) -> Option<ContentId> {
        self.frames.get(frame.index()).copied()
    }

    /// The id of a stack; none of an empty one, which was not recorded.
    pub fn of_stack(
        &self,
        analysis: &Analysis<'_>,
        kind: StackKind,
        stack: StackId,
    ) -> Option<ContentId> {
        let frames = analysis.stacks.frames(analysis.trace, kind, stack);
        if frames.is_empty() {
            return None;
        }
        let mut known = self.stacks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match known.entry((kind, stack)) {
            Entry::Occupied(id) => Some(*id.get()),
            Entry::Vacant(slot) => {
                let ids: Vec<String> = frames
                    .iter()
                    .rev()
                    .filter_map(|&frame| self.of_frame(frame))
                    .map(ContentId::hex)
                    .collect();
                let parts = ids.iter().map(String::as_bytes);
                Some(*slot.insert(ContentId::of(std::iter::once(&b"stack"[..]).chain(parts))))
            }
        }
    }
}
