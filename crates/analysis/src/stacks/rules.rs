//! What a stack means: rules that map function names to wait classes and wake-up sources.
//!
//! The rules are data (`waits/*.toml`, embedded; a user's file is merged over them), because every
//! kernel, libc and language runtime brings names of its own, and a name that is missing must be
//! addable without a new release. `waits/linux.toml` says how they are read.

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
    /// A condition variable, semaphore or bare futex: a lock or a message, the stack alone does not
    /// tell.
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
    /// A device that is no disk: graphics, sound, USB, a hypervisor's balloon.
    Device,
    /// Work that the kernel does elsewhere: an RCU grace period, a work queue, another CPU.
    KernelWork,
    /// No rule matched.
    #[default]
    Unknown,
}

impl WaitClass {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Unknown as usize + 1;

    /// The class of a Windows wait by its `KWAIT_REASON`, as far as that tells. `UserRequest`, the
    /// reason of most waits, tells nothing.
    pub(crate) const fn of_reason(number: u8) -> Self {
        match number {
            // FreePage, PageIn, PoolAllocation, their Wr forms, VirtualMemory, PageOut,
            // PhysicalFault.
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
            Self::Device => "device",
            Self::KernelWork => "kernel_work",
            Self::Unknown => "unknown",
        }
    }
}

impl WaitClass {
    /// The name in sentences.
    pub fn words(self) -> String {
        self.name().replace('_', " ")
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
    caller: Vec<String>,
    #[serde(default)]
    place: Vec<String>,
    #[serde(default)]
    generic: Vec<String>,
    #[serde(default)]
    pump: bool,
    #[serde(default)]
    unwanted: bool,
}

/// What a function is to those who read stacks with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FrameRole {
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
    /// It is the outermost of a kernel thread's own functions.
    KernelThread,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    wait: Vec<Rule<WaitClass>>,
    #[serde(default)]
    interrupt: Vec<Rule<InterruptSource>>,
    #[serde(default)]
    frames: BTreeMap<FrameRole, Vec<String>>,
}

/// The embedded rules, in the order in which they are tried.
const EMBEDDED: [&str; 5] = [
    include_str!("../../waits/kernel-threads.toml"),
    include_str!("../../waits/runtimes.toml"),
    include_str!("../../waits/linux.toml"),
    include_str!("../../waits/windows.toml"),
    include_str!("../../waits/frames.toml"),
];

/// A rules file that cannot be used: where, and what should be there. What is there instead is not
/// repeated: a file that was named by mistake, or to learn what is in it, would be shown to whoever
/// reads the error.
#[derive(Debug, thiserror::Error)]
#[error("wait rules: line {line}, column {column}: {what}")]
pub struct RulesError {
    line: usize,
    column: usize,
    what: String,
}

impl RulesError {
    fn new(text: &str, error: &toml::de::Error) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let what = match error.message().rsplit_once("expected ") {
            Some((_, expected)) => format!("expected {expected}"),
            // Of these messages only the one about a missing field quotes us, not the file.
            None if error.message().starts_with("missing field") => error.message().to_owned(),
            None => error
                .message()
                .split(['`', '"', '\''])
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        };
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what,
        }
    }
}

/// Compiled rules: which names matter, and what combinations of them mean.
#[derive(Clone)]
pub struct Rules {
    exact: FxHashMap<String, Vec<u16>>,
    globs: FxHashMap<Option<[u8; 2]>, Vec<Glob>>,
    waits: Vec<Compiled<WaitClass>>,
    /// Where among `waits` the step of the wait places stands.
    places_at: usize,
    /// The rule that lists a pattern as its wait place.
    places: FxHashMap<u16, usize>,
    /// The rule that lists a pattern as generic.
    generics: FxHashMap<u16, usize>,
    interrupts: Vec<Compiled<InterruptSource>>,
    marks: FxHashMap<u16, FrameRole>,
    patterns: u16,
}

/// The parts of a name between its `*`, and the number of its pattern.
type Glob = (Vec<String>, u16);

#[derive(Clone)]
struct Compiled<C> {
    class: C,
    any: Vec<u16>,
    all: Vec<u16>,
    leaf: Vec<u16>,
    caller: Vec<u16>,
    /// It applies to the frames that `places` and `generics` find, and not by itself.
    by_place: bool,
    pump: bool,
    unwanted: bool,
}

