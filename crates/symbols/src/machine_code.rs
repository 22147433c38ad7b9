//! [`Code`]: the instructions around samples, and which bytes to read for them.

use object::elf;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

/// Number of bytes that are read before and after samples whose function is not known.
const RAW_MARGIN_BYTES: u64 = 256;
/// Maximum length of a function that is read whole, bytes. Of a longer one, only the code around
/// the samples is read.
const MAX_CODE_BYTES: u64 = 256 << 10;

/// An instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// x86.
    X86 {
        /// 32 or 64.
        bits: u32,
    },
    /// Any other.
    Other,
}

impl Isa {
    pub(crate) fn of_machine(machine: u16) -> Self {
        match elf::Machine(machine) {
            elf::EM_X86_64 => Self::X86 { bits: 64 },
            elf::EM_386 => Self::X86 { bits: 32 },
            _ => Self::Other,
        }
    }
}

/// Machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code {
    /// Module offset of the first byte, see [`ModuleKind`].
    pub start: u64,
    /// The code.
    pub bytes: Vec<u8>,
    /// The address that a disassembler shows for `start`: an svma for files, an avma for the
    /// kernel.
    pub start_address: u64,
    /// True if this is one function by the symbol table, false if it is the code around the
    /// samples.
    pub is_function: bool,
    /// Its instruction set.
    pub isa: Isa,
    /// The file it was read from.
    pub source: PathBuf,
    /// Why this may not be the code that ran, if there is doubt.
    pub doubt: Option<&'static str>,
}

/// Why there is no code.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Debug)]
#[non_exhaustive]
pub enum NoCode {
    /// The module is not in this trace.
    #[error("the trace does not say which module the function is in")]
    NoModule,
    /// Gone, a special file, or not permitted.
    #[error("{0} is gone or cannot be read")]
    Unreadable(String),
    /// Not an ELF file, or cut off.
    #[error("{0} is damaged or not an ELF file")]
    Damaged(String),
    /// The build ids, or the times, differ.
    #[error("{path} is not the file that was recorded: {how}")]
    OtherBuild {
        /// The file.
        path: String,
        /// How that is known.
        how: &'static str,
    },
    /// JIT code and the like.
    #[error("code in anonymous memory (JIT) is not in the recording")]
    Anonymous,
    /// The trace is from Windows.
    #[error("the code of Windows images is not in the recording, and cannot be read here")]
    Image,
    /// The trace is from another machine, or another kernel.
    #[error("{0}; name the recorded kernel with --kernel-image VMLINUX")]
    OtherKernel(&'static str),
    /// No `/proc/kcore`, or not permitted.
    #[error(
        "{path} cannot be read ({kind}): that needs root and a kernel with CONFIG_PROC_KCORE; \
         or name the recorded kernel with --kernel-image VMLINUX"
    )]
    NoKcore {
        /// The file.
        path: PathBuf,
        /// The system's error.
        kind: io::ErrorKind,
    },
    /// The kernel image does not match the trace.
    #[error("{path} is not the kernel that was recorded: {how}")]
    OtherImage {
        /// The file.
        path: PathBuf,
        /// How that is known.
        how: &'static str,
    },
}

/// `extent` if it contains `near` and is not too long, else `near` with a margin. Also returns
/// whether this is a function.
pub(crate) fn bounds(extent: Option<Range<u64>>, near: &Range<u64>) -> (Range<u64>, bool) {
    let fits = |extent: &Range<u64>| {
        extent.contains(&near.start)
            && near.end <= extent.end
            && extent.end - extent.start <= MAX_CODE_BYTES
    };
    match extent.filter(fits) {
        Some(extent) => (extent, true),
        None => {
            let end = near
                .end
                .min(near.start.saturating_add(MAX_CODE_BYTES))
                .saturating_add(RAW_MARGIN_BYTES);
            (near.start.saturating_sub(RAW_MARGIN_BYTES)..end, false)
        }
    }
}

/// Reads up to `len` bytes from `offset` on, fewer at the end of the file.
pub(crate) fn read_at(
    image: &mut (impl Read + Seek + ?Sized),
    offset: u64,
    len: u64,
) -> io::Result<Vec<u8>> {
    image.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    image.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_whole_and_other_code_with_a_margin() {
        assert_eq!(bounds(Some(0x100..0x140), &(0x110..0x120)), (0x100..0x140, true));
        assert_eq!(
            bounds(Some(0x100..0x140), &(0x110..0x150)),
            (0x10..0x250, false),
            "samples behind its end"
        );
        assert_eq!(bounds(None, &(0x110..0x120)), (0x10..0x220, false));
        assert_eq!(bounds(Some(0..u64::MAX), &(0x10..0x20)), (0..0x120, false));
        assert_eq!(bounds(None, &(0..u64::MAX)), (0..MAX_CODE_BYTES + RAW_MARGIN_BYTES, false));
    }
}
