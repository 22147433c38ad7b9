//! Ranks functions by the samples in their own code: the leaves of sample stacks, not the functions
//! that they call.
//!
//! *Why by module as well as by name:* statically linked copies of a function have the same name,
//! but different code. Inlined functions count as the function that holds them, because only that
//! one has instructions of its own.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;
use unhitch_model::{FrameId, Module, ModuleId, ModuleKind, NameId, Trace};

/// Maximum gap between samples of one piece of unnamed code, bytes.
const MAX_GAP_BYTES: u64 = 256;

/// One function's own samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelfSamples {
    /// The function, empty for code without a name.
    pub function: NameId,
    /// The module that holds it.
    pub module: ModuleId,
    /// Samples per module offset (see [`ModuleKind`]), with their frame.
    pub at: BTreeMap<u64, (FrameId, u64)>,
    /// The number of all of them.
    pub samples: u64,
}

impl SelfSamples {
    /// The module offsets from the first sample to just after the start of the last.
    pub fn span(&self) -> Range<u64> {
        let first = self.at.first_key_value().map_or(0, |(&offset, _)| offset);
        first..self.at.last_key_value().map_or(first, |(&offset, _)| offset.saturating_add(1))
    }

    /// The function's name, or the range of its samples: `dash+0x1200..0x1280`.
    pub fn label(&self, trace: &Trace) -> String {
        if !self.function.is_empty() {
            return trace.name(self.function).to_owned();
        }
        if trace.modules.get(self.module).is_some_and(|module| module.kind == ModuleKind::Cut) {
            return "code outside all recorded mappings".to_owned();
        }
        let Range { start, end } = self.span();
        let to = if end - start > 1 { format!("..{:#x}", end - 1) } else { String::new() };
        trace.shown(format!("{}+{start:#x}{to}", self.module_name(trace)))
    }

    /// The name of its module's file, without the folder.
    pub fn module_name<'t>(&self, trace: &'t Trace) -> &'t str {
        let path = trace.modules.get(self.module).map_or("?", |module| trace.name(module.path));
        path.rsplit(['/', '\\']).next().unwrap_or(path)
    }
}

/// The functions of the leaves of `samples` (indices of [`Trace::samples`]), most samples first.
pub fn self_samples(trace: &Trace, samples: impl IntoIterator<Item = usize>) -> Vec<SelfSamples> {
    let mut by_frame: FxHashMap<FrameId, u64> = FxHashMap::default();
    for sample in samples {
        let stack = trace.samples.stack.get(sample).copied().unwrap_or_default();
        if let Some(&leaf) = trace.stacks.frames_of(stack).first() {
            *by_frame.entry(leaf).or_default() += 1;
        }
    }
    let one_module = modules_with_their_build(trace);
    let mut functions: BTreeMap<(ModuleId, NameId), BTreeMap<u64, (FrameId, u64)>> =
        BTreeMap::new();
    for (leaf, count) in by_frame {
        let Some(frame) = trace.stacks.frame(leaf) else { continue };
        let module = one_module.get(&frame.module).copied().unwrap_or(frame.module);
        let function =
            trace.symbols.get(leaf).last().map_or(NameId::EMPTY, |symbol| symbol.function);
        let at = functions
            .entry((module, function))
            .or_default()
            .entry(frame.offset)
            .or_insert((leaf, 0));
        *at = (at.0.min(leaf), at.1 + count);
    }
    let mut ranked = Vec::new();
    for ((module, function), at) in functions {
        let places = if function.is_empty() { split_at_gaps(at) } else { vec![at] };
        ranked.extend(places.into_iter().map(|at| {
            let samples = at.values().map(|(_, count)| count).sum();
            SelfSamples { function, module, at, samples }
        }));
    }
    ranked
        .sort_by_key(|place| (std::cmp::Reverse(place.samples), place.module, place.span().start));
    ranked
}

