//! Resource limits and lifetime of a process: getrlimit(2), prctl(2).

use crate::rights::Limits;
use rustix::io::Result;
use rustix::process::{self, DumpableBehavior, Resource, Rlimit, Signal};

/// Sets the limits; an existing lower limit stays.
pub(crate) fn set(limits: &Limits) -> Result<()> {
    let cpu = limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds));
    let others = [
        (Resource::As, limits.address_space_bytes),
        (Resource::Nofile, limits.open_files),
        // Otherwise, files could be written through open descriptors. This does not affect sockets
        // and pipes.
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ];
    for (resource, value) in others.into_iter().chain(cpu) {
        let value =
            process::getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
        process::setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })?;
    }
    Ok(())
}

/// Prevents tracing the process and reading its memory, and makes it die with the thread that
/// started it. Changing the user undoes both, so call this afterwards.
pub(crate) fn die_with_parent() -> Result<()> {
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    process::set_parent_process_death_signal(Some(Signal::KILL))
}
