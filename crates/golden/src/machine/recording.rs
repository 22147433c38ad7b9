//! Turns the description of a [`Machine`] into events, and checks it.

use super::events::{Action, Event, IDLE, Left, Thread};
use super::{Machine, Stay, Wake, Waker};
use crate::code::Stack;
use std::collections::BTreeSet;

impl Machine {
    /// The times at which `cpu` is sampled in between, if CPU 0 is sampled first `phase_ns` after
    /// the start.
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

    /// The samples in the `wanted` stays.
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
                            action: Action::Sample { thread: stay.thread, stack },
                        });
                    }
                }
            }
        }
        samples
    }

    /// Time and CPU of the clock's ticks on idle CPUs: the first one, and then one of `of`, because
    /// an idle CPU skips most.
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

    /// Shifts the sampling clock until the wanted number of samples is inside `function`. All
    /// shifts are equally good.
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
                .filter(
                    |event| matches!(event.action, Action::Sample { stack, .. } if inside(stack)),
                )
                .count()
        };
        let found = (0..self.period_ns).step_by(1_009).find(|phase_ns| count(*phase_ns) == wanted);
        self.phase_ns = found
            .unwrap_or_else(|| panic!("no sampling clock finds {wanted} samples in {function}"));
    }

    /// Number of context switches from `from` to `until`, both included.
    pub(crate) fn switches_between(&self, from: u64, until: u64) -> u64 {
        let mut events = Vec::new();
        self.cpus
            .iter()
            .enumerate()
            .for_each(|(cpu, stays)| self.switches(cpu, stays, &mut events));
        events.iter().filter(|event| (from..=until).contains(&event.time)).count() as u64
    }

    /// The CPU at each of `moments`, if the thread runs then.
    pub(crate) fn cpus_at(
        &self,
        moments: impl Iterator<Item = (u64, Thread)>,
    ) -> Vec<Option<usize>> {
        let by_thread = self.stays_by_thread();
        moments.map(|(time, thread)| cpu_of(&by_thread[thread.0], time)).collect()
    }

    /// All events, by time.
    ///
    /// # Panics
    /// If the description contradicts itself.
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
                action: Action::Note { thread, note },
            }
        }));
        events.sort_by_key(|event| (event.time, event.cpu));
        self.check(&events, &by_thread);
        events
    }

    fn switches(&self, cpu: usize, stays: &[Stay], events: &mut Vec<Event>) {
        let mut switch = |time, prev, left, next| {
            events.push(Event { time, cpu, action: Action::Switch { prev, left, next } })
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
        Event {
            time,
            cpu,
            action: Action::Waking { waker, wakee, target_cpu, interrupt, new, stack },
        }
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
