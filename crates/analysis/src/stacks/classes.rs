//! What each stack of a trace means, computed once per stack: wait class, signature, event-loop
//! pump, context of a wake-up, and the frames that are worth showing.
//!
//! Two waits are "the same" when their signatures are equal: the function names of the stack below
//! the scheduler's own frames. *Why names, not addresses:* two return addresses in one slow path
//! are one wait.

use super::layer::Layer;
use super::rule_file::FrameRole;
use super::rules::{Matches, Rules, WaitStack};
use super::wait_class::{InterruptSource, Wait, WaitClass};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use unhitch_model::{FrameId, ModuleKind, StackId, Trace, WakeFlags};

/// What a stack was recorded for, which decides which of its frames mean something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StackKind {
    /// Where a thread left its CPU to wait.
    Wait,
    /// From where a thread was woken.
    Wake,
    /// What a CPU was seen executing.
    Sample,
}

impl StackKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Wake, Self::Sample];

    /// The word in options and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Wake => "wake",
            Self::Sample => "sample",
        }
    }

    /// The kind that a word means.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The context of a wake-up, and so whether the current task is responsible for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WakeContext {
    /// By the current task itself.
    Task,
    /// By an interrupt: the current task is a bystander.
    Interrupt,
    /// By a soft interrupt that the task ran itself (loopback networking): the task is responsible.
    SoftirqSync,
    /// While the CPU was idle: an interrupt, whatever the flags say.
    Idle,
    /// By a kernel worker on behalf of the thread that queued the work.
    Worker,
}

impl WakeContext {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task | Self::Worker => "task",
            Self::Interrupt => "interrupt",
            Self::SoftirqSync => "softirq_sync",
            Self::Idle => "idle",
        }
    }

    /// True when the current task caused the wake-up.
    pub const fn is_task(self) -> bool {
        matches!(self, Self::Task | Self::SoftirqSync | Self::Worker)
    }
}

/// A wake-up's context and, for interrupts, their source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WakeSource {
    /// The context.
    pub context: WakeContext,
    /// The source of the interrupt, if it was one.
    pub interrupt: Option<InterruptSource>,
}

#[derive(Clone, Copy, Default)]
struct StackClass {
    wait: Wait,
    unlocks: bool,
    exits: bool,
    debugger: bool,
    asks_server: bool,
    file_server: bool,
    serves_disk: bool,
    closes: bool,
    for_readers: bool,
    sole_owner: bool,
    thaws: bool,
    signals: bool,
    kernel_thread: bool,
    softirq_by_task: bool,
    interrupt: InterruptSource,
    noise: u16,
    interrupt_len: u16,
    signature: u64,
    caller: u64,
}

impl StackClass {
    /// True for a wake-up by an interrupt, whatever it interrupted: also by the threads that handle
    /// interrupts in their stead.
    fn is_interrupt(&self, flags: WakeFlags) -> bool {
        flags.has(WakeFlags::HARDIRQ) || flags.has(WakeFlags::NMI) || self.interrupt_len > 0
    }
}

/// Minimum frames per core. A second core looks the same names up again, which fewer frames do not
/// make up for.
const MIN_FRAMES_PER_CORE: usize = 1 << 14;

/// The meaning of every stack of a trace.
pub struct StackClasses {
    stacks: Vec<StackClass>,
    /// What frames mean by themselves, by id.
    frames: Vec<FrameMeaning>,
    /// What programs' users call their waits.
    words: Vec<String>,
    /// What helps whoever waits too long, by those words.
    advice: BTreeMap<String, String>,
}

/// What a frame means by itself.
#[derive(Clone, Copy)]
struct FrameMeaning {
    layer: Layer,
    /// It is there only because of the recording.
    tracer: bool,
    /// It only implements a lock or a wait for its caller.
    machinery: bool,
    /// It goes round and round, until when.
    spins: Option<SpinsFor>,
}

/// What a function goes round and round for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpinsFor {
    /// A lock.
    Lock,
    /// What another thread or process does.
    Event,
}

impl SpinsFor {
    fn of(frame: &FrameClass) -> Option<Self> {
        match (frame.is(FrameRole::Spin), frame.is(FrameRole::BusyWait)) {
            (true, _) => Some(Self::Lock),
            (false, true) => Some(Self::Event),
            (false, false) => None,
        }
    }
}

