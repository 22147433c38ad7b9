//! Stacks as a person tells them: the functions that mean something, in order, and the one that is
//! responsible.

use crate::Analysis;
use crate::waits::base_name;
use unhitch_model::{FrameId, ModuleKind, StackId, Trace};

/// A told stack names at most so many functions,
const MOST_NAMES: usize = 7;
/// of the program, where the kernel has many, so many.
const MOST_USER: usize = 4;
/// In a table: so many of the program's functions,
const BRIEF_USER: usize = 3;
/// and so many of the kernel's after them,
const BRIEF_KERNEL: usize = 2;
/// or without them.
const BRIEF_KERNEL_ALONE: usize = 4;

impl Analysis<'_> {
    /// The meaningful functions of a stack, root first, without the tracer, the scheduler, and what
    /// starts every program.
    pub fn story(&self, stack: StackId) -> Vec<String> {
        let frames = self.trace.stacks.frames_of(stack);
        self.story_of(&frames[self.facts.noise_len(stack).min(frames.len())..])
    }

    /// The same of frames, leaf first.
    fn story_of(&self, frames: &[FrameId]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for &frame in frames.iter().rev() {
            // The function that the code is in, not those inlined into it: names an engineer can
            // look up, one per frame.
            names.extend(self.trace.frame_names(frame).pop().filter(|name| !is_scaffold(name)));
        }
        names.dedup();
        names
    }

    /// The same on one line: `a → b → … → y → z`. Of a long stack the program's innermost functions
    /// and the kernel's.
    pub fn told(&self, stack: StackId) -> String {
        let frames = self.trace.stacks.frames_of(stack);
        let (kernel, user) = frames.split_at(self.trace.stacks.kernel_len(stack).min(frames.len()));
        let kernel = self.story_of(kernel.get(self.facts.noise_len(stack)..).unwrap_or(&[]));
        let user = self.story_of(user);
        let most_user = MOST_NAMES.saturating_sub(kernel.len()).max(MOST_USER);
        let most_kernel = MOST_NAMES.saturating_sub(user.len().min(most_user));
        let told: Vec<String> = [(user, most_user), (kernel, most_kernel)]
            .iter()
            .flat_map(|(names, most)| innermost(names, *most))
            .collect();
        match told.is_empty() {
            true => "(no stack was recorded)".to_owned(),
            false => told.join(" → "),
        }
    }

    /// The same of frames (leaf first, the first `kernel_len` of them the kernel's), short enough
    /// for a table: the program's innermost functions and where in the kernel they ended up.
    pub fn told_briefly(&self, frames: &[FrameId], kernel_len: usize) -> String {
        let (kernel, user) = frames.split_at(kernel_len.min(frames.len()));
        let [mut user, mut kernel] = [user, kernel].map(|frames| {
            self.story_of(frames).iter().map(|name| shorten(name)).collect::<Vec<_>>()
        });
        user.drain(..user.len().saturating_sub(BRIEF_USER));
        let most = if user.is_empty() { BRIEF_KERNEL_ALONE } else { BRIEF_KERNEL };
        if kernel.len() > most {
            kernel.drain(..kernel.len() - most);
            kernel.insert(0, "…".to_owned());
        }
        match user.into_iter().chain(kernel).collect::<Vec<_>>() {
            names if names.is_empty() && frames.is_empty() => "(no stack was recorded)".to_owned(),
            names if names.is_empty() => "(nothing but what starts every program)".to_owned(),
            names => names.join(" → "),
        }
    }

    /// The function that did it: on a stack that takes or releases a lock, waits or wakes, the
    /// deepest one that is the program's own.
    pub fn own_function(&self, stack: StackId) -> String {
        let frames = self.trace.stacks.frames_of(stack);
        let user = self.trace.stacks.user_frames(stack);
        let own = user.iter().find_map(|&frame| {
            let symbol = self.trace.symbols.get(frame).last()?;
            let name = self.trace.name(symbol.function);
            (!is_runtime(self.trace, frame) && !is_primitive(name) && !is_scaffold(name))
                .then(|| name.to_owned())
        });
        // Of the kernel's own frames neither the tracer's nor the scheduler's.
        let leaf =
            || frames.iter().skip(self.facts.noise_len(stack)).find(|frame| !self.is_cut(**frame));
        own.or_else(|| self.deepest_function(stack))
            .or_else(|| leaf().and_then(|&frame| self.trace.frame_names(frame).into_iter().next()))
            .unwrap_or_default()
    }

    /// The deepest function of a stack, the kernel's included, that does more than carry out a
    /// lock, a wait or a wake-up.
    pub fn deepest_function(&self, stack: StackId) -> Option<String> {
        let frames = self.trace.stacks.frames_of(stack).iter().skip(self.facts.noise_len(stack));
        let code = frames.filter(|frame| !self.is_cut(**frame) && !self.facts.is_tracer(**frame));
        // The function that the code is in, not those inlined into it.
        code.filter_map(|&frame| self.trace.frame_names(frame).pop())
            .find(|name| !is_primitive(name) && !is_scaffold(name))
    }

    /// True for the mark of the place where a stack was cut, which is no code.
    pub fn is_cut(&self, frame: FrameId) -> bool {
        let module =
            self.trace.stacks.frame(frame).and_then(|frame| self.trace.modules.get(frame.module));
        module.is_some_and(|module| module.kind == ModuleKind::Cut)
    }
}

