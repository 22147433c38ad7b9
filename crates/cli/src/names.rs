//! `unhitch name-frames`: the process in which the recorder has functions named.

use crate::Done;
use anyhow::Context;
use rustix::io::fcntl_dupfd_cloexec;
use unhitch_confine::{Limits, compute_only};
use unhitch_record::NamingProcess;

/// What naming may use up. The trace is mapped, and the tables of the programs are held; memory
/// that is really used stays far below, by the limits of each reader.
const LIMITS: Limits = Limits { address_space_bytes: 8 << 30, cpu_seconds: None, open_files: 1024 };

/// This program, in a process without rights.
pub fn namer() -> NamingProcess {
    // The kernel's own link: whatever lies at our path by now, it runs what runs here.
    NamingProcess::new("/proc/self/exe".into(), vec!["name-frames".into()])
}

/// Gives up all rights, and names what standard input asks for.
pub fn name_frames() -> anyhow::Result<Done> {
    // Run by the kernel's link, it would be called "exe". A name is no condition.
    let _ = rustix::thread::set_name(c"unhitch-names");
    unhitch_record::prepare_to_serve();
    let missing = compute_only(&LIMITS);
    let socket = fcntl_dupfd_cloexec(std::io::stdin(), 3).context("no socket")?;
    unhitch_record::serve(socket, missing)?;
    Ok(Done::Yes)
}
