//! Stacks: `PerfSample`, `StackSample`, `StreamingProfilePacket`.

use super::clocks::MONOTONIC;
use super::interned::Interned;
use super::wire::Value;
use crate::import::builder::{Import, UNKNOWN_CPU};
use crate::import::frames::Frames;
use unhitch_model::{StackId, Trace};

/// What a sample with a stack is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum About {
    /// The thread was running.
    #[default]
    Cpu,
    /// The thread left its CPU at this time.
    Leave,
    /// The thread came back from a wait at this time.
    WaitEnd,
    /// The thread came back from waiting for a CPU, or left it, if the sample weighs nothing.
    Preempted,
    /// The thread woke another one at this time.
    Wake,
    /// Something else was counted.
    Other,
}

/// A sample, before its time is converted.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub about: About,
    pub clock: u32,
    pub time: u64,
    pub cpu: u16,
    pub tid: u32,
    pub stack: StackId,
    /// The time that a CPU sample stands for; 0 if it is not known.
    pub weight_ns: u64,
}

/// What the samples of a sequence are about, by its defaults.
#[derive(Clone, Copy, Default)]
pub(super) struct Defaults {
    perf: About,
    stacks: About,
    pub period_ns: u64,
    /// True if `StackSample`s weigh nanoseconds.
    weighs_ns: bool,
    /// True if Unhitch wrote the samples.
    pub are_ours: bool,
}

impl Defaults {
    /// From `PerfSampleDefaults`.
    pub fn perf(&mut self, defaults: Value<'_>) {
        let timebase = defaults.fields().filter(|(field, _)| *field == 1).last();
        let (mut about, mut hertz, mut period, mut counter) = (About::Cpu, 0, 0, 0);
        for (field, value) in timebase.map(|it| it.1.fields()).into_iter().flatten() {
            match field {
                1 => period = value.number(),
                2 => hertz = value.number(),
                3 => {
                    let name = value.fields().find(|(field, _)| *field == 1);
                    about = match name.map_or(&[][..], |it| it.1.bytes()) {
                        b"sched:sched_switch" | b"sched/sched_switch" => About::Leave,
                        b"sched:sched_waking"
                        | b"sched/sched_waking"
                        | b"sched:sched_wakeup"
                        | b"sched/sched_wakeup" => About::Wake,
                        _ => About::Other,
                    };
                }
                4 => counter = value.number(),
                _ => {}
            }
        }
        /// `PerfEvents.Counter`: the clocks and the cycles of a CPU.
        const CLOCKS: [u64; 4] = [0, 1, 3, 10];
        if about == About::Cpu && !CLOCKS.contains(&counter) {
            about = About::Other;
        }
        self.perf = about;
        if about == About::Cpu {
            let by_clock = if matches!(counter, 1 | 3) { period } else { 0 };
            self.period_ns = 1_000_000_000u64.checked_div(hertz).unwrap_or(by_clock);
        }
    }

    /// From `StackSampleDefaults`: the source, and what it counts.
    pub fn stacks(&mut self, defaults: Value<'_>) {
        let (mut source, mut unit) = (String::new(), 0);
        for (field, value) in defaults.fields() {
            match field {
                1 => source = value.text().to_ascii_lowercase(),
                2 => {
                    unit = value
                        .fields()
                        .filter(|(field, _)| *field == 3)
                        .last()
                        .map_or(0, |it| it.1.number());
                }
                _ => {}
            }
        }
        const NANOSECONDS: u64 = 1;
        self.weighs_ns = unit == NANOSECONDS;
        self.are_ours = source.starts_with("unhitch.");
        /// `CounterDescriptor.Unit`: unknown, nanoseconds, cycles, a count.
        const OF_TIME: [u64; 4] = [0, 1, 2, 9];
        self.stacks = match source.as_str() {
            "unhitch.wait" => About::WaitEnd,
            // Those that weigh nothing are at the switch itself.
            "unhitch.preempted" => About::Preempted,
            "unhitch.wake" => About::Wake,
            _ if ["off-cpu", "offcpu", "off_cpu"].iter().any(|off| source.contains(off)) => {
                About::WaitEnd
            }
            _ if OF_TIME.contains(&unit) => About::Cpu,
            _ => About::Other,
        };
    }
}

