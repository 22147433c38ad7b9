//! What can go wrong, each with what to do about it.

use std::io;
use std::path::PathBuf;
use unhitch_model::{visible, visible_path};

/// Why a process could not be looked at. The text says how to mend it; the system's own words are
/// its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody of that name or number is there.
    #[error("no process is called {who:?} or has that number; `unhitch threads` lists all")]
    NoSuchProcess {
        /// What was asked for.
        who: String,
    },
    /// It belongs to somebody else.
    #[error(
        "{} {pid} belongs to user {owner}, and we may not look into it: do so as that user or as root (`sudo unhitch …`), or with the \
         capability CAP_SYS_PTRACE, which root of a container may lack",
        visible(name)
    )]
    NotPermitted {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// The user id that it runs under.
        owner: u32,
    },
    /// A thread of the kernel's.
    #[error(
        "{} {pid} is a thread of the kernel: it has no address space of its own",
        visible(name)
    )]
    KernelThread {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It was there, and is gone.
    #[error("{} {pid} has ended", visible(name))]
    Ended {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// At the priority of the calling thread, a look at pages could freeze the target.
    #[error(
        "pages are not looked at with idle priority (SCHED_IDLE or nice 19): the kernel holds the target's memory lock meanwhile, and whoever \
         gets no CPU keeps it. Run at an ordinary priority, without --pages, or with --force"
    )]
    IdlePriority,
    /// The kernel lacks something.
    #[error("{what}\n{mend}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do.
        mend: String,
    },
    /// A file could not be read.
    #[error("cannot {action} {}", visible_path(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file of the kernel's is not as expected.
    #[error("{} at byte {offset}: expected {expected}, found {found:?}", visible_path(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What should be there.
        expected: &'static str,
        /// What is.
        found: String,
    },
}