impl StackClasses {
    /// Classifies every stack by `rules`.
    pub fn new(trace: &Trace, rules: &Rules) -> Self {
        let modules = ModuleClasses {
            layers: rules.layers.of_modules(trace),
            patterns: (trace.modules.iter())
                .map(|(_, module)| rules.patterns_of_module(trace.name(module.path)))
                .collect(),
        };
        let frames: Vec<FrameClass> = (0..trace.stacks.frames().len() as u32)
            .into_par_iter()
            .with_min_len(MIN_FRAMES_PER_CORE)
            .map_init(FxHashMap::default, |patterns_of_name, index| {
                frame_class(trace, rules, &modules.layers, FrameId(index), patterns_of_name)
            })
            .collect();
        let stacks = (0..trace.stacks.len() as u32)
            .into_par_iter()
            .map_init(Matches::default, |matches, id| {
                stack_class(trace, rules, StackId(id), (&frames, &modules), matches)
            })
            .collect();
        let meaning = |frame: FrameClass| FrameMeaning {
            layer: frame.layer,
            tracer: frame.is(FrameRole::Tracer),
            machinery: rules.is_machinery(&frame.patterns),
            spins: SpinsFor::of(&frame),
        };
        let frames = frames.into_iter().map(meaning).collect();
        Self {
            stacks,
            frames,
            words: rules.all_words().to_vec(),
            advice: rules.all_advice().clone(),
        }
    }

    /// True for a frame that is there only because of the recording.
    pub fn is_tracer(&self, frame: FrameId) -> bool {
        self.frames.get(frame.index()).is_some_and(|frame| frame.tracer)
    }

    /// For what a function goes round and round, if it does.
    pub(crate) fn spins_for(&self, frame: FrameId) -> Option<SpinsFor> {
        self.frames.get(frame.index())?.spins
    }

    /// Whose code a frame is.
    pub fn layer(&self, frame: FrameId) -> Layer {
        self.frames.get(frame.index()).map_or(Layer::Unknown, |frame| frame.layer)
    }