/// What the rules make of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wait {
    /// What it is for.
    pub class: WaitClass,
    /// True for an event loop's wait for its next event.
    pub pump: bool,
    /// True for a wait that nobody chooses, whatever its length and rhythm.
    pub unwanted: bool,
}

impl WaitClass {
    /// True for classes whose every wait is one that nobody chooses.
    const fn is_unwanted(self) -> bool {
        matches!(self, Self::Lock | Self::BlockIo | Self::FileSystem | Self::Memory | Self::Stopped)
    }
}

impl Compiled<WaitClass> {
    fn wait(&self) -> Wait {
        Wait {
            class: self.class,
            pump: self.pump,
            unwanted: self.unwanted || self.class.is_unwanted(),
        }
    }
}

/// A wait stack, as rules look at it: for each frame the patterns that it matches, leaf first.
#[derive(Clone, Copy)]
pub(crate) struct WaitStack<'a, F> {
    /// All frames that are the waiting thread's own.
    pub(crate) matches: &'a Matches,
    /// How many frames are the kernel's,
    pub(crate) kernel: usize,
    /// and how many of them, at the leaf, the tracer's and the scheduler's.
    pub(crate) noise: usize,
    /// The patterns of a frame by its number from the leaf; empty beyond the last.
    pub(crate) patterns: F,
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

    /// Whether the stack as a whole is as the rule wants it.
    fn satisfies<C>(&self, rule: &Compiled<C>) -> bool {
        (rule.any.is_empty() || rule.any.iter().any(|&p| self.has(p)))
            && rule.all.iter().all(|&p| self.has(p))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::parse(None).expect("the embedded rules are tested")
    }
}

impl Rules {
    /// The embedded rules with a user's `text` tried before them.
    pub fn with_user_rules(text: &str) -> Result<Self, RulesError> {
        Self::parse(Some(text))
    }

