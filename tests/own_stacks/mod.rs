//! The stacks of one process in a recording.

use unhitch_model::{StackId, Trace};

/// Those of its waits, also of waits that began before the recording; and those of its samples.
pub fn stacks_of(trace: &Trace, pid: u32) -> (Vec<StackId>, Vec<StackId>) {
    let is_own = |thread| trace.threads.process_of(thread).pid == pid;
    let switches = trace.switches.prev.iter().zip(&trace.switches.stack);
    let waits = switches.filter(|(thread, _)| is_own(**thread)).map(|(_, stack)| *stack);
    let waits = waits.chain(
        trace.earlier_waits.iter().filter(|wait| is_own(wait.thread)).map(|wait| wait.stack),
    );
    let samples = trace.samples.thread.iter().zip(&trace.samples.stack);
    let samples = samples.filter(|(thread, _)| is_own(**thread)).map(|(_, stack)| *stack);
    (waits.collect(), samples.collect())
}
