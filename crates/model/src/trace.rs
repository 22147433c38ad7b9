//! The trace itself.

use crate::visible;
use crate::{
    AddressSpaces, CUT, Contentions, Descriptor, Frame, FrameId, Holder, MachineReport, Meta,
    Module, ModuleId, ModuleKind, Modules, NameId, Origin, Placements, ProcessId, ProviderEvents,
    Samples, StackId, Stacks, Strings, Switches, Symbol, Symbols, TaskState, ThreadId, Threads,
    Time, Wakings, Warnings, Window,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The time that one CPU's events cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuSpan {
    /// The CPU.
    pub cpu: u16,
    /// From its first to just after its last event.
    pub window: Window,
}

/// A stretch of time in which one CPU's events were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The CPU.
    pub cpu: u16,
    /// From the last event before the loss to the first one after it.
    pub window: Window,
    /// Number of missing events; 0 if unknown.
    pub events: u64,
}

/// A thread that was waiting for a futex when the trace was saved, from `/proc` and the lock word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FutexWait {
    /// When this was read.
    pub time: Time,
    /// The waiting thread.
    pub waiter: ThreadId,
    /// Address of the futex word in its process, avma.
    pub word_avma: u64,
    /// The owner of the lock, if the lock word has it.
    pub owner: Option<ThreadId>,
}

/// What the recorder noted of a wait when it began, and kept because it was long.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct KeptWait {
    /// The waiting thread.
    pub thread: ThreadId,
    /// When it left its CPU.
    pub time: Time,
    /// The system call that it was in, by the kernel's number; `None` in none.
    pub syscall: Option<u16>,
    /// The call's first two arguments. For `futex(2)`, the first is the lock's address (avma).
    pub arguments: [u64; 2],
    /// The address of the lock in the kernel that it waited for.
    pub kernel_lock_avma: Option<u64>,
    /// The thread that held the lock at that moment, where the lock's own memory says so.
    pub owner: Option<ThreadId>,
    /// `owner` held it when the thread was back: at `time`, nobody did, or nobody is known.
    pub is_owner_at_return: bool,
    /// It has no stack of its own, because that was over the recorder's budget.
    pub is_over_budget: bool,
    /// The file, pipe or socket that it waited for.
    pub descriptor: Option<Box<Descriptor>>,
}

/// A wake-up by `futex(2)`, of which the recorder noted the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptWake {
    /// The woken thread.
    pub wakee: ThreadId,
    /// When it was woken.
    pub time: Time,
    /// The address of the futex in the waker's process, avma.
    pub futex_avma: u64,
}

/// A wait that began before the trace's [common window](Trace::common_window), so that there is no
/// switch for it, and lasted into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EarlierWait {
    /// The waiting thread.
    pub thread: ThreadId,
    /// When it left its CPU.
    pub since: Time,
    /// Nothing saw it leave: `since` is about when it was last on a CPU, and zero if that is not
    /// known.
    pub is_estimate: bool,
    /// When it was back on a CPU; `None` if it still waited when the recording ended.
    pub until: Option<Time>,
    /// The state in which it left.
    pub state: TaskState,
    /// Where it waited.
    pub stack: StackId,
}

/// Kinds of events that a recording may lack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Recorded {
    /// Context switches.
    Switches,
    /// Wake-ups.
    Wakings,
    /// CPU samples.
    Samples,
    /// Counters of the machine.
    Counters,
}

impl Recorded {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switches => "switches",
            Self::Wakings => "wakings",
            Self::Samples => "samples",
            Self::Counters => "counters",
        }
    }
}

