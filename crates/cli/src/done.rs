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
    /// Something happened that must not.
    Breach,
    /// The recorded command failed, with this exit code as a shell has it.
    #[cfg(target_os = "linux")]
    Failed(u8),
}

impl Done {
    /// The exit code of this program.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::NoStall => 3,
            #[cfg(target_os = "linux")]
            Self::NoHang => 4,
            Self::Breach => 5,
            #[cfg(target_os = "linux")]
            Self::Failed(code) => code,
        }
    }
}
