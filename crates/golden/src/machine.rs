//! [`Machine`]: which thread is on which CPU at what time, and which thread wakes which. The
//! context switches follow from that.
//!
//! A trace is described by *stays* of threads on CPUs instead of switches, so that no chain of
//! switches can break: the thread that came on is the next to leave. [`Machine::finish`] rejects
//! what no machine can do: two threads on one CPU, one thread on two, a sleeper that runs without a
//! wake-up, a wake-up by a thread that is not running.

mod events;
mod recording;

pub(crate) use events::{Action, Event, IDLE, Note, Task};
pub use events::{Left, Thread};

use crate::code::{Code, Stack};
use std::collections::BTreeMap;

/// The name of a machine, or of its kernel, that has no other.
const MADE_UP: &str = "made-up";

/// From a time on, CPU samples show these stacks in turn, over and over; no samples without stacks.
pub type Phase = (u64, Vec<Stack>);

#[derive(Clone)]
struct Stay {
    thread: Thread,
    from: u64,
    to: u64,
    phases: Vec<Phase>,
    left: Left,
}

#[derive(Clone, Copy)]
enum Waker {
    Task(Thread),
    Birth(Thread),
    /// An interrupt on this CPU.
    Interrupt(usize),
}

#[derive(Clone, Copy)]
struct Wake {
    time: u64,
    by: Waker,
    wakee: Thread,
    stack: Stack,
}

/// A machine that is recorded from `start` to `end`.
pub struct Machine {
    /// What its programs are made of.
    pub code: Code,
    /// The name of the machine.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// Wall-clock time of the start, nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// The build ids of images, where they have one.
    pub build_ids: BTreeMap<String, [u8; 20]>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) period_ns: u64,
    /// Time from the start to the first sample of CPU 0. Each further CPU is sampled a little
    /// later.
    pub(crate) phase_ns: u64,
    /// Time and thread.
    pub(crate) exits: Vec<(u64, Thread)>,
    /// Time, parent, child.
    pub(crate) births: Vec<(u64, Thread, Thread)>,
    cpus: Vec<Vec<Stay>>,
    wakes: Vec<Wake>,
    notes: Vec<(u64, Thread, Note)>,
}

/// Minimum gap between two threads on a CPU, more than the kernel needs.
const GAP_NS: u64 = 4_000;
/// Time between the samples of one CPU and those of the next.
const STAGGER_NS: u64 = 211;