    fn parse(user: Option<&str>) -> Result<Self, RulesError> {
        let mut rules = Self {
            exact: FxHashMap::default(),
            globs: FxHashMap::default(),
            waits: Vec::new(),
            places_at: 0,
            places: FxHashMap::default(),
            generics: FxHashMap::default(),
            interrupts: Vec::new(),
            marks: FxHashMap::default(),
            patterns: 0,
        };
        let mut places_at = None;
        let embedded = EMBEDDED.into_iter().map(|text| (true, text));
        for (is_embedded, text) in user.map(|text| (false, text)).into_iter().chain(embedded) {
            let file: RulesFile =
                toml::from_str(text).map_err(|error| RulesError::new(text, &error))?;
            for rule in file.wait {
                // A user's rules without a place come before the step of the places, those with one
                // within it.
                let number = rules.waits.len();
                if is_embedded && !rule.place.is_empty() {
                    rules.places_at = *places_at.get_or_insert(number);
                }
                for (names, is_place) in [(&rule.place, true), (&rule.generic, false)] {
                    let patterns = rules.patterns_of(names);
                    let rule_of = if is_place { &mut rules.places } else { &mut rules.generics };
                    rule_of.extend(patterns.into_iter().map(|pattern| (pattern, number)));
                }
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
        let [any, all, leaf, caller] =
            [&rule.any, &rule.all, &rule.leaf, &rule.caller].map(|names| self.patterns_of(names));
        let by_place = !rule.place.is_empty() || !rule.generic.is_empty();
        Compiled {
            class: rule.class,
            any,
            all,
            leaf,
            caller,
            by_place,
            pump: rule.pump,
            unwanted: rule.unwanted,
        }
    }

    fn patterns_of(&mut self, names: &[String]) -> Vec<u16> {
        names.iter().map(|name| self.pattern(name)).collect()
    }

    fn pattern(&mut self, name: &str) -> u16 {
        let id = self.patterns;
        self.patterns += 1;
        if name.contains('*') {
            self.globs
                .entry(first_two(name))
                .or_default()
                .push((name.split('*').map(str::to_owned).collect(), id));
        } else {
            self.exact.entry(name.to_owned()).or_default().push(id);
        }
        id
    }

    /// The patterns that a function's name matches.
    pub(crate) fn patterns_matching(&self, function: &str) -> Vec<u16> {
        let name = base_name(function);
        let mut ids = self.exact.get(name).cloned().unwrap_or_default();
        // Names are many, and so are patterns: only those are tried that begin as the name does.
        let begins = [first_two(name), None];
        let begins = if begins[0].is_none() { &begins[1..] } else { &begins[..] };
        let globs = begins.iter().filter_map(|begin| self.globs.get(begin)).flatten();
        ids.extend(globs.filter(|(parts, _)| glob(parts, name)).map(|(_, id)| *id));
        ids
    }

    /// What the wait with this stack is for.
    pub(crate) fn wait<'p>(&self, stack: WaitStack<'_, impl Fn(usize) -> &'p [u16]>) -> Wait {
        let (before, after) = self.waits.split_at(self.places_at);
        let whole = |rules: &[Compiled<WaitClass>]| {
            let is_at = |names: &[u16], frame: usize| {
                names.is_empty() || (stack.patterns)(frame).iter().any(|p| names.contains(p))
            };
            let applies = |rule: &&Compiled<WaitClass>| {
                !rule.by_place
                    && is_at(&rule.leaf, stack.noise)
                    && is_at(&rule.caller, stack.noise + 1)
                    && stack.matches.satisfies(rule)
            };
            rules.iter().find(applies).map(Compiled::wait)
        };
        let innermost = |rule_of: &FxHashMap<u16, usize>, from: usize| {
            (from..stack.kernel).find_map(|frame| {
                let numbers =
                    (stack.patterns)(frame).iter().filter_map(|pattern| rule_of.get(pattern));
                let rules = numbers.filter(|number| stack.matches.satisfies(&self.waits[**number]));
                rules.min().map(|number| self.waits[*number].wait())
            })
        };
        whole(before)
            .or_else(|| innermost(&self.places, stack.noise))
            .or_else(|| innermost(&self.generics, 0))
            .or_else(|| whole(after))
            .unwrap_or_default()
    }

    /// The source of an interrupt whose frames match `matches`.
    pub(crate) fn interrupt_source(&self, matches: &Matches) -> InterruptSource {
        self.interrupts
            .iter()
            .find(|rule| matches.satisfies(rule))
            .map_or(InterruptSource::Other, |rule| rule.class)
    }

    /// What a function with these patterns is.
    pub(crate) fn marks(&self, patterns: &[u16]) -> Vec<FrameRole> {
        patterns.iter().filter_map(|pattern| self.marks.get(pattern).copied()).collect()
    }
}

/// What compilers hang onto a name behind a dot, besides numbers: `.isra.0`, `.llvm.1234`, Go's
/// `.abi0`.
const SUFFIXES: [&str; 11] = [
    "isra",
    "constprop",
    "part",
    "cold",
    "llvm",
    "lto_priv",
    "localalias",
    "clone",
    "cfi_jt",
    "abi0",
    "abiinternal",
];

/// A function's name without what the compiler or the kernel's symbol table hung onto it. Other
/// dots are the language's own: `sync.(*Mutex).Unlock`.
pub(crate) fn base_name(function: &str) -> &str {
    let name = function.split(" [").next().unwrap_or(function);
    let mut name = name.split('@').next().unwrap_or(name);
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_suffix = SUFFIXES.contains(&last)
            || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()));
        if before.is_empty() || !is_suffix {
            break;
        }
        name = before;
    }
    name
}

