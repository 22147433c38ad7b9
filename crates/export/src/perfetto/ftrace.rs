//! Switches, wake-ups, births and exits as ftrace events, in bundles by CPU.

use super::fields::packet;
use super::packets::{Packets, Sequence};
use super::tasks;
use crate::job::Progress;
use crate::protobuf::Message;
use std::io;
use std::rc::Rc;
use unhitch_formats::perf_data::{Selection, tracepoints};
use unhitch_model::linux::USUAL_PRIO;
use unhitch_model::{Lack, NameId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};

/// Events that are collected before bundles are written.
const MAX_COLLECTED: usize = 1 << 13;

/// What was written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) switches: u64,
    pub(super) wakings: u64,
}

/// Which of the events within one nanosecond comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Birth,
    Rename,
    Waking,
    Exit,
    Switch,
}

/// Writes the selected events in the order of time.
pub(super) fn write(
    trace: &Trace,
    selection: &Selection,
    packets: &mut Packets<'_>,
    progress: &mut Progress<'_>,
) -> io::Result<Written> {
    let mut switches = trace.switches.range(selection.window);
    let mut wakings = trace.wakings.range(selection.window);
    progress.expect(switches.len() + wakings.len());
    let (births, exits) = lives(trace, selection);
    let (mut births, mut exits) = (births.into_iter().peekable(), exits.into_iter().peekable());
    let mut renames = renames(trace, selection.window).into_iter().peekable();
    let mut bundles = Bundles::new(trace);
    let mut written = Written::default();
    loop {
        let heads = [
            births.peek().map(|(time, _)| (*time, Kind::Birth)),
            renames.peek().map(|rename| (rename.0, Kind::Rename)),
            wakings.clone().next().map(|row| (trace.wakings.time[row], Kind::Waking)),
            exits.peek().map(|(time, _)| (*time, Kind::Exit)),
            switches.clone().next().map(|row| (trace.switches.time[row], Kind::Switch)),
        ];
        let Some((_, kind)) = heads.into_iter().flatten().min() else { break };
        match kind {
            Kind::Birth => {
                if let Some((time, thread)) = births.next() {
                    tasks::write(trace, &[thread], time, packets)?;
                    bundles.birth(time, thread, packets)?;
                }
            }
            Kind::Rename => {
                if let Some(rename) = renames.next() {
                    bundles.rename(rename, packets)?;
                }
            }
            Kind::Exit => {
                if let Some((time, thread)) = exits.next() {
                    bundles.exit(time, thread, packets)?;
                }
            }
            Kind::Waking => {
                if let Some(row) = wakings.next() {
                    progress.step();
                    let of = &trace.wakings;
                    if selection.has(&[of.waker[row], of.wakee[row]]) {
                        bundles.waking(row, packets)?;
                        written.wakings += 1;
                    }
                }
            }
            Kind::Switch => {
                if let Some(row) = switches.next() {
                    progress.step();
                    let of = &trace.switches;
                    if selection.has(&[of.prev[row], of.next[row]]) {
                        bundles.switch(row, packets)?;
                        written.switches += 1;
                    }
                }
            }
        }
    }
    bundles.flush(packets)?;
    Ok(written)
}

type Lives = Vec<(Time, ThreadId)>;

/// When threads were created, and when they ended, inside the selection.
fn lives(trace: &Trace, selection: &Selection) -> (Lives, Lives) {
    let window = selection.window;
    let inside = |time: Option<Time>| time.filter(|time| window.contains(*time));
    let threads = || trace.threads.iter().filter(|(id, _)| !id.is_idle());
    let mut births: Lives = threads()
        .filter_map(|(id, thread)| Some((inside(thread.start)?, id)))
        .filter(|(time, _)| *time > window.start)
        .collect();
    let mut exits: Lives =
        threads().filter_map(|(id, thread)| Some((inside(thread.end)?, id))).collect();
    births.sort_unstable();
    exits.sort_unstable();
    (births, exits)
}

/// When which thread got which name, and which it had before.
type Rename = (Time, ThreadId, [NameId; 2]);

/// The names that threads got inside the window.
fn renames(trace: &Trace, window: Window) -> Vec<Rename> {
    let mut renames: Vec<Rename> = trace
        .threads
        .iter()
        .filter(|(id, _)| !id.is_idle())
        .flat_map(|(id, thread)| thread.names.windows(2).map(move |pair| (id, pair)))
        .map(|(id, pair)| (pair[1].0, id, [pair[0].1, pair[1].1]))
        .filter(|(time, ..)| window.contains(*time))
        .collect();
    renames.sort_unstable();
    renames
}

