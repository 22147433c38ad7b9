//! Where a thread was while it ran, by CPU samples.

use super::self_samples::self_samples;
use crate::Analysis;
use crate::stacks::Layer;
use crate::stacks::function_names::is_scaffold;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use unhitch_model::{FrameId, NameId, StackId, ThreadId, Window};

/// The function that dominates a thread's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotSpot {
    /// A stack with that function in it, for display.
    pub stack: StackId,
    /// The frame of the deepest function that most samples have in common.
    pub frame: FrameId,
    /// Its name.
    pub function: NameId,
    /// The function of a runtime or a library in which it spent its time, deeper on the stack: most
    /// samples are in that one, too. Empty if there is none.
    pub callee: NameId,
    /// Samples inside it (inclusive).
    pub inside: u32,
    /// All counted samples.
    pub total: u32,
}

/// What CPU samples of some threads in some windows show.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Sampled {
    /// All samples.
    pub total: u64,
    /// The deepest function that at least half of them are in.
    pub hot: Option<HotSpot>,
    /// Where they were taken: the functions of their leaves with their counts, most samples first.
    pub leaves: Vec<(String, u64)>,
    /// The same by module.
    pub modules: Vec<(String, u64)>,
}

/// The deepest named function that at least half of the samples inside `runs` are in, whatever
/// their threads; none if there is no such function.
///
/// *Why the program's own first:* half of the samples may also be in a function of the interpreter
/// that runs it, or of the C library, which its author does not know. Without one of its own, the
/// interpreter's says more than the C library's. But what the kernel did for it is told as such.
///
/// *Why at any depth:* where stacks are cut, or their roots were never recorded, equal code
/// stands at different distances from the root.
pub fn hot_spot(analysis: &Analysis<'_>, runs: &[(ThreadId, Window)]) -> Option<HotSpot> {
    let mut by_stack: FxHashMap<StackId, u32> = FxHashMap::default();
    let samples = runs
        .iter()
        .flat_map(|&(thread, window)| analysis.samples.of_thread(analysis.trace, thread, window));
    samples.for_each(|&sample| {
        *by_stack.entry(analysis.trace.samples.stack[sample as usize]).or_default() += 1
    });
    let total: u32 = by_stack.values().sum();
    let mut functions: FxHashMap<NameId, Inclusive> = FxHashMap::default();
    for (&stack, &count) in &by_stack {
        for (distance, frame) in analysis.trace.stacks.frames_of(stack).iter().enumerate() {
            let Some(function) = function_of(analysis, *frame) else { continue };
            let found = functions.entry(function).or_default();
            // A recursive function counts once, where it is deepest.
            if found.last == Some(stack) {
                continue;
            }
            found.last = Some(stack);
            found.samples += count;
            found.distance += u64::from(count) * distance as u64;
            if (count, Reverse(stack)) > (found.stack_samples, Reverse(found.stack)) {
                (found.stack_samples, found.stack, found.frame) = (count, stack, *frame);
            }
        }
    }
    functions.retain(|_, found| found.samples * 2 >= total);
    // By the mean distance from the leaf, compared as fractions.
    let deeper = |(a_name, a): &(NameId, Inclusive), (b_name, b): &(NameId, Inclusive)| {
        let scaled = |one: &Inclusive, by: u32| u128::from(one.distance) * u128::from(by);
        let distances = scaled(a, b.samples).cmp(&scaled(b, a.samples));
        distances.then(b.samples.cmp(&a.samples)).then(a_name.0.cmp(&b_name.0))
    };
    let layer = |found: &Inclusive| analysis.stacks.layer(found.frame);
    let shared: Vec<(NameId, Inclusive)> = functions.into_iter().collect();
    let deepest = *shared.iter().min_by(|a, b| deeper(a, b))?;
    let deepest_of = |of: Layer| {
        shared.iter().filter(|(_, found)| layer(found) == of).min_by(|a, b| deeper(a, b))
    };
    let own = match layer(&deepest.1) {
        Layer::System => deepest_of(Layer::Program).or_else(|| deepest_of(Layer::Runtime)),
        Layer::Runtime => deepest_of(Layer::Program),
        _ => None,
    };
    let (function, found) = own.copied().unwrap_or(deepest);
    Some(HotSpot {
        stack: found.stack,
        frame: found.frame,
        function,
        callee: if own.is_some() { deepest.0 } else { NameId::EMPTY },
        inside: found.samples,
        total,
    })
}

/// Everything that the samples inside `runs` show.
pub fn sampled(analysis: &Analysis<'_>, runs: &[(ThreadId, Window)]) -> Sampled {
    let trace = analysis.trace;
    let all = || {
        runs.iter().flat_map(|&(thread, window)| analysis.samples.of_thread(trace, thread, window))
    };
    let mut sampled = Sampled {
        total: all().count() as u64,
        hot: hot_spot(analysis, runs),
        ..Sampled::default()
    };
    let mut modules: BTreeMap<String, u64> = BTreeMap::new();
    for place in self_samples(trace, all().map(|&sample| sample as usize)) {
        *modules.entry(trace.shown(place.module_name(trace).to_owned())).or_default() +=
            place.samples;
        sampled.leaves.push((place.label(trace), place.samples));
    }
    sampled.modules.extend(modules);
    sampled.modules.sort_by_key(|(_, samples)| Reverse(*samples));
    sampled
}

/// The function that holds a frame's code; none if it has no name, belongs to the tracer, or starts
/// every program. Inlined functions count as the function that holds them: an engineer would look
/// that one up, not the iterator inside it.
fn function_of(analysis: &Analysis<'_>, frame: FrameId) -> Option<NameId> {
    let function = analysis.trace.symbols.get(frame).last()?.function;
    let counts = !function.is_empty()
        && !analysis.stacks.is_tracer(frame)
        && !is_scaffold(analysis.trace.name(function));
    counts.then_some(function)
}

/// The samples with a function on their stacks.
#[derive(Clone, Copy, Default)]
struct Inclusive {
    samples: u32,
    /// Frames between it and the leaf, summed over the samples.
    distance: u64,
    /// The last stack counted.
    last: Option<StackId>,
    /// The stack with the most samples.
    stack: StackId,
    /// The number of these samples.
    stack_samples: u32,
    /// The function's frame on that stack.
    frame: FrameId,
}
