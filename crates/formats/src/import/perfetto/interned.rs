//! Interned data: what packets of one sequence refer to by number.

use super::wire::Value;
use crate::import::frames::{self, Frames};
use rustc_hash::FxHashMap;
use unhitch_model::{CUT, Frame, FrameId, Module, ModuleKind, NameId, StackId, Symbol, Trace};

/// Frames of a stack that are read at most.
const MAX_FRAMES: usize = 1024;

/// The interned data of a sequence.
#[derive(Default)]
pub(super) struct Interned<'a> {
    functions: FxHashMap<u64, &'a [u8]>,
    build_ids: FxHashMap<u64, &'a [u8]>,
    paths: FxHashMap<u64, &'a [u8]>,
    sources: FxHashMap<u64, &'a [u8]>,
    mappings: FxHashMap<u64, Mapping>,
    frames: FxHashMap<u64, FrameFields>,
    callstacks: FxHashMap<u64, Value<'a>>,
    /// Stacks that were made already, by process and number.
    stacks: FxHashMap<(u32, u64), StackId>,
    /// `StackSample.TaskContext`s: process and thread.
    pub tasks: FxHashMap<u64, (u32, u32)>,
    /// `StackSample.ExecutionContext`s: the CPU.
    pub cpus: FxHashMap<u64, u16>,
    /// True if functions that are inlined into each other have ids that follow each other,
    /// innermost first, as Unhitch exports them. Then a function that calls itself is told from
    /// one that was inlined into itself.
    pub numbers_inlined: bool,
}

#[derive(Clone, Default)]
struct Mapping {
    path: String,
    build_id: Vec<u8>,
    start: u64,
    start_offset: u64,
    load_bias: u64,
}

/// The fields of a `Frame`.
#[derive(Clone, Copy, Default)]
struct FrameFields {
    id: u64,
    function: u64,
    mapping: u64,
    rel_pc: u64,
    source: u64,
    line: u32,
    kind: u32,
}

impl<'a> Interned<'a> {
    /// Adds a packet's `InternedData`.
    pub fn add(&mut self, data: Value<'a>) {
        for (field, value) in data.fields() {
            let number = |of: u32| {
                value
                    .fields()
                    .filter(|(field, _)| *field == of)
                    .last()
                    .map_or(0, |it| it.1.number())
            };
            let text = || value.fields().filter(|(field, _)| *field == 2).last().map(|it| it.1);
            let text = || text().map_or(&[][..], Value::bytes);
            match field {
                5 => drop(self.functions.insert(number(1), text())),
                16 => drop(self.build_ids.insert(number(1), text())),
                17 => drop(self.paths.insert(number(1), text())),
                18 => drop(self.sources.insert(number(1), text())),
                19 => {
                    let mapping = self.mapping(value);
                    self.mappings.insert(number(1), mapping);
                }
                6 => drop(self.frames.insert(
                    number(1),
                    FrameFields {
                        id: number(1),
                        function: number(2),
                        mapping: number(3),
                        rel_pc: number(4),
                        source: number(5),
                        line: number(6) as u32,
                        kind: number(7) as u32,
                    },
                )),
                7 => {
                    self.callstacks.insert(number(1), value);
                }
                48 => drop(self.tasks.insert(number(1), (number(2) as u32, number(3) as u32))),
                49 => {
                    if let Ok(cpu) = u16::try_from(number(2)) {
                        self.cpus.insert(number(1), cpu);
                    }
                }
                _ => {}
            }
        }
    }

    fn mapping(&self, mapping: Value<'a>) -> Mapping {
        let mut out = Mapping::default();
        let mut parts = Vec::new();
        for (field, value) in mapping.fields() {
            match field {
                2 => {
                    let id = self.build_ids.get(&value.number()).copied().unwrap_or_default();
                    out.build_id = id[..id.len().min(20)].to_vec();
                }
                3 => out.start_offset = value.number(),
                4 => out.start = value.number(),
                6 => out.load_bias = value.number(),
                7 if parts.len() < 64 => parts.extend(value.numbers().take(64)),
                _ => {}
            }
        }
        /// Maximum length of a path, and of each of its parts. Paths are counted in the memory of each
        /// mapping.
        const MAX_LEN: usize = 4096;
        let part = |id: &u64| {
            let part = self.paths.get(id).copied().unwrap_or_default();
            String::from_utf8_lossy(&part[..part.len().min(MAX_LEN)]).into_owned()
        };
        let parts: Vec<String> = parts.iter().map(part).collect();
        out.path = match &parts[..] {
            [] => String::new(),
            [one] if one.is_empty() || one.starts_with(['/', '[']) => one.clone(),
            parts if parts[0].starts_with('/') => parts.join("/"),
            parts => format!("/{}", parts.join("/")),
        };
        out.path = out.path.chars().take(MAX_LEN).collect();
        out
    }

    /// The stack of this number in a process; the empty one if it is not known.
    pub fn stack(&mut self, trace: &mut Trace, out: &mut Frames, pid: u32, id: u64) -> StackId {
        if let Some(stack) = self.stacks.get(&(pid, id)) {
            return *stack;
        }
        let Some(callstack) = self.callstacks.get(&id) else { return StackId::EMPTY };
        // Outermost first in the file.
        let mut ids: Vec<u64> = callstack
            .fields()
            .filter(|(field, _)| *field == 2)
            .flat_map(|(_, value)| value.numbers())
            .take(MAX_FRAMES)
            .collect();
        ids.reverse();
        let fields: Vec<FrameFields> =
            ids.iter().filter_map(|id| self.frames.get(id).copied()).collect();
        if out.spend(fields.iter().map(|frame| self.cost(frame)).sum()).is_none() {
            trace.warnings.add("a stack was left out: the file's stacks have too many long names");
            return StackId::EMPTY;
        }
        let (mut frames, mut kernel_len) = (Vec::new(), 0);
        for group in self.places(&fields) {
            let (frame, is_kernel) = self.frame(trace, out, pid, group);
            if is_kernel && kernel_len == frames.len() {
                kernel_len += 1;
            }
            frames.push(frame);
        }
        let stack = trace.stacks.intern(&frames, kernel_len as u16);
        self.stacks.insert((pid, id), stack);
        stack
    }