/// The first two bytes of a name or a pattern, where a `*` does not stand among them.
fn first_two(name: &str) -> Option<[u8; 2]> {
    name.as_bytes().first_chunk().copied().filter(|two| !two.contains(&b'*'))
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

    /// What the rules make of a stack, leaf first; what stands behind `""` are frames of the
    /// program.
    fn wait_by(rules: &Rules, frames: &[&str]) -> Wait {
        let kernel = frames.iter().position(|frame| frame.is_empty()).unwrap_or(frames.len());
        let patterns: Vec<Vec<u16>> = frames
            .iter()
            .filter(|frame| !frame.is_empty())
            .map(|frame| rules.patterns_matching(frame))
            .collect();
        let is_noise = |patterns: &&Vec<u16>| {
            rules.marks(patterns).iter().any(|mark| matches!(mark, FrameRole::Scheduler))
        };
        let noise = patterns.iter().take(kernel).take_while(is_noise).count();
        let mut matches = Matches::default();
        patterns.iter().for_each(|patterns| matches.add(patterns));
        let of_frame = |frame: usize| patterns.get(frame).map_or(&[][..], Vec::as_slice);
        rules.wait(WaitStack { matches: &matches, kernel, noise, patterns: of_frame })
    }

    fn wait(frames: &[&str]) -> Wait {
        static RULES: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(Rules::default);
        wait_by(&RULES, frames)
    }

    fn class(frames: &[&str]) -> (WaitClass, bool) {
        let wait = wait(frames);
        (wait.class, wait.pump)
    }

    #[test]
    fn stacks_have_the_classes_an_engineer_would_give_them() {
        assert_eq!(class(&["schedule", "do_sys_poll", "__x64_sys_poll"]), (WaitClass::Idle, true));
        assert_eq!(
            class(&["futex_wait_queue", "futex_wait", "do_futex", "pthread_mutex_lock"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            class(&[
                "futex_wait",
                "do_futex",
                "std::sys::sync::mutex::futex::Mutex::lock_contended"
            ]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            class(&["futex_wait", "do_futex", "pthread_cond_wait@@GLIBC_2.3.2"]),
            (WaitClass::Condition, false)
        );
        assert_eq!(class(&["futex_wait", "do_futex", "main"]), (WaitClass::Condition, false));
        assert_eq!(
            class(&["rwsem_down_write_slowpath.isra.0", "down_write", "vm_mmap_pgoff"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            class(&["io_schedule", "folio_wait_bit_common", "filemap_fault", "handle_mm_fault"]),
            (WaitClass::Memory, false)
        );
        assert_eq!(
            class(&["worker_thread", "kthread", "ret_from_fork"]),
            (WaitClass::KernelIdle, false)
        );
    }

    /// Stacks as they were recorded on Linux 6.18 (`tests/wait_places.rs` records them anew), and
    /// what they are in 5.10 and 6.1.
    #[test]
    fn regression_wait_places_have_their_classes() {
        use WaitClass::*;
        let cases: &[(WaitClass, bool, &[&str])] = &[
            (Ipc, true, &["__schedule", "schedule", "anon_pipe_write", "vfs_write"]),
            (
                Ipc,
                true,
                &["__schedule", "schedule", "pipe_wait_writable", "pipe_write", "vfs_write"],
            ),
            (Ipc, false, &["__schedule", "schedule", "anon_pipe_read", "vfs_read"]),
            (Ipc, false, &["__schedule", "schedule", "wait_for_partner", "fifo_open", "vfs_open"]),
            (
                Ipc,
                true,
                &[
                    "schedule_timeout",
                    "sock_alloc_send_pskb",
                    "unix_stream_sendmsg",
                    "__sys_sendto",
                ],
            ),
            (
                Ipc,
                true,
                &["schedule_timeout", "sock_alloc_send_pskb", "unix_dgram_sendmsg", "__sys_sendto"],
            ),
            (
                Ipc,
                true,
                &["schedule_timeout", "unix_wait_for_peer", "unix_stream_connect", "__sys_connect"],
            ),
            (
                Ipc,
                false,
                &[
                    "schedule_timeout",
                    "unix_stream_read_generic",
                    "unix_stream_recvmsg",
                    "sock_recvmsg",
                ],
            ),
            (
                Ipc,
                false,
                &[
                    "schedule_timeout",
                    "__skb_wait_for_more_packets",
                    "skb_recv_datagram",
                    "netlink_recvmsg",
                ],
            ),
            (
                Idle,
                false,
                &[
                    "schedule_timeout",
                    "__skb_wait_for_more_packets",
                    "skb_recv_datagram",
                    "unix_accept",
                ],
            ),
            (
                Idle,
                false,
                &[
                    "schedule_timeout",
                    "inet_csk_accept",
                    "inet_accept",
                    "do_accept",
                    "__sys_accept4",
                ],
            ),
            (
                Network,
                true,
                &["schedule_timeout", "wait_woken", "__inet_stream_connect", "inet_stream_connect"],
            ),
            (
                Network,
                true,
                &["schedule_timeout", "wait_woken", "sk_stream_wait_memory", "tcp_sendmsg_locked"],
            ),
            (
                Network,
                false,
                &[
                    "schedule_timeout",
                    "wait_woken",
                    "sk_wait_data",
                    "tcp_recvmsg_locked",
                    "tcp_recvmsg",
                ],
            ),
            (
                Network,
                false,
                &[
                    "schedule_timeout",
                    "__skb_wait_for_more_packets",
                    "__skb_recv_udp",
                    "udp_recvmsg",
                ],
            ),
            (Lock, true, &["__schedule", "schedule", "locks_lock_inode_wait", "__do_sys_flock"]),
            (Lock, true, &["__schedule", "schedule", "fcntl_setlk", "do_fcntl", "__x64_sys_fcntl"]),
            (
                Lock,
                true,
                &["schedule", "posix_lock_inode_wait", "do_lock_file_wait", "fcntl_setlk"],
            ),
            (
                Condition,
                false,
                &["schedule_hrtimeout_range_clock", "__do_semtimedop", "do_semtimedop"],
            ),
            (Ipc, false, &["__schedule", "schedule", "do_msgrcv", "do_syscall_64"]),
            (Ipc, true, &["__schedule", "schedule", "do_msgsnd", "do_syscall_64"]),
            (Ipc, true, &["schedule_hrtimeout_range_clock", "wq_sleep", "do_mq_timedsend"]),
            (
                Memory,
                true,
                &[
                    "__schedule",
                    "schedule",
                    "handle_userfault",
                    "__handle_mm_fault",
                    "exc_page_fault",
                ],
            ),
            (Idle, false, &["__schedule", "schedule", "userfaultfd_read_iter", "vfs_read"]),
            (
                FileSystem,
                true,
                &["schedule", "request_wait_answer", "__fuse_simple_request", "fuse_lookup_name"],
            ),
            (
                Idle,
                false,
                &[
                    "schedule",
                    "fuse_dev_do_read",
                    "fuse_dev_read",
                    "vfs_read",
                    "",
                    "fuse_session_loop",
                ],
            ),
            (
                FileSystem,
                true,
                &["schedule", "rpc_wait_bit_killable", "__wait_on_bit", "nfs4_do_call_sync"],
            ),
            (
                FileSystem,
                true,
                &[
                    "io_schedule",
                    "folio_wait_bit_common",
                    "filemap_get_pages",
                    "filemap_read",
                    "fuse_file_read_iter",
                ],
            ),
            (
                BlockIo,
                true,
                &[
                    "io_schedule",
                    "folio_wait_bit_common",
                    "filemap_get_pages",
                    "filemap_read",
                    "",
                    "fuse_session_loop",
                ],
            ),
            (
                Ipc,
                true,
                &[
                    "schedule",
                    "fanotify_handle_event",
                    "fsnotify",
                    "__fsnotify_parent",
                    "do_dentry_open",
                ],
            ),
            (
                Memory,
                true,
                &[
                    "schedule_timeout_killable",
                    "__mem_cgroup_handle_over_high",
                    "exit_to_user_mode_loop",
                ],
            ),
            (
                Memory,
                true,
                &[
                    "schedule_timeout",
                    "io_schedule_timeout",
                    "balance_dirty_pages",
                    "generic_perform_write",
                    "ext4_file_write_iter",
                ],
            ),
            (
                KernelWork,
                false,
                &[
                    "schedule_timeout",
                    "__wait_for_common",
                    "wait_for_completion",
                    "__flush_work",
                    "tty_buffer_flush_work",
                ],
            ),
            (
                KernelWork,
                false,
                &[
                    "schedule_timeout",
                    "wait_for_completion_state",
                    "__wait_rcu_gp",
                    "synchronize_rcu",
                    "membarrier",
                ],
            ),
            (
                Process,
                false,
                &[
                    "schedule_timeout",
                    "__wait_for_common",
                    "wait_for_completion_state",
                    "kernel_clone",
                    "__x64_sys_vfork",
                ],
            ),
            (
                Device,
                false,
                &[
                    "schedule",
                    "tell_host",
                    "virtballoon_free_page_report",
                    "page_reporting_process",
                    "worker_thread",
                    "kthread",
                ],
            ),
            (
                Device,
                false,
                &[
                    "schedule_timeout",
                    "dma_fence_default_wait",
                    "dma_fence_wait_timeout",
                    "drm_syncobj_array_wait_timeout",
                ],
            ),
            (KernelIdle, false, &["schedule", "worker_thread", "kthread", "ret_from_fork"]),
            (
                KernelIdle,
                false,
                &["schedule", "a_thread_of_some_module", "kthread", "ret_from_fork"],
            ),
            (
                Timer,
                false,
                &[
                    "schedule_timeout",
                    "schedule_timeout_uninterruptible",
                    "msleep",
                    "nothing_known",
                ],
            ),
        ];
        for (class, unwanted, stack) in cases {
            let found = wait(stack);
            assert_eq!((found.class, found.unwanted), (*class, *unwanted), "{stack:?}");
        }
    }

    #[test]
    fn the_documented_wait_places_have_their_classes() {
        let docs = include_str!("../../../../docs/wait-classes.md");
        let table = docs
            .split("<!-- wait places -->")
            .nth(1)
            .and_then(|rest| rest.split("<!-- end -->").next())
            .expect("the table");
        let mut documented = 0;
        for row in table.lines().filter(|row| row.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let (class, places) =
                (cells[1].trim_start_matches('`').split('`').next().expect("a class"), cells[2]);
            for place in places.split('`').map(str::trim).filter(|place| !place.is_empty()) {
                let found = wait(&["__schedule", "schedule", place]);
                assert_eq!(found.class.name(), class, "{place}");
                assert_eq!(found.pump, cells[1].contains("pump"), "{place}: an event loop");
                assert!(!cells[1].contains("unwanted") || found.unwanted, "{place}: unwanted");
                documented += 1;
            }
        }
        assert!(documented > 100, "{documented} places");
    }

    #[test]
    fn regression_the_innermost_place_decides() {
        use WaitClass::*;
        let below_ext4 = |inner: &[&str]| {
            class(
                &[
                    inner,
                    &[
                        "ext4_map_blocks",
                        "ext4_da_write_begin",
                        "ext4_file_write_iter",
                        "vfs_write",
                    ],
                ]
                .concat(),
            )
            .0
        };
        assert_eq!(
            below_ext4(&["schedule_preempt_disabled", "rwsem_down_write_slowpath", "down_write"]),
            Lock
        );
        assert_eq!(
            below_ext4(&[
                "schedule_timeout",
                "reclaim_throttle",
                "shrink_node",
                "__alloc_pages_slowpath.constprop.0"
            ]),
            Memory
        );
        assert_eq!(below_ext4(&["io_schedule", "blk_mq_get_tag", "submit_bio_noacct"]), BlockIo);
        assert_eq!(
            below_ext4(&["io_schedule", "bit_wait_io", "__wait_on_bit", "ext4_read_bh"]),
            BlockIo
        );
        assert_eq!(
            below_ext4(&["schedule", "start_this_handle", "jbd2__journal_start"]),
            FileSystem
        );
        assert_eq!(below_ext4(&["schedule", "a_wait_nobody_knows"]), FileSystem);
        let fault = [
            "filemap_fault",
            "__do_fault",
            "handle_mm_fault",
            "exc_page_fault",
            "asm_exc_page_fault",
            "vfs_read",
        ];
        assert_eq!(
            class(
                &[&["io_schedule", "folio_wait_bit_common", "__folio_lock_or_retry"], &fault[..]]
                    .concat()
            )
            .0,
            Memory
        );
        // A worker that works is not at rest, whatever its work waits for.
        assert_eq!(
            class(&[
                "schedule",
                "wb_wait_for_completion",
                "process_one_work",
                "worker_thread",
                "kthread"
            ])
            .0,
            FileSystem
        );
        // Names of the program mean nothing about the kernel.
        assert_eq!(
            class(&["schedule", "do_sys_poll", "", "fuse_loop", "tcp_server", "ext4_reader"]),
            (Idle, true)
        );
        assert_eq!(
            class(&["schedule", "a_wait_nobody_knows", "", "nfs_main", "msleep"]).0,
            Unknown
        );
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
            "",
        ];
        class(&[&futex[..], frames].concat())
    }

    #[test]
    fn waits_of_language_runtimes_have_their_classes() {
        let condvar = |frames: &[&str]| {
            futex_class(
                &[&["__futex_abstimed_wait_common", "pthread_cond_timedwait@@GLIBC_2.3.2"], frames]
                    .concat(),
            )
        };
        // CPython.
        assert_eq!(
            condvar(&["take_gil", "PyEval_RestoreThread", "os_read", "_PyEval_EvalFrameDefault"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            condvar(&["PyEval_RestoreThread.localalias", "time_sleep"]),
            (WaitClass::Lock, false)
        );
        let semaphore = [
            "__futex_abstimed_wait_common",
            "sem_clockwait@GLIBC_2.30",
            "PyThread_acquire_lock_timed",
            "lock_PyThread_acquire_lock",
        ];
        assert_eq!(
            futex_class(&semaphore),
            (WaitClass::Condition, false),
            "a Lock, a Queue, a Condition"
        );
        // HotSpot.
        assert_eq!(
            condvar(&[
                "ObjectMonitor::EnterI",
                "ObjectMonitor::enter",
                "ObjectSynchronizer::enter"
            ]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            condvar(&[
                "os::PlatformEvent::park",
                "ObjectMonitor::wait",
                "ObjectSynchronizer::wait",
                "JVM_MonitorWait"
            ]),
            (WaitClass::Ipc, false)
        );
        assert_eq!(
            condvar(&["ObjectMonitor::ReenterI", "ObjectMonitor::wait", "JVM_MonitorWait"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(condvar(&["Parker::park", "Unsafe_Park"]), (WaitClass::Condition, false));
        let park = [
            "Unsafe_Park",
            "jdk.internal.misc.Unsafe.park",
            "java.util.concurrent.locks.LockSupport.park",
        ];
        let locks = |last: &str| condvar(&[&park[..], &[last]].concat());
        assert_eq!(
            locks("void java.util.concurrent.locks.ReentrantLock.lock()"),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            locks("java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await"),
            (WaitClass::Ipc, false)
        );
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
            futex_class(&[
                "runtime.futex.abi0",
                "runtime.futexsleep",
                "runtime.lock2",
                "runtime.gcStart"
            ]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            futex_class(&[
                "runtime.futex.abi0",
                "runtime.notesleep",
                "runtime.stoplockedm",
                "runtime.schedule"
            ]),
            (WaitClass::Condition, false)
        );
        let netpoll = [
            "do_epoll_wait",
            "do_compat_epoll_pwait.part.0",
            "runtime.netpoll",
            "runtime.findRunnable",
            "runtime.schedule",
        ];
        assert_eq!(
            class(&netpoll),
            (WaitClass::Idle, false),
            "whoever rests polls the network: that makes it no event loop"
        );
        assert_eq!(
            class(&[
                "do_nanosleep",
                "hrtimer_nanosleep",
                "runtime.usleep.abi0",
                "runtime.runqgrab"
            ]),
            (WaitClass::Timer, false)
        );
    }

    #[test]
    fn what_hands_over_a_lock_is_marked() {
        let rules = Rules::default();
        let unlocks =
            |name: &str| rules.marks(&rules.patterns_matching(name)) == [FrameRole::Unlock];
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
        for name in [
            "pthread_cond_signal@@GLIBC_2.3.2",
            "PyThread_release_lock",
            "ObjectMonitor::notify",
            "runtime.notewakeup",
        ] {
            assert!(!unlocks(name), "{name}");
        }
        assert_eq!(class(&["nothing_known"]), (WaitClass::Unknown, false));
    }

    #[test]
    fn stacks_of_windows_have_theirs() {
        // Without the scheduler's own functions, as stacks are read.
        assert_eq!(
            class(&["ExAcquirePushLockExclusiveEx", "MiCommitVadCfgBits", "VirtualAlloc"]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            class(&[
                "ExpWaitForResource",
                "ExAcquireResourceExclusiveLite",
                "NtfsAcquireVcb",
                "WriteFile"
            ]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            class(&[
                "NtWaitForAlertByThreadId",
                "RtlpWaitOnCriticalSection",
                "RtlEnterCriticalSection"
            ]),
            (WaitClass::Lock, false)
        );
        assert_eq!(
            class(&["NtWaitForAlertByThreadId", "RtlSleepConditionVariableSRW"]),
            (WaitClass::Condition, false)
        );
        assert_eq!(
            class(&["xxxRealSleepThread", "xxxSleepThread2", "NtUserGetMessage"]),
            (WaitClass::Idle, true)
        );
        assert_eq!(
            class(&["xxxRealSleepThread", "xxxInterSendMsgEx", "NtUserMessageCall"]),
            (WaitClass::Ipc, false)
        );
        assert_eq!(
            class(&["IoRemoveIoCompletion", "NtRemoveIoCompletion"]),
            (WaitClass::Idle, true)
        );
        assert_eq!(
            class(&["ExpWorkerThread", "PspSystemThreadStartup"]),
            (WaitClass::KernelIdle, false)
        );
        assert_eq!(
            class(&["AlpcpSignalAndWait", "AlpcpReceiveSynchronousReply"]),
            (WaitClass::Ipc, false)
        );
        assert_eq!(
            class(&["MiWaitForInPageComplete", "MiIssueHardFault", "MmAccessFault", "KiPageFault"]),
            (WaitClass::Memory, false)
        );
        assert_eq!(class(&["NtfsWaitForIo", "NtfsCommonWrite"]), (WaitClass::FileSystem, false));
        assert_eq!(class(&["NtDelayExecution", "SleepEx"]), (WaitClass::Timer, false));
        assert_eq!(class(&["KiSchedulerApc", "KiDeliverApc"]), (WaitClass::Stopped, false));
        // A window procedure that was called from a message loop and waits for something else is no
        // message loop.
        assert_eq!(
            class(&["NtWaitForSingleObject", "KeUserModeCallback", "NtUserGetMessage"]),
            (WaitClass::Condition, false)
        );
    }

    #[test]
    fn reasons_tell_what_stacks_do_not() {
        let name = |number| unhitch_model::WaitReason::new(number, false).name();
        assert_eq!(
            [name(28), name(27), name(15), name(4)],
            ["WrPushLock", "WrResource", "WrQueue", "DelayExecution"]
        );
        assert_eq!(
            [28, 27, 15, 4, 6].map(WaitClass::of_reason),
            [
                WaitClass::Lock,
                WaitClass::Lock,
                WaitClass::KernelIdle,
                WaitClass::Timer,
                WaitClass::Unknown
            ]
        );
    }

    #[test]
    fn names_are_matched_without_their_suffixes() {
        assert_eq!(base_name("rwsem_down_read_slowpath.isra.0"), "rwsem_down_read_slowpath");
        assert_eq!(base_name("ext4_sync_file [ext4]"), "ext4_sync_file");
        assert_eq!(base_name("pthread_mutex_lock@@GLIBC_2.2.5"), "pthread_mutex_lock");
        assert_eq!(
            base_name("core::ops::FnOnce::call_once{{vtable.shim}}"),
            "core::ops::FnOnce::call_once{{vtable.shim}}"
        );
        assert_eq!(base_name("lab::Cache::fill.llvm.17324580461093261834"), "lab::Cache::fill");
        assert_eq!(base_name("memcpy.part.0.constprop.3.cold"), "memcpy");
        assert_eq!(base_name("._start"), "._start");
    }

    #[test]
    fn regression_dots_of_a_language_are_part_of_the_name() {
        assert_eq!(base_name("sync.(*Mutex).Unlock"), "sync.(*Mutex).Unlock");
        assert_eq!(base_name("runtime.futex.abi0"), "runtime.futex");
        assert_eq!(
            base_name("java.util.concurrent.locks.ReentrantLock.unlock"),
            "java.util.concurrent.locks.ReentrantLock.unlock"
        );
        let rules = Rules::default();
        assert_eq!(
            rules.marks(&rules.patterns_matching("sync.(*Mutex).Unlock")),
            [FrameRole::Unlock]
        );
    }

    #[test]
    fn a_users_rule_comes_first() {
        let rules = Rules::with_user_rules("[[wait]]\nclass = \"lock\"\nany = [\"my_lock\"]\n")
            .expect("valid");
        assert_eq!(wait_by(&rules, &["do_sys_poll", "", "my_lock"]).class, WaitClass::Lock);
        assert!(Rules::with_user_rules("[[wait]]\nclass = \"nonsense\"\n").is_err());
    }

    #[test]
    fn an_error_repeats_nothing_of_the_file() {
        let texts = [
            "root:secret:19000:0:99999:7:::\n",
            "[[wait]]\nclass = \"secret\"\n",
            "secret = 1\n",
            "\"secret, expected more\" = 1\n",
            "[[wait]]\nclass = \"lock\"\nany = \"secret\"\n",
            "[[wait]]\nclass = \"lock\"\nsecret = 1\n",
            "[secret]\n[secret]\n",
            "secret\u{1}\n",
        ];
        for text in texts {
            let Err(error) = Rules::with_user_rules(text) else { panic!("{text}") };
            let error = error.to_string();
            assert!(
                !error.contains("secret") && error.contains("line ") && error.contains("column "),
                "{text}: {error}"
            );
            println!("{error}");
        }
        let error = Rules::with_user_rules("[[wait]]\nclass = \"lock\"\nany = 5\n")
            .err()
            .unwrap()
            .to_string();
        assert_eq!(error, "wait rules: line 3, column 7: expected a sequence");
    }
}
