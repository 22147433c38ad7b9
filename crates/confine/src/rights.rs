//! What a confined process may still use: files and resources.

use std::path::PathBuf;

/// Resource limits of a child that only computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum of mapped memory, including code and stacks.
    pub address_space_bytes: u64,
    /// Maximum CPU time of all its threads, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Maximum number of open files, including those that it was started with.
    pub open_files: u64,
}

/// What a confined process may still access.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// Files, and folders with their content, that may be read. Those that do not exist are
    /// ignored.
    pub read: Vec<PathBuf>,
    /// Files that may be written, and folders in which files may be created, written, replaced and
    /// removed.
    pub write: Vec<PathBuf>,
    /// Whether it may listen on TCP ports.
    pub listen: bool,
    /// Whether it may run the programs in `read`, which are also confined, but may use the network.
    pub run: bool,
}
