//! Threads for whose waits nobody cares: those with which a runtime collects garbage or compiles
//! beside the program, and the recorder.

use crate::Analysis;
use unhitch_model::ThreadId;

/// How the names begin of threads that only help a runtime, as the kernel keeps them (15 bytes).
/// What they keep others from is a stall of those.
const HELPERS: [&str; 20] = [
    // HotSpot
    "C1 CompilerThre",
    "C2 CompilerThre",
    "GC Thread#",
    "G1 ",
    "Shenandoah",
    "ZDriver",
    "VM Periodic Tas",
    "Signal Dispatch",
    "Service Thread",
    "Monitor Deflati",
    "Notification Th",
    "Common-Cleaner",
    "Reference Handl",
    "Finalizer",
    // V8 and Chromium
    "V8 DefaultWorke",
    "V8Worker",
    "ThreadPoolForeg",
    "ThreadPoolServi",
    // .NET
    ".NET Tiered Com",
    ".NET BGC",
];

/// True for a thread that can be no victim.
pub(crate) fn is_never_victim(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let trace = analysis.trace;
    let is_helper = |name: &str| HELPERS.iter().any(|helper| name.starts_with(helper));
    let names = &trace.threads.get(thread).names;
    names.iter().any(|(_, name)| is_helper(trace.name(*name))) || is_recorder(analysis, thread)
}

/// True for a thread of the program that made the recording, or of its helper processes.
fn is_recorder(analysis: &Analysis<'_>, thread: ThreadId) -> bool {
    let trace = analysis.trace;
    let leader = trace.threads.process_of(thread).leader;
    let last = trace.threads.get(leader).names.last();
    last.is_some_and(|(_, name)| {
        let name = trace.name(*name);
        name == "unhitch" || name.starts_with("unhitch-")
    })
}
