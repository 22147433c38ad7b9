//! What a stack means: rules that map function names to wait classes and wake-up sources.
//!
//! The rules are data (`waits.toml`, embedded; a user's file is merged over it), because every kernel, libc and language runtime
//! brings names of its own, and a name that is missing must be addable without a new release.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Why a thread was off its CPU, as far as its wait stack tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitClass {
    /// Nothing to do: an event loop's poll, a pause, a terminal read.
    Idle,
    /// A kernel thread's normal rest.
    KernelIdle,
    /// A lock held by someone else.
    Lock,
    /// A condition variable, semaphore or bare futex: a lock or a message, the stack alone does not tell.
    Condition,
    /// A block device.
    BlockIo,
    /// A file system's journal, write-back or server.
    FileSystem,
    /// Page fault, reclaim, swap, dirty-page throttling.
    Memory,
    /// A local peer: pipe, Unix socket, message queue.
    Ipc,
    /// A network peer.
    Network,
    /// A sleep that the thread asked for.
    Timer,
    /// Stopped by a signal, a tracer or the freezer.
    Stopped,
    /// Another process: wait4, exit, exec.
    Process,
    /// No rule matched.
    #[default]
    Unknown,
}

impl WaitClass {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Unknown as usize + 1;

    /// The class of a Windows wait by its `KWAIT_REASON`, as far as that tells. `UserRequest`, the reason of most waits, tells nothing.
    pub(crate) const fn of_reason(number: u8) -> Self {
        match number {
            // FreePage, PageIn, PoolAllocation, their Wr forms, VirtualMemory, PageOut, PhysicalFault.
            1..=3 | 8..=10 | 18 | 19 | 39 => Self::Memory,
            4 | 11 => Self::Timer,
            5 | 12 => Self::Stopped,
            15 => Self::KernelIdle,
            16 => Self::Idle,
            17 => Self::Ipc,
            // Resource, PushLock, Mutex, FastMutex, GuardedMutex, Rundown.
            27..=29 | 34..=36 => Self::Lock,
            // KeyedEvent, AlertByThreadId.
            21 | 37 => Self::Condition,
            _ => Self::Unknown,
        }
    }

    /// True for waits for a disk, or for what a file system makes of it.
    pub const fn is_disk(self) -> bool {
        matches!(self, Self::BlockIo | Self::FileSystem)
    }

    /// The name in rules, JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::KernelIdle => "kernel_idle",
            Self::Lock => "lock",
            Self::Condition => "condition",
            Self::BlockIo => "block_io",
            Self::FileSystem => "file_system",
            Self::Memory => "memory",
            Self::Ipc => "ipc",
            Self::Network => "network",
            Self::Timer => "timer",
            Self::Stopped => "stopped",
            Self::Process => "process",
            Self::Unknown => "unknown",
        }
    }
}

/// The device or clock behind a wake-up from an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptSource {
    /// The timeout with which the sleeper went to sleep.
    Timeout,
    /// Another timer: a timerfd, an interval timer, delayed work.
    Timer,
    /// A block device's completion.
    BlockIo,
    /// The network.
    Network,
    /// The kernel's read-copy-update machinery.
    Rcu,
    /// None that the rules know.
    Other,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule<C> {
    #[serde(alias = "source")]
    class: C,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
    #[serde(default)]
    leaf: Vec<String>,
    #[serde(default)]
    pump: bool,
}

/// What a function is to those who read stacks with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mark {
    /// It belongs to the tracer.
    Tracer,
    /// It belongs to the scheduler.
    Scheduler,
    /// It runs soft interrupts because the task itself re-enabled bottom halves.
    SoftirqByTask,
    /// An interrupt entered the kernel there: whatever called it is a bystander's.
    InterruptEntry,
    /// It hands over a lock.
    Unlock,
    /// It ends a process.
    Exit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    wait: Vec<Rule<WaitClass>>,
    #[serde(default)]
    interrupt: Vec<Rule<InterruptSource>>,
    #[serde(default)]
    frames: BTreeMap<Mark, Vec<String>>,
}

