//! [`Machine`]: who was on which CPU from when to when, and who woke whom; the context switches
//! follow from it.
//!
//! A trace is described by *stays* of threads on CPUs instead of switches, so that no chain of
//! switches can break: whoever came on is the next to leave. [`Machine::finish`] refuses what no
//! machine could do: two threads on one CPU, one thread on two, a sleeper that comes back without a
//! wake-up, a wake-up by someone who is not running.

use crate::code::{Code, Stack};
use std::collections::BTreeSet;

/// A thread of the machine; 0 is the idle thread of every CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Thread(pub usize);

/// The idle thread.
pub(crate) const IDLE: Thread = Thread(0);

/// What the kernel knows of a thread.
#[derive(Clone)]
pub(crate) struct Task {
    pub pid: u32,
    pub tid: u32,
    pub comm: String,
    /// When it was created, 0 for those that were there before.
    pub born: u64,
}

/// How a stay on a CPU ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// It waits, and a signal could end that.
    Sleeping(Stack),
    /// It waits for something that only the kernel can give.
    Blocked(Stack),
    /// It lost the CPU to another thread.
    Preempted(Stack),
    /// It has ended.
    Dead(Stack),
}

impl Left {
    /// Where it was.
    pub(crate) const fn stack(self) -> Stack {
        match self {
            Self::Preempted(stack)
            | Self::Sleeping(stack)
            | Self::Blocked(stack)
            | Self::Dead(stack) => stack,
        }
    }
}

/// What CPU samples show from a time on: these stacks one after the other, then from the first
/// again; nothing when there are none.
pub(crate) type Phase = (u64, Vec<Stack>);

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

/// A record of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Switch {
        prev: Thread,
        left: Left,
        next: Thread,
    },
    Waking {
        waker: Thread,
        wakee: Thread,
        target_cpu: usize,
        interrupt: bool,
        new: bool,
        stack: Stack,
    },
    Sample {
        thread: Thread,
        stack: Stack,
    },
    /// What only Windows notes.
    Note {
        thread: Thread,
        note: Note,
    },
}

/// What a running thread tells of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Note {
    /// It saw a key go down.
    Key,
    /// It looks at its messages again after so many milliseconds.
    UiDelay(u32),
}

/// A record with its time, nanoseconds of the trace's clock, and CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub time: u64,
    pub cpu: usize,
    pub what: What,
}

/// A machine while it is recorded from `start` to `end`.
pub(crate) struct Machine {
    pub code: Code,
    pub tasks: Vec<Task>,
    pub start: u64,
    pub end: u64,
    pub period_ns: u64,
    /// When CPU 0 is sampled first, after the start; each further CPU is a little later.
    pub phase_ns: u64,
    /// Time and thread.
    pub exits: Vec<(u64, Thread)>,
    /// Time, parent, child.
    pub births: Vec<(u64, Thread, Thread)>,
    cpus: Vec<Vec<Stay>>,
    wakes: Vec<Wake>,
    notes: Vec<(u64, Thread, Note)>,
}

/// Longer than what the kernel needs between two threads on a CPU.
const GAP_NS: u64 = 4_000;
/// Between the samples of one CPU and those of the next.
const STAGGER_NS: u64 = 211;

