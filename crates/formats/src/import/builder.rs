//! [`Import`]: what a reader has decoded so far, and how it becomes a [`Trace`].

use super::contexts;
use super::late_stacks::LateStacks;
use super::lives::Lives;
use crate::perf_data::rows::{Contention, Placement, Row, Rows, Sample, Switch, Waking};
use crate::thread_index::ThreadIndex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::mem;
use unhitch_model::{
    ContentionKind, Contentions, CpuSpan, Lack, Loss, NameId, Placements, Samples, StackId,
    Switches, TaskState, ThreadId, Threads, Time, Trace, WakeFlags, Wakings, Window, units,
};

/// The thread of a wake-up whose source does not say who was on the CPU.
pub(super) const UNKNOWN_TID: u32 = u32::MAX;
/// The CPU of a sample whose source does not say it.
pub(super) const UNKNOWN_CPU: u16 = u16::MAX;

/// A thread in a context switch or wake-up.
#[derive(Clone, Copy, Default)]
pub(super) struct Task<'a> {
    pub tid: u32,
    pub prio: i16,
    /// Empty if the event does not have it.
    pub comm: &'a [u8],
}

/// Where and when an event happened.
#[derive(Clone, Copy, Default)]
pub(super) struct At {
    /// Nanoseconds of the trace's clock.
    pub time: u64,
    pub cpu: u16,
    pub stack: StackId,
}

/// Which event reported a wake-up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeEvent {
    /// `sched_waking`, in the context of the waker.
    Waking,
    /// `sched_wakeup`, often in the context of the CPU that the woken thread goes to.
    Wakeup,
    /// `sched_wakeup_new`.
    New,
}

/// The events of a trace, in any order.
#[derive(Default)]
pub(super) struct Import {
    /// Strings, modules, stacks and names of frames are added to it directly.
    pub trace: Trace,
    pub lives: Lives,
    /// Stacks that come apart from the events they belong to.
    pub late_stacks: LateStacks,
    /// True if each CPU's oldest events were overwritten on their own.
    pub starts_differ: bool,
    rows: Rows,
    /// By `sched_wakeup`; used if there is no `sched_waking`.
    woken: Vec<Row<Waking>>,
    has_waking: bool,
    covered: BTreeMap<u16, (u64, u64)>,
    counts: BTreeMap<&'static str, u64>,
    left_out: BTreeMap<&'static str, u64>,
}

impl Import {
    /// Counts an event of the file, whether or not it is used.
    pub fn count(&mut self, kind: &'static str) {
        *self.counts.entry(kind).or_default() += 1;
    }

    /// Counts something that could not be read or placed.
    pub fn leave_out(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }

    /// `prev` left the CPU and `next` came on.
    pub fn switch(&mut self, at: At, prev: Task<'_>, prev_state: TaskState, next: Task<'_>) {
        self.lives.name(at.time, prev.tid, prev.comm);
        self.lives.name(at.time, next.tid, next.comm);
        if prev_state == TaskState::Dead {
            self.lives.gone(at.time, prev.tid);
        }
        let of = Switch {
            prev: prev.tid,
            next: next.tid,
            prev_prio: prev.prio,
            next_prio: next.prio,
            prev_state,
        };
        self.rows.switches.push(row(at, of));
        self.cover(at);
    }

    /// A thread came on a CPU; who left is not known.
    pub fn arrival(&mut self, at: At, task: Task<'_>) {
        self.lives.name(at.time, task.tid, task.comm);
        self.rows.arrivals.push(row(at, Placement { tid: task.tid }));
        self.cover(at);
    }

    /// `waker`, which may be [`UNKNOWN_TID`], made `wakee` runnable.
    pub fn waking(
        &mut self,
        at: At,
        event: WakeEvent,
        waker: u32,
        wakee: Task<'_>,
        (target_cpu, flags): (Option<u16>, WakeFlags),
    ) {
        let mut flags = flags;
        if event == WakeEvent::New {
            flags = flags.with(WakeFlags::NEW);
            self.lives.first_wake(at.time, wakee.tid);
        }
        self.lives.name(at.time, wakee.tid, wakee.comm);
        let target_cpu = target_cpu.unwrap_or(at.cpu);
        let of = Waking { waker, wakee: wakee.tid, target_cpu, flags };
        self.has_waking |= event == WakeEvent::Waking;
        let rows = match event {
            WakeEvent::Wakeup => &mut self.woken,
            _ => &mut self.rows.wakings,
        };
        rows.push(row(at, of));
        self.cover(at);
    }

