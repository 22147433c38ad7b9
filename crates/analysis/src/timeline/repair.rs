//! Adds context switches that the kernel did not report, inferred from their neighbours.
//!
//! A CPU's switches form a chain: the thread that came on is the next to leave. Where the chain
//! breaks and no loss was reported, the kernel dropped events silently. That happens: on a virtual
//! machine with Linux 6.18, every event issued while certain threads were current (one CPU's idle
//! thread, a few of the init process) was missing, also from recordings of `perf record`. Any
//! record of another thread on the CPU shows a break: a switch, a wake-up issued there, a sample.
//! The most exact one is a record of the thread's arrival (`perf record --switch-events`; our
//! recorder adds them where it finds the fault). Without the repair, a thread would seem to leave a
//! CPU on which it never was. The trace's warnings give the number of inferred switches.

use super::losses::Losses;
use crate::grouped::Grouped;
use unhitch_model::{
    StackId, Switch, Switches, TaskState, ThreadId, Time, Trace, Window, linux::USUAL_PRIO,
};

/// What is known of a thread up to the current event.
#[derive(Clone, Copy)]
struct Seen {
    /// The CPU that it is on.
    on: Option<u16>,
    /// Its first wake-up since it was last on a CPU.
    woken: Option<Woken>,
    /// Its last known priority.
    prio: i16,
    /// True if any event was issued while it ran. The kernel may be silent about a thread, as about
    /// an idle CPU.
    shown: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self { on: None, woken: None, prio: USUAL_PRIO, shown: false }
    }
}

/// A wake-up, or the migration to another CPU after it.
#[derive(Clone, Copy)]
struct Woken {
    /// The index of the next switch.
    before: usize,
    time: Time,
    /// The CPU that it was woken for, and the thread on it.
    cpu: u16,
    current: ThreadId,
}

/// What is known of a CPU.
#[derive(Clone, Copy, Default)]
struct Cpu {
    /// The thread on it, once a switch has shown it.
    current: Option<ThreadId>,
    /// When that thread was last seen on it.
    seen: Time,
}

/// Maximum time from a wake-up to running on an idle CPU, nanoseconds. A thread not seen to run for
/// longer did run, unless a limit of its group prevented it.
const MAX_DELAY_NS: u64 = 50_000_000;

/// Minimum time without a switch after a wake-up that shows that the CPU was free for the woken
/// thread, nanoseconds.
const MIN_FREE_NS: u64 = 1_000_000;

/// What shows a thread on a CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The record of its arrival, at that very moment.
    Arrival,
    /// Something that it did: it had arrived before.
    Presence,
}

#[derive(Clone, Copy)]
struct Missing {
    before: usize,
    time: Time,
    cpu: u16,
    prev: ThreadId,
    next: ThreadId,
    prev_prio: i16,
    next_prio: i16,
    by: By,
    /// `prev` comes back at once.
    interlude: bool,
}

impl Missing {
    /// A thread that is interrupted for a moment stays runnable. Why any other left is unknown;
    /// most sleep.
    fn prev_state(&self) -> TaskState {
        if self.interlude { TaskState::Preempted } else { TaskState::Sleeping }
    }

    fn switch(&self) -> Switch {
        let Self { time, cpu, prev, next, prev_prio, next_prio, .. } = *self;
        let (prev_state, stack) = (self.prev_state(), StackId::EMPTY);
        // Only Windows has reasons, and it counts what it drops.
        let prev_reason = None;
        Switch { time, cpu, prev, next, prev_state, prev_reason, prev_prio, next_prio, stack }
    }
}

