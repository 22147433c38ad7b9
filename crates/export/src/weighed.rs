//! [`Weighed`]: stacks with their threads, counted and summed, for formats without time.

use crate::job::{Job, Of, Progress};
use crate::waits::{each_wait, ended_sleeps, samples, wakes};
use rustc_hash::FxHashMap;
use unhitch_analysis::Analysis;
use unhitch_model::{NameId, StackId, ThreadId, Time};

/// What is alike about the events that are summed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key {
    /// The name of the thread whose stack it is.
    pub(crate) thread: NameId,
    pub(crate) stack: StackId,
    /// The name of the other thread: of a wait, the waker; of a wake-up, the woken one.
    pub(crate) other: Option<NameId>,
    /// The other thread's stack, where the file shows both.
    pub(crate) other_stack: StackId,
    /// What the wait was for.
    pub(crate) class: Option<&'static str>,
}

/// The number of events, and their time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Weight {
    pub(crate) count: u64,
    pub(crate) ns: u64,
}

/// The stacks of a job, by what is alike.
#[derive(Default)]
pub(crate) struct Weighed {
    sums: FxHashMap<Key, Weight>,
    /// Waits without a stack, which are left out.
    pub(crate) stackless: Weight,
    pub(crate) all: Weight,
}

impl Weighed {
    pub(crate) fn new(job: &Job<'_>, progress: &mut Progress<'_>) -> Self {
        let mut weighed = Self::default();
        match job.of {
            Of::Waits | Of::WaitsAndWakes => weighed.waits(job, progress),
            Of::Wakes => weighed.wakes(job, progress),
            Of::Cpu => weighed.cpu(job, progress),
        }
        weighed
    }

    /// The stacks in an order that depends on nothing but the trace.
    pub(crate) fn sorted(&self) -> Vec<(Key, Weight)> {
        let mut all: Vec<(Key, Weight)> =
            self.sums.iter().map(|(key, weight)| (*key, *weight)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    fn add(&mut self, key: Key, ns: u64) {
        let of_key = match key.stack.is_empty() {
            true => &mut self.stackless,
            false => {
                self.all.count += 1;
                self.all.ns += ns;
                self.sums.entry(key).or_default()
            }
        };
        of_key.count += 1;
        of_key.ns += ns;
    }

    fn waits(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) {
        let (analysis, trace) = (job.analysis, job.analysis.trace);
        progress.expect(trace.switches.range(job.selection.window).len() / 2);
        each_wait(analysis, job.selection, &mut |wait| {
            progress.step();
            let waker = wait.wake.filter(|&wake| by_task(analysis, wake));
            let other_stack = match (job.of, wait.wake) {
                (Of::WaitsAndWakes, Some(wake)) => trace.wakings.stack[wake],
                _ => StackId::EMPTY,
            };
            let key = Key {
                thread: name(analysis, wait.thread, wait.window.start),
                stack: wait.stack,
                other: waker.map(|wake| name(analysis, trace.wakings.waker[wake], wait.window.end)),
                other_stack,
                class: Some(wait.class(analysis).name()),
            };
            self.add(key, wait.ns);
        });
    }

    fn wakes(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) {
        let (analysis, of) = (job.analysis, &job.analysis.trace.wakings);
        progress.expect(of.range(job.selection.window).len());
        let slept = ended_sleeps(analysis);
        for wake in wakes(analysis, job.selection) {
            progress.step();
            let key = Key {
                thread: name(analysis, of.waker[wake], of.time[wake]),
                stack: of.stack[wake],
                other: Some(name(analysis, of.wakee[wake], of.time[wake])),
                other_stack: StackId::EMPTY,
                class: Some(analysis.stacks.wake_source(analysis.trace, wake).context.name()),
            };
            self.add(key, slept.get(wake).copied().flatten().unwrap_or(0));
        }
    }

    fn cpu(&mut self, job: &Job<'_>, progress: &mut Progress<'_>) {
        let (analysis, of) = (job.analysis, &job.analysis.trace.samples);
        progress.expect(of.range(job.selection.window).len());
        for sample in samples(analysis, job.selection) {
            progress.step();
            let key = Key {
                thread: name(analysis, of.thread[sample], of.time[sample]),
                stack: of.stack[sample],
                other: None,
                other_stack: StackId::EMPTY,
                class: None,
            };
            self.add(key, analysis.trace.meta.sample_period_ns);
        }
    }
}

fn by_task(analysis: &Analysis<'_>, wake: usize) -> bool {
    analysis.stacks.wake_source(analysis.trace, wake).context.is_task()
}

/// A thread's name, or its process's where it has none.
fn name(analysis: &Analysis<'_>, thread: ThreadId, time: Time) -> NameId {
    match analysis.trace.threads.name_at(thread, time) {
        NameId::EMPTY => analysis.trace.process_name_id(thread, time),
        name => name,
    }
}
