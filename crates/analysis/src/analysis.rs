//! A trace with everything that is computed from it once.

use crate::contacts::Contacts;
use crate::explain::{disk_servers, file_server};
use crate::facts::Refusals;
use crate::grouped::{Grouped, Starts};
use crate::locks::kernel_locks::KernelLocks;
use crate::locks::waiters::Waiters;
use crate::memo::Memos;
use crate::samples::SampleIndex;
use crate::stacks::Rules;
use crate::stacks::classes::StackClasses;
use crate::timeline::cpus::CpuTimes;
use crate::timeline::process_times::ProcessTimes;
use crate::timeline::{Segment, State, Timeline};
use crate::user_marks::{UserMark, user_marks};
use crate::wakers::by_waker;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::OnceLock;
use unhitch_model::{KeptWait, KeptWake, ProcessId, ThreadId, Trace, Window};

/// For each wait signature, the ids of the functions that ended such waits anywhere in the
/// recording.
pub(crate) type Releasing = FxHashMap<u64, FxHashSet<u32>>;

/// The indices that all questions about a trace share. *Why one thread computes what is computed on first
/// use:* threads that explain stalls side by side ask for it. One that let others help would take up more
/// work while it waits for them, ask for the same there, and wait for itself.
pub struct Analysis<'t> {
    /// The trace.
    pub trace: &'t Trace,
    /// What its stacks mean.
    pub stacks: StackClasses,
    /// What its threads did.
    pub timeline: Timeline,
    /// Which threads were on its CPUs.
    pub cpus: CpuTimes,
    /// Where its threads were while they ran.
    pub samples: SampleIndex,
    /// What its user did during the recording.
    pub marks: Vec<UserMark>,
    /// Which functions end which waits for locks, computed on first use.
    pub(crate) releasing: OnceLock<Releasing>,
    /// How long processes ran, computed on first use.
    process_times: OnceLock<ProcessTimes>,
    /// The threads of each process, computed on first use.
    members: OnceLock<Grouped<ThreadId>>,
    /// Which threads ever woke which, computed on first use.
    contacts: OnceLock<Contacts>,
    /// The wake-ups of each waker, computed on first use.
    wakers: OnceLock<Grouped<u32>>,
    /// Where the waits of each thread begin in [`Trace::kept_waits`], computed on first use.
    kept_waits: OnceLock<Starts>,
    /// The same of [`Trace::kept_wakes`].
    kept_wakes: OnceLock<Starts>,
    /// Who waited at which address, computed on first use.
    waiters: OnceLock<Waiters>,
    /// Which locks on files were refused, computed on first use.
    refusals: OnceLock<Refusals>,
    /// Which threads serve disks that are files, computed on first use.
    disk_servers: OnceLock<Vec<ThreadId>>,
    /// Which program serves file systems, computed on first use.
    file_server: OnceLock<Option<ThreadId>>,
    /// The processes that each process started, by its number, computed on first use.
    children: OnceLock<FxHashMap<u32, Vec<ProcessId>>>,
    /// Who owned the futex for which each thread waited at the save, computed on first use.
    futex_owners: OnceLock<FxHashMap<ThreadId, Option<ThreadId>>>,
    /// Whom threads wait for that nobody woke.
    pub(crate) memos: Memos,
    /// The kernel locks that its threads waited for.
    pub(crate) kernel_locks: KernelLocks,
}

impl<'t> Analysis<'t> {
    /// Computes all indices of `trace`.
    pub fn new(trace: &'t Trace, rules: &Rules) -> Self {
        let grouped = || (CpuTimes::new(trace, trace.common_window()), SampleIndex::new(trace));
        let (timeline, (stacks, (cpus, samples))) = rayon::join(
            || Timeline::new(trace),
            || rayon::join(|| StackClasses::new(trace, rules), grouped),
        );
        Self {
            trace,
            stacks,
            timeline,
            cpus,
            samples,
            marks: user_marks(trace),
            kernel_locks: KernelLocks::new(trace),
            releasing: OnceLock::new(),
            contacts: OnceLock::new(),
            wakers: OnceLock::new(),
            kept_waits: OnceLock::new(),
            kept_wakes: OnceLock::new(),
            waiters: OnceLock::new(),
            refusals: OnceLock::new(),
            disk_servers: OnceLock::new(),
            process_times: OnceLock::new(),
            members: OnceLock::new(),
            file_server: OnceLock::new(),
            children: OnceLock::new(),
            futex_owners: OnceLock::new(),
            memos: Memos::default(),
        }
    }

    /// The partition of a thread's time inside `window`.
    pub fn segments(&self, thread: ThreadId, window: Window) -> Vec<Segment> {
        self.timeline.segments(self.trace, thread, window)
    }

