//! "63 cores blocked by seven instructions": one thread holds a lock for seconds, searching a
//! bitmap, and a whole build stands still.
//!
//! The start of the stall shows nothing: one compiler after another wants to write a file and
//! waits. The recovery shows everything: the lock passes from its owner to the first waiter, from
//! that to the second, and so on.

mod recovery;
mod script;

use crate::code::Stack;
use crate::golden::Golden;
use crate::machine::{Action, IDLE, Left, Machine, Thread};
use crate::split_mix64::SplitMix64;
use script::{
    CHECKPOINT, COMPILERS, CPUS, Compiler, END_NS, FALL_CREATES, FALL_NS, HOLD_FROM_NS,
    HOLD_UNTIL_NS, HOLDER_CPU, LOOP_SAMPLES, PERIOD_NS, RECOVERY_NS, START_NS,
};
use std::collections::BTreeMap;

/// The figures that an answer about [`sixty_three_cores()`] must have.
#[derive(Clone, PartialEq, Debug)]
pub struct BuildFigures {
    /// CPUs of the machine.
    pub cpus: usize,
    /// When the holder got the lock, nanoseconds of the trace's clock.
    pub start_ns: u64,
    /// How long it held the lock.
    pub hold_ns: u64,
    /// Process and thread that held it.
    pub holder: (u32, u32),
    /// Busy CPUs just before.
    pub busy_before: usize,
    /// Minimum and maximum number of busy CPUs from half a second after the start to the release.
    pub busy_meanwhile: (usize, usize),
    /// From the release until the last idle CPU was busy again; all of them stay busy then.
    pub recovery_ns: u64,
    /// Context switches in that time.
    pub recovery_switches: u64,
    /// Number of waits for the lock that ended after the release, and the time from the release to
    /// the end of the last one.
    pub let_through: (u64, u64),
    /// The threads that got the lock one after another: process, and wait from switch-out to
    /// wake-up.
    pub chain: Vec<(u32, u64)>,
    /// Waits in `WriteFile` that ended in these twelve milliseconds.
    pub writers: u64,
    /// Those waits in sum, from switch-out to wake-up.
    pub writers_waited_ns: u64,
    /// CPU samples of the holder by instruction of the loop.
    pub loop_samples: [u64; 7],
    /// The time between two samples of one CPU.
    pub sample_period_ns: u64,
    /// Processes that ended in the whole trace.
    pub ended: u64,
    /// Those that ended in the half second after the holder got the lock.
    pub ended_in_fall: u64,
}

impl BuildFigures {
    /// Mean wait of a writer.
    pub fn mean_wait_ns(&self) -> u64 {
        self.writers_waited_ns / self.writers
    }
}

/// Offsets of the loop's seven instructions in `RtlFindNextForwardRunClear`.
pub const LOOP_OFFSETS: [u64; 7] = [0x60, 0x63, 0x66, 0x68, 0x6b, 0x6f, 0x72];

/// The trace.
pub fn sixty_three_cores() -> Golden<BuildFigures> {
    let mut machine = Machine::new(CPUS, START_NS, END_NS, PERIOD_NS);
    let mut random = SplitMix64::new(2019);
    machine.thread(4, 4, "System");
    let holder = machine.thread(4, 3_276, "System");
    let compilers = compilers(&mut machine, &mut random);
    hold(&mut machine, &mut random, holder);
    recovery::record(&mut machine, &mut random, holder, &compilers);
    bustle(&mut machine, &mut random);
    births(&mut machine);
    let figures = count(&machine, holder);
    let notes = "Synthetic, after \u{201c}63 cores blocked by seven instructions\u{201d}. \
                 The build stood still for three seconds, again and again.";
    let events = machine.finish();
    Golden::new(machine, events, notes, figures)
}

/// The compilers, and when each of them wants the lock.
fn compilers(machine: &mut Machine, random: &mut SplitMix64) -> Vec<Compiler> {
    let cpus: Vec<usize> = (0..HOLDER_CPU).chain([62, 63]).collect();
    let compiler = |(index, cpu): (usize, usize)| {
        let pid = match index {
            0 => 3_032,
            1 => 16_232,
            _ => 20_000 + 4 * random.between(index as u64 * 60, index as u64 * 60 + 60) as u32,
        };
        // Most want it soon, the last ones after nearly half a second.
        let late = index as u64 * index as u64 * 475_000_000 / (COMPILERS * COMPILERS) as u64;
        let blocks = HOLD_FROM_NS
            + match index {
                0 => 30_000,
                1 => 610_000,
                _ => 900_000 + late + random.between(0, 100_000),
            };
        let creates = (index + 1) * FALL_CREATES / COMPILERS > index * FALL_CREATES / COMPILERS;
        Compiler { thread: machine.thread(pid, pid, "cl.exe"), cpu, blocks, creates }
    };
    cpus.into_iter().enumerate().map(compiler).collect()
}