    /// The frames (leaf first) without those that only implement the lock or the wait that the
    /// others wanted. A library that called the program, as a toolkit's loop does, implements nothing
    /// that the program then waits for.
    pub(crate) fn without_machinery<'f>(&self, frames: &'f [FrameId]) -> &'f [FrameId] {
        let (mut implemented, mut in_program) = (0, false);
        for (index, frame) in frames.iter().enumerate() {
            let is_machinery = self.frames.get(frame.index()).is_some_and(|frame| frame.machinery);
            let is_programs = self.layer(*frame) == Layer::Program;
            match is_machinery {
                true if is_programs || !in_program => implemented = index + 1,
                true => {}
                false => in_program |= is_programs,
            }
        }
        &frames[implemented..]
    }

    /// What its program's users call a wait with this stack, if a rule says so: `row lock of
    /// PostgreSQL`.
    pub fn words(&self, wait_stack: StackId) -> Option<&str> {
        self.words.get(usize::from(self.get(wait_stack).wait.words?)).map(String::as_str)
    }

    /// What helps whoever waits too long with this stack, if a rule has words for the wait.
    pub(crate) fn advice(&self, wait_stack: StackId) -> Option<&str> {
        self.advice.get(self.words(wait_stack)?).map(String::as_str)
    }

    fn get(&self, stack: StackId) -> StackClass {
        self.stacks.get(stack.index()).or(self.stacks.first()).copied().unwrap_or_default()
    }

    /// The class of a wait on this stack.
    pub fn class(&self, wait_stack: StackId) -> WaitClass {
        self.get(wait_stack).wait.class
    }

    /// The class of a wait with this stack that ended by a wake-up from `wake_stack`: a bare futex
    /// wait ended by an unlock was a lock, and since Linux 6.1 a sleeper is frozen where it sleeps.
    pub fn class_with_wake(&self, wait_stack: StackId, wake_stack: StackId) -> WaitClass {
        let wake = self.get(wake_stack);
        let wait = self.get(wait_stack).wait;
        match wait.class {
            _ if wake.thaws => WaitClass::Stopped,
            WaitClass::Condition if wake.unlocks && !wait.message => WaitClass::Lock,
            class => class,
        }
    }

    /// True when the stack ends a process.
    pub fn exits(&self, stack: StackId) -> bool {
        self.get(stack).exits
    }

    /// True when on this stack a debugger lets the thread go on that it traces.
    pub(crate) fn is_debuggers(&self, wake_stack: StackId) -> bool {
        self.get(wake_stack).debugger
    }

    /// True when on this stack a lock is handed over.
    pub(crate) fn is_unlock(&self, wake_stack: StackId) -> bool {
        self.get(wake_stack).unlocks
    }

    /// True for a wait for the answer of the program that serves a file system.
    pub(crate) fn asks_server(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).asks_server
    }

    /// True for a wait until all readers of a lock had let it go, unless who woke the thread had it
    /// alone.
    pub(crate) fn waited_for_readers(&self, wait_stack: StackId, wake_stack: StackId) -> bool {
        self.get(wait_stack).for_readers && !self.get(wake_stack).sole_owner
    }

    /// True when such a program waits for requests on this stack.
    pub(crate) fn is_file_server(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).file_server
    }

    /// True when a kernel worker does a request of a disk that is a file on this stack.
    pub(crate) fn serves_disk(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).serves_disk
    }

    /// True when on this stack a file or a connection is closed: who is woken by that was asked nothing.
    pub(crate) fn closes(&self, wake_stack: StackId) -> bool {
        self.get(wake_stack).closes
    }

    /// True when on this stack a control group, or the whole machine, is frozen no longer.
    pub(crate) fn thaws(&self, wake_stack: StackId) -> bool {
        self.get(wake_stack).thaws
    }

    /// True when on this stack a signal is sent, which interrupts a wait without ending its cause.
    pub(crate) fn signals(&self, wake_stack: StackId) -> bool {
        self.get(wake_stack).signals
    }

    /// True when the stack is a kernel thread's.
    pub fn is_kernel_thread(&self, stack: StackId) -> bool {
        self.get(stack).kernel_thread
    }

    /// True when the stack is an event loop waiting for its next event.
    pub fn is_pump(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).wait.pump
    }

    /// True when a toolkit for windows waits for its next event on this stack.
    pub(crate) fn is_toolkit(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).wait.toolkit
    }

    /// True when no thread chooses a wait on this stack, however short or regular.
    pub fn is_unwanted(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).wait.unwanted
    }

    /// True when whoever has what is waited for on this stack is on a CPU all the time.
    pub(crate) fn holder_runs(&self, wait_stack: StackId) -> bool {
        self.get(wait_stack).wait.holder_runs
    }

    /// Equal for waits of the same code; 0 without a stack.
    pub fn signature(&self, wait_stack: StackId) -> u64 {
        self.get(wait_stack).signature
    }

    /// True for two waits of one piece of code: the same functions, or different calls from the
    /// same line of the program.
    pub fn is_same_caller(&self, one: StackId, other: StackId) -> bool {
        let (one, other) = (self.get(one), self.get(other));
        (one.signature != 0 && one.signature == other.signature)
            || (one.caller != 0 && one.caller == other.caller)
    }

    /// The number of leading frames (leaf side) that belong to the tracer and the scheduler.
    pub fn noise_len(&self, stack: StackId) -> usize {
        usize::from(self.get(stack).noise)
    }

    /// The frames of a wake stack that belong to the waker: in an interrupt, those of the interrupt
    /// and not those of the bystander.
    pub fn own_frames<'t>(&self, trace: &'t Trace, stack: StackId) -> &'t [FrameId] {
        let frames = trace.stacks.frames_of(stack);
        match usize::from(self.get(stack).interrupt_len) {
            0 => frames,
            len => &frames[..len.min(frames.len())],
        }
    }

    /// The frames that mean something, leaf first, and how many of them are the kernel's: of waits
    /// and wake-ups without the tracer's and the scheduler's frames, of an interrupt's wake-up
    /// without the bystander's, of samples all. Empty for a stack of nothing else.
    pub fn trimmed<'t>(
        &self,
        trace: &'t Trace,
        kind: StackKind,
        stack: StackId,
    ) -> (&'t [FrameId], usize) {
        let own = self.untrimmed(trace, kind, stack);
        let noise = if kind == StackKind::Sample { 0 } else { self.noise_len(stack) };
        let noise = noise.min(own.len());
        (&own[noise..], trace.stacks.kernel_len(stack).saturating_sub(noise))
    }

    /// The same, but all frames where there are none but the tracer's and the scheduler's.
    pub fn frames<'t>(&self, trace: &'t Trace, kind: StackKind, stack: StackId) -> &'t [FrameId] {
        match self.trimmed(trace, kind, stack).0 {
            [] => self.untrimmed(trace, kind, stack),
            frames => frames,
        }
    }

    /// The frames, leaf first, with the tracer's and the scheduler's, but without a bystander's.
    pub(crate) fn untrimmed<'t>(
        &self,
        trace: &'t Trace,
        kind: StackKind,
        stack: StackId,
    ) -> &'t [FrameId] {
        match kind {
            StackKind::Wake => self.own_frames(trace, stack),
            StackKind::Wait | StackKind::Sample => trace.stacks.frames_of(stack),
        }
    }

    /// Whether the current task caused wake-up number `index`: [`Self::wake_source`]'s
    /// `context.is_task()`, but faster.
    pub fn is_by_task(&self, trace: &Trace, index: usize) -> bool {
        let (flags, stack) = (trace.wakings.flags[index], self.get(trace.wakings.stack[index]));
        let by_task = !flags.has(WakeFlags::SOFTIRQ) || stack.softirq_by_task;
        !trace.wakings.waker[index].is_idle() && !stack.is_interrupt(flags) && by_task
    }

    /// The context of wake-up number `index`.
    pub fn wake_source(&self, trace: &Trace, index: usize) -> WakeSource {
        let (flags, stack) = (trace.wakings.flags[index], self.get(trace.wakings.stack[index]));
        let interrupt = stack.is_interrupt(flags);
        let waker = trace.wakings.waker[index];
        let context = if flags.has(WakeFlags::SOFTIRQ)
            && !interrupt
            && stack.softirq_by_task
            && !waker.is_idle()
        {
            WakeContext::SoftirqSync
        } else if waker.is_idle() {
            WakeContext::Idle
        } else if interrupt || flags.has(WakeFlags::SOFTIRQ) {
            WakeContext::Interrupt
        } else if trace.thread_name(waker, trace.wakings.time[index]).starts_with("kworker/") {
            WakeContext::Worker
        } else {
            WakeContext::Task
        };
        WakeSource { context, interrupt: (!context.is_task()).then_some(stack.interrupt) }
    }
}

