//! Stacks as text: the functions that mean something, in order, and the responsible one.

use super::function_names::{is_about_lock, is_own_primitive, is_primitive, is_scaffold, shorten};
use super::layer::Layer;
use crate::{Analysis, WaitClass};
use unhitch_model::{FrameId, ModuleKind, StackId};

/// Maximum functions of a stack on one line.
const MAX_NAMES: usize = 7;
/// Maximum functions of the program when the kernel has many.
const MAX_USER: usize = 4;
/// Maximum functions of the program in a table.
const MAX_BRIEF_USER: usize = 3;
/// Maximum functions of the kernel after those.
const MAX_BRIEF_KERNEL: usize = 2;
/// Maximum functions of the kernel without any of the program.
const MAX_BRIEF_KERNEL_ALONE: usize = 4;

/// The meaningful functions of a stack, root first, without the tracer, the scheduler, and what
/// starts every program.
pub fn stack_functions(analysis: &Analysis<'_>, stack: StackId) -> Vec<String> {
    let frames = analysis.trace.stacks.frames_of(stack);
    functions_of(analysis, &frames[analysis.stacks.noise_len(stack).min(frames.len())..])
}

/// The same for frames, leaf first.
fn functions_of(analysis: &Analysis<'_>, frames: &[FrameId]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for &frame in frames.iter().rev() {
        names.extend(function_of(analysis, frame));
    }
    names.dedup();
    names
}

/// The function of a frame: the one that holds the code, not those inlined into it, so that there is one
/// name per frame, and one that an engineer can look up. Of code that only starts a program (`main`), the
/// outermost function that was inlined into it, if there is one.
fn function_of(analysis: &Analysis<'_>, frame: FrameId) -> Option<String> {
    analysis.trace.frame_names(frame).into_iter().rev().find(|name| !is_scaffold(name))
}

/// The same; nothing for code without a name.
fn named_function_of<'t>(analysis: &Analysis<'t>, frame: FrameId) -> Option<&'t str> {
    let symbols = analysis.trace.symbols.get(frame).iter().rev();
    symbols.map(|symbol| analysis.trace.name(symbol.function)).find(|name| !is_scaffold(name))
}

/// The same on one line: `a → b → … → y → z`. A long stack is reduced to the innermost functions of
/// the program, what they called in a runtime library, and the innermost functions of the kernel.
pub fn stack_text(analysis: &Analysis<'_>, stack: StackId) -> String {
    stack_text_without(analysis, stack, analysis.stacks.noise_len(stack))
}

/// The same without the first `below` frames of the stack, the leaf's.
pub fn stack_text_without(analysis: &Analysis<'_>, stack: StackId, below: usize) -> String {
    let frames = analysis.trace.stacks.frames_of(stack);
    let below = below.min(frames.len());
    let kernel_len = analysis.trace.stacks.kernel_len(stack).min(frames.len()).max(below);
    let (kernel, user) = frames.split_at(kernel_len);
    let kernel = functions_of(analysis, &kernel[below..]);
    let is_programs = |frame: &FrameId| analysis.stacks.layer(*frame) == Layer::Program;
    let in_library = user.iter().take_while(|frame| !is_programs(frame)).count();
    let mut user = functions_of(analysis, user);
    let max_user = MAX_NAMES.saturating_sub(kernel.len()).max(MAX_USER);
    let max_kernel = MAX_NAMES.saturating_sub(user.len().min(max_user));
    let own = functions_of(analysis, &frames[frames.len().min(kernel_len + in_library)..]).len();
    let called = match user.len() > max_user && own > 0 && user.len() > own + 1 {
        true => vec![shorten(&user.drain(own..).next().unwrap_or_default()), "…".to_owned()],
        false => Vec::new(),
    };
    let user = innermost(&user, max_user.saturating_sub(called.len() / 2));
    let mut names: Vec<String> =
        user.into_iter().chain(called).chain(innermost(&kernel, max_kernel)).collect();
    names.dedup();
    match names.is_empty() {
        true => no_stack(stack).to_owned(),
        false => names.join(" → "),
    }
}

/// What is shown in place of a stack that is empty.
pub fn no_stack(stack: StackId) -> &'static str {
    match stack {
        StackId::OVER_BUDGET => "(no stack: over the budget)",
        _ => "(no stack was recorded)",
    }
}

/// The same for the frames of a stack (leaf first, the first `kernel_len` of them the kernel's), short enough for
/// a table: the program's innermost functions, and where in the kernel they ended up.
pub fn brief_stack_text(
    analysis: &Analysis<'_>,
    stack: StackId,
    frames: &[FrameId],
    kernel_len: usize,
) -> String {
    let (kernel, user) = frames.split_at(kernel_len.min(frames.len()));
    let [mut user, mut kernel] = [user, kernel].map(|frames| {
        functions_of(analysis, frames).iter().map(|name| shorten(name)).collect::<Vec<_>>()
    });
    user.drain(..user.len().saturating_sub(MAX_BRIEF_USER));
    let max_kernel = if user.is_empty() { MAX_BRIEF_KERNEL_ALONE } else { MAX_BRIEF_KERNEL };
    if kernel.len() > max_kernel {
        kernel.drain(..kernel.len() - max_kernel);
        kernel.insert(0, "…".to_owned());
    }
    match user.into_iter().chain(kernel).collect::<Vec<_>>() {
        names if names.is_empty() && frames.is_empty() => no_stack(stack).to_owned(),
        names if names.is_empty() => "(only the code that starts every program)".to_owned(),
        names => names.join(" → "),
    }
}

