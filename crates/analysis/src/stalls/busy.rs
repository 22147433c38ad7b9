//! How much processes compute: one that computes all the time works through a batch.

use crate::Analysis;
use crate::timeline::State;
use unhitch_model::{ThreadId, Time, Trace, Window};

/// Time on a CPU by process, nanoseconds, of all its threads in the whole recording.
pub(crate) struct CpuTimeOfProcesses(Vec<u64>);

impl CpuTimeOfProcesses {
    /// Adds up the time between switches.
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut ran_ns = vec![0u64; trace.threads.processes().count()];
        let mut since: Vec<Option<Time>> = Vec::new();
        let switches = &trace.switches;
        for ((&cpu, &time), &prev) in switches.cpu.iter().zip(&switches.time).zip(&switches.prev) {
            let cpu = usize::from(cpu);
            if since.len() <= cpu {
                since.resize(cpu + 1, None);
            }
            let process = trace.threads.get(prev).process.index();
            if let (Some(since), Some(ran_ns)) = (since[cpu], ran_ns.get_mut(process))
                && !prev.is_idle()
            {
                *ran_ns = ran_ns.saturating_add(time.since(since));
            }
            since[cpu] = Some(time);
        }
        Self(ran_ns)
    }
}

/// True if the process of `thread` ran for at least half of its life, on however many CPUs.
pub(super) fn is_batch(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let threads = &analysis.trace.threads;
    let all = analysis.cpu_time.get_or_init(|| CpuTimeOfProcesses::new(analysis.trace));
    let ran_ns = all.0.get(threads.get(thread).process.index()).copied().unwrap_or_default();
    let life = analysis.timeline.life(threads.process_of(thread).leader);
    ran_ns.saturating_mul(2) >= life.duration_ns() && ran_ns > 0
}

/// Time that all threads of the process of `thread` ran inside `window`, summed, nanoseconds.
pub(super) fn process_ran_ns(analysis: &Analysis<'_>, thread: ThreadId, window: Window) -> u64 {
    let threads = &analysis.trace.threads;
    let process = threads.get(thread).process;
    let mut ran_ns = 0u64;
    for (id, _) in threads.iter().filter(|(_, other)| other.process == process) {
        analysis.timeline.each_segment(analysis.trace, id, window, &mut |segment| {
            if segment.state == State::Ran {
                ran_ns = ran_ns.saturating_add(segment.window.duration_ns());
            }
        });
    }
    ran_ns
}