impl Machine {
    pub(crate) fn new(cpus: usize, start: u64, end: u64, period_ns: u64) -> Self {
        Self {
            code: Code::new(),
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

    pub(crate) fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// A thread that was there before the trace. A process of the name `comm` is the thread with
    /// its own id.
    pub(crate) fn thread(&mut self, pid: u32, tid: u32, comm: &str) -> Thread {
        assert!(self.tasks.iter().all(|task| task.tid != tid), "thread {tid} is there twice");
        self.tasks.push(Task { pid, tid, comm: comm.to_owned(), born: 0 });
        Thread(self.tasks.len() - 1)
    }

    /// `thread` has `cpu` from `from` to `to`, where samples show `work`. A stay that begins with
    /// the trace, or ends with it, goes on there.
    pub(crate) fn run(
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
    pub(crate) fn run_phases(
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

    /// `thread` takes `cpu` from whoever has it, for this time.
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

    /// The same for several threads one after the other: each with its end, its work and how it
    /// leaves.
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

    /// A CPU that one thread has from a little before to a little after this time, searched from
    /// the one after `last`.
    pub(crate) fn undisturbed_cpu(&self, last: usize, (from, to): (u64, u64)) -> Option<usize> {
        let covers = |stay: &Stay| stay.from + GAP_NS < from && to + GAP_NS < stay.to;
        (1..=self.cpus())
            .map(|step| (last + step) % self.cpus())
            .find(|cpu| self.cpus[*cpu].iter().any(covers))
    }

    /// One of `cpus` on which nobody is from a little before to a little after this time, searched
    /// from the one after `last`.
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
    pub(crate) fn wake(&mut self, time: u64, waker: Thread, wakee: Thread, stack: Stack) {
        self.wakes.push(Wake { time, by: Waker::Task(waker), wakee, stack });
    }

    /// An interrupt on `cpu` wakes `wakee`.
    pub(crate) fn interrupt(&mut self, time: u64, cpu: usize, wakee: Thread, stack: Stack) {
        self.wakes.push(Wake { time, by: Waker::Interrupt(cpu), wakee, stack });
    }

    /// `parent` creates `child`, a process of its own.
    pub(crate) fn birth(&mut self, time: u64, parent: Thread, child: Thread, stack: Stack) {
        self.tasks[child.0].born = time;
        self.births.push((time, parent, child));
        self.wakes.push(Wake { time: time + 2_000, by: Waker::Birth(parent), wakee: child, stack });
    }

    /// `thread`, which must be running, notes something.
    pub(crate) fn note(&mut self, time: u64, thread: Thread, note: Note) {
        self.notes.push((time, thread, note));
    }

    /// The instants at which `cpu` is sampled in between, when CPU 0 is sampled first `phase_ns`
    /// after the start.
    fn ticks(
        &self,
        phase_ns: u64,
        cpu: usize,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = u64> + use<> {
        let (first, period_ns) = (self.start + phase_ns + self.stagger_ns(cpu), self.period_ns);
        let skipped = (from + 1).saturating_sub(first).div_ceil(period_ns);
        (skipped..).map(move |n| first + n * period_ns).take_while(move |tick| *tick < to)
    }

    /// What the sampling clock finds in the stays that are `wanted`.
    fn samples(&self, phase_ns: u64, wanted: impl Fn(&Stay) -> bool) -> Vec<Event> {
        let mut samples = Vec::new();
        for (cpu, stays) in self.cpus.iter().enumerate() {
            for stay in stays.iter().filter(|stay| wanted(stay)) {
                let mut taken = vec![0; stay.phases.len()];
                for time in self.ticks(phase_ns, cpu, stay.from, stay.to) {
                    let phase =
                        stay.phases.partition_point(|(start, _)| *start <= time).saturating_sub(1);
                    let stacks = &stay.phases[phase].1;
                    if let Some(&stack) = stacks.get(taken[phase] % stacks.len().max(1)) {
                        taken[phase] += 1;
                        samples.push(Event {
                            time,
                            cpu,
                            what: What::Sample { thread: stay.thread, stack },
                        });
                    }
                }
            }
        }
        samples
    }

    /// Time and CPU of the clock's ticks while nobody runs there: the first, and then one of `of`,
    /// since an idle CPU sleeps through most.
    pub(crate) fn idle_ticks(&self, of: usize) -> Vec<(u64, usize)> {
        let mut idle = Vec::new();
        for (cpu, stays) in self.cpus.iter().enumerate() {
            let busy = |time: u64| {
                stays
                    .get(stays.partition_point(|stay| stay.to <= time))
                    .is_some_and(|stay| stay.from <= time)
            };
            let ticks = self.ticks(self.phase_ns, cpu, self.start, self.end).step_by(of);
            idle.extend(ticks.filter(|time| !busy(*time)).map(|time| (time, cpu)));
        }
        idle.sort_unstable();
        idle
    }

    /// Shifts the sampling clock until as many samples as wanted are inside `function`. Any shift
    /// is as good as another.
    pub(crate) fn sample_inside(&mut self, function: &str, wanted: usize) {
        let inside = |stack: Stack| self.code.is_inside(stack, function);
        let stacks: BTreeSet<Stack> = self
            .cpus
            .iter()
            .flatten()
            .flat_map(|stay| &stay.phases)
            .flat_map(|phase| phase.1.clone())
            .collect();
        let stacks: BTreeSet<Stack> = stacks.into_iter().filter(|stack| inside(*stack)).collect();
        let can_be_inside = |stay: &Stay| {
            stay.phases.iter().any(|phase| phase.1.iter().any(|stack| stacks.contains(stack)))
        };
        let count = |phase_ns: u64| {
            let samples = self.samples(phase_ns, can_be_inside);
            samples
                .iter()
                .filter(|event| matches!(event.what, What::Sample { stack, .. } if inside(stack)))
                .count()
        };
        let found = (0..self.period_ns).step_by(1_009).find(|phase_ns| count(*phase_ns) == wanted);
        self.phase_ns = found
            .unwrap_or_else(|| panic!("no sampling clock finds {wanted} samples in {function}"));
    }

    /// CPU time of all threads in between.
    pub(crate) fn busy_ns(&self, from: u64, until: u64) -> u64 {
        self.cpus
            .iter()
            .flatten()
            .map(|stay| stay.to.min(until).saturating_sub(stay.from.max(from)))
            .sum()
    }

    /// How many CPUs have a thread at `time`.
    pub(crate) fn busy_at(&self, time: u64) -> usize {
        let busy = |stays: &&Vec<Stay>| {
            stays
                .partition_point(|stay| stay.from <= time)
                .checked_sub(1)
                .is_some_and(|at| time < stays[at].to)
        };
        self.cpus.iter().filter(busy).count()
    }

    /// How many context switches there are from `from` to `until`, both included.
    pub(crate) fn switches_between(&self, from: u64, until: u64) -> u64 {
        let mut events = Vec::new();
        self.cpus
            .iter()
            .enumerate()
            .for_each(|(cpu, stays)| self.switches(cpu, stays, &mut events));
        events.iter().filter(|event| (from..=until).contains(&event.time)).count() as u64
    }

    /// By how much `cpu` is sampled later than CPU 0.
    pub(crate) fn stagger_ns(&self, cpu: usize) -> u64 {
        cpu as u64 * STAGGER_NS
    }

    /// The CPU on which each of `moments` happens, for those in which the thread runs.
    pub(crate) fn cpus_at(
        &self,
        moments: impl Iterator<Item = (u64, Thread)>,
    ) -> Vec<Option<usize>> {
        let by_thread = self.stays_by_thread();
        moments.map(|(time, thread)| cpu_of(&by_thread[thread.0], time)).collect()
    }

    /// All records in the order of time.
    ///
    /// # Panics
    /// When the description contradicts itself.
    pub(crate) fn finish(&self) -> Vec<Event> {
        let mut events = self.samples(self.phase_ns, |_| true);
        for (cpu, stays) in self.cpus.iter().enumerate() {
            self.switches(cpu, stays, &mut events);
        }
        let by_thread = self.stays_by_thread();
        events.extend(self.wakes.iter().map(|wake| self.waking(wake, &by_thread)));
        events.extend(self.notes.iter().map(|&(time, thread, note)| {
            Event {
                time,
                cpu: cpu_of(&by_thread[thread.0], time)
                    .unwrap_or_else(|| panic!("{thread:?} notes something at {time}, asleep")),
                what: What::Note { thread, note },
            }
        }));
        events.sort_by_key(|event| (event.time, event.cpu));
        self.check(&events, &by_thread);
        events
    }

    fn switches(&self, cpu: usize, stays: &[Stay], events: &mut Vec<Event>) {
        let mut switch = |time, prev, left, next| {
            events.push(Event { time, cpu, what: What::Switch { prev, left, next } })
        };
        for (index, stay) in stays.iter().enumerate() {
            let next = stays.get(index + 1);
            assert!(
                next.is_none_or(|next| stay.to <= next.from),
                "two threads on CPU {cpu} at {}",
                stay.to
            );
            let follows = index.checked_sub(1).is_some_and(|before| stays[before].to == stay.from);
            if stay.from > self.start && !follows {
                switch(stay.from, IDLE, Left::Preempted(Stack::default()), stay.thread);
            }
            if stay.to < self.end {
                let next =
                    next.filter(|next| next.from == stay.to).map_or(IDLE, |next| next.thread);
                switch(stay.to, stay.thread, stay.left, next);
            }
        }
    }

    /// The stays of each thread in order, with their CPUs.
    fn stays_by_thread(&self) -> Vec<Vec<(usize, &Stay)>> {
        let mut by_thread = vec![Vec::new(); self.tasks.len()];
        for (cpu, stays) in self.cpus.iter().enumerate() {
            stays.iter().for_each(|stay| by_thread[stay.thread.0].push((cpu, stay)));
        }
        by_thread.iter_mut().for_each(|stays| stays.sort_by_key(|(_, stay)| stay.from));
        by_thread
    }

    fn waking(&self, wake: &Wake, by_thread: &[Vec<(usize, &Stay)>]) -> Event {
        let Wake { time, by, wakee, stack } = *wake;
        let stays = &by_thread[wakee.0];
        let next = stays.get(stays.partition_point(|(_, stay)| stay.from <= time));
        let (cpu, waker) = match by {
            Waker::Task(waker) | Waker::Birth(waker) => (
                cpu_of(&by_thread[waker.0], time)
                    .unwrap_or_else(|| panic!("{waker:?} wakes at {time}, asleep")),
                waker,
            ),
            Waker::Interrupt(cpu) => {
                let stays = &self.cpus[cpu];
                let current = stays
                    .partition_point(|stay| stay.from < time)
                    .checked_sub(1)
                    .map(|at| &stays[at]);
                (cpu, current.filter(|stay| time < stay.to).map_or(IDLE, |stay| stay.thread))
            }
        };
        let target_cpu = next.map_or(cpu, |(cpu, _)| *cpu);
        let (interrupt, new) = (matches!(by, Waker::Interrupt(_)), matches!(by, Waker::Birth(_)));
        Event { time, cpu, what: What::Waking { waker, wakee, target_cpu, interrupt, new, stack } }
    }

    fn check(&self, events: &[Event], by_thread: &[Vec<(usize, &Stay)>]) {
        let mut last = vec![0; self.cpus()];
        for event in events {
            assert!(
                last[event.cpu] < event.time,
                "two events on CPU {} at {}",
                event.cpu,
                event.time
            );
            last[event.cpu] = event.time;
        }
        let mut wakes = vec![Vec::new(); self.tasks.len()];
        self.wakes.iter().for_each(|wake| wakes[wake.wakee.0].push(wake.time));
        for (number, stays) in by_thread.iter().enumerate() {
            let times = &mut wakes[number];
            times.sort_unstable();
            let mut asleep_since = Some(0);
            let mut used = 0;
            for (_, stay) in stays {
                let woken = times
                    .iter()
                    .filter(|time| **time > asleep_since.unwrap_or(u64::MAX) && **time < stay.from)
                    .count();
                let expected = usize::from(asleep_since.is_some() && stay.from > self.start);
                assert_eq!(
                    woken, expected,
                    "wake-ups of {:?} before {}",
                    self.tasks[number].comm, stay.from
                );
                used += woken;
                asleep_since = (!matches!(stay.left, Left::Preempted(_))).then_some(stay.to);
            }
            assert_eq!(
                used,
                times.len(),
                "{} {} was woken for nothing",
                self.tasks[number].comm,
                self.tasks[number].tid
            );
            assert!(
                stays.windows(2).all(|pair| pair[0].1.to < pair[1].1.from),
                "{} is on two CPUs",
                self.tasks[number].tid
            );
        }
    }
}

/// The CPU of a thread with these stays at `time`, if it runs.
fn cpu_of(stays: &[(usize, &Stay)], time: u64) -> Option<usize> {
    let (cpu, stay) =
        *stays.get(stays.partition_point(|(_, stay)| stay.from < time).checked_sub(1)?)?;
    (time < stay.to).then_some(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs, one thread on the first, asleep in the middle of it.
    fn machine() -> (Machine, Thread, Thread, Stack) {
        let mut machine = Machine::new(2, 1_000, 100_000, 10_000);
        let stack = machine.code.stack("a!main nt!Wait");
        let (sleeper, waker) = (machine.thread(1, 1, "sleeper"), machine.thread(2, 2, "waker"));
        machine.run(0, sleeper, (1_000, 20_000), &[stack], Left::Blocked(stack));
        machine.run(0, sleeper, (50_000, 100_000), &[stack], Left::Blocked(stack));
        machine.run(1, waker, (1_000, 90_000), &[stack], Left::Sleeping(stack));
        (machine, sleeper, waker, stack)
    }

    fn switches(machine: &Machine) -> Vec<(u64, usize, usize)> {
        let switch = |event: &Event| match event.what {
            What::Switch { prev, next, .. } => Some((event.time, prev.0, next.0)),
            _ => None,
        };
        machine.finish().iter().filter_map(switch).collect()
    }

    #[test]
    fn switches_follow_from_stays() {
        let (mut machine, sleeper, waker, stack) = machine();
        machine.wake(49_000, waker, sleeper, stack);
        let guest = machine.thread(3, 3, "guest");
        machine.interrupt(59_000, 0, guest, stack);
        machine.preempt(0, guest, (60_000, 70_000), stack, Left::Sleeping(stack));
        let (sleeper, waker, guest) = (sleeper.0, waker.0, guest.0);
        let expected = [
            (20_000, sleeper, 0),
            (50_000, 0, sleeper),
            (60_000, sleeper, guest),
            (70_000, guest, sleeper),
            (90_000, waker, 0),
        ];
        assert_eq!(switches(&machine), expected);
        assert_eq!((machine.busy_at(30_000), machine.busy_at(50_000)), (1, 2));
        assert_eq!(machine.free_cpu(0..2, 0, (25_000, 45_000)), Some(0));
        assert_eq!(machine.undisturbed_cpu(0, (25_000, 45_000)), Some(1));
    }

    #[test]
    #[should_panic(expected = "wake-ups of")]
    fn a_sleeper_does_not_come_by_itself() {
        machine().0.finish();
    }

    #[test]
    #[should_panic(expected = "asleep")]
    fn nobody_wakes_others_asleep() {
        let (mut machine, sleeper, waker, stack) = machine();
        machine.wake(95_000, sleeper, waker, stack);
        machine.wake(30_000, sleeper, sleeper, stack);
        machine.finish();
    }

    #[test]
    #[should_panic(expected = "two threads on CPU 0")]
    fn a_cpu_has_one_thread() {
        let (mut machine, _, waker, stack) = machine();
        machine.run(0, waker, (60_000, 70_000), &[stack], Left::Sleeping(stack));
        machine.finish();
    }
}