/// The responsible function: on a stack that takes or releases a lock, waits or wakes, the deepest
/// one that is the program's own; if there is none, its runtime's, what a program without names called
/// in a system library, or what it called to wait.
pub fn own_function(analysis: &Analysis<'_>, stack: StackId) -> String {
    let frames = analysis.trace.stacks.frames_of(stack);
    let user = analysis.stacks.without_machinery(analysis.trace.stacks.user_frames(stack));
    // What takes or releases a lock may be called `lock_volume`: who wanted that says more.
    let takes_lock =
        analysis.stacks.class(stack) == WaitClass::Lock || analysis.stacks.is_unlock(stack);
    let deepest_of = |layer: Layer| {
        user.iter().filter(|frame| analysis.stacks.layer(**frame) == layer).find_map(|&frame| {
            let name = named_function_of(analysis, frame)?;
            let is_primitive = match layer {
                // What a script calls `keep_lock` is no lock, but the program's use of one.
                _ if is_script(analysis, frame) => false,
                Layer::Program => is_own_primitive(name) || takes_lock && is_about_lock(name),
                _ => is_primitive(name),
            };
            (!is_primitive).then(|| name.to_owned())
        })
    };
    let own = deepest_of(Layer::Program).or_else(|| deepest_of(Layer::Runtime));
    // Otherwise the kernel's, but not the tracer's or the scheduler's.
    let leaf = || {
        frames
            .iter()
            .skip(analysis.stacks.noise_len(stack))
            .find(|frame| !is_cut(analysis, **frame))
    };
    let called_to_wait = || {
        let all = analysis.trace.stacks.user_frames(stack).iter();
        let mut own = all.filter(|frame| analysis.stacks.layer(**frame) != Layer::System);
        own.find_map(|&frame| {
            named_function_of(analysis, frame).filter(|name| !is_primitive(name)).map(str::to_owned)
        })
    };
    own.or_else(|| called_in_library(analysis, user))
        .or_else(called_to_wait)
        .or_else(|| called_in_library(analysis, analysis.trace.stacks.user_frames(stack)))
        .or_else(|| deepest_function(analysis, stack))
        .or_else(|| leaf().and_then(|&frame| analysis.trace.frame_names(frame).into_iter().next()))
        .unwrap_or_default()
}

/// The function by which an idle thread waits for its next order (`pq_getbyte`): the outermost of
/// those that only implement the wait. The loop around it would say nothing.
pub fn idle_function(analysis: &Analysis<'_>, stack: StackId) -> String {
    let user = analysis.trace.stacks.user_frames(stack);
    let machinery = user.len() - analysis.stacks.without_machinery(user).len();
    let outermost = user[..machinery].last();
    outermost
        .and_then(|&frame| analysis.trace.frame_names(frame).pop())
        .unwrap_or_else(|| own_function(analysis, stack))
}

/// The function of a system library that the program called. The frames are the leaf first.
fn called_in_library(analysis: &Analysis<'_>, frames: &[FrameId]) -> Option<String> {
    let in_library =
        frames.iter().take_while(|frame| analysis.stacks.layer(**frame) == Layer::System);
    let names = in_library.filter_map(|&frame| named_function_of(analysis, frame));
    names.filter(|name| !is_primitive(name)).last().map(str::to_owned)
}

/// The deepest function of a stack, the kernel's included, that does more than implement a lock, a
/// wait or a wake-up.
pub fn deepest_function(analysis: &Analysis<'_>, stack: StackId) -> Option<String> {
    let frames =
        analysis.trace.stacks.frames_of(stack).iter().skip(analysis.stacks.noise_len(stack));
    let code =
        frames.filter(|frame| !is_cut(analysis, **frame) && !analysis.stacks.is_tracer(**frame));
    code.filter_map(|&frame| function_of(analysis, frame)).find(|name| !is_primitive(name))
}

/// True for the frame that stands for the cut end of a stack; it is no code.
pub fn is_cut(analysis: &Analysis<'_>, frame: FrameId) -> bool {
    is_in(analysis, frame, ModuleKind::Cut)
}

/// True for what an interpreter executes.
fn is_script(analysis: &Analysis<'_>, frame: FrameId) -> bool {
    is_in(analysis, frame, ModuleKind::Script)
}

fn is_in(analysis: &Analysis<'_>, frame: FrameId, kind: ModuleKind) -> bool {
    let code = analysis.trace.stacks.frame(frame);
    let module = code.and_then(|code| analysis.trace.modules.get(code.module));
    module.is_some_and(|module| module.kind == kind)
}

/// The last `max` of the names, after a `…` if some were left out.
fn innermost(names: &[String], max: usize) -> Vec<String> {
    let first = names.len().saturating_sub(max);
    let mut names: Vec<String> = names[first..].iter().map(|name| shorten(name)).collect();
    if first > 0 {
        names.insert(0, "…".to_owned());
    }
    names
}