    /// A thread was running; the CPU may be [`UNKNOWN_CPU`].
    pub fn sample(&mut self, at: At, tid: u32) {
        self.rows.samples.push(row(at, Sample { tid }));
        if at.cpu != UNKNOWN_CPU {
            self.cover(at);
        }
    }

    /// A thread begins or ends to wait for a lock of the kernel.
    pub fn contention(&mut self, at: At, of: Contention) {
        self.rows.contentions.push(row(at, of));
        self.cover(at);
    }

    /// A thread was sent to another CPU.
    pub fn migration(&mut self, time: u64, tid: u32, to_cpu: u16) {
        self.rows
            .migrations
            .push(row(At { time, cpu: to_cpu, ..At::default() }, Placement { tid }));
    }

    /// Events of a CPU are missing; their number is 0 if it is not known.
    pub fn lost(&mut self, cpu: u16, from: u64, to: u64, events: u64) {
        let window = Window::new(Time::from_nanos(from.min(to)), Time::from_nanos(to));
        self.trace.losses.push(Loss { cpu, window, events });
    }

    /// The last time of this CPU's events so far.
    pub fn last_time(&self, cpu: u16) -> Option<u64> {
        self.covered.get(&cpu).map(|(_, last)| *last)
    }

    /// True if nothing was decoded that a trace could be made of.
    pub fn is_empty(&self) -> bool {
        self.covered.is_empty() && self.rows.samples.is_empty()
    }

    /// Notes that events of this CPU were recorded at this time.
    pub fn cover(&mut self, at: At) {
        let (first, last) = self.covered.entry(at.cpu).or_insert((at.time, at.time));
        *first = at.time.min(*first);
        *last = at.time.max(*last);
    }

    /// The trace. `lacks` are those that the reader knows of.
    pub fn finish(mut self, lacks: &[Lack]) -> Trace {
        let mut lacks = lacks.to_vec();
        if self.has_waking {
            self.woken = Vec::new();
        } else if !self.woken.is_empty() {
            self.rows.wakings.append(&mut self.woken);
            lacks.push(Lack::Wakers);
        }
        self.sort();
        self.complete();
        let (waits, wakes) = (&mut self.rows.switches, &mut self.rows.wakings);
        let unplaced = mem::take(&mut self.late_stacks).place(waits, wakes);
        *self.left_out.entry("unplaced stack").or_default() += unplaced;
        let Self { mut trace, lives, rows, .. } = self;
        let threads = mem::replace(&mut trace.threads, Threads::new(NameId::EMPTY));
        trace.threads = lives.build(threads, &mut trace.strings, &mut lacks);
        let index = ThreadIndex::new(&trace.threads);
        fill(&mut trace, rows, &index);
        trace.spans = spans(&self.covered, self.starts_differ);
        trace.meta.buffers = trace.spans.len() as u64;
        trace.losses.sort_by_key(|loss| (loss.window.start, loss.cpu));
        for (kind, count) in self.counts {
            *trace.by_kind.entry(kind.to_owned()).or_default() += count;
        }
        for (what, count) in self.left_out.into_iter().filter(|(_, count)| *count > 0) {
            trace.warnings.add(format!("left out {}", units::plural(count, what)));
        }
        if lacks.contains(&Lack::WakeContexts) && contexts::from_stacks(&mut trace) {
            lacks.retain(|lack| *lack != Lack::WakeContexts);
        }
        say_what_it_lacks(&mut trace, lacks);
        trace
    }

    fn sort(&mut self) {
        let rows = &mut self.rows;
        rows.switches.sort_by_key(|row| row.time);
        rows.wakings.sort_by_key(|row| row.time);
        rows.samples.sort_by_key(|row| row.time);
        rows.arrivals.sort_by_key(|row| row.time);
        rows.migrations.sort_by_key(|row| row.time);
        rows.contentions.sort_by_key(|row| row.time);
    }

    /// Finds out who was on a CPU, and on which CPU a thread was, by the switches.
    fn complete(&mut self) {
        let Rows { switches, wakings, samples, .. } = &mut self.rows;
        if wakings.iter().any(|row| row.of.waker == UNKNOWN_TID) {
            let mut current: FxHashMap<u16, u32> = FxHashMap::default();
            for switch in switches.iter().rev() {
                current.insert(switch.cpu, switch.of.prev);
            }
            let mut before = switches.iter().peekable();
            for waking in wakings.iter_mut() {
                while let Some(switch) = before.next_if(|switch| switch.time <= waking.time) {
                    current.insert(switch.cpu, switch.of.next);
                }
                if waking.of.waker == UNKNOWN_TID {
                    waking.of.waker = current.get(&waking.cpu).copied().unwrap_or(0);
                }
            }
        }
        if samples.iter().any(|row| row.cpu == UNKNOWN_CPU) {
            let mut places: FxHashMap<u32, u16> = FxHashMap::default();
            for switch in switches.iter().rev() {
                places.insert(switch.of.next, switch.cpu);
                places.insert(switch.of.prev, switch.cpu);
            }
            let mut before = switches.iter().peekable();
            for sample in samples.iter_mut() {
                while let Some(switch) = before.next_if(|switch| switch.time <= sample.time) {
                    places.insert(switch.of.next, switch.cpu);
                }
                if sample.cpu == UNKNOWN_CPU {
                    sample.cpu = places.get(&sample.of.tid).copied().unwrap_or(0);
                    let (first, last) =
                        self.covered.entry(sample.cpu).or_insert((sample.time, sample.time));
                    *first = sample.time.min(*first);
                    *last = sample.time.max(*last);
                }
            }
        }
    }
}