/// What modules mean, by id.
struct ModuleClasses {
    layers: Vec<Layer>,
    /// The patterns that their files match.
    patterns: Vec<Vec<u16>>,
}

struct FrameClass {
    patterns: Vec<u16>,
    /// It belongs to the tracer or the scheduler.
    noise: bool,
    roles: Vec<FrameRole>,
    identity: u64,
    layer: Layer,
}

impl FrameClass {
    fn is(&self, role: FrameRole) -> bool {
        self.roles.contains(&role)
    }
}

fn frame_class(
    trace: &Trace,
    rules: &Rules,
    modules: &[Layer],
    frame: FrameId,
    cache: &mut FxHashMap<u32, Vec<u16>>,
) -> FrameClass {
    let symbols = trace.symbols.get(frame);
    let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
    // A function of a script may be called `poll`, too: its patterns name its file.
    let is_script = module.is_some_and(|module| module.kind == ModuleKind::Script);
    let mut class = FrameClass {
        patterns: Vec::new(),
        noise: !symbols.is_empty() && !is_script,
        roles: Vec::new(),
        identity: u64::from(frame.0),
        layer: rules.layers.of_frame(trace, frame, modules),
    };
    for symbol in symbols.iter().filter(|_| is_script) {
        let [file, function] = [symbol.file, symbol.function].map(|name| trace.name(name));
        class.patterns.extend(rules.patterns_of_script(file, function));
    }
    for symbol in symbols.iter().filter(|_| !is_script) {
        let name = trace.name(symbol.function);
        let patterns =
            cache.entry(symbol.function.0).or_insert_with(|| rules.patterns_matching(name));
        let roles = rules.roles(patterns);
        class.noise &=
            roles.iter().any(|role| matches!(role, FrameRole::Tracer | FrameRole::Scheduler));
        class.roles.extend(roles);
        class.patterns.extend_from_slice(patterns);
    }
    if let Some(outermost) = symbols.last() {
        class.identity = u64::from(outermost.function.0) | 1 << 40;
    }
    class
}