/// A recording: everything observed, nothing inferred. Immutable once read.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Facts about the recording.
    pub meta: Meta,
    /// All names.
    pub strings: Strings,
    /// All threads and processes.
    pub threads: Threads,
    /// All modules.
    pub modules: Modules,
    /// What was mapped where; empty for a Windows trace.
    pub address_spaces: AddressSpaces,
    /// All stacks.
    pub stacks: Stacks,
    /// Names of the stacks' frames.
    pub symbols: Symbols,
    /// Context switches.
    pub switches: Switches,
    /// Wake-ups.
    pub wakings: Wakings,
    /// CPU samples.
    pub samples: Samples,
    /// Threads coming on CPUs, by the kernel's `PERF_RECORD_SWITCH`. They repeat the switches, as
    /// far as none is missing.
    pub arrivals: Placements,
    /// CPUs that the scheduler chose for threads that were not running.
    pub migrations: Placements,
    /// Kernel lock contention.
    pub contentions: Contentions,
    /// Events of all other providers: disk transfers, page faults, UI delays, input, marks.
    pub events: ProviderEvents,
    /// Futex waits at the time of the save.
    pub futex_waits: Vec<FutexWait>,
    /// Waits with their system calls and locks, by thread and time.
    pub kept_waits: Vec<KeptWait>,
    /// Wake-ups with their futexes, by woken thread and time.
    pub kept_wakes: Vec<KeptWake>,
    /// Waits that began before the common window, at most one of each thread, by thread.
    pub earlier_waits: Vec<EarlierWait>,
    /// Who had the pipes and sockets of `kept_waits` open at the save, by inode.
    pub holders: Vec<Holder>,
    /// True if every process was asked what it had open, so that `holders` lacks nobody.
    pub has_all_holders: bool,
    /// The sockets at the other ends of connections that a process's event loops waited for at the
    /// save and that it had made itself, by their inodes.
    pub loop_peers: Vec<(ProcessId, u64)>,
    /// Counters of the machine and its control groups; empty if none were recorded.
    pub machine: MachineReport,
    /// What each CPU's events cover, by CPU.
    pub spans: Vec<CpuSpan>,
    /// Where events are missing, by start.
    pub losses: Vec<Loss>,
    /// Number of the file's records by kind, including ignored ones.
    pub by_kind: BTreeMap<String, u64>,
    /// How the recorder came by stacks, and how they end, by number of stacks.
    pub stack_counts: BTreeMap<String, u64>,
    /// Messages about what is damaged, lost or guessed.
    pub warnings: Warnings,
    /// True if its names were made [`visible`].
    pub is_for_text: bool,
}

impl Default for Trace {
    fn default() -> Self {
        let mut strings = Strings::default();
        let threads = Threads::new(strings.intern("idle"));
        Self {
            meta: Meta::default(),
            strings,
            threads,
            modules: Modules::default(),
            address_spaces: AddressSpaces::default(),
            stacks: Stacks::default(),
            symbols: Symbols::default(),
            switches: Switches::default(),
            wakings: Wakings::default(),
            samples: Samples::default(),
            arrivals: Placements::default(),
            migrations: Placements::default(),
            contentions: Contentions::default(),
            events: ProviderEvents::default(),
            futex_waits: Vec::new(),
            kept_waits: Vec::new(),
            kept_wakes: Vec::new(),
            earlier_waits: Vec::new(),
            holders: Vec::new(),
            has_all_holders: false,
            loop_peers: Vec::new(),
            machine: MachineReport::default(),
            spans: Vec::new(),
            losses: Vec::new(),
            by_kind: BTreeMap::new(),
            stack_counts: BTreeMap::new(),
            warnings: Warnings::default(),
            is_for_text: false,
        }
    }
}

impl Trace {
    /// The window that *every* CPU's events cover. Outside it, what a thread did on an uncovered
    /// CPU is unknown. Empty without events.
    pub fn common_window(&self) -> Window {
        let start = self.spans.iter().map(|span| span.window.start).max().unwrap_or_default();
        let end = self.spans.iter().map(|span| span.window.end).max().unwrap_or_default();
        Window::new(start, end.max(start))
    }

