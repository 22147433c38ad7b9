//! The only `unsafe` code: code in memory, and system calls that the standard library does not
//! wrap.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// Code that counts down from its argument: a loop for samples.
#[derive(Clone, Copy)]
pub struct Spin(extern "C" fn(u64));

// SAFETY: a code address; the code is never unmapped and shares nothing.
unsafe impl Send for Spin {}

impl Spin {
    /// The function `hostile_spin` of the library at `path`, which stays loaded.
    pub fn load(path: &str) -> io::Result<Self> {
        let path = CString::new(path)?;
        // SAFETY: both names end with a zero; our library runs nothing when it is loaded, and its
        // function has this signature.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            let function = if library.is_null() {
                library
            } else {
                libc::dlsym(library, c"hostile_spin".as_ptr())
            };
            if function.is_null() {
                return Err(io::Error::other(format!("{path:?} cannot be loaded")));
            }
            Ok(Self(std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(function)))
        }
    }

    /// The same code in new memory at `avma`, like that of a JIT compiler.
    pub fn copy_to(self, avma: u64) -> io::Result<Self> {
        const LEN: usize = 256;
        let memory =
            map(Some(avma), 4096, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, None)?;
        // SAFETY: the function is shorter than LEN, is position-independent, and is followed
        // by readable memory; the new mapping is ours and longer.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0 as *const u8, memory.as_ptr(), LEN);
            Ok(Self(std::mem::transmute::<*mut u8, extern "C" fn(u64)>(memory.as_ptr())))
        }
    }

    /// Runs the loop.
    pub fn run(self, rounds: u64) {
        (self.0)(rounds);
    }
}

fn map(
    avma: Option<u64>,
    len: usize,
    protection: i32,
    file: Option<&File>,
) -> io::Result<NonNull<u8>> {
    let fixed = if avma.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let (kind, fd) = file.map_or((libc::MAP_ANONYMOUS, -1), |file| (0, file.as_raw_fd()));
    // SAFETY: a new mapping that replaces nothing.
    let memory = unsafe {
        libc::mmap(
            avma.unwrap_or(0) as *mut c_void,
            len,
            protection,
            libc::MAP_PRIVATE | kind | fixed,
            fd,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        NonNull::new(memory.cast()).ok_or(io::ErrorKind::Other.into())
    }
}

/// Permanently maps the first page of `file`, or an anonymous page, as code.
pub fn map_code(file: Option<&File>) -> io::Result<()> {
    map(None, 4096, libc::PROT_READ | libc::PROT_EXEC, file).map(drop)
}

/// A futex word on the first page of `file`, which the kernel must read from the file on each
/// access.
#[derive(Clone, Copy)]
pub struct FutexWord(NonNull<u8>);

// SAFETY: only the kernel reads and writes what it points to.
unsafe impl Send for FutexWord {}

impl FutexWord {
    /// Maps the page.
    pub fn map(file: &File) -> io::Result<Self> {
        map(None, 4096, libc::PROT_READ | libc::PROT_WRITE, Some(file)).map(Self)
    }

    /// Sleeps while the word is `expected`, i.e. forever.
    pub fn wait(self, expected: u32) {
        let nowhere = std::ptr::null::<libc::timespec>();
        // SAFETY: the word is aligned and stays mapped; the kernel checks both.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                expected,
                nowhere,
            )
        };
    }

    /// Frees the page, so that the next access reads the file again.
    pub fn forget(self, file: &File) {
        // SAFETY: the page is private, and there is no reference to its content.
        unsafe {
            libc::madvise(self.0.as_ptr().cast(), 4096, libc::MADV_DONTNEED);
            libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
        }
    }
}