/// `CLONE_THREAD` (clone(2)).
const CLONE_THREAD: u64 = 0x1_0000;

/// Fields of `FtraceEvent`.
const TIMESTAMP: u32 = 1;
const CURRENT: u32 = 2;
const SWITCH: u32 = 4;
const COMMON_FLAGS: u32 = 5;
const WAKEUP: u32 = 17;
const WAKING: u32 = 20;
const WAKEUP_NEW: u32 = 114;
const NEW_TASK: u32 = 235;
const RENAME: u32 = 236;
const EXIT: u32 = 238;
const FREE: u32 = 240;

/// Field of `FtraceEventBundle` that holds an event.
const EVENT: u32 = 2;

/// The events of one CPU that are still to be written.
#[derive(Default)]
struct Bundle {
    events: Message,
    /// The CPU's losses up to here are told.
    losses_told: usize,
    follows_loss: bool,
}

/// The events that are still to be written, by CPU.
struct Bundles<'t> {
    trace: &'t Trace,
    of_cpu: Vec<Bundle>,
    /// By CPU: the kernel's name of its idle thread.
    idle_names: Rc<[String]>,
    /// By CPU: the end of each loss.
    losses: Vec<Vec<Time>>,
    collected: usize,
    /// The CPU of the last switch or wake-up: births and exits are on no known CPU.
    last_cpu: u16,
}

impl<'t> Bundles<'t> {
    fn new(trace: &'t Trace) -> Self {
        let mut losses: Vec<Vec<Time>> = Vec::new();
        for loss in &trace.losses {
            let cpu = usize::from(loss.cpu);
            losses.resize(losses.len().max(cpu + 1), Vec::new());
            losses[cpu].push(loss.window.end);
        }
        losses.iter_mut().for_each(|ends| ends.sort_unstable());
        let last_cpu = trace.spans.first().map_or(0, |span| span.cpu);
        let cpus = trace.spans.iter().map(|span| span.cpu).max().unwrap_or(0);
        let idle_names = (0..=cpus).map(|cpu| format!("swapper/{cpu}")).collect();
        Self { trace, of_cpu: Vec::new(), idle_names, losses, collected: 0, last_cpu }
    }

    fn switch(&mut self, row: usize, packets: &mut Packets<'_>) -> io::Result<()> {
        let (trace, of) = (self.trace, &self.trace.switches);
        let (time, cpu, state) = (of.time[row], of.cpu[row], of.prev_state[row]);
        let (prev, next) = (of.prev[row], of.next[row]);
        self.last_cpu = cpu;
        let tid = |thread| trace.threads.get(thread).tid;
        let names = Rc::clone(&self.idle_names);
        let comm = |thread| comm(trace, &names, thread, time, cpu);
        self.event(cpu, time, packets, |event| {
            event.tid(CURRENT, tid(prev));
            event.nest(SWITCH, |switch| {
                switch.put(1, comm(prev));
                switch.tid(2, tid(prev));
                switch.int(3, i64::from(of.prev_prio[row]));
                switch.uint(4, tracepoints::state_bits(state));
                switch.put(5, comm(next));
                switch.tid(6, tid(next));
                switch.int(7, i64::from(of.next_prio[row]));
            });
        })?;
        if state != TaskState::Dead {
            return Ok(());
        }
        // From here on, its tid may mean another thread.
        self.event(cpu, time, packets, |event| {
            event.tid(CURRENT, tid(next));
            event.nest(FREE, |free| {
                free.put(1, comm(prev));
                free.tid(2, tid(prev));
                free.int(3, i64::from(of.prev_prio[row]));
            });
        })
    }

    fn waking(&mut self, row: usize, packets: &mut Packets<'_>) -> io::Result<()> {
        let (trace, of) = (self.trace, &self.trace.wakings);
        let (time, cpu, wakee, flags) = (of.time[row], of.cpu[row], of.wakee[row], of.flags[row]);
        self.last_cpu = cpu;
        let names = Rc::clone(&self.idle_names);
        let lacks = |lack| trace.meta.lacks.contains(&lack);
        let field = match flags.has(WakeFlags::NEW) {
            true => WAKEUP_NEW,
            // Its context is not that of a waker.
            false if lacks(Lack::Wakers) => WAKEUP,
            false => WAKING,
        };
        self.event(cpu, time, packets, |event| {
            event.tid(CURRENT, trace.threads.get(of.waker[row]).tid);
            // None means that the context is not known.
            if !lacks(Lack::WakeContexts) {
                event.uint(COMMON_FLAGS, u64::from(tracepoints::common_flags(flags)));
            }
            event.nest(field, |waking| {
                waking.put(1, comm(trace, &names, wakee, time, cpu));
                waking.tid(2, trace.threads.get(wakee).tid);
                waking.int(3, i64::from(USUAL_PRIO));
                waking.uint(4, 1);
                waking.uint(5, u64::from(of.target_cpu[row]));
            });
        })
    }

