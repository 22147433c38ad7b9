//! Prints a wait stack of each kind that has words, as `crates/analysis/tests/stacks.txt` keeps them:
//! `cargo run --release -p unhitch-golden --example wait_stacks -- TRACE…`. Of several stacks, the one
//! with the fewest frames that is not cut.

use std::collections::BTreeMap;
use unhitch_analysis::{Analysis, Rules, text};
use unhitch_model::{FrameId, ModuleKind, StackId, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = Rules::default();
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for path in std::env::args().skip(1) {
        let trace = unhitch_formats::open(path.as_ref())?;
        let analysis = Analysis::new(&trace, &rules);
        for stack in wait_stacks(&trace) {
            let Some(words) = analysis.stacks.words(stack) else { continue };
            let frames = trace.stacks.frames_of(stack);
            let cost = frames.len() + 1000 * usize::from(is_cut(&trace, frames));
            if found.get(words).is_none_or(|(shortest, _)| cost < *shortest) {
                let line = [words, &text::own_function(&analysis, stack), &shown(&trace, stack)]
                    .join("\t");
                found.insert(words.to_owned(), (cost, line));
            }
        }
    }
    for (_, line) in found.values() {
        println!("{line}");
    }
    Ok(())
}

/// Each stack of a thread that was switched out, once.
fn wait_stacks(trace: &Trace) -> Vec<StackId> {
    let mut stacks: Vec<StackId> = trace.switches.stack.clone();
    stacks.sort_unstable();
    stacks.dedup();
    stacks
}

fn is_cut(trace: &Trace, frames: &[FrameId]) -> bool {
    let kind = |frame: &FrameId| {
        trace.modules.get(trace.stacks.frame(*frame)?.module).map(|module| module.kind)
    };
    frames.iter().any(|frame| kind(frame) == Some(ModuleKind::Cut))
}

/// The frames of a stack, leaf first: functions of the kernel, nothing, and then `FILE!function`, or
/// `FILE+0x12` where the file has no name for it.
fn shown(trace: &Trace, stack: StackId) -> String {
    let mut shown: Vec<String> = Vec::new();
    for &frame in trace.stacks.kernel_frames(stack) {
        shown.extend(trace.frame_names(frame));
    }
    shown.push(String::new());
    for &frame in trace.stacks.user_frames(stack) {
        shown.extend(user_frame(trace, frame));
    }
    shown.join(";")
}

fn user_frame(trace: &Trace, frame: FrameId) -> Vec<String> {
    let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
    let Some(module) = module else { return Vec::new() };
    let path = trace.name(module.path);
    let symbols = trace.symbols.get(frame);
    if symbols.is_empty() {
        return trace.frame_names(frame);
    }
    let file = |symbol: &unhitch_model::Symbol| match module.kind {
        ModuleKind::Anonymous { .. } | ModuleKind::Jit { .. } => String::new(),
        kind => {
            let path = if kind == ModuleKind::Script { trace.name(symbol.file) } else { path };
            // What comes with the interpreter is known by its folder.
            let library = path.find("/lib/python3").map(|at| &path[at + 1..]);
            library.unwrap_or_else(|| kind.file_name(path)).to_owned()
        }
    };
    symbols
        .iter()
        .map(|symbol| format!("{}!{}", file(symbol), trace.name(symbol.function)))
        .collect()
}
