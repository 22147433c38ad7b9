//! [`Done`]: how a command succeeded, which its exit code tells.

/// How a command succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// It did what it was asked to.
    Yes,
    /// There is no stall in the trace.
    NoStall,
    #[cfg(target_os = "linux")]
    /// The lab program did not hang.
    NoHang,
}