    fn birth(&mut self, time: Time, thread: ThreadId, packets: &mut Packets<'_>) -> io::Result<()> {
        let (trace, cpu) = (self.trace, self.last_cpu);
        let process = trace.threads.process_of(thread);
        let is_leader = process.leader == thread;
        let parent = if is_leader { process.parent_pid } else { Some(process.pid) };
        // Nothing tells which thread of the parent made it.
        let Some(parent) = parent else { return Ok(()) };
        self.event(cpu, time, packets, |event| {
            event.tid(CURRENT, parent);
            event.nest(NEW_TASK, |task| {
                task.tid(1, trace.threads.get(thread).tid);
                task.put(2, trace.thread_name(thread, time));
                task.uint(3, if is_leader { 0 } else { CLONE_THREAD });
            });
        })
    }

    fn rename(
        &mut self,
        (time, thread, [old, new]): Rename,
        packets: &mut Packets<'_>,
    ) -> io::Result<()> {
        let (trace, cpu) = (self.trace, self.last_cpu);
        let tid = trace.threads.get(thread).tid;
        self.event(cpu, time, packets, |event| {
            event.tid(CURRENT, tid);
            event.nest(RENAME, |rename| {
                rename.tid(1, tid);
                rename.put(2, trace.name(old));
                rename.put(3, trace.name(new));
            });
        })
    }

    fn exit(&mut self, time: Time, thread: ThreadId, packets: &mut Packets<'_>) -> io::Result<()> {
        let (trace, cpu) = (self.trace, self.last_cpu);
        let tid = trace.threads.get(thread).tid;
        self.event(cpu, time, packets, |event| {
            event.tid(CURRENT, tid);
            event.nest(EXIT, |exit| {
                exit.put(1, trace.thread_name(thread, time));
                exit.tid(2, tid);
                exit.tid(3, trace.threads.process_of(thread).pid);
            });
        })
    }

    /// Adds an event to its CPU's bundle.
    fn event(
        &mut self,
        cpu: u16,
        time: Time,
        packets: &mut Packets<'_>,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        let index = usize::from(cpu);
        if self.of_cpu.len() <= index {
            self.of_cpu.resize_with(index + 1, Bundle::default);
        }
        let over =
            self.losses.get(index).map_or(0, |ends| ends.partition_point(|end| *end <= time));
        if over > self.of_cpu[index].losses_told {
            self.write_bundle(index, packets)?;
            self.of_cpu[index].losses_told = over;
            self.of_cpu[index].follows_loss = true;
        }
        self.of_cpu[index].events.nest(EVENT, |event| {
            event.uint(TIMESTAMP, time.nanos());
            fill(event);
        });
        self.collected += 1;
        if self.collected >= MAX_COLLECTED { self.flush(packets) } else { Ok(()) }
    }

    fn flush(&mut self, packets: &mut Packets<'_>) -> io::Result<()> {
        self.collected = 0;
        (0..self.of_cpu.len()).try_for_each(|cpu| self.write_bundle(cpu, packets))
    }

    fn write_bundle(&mut self, cpu: usize, packets: &mut Packets<'_>) -> io::Result<()> {
        let bundle = &mut self.of_cpu[cpu];
        if bundle.events.is_empty() {
            return Ok(());
        }
        packets.write(Sequence::System, None, |packet| {
            packet.nest(packet::FTRACE_EVENTS, |message| {
                message.uint(1, cpu as u64);
                message.append(&bundle.events);
                if bundle.follows_loss {
                    message.uint(3, 1);
                }
            });
        })?;
        bundle.events.clear();
        bundle.follows_loss = false;
        Ok(())
    }
}

/// A thread's name as the kernel has it.
fn comm<'n>(
    trace: &'n Trace,
    idle_names: &'n [String],
    thread: ThreadId,
    time: Time,
    cpu: u16,
) -> &'n str {
    if thread.is_idle() {
        return idle_names.get(usize::from(cpu)).map_or("swapper", String::as_str);
    }
    match trace.thread_name(thread, time) {
        // Windows names processes, and few threads.
        "" => trace.process_name(thread, time),
        name => name,
    }
}