impl Machine {
    /// An idle machine of so many CPUs, with a CPU sample of each every `period_ns`.
    pub fn new(cpus: usize, start: u64, end: u64, period_ns: u64) -> Self {
        Self {
            code: Code::new(),
            host: MADE_UP.to_owned(),
            kernel: MADE_UP.to_owned(),
            wall_ns: 1_500_000_000_000_000_000,
            build_ids: BTreeMap::new(),
            tasks: vec![Task { pid: 0, tid: 0, comm: "swapper/0".to_owned(), born: 0 }],
            start,
            end,
            period_ns,
            phase_ns: period_ns / 3,
            exits: Vec::new(),
            births: Vec::new(),
            cpus: vec![Vec::new(); cpus],
            wakes: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The build id of the image at `path`, if it has one.
    pub(crate) fn build_id(&self, path: &str) -> Option<&[u8; 20]> {
        self.build_ids.get(path.rsplit('/').next().unwrap_or(path))
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Adds a thread that existed before the trace. The thread whose tid is the pid names the
    /// process.
    pub fn thread(&mut self, pid: u32, tid: u32, comm: &str) -> Thread {
        assert!(self.tasks.iter().all(|task| task.tid != tid), "thread {tid} is there twice");
        self.tasks.push(Task { pid, tid, comm: comm.to_owned(), born: 0 });
        Thread(self.tasks.len() - 1)
    }

    /// `thread` runs on `cpu` from `from` to `to`, where samples show `work`. A stay that begins or
    /// ends with the trace continues beyond it.
    pub fn run(
        &mut self,
        cpu: usize,
        thread: Thread,
        (from, to): (u64, u64),
        work: &[Stack],
        left: Left,
    ) {
        self.run_phases(cpu, thread, (from, to), vec![(from, work.to_vec())], left);
    }

    /// The same with changing work.
    pub fn run_phases(
        &mut self,
        cpu: usize,
        thread: Thread,
        (from, to): (u64, u64),
        phases: Vec<Phase>,
        left: Left,
    ) {
        assert!(
            from < to && self.start <= from && to <= self.end,
            "{thread:?} runs from {from} to {to}"
        );
        let stays = &mut self.cpus[cpu];
        let at = stays.partition_point(|stay| stay.from < from);
        stays.insert(at, Stay { thread, from, to, phases, left });
    }

    /// `thread` preempts the thread on `cpu` for this time.
    pub(crate) fn preempt(
        &mut self,
        cpu: usize,
        thread: Thread,
        (from, to): (u64, u64),
        work: Stack,
        left: Left,
    ) {
        self.preempt_by(cpu, from, &[(thread, to, work, left)]);
    }

    /// The same for several threads in turn, each with its end, its work and how it leaves.
    pub(crate) fn preempt_by(
        &mut self,
        cpu: usize,
        mut from: u64,
        visits: &[(Thread, u64, Stack, Left)],
    ) {
        let until = visits.last().map_or(from, |visit| visit.1);
        let stays = &mut self.cpus[cpu];
        let at = stays.partition_point(|stay| stay.from < from) - 1;
        let before = &mut stays[at];
        assert!(
            before.from < from && until < before.to,
            "CPU {cpu} has no one to be preempted at {from}"
        );
        let mut after = before.clone();
        let phase = after
            .phases
            .iter()
            .rev()
            .find(|(start, _)| *start <= from)
            .expect("a stay has its first phase");
        (before.to, before.left) =
            (from, Left::Preempted(phase.1.first().copied().unwrap_or_default()));
        after.from = until;
        stays.insert(at + 1, after);
        for &(thread, to, work, left) in visits {
            self.run(cpu, thread, (from, to), &[work], left);
            from = to;
        }
    }

    /// A CPU on which one thread runs from a little before to a little after this time. The search
    /// starts behind `last`.
    pub(crate) fn undisturbed_cpu(&self, last: usize, (from, to): (u64, u64)) -> Option<usize> {
        let covers = |stay: &Stay| stay.from + GAP_NS < from && to + GAP_NS < stay.to;
        (1..=self.cpus())
            .map(|step| (last + step) % self.cpus())
            .find(|cpu| self.cpus[*cpu].iter().any(covers))
    }

    /// One of `cpus` that is idle from a little before to a little after this time. The search
    /// starts behind `last`.
    pub(crate) fn free_cpu(
        &self,
        cpus: std::ops::Range<usize>,
        last: usize,
        (from, to): (u64, u64),
    ) -> Option<usize> {
        let (from, to) = (from.saturating_sub(GAP_NS), to + GAP_NS);
        let free = |cpu: &usize| {
            let stays = &self.cpus[*cpu];
            let after = stays.partition_point(|stay| stay.from < to);
            stays[..after].last().is_none_or(|stay| stay.to <= from)
        };
        let count = cpus.len();
        (1..=count)
            .map(|step| cpus.start + (last.max(cpus.start) - cpus.start + step) % count)
            .find(free)
    }

    /// `waker`, which must be running, wakes `wakee`.
    pub fn wake(&mut self, time: u64, waker: Thread, wakee: Thread, stack: Stack) {
        self.wakes.push(Wake { time, by: Waker::Task(waker), wakee, stack });
    }

    /// An interrupt on `cpu` wakes `wakee`.
    pub fn interrupt(&mut self, time: u64, cpu: usize, wakee: Thread, stack: Stack) {
        self.wakes.push(Wake { time, by: Waker::Interrupt(cpu), wakee, stack });
    }

    /// `parent` creates `child`, a new process.
    pub(crate) fn birth(&mut self, time: u64, parent: Thread, child: Thread, stack: Stack) {
        self.tasks[child.0].born = time;
        self.births.push((time, parent, child));
        self.wakes.push(Wake { time: time + 2_000, by: Waker::Birth(parent), wakee: child, stack });
    }

    /// `thread`, which must be running, writes a note.
    pub(crate) fn note(&mut self, time: u64, thread: Thread, note: Note) {
        self.notes.push((time, thread, note));
    }

    /// CPU time of all threads in between.
    pub(crate) fn busy_ns(&self, from: u64, until: u64) -> u64 {
        self.cpus
            .iter()
            .flatten()
            .map(|stay| stay.to.min(until).saturating_sub(stay.from.max(from)))
            .sum()
    }

    /// Number of busy CPUs at `time`.
    pub(crate) fn busy_at(&self, time: u64) -> usize {
        let busy = |stays: &&Vec<Stay>| {
            stays
                .partition_point(|stay| stay.from <= time)
                .checked_sub(1)
                .is_some_and(|at| time < stays[at].to)
        };
        self.cpus.iter().filter(busy).count()
    }

    /// Time by which `cpu` is sampled later than CPU 0.
    pub(crate) fn stagger_ns(&self, cpu: usize) -> u64 {
        cpu as u64 * STAGGER_NS
    }
}

#[cfg(test)]
mod tests;
