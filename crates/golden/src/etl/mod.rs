//! Writes events to an `.etl` file, as if recorded on Windows 10 with UIforETW and merged by
//! `xperf`.
//!
//! Differences from Linux: a context switch has the stack of the thread that *comes on*, which is
//! where it had left; a rundown lists what ran before the session; a deferred procedure call is an
//! event of its own; function names are in PDBs. The clock counts nanoseconds, finer than real
//! ones, so that figures stay exact.

mod names;
mod scheduler;

use crate::code::{Code, Stack};
use crate::machine::{Action, Event, IDLE, Left, Machine, Note, Thread};
use names::{image_path, process_name, symbol_id};
use scheduler::code;
use std::collections::{BTreeMap, BTreeSet};
use unhitch_etl_writer::{
    CSwitch, Compression, Image, Interrupt, KernelEvent, Options, Process, ReadyThread, Rundown,
    StackCache, ThreadFacts, Writer, metadata, uiforetw, wait_reason, win32k,
};

pub(crate) use names::symbol_files;

/// Size of the kernel's stack cache: small, so that keys are reused for several stacks.
const CACHED_STACKS: usize = 96;
/// `Rundown`: the pid of the kernel's images.
const KERNEL: u32 = 0;
const BUILD: u32 = 17_134;
/// A class and an image that the delay event names.
const WINDOW: (&str, &str) =
    ("TaskManagerWindow", "\\Device\\HarddiskVolume3\\Windows\\System32\\Taskmgr.exe");
/// Visible windows, new input, foreground.
const DELAY_FLAGS: u32 = 0x806;
/// UIforETW's private mode: any letter is an A.
const PRIVATE_KEY: (u32, &str) = (0x41, "A");
/// Length of a deferred procedure call before its wake-up.
const DPC_NS: u64 = 900;
/// Dynamic priority of a normal thread.
const PRIORITY: i8 = 8;

/// One in this many of the clock's ticks on an idle CPU is recorded.
const IDLE_TICKS: usize = 64;

/// A birth or an exit, which are not events of the scheduler.
enum Life {
    Born { parent: Thread, child: Thread },
    Ended(Thread),
}

/// The whole file.
pub(crate) fn trace(machine: &Machine, events: &[Event]) -> Vec<u8> {
    let (code, [switch, preempt, ready, idle]) = code(machine);
    let idle = code.leaf_avma(idle);
    let options = Options {
        cpus: machine.cpus() as u16,
        compression: Compression::Mixed,
        ticks_per_second: 1_000_000_000,
        build: BUILD,
        ..Options::default()
    };
    let mut encoder = Encoder {
        machine,
        code: &code,
        writer: Writer::new(options),
        stacks: StackCache::new(CACHED_STACKS),
        left: BTreeMap::new(),
        on: vec![IDLE; machine.cpus()],
        images: images(machine, &code, events),
        switch,
        preempt,
        ready,
    };
    encoder.rundown(Rundown::First, 0);
    encoder.sampling();
    let mut lives = lives(machine).into_iter().peekable();
    let mut ticks = machine.idle_ticks(IDLE_TICKS).into_iter().peekable();
    let mut last = vec![0; machine.cpus()];
    for event in events {
        while let Some((time, cpu)) = ticks.next_if(|tick| *tick < (event.time, event.cpu)) {
            if last[cpu] < time {
                encoder.idle_tick(time - machine.start, cpu as u16, idle);
            }
        }
        last[event.cpu] = event.time;
        while let Some((time, cpu, life)) = lives.next_if(|(time, ..)| *time <= event.time) {
            encoder.life(time - machine.start, cpu as u16, &life);
        }
        encoder.event(event);
    }
    lives.for_each(|(time, cpu, life)| encoder.life(time - machine.start, cpu as u16, &life));
    encoder.rundown(Rundown::Last, machine.end - machine.start);
    let Encoder { mut writer, stacks, .. } = encoder;
    stacks.finish(&mut writer, 0, machine.end - machine.start);
    writer.finish()
}