/// True for a frame that is not the program's own: of the C library or another one below every
/// program, or of no file.
pub(crate) fn is_runtime(trace: &Trace, frame: FrameId) -> bool {
    const LIBRARIES: [&str; 8] = [
        "libc.so",
        "libc-",
        "libpthread",
        "ld-linux",
        "ld-musl",
        "libstdc++",
        "mscorlib.",
        "System.Private.CoreLib.",
    ];
    let Some(module) = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module))
    else {
        return true;
    };
    let path = trace.name(module.path);
    !module.kind.is_program() || LIBRARIES.iter().any(|part| path.contains(part))
}

/// The last `most` of the names, with a sign of what was left out before them.
fn innermost(names: &[String], most: usize) -> Vec<String> {
    let first = names.len().saturating_sub(most);
    let mut told: Vec<String> = names[first..].iter().map(|name| shorten(name)).collect();
    if first > 0 {
        told.insert(0, "…".to_owned());
    }
    told
}

/// Functions below or above every program's own.
pub(crate) fn is_scaffold(name: &str) -> bool {
    const EXACT: &[&str] = &[
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "main",
        "clone",
        "clone3",
        "__clone3",
        "start_thread",
        "ret_from_fork",
        "ret_from_fork_asm",
        "entry_SYSCALL_64_after_hwframe",
        "do_syscall_64",
        "x64_sys_call",
        "__x64_sys_futex",
        "do_futex",
        "asm_common_interrupt",
        "asm_sysvec_apic_timer_interrupt",
        "sysvec_apic_timer_interrupt",
        "rust_begin_unwind",
        "syscall",
        "__GI___clone3",
        "__GI___clone",
    ];
    const PARTS: &[&str] = &[
        "std::rt::",
        "std::sys::",
        "std::panic",
        "std::thread::",
        "core::ops::function::",
        "__rust_begin_short_backtrace",
        "__rust_try",
        "alloc::boxed::Box<",
        "as core::ops::",
    ];
    EXACT.contains(&base_name(name)) || PARTS.iter().any(|part| name.contains(part))
}

/// Functions that only carry out a lock, a wait or a wake-up for someone.
fn is_primitive(name: &str) -> bool {
    const PARTS: &[&str] = &[
        "lock",
        "futex",
        "mutex",
        "pthread_",
        "sem_",
        "condvar",
        "guard",
        "drop_in_place",
        "wake",
        "leavecrit",
        "exrelease",
        "schedule",
        "syscall",
        "__x64_sys_",
        "_slowpath",
    ];
    const EXACT: &[&str] = &["up_read", "up_write", "up", "complete", "complete_all"];
    let lower = base_name(name).to_ascii_lowercase();
    // Only the function's own name counts, not the path before it: `lock_lab::scan` is no lock.
    let last = lower
        .rsplit("::")
        .find(|part| !part.is_empty() && !part.starts_with('h') | (part.len() != 17))
        .unwrap_or(&lower);
    // Nor Go's, or Java's: `lockfree.(*Queue).Push` is none.
    let last = last
        .rsplit_once('.')
        .map_or(last, |(_, own)| if own.starts_with(char::is_alphabetic) { own } else { last });
    EXACT.contains(&last) || PARTS.iter().any(|part| last.contains(part))
}

/// A name without template and generic arguments when it is long, and without the beginning of its
/// path when it still is.
fn shorten(name: &str) -> String {
    const LONG: usize = 48;
    let is_long = |name: &str| name.chars().count() > LONG;
    if !is_long(name) {
        return name.to_owned();
    }
    let mut depth = 0;
    let kept: String = name
        .chars()
        .filter(|&c| {
            depth += i32::from(c == '<');
            let keep = depth == 0;
            depth -= i32::from(c == '>');
            keep
        })
        .collect();
    if !is_long(&kept) {
        return kept;
    }
    let mut tail = kept.as_str();
    while let Some((_, rest)) = tail.split_once("::").filter(|_| is_long(tail)) {
        tail = rest;
    }
    match tail.chars().count() {
        n if n <= LONG => format!("…::{tail}"),
        n => format!("…{}", tail.chars().skip(n - LONG).collect::<String>()),
    }
}