fn row<T>(at: At, of: T) -> Row<T> {
    Row { time: at.time, stack: at.stack.0, cpu: at.cpu, of }
}

/// What each CPU's events cover. A recorder that keeps everything starts all CPUs together.
fn spans(covered: &BTreeMap<u16, (u64, u64)>, starts_differ: bool) -> Vec<CpuSpan> {
    let earliest = covered.values().map(|(first, _)| *first).min().unwrap_or(0);
    let span = |(cpu, (first, last)): (&u16, &(u64, u64))| {
        let start = Time::from_nanos(if starts_differ { *first } else { earliest });
        CpuSpan { cpu: *cpu, window: Window::new(start, Time::from_nanos(*last).plus(1)) }
    };
    covered.iter().map(span).collect()
}

fn fill(trace: &mut Trace, rows: Rows, index: &ThreadIndex) {
    let thread = |tid: u32, time: Time| match tid {
        0 => ThreadId::IDLE,
        tid => index.at(tid, time),
    };
    trace.switches = Switches::with_capacity(rows.switches.len());
    for Row { time, stack, cpu, of } in rows.switches {
        let time = Time::from_nanos(time);
        trace.switches.push(unhitch_model::Switch {
            time,
            cpu,
            prev: thread(of.prev, time),
            next: thread(of.next, time),
            prev_state: of.prev_state,
            prev_reason: None,
            prev_prio: of.prev_prio,
            next_prio: of.next_prio,
            stack: StackId(stack),
        });
    }
    trace.wakings = Wakings::with_capacity(rows.wakings.len());
    for Row { time, stack, cpu, of } in rows.wakings {
        let time = Time::from_nanos(time);
        trace.wakings.push(unhitch_model::Waking {
            time,
            cpu,
            waker: thread(of.waker, time),
            wakee: thread(of.wakee, time),
            target_cpu: of.target_cpu,
            flags: of.flags,
            stack: StackId(stack),
        });
    }
    trace.samples = Samples::with_capacity(rows.samples.len());
    for Row { time, stack, cpu, of } in rows.samples {
        let time = Time::from_nanos(time);
        let (thread, stack) = (thread(of.tid, time), StackId(stack));
        trace.samples.push(unhitch_model::Sample { time, cpu, thread, stack, in_interrupt: None });
    }
    trace.contentions = Contentions::with_capacity(rows.contentions.len());
    for Row { time, stack, of, .. } in rows.contentions {
        let time = Time::from_nanos(time);
        trace.contentions.push(unhitch_model::Contention {
            time,
            thread: thread(of.tid, time),
            kind: if of.end { ContentionKind::End } else { ContentionKind::Begin },
            lock_avma: of.lock_avma,
            flags: of.flags,
            stack: StackId(stack),
        });
    }
    let placements = |rows: Vec<Row<Placement>>| {
        let mut out = Placements::with_capacity(rows.len());
        for Row { time, cpu, of, .. } in rows {
            let time = Time::from_nanos(time);
            out.push(unhitch_model::Placement { time, cpu, thread: thread(of.tid, time) });
        }
        out
    };
    trace.arrivals = placements(rows.arrivals);
    trace.migrations = placements(rows.migrations);
}

/// Notes what the source cannot tell, and says it in words.
fn say_what_it_lacks(trace: &mut Trace, mut lacks: Vec<Lack>) {
    let none = |stacks: &[StackId]| !stacks.is_empty() && stacks.iter().all(|it| it.is_empty());
    if none(&trace.switches.stack) {
        lacks.push(Lack::WaitStacks);
    }
    if none(&trace.wakings.stack) {
        lacks.push(Lack::WakeStacks);
    }
    lacks.sort_unstable();
    lacks.dedup();
    lacks.iter().for_each(|lack| trace.warnings.add(lack.words()));
    trace.meta.lacks = lacks;
}