    /// Which threads ever woke which.
    pub(crate) fn contacts(&self) -> &Contacts {
        self.contacts.get_or_init(|| Contacts::new(self.trace, &self.stacks))
    }

    /// The wake-ups that `thread` issued itself inside `window`, as indices into the wakings.
    pub(crate) fn issued(&self, thread: ThreadId, window: Window) -> &[u32] {
        let wakers = self.wakers.get_or_init(|| by_waker(self.trace, &self.stacks));
        wakers.inside(thread.index(), window, &self.trace.wakings.time)
    }

    /// What the recorder noted of the waits of `thread`, in order of time.
    pub(crate) fn kept_waits(&self, thread: ThreadId) -> &'t [KeptWait] {
        let all = self.trace.kept_waits.as_slice();
        let threads = self.trace.threads.len();
        let starts =
            self.kept_waits.get_or_init(|| Starts::new(all, threads, |wait| wait.thread.index()));
        starts.of(thread.index(), all)
    }

    /// The same of the wake-ups that ended waits of `thread` for a futex.
    fn kept_wakes(&self, thread: ThreadId) -> &'t [KeptWake] {
        let all = self.trace.kept_wakes.as_slice();
        let threads = self.trace.threads.len();
        let starts =
            self.kept_wakes.get_or_init(|| Starts::new(all, threads, |wake| wake.wakee.index()));
        starts.of(thread.index(), all)
    }

    /// Which locks on files were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        self.refusals.get_or_init(|| Refusals::new(self.trace))
    }

    /// Which threads serve disks that are files.
    pub(crate) fn disk_servers(&self) -> &[ThreadId] {
        self.disk_servers.get_or_init(|| disk_servers(self.trace, &self.stacks))
    }

    /// Which program serves file systems.
    pub(crate) fn file_server(&self) -> Option<ThreadId> {
        *self.file_server.get_or_init(|| file_server(self.trace, &self.stacks))
    }

    /// Who owned the futex for which `waiter` waited at the save.
    pub(crate) fn futex_owner(&self, waiter: ThreadId) -> Option<ThreadId> {
        let owners = self.futex_owners.get_or_init(|| {
            // Of several, the first counts.
            let waits = self.trace.futex_waits.iter().rev();
            waits.map(|wait| (wait.waiter, wait.owner)).collect()
        });
        owners.get(&waiter).copied().flatten()
    }

    /// The processes that those with the number `pid` started.
    pub(crate) fn children_of(&self, pid: u32) -> &[ProcessId] {
        let children = self.children.get_or_init(|| {
            let mut children: FxHashMap<u32, Vec<ProcessId>> = FxHashMap::default();
            for (id, process) in self.trace.threads.processes() {
                if let Some(parent) = process.parent_pid {
                    children.entry(parent).or_default().push(id);
                }
            }
            children
        });
        children.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Who waited at which address.
    pub(crate) fn waiters(&self) -> &Waiters {
        self.waiters.get_or_init(|| Waiters::new(self.trace))
    }

    /// The futex at which a wake-up, by its index, found the thread that it woke, if the recorder
    /// noted that. *Why only of one process:* elsewhere the address means something else.
    pub(crate) fn woken_futex(&self, wake: usize) -> Option<u64> {
        let (wakings, threads) = (&self.trace.wakings, &self.trace.threads);
        let (wakee, waker) = (wakings.wakee[wake], wakings.waker[wake]);
        let of_process = threads.get(wakee).process == threads.get(waker).process;
        let kept = self.kept_wakes(wakee);
        let at = kept.binary_search_by_key(&wakings.time[wake], |kept| kept.time).ok()?;
        of_process.then_some(kept[at].futex_avma)
    }

    /// How long processes ran.
    pub(crate) fn process_times(&self) -> &ProcessTimes {
        self.process_times.get_or_init(|| ProcessTimes::new(self.trace))
    }

    /// The threads of a process.
    pub(crate) fn threads_of(&self, process: ProcessId) -> &[ThreadId] {
        let members = self.members.get_or_init(|| {
            let threads = &self.trace.threads;
            let members = threads.iter().map(|(id, thread)| (thread.process.index(), id));
            Grouped::by(threads.processes().count(), members)
        });
        members.of(process.index())
    }

    /// The CPU that a segment ran on or waited for.
    pub fn cpu_of(&self, segment: &Segment) -> Option<u16> {
        let switched_in = segment.back().map(|back| self.trace.switches.cpu[back]);
        let proposed = segment.wake().map(|wake| self.trace.wakings.target_cpu[wake]);
        let left = segment.out().map(|out| self.trace.switches.cpu[out]);
        match segment.state {
            State::Ran => switched_in,
            // Who is woken waits where it was before, as a rule; what a waker proposes may be its own.
            State::Runnable { .. } => switched_in.or(left).or(proposed),
            State::Sleeping(_) | State::Unknown => None,
        }
    }
}