/// Births and exits by time, each with its CPU.
fn lives(machine: &Machine) -> Vec<(u64, usize, Life)> {
    let births = machine
        .births
        .iter()
        .map(|&(time, parent, child)| (time, parent, Life::Born { parent, child }));
    let all: Vec<_> = births
        .chain(machine.exits.iter().map(|&(time, thread)| (time, thread, Life::Ended(thread))))
        .collect();
    let cpus = machine.cpus_at(all.iter().map(|(time, thread, _)| (*time, *thread)));
    let at = |((time, thread, life), cpu): ((u64, Thread, Life), Option<usize>)| {
        (
            time,
            cpu.unwrap_or_else(|| {
                panic!("{thread:?} begins or ends at {time} while nobody runs it")
            }),
            life,
        )
    };
    let mut lives: Vec<_> = all.into_iter().zip(cpus).map(at).collect();
    lives.sort_by_key(|(time, ..)| *time);
    lives
}

/// The images that each process maps, from its stacks. Those of the kernel are under [`KERNEL`].
fn images(machine: &Machine, code: &Code, events: &[Event]) -> BTreeMap<u32, BTreeSet<usize>> {
    let is_kernel: Vec<bool> = code.images().map(|(_, _, kernel, _)| kernel).collect();
    let mut images = BTreeMap::<u32, BTreeSet<usize>>::new();
    for (number, _) in is_kernel.iter().enumerate().filter(|(_, kernel)| **kernel) {
        images.entry(KERNEL).or_default().insert(number);
    }
    for event in events {
        let (thread, stack) = match event.action {
            Action::Switch { prev, left, .. } => (prev, left.stack()),
            Action::Waking { waker, stack, .. } => (waker, stack),
            Action::Sample { thread, stack } => (thread, stack),
            Action::Note { .. } => continue,
        };
        let mapped = images.entry(machine.tasks[thread.0].pid).or_default();
        mapped.extend(code.images_of(stack).filter(|number| !is_kernel[*number]));
    }
    images
}

struct Encoder<'a> {
    machine: &'a Machine,
    code: &'a Code,
    writer: Writer,
    stacks: StackCache,
    /// How each thread last left.
    left: BTreeMap<Thread, Left>,
    /// The thread on each CPU.
    on: Vec<Thread>,
    images: BTreeMap<u32, BTreeSet<usize>>,
    switch: Stack,
    preempt: Stack,
    ready: Stack,
}