/// Adds the missing switches to `trace`. If no record shows when a thread came on, the first event
/// that shows it on the CPU is taken: with samples, the error is at most their period.
pub fn repair(trace: &mut Trace) {
    // The switches of one process alone form no chain.
    let whole = trace.meta.only_pid.is_none() && !trace.meta.counts_losses;
    let missing = if whole { find(trace) } else { Vec::new() };
    if missing.is_empty() {
        return;
    }
    let known = missing.iter().filter(|missing| missing.by == By::Arrival).count();
    let all = trace.switches.len() + missing.len();
    trace.warnings.add(match missing.len() - known {
        guessed if known == 0 => format!(
            "the kernel did not report {guessed} of {all} context switches; they were inferred from their neighbours, and their times are estimates"
        ),
        0 => format!("the kernel did not report {known} of {all} context switches; other records \
                      show when each thread was switched in"),
        guessed => format!(
            "the kernel did not report {} of {all} context switches; {guessed} of them were inferred from their neighbours, and their times are \
             estimates",
            missing.len()
        ),
    });
    insert(&mut trace.switches, missing);
}

fn find(trace: &Trace) -> Vec<Missing> {
    let Trace { switches, wakings, samples, arrivals, migrations, .. } = trace;
    let mut chains = Chains::new(trace);
    let (mut waking, mut sample, mut arrival, mut migration) = (0, 0, 0, 0);
    for index in 0..=switches.len() {
        let until = switches.time.get(index).copied().unwrap_or(Time::MAX);
        // Everything since the last switch, in order of time.
        loop {
            let next = |times: &[Time], at: usize| {
                times.get(at).copied().filter(|time| *time <= until).unwrap_or(Time::MAX)
            };
            let woken = next(&wakings.time, waking);
            let (sampled, arrived, migrated) = (
                next(&samples.time, sample),
                next(&arrivals.time, arrival),
                next(&migrations.time, migration),
            );
            let first = woken.min(sampled).min(arrived).min(migrated);
            if first == Time::MAX {
                break;
            } else if first == arrived {
                chains.observe(
                    index,
                    first,
                    arrivals.cpu[arrival],
                    arrivals.thread[arrival],
                    By::Arrival,
                );
                arrival += 1;
            } else if first == sampled {
                chains.observe(
                    index,
                    first,
                    samples.cpu[sample],
                    samples.thread[sample],
                    By::Presence,
                );
                sample += 1;
            } else if first == woken {
                chains.observe(
                    index,
                    first,
                    wakings.cpu[waking],
                    wakings.waker[waking],
                    By::Presence,
                );
                chains.wake(index, first, wakings.target_cpu[waking], wakings.wakee[waking]);
                waking += 1;
            } else {
                chains.migrate(
                    index,
                    first,
                    migrations.cpu[migration],
                    migrations.thread[migration],
                );
                migration += 1;
            }
        }
        if index < switches.len() {
            chains.switch(switches, index);
        }
    }
    chains.finish(trace.spans.iter().map(|span| span.window.end).max().unwrap_or_default())
}

/// The chains of all CPUs, followed in time.
struct Chains<'a> {
    trace: &'a Trace,
    losses: Losses,
    cpus: Vec<Cpu>,
    threads: Vec<Seen>,
    missing: Vec<Missing>,
    /// Threads that ran without any record of it, not even of their leaving.
    hidden: Vec<(ThreadId, Woken)>,
}

