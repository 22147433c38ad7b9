//! Errors of a scan, each with its remedy.

use std::io;
use std::path::PathBuf;
use unhitch_model::{visible, visible_path};

/// Why a process could not be scanned. The text says what to do about it; the system's own error is
/// the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No process has that name or pid.
    #[error("no process is called {who:?} or has that pid; `unhitch threads` lists all")]
    NoSuchProcess {
        /// The requested name or pid.
        who: String,
    },
    /// It belongs to another user.
    #[error(
        "{} {pid} belongs to user {owner}, and you may not inspect it: run as that user or as root \
         (`sudo unhitch …`), or with the capability CAP_SYS_PTRACE, which root in a container may \
         lack",
        visible(name)
    )]
    NotPermitted {
        /// Its pid.
        pid: u32,
        /// Its name.
        name: String,
        /// Its user id.
        owner: u32,
    },
    /// It is a kernel thread.
    #[error("{} {pid} is a kernel thread: it has no address space of its own", visible(name))]
    KernelThread {
        /// Its pid.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It has exited.
    #[error("{} {pid} has exited", visible(name))]
    Ended {
        /// Its pid.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// At the priority of the calling thread, inspecting pages could freeze the target.
    #[error(
        "pages are not inspected at idle priority (SCHED_IDLE or nice 19): the kernel holds the \
         process's mmap lock during the inspection, and a scanner that gets no CPU would keep the \
         lock. Run at normal priority, without --pages, or with --force"
    )]
    IdlePriority,
    /// The kernel lacks something.
    #[error("{what}\n{remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// A file could not be read.
    #[error("cannot {action} {}", visible_path(path))]
    File {
        /// The attempted operation, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A kernel file has unexpected content.
    #[error("{} at byte {offset}: expected {expected}, found {found:?}", visible_path(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
}