impl Encoder<'_> {
    fn ids(&self, thread: Thread) -> (u32, u32) {
        let task = &self.machine.tasks[thread.0];
        (task.pid, task.tid)
    }

    /// Lists everything that exists when the session begins or ends.
    fn rundown(&mut self, when: Rundown, ns: u64) {
        if when == Rundown::First {
            metadata::build_info(
                &mut self.writer,
                0,
                ns,
                "17134.1.amd64fre.rs4_release.180410-1804",
                "Windows 10 Pro",
            );
            metadata::volume(&mut self.writer, 0, ns, "\\Device\\HarddiskVolume3\\", "C:\\");
        }
        let is_there = |thread: Thread| match when {
            Rundown::First => self.machine.tasks[thread.0].born == 0,
            _ => self.machine.exits.iter().all(|(_, ended)| *ended != thread),
        };
        let threads: Vec<Thread> =
            (0..self.machine.tasks.len()).map(Thread).filter(|thread| is_there(*thread)).collect();
        let pids: BTreeSet<u32> = threads.iter().map(|thread| self.ids(*thread).0).collect();
        for pid in pids {
            self.process(when, ns, 0, pid, if pid <= 4 { 0 } else { 4 });
            self.map(when, ns, 0, pid);
        }
        for thread in threads {
            self.thread(when, ns, 0, thread, (4, 8));
        }
    }

    fn process(&mut self, when: Rundown, ns: u64, cpu: u16, pid: u32, parent: u32) {
        let image = process_name(self.machine, pid);
        let command_line = format!("\"C:\\made-up\\{image}\"");
        let process = Process {
            pid,
            parent,
            image: &image,
            command_line: if pid <= 4 { "" } else { &command_line },
        };
        self.writer.kernel(cpu, ns, &KernelEvent::Process(when, process));
    }

    fn thread(&mut self, when: Rundown, ns: u64, cpu: u16, thread: Thread, creator: (u32, u32)) {
        let task = &self.machine.tasks[thread.0];
        // A thread with the name of its process has no name of its own.
        let named = process_name(self.machine, task.pid).strip_suffix(".exe") != Some(&task.comm)
            && !task.comm.ends_with(".exe");
        let name = Some(if named && task.pid > 4 { task.comm.as_str() } else { "" });
        let facts = ThreadFacts { pid: task.pid, tid: task.tid, name };
        self.writer.kernel(cpu, ns, &KernelEvent::Thread(when, facts, creator));
    }

    fn map(&mut self, when: Rundown, ns: u64, cpu: u16, pid: u32) {
        let code = self.code;
        let mapped = self.images.get(&pid).cloned().unwrap_or_default();
        for (number, (name, base, _, functions)) in
            code.images().enumerate().filter(|(number, _)| mapped.contains(number))
        {
            let path = image_path(name);
            let image = Image {
                base,
                size: crate::code::IMAGE_LEN,
                pid,
                timestamp: 0x5b00_0000 + number as u32,
                path: &path,
            };
            self.writer.kernel(cpu, ns, &KernelEvent::Image(when, image));
            let (guid, age, pdb) = symbol_id(name, &functions);
            self.writer.kernel(
                cpu,
                ns,
                &KernelEvent::ImageRsds { base, pid, guid, age, pdb: &pdb },
            );
        }
    }

    fn sampling(&mut self) {
        // Rounded to units of 100 ns.
        let units = ((self.machine.period_ns + 50) / 100) as u32;
        self.writer.kernel(0, 0, &KernelEvent::SampleInterval { first: true, units });
    }

    fn idle_tick(&mut self, ns: u64, cpu: u16, instruction: u64) {
        self.writer.kernel(cpu, ns, &KernelEvent::Sample { instruction, tid: 0, in_dpc: false });
    }

    fn life(&mut self, ns: u64, cpu: u16, life: &Life) {
        match *life {
            Life::Born { parent, child } => {
                let (by, pid) = (self.ids(parent), self.ids(child).0);
                self.process(Rundown::Start, ns, cpu, pid, by.0);
                self.thread(Rundown::Start, ns, cpu, child, by);
                self.map(Rundown::Start, ns, cpu, pid);
            }
            Life::Ended(thread) => {
                let ids = self.ids(thread);
                self.map(Rundown::End, ns, cpu, ids.0);
                self.thread(Rundown::End, ns, cpu, thread, ids);
                self.process(Rundown::End, ns, cpu, ids.0, 4);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let (ns, cpu) = (event.time - self.machine.start, event.cpu as u16);
        match event.action {
            Action::Switch { prev, left, next } => {
                self.cswitch(ns, cpu, prev, left, next);
                self.on[event.cpu] = next;
            }
            Action::Waking { waker, wakee, interrupt, stack, .. } => {
                let tid = self.ids(wakee).1;
                self.writer.kernel(
                    cpu,
                    ns,
                    &KernelEvent::ReadyThread(ReadyThread { tid, in_dpc: interrupt }),
                );
                self.stack(ns, cpu, waker, stack, Some(self.ready));
                if interrupt {
                    let routine = self.code.leaf_avma(stack) & !0xff;
                    let entry_ns = ns.saturating_sub(DPC_NS);
                    self.writer.kernel(cpu, ns, &KernelEvent::Dpc(Interrupt { entry_ns, routine }));
                }
            }
            Action::Sample { thread, stack } => {
                let (tid, instruction) = (self.ids(thread).1, self.code.leaf_avma(stack));
                self.writer.kernel(
                    cpu,
                    ns,
                    &KernelEvent::Sample { instruction, tid, in_dpc: false },
                );
                self.stack(ns, cpu, thread, stack, None);
            }
            Action::Note { thread, note: Note::Key } => {
                let ids = self.ids(thread);
                uiforetw::key_down(&mut self.writer, cpu, ns, ids, PRIVATE_KEY.0, PRIVATE_KEY.1);
            }
            Action::Note { thread, note: Note::UiDelay(delay_ms) } => {
                let delay = win32k::Delay {
                    flags: DELAY_FLAGS,
                    delay_ms,
                    since_input_ms: delay_ms,
                    oldest_input_ms: delay_ms,
                    window: Some(WINDOW),
                    message: (win32k::WM_PAINT, 0),
                };
                let ids = self.ids(thread);
                win32k::message_check_delay(&mut self.writer, cpu, ns, ids, &delay);
            }
        }
    }

    fn cswitch(&mut self, ns: u64, cpu: u16, prev: Thread, left: Left, next: Thread) {
        let priority = |thread| if thread == IDLE { 0 } else { PRIORITY };
        let (old_state, old_wait_reason) = match left {
            _ if prev == IDLE => (2, wait_reason::EXECUTIVE),
            Left::Preempted(_) => (1, wait_reason::WR_PREEMPTED),
            Left::Dead(_) => (4, wait_reason::WR_TERMINATED),
            Left::Sleeping(stack) | Left::Blocked(stack) => (5, self.reason(stack)),
        };
        let switch = CSwitch {
            new_tid: self.ids(next).1,
            old_tid: self.ids(prev).1,
            new_priority: priority(next),
            old_priority: priority(prev),
            old_wait_reason,
            old_wait_mode: u8::from(matches!(left, Left::Sleeping(_)) && prev != IDLE),
            old_state,
            ..CSwitch::default()
        };
        self.writer.kernel(cpu, ns, &KernelEvent::CSwitch(switch));
        // The stack of the thread that comes on, from when it left.
        if let Some(was) = self.left.get(&next).copied().filter(|_| next != IDLE) {
            let scheduler =
                if matches!(was, Left::Preempted(_)) { self.preempt } else { self.switch };
            self.stack(ns, cpu, next, was.stack(), Some(scheduler));
        }
        self.left.insert(prev, left);
    }

    /// The kernel's reason for a wait.
    fn reason(&self, stack: Stack) -> u8 {
        let waits_in = |functions: &[&str]| {
            functions.iter().any(|function| self.code.is_inside(stack, function))
        };
        match () {
            () if waits_in(&["ExAcquirePushLockExclusiveEx"]) => wait_reason::WR_PUSH_LOCK,
            () if waits_in(&[
                "ExAcquireResourceExclusiveLite",
                "ExAcquireResourceSharedLite",
                "EnterCrit",
            ]) =>
            {
                wait_reason::WR_RESOURCE
            }
            () if waits_in(&["KeRemoveQueueEx", "NtRemoveIoCompletion"]) => wait_reason::WR_QUEUE,
            () if waits_in(&["NtDelayExecution"]) => wait_reason::DELAY_EXECUTION,
            () if waits_in(&["IopSynchronousServiceTail"]) => wait_reason::EXECUTIVE,
            () => wait_reason::USER_REQUEST,
        }
    }

    /// Writes the stack of the last event, with the frames that the kernel adds on top.
    fn stack(&mut self, ns: u64, cpu: u16, thread: Thread, stack: Stack, added: Option<Stack>) {
        let chain = self.code.chain(stack);
        let added = added.map_or(&[][..], |added| &self.code.chain(added).kernel);
        let kernel = [added, &chain.kernel].concat();
        let ids = self.ids(thread);
        self.stacks.log(&mut self.writer, cpu, ns, ids, &kernel, &chain.user);
    }
}
