//! `unhitch name-frames`: the unprivileged process in which the recorder looks up function names.

use crate::done::Done;
use anyhow::Context;
use rustix::io::fcntl_dupfd_cloexec;
use unhitch_confine::{Limits, compute_only};
use unhitch_record::NamingProcess;

/// Limits of the naming process. Its address space holds the mapped trace and the symbol tables of
/// the programs. The memory that it really uses stays far below the limit, because each reader has
/// its own.
const LIMITS: Limits = Limits { address_space_bytes: 8 << 30, cpu_seconds: None, open_files: 1024 };

/// A save is often made because the machine is overloaded, and shall not wait for that to end. The
/// work has limits of its own. Only root may be so impolite.
const NICENESS: i32 = -10;

/// This program, to be run as an unprivileged process.
pub fn namer() -> NamingProcess {
    // This link of the kernel's always leads to the running program, whatever is at its path by
    // now.
    NamingProcess::new("/proc/self/exe".into(), vec!["name-frames".into()])
}

/// Gives up all rights, then names the frames that standard input asks for.
pub fn name_frames() -> anyhow::Result<Done> {
    // Started through the kernel's link, the process would be called "exe". If the name cannot be
    // set, that does not matter.
    let _ = rustix::thread::set_name(c"unhitch-names");
    let _ = rustix::process::setpriority_process(None, NICENESS);
    unhitch_record::prepare_to_serve();
    let missing = compute_only(&LIMITS);
    let socket = fcntl_dupfd_cloexec(std::io::stdin(), 3).context("no socket")?;
    unhitch_record::serve(socket, missing)?;
    Ok(Done::Yes)
}