/// A rules file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("wait rules: {0}")]
pub struct RulesError(#[from] toml::de::Error);

/// Compiled rules: which names matter, and what combinations of them mean.
#[derive(Clone)]
pub struct Rules {
    exact: FxHashMap<String, Vec<u16>>,
    globs: Vec<(Vec<String>, u16)>,
    waits: Vec<Compiled<WaitClass>>,
    interrupts: Vec<Compiled<InterruptSource>>,
    marks: FxHashMap<u16, Mark>,
    patterns: u16,
}

#[derive(Clone)]
struct Compiled<C> {
    class: C,
    any: Vec<u16>,
    all: Vec<u16>,
    leaf: Vec<u16>,
    pump: bool,
}

/// The set of patterns that some frames match.
#[derive(Clone, Default)]
pub(crate) struct Matches(Vec<u64>);

impl Matches {
    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn add(&mut self, patterns: &[u16]) {
        for &pattern in patterns {
            let word = usize::from(pattern / 64);
            if self.0.len() <= word {
                self.0.resize(word + 1, 0);
            }
            self.0[word] |= 1 << (pattern % 64);
        }
    }

    fn has(&self, pattern: u16) -> bool {
        self.0.get(usize::from(pattern / 64)).is_some_and(|word| word >> (pattern % 64) & 1 == 1)
    }

    fn satisfies<C>(&self, rule: &Compiled<C>, leaf: &[u16]) -> bool {
        (rule.leaf.is_empty() || rule.leaf.iter().any(|p| leaf.contains(p)))
            && (rule.any.is_empty() || rule.any.iter().any(|&p| self.has(p)))
            && rule.all.iter().all(|&p| self.has(p))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::parse(&[include_str!("../waits.toml")]).expect("the embedded rules are tested")
    }
}

impl Rules {
    /// The embedded rules with a user's `text` tried before them.
    pub fn with_user_rules(text: &str) -> Result<Self, RulesError> {
        Self::parse(&[text, include_str!("../waits.toml")])
    }

    fn parse(texts: &[&str]) -> Result<Self, RulesError> {
        let mut rules = Self {
            exact: FxHashMap::default(),
            globs: Vec::new(),
            waits: Vec::new(),
            interrupts: Vec::new(),
            marks: FxHashMap::default(),
            patterns: 0,
        };
        for text in texts {
            let file: RulesFile = toml::from_str(text)?;
            for rule in file.wait {
                let rule = rules.compile(rule);
                rules.waits.push(rule);
            }
            for rule in file.interrupt {
                let rule = rules.compile(rule);
                rules.interrupts.push(rule);
            }
            for (mark, names) in file.frames {
                let patterns = rules.patterns_of(&names);
                rules.marks.extend(patterns.into_iter().map(|pattern| (pattern, mark)));
            }
        }
        Ok(rules)
    }

    fn compile<C>(&mut self, rule: Rule<C>) -> Compiled<C> {
        let [any, all, leaf] = [&rule.any, &rule.all, &rule.leaf].map(|names| self.patterns_of(names));
        Compiled { class: rule.class, any, all, leaf, pump: rule.pump }
    }

    fn patterns_of(&mut self, names: &[String]) -> Vec<u16> {
        names.iter().map(|name| self.pattern(name)).collect()
    }

    fn pattern(&mut self, name: &str) -> u16 {
        let id = self.patterns;
        self.patterns += 1;
        if name.contains('*') {
            self.globs.push((name.split('*').map(str::to_owned).collect(), id));
        } else {
            self.exact.entry(name.to_owned()).or_default().push(id);
        }
        id
    }

    /// The patterns that a function's name matches.
    pub(crate) fn patterns_matching(&self, function: &str) -> Vec<u16> {
        let name = base_name(function);
        let mut ids = self.exact.get(name).cloned().unwrap_or_default();
        ids.extend(self.globs.iter().filter(|(parts, _)| glob(parts, name)).map(|(_, id)| *id));
        ids
    }

    /// The class of a wait whose frames match `matches`, `leaf` being those of the frame that waits, and whether it is an event loop's pump.
    pub(crate) fn wait_class(&self, matches: &Matches, leaf: &[u16]) -> (WaitClass, bool) {
        self.waits.iter().find(|rule| matches.satisfies(rule, leaf)).map_or((WaitClass::Unknown, false), |rule| (rule.class, rule.pump))
    }

    /// The source of an interrupt whose frames match `matches`.
    pub(crate) fn interrupt_source(&self, matches: &Matches) -> InterruptSource {
        self.interrupts.iter().find(|rule| matches.satisfies(rule, &[])).map_or(InterruptSource::Other, |rule| rule.class)
    }

    /// What a function with these patterns is.
    pub(crate) fn marks(&self, patterns: &[u16]) -> Vec<Mark> {
        patterns.iter().filter_map(|pattern| self.marks.get(pattern).copied()).collect()
    }
}

/// What compilers hang onto a name behind a dot, besides numbers: `.isra.0`, `.llvm.1234`, Go's `.abi0`.
const SUFFIXES: [&str; 11] =
    ["isra", "constprop", "part", "cold", "llvm", "lto_priv", "localalias", "clone", "cfi_jt", "abi0", "abiinternal"];

/// A function's name without what the compiler or the kernel's symbol table hung onto it. Other dots are the language's own:
/// `sync.(*Mutex).Unlock`.
pub(crate) fn base_name(function: &str) -> &str {
    let name = function.split(" [").next().unwrap_or(function);
    let mut name = name.split('@').next().unwrap_or(name);
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_suffix = SUFFIXES.contains(&last) || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()));
        if before.is_empty() || !is_suffix {
            break;
        }
        name = before;
    }
    name
}