/// The holder takes the CPU of a compiler that waits for something else, and searches.
fn hold(machine: &mut Machine, random: &mut SplitMix64, holder: Thread) {
    let code = &mut machine.code;
    let timer = code.stack("nt!KiRetireDpcList nt!KiProcessExpiredTimerList");
    let checkpoint = code.stack(CHECKPOINT);
    let search =
        code.stack(&format!("{CHECKPOINT} ntfs!NtfsFindFreeRuns nt!RtlFindNextForwardRunClear"));
    let rest = code.stack(crate::type_an_email::WORKER_REST);
    let at = LOOP_OFFSETS.map(|offset| code.at_offset(search, offset));
    let mut samples: Vec<Stack> = at
        .into_iter()
        .zip(LOOP_SAMPLES)
        .flat_map(|(stack, count)| vec![stack; count as usize])
        .collect();
    random.shuffle(&mut samples);
    let (from, to) = (HOLD_FROM_NS - 40_000, HOLD_UNTIL_NS + 60_000);
    machine.interrupt(from - 9_000, HOLDER_CPU, holder, timer);
    let phases =
        vec![(from, vec![checkpoint]), (HOLD_FROM_NS, samples), (HOLD_UNTIL_NS, vec![checkpoint])];
    machine.run_phases(HOLDER_CPU, holder, (from, to), phases, Left::Sleeping(rest));
    // The clock only ticks inside the hold.
    machine.phase_ns =
        (HOLD_FROM_NS - START_NS + 70_000 - machine.stagger_ns(HOLDER_CPU)) % PERIOD_NS;
}

/// Kernel threads take the CPUs for moments, as on a busy machine; not while the build stands
/// still.
fn bustle(machine: &mut Machine, random: &mut SplitMix64) {
    let code = &mut machine.code;
    let timer = code.stack("nt!KiRetireDpcList nt!KiProcessExpiredTimerList");
    let work = code.stack("nt!PspSystemThreadStartup nt!ExpWorkerThread nt!CcWorkerThread");
    let rest = code.stack(crate::type_an_email::WORKER_REST);
    let phases = [
        (START_NS + 1_000_000, HOLD_FROM_NS - 2_000_000),
        (HOLD_UNTIL_NS + RECOVERY_NS + 1_000_000, END_NS - 2_000_000),
    ];
    for cpu in 0..CPUS {
        let worker = machine.thread(4, 200 + 4 * cpu as u32, "System");
        for (from, until) in phases {
            let mut time = from + random.between(0, 15_000_000);
            while time < until {
                machine.interrupt(time, cpu, worker, timer);
                machine.preempt(
                    cpu,
                    worker,
                    (time + 3_000, time + 3_000 + random.between(20_000, 80_000)),
                    work,
                    Left::Sleeping(rest),
                );
                time += random.between(8_000_000, 20_000_000);
            }
        }
    }
}

