//! [`Interner`]: names, frames and stacks, each written once per sequence.

use super::fields::{interned, packet};
use crate::frames::{Frames, Function};
use crate::protobuf::Message;
use crate::set::Set;
use unhitch_model::{ModuleId, ModuleKind, NameId, StackId, Trace};

/// `Frame.Kind`.
const NATIVE: u64 = 1;
const KERNEL: u64 = 2;
const INTERPRETED: u64 = 3;
const JIT: u64 = 4;

/// Which names, frames and stacks a sequence has already.
pub(super) struct Interner<'t> {
    trace: &'t Trace,
    frames: &'t Frames<'t>,
    names: Set,
    sources: Set,
    mappings: Set,
    functions: Set,
    stacks: Set,
    /// New entries.
    new: Message,
}

/// The id of an entry: that of ours, and one more, because 0 means none.
const fn iid(index: usize) -> u64 {
    index as u64 + 1
}

impl<'t> Interner<'t> {
    pub(super) fn new(trace: &'t Trace, frames: &'t Frames<'t>) -> Self {
        Self {
            trace,
            frames,
            names: Set::default(),
            sources: Set::default(),
            mappings: Set::default(),
            functions: Set::default(),
            stacks: Set::default(),
            new: Message::default(),
        }
    }

    /// The id of a stack. What it needs goes into the next packet.
    pub(super) fn stack(&mut self, stack: StackId) -> u64 {
        if self.stacks.insert(stack.index()) {
            // Outermost first.
            for function in self.frames.of_stack(stack).rev() {
                self.function(function);
            }
            let frames = self.frames;
            self.new.nest(interned::CALLSTACKS, |entry| {
                entry.uint(1, iid(stack.index()));
                for function in frames.of_stack(stack).rev() {
                    entry.uint(2, iid(frames.number(function) as usize));
                }
            });
        }
        iid(stack.index())
    }

    /// Writes the new entries into a packet.
    pub(super) fn write_new(&mut self, packet: &mut Message) {
        if !self.new.is_empty() {
            packet.nest(packet::INTERNED_DATA, |data| data.append(&self.new));
            self.new.clear();
        }
    }

    fn function(&mut self, function: Function) {
        let number = self.frames.number(function) as usize;
        if !self.functions.insert(number) {
            return;
        }
        let trace = self.trace;
        let Some(frame) = trace.stacks.frame(function.frame) else { return };
        let module = trace.modules.get(frame.module);
        let kind = module.map(|module| module.kind);
        let symbol = self.frames.symbol(function);
        let name = match (symbol, kind, module) {
            (Some(symbol), ..) => Some(symbol.function),
            // Not code: the path says what it is.
            (None, Some(ModuleKind::Cut | ModuleKind::Script), Some(module)) => Some(module.path),
            _ => None,
        };
        name.into_iter().for_each(|name| self.name(name));
        self.mapping(frame.module);
        let source = symbol.filter(|symbol| !symbol.file.is_empty()).map(|symbol| symbol.file);
        source.into_iter().for_each(|file| self.source(file));
        self.new.nest(interned::FRAMES, |entry| {
            entry.uint(1, iid(number));
            if let Some(name) = name {
                entry.uint(2, iid(name.index()));
            }
            entry.uint(3, iid(frame.module.index()));
            entry.uint(4, frame.offset);
            if let Some(file) = source {
                entry.uint(5, iid(file.index()));
            }
            if let Some(line) = symbol.map(|symbol| symbol.line).filter(|line| *line > 0) {
                entry.uint(6, u64::from(line));
            }
            if let Some(kind) = kind.and_then(kind_of) {
                entry.uint(7, kind);
            }
        });
    }

    fn name(&mut self, name: NameId) {
        if self.names.insert(name.index()) {
            let text = self.trace.name(name);
            string(&mut self.new, interned::FUNCTION_NAMES, name.index(), text.as_bytes());
        }
    }

    fn source(&mut self, file: NameId) {
        if self.sources.insert(file.index()) {
            let text = self.trace.name(file);
            string(&mut self.new, interned::SOURCE_PATHS, file.index(), text.as_bytes());
        }
    }

    fn mapping(&mut self, module: ModuleId) {
        if !self.mappings.insert(module.index()) {
            return;
        }
        let Some(of) = self.trace.modules.get(module) else { return };
        let path = self.trace.shown(self.trace.name(of.path).to_owned());
        string(
            &mut self.new,
            interned::BUILD_IDS,
            module.index(),
            self.trace.modules.build_id(module),
        );
        string(&mut self.new, interned::MAPPING_PATHS, module.index(), path.as_bytes());
        self.new.nest(interned::MAPPINGS, |entry| {
            entry.uint(1, iid(module.index()));
            entry.uint(2, iid(module.index()));
            entry.uint(7, iid(module.index()));
        });
    }
}

/// Adds an `InternedString`.
fn string(new: &mut Message, field: u32, index: usize, bytes: &[u8]) {
    new.nest(field, |entry| {
        entry.uint(1, iid(index));
        entry.put(2, bytes);
    });
}

const fn kind_of(kind: ModuleKind) -> Option<u64> {
    match kind {
        _ if kind.is_kernel() => Some(KERNEL),
        ModuleKind::File | ModuleKind::Image { .. } => Some(NATIVE),
        ModuleKind::Script => Some(INTERPRETED),
        ModuleKind::Jit { .. } | ModuleKind::Anonymous { .. } => Some(JIT),
        _ => None,
    }
}