    /// The window of everything in the file, including events without a CPU. Empty without events.
    pub fn extent(&self) -> Window {
        let columns = [
            &self.switches.time,
            &self.wakings.time,
            &self.samples.time,
            &self.contentions.time,
            &self.events.time,
        ];
        let of_column =
            |times: &&Vec<Time>| Some(Window::new(*times.first()?, times.last()?.plus(1)));
        let windows =
            columns.iter().filter_map(of_column).chain(self.spans.iter().map(|span| span.window));
        windows.reduce(Window::joined).unwrap_or_default()
    }

    /// The instant that printed times are relative to, see [`Meta::origin`].
    pub fn origin(&self) -> Time {
        match self.meta.origin {
            Origin::SessionStart => Time::ZERO,
            Origin::FirstEvent => self.extent().start,
            Origin::At(time) => time,
        }
    }

    /// Number of switches, wake-ups, samples and provider events outside the window that every
    /// CPU's events cover.
    pub fn uncovered_events(&self) -> u64 {
        let covered = self.common_window();
        let columns =
            [&self.switches.time, &self.wakings.time, &self.samples.time, &self.events.time];
        let inside = |times: &[Time]| {
            times.partition_point(|&t| t < covered.end)
                - times.partition_point(|&t| t < covered.start)
        };
        columns.iter().map(|times| (times.len() - inside(times)) as u64).sum()
    }

