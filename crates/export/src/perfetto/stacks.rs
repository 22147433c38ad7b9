//! Stacks as `StackSample`s: CPU samples, waits, wake-ups and preemptions, a source each.
//!
//! A wait's sample is at its end, on the thread that waited, and weighs what it slept. A wake-up's
//! is on the waker, and weighs the sleep that it ended.

use super::fields::packet;
use super::interned::Interner;
use super::packets::{Packets, Sequence};
use crate::frames::Frames;
use crate::job::{Job, Progress};
use crate::protobuf::Message;
use crate::set::Set;
use crate::waits::{each_wait, ended_sleeps, samples, wakes};
use std::io;
use unhitch_analysis::State;
use unhitch_model::{StackId, ThreadId, Time};

/// What was written, and what has no stack.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) cpu: u64,
    /// CPU samples that are left out because they have no stack.
    pub(super) cpu_without_stack: u64,
    /// CPU samples that are left out because they show an idle CPU.
    pub(super) cpu_idle: u64,
    pub(super) waits: u64,
    pub(super) wakes: u64,
    /// Waits without a stack, which are left out, and their time.
    pub(super) stackless: u64,
    pub(super) stackless_ns: u64,
}

/// Writes the stacks of the selection.
pub(super) fn write(
    job: &Job<'_>,
    packets: &mut Packets<'_>,
    progress: &mut Progress<'_>,
) -> io::Result<Written> {
    let trace = job.analysis.trace;
    let frames = Frames::new(trace);
    let mut written = Written::default();
    progress.expect(trace.samples.range(job.selection.window).len());
    progress.expect(trace.wakings.range(job.selection.window).len());

    let source = (Sequence::Cpu, "unhitch.cpu", "CPU time");
    let mut cpu = Source::new(job, &frames, packets, source);
    for sample in samples(job.analysis, job.selection) {
        progress.step();
        let of = &trace.samples;
        if of.stack[sample].is_empty() {
            written.cpu_without_stack += 1;
            continue;
        }
        let at = Some(of.cpu[sample]);
        let weight = trace.meta.sample_period_ns;
        cpu.sample(of.time[sample], of.thread[sample], at, of.stack[sample], weight)?;
        written.cpu += 1;
    }

    let selected = trace.samples.range(job.selection.window);
    let selected = selected.filter(|&row| job.selection.has(&[trace.samples.thread[row]]));
    written.cpu_idle = selected.count() as u64 - written.cpu - written.cpu_without_stack;

    let source = (Sequence::Wakes, "unhitch.wake", "wait ended");
    let mut wake_stacks = Source::new(job, &frames, packets, source);
    let slept = ended_sleeps(job.analysis);
    for wake in wakes(job.analysis, job.selection) {
        progress.step();
        let of = &trace.wakings;
        if of.stack[wake].is_empty() {
            continue;
        }
        let at = Some(of.cpu[wake]);
        let weight = slept.get(wake).copied().flatten().unwrap_or(0);
        wake_stacks.sample(of.time[wake], of.waker[wake], at, of.stack[wake], weight)?;
        written.wakes += 1;
    }
    // The switches whose stacks were written.
    let mut told = Set::default();
    waits(job, &frames, packets, &mut told, &mut written)?;
    others(job, &frames, packets, &mut told)?;
    Ok(written)
}

/// The stacks of waits. The sums are those of `unhitch table waits`.
fn waits(
    job: &Job<'_>,
    frames: &Frames<'_>,
    packets: &mut Packets<'_>,
    told: &mut Set,
    written: &mut Written,
) -> io::Result<()> {
    let source = (Sequence::Waits, "unhitch.wait", "waited");
    let mut source = Source::new(job, frames, packets, source);
    let mut result = Ok(());
    each_wait(job.analysis, job.selection, &mut |wait| {
        if let Some(out) = wait.out {
            told.insert(out);
        }
        if wait.stack.is_empty() {
            written.stackless += 1;
            written.stackless_ns += wait.ns;
        } else if result.is_ok() {
            written.waits += 1;
            result = source.sample(wait.window.end, wait.thread, None, wait.stack, wait.ns);
        }
    });
    result
}