/// A `PerfSample`. Losses and skipped samples are counted.
pub(super) fn perf<'a>(
    import: &mut Import,
    frames: &mut Frames,
    interned: &mut Interned<'a>,
    (defaults, clock, time): (&Defaults, u32, u64),
    sample: Value<'a>,
) -> Option<Found> {
    let (mut cpu, mut pid, mut tid, mut callstack, mut lost) = (u64::MAX, 0, 0, 0, 0);
    let mut skipped = false;
    for (field, value) in sample.fields() {
        match field {
            1 => cpu = value.number(),
            2 => pid = value.u32(),
            3 => tid = value.u32(),
            4 => callstack = value.number(),
            17 => lost = value.number(),
            18 => skipped = true,
            19 => return None,
            _ => {}
        }
    }
    if lost > 0 {
        import.count("perf record that was lost");
        import
            .trace
            .warnings
            .add("the recorder's perf events could not keep up: some samples were lost");
        return None;
    }
    import.count("perf_sample");
    if skipped {
        import.count("perf_sample without a stack");
    }
    if tid != 0 && pid != 0 {
        import.lives.owner(time, tid, pid);
    }
    let stack = interned.stack(&mut import.trace, frames, pid, callstack);
    let cpu = u16::try_from(cpu).unwrap_or(UNKNOWN_CPU);
    let weight_ns = defaults.period_ns;
    Some(Found { about: defaults.perf, clock, time, cpu, tid, stack, weight_ns })
}

/// A `StackSample`.
pub(super) fn stack<'a>(
    import: &mut Import,
    frames: &mut Frames,
    interned: &mut Interned<'a>,
    (defaults, clock, time): (&Defaults, u32, u64),
    sample: Value<'a>,
) -> Option<Found> {
    import.count("stack_sample");
    let (mut task, mut cpu, mut callstack, mut inline) = ((0, 0), UNKNOWN_CPU, 0, None);
    let mut weight = 0;
    for (field, value) in sample.fields() {
        let number = |of: u32| {
            value.fields().filter(|(field, _)| *field == of).last().map(|it| it.1.number())
        };
        match field {
            1 => task = (number(2).unwrap_or(0) as u32, number(3).unwrap_or(0) as u32),
            2 => task = interned.tasks.get(&value.number()).copied().unwrap_or_default(),
            3 => cpu = number(2).and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(UNKNOWN_CPU),
            4 => cpu = interned.cpus.get(&value.number()).copied().unwrap_or(UNKNOWN_CPU),
            5 => inline = Some(value),
            6 => callstack = value.number(),
            11 => weight = value.number(),
            _ => {}
        }
    }
    let (pid, tid) = task;
    if tid != 0 && pid != 0 {
        import.lives.owner(time, tid, pid);
    }
    let stack = match inline {
        Some(inline) => inline_stack(&mut import.trace, frames, inline),
        None => interned.stack(&mut import.trace, frames, pid, callstack),
    };
    let about = match defaults.stacks {
        About::Preempted if weight == 0 => About::Leave,
        About::Preempted => About::WaitEnd,
        about => about,
    };
    let weight_ns = if defaults.weighs_ns { weight } else { 0 };
    Some(Found { about, clock, time, cpu, tid, stack, weight_ns })
}

/// An `InlineCallstack`: names alone, outermost first.
fn inline_stack(trace: &mut Trace, frames: &mut Frames, callstack: Value<'_>) -> StackId {
    const MAX_FRAMES: usize = 1024;
    let mut ids = Vec::new();
    for (_, frame) in callstack.fields().filter(|(field, _)| *field == 1).take(MAX_FRAMES) {
        let (mut name, mut file) = (String::new(), String::new());
        for (field, value) in frame.fields() {
            match field {
                1 => name = value.text(),
                2 => file = value.text(),
                _ => {}
            }
        }
        ids.push(frames.named(trace, if file.is_empty() { "[unknown]" } else { &file }, &name, 0));
    }
    ids.reverse();
    trace.stacks.intern(&ids, 0)
}

/// A `StreamingProfilePacket` of the thread `tid`. `time_us` is that of its last sample, and moves
/// on.
pub(super) fn streaming<'a>(
    import: &mut Import,
    frames: &mut Frames,
    interned: &mut Interned<'a>,
    (tid, time_us): (u32, &mut u64),
    packet: Value<'a>,
) -> Vec<Found> {
    let numbers = |of: u32| {
        packet
            .fields()
            .filter(move |(field, _)| *field == of)
            .flat_map(|(_, value)| value.numbers())
    };
    let pid = import.lives.owner_of(tid).unwrap_or(tid);
    let mut found = Vec::new();
    for (callstack, delta_us) in numbers(1).zip(numbers(2)) {
        import.count("streaming_profile_packet sample");
        *time_us = time_us.wrapping_add(delta_us);
        let stack = interned.stack(&mut import.trace, frames, pid, callstack);
        let time = time_us.saturating_mul(1000);
        let (about, clock, cpu) = (About::Cpu, MONOTONIC, UNKNOWN_CPU);
        found.push(Found { about, clock, time, cpu, tid, stack, weight_ns: 0 });
    }
    found
}
