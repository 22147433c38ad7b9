//! Permanently takes rights away from the calling process: capabilities, files, system calls.
//!
//! A recorder runs as root and reads untrusted files: programs, debug files, traces. Code that
//! parses such files should have no rights worth stealing, so that a bug in a parser costs function
//! names, and not a machine. [`renounce`] is for programs that were started with more rights than
//! the user has; [`confine`] for a command that works on files named by the user; [`compute_only`]
//! for a child that only works on descriptors that it was given.
//!
//! All three belong into the first lines of `main`: rights are per thread, and a thread keeps its
//! own when another gives up. They can be combined, and cannot be undone. On systems other than
//! Linux they do nothing, and the result says so.
//!
//! # Example
//!
//! ```
//! use unhitch_confine::{Allowed, confine};
//!
//! // From here on, this process can only read files below /usr.
//! let missing = confine(&Allowed { read: vec!["/usr".into()], ..Allowed::default() });
//! for line in missing {
//!     eprintln!("warning: {line}");
//! }
//! ```

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod limits;

mod rights;

#[cfg(target_os = "linux")]
pub use capabilities::is_root;
pub use rights::{Allowed, Limits};

use std::io;

/// True if the process has any capability.
///
/// # Errors
/// When the capabilities cannot be read.
#[cfg(target_os = "linux")]
pub fn is_privileged() -> io::Result<bool> {
    capabilities::any()
}

/// Gives up all capabilities, and sets `no_new_privs` so that it cannot gain new ones.
///
/// # Errors
/// When a capability cannot be given up.
#[cfg(target_os = "linux")]
pub fn renounce() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    Ok(capabilities::empty()?)
}

/// Leaves the process only its memory, its threads and its descriptors. Returns what could not be
/// taken away, one line each.
///
/// Root becomes nobody. The process dies with the thread that started it. It leaves no core dump,
/// cannot open, connect, run or signal anything, and cannot make memory executable. Attempts fail
/// with EPERM, so that libraries can fall back. Only writing to a file kills it (SIGXFSZ): give it
/// pipes or sockets to communicate, also as standard error.
#[cfg(target_os = "linux")]
pub fn compute_only(limits: &Limits) -> Vec<String> {
    let mut missing = Missing::default();
    missing
        .note("gaining new privileges cannot be prevented", rustix::thread::set_no_new_privs(true));
    // This must come while it is still permitted.
    missing
        .note("the capability bounding set cannot be emptied", capabilities::empty_bounding_set());
    missing.note("root cannot become the user nobody here", capabilities::become_nobody());
    missing.note("capabilities cannot be given up", capabilities::empty());
    missing.note("limits cannot be set", limits::set(limits));
    missing.note("it cannot be made to end with its parent", limits::die_with_parent());
    missing.add(files::restrict(&Allowed::default()));
    missing.add(calls::compute_only());
    missing.0
}

/// Leaves the process only what `allowed` lists, and its descriptors. Returns what could not be
/// taken away, one line each.
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

/// Always false: this system has no rights that could be given up.
#[cfg(not(target_os = "linux"))]
pub fn is_privileged() -> io::Result<bool> {
    Ok(false)
}

/// Always false: this system has no rights that could be given up.
#[cfg(not(target_os = "linux"))]
pub fn is_root() -> bool {
    false
}

/// Does nothing on this system.
#[cfg(not(target_os = "linux"))]
pub fn renounce() -> io::Result<()> {
    Ok(())
}

/// Does nothing on this system; the result says so.
#[cfg(not(target_os = "linux"))]
pub fn compute_only(_limits: &Limits) -> Vec<String> {
    vec!["confinement is not implemented on this system".to_owned()]
}

/// Does nothing on this system; the result says so.
#[cfg(not(target_os = "linux"))]
pub fn confine(_allowed: &Allowed) -> Vec<String> {
    vec!["confinement is not implemented on this system".to_owned()]
}
