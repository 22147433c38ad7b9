//! What a process may use up, and how long it lives: getrlimit(2), prctl(2).

use crate::Limits;
use rustix::io::Result;
use rustix::process::{self, DumpableBehavior, Resource, Rlimit, Signal};

/// Sets the limits; a lower one that is in force stays.
pub(crate) fn set(limits: &Limits) -> Result<()> {
    let cpu = limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds));
    let others = [
        (Resource::As, limits.address_space_bytes),
        (Resource::Nofile, limits.open_files),
        // Files could be written through descriptors that are there; sockets and pipes are no
        // files.
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

/// Nobody traces it or reads its memory, and it ends with the thread that started it. A change of
/// user undoes both: call this after.
pub(crate) fn die_with_parent() -> Result<()> {
    process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    process::set_parent_process_death_signal(Some(Signal::KILL))
}
