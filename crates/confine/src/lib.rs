//! Takes rights away from the calling process, for good: capabilities, files, system calls.
//!
//! A recorder runs as root, and reads what strangers wrote: programs, debug files, traces. Whoever
//! reads such things should have nothing that is worth taking, so that a flaw in a reader costs
//! names, and not a machine. [`renounce`] is for whoever was started with more than the user has;
//! [`confine`] for a command that answers from files which were named to it; [`compute_only`] for a
//! child that works on descriptors that it was given, and on nothing else.
//!
//! All three are for the first lines of `main`: rights belong to threads, and a thread keeps what
//! it has when another gives up. Each is on top of the others; none can be undone. On other systems
//! than Linux they do nothing, and say so.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod limits;

use std::io;
use std::path::PathBuf;

/// What a child that only computes may use up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of memory that it maps, code and stacks included.
    pub address_space_bytes: u64,
    /// Of CPU time, in all its threads.
    pub cpu_seconds: Option<u64>,
    /// At one time; those that it was started with are kept, and count.
    pub open_files: u64,
}

/// What a confined process may still reach.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Files, and folders with all that is in them, to be read. What does not exist is left out.
    pub read: Vec<PathBuf>,
    /// Files, and folders in which files may be made, written, replaced and removed.
    pub write: Vec<PathBuf>,
    /// Listen on TCP ports.
    pub listen: bool,
    /// Run the programs in `read`, which are confined as well, and let them reach the network.
    pub run: bool,
}

/// Whether the process has any capability.
#[cfg(target_os = "linux")]
pub fn is_privileged() -> io::Result<bool> {
    capabilities::any()
}

/// Whether the process is root's: without a capability, too, root's files are its own.
#[cfg(target_os = "linux")]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives up every capability, and with `no_new_privs` the hope for others.
#[cfg(target_os = "linux")]
pub fn renounce() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    Ok(capabilities::empty()?)
}

/// Leaves the process its memory, its threads and its descriptors. Returns what could not be taken
/// away, a line each.
///
/// Root becomes nobody. The process dies with the thread that started it; it leaves no core, opens,
/// connects, runs and signals nothing, and makes no memory executable. What it tries nevertheless
/// fails with EPERM, so that libraries fall back; only what it writes to a file ends it (SIGXFSZ):
/// give it pipes or sockets to talk through, as standard error too.
#[cfg(target_os = "linux")]
pub fn compute_only(limits: &Limits) -> Vec<String> {
    let mut missing = Missing::default();
    missing.note("new privileges cannot be refused", rustix::thread::set_no_new_privs(true));
    // While it still may.
    missing.note("the bounding set cannot be emptied", capabilities::empty_bounding_set());
    missing.note("root cannot become nobody here", capabilities::become_nobody());
    missing.note("capabilities cannot be given up", capabilities::empty());
    missing.note("limits cannot be set", limits::set(limits));
    missing.note("its life cannot be bound to its parent's", limits::die_with_parent());
    missing.add(files::restrict(&Allowed::default()));
    missing.add(calls::compute_only());
    missing.0
}

/// Leaves the process what `allowed` names, besides its descriptors. Returns what could not be
/// taken away, a line each.
///
/// It cannot trace, load code into the kernel, mount, or change its namespaces, whatever is
/// allowed.
#[cfg(target_os = "linux")]
pub fn confine(allowed: &Allowed) -> Vec<String> {
    let mut missing = Missing::default();
    missing.note("capabilities cannot be given up", renounce());
    missing.add(files::restrict(allowed));
    missing.add(calls::confine(allowed));
    missing.0
}

/// What could not be taken away.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Missing(Vec<String>);

#[cfg(target_os = "linux")]
impl Missing {
    fn note<E: std::fmt::Display>(&mut self, what: &str, result: Result<(), E>) {
        self.add(result.err().map(|error| format!("{what}: {error}")));
    }

    fn add(&mut self, line: Option<String>) {
        self.0.extend(line);
    }
}

/// Nothing that could be given up is known on this system.
#[cfg(not(target_os = "linux"))]
pub fn is_privileged() -> io::Result<bool> {
    Ok(false)
}

/// Nothing that could be given up is known on this system.
#[cfg(not(target_os = "linux"))]
pub fn is_root() -> bool {
    false
}

/// Does nothing on this system.
#[cfg(not(target_os = "linux"))]
pub fn renounce() -> io::Result<()> {
    Ok(())
}

/// Does nothing on this system, and says so.
#[cfg(not(target_os = "linux"))]
pub fn compute_only(_limits: &Limits) -> Vec<String> {
    vec!["this system knows no confinement that is used here".to_owned()]
}

/// Does nothing on this system, and says so.
#[cfg(not(target_os = "linux"))]
pub fn confine(_allowed: &Allowed) -> Vec<String> {
    vec!["this system knows no confinement that is used here".to_owned()]
}