/// Splits unnamed code at gaps without samples.
fn split_at_gaps(at: BTreeMap<u64, (FrameId, u64)>) -> Vec<BTreeMap<u64, (FrameId, u64)>> {
    let mut places: Vec<BTreeMap<u64, (FrameId, u64)>> = Vec::new();
    let mut last = 0;
    for (offset, found) in at {
        match places.last_mut().filter(|_| offset - last <= MAX_GAP_BYTES) {
            Some(place) => drop(place.insert(offset, found)),
            None => places.push(BTreeMap::from([(offset, found)])),
        }
        last = offset;
    }
    places
}

/// For modules without a build id, the module of the same path with a build id, if it is the only
/// one: a file that was mapped before the recording began is also listed without a build id.
fn modules_with_their_build(trace: &Trace) -> FxHashMap<ModuleId, ModuleId> {
    let mut known: FxHashMap<(NameId, ModuleKind), Option<ModuleId>> = FxHashMap::default();
    let key = |module: &Module| (module.path, module.kind);
    for (id, module) in trace.modules.iter().filter(|(_, module)| !module.build_id.is_empty()) {
        known.entry(key(module)).and_modify(|only| *only = None).or_insert(Some(id));
    }
    let unknown = trace.modules.iter().filter(|(_, module)| module.build_id.is_empty());
    unknown.filter_map(|(id, module)| Some((id, (*known.get(&key(module))?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::{Frame, Symbol, ThreadId, Time};

    /// Adds `count` samples at `offset` of `path`, in `functions` (innermost first).
    fn add(
        trace: &mut Trace,
        path: &str,
        build_id: &[u8],
        offset: u64,
        functions: &[&str],
        count: usize,
    ) {
        let path = trace.strings.intern(path);
        let module = trace.modules.intern(Module {
            path,
            kind: ModuleKind::File,
            build_id: build_id.to_vec(),
        });
        let leaf = trace.stacks.intern_frame(Frame { module, offset });
        let caller = trace.stacks.intern_frame(Frame { module, offset: 0x9_0000 });
        let symbols: Vec<Symbol> = functions
            .iter()
            .map(|name| Symbol { function: trace.strings.intern(name), ..Symbol::default() })
            .collect();
        trace.symbols.set(leaf, &symbols);
        let stack = trace.stacks.intern(&[leaf, caller], 0);
        for _ in 0..count {
            trace.samples.time.push(Time::ZERO);
            trace.samples.cpu.push(0);
            trace.samples.thread.push(ThreadId(0));
            trace.samples.stack.push(stack);
        }
    }

    fn ranked(trace: &Trace) -> Vec<(String, u64)> {
        self_samples(trace, 0..trace.samples.len())
            .iter()
            .map(|found| (found.label(trace), found.samples))
            .collect()
    }

    #[test]
    fn functions_are_ranked_by_their_own_samples() {
        let mut trace = Trace::default();
        add(&mut trace, "/bin/a", &[1], 0x10, &["inlined", "busy"], 5);
        add(&mut trace, "/bin/a", &[], 0x18, &["busy"], 2);
        add(&mut trace, "/bin/b", &[2], 0x10, &["busy"], 6);
        assert_eq!(ranked(&trace), [("busy".to_owned(), 7), ("busy".to_owned(), 6)]);
        let first = self_samples(&trace, 0..trace.samples.len()).swap_remove(0);
        assert_eq!(
            trace.modules.get(first.module).unwrap().build_id,
            [1],
            "the build that is known"
        );
        assert_eq!(first.at.values().map(|(_, count)| *count).collect::<Vec<_>>(), [5, 2]);
    }

    #[test]
    fn unnamed_code_is_told_by_where_it_is() {
        let mut trace = Trace::default();
        add(&mut trace, "/bin/dash", &[], 0x1200, &[], 3);
        add(&mut trace, "/bin/dash", &[], 0x1280, &[], 3);
        add(&mut trace, "/bin/dash", &[], 0x8000, &[], 4);
        assert_eq!(
            ranked(&trace),
            [("dash+0x1200..0x1280".to_owned(), 6), ("dash+0x8000".to_owned(), 4)]
        );
        assert_eq!(self_samples(&trace, [100]), []);
    }
}