impl<'a> Chains<'a> {
    fn new(trace: &'a Trace) -> Self {
        let cpus = trace.switches.cpu.iter().max().map_or(0, |&cpu| usize::from(cpu) + 1);
        let threads = vec![Seen::default(); trace.threads.len()];
        Self {
            trace,
            losses: Losses::new(trace),
            cpus: vec![Cpu::default(); cpus],
            threads,
            missing: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// `thread` is on `cpu` at `time`, before the switch `before`. If another thread was on it, a
    /// switch is missing.
    #[inline]
    fn observe(&mut self, before: usize, time: Time, cpu: u16, thread: ThreadId, by: By) {
        let Some(on) = self.cpus.get_mut(usize::from(cpu)) else { return };
        if let Some(state) = self.threads.get_mut(thread.index()) {
            state.shown = true;
        }
        if on.current == Some(thread) {
            on.seen = time;
        } else if on.current.is_some() {
            self.infer(before, time, cpu, thread, by);
        }
    }

    #[inline]
    fn wake(&mut self, before: usize, time: Time, target_cpu: u16, wakee: ThreadId) {
        let woken = Woken { before, time, cpu: target_cpu, current: self.current(target_cpu) };
        let Some(state) = self.threads.get_mut(wakee.index()).filter(|state| state.on.is_none())
        else {
            return;
        };
        match state.woken {
            None => state.woken = Some(woken),
            // Only a sleeping thread is woken: it ran in between, and slept again.
            Some(earlier) if earlier.current.is_idle() || !state.shown => {
                self.hidden.push((wakee, earlier));
                state.woken = Some(woken);
            }
            Some(_) => {}
        }
    }

    /// A woken thread moves to another CPU: it can run only after that.
    fn migrate(&mut self, before: usize, time: Time, cpu: u16, thread: ThreadId) {
        let current = self.current(cpu);
        if let Some(woken) =
            self.threads.get_mut(thread.index()).and_then(|state| state.woken.as_mut())
        {
            *woken = Woken { before, time, cpu, current };
        }
    }

    fn current(&self, cpu: u16) -> ThreadId {
        self.cpus.get(usize::from(cpu)).and_then(|on| on.current).unwrap_or(ThreadId::IDLE)
    }

    #[inline]
    fn switch(&mut self, switches: &Switches, index: usize) {
        let (time, cpu, prev, next) =
            (switches.time[index], switches.cpu[index], switches.prev[index], switches.next[index]);
        if let Some(leaving) = self.threads.get_mut(prev.index()) {
            leaving.prio = switches.prev_prio[index];
        }
        self.observe(index, time, cpu, prev, By::Presence);
        if let Some(leaving) = self.threads.get_mut(prev.index()) {
            (leaving.on, leaving.woken) = (None, None);
        }
        self.arrive(time, cpu, next, switches.next_prio[index]);
    }

    fn arrive(&mut self, time: Time, cpu: u16, thread: ThreadId, prio: i16) {
        self.cpus[usize::from(cpu)] = Cpu { current: Some(thread), seen: time };
        if let Some(coming) = self.threads.get_mut(thread.index()).filter(|_| !thread.is_idle()) {
            self.hidden.extend(
                coming.woken.filter(|woken| is_late(*woken, time)).map(|woken| (thread, woken)),
            );
            (coming.on, coming.woken, coming.prio) = (Some(cpu), None, prio);
        }
    }

    /// `thread` was seen on `cpu` at `time`, but no switch had put it there.
    fn infer(&mut self, before: usize, time: Time, cpu: u16, thread: ThreadId, by: By) {
        let Cpu { current, seen } = self.cpus[usize::from(cpu)];
        let was = current.unwrap_or(ThreadId::IDLE);
        let state = self.threads.get(thread.index()).copied().unwrap_or_default();
        // No thread runs on two CPUs: the switch with which it left the other one is missing, too.
        if let Some(other) = state.on.filter(|other| *other != cpu && !thread.is_idle()) {
            let at = self.cpus[usize::from(other)].seen;
            self.add(before, at.plus(1).min(time), other, thread, ThreadId::IDLE, By::Presence);
        }
        // An idle CPU runs a woken thread at once. On any other CPU, the thread came on before it
        // was first seen there: if it had come at that very moment, it would still have been asleep
        // during the event that shows it.
        let prompt = state
            .woken
            .filter(|woken| was.is_idle() && by == By::Presence && !is_late(*woken, time));
        let latest = if by == By::Arrival { time } else { time.minus(1).max(seen) };
        let at = prompt.map_or(latest, |woken| woken.time.max(seen).min(latest));
        self.add(before, at, cpu, was, thread, by);
        self.cpus[usize::from(cpu)].seen = time;
    }

    /// Adds a missing switch on `cpu`, unless its events are known to be lost.
    fn add(&mut self, before: usize, time: Time, cpu: u16, prev: ThreadId, next: ThreadId, by: By) {
        let prio = |thread: ThreadId| {
            self.threads.get(thread.index()).map_or(USUAL_PRIO, |thread| thread.prio)
        };
        let (prev_prio, next_prio) = (prio(prev), prio(next));
        let seen = self.cpus[usize::from(cpu)].seen;
        if !self.losses.touch(cpu, seen, time) {
            self.missing.push(Missing {
                before,
                time,
                cpu,
                prev,
                next,
                prev_prio,
                next_prio,
                by,
                interlude: false,
            });
        }
        if let Some(leaving) = self.threads.get_mut(prev.index()) {
            (leaving.on, leaving.woken) = (None, None);
        }
        self.arrive(time, cpu, next, next_prio);
    }

    /// All that is missing in a trace that ends at `end`.
    fn finish(mut self, end: Time) -> Vec<Missing> {
        // If the kernel reported everything, a thread that does not run although a CPU is idle is
        // throttled. That is no fault of the trace.
        if self.missing.is_empty() {
            return self.missing;
        }
        let threads = self.threads.iter().enumerate();
        let late = threads.filter_map(|(index, state)| {
            Some((ThreadId(index as u32), state.woken.filter(|woken| is_late(*woken, end))?))
        });
        self.hidden.extend(late);
        let comings = Comings::new(self.trace, self.cpus.len());
        for (thread, woken) in std::mem::take(&mut self.hidden) {
            let (Woken { before, time, cpu, current }, state) =
                (woken, self.threads[thread.index()]);
            if state.shown && !(current.is_idle() && comings.stay_away(self.trace, cpu, time)) {
                continue;
            }
            let (prev_prio, next_prio) = (self.threads[current.index()].prio, state.prio);
            let came = Missing {
                before,
                time,
                cpu,
                prev: current,
                next: thread,
                prev_prio,
                next_prio,
                by: By::Presence,
                interlude: true,
            };
            let left = Missing {
                interlude: false,
                time: time.plus(1),
                prev: thread,
                next: current,
                prev_prio: next_prio,
                next_prio: prev_prio,
                ..came
            };
            self.missing.extend([came, left]);
        }
        self.missing
    }
}

/// When threads came on each CPU: a million wake-ups may be asked about at one time.
struct Comings {
    switches: Grouped<u32>,
    arrivals: Grouped<u32>,
}

impl Comings {
    fn new(trace: &Trace, cpus: usize) -> Self {
        let by_cpu = |all: &[u16]| {
            let known = all.iter().map(|&cpu| usize::from(cpu)).zip(0..);
            Grouped::by(cpus, known.filter(|(cpu, _)| *cpu < cpus))
        };
        Self { switches: by_cpu(&trace.switches.cpu), arrivals: by_cpu(&trace.arrivals.cpu) }
    }

    /// True if no thread is known to have come on `cpu` right after a wake-up.
    fn stay_away(&self, trace: &Trace, cpu: u16, from: Time) -> bool {
        let window = Window::new(from, from.plus(MIN_FREE_NS));
        let came = |all: &Grouped<u32>, times: &[Time]| {
            let came = all.first_since(usize::from(cpu), window.start, times);
            came.is_some_and(|time| time < window.end)
        };
        !came(&self.switches, &trace.switches.time) && !came(&self.arrivals, &trace.arrivals.time)
    }
}

/// True for a thread that should have run before `now`.
fn is_late(woken: Woken, now: Time) -> bool {
    now.since(woken.time) > MAX_DELAY_NS
}

/// The switches with the missing ones at their times.
fn insert(switches: &mut Switches, mut missing: Vec<Missing>) {
    missing.sort_by_key(|missing| (missing.time, missing.before));
    // A missing switch comes before the one that revealed it, even at the same time.
    let precedes = |missing: &Missing, index: usize| {
        (switches.time[index], index) < (missing.time, missing.before)
    };
    let mut place = 0;
    let placed = |missing: &Missing| {
        while place < switches.len() && precedes(missing, place) {
            place += 1;
        }
        (place, missing.switch())
    };
    let placed: Vec<(usize, Switch)> = missing.iter().map(placed).collect();
    switches.insert(&placed);
}

#[cfg(test)]
mod tests;