/// The build runs before and after: a process exits, and its CPU goes to the build tool, which
/// starts the next one.
fn births(machine: &mut Machine) {
    let code = &mut machine.code;
    let exit =
        code.stack("cl.exe!main ntdll!RtlExitUserProcess nt!NtTerminateProcess nt!PspExitThread");
    let exited = code.stack("cl.exe!main ntdll!RtlExitUserProcess nt!NtTerminateProcess nt!PspExitThread nt!KeSignalProcess");
    let start = code.stack(
        "ninja!main ninja!Subprocess::Start kernelbase!CreateProcessW nt!NtCreateUserProcess",
    );
    let wait =
        code.stack("ninja!main kernelbase!GetQueuedCompletionStatus nt!NtRemoveIoCompletion");
    let parse = code.stack("cl.exe!main c1xx!YYParse");
    let symbols = code.stack(
        "cl.exe!main mspdbcore!PDBOpen kernelbase!WaitForSingleObjectEx nt!NtWaitForSingleObject",
    );
    let timer = code.stack("nt!KiRetireDpcList nt!KiProcessExpiredTimerList");
    let ninja = machine.thread(7_708, 7_708, "ninja");
    let gap = [START_NS + 30_000_000, HOLD_UNTIL_NS + RECOVERY_NS + 30_000_000];
    for (number, time) in
        (0..8u64).map(|number| (number, gap[(number / 4) as usize] + number % 4 * 31_000_000))
    {
        let pids = [50_000 + 8 * number as u32, 50_004 + 8 * number as u32];
        let [ending, born] = pids.map(|pid| machine.thread(pid, pid, "cl.exe"));
        // The exiting process had waited for its last file. It takes a CPU for the rest of its
        // life, and leaves it to the build tool.
        let cpu = machine
            .undisturbed_cpu(number as usize * 7, (time - 20_000, time + 900_000))
            .expect("some CPU is not disturbed");
        machine.interrupt(time, cpu, ending, timer);
        machine.exits.push((time + 240_000, ending));
        machine.wake(time + 230_000, ending, ninja, exited);
        machine.birth(time + 400_000, ninja, born, start);
        let visits = [
            (ending, time + 250_000, exit, Left::Dead(exit)),
            (ninja, time + 430_000, start, Left::Sleeping(wait)),
            (born, time + 800_000, parse, Left::Sleeping(symbols)),
        ];
        machine.preempt_by(cpu, time + 4_000, &visits);
    }
}

fn count(machine: &Machine, holder: Thread) -> BuildFigures {
    let (released, recovered) = (HOLD_UNTIL_NS, HOLD_UNTIL_NS + RECOVERY_NS);
    let events = machine.finish();
    let mut figures = BuildFigures {
        cpus: CPUS,
        start_ns: HOLD_FROM_NS,
        hold_ns: released - HOLD_FROM_NS,
        holder: (machine.tasks[holder.0].pid, machine.tasks[holder.0].tid),
        busy_before: machine.busy_at(HOLD_FROM_NS),
        busy_meanwhile: (usize::MAX, 0),
        recovery_ns: 0,
        recovery_switches: 0,
        let_through: (0, 0),
        chain: Vec::new(),
        writers: 0,
        writers_waited_ns: 0,
        loop_samples: [0; 7],
        sample_period_ns: machine.period_ns,
        ended: machine.exits.len() as u64,
        ended_in_fall: machine
            .exits
            .iter()
            .filter(|(time, _)| (HOLD_FROM_NS..HOLD_FROM_NS + FALL_NS).contains(time))
            .count() as u64,
    };
    let mut left = BTreeMap::new();
    // The thread that handed off the lock last, as long as the chain continues.
    let mut link = Some(holder);
    for event in &events {
        let is_switch = matches!(event.action, Action::Switch { .. });
        if (HOLD_FROM_NS + FALL_NS..released).contains(&event.time) && is_switch {
            let busy = machine.busy_at(event.time);
            let (fewest, most) = figures.busy_meanwhile;
            figures.busy_meanwhile = (fewest.min(busy), most.max(busy));
        }
        let in_recovery = (released..=recovered).contains(&event.time);
        match event.action {
            Action::Switch { prev, left: how, .. } => {
                if prev == IDLE {
                    figures.recovery_ns = event.time.saturating_sub(released);
                }
                left.insert(prev, (event.time, how.stack()));
            }
            Action::Waking { waker, wakee, stack, .. }
                if in_recovery && machine.code.is_inside(stack, "ExReleaseResourceLite") =>
            {
                let (since, wait) = left[&wakee];
                figures.let_through = (figures.let_through.0 + 1, event.time - released);
                if machine.code.is_inside(wait, "WriteFile") {
                    figures.writers += 1;
                    figures.writers_waited_ns += event.time - since;
                }
                if link == Some(waker)
                    && machine.code.is_inside(wait, "ExAcquireResourceExclusiveLite")
                {
                    figures.chain.push((machine.tasks[wakee.0].pid, event.time - since));
                    link = Some(wakee);
                }
            }
            Action::Sample { thread, stack }
                if thread == holder
                    && machine.code.is_inside(stack, "RtlFindNextForwardRunClear") =>
            {
                let offset = machine.code.leaf_avma(stack) & 0xff;
                let instruction = LOOP_OFFSETS
                    .iter()
                    .position(|known| *known == offset)
                    .expect("an instruction of the loop");
                figures.loop_samples[instruction] += 1;
            }
            _ => {}
        }
    }
    figures.recovery_switches = machine.switches_between(released, released + figures.recovery_ns);
    figures
}