    /// Number of events that are known to be lost.
    pub fn lost_events(&self) -> u64 {
        self.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.events))
    }

    /// True if the trace has events of this kind.
    pub fn has(&self, recorded: Recorded) -> bool {
        match recorded {
            Recorded::Switches => !self.switches.is_empty(),
            Recorded::Wakings => !self.wakings.is_empty(),
            Recorded::Samples => !self.samples.is_empty(),
            Recorded::Counters => !self.machine.readings.is_empty(),
        }
    }

    /// The trace for printing: every name, path of a control group, note and warning is on one line, without control
    /// characters ([`visible`]). Ids, times and numbers stay the same. Paths of modules stay as
    /// they are until they are [`shown`](Self::shown).
    pub fn for_text(mut self) -> Self {
        let changed = |text: &str| match visible(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        };
        let change = |text: &mut String| {
            if let Some(new) = changed(text) {
                *text = new;
            }
        };
        // Paths still have to be split at backslashes, and escapes contain some.
        let paths: Vec<Option<String>> = self
            .modules
            .iter()
            .map(|(_, module)| {
                let path = self.strings.get(module.path);
                changed(path).map(|_| path.to_owned())
            })
            .collect();
        self.strings.rewrite(changed);
        for (index, path) in paths.into_iter().enumerate() {
            if let Some(path) = path {
                self.modules.set_path(ModuleId(index as u32), self.strings.intern(&path));
            }
        }
        self.warnings.rewrite(change);
        let meta = &mut self.meta;
        [&mut meta.host, &mut meta.kernel, &mut meta.arch, &mut meta.producer, &mut meta.notes]
            .into_iter()
            .for_each(change);
        // Users name their own groups.
        self.machine.groups.iter_mut().map(|group| &mut group.path).for_each(change);
        let by_kind = std::mem::take(&mut self.by_kind);
        self.by_kind =
            by_kind.into_iter().map(|(kind, count)| (visible(&kind).into_owned(), count)).collect();
        self.is_for_text = true;
        self
    }

    /// A payload's text or a module's path for printing: made [`visible`] in a trace
    /// [for text](Self::for_text).
    pub fn shown(&self, text: String) -> String {
        if self.is_for_text { visible(&text).into_owned() } else { text }
    }

    /// The text of a name.
    pub fn name(&self, id: NameId) -> &str {
        self.strings.get(id)
    }

    /// The name that a thread had at `time`.
    pub fn thread_name(&self, id: ThreadId, time: Time) -> &str {
        self.name(self.threads.name_at(id, time))
    }

    /// The name that a thread's process had at `time`: its own, or its thread-group leader's.
    pub fn process_name(&self, id: ThreadId, time: Time) -> &str {
        self.name(self.process_name_id(id, time))
    }

    /// The same, as an id.
    pub fn process_name_id(&self, id: ThreadId, time: Time) -> NameId {
        let process = self.threads.process_of(id);
        if process.name.is_empty() {
            self.threads.name_at(process.leader, time)
        } else {
            process.name
        }
    }

    /// The threads that a user calls `name`: a tid, all threads of a pid, or all threads with that
    /// thread or process name, as recorded or as printed; main threads first, no idle ones. Names
    /// that threads have had before count only if nobody has the name in the end.
    pub fn threads_called(&self, name: &str) -> Vec<ThreadId> {
        let number = name.parse::<u32>().ok();
        let is_name = |known: &str| known == name || visible(known) == visible(name);
        let is_now = |id: ThreadId| {
            self.threads.get(id).names.last().is_some_and(|(_, name)| is_name(self.name(*name)))
        };
        let was = |id: ThreadId| {
            self.threads.get(id).names.iter().any(|(_, name)| is_name(self.name(*name)))
        };
        let is_current = self.threads.iter().any(|(id, _)| is_now(id));
        let is_named = |id: ThreadId| if is_current { is_now(id) } else { was(id) };
        let is_tid = number.is_some_and(|tid| !self.threads.incarnations(tid).is_empty());
        let matching = self.threads.iter().filter(|&(id, thread)| {
            let process = self.threads.process_of(id);
            // A pid is also the tid of the main thread; it selects the whole process.
            number == Some(process.pid)
                || (is_tid && number == Some(thread.tid))
                || is_named(id)
                || is_named(process.leader)
        });
        let mut ids: Vec<ThreadId> =
            matching.map(|(id, _)| id).filter(|id| !id.is_idle()).collect();
        ids.sort_by_key(|&id| self.threads.process_of(id).leader != id);
        ids
    }

    /// The frame that marks a cut in a stack, see [`ModuleKind::Cut`].
    pub fn cut_frame(&mut self) -> FrameId {
        let path = self.strings.intern(CUT);
        let module = self.modules.intern(Module::cut(path));
        self.stacks.intern_frame(Frame { module, offset: 0 })
    }

    /// The printed form of a stack, root first: function names, including inlined ones;
    /// `module+0xoffset` for frames without a name.
    pub fn stack_names(&self, id: StackId) -> Vec<String> {
        let mut names: Vec<String> =
            self.stacks.frames_of(id).iter().flat_map(|&frame| self.frame_names(frame)).collect();
        names.reverse();
        names
    }

    /// The printed form of a frame, innermost function first.
    pub fn frame_names(&self, id: FrameId) -> Vec<String> {
        let symbols = self.symbols.get(id);
        let frame = self.stacks.frame(id);
        let module = frame.and_then(|frame| self.modules.get(frame.module));
        let kind = module.map(|module| module.kind);
        if !symbols.is_empty() {
            let name = |symbol: &Symbol| {
                let name = self.name(symbol.function);
                if kind != Some(ModuleKind::Script) {
                    return name.to_owned();
                }
                let file = ModuleKind::Script.file_name(self.name(symbol.file));
                format!("{name} ({file}:{})", symbol.line)
            };
            return symbols.iter().map(name).collect();
        }
        let Some(frame) = frame else { return vec!["?".to_owned()] };
        let Some(module) = module else {
            return vec![format!("?+{:#x}", frame.offset)];
        };
        let path = self.name(module.path);
        if matches!(module.kind, ModuleKind::Cut | ModuleKind::Script) {
            return vec![path.to_owned()];
        }
        vec![self.shown(format!("{}+{:#x}", module.kind.file_name(path), frame.offset))]
    }
}