/// The stacks of threads that left a CPU but did not sleep. They weigh how long they were kept from
/// a CPU; nothing where that is not known.
fn others(
    job: &Job<'_>,
    frames: &Frames<'_>,
    packets: &mut Packets<'_>,
    told: &mut Set,
) -> io::Result<()> {
    let (trace, selection) = (job.analysis.trace, job.selection);
    let source = (Sequence::Preempted, "unhitch.preempted", "runnable");
    let mut source = Source::new(job, frames, packets, source);
    let covered = selection.window.intersect(job.analysis.timeline.window());
    for thread in (1..trace.threads.len() as u32).map(ThreadId) {
        if !selection.has(&[thread]) {
            continue;
        }
        let mut result = Ok(());
        job.analysis.timeline.each_segment(trace, thread, covered, &mut |segment| {
            let (State::Runnable { .. }, Some(out)) = (segment.state, segment.out()) else {
                return;
            };
            // The wait for a CPU after a sleep has the sleep's stack.
            if told.insert(out) && result.is_ok() {
                let (end, ns) = (segment.window.end, segment.window.duration_ns());
                result = source.sample(end, thread, None, segment.wait_stack(trace), ns);
            }
        });
        result?;
    }
    // Of times that not all CPUs cover, and next to losses, nothing is known but the switch.
    for row in trace.switches.range(selection.window) {
        let (prev, stack) = (trace.switches.prev[row], trace.switches.stack[row]);
        if selection.has(&[prev]) && !prev.is_idle() && told.insert(row) {
            source.sample(trace.switches.time[row], prev, None, stack, 0)?;
        }
    }
    Ok(())
}

/// A source of samples: a sequence with stacks of its own.
struct Source<'t, 'p, 'o> {
    job: &'t Job<'t>,
    packets: &'p mut Packets<'o>,
    interner: Interner<'t>,
    sequence: Sequence,
    name: &'static str,
    unit: &'static str,
}

impl<'t, 'p, 'o> Source<'t, 'p, 'o> {
    fn new(
        job: &'t Job<'t>,
        frames: &'t Frames<'t>,
        packets: &'p mut Packets<'o>,
        (sequence, name, unit): (Sequence, &'static str, &'static str),
    ) -> Self {
        let interner = Interner::new(job.analysis.trace, frames);
        Self { job, packets, interner, sequence, name, unit }
    }

    fn sample(
        &mut self,
        time: Time,
        thread: ThreadId,
        cpu: Option<u16>,
        stack: StackId,
        weight: u64,
    ) -> io::Result<()> {
        if stack.is_empty() {
            return Ok(());
        }
        let threads = &self.job.analysis.trace.threads;
        let (pid, tid) = (threads.process_of(thread).pid, threads.get(thread).tid);
        let callstack = self.interner.stack(stack);
        let is_first = !self.packets.has_begun(self.sequence);
        let (interner, name, unit) = (&mut self.interner, self.name, self.unit);
        self.packets.write(self.sequence, Some(time), |packet| {
            if is_first {
                packet.nest(packet::DEFAULTS, |defaults| describe(defaults, name, unit));
            }
            interner.write_new(packet);
            packet.nest(packet::STACK_SAMPLE, |sample| {
                sample.nest(1, |context| {
                    context.uint(2, u64::from(pid));
                    context.uint(3, u64::from(tid));
                });
                if let Some(cpu) = cpu {
                    sample.nest(3, |context| context.uint(2, u64::from(cpu)));
                }
                sample.uint(6, callstack);
                sample.uint(11, weight);
            });
        })
    }
}

/// `StackSampleDefaults`: what the samples of a sequence are.
fn describe(defaults: &mut Message, source: &str, name: &str) {
    const STACK_SAMPLES: u32 = 100;
    const NANOSECONDS: u64 = 1;
    defaults.nest(STACK_SAMPLES, |of| {
        of.put(1, source);
        of.nest(2, |weight| {
            weight.put(2, name);
            weight.uint(3, NANOSECONDS);
        });
    });
}
