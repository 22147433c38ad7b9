//! How long processes ran in the whole recording.

use unhitch_model::{ProcessId, Time, Trace};

/// Time on a CPU by process, nanoseconds, of all its threads in the whole recording.
pub(crate) struct ProcessTimes(Vec<u64>);

impl ProcessTimes {
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

    /// How long the threads of a process ran, summed, nanoseconds.
    pub(crate) fn ran_ns(&self, process: ProcessId) -> u64 {
        self.0.get(process.index()).copied().unwrap_or_default()
    }
}