fn glob(parts: &[String], name: &str) -> bool {
    let [first, middle @ .., last] = parts else { return false };
    let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        match rest.find(part.as_str()) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(frames: &[&str]) -> (WaitClass, bool) {
        let rules = Rules::default();
        let mut matches = Matches::default();
        let leaf = rules.patterns_matching(frames[0]);
        frames.iter().for_each(|frame| matches.add(&rules.patterns_matching(frame)));
        rules.wait_class(&matches, &leaf)
    }

    #[test]
    fn stacks_have_the_classes_an_engineer_would_give_them() {
        assert_eq!(class(&["schedule", "do_sys_poll", "__x64_sys_poll"]), (WaitClass::Idle, true));
        assert_eq!(class(&["futex_wait_queue", "futex_wait", "do_futex", "pthread_mutex_lock"]), (WaitClass::Lock, false));
        assert_eq!(class(&["futex_wait", "do_futex", "std::sys::sync::mutex::futex::Mutex::lock_contended"]), (WaitClass::Lock, false));
        assert_eq!(class(&["futex_wait", "do_futex", "pthread_cond_wait@@GLIBC_2.3.2"]), (WaitClass::Condition, false));
        assert_eq!(class(&["futex_wait", "do_futex", "main"]), (WaitClass::Condition, false));
        assert_eq!(class(&["rwsem_down_write_slowpath.isra.0", "down_write", "vm_mmap_pgoff"]), (WaitClass::Lock, false));
        assert_eq!(class(&["io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault"]), (WaitClass::Memory, false));
        assert_eq!(class(&["worker_thread", "kthread", "ret_from_fork"]), (WaitClass::KernelIdle, false));
    }

    /// A wait in user space: the kernel's frames of a futex wait, then the program's, leaf first.
    fn futex_class(frames: &[&str]) -> (WaitClass, bool) {
        let futex = [
            "futex_do_wait",
            "__futex_wait",
            "futex_wait",
            "do_futex",
            "__x64_sys_futex",
            "do_syscall_64",
            "entry_SYSCALL_64_after_hwframe",
        ];
        class(&[&futex[..], frames].concat())
    }

    #[test]
    fn waits_of_language_runtimes_have_their_classes() {
        let condvar =
            |frames: &[&str]| futex_class(&[&["__futex_abstimed_wait_common", "pthread_cond_timedwait@@GLIBC_2.3.2"], frames].concat());
        // CPython.
        assert_eq!(condvar(&["take_gil", "PyEval_RestoreThread", "os_read", "_PyEval_EvalFrameDefault"]), (WaitClass::Lock, false));
        assert_eq!(condvar(&["PyEval_RestoreThread.localalias", "time_sleep"]), (WaitClass::Lock, false));
        let semaphore =
            ["__futex_abstimed_wait_common", "sem_clockwait@GLIBC_2.30", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock"];
        assert_eq!(futex_class(&semaphore), (WaitClass::Condition, false), "a Lock, a Queue, a Condition");
        // HotSpot.
        assert_eq!(condvar(&["ObjectMonitor::EnterI", "ObjectMonitor::enter", "ObjectSynchronizer::enter"]), (WaitClass::Lock, false));
        assert_eq!(
            condvar(&["os::PlatformEvent::park", "ObjectMonitor::wait", "ObjectSynchronizer::wait", "JVM_MonitorWait"]),
            (WaitClass::Ipc, false)
        );
        assert_eq!(condvar(&["ObjectMonitor::ReenterI", "ObjectMonitor::wait", "JVM_MonitorWait"]), (WaitClass::Lock, false));
        assert_eq!(condvar(&["Parker::park", "Unsafe_Park"]), (WaitClass::Condition, false));
        let park = ["Unsafe_Park", "jdk.internal.misc.Unsafe.park", "java.util.concurrent.locks.LockSupport.park"];
        let locks = |last: &str| condvar(&[&park[..], &[last]].concat());
        assert_eq!(locks("void java.util.concurrent.locks.ReentrantLock.lock()"), (WaitClass::Lock, false));
        assert_eq!(locks("java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await"), (WaitClass::Ipc, false));
        // Go, as recorded with 1.26.
        let rest = [
            "runtime.futex.abi0",
            "runtime.notesleep",
            "runtime.stopm",
            "runtime.findRunnable",
            "runtime.schedule",
            "runtime.park_m",
            "runtime.mcall",
        ];
        assert_eq!(futex_class(&rest), (WaitClass::Idle, false));
        assert_eq!(
            futex_class(&["runtime.futex.abi0", "runtime.futexsleep", "runtime.lock2", "runtime.gcStart"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            futex_class(&["runtime.futex.abi0", "runtime.notesleep", "runtime.stoplockedm", "runtime.schedule"]),
            (WaitClass::Condition, false)
        );
        let netpoll = ["do_epoll_wait", "do_compat_epoll_pwait.part.0", "runtime.netpoll", "runtime.findRunnable", "runtime.schedule"];
        assert_eq!(class(&netpoll), (WaitClass::Idle, false), "whoever rests polls the network: that makes it no event loop");
        assert_eq!(class(&["do_nanosleep", "hrtimer_nanosleep", "runtime.usleep.abi0", "runtime.runqgrab"]), (WaitClass::Timer, false));
    }

    #[test]
    fn what_hands_over_a_lock_is_marked() {
        let rules = Rules::default();
        let unlocks = |name: &str| rules.marks(&rules.patterns_matching(name)) == [Mark::Unlock];
        for name in [
            "drop_gil",
            "PyEval_SaveThread",
            "_PyMutex_Unlock",
            "ObjectMonitor::exit",
            "ObjectMonitor::ExitEpilog",
            "InterpreterRuntime::monitorexit",
            "void java.util.concurrent.locks.ReentrantLock.unlock()",
            "internal/sync.(*Mutex).Unlock",
            "runtime.unlock2",
            "__lll_lock_wake_private",
        ] {
            assert!(unlocks(name), "{name}");
        }
        for name in ["pthread_cond_signal@@GLIBC_2.3.2", "PyThread_release_lock", "ObjectMonitor::notify", "runtime.notewakeup"] {
            assert!(!unlocks(name), "{name}");
        }
        assert_eq!(class(&["nothing_known"]), (WaitClass::Unknown, false));
    }

    #[test]
    fn stacks_of_windows_have_theirs() {
        // Without the scheduler's own functions, as stacks are read.
        assert_eq!(class(&["ExAcquirePushLockExclusiveEx", "MiCommitVadCfgBits", "VirtualAlloc"]), (WaitClass::Lock, false));
        assert_eq!(
            class(&["ExpWaitForResource", "ExAcquireResourceExclusiveLite", "NtfsAcquireVcb", "WriteFile"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(class(&["NtWaitForAlertByThreadId", "RtlpWaitOnCriticalSection", "RtlEnterCriticalSection"]), (WaitClass::Lock, false));
        assert_eq!(class(&["NtWaitForAlertByThreadId", "RtlSleepConditionVariableSRW"]), (WaitClass::Condition, false));
        assert_eq!(class(&["xxxRealSleepThread", "xxxSleepThread2", "NtUserGetMessage"]), (WaitClass::Idle, true));
        assert_eq!(class(&["xxxRealSleepThread", "xxxInterSendMsgEx", "NtUserMessageCall"]), (WaitClass::Ipc, false));
        assert_eq!(class(&["IoRemoveIoCompletion", "NtRemoveIoCompletion"]), (WaitClass::Idle, true));
        assert_eq!(class(&["ExpWorkerThread", "PspSystemThreadStartup"]), (WaitClass::KernelIdle, false));
        assert_eq!(class(&["AlpcpSignalAndWait", "AlpcpReceiveSynchronousReply"]), (WaitClass::Ipc, false));
        assert_eq!(class(&["MiWaitForInPageComplete", "MiIssueHardFault", "MmAccessFault", "KiPageFault"]), (WaitClass::Memory, false));
        assert_eq!(class(&["NtfsWaitForIo", "NtfsCommonWrite"]), (WaitClass::FileSystem, false));
        assert_eq!(class(&["NtDelayExecution", "SleepEx"]), (WaitClass::Timer, false));
        assert_eq!(class(&["KiSchedulerApc", "KiDeliverApc"]), (WaitClass::Stopped, false));
        // A window procedure that was called from a message loop and waits for something else is no message loop.
        assert_eq!(class(&["NtWaitForSingleObject", "KeUserModeCallback", "NtUserGetMessage"]), (WaitClass::Condition, false));
    }

    #[test]
    fn reasons_tell_what_stacks_do_not() {
        let name = |number| unhitch_model::WaitReason::new(number, false).name();
        assert_eq!([name(28), name(27), name(15), name(4)], ["WrPushLock", "WrResource", "WrQueue", "DelayExecution"]);
        assert_eq!(
            [28, 27, 15, 4, 6].map(WaitClass::of_reason),
            [WaitClass::Lock, WaitClass::Lock, WaitClass::KernelIdle, WaitClass::Timer, WaitClass::Unknown]
        );
    }

    #[test]
    fn names_are_matched_without_their_suffixes() {
        assert_eq!(base_name("rwsem_down_read_slowpath.isra.0"), "rwsem_down_read_slowpath");
        assert_eq!(base_name("ext4_sync_file [ext4]"), "ext4_sync_file");
        assert_eq!(base_name("pthread_mutex_lock@@GLIBC_2.2.5"), "pthread_mutex_lock");
        assert_eq!(base_name("core::ops::FnOnce::call_once{{vtable.shim}}"), "core::ops::FnOnce::call_once{{vtable.shim}}");
        assert_eq!(base_name("lab::Cache::fill.llvm.17324580461093261834"), "lab::Cache::fill");
        assert_eq!(base_name("memcpy.part.0.constprop.3.cold"), "memcpy");
        assert_eq!(base_name("._start"), "._start");
    }

    #[test]
    fn regression_dots_of_a_language_are_part_of_the_name() {
        assert_eq!(base_name("sync.(*Mutex).Unlock"), "sync.(*Mutex).Unlock");
        assert_eq!(base_name("runtime.futex.abi0"), "runtime.futex");
        assert_eq!(base_name("java.util.concurrent.locks.ReentrantLock.unlock"), "java.util.concurrent.locks.ReentrantLock.unlock");
        let rules = Rules::default();
        assert_eq!(rules.marks(&rules.patterns_matching("sync.(*Mutex).Unlock")), [Mark::Unlock]);
    }

    #[test]
    fn a_users_rule_comes_first() {
        let rules = Rules::with_user_rules("[[wait]]\nclass = \"lock\"\nany = [\"my_lock\"]\n").expect("valid");
        let mut matches = Matches::default();
        matches.add(&rules.patterns_matching("my_lock"));
        matches.add(&rules.patterns_matching("do_sys_poll"));
        assert_eq!(rules.wait_class(&matches, &[]), (WaitClass::Lock, false));
        assert!(Rules::with_user_rules("[[wait]]\nclass = \"nonsense\"\n").is_err());
    }
}