/// The patterns of the file that holds the innermost frame above the system's libraries.
fn innermost_module<'m>(
    trace: &Trace,
    id: StackId,
    frames: &[FrameClass],
    modules: &'m ModuleClasses,
) -> &'m [u16] {
    let is_programs = |frame: &&FrameId| {
        frames.get(frame.index()).is_some_and(|class| !class.layer.is_below_programs())
    };
    let innermost = trace.stacks.user_frames(id).iter().find(is_programs);
    innermost
        .and_then(|frame| trace.stacks.frame(*frame))
        .and_then(|frame| modules.patterns.get(frame.module.index()))
        .map_or(&[], Vec::as_slice)
}

fn stack_class(
    trace: &Trace,
    rules: &Rules,
    id: StackId,
    (frames, modules): (&[FrameClass], &ModuleClasses),
    matches: &mut Matches,
) -> StackClass {
    let list = trace.stacks.frames_of(id);
    let classes = || list.iter().filter_map(|frame| frames.get(frame.index()));
    let kernel = || classes().take(trace.stacks.kernel_len(id));
    let noise = kernel().take_while(|class| class.noise).count();
    // In an interrupt, the frames that called its entry are a bystander's and mean nothing.
    let entry = kernel().position(|class| class.is(FrameRole::InterruptEntry));
    let delivers = || kernel().any(|class| class.is(FrameRole::LocalDelivery));
    let softirq = kernel().position(|class| class.is(FrameRole::SoftirqInTask));
    let entry = entry.or(softirq.filter(|_| !delivers()));
    let own = || classes().take(entry.map_or(list.len(), |entry| entry + 1));
    matches.clear();
    own().for_each(|class| matches.add(&class.patterns));
    if entry.is_none() {
        matches.add(innermost_module(trace, id, frames, modules));
    }
    let mut hasher = FxHasher::default();
    classes().skip(noise).for_each(|class| class.identity.hash(&mut hasher));
    // Call sites, not names: one function may wait for several things.
    let program = list
        .iter()
        .zip(classes())
        .skip(trace.stacks.kernel_len(id))
        .skip_while(|(_, class)| class.layer.is_below_programs())
        .map(|(frame, _)| frame);
    let mut caller = FxHasher::default();
    let has_program = program.inspect(|frame| frame.hash(&mut caller)).count() > 0;
    let patterns = |frame: usize| {
        list.get(frame)
            .and_then(|frame| frames.get(frame.index()))
            .map_or(&[][..], |class| &class.patterns)
    };
    let kernel_len = trace.stacks.kernel_len(id).min(entry.unwrap_or(usize::MAX));
    let has = |role: FrameRole| own().any(|class| class.is(role));
    let wait = rules.wait(WaitStack { matches, kernel: kernel_len, noise, patterns });
    StackClass {
        wait,
        unlocks: has(FrameRole::Unlock),
        exits: has(FrameRole::Exit),
        debugger: has(FrameRole::Debugger),
        asks_server: has(FrameRole::AsksServer),
        file_server: has(FrameRole::FileServer),
        serves_disk: has(FrameRole::ServesDisk),
        closes: has(FrameRole::Closes),
        for_readers: has(FrameRole::WaitsForReaders),
        sole_owner: has(FrameRole::WasSoleOwner),
        // A control group that is to be frozen signals to its tasks, in the same function.
        thaws: has(FrameRole::Thaw) && !has(FrameRole::Signal),
        signals: has(FrameRole::Signal),
        kernel_thread: classes().take(kernel_len).any(|class| class.is(FrameRole::KernelThread)),
        softirq_by_task: entry.is_none() && softirq.is_some(),
        interrupt: rules.interrupt_source(matches),
        noise: noise as u16,
        interrupt_len: entry.map_or(0, |entry| entry as u16 + 1),
        signature: if list.is_empty() { 0 } else { hasher.finish() | 1 },
        caller: if has_program { caller.finish() | 1 } else { 0 },
    }
}
