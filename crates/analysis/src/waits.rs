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

/// A function's name without what the compiler or the kernel's symbol table hung onto it.
pub(crate) fn base_name(function: &str) -> &str {
    let name = function.split(" [").next().unwrap_or(function);
    let name = name.split('@').next().unwrap_or(name);
    match name.find('.') {
        Some(at) if at > 0 && !name.contains("::") => &name[..at],
        _ => name,
    }
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
        assert_eq!(class(&["nothing_known"]), (WaitClass::Unknown, false));
    }

    #[test]
    fn names_are_matched_without_their_suffixes() {
        assert_eq!(base_name("rwsem_down_read_slowpath.isra.0"), "rwsem_down_read_slowpath");
        assert_eq!(base_name("ext4_sync_file [ext4]"), "ext4_sync_file");
        assert_eq!(base_name("pthread_mutex_lock@@GLIBC_2.2.5"), "pthread_mutex_lock");
        assert_eq!(base_name("core::ops::FnOnce::call_once{{vtable.shim}}"), "core::ops::FnOnce::call_once{{vtable.shim}}");
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
