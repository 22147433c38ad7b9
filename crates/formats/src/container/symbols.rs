//! `symbols.json`: function names by module and offset, resolved on the recording machine, where
//! the code is.
//!
//! Each name is in a list once, and frames refer to it by index. A frame matches a module of the
//! same path, kind and build id, so that two versions of a library are never mixed up.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use unhitch_model::units::hex;
use unhitch_model::{Frame, FrameId, Module, ModuleId, ModuleKind, NameId, Symbol, Trace};

/// The content of `symbols.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SymbolFile {
    /// Version of this layout: 1.
    version: u32,
    /// Every function and file name once. The first one is empty.
    names: Vec<String>,
    modules: Vec<NamedModule>,
    /// Which frames have no names, and why.
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct NamedModule {
    path: String,
    kind: Kind,
    /// The recorded one, hexadecimal.
    build_id: String,
    /// Where none was recorded, that of the file that the names are from.
    #[serde(skip_serializing_if = "String::is_empty")]
    named_from: String,
    /// Offset, and the functions there, innermost first.
    frames: Vec<(u64, Vec<Function>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Kernel,
    #[default]
    File,
    Anonymous {
        pid: u32,
    },
}

impl From<ModuleKind> for Kind {
    fn from(kind: ModuleKind) -> Self {
        match kind {
            ModuleKind::Kernel => Self::Kernel,
            // A container holds no Windows trace and no other tool's, scripts have a member of their
            // own, and a cut has no name to keep.
            ModuleKind::File
            | ModuleKind::Image { .. }
            | ModuleKind::Script
            | ModuleKind::Named
            | ModuleKind::Cut => Self::File,
            ModuleKind::Anonymous { pid } | ModuleKind::Jit { pid, .. } => Self::Anonymous { pid },
        }
    }
}

/// Indices of the function's and the file's name, and the line.
type Function = (u32, u32, u32);

impl SymbolFile {
    /// All names that `trace` has.
    pub fn from_trace(trace: &Trace) -> Self {
        let mut file = Self { version: 1, names: vec![String::new()], ..Self::default() };
        let mut name_index: FxHashMap<&str, u32> = FxHashMap::from_iter([("", 0)]);
        let mut by_module = BTreeMap::<_, Vec<_>>::new();
        for (index, frame) in trace.stacks.frames().iter().enumerate() {
            let symbols = trace.symbols.get(FrameId(index as u32));
            let module = trace.modules.get(frame.module);
            // Their names are in a member of their own.
            let is_script = module.is_some_and(|module| {
                matches!(module.kind, ModuleKind::Script | ModuleKind::Jit { .. })
            });
            if symbols.is_empty() || is_script {
                continue;
            }
            let mut index_of = |id| {
                let name = trace.name(id);
                *name_index.entry(name).or_insert_with(|| {
                    file.names.push(name.to_owned());
                    (file.names.len() - 1) as u32
                })
            };
            let functions = symbols
                .iter()
                .map(|symbol| (index_of(symbol.function), index_of(symbol.file), symbol.line))
                .collect();
            by_module.entry(frame.module).or_default().push((frame.offset, functions));
        }
        for (id, module) in trace.modules.iter() {
            let mut frames = by_module.remove(&id).unwrap_or_default();
            frames.sort_unstable();
            let named_from = match module.build_id.is_empty() {
                true => hex(trace.modules.build_id(id)),
                false => String::new(),
            };
            if frames.is_empty() && named_from.is_empty() {
                continue;
            }
            file.modules.push(NamedModule {
                path: trace.name(module.path).to_owned(),
                kind: module.kind.into(),
                build_id: hex(&module.build_id),
                named_from,
                frames,
            });
        }
        file
    }

    /// Adds warnings about frames without names.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Which frames have no names, and why.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Names the frames of `trace` that this file knows, even those that have names already.
    pub fn apply(&self, trace: &mut Trace) {
        self.warnings.iter().for_each(|warning| trace.warnings.add(warning.clone()));
        let key = |path: &str, kind: Kind, build_id: &str| format!("{kind:?} {build_id} {path}");
        let modules: FxHashMap<String, &NamedModule> = self
            .modules
            .iter()
            .map(|module| (key(&module.path, module.kind, &module.build_id), module))
            .collect();
        let named_of = |trace: &Trace, module: &Module| {
            modules
                .get(&key(trace.name(module.path), module.kind.into(), &hex(&module.build_id)))
                .map(|named| {
                    let functions: FxHashMap<u64, &[Function]> =
                        named.frames.iter().map(|(at, list)| (*at, list.as_slice())).collect();
                    (functions, bytes(&named.named_from))
                })
        };
        let by_id: Vec<_> =
            trace.modules.iter().map(|(_, module)| named_of(trace, module)).collect();
        for (index, named_from) in by_id.iter().enumerate() {
            if let Some((_, build_id)) = named_from.as_ref().filter(|(_, id)| !id.is_empty()) {
                trace.modules.set_named_from(ModuleId(index as u32), build_id.clone());
            }
        }
        // The trace's own, once a frame has it: many frames may have one long name.
        let mut known: Vec<Option<NameId>> = vec![None; self.names.len()];
        let frames: Vec<Frame> = trace.stacks.frames().to_vec();
        for (index, frame) in frames.into_iter().enumerate() {
            let functions = by_id
                .get(frame.module.index())
                .and_then(Option::as_ref)
                .and_then(|(functions, _)| functions.get(&frame.offset));
            let Some(functions) = functions else { continue };
            let mut name = |index: u32| {
                let (text, known) =
                    self.names.get(index as usize).zip(known.get_mut(index as usize))?;
                Some(*known.get_or_insert_with(|| trace.strings.intern(text)))
            };
            let symbols: Vec<Symbol> = functions
                .iter()
                .map(|&(function, file, line)| Symbol {
                    function: name(function).unwrap_or_default(),
                    file: name(file).unwrap_or_default(),
                    line,
                })
                .collect();
            trace.symbols.set(FrameId(index as u32), &symbols);
        }
    }
}

/// The bytes of hexadecimal digits; none if they are not.
fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace with one module and one frame in it.
    fn trace(build_id: &[u8]) -> (Trace, FrameId) {
        let mut trace = Trace::default();
        let path = trace.strings.intern("/usr/lib/x.so");
        let module = trace.modules.intern(Module {
            path,
            kind: ModuleKind::File,
            build_id: build_id.to_vec(),
        });
        let frame = trace.stacks.intern_frame(Frame { module, offset: 0x1234 });
        (trace, frame)
    }

    #[test]
    fn names_reach_another_trace_of_the_same_build() {
        let (mut named, frame) = trace(&[1, 2]);
        let (function, inlined, file) = (
            named.strings.intern("outer"),
            named.strings.intern("inner"),
            named.strings.intern("x.c"),
        );
        let symbols =
            [Symbol { function: inlined, file, line: 7 }, Symbol { function, file, line: 70 }];
        named.symbols.set(frame, &symbols);
        let json = serde_json::to_string(&SymbolFile::from_trace(&named)).unwrap();
        let file: SymbolFile = serde_json::from_str(&json).unwrap();

        let (mut same, frame) = trace(&[1, 2]);
        file.apply(&mut same);
        assert_eq!(same.frame_names(frame), ["inner", "outer"]);
        assert_eq!(same.symbols.get(frame)[1].line, 70);

        let (mut other, frame) = trace(&[1, 3]);
        file.apply(&mut other);
        assert!(other.symbols.get(frame).is_empty());
    }

    #[test]
    fn a_long_name_of_many_frames_is_read_once() {
        let (mut trace, first) = trace(&[]);
        let module = trace.stacks.frame(first).unwrap().module;
        let named = |offset: u64| (offset, vec![(1, 2, 7)]);
        let frames: Vec<_> = (0..200_000).map(named).collect();
        frames.iter().for_each(|(offset, _)| {
            trace.stacks.intern_frame(Frame { module, offset: *offset });
        });
        let path = "/usr/lib/x.so".to_owned();
        let modules = vec![NamedModule { path, frames, ..NamedModule::default() }];
        let names = vec![String::new(), "f".repeat(2 << 20)];
        SymbolFile { version: 1, names, modules, warnings: Vec::new() }.apply(&mut trace);
        let symbol = trace.symbols.get(first)[0];
        assert_eq!((trace.name(symbol.function).len(), symbol.file), (2 << 20, NameId::EMPTY));
    }

    #[test]
    fn the_build_that_names_are_from_is_kept() {
        let (mut named, frame) = trace(&[]);
        let function = named.strings.intern("main");
        named.symbols.set(frame, &[Symbol { function, ..Symbol::default() }]);
        let module = named.stacks.frame(frame).unwrap().module;
        named.modules.set_named_from(module, vec![0xab, 1]);
        let json = serde_json::to_string(&SymbolFile::from_trace(&named)).unwrap();
        let file: SymbolFile = serde_json::from_str(&json).unwrap();

        let (mut same, frame) = trace(&[]);
        file.apply(&mut same);
        assert_eq!(same.frame_names(frame), ["main"]);
        assert_eq!(same.modules.build_id(module), [0xab, 1]);
        assert!(same.modules.get(module).unwrap().build_id.is_empty(), "it was not recorded");
    }
}