    /// What is read of names for a frame, bytes, and what else it takes.
    fn cost(&self, frame: &FrameFields) -> usize {
        const FRAME: usize = 32;
        let len = |table: &FxHashMap<u64, &[u8]>, id| table.get(&id).map_or(0, |text| text.len());
        let path = self.mappings.get(&frame.mapping).map_or(0, |mapping| mapping.path.len());
        FRAME + len(&self.functions, frame.function) + len(&self.sources, frame.source) + path
    }

    /// The frames by place in the code: functions that were inlined into each other are one after
    /// the other at one place. A function that calls itself is at one place again, too.
    fn places<'b>(&self, fields: &'b [FrameFields]) -> Vec<&'b [FrameFields]> {
        let (mut places, mut start) = (Vec::new(), 0);
        for at in 1..=fields.len() {
            let group = &fields[start..at];
            let place = |frame: &FrameFields| (frame.mapping, frame.rel_pc);
            let belongs = fields.get(at).is_some_and(|outer| {
                let is_next = match self.numbers_inlined {
                    true => {
                        group.last().is_some_and(|inner| inner.id.checked_add(1) == Some(outer.id))
                    }
                    false => group.iter().all(|inner| inner.function != outer.function),
                };
                outer.mapping != 0
                    && outer.rel_pc != 0
                    && place(&group[0]) == place(outer)
                    && is_next
            });
            if !belongs {
                places.push(group);
                start = at;
            }
        }
        places
    }

    /// The frame of functions at one place, innermost first, and whether it is of the kernel.
    fn frame(
        &self,
        trace: &mut Trace,
        out: &mut Frames,
        pid: u32,
        group: &[FrameFields],
    ) -> (FrameId, bool) {
        const KERNEL: u32 = 2;
        const INTERPRETED: u32 = 3;
        let outer = group.last().copied().unwrap_or_default();
        let mapping = self.mappings.get(&outer.mapping).cloned().unwrap_or_default();
        let text = |table: &FxHashMap<u64, &[u8]>, id: u64| {
            String::from_utf8_lossy(table.get(&id).copied().unwrap_or_default()).into_owned()
        };
        let name = text(&self.functions, outer.function);
        let source = text(&self.sources, outer.source);
        if name == CUT && (outer.mapping == 0 || mapping.path == CUT) {
            return (trace.cut_frame(), false);
        }
        let is_kernel = outer.kind == KERNEL || frames::is_kernel(&mapping.path);
        let path = mapping.path.as_str();
        let frame = if is_kernel {
            match outer.rel_pc {
                0 => out.kernel_named(trace, &name),
                avma => out.kernel(trace, avma, &name),
            }
        } else if outer.kind == INTERPRETED || (outer.mapping == 0 && !source.is_empty()) {
            match (mapping.path.as_str(), outer.rel_pc) {
                ("", _) | (_, 0) => script(trace, out, &source, &name, outer.line),
                (path, place) => own_script(trace, path, place, &name, outer.line),
            }
        } else if matches!(path, "" | "[anon]" | "[jit]") {
            match (outer.rel_pc, name.as_str()) {
                (0, "") => out.named(trace, "[unknown]", "[unknown]", 0),
                (0, name) => out.named(trace, "[jit]", name, 0),
                (rel_pc, name) => {
                    out.anonymous(trace, pid, mapping.start.wrapping_add(rel_pc), name)
                }
            }
        } else if outer.rel_pc == 0 && !name.is_empty() {
            out.named(trace, path, &name, 0)
        } else {
            let offset =
                outer.rel_pc.wrapping_sub(mapping.load_bias).wrapping_add(mapping.start_offset);
            out.file(trace, (path, &mapping.build_id), offset, "")
        };
        if outer.kind != INTERPRETED && trace.symbols.get(frame).is_empty() {
            let symbol = |frame: &FrameFields| Symbol {
                function: trace.strings.intern(&text(&self.functions, frame.function)),
                file: trace.strings.intern(&text(&self.sources, frame.source)),
                line: frame.line,
            };
            let symbols: Vec<Symbol> = group.iter().map(symbol).collect();
            if symbols.iter().any(|symbol| !symbol.function.is_empty()) {
                trace.symbols.set(frame, &symbols);
            }
        }
        (frame, is_kernel)
    }
}

/// A frame of a script as Unhitch exports it: its module, and the place in that.
fn own_script(trace: &mut Trace, path: &str, place: u64, name: &str, line: u32) -> FrameId {
    let file = trace.strings.intern(path);
    let module =
        trace.modules.intern(Module { path: file, kind: ModuleKind::Script, build_id: Vec::new() });
    let frame = trace.stacks.intern_frame(Frame { module, offset: place });
    if name != path {
        let function = trace.strings.intern(name);
        trace.symbols.set_once(frame, Symbol { function, file, line });
    }
    frame
}

/// A function that an interpreter executes.
fn script(trace: &mut Trace, out: &mut Frames, source: &str, name: &str, line: u32) -> FrameId {
    let path = trace.strings.intern(source);
    let module = Module { path, kind: ModuleKind::Script, build_id: Vec::new() };
    let function: NameId = trace.strings.intern(name);
    let frame = out.numbered(trace, module, function, line);
    trace.symbols.set_once(frame, Symbol { function, file: path, line });
    frame
}
