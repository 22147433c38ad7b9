//! Processes: started with `fork`, and killed when their parent ends.

use super::{check, monotonic_ns, wait_readable};
use std::hint::black_box;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes the kernel send `signal` to the calling process when the thread that forked it ends.
fn die_with_parent(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong, 0, 0, 0) })
        .map(drop)
}

/// Makes sure that the calling process does not outlive the run: it gets SIGTERM when its parent
/// ends, and SIGALRM in `after_s` seconds.
pub fn bound_this_process(after_s: u32) -> io::Result<()> {
    // SAFETY: no pointers, cannot fail.
    unsafe { libc::alarm(after_s) };
    die_with_parent(libc::SIGTERM)
}

/// Sets the name of the calling process.
pub fn set_name(name: &str) -> io::Result<()> {
    std::fs::write("/proc/self/comm", name)
}

/// A child process; killed when dropped.
pub struct Child {
    pid: libc::pid_t,
    reaped: bool,
}

/// Runs `part` in a new process. It has its own process group, so that Ctrl-C on a terminal only
/// reaches the first process of the program, which ends the others. The calling process must have a
/// single thread.
///
/// An error of `part` is printed to standard error and makes [`Child::wait`] fail.
pub fn start_process(name: &str, part: impl FnOnce() -> io::Result<()>) -> io::Result<Child> {
    let parent = std::process::id();
    // SAFETY: the caller guarantees that the process has a single thread, so no lock is held that
    // would never be released in the new process.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        let act = || {
            die_with_parent(libc::SIGKILL)?;
            if std::os::unix::process::parent_id() == parent {
                // SAFETY: no pointers.
                check(unsafe { libc::setpgid(0, 0) })?;
                set_name(name)?;
                part()?;
            }
            Ok(())
        };
        // A panic must not unwind into the frames copied from the parent.
        let end: io::Result<()> = catch_unwind(AssertUnwindSafe(act))
            .unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        end_process(end.inspect_err(|error| eprintln!("{name}: {error}")).is_err().into());
    }
    Ok(Child { pid, reaped: false })
}

/// Exits without cleaning up the state copied from the parent.
#[inline(never)]
fn end_process(code: libc::c_int) -> ! {
    // SAFETY: no memory is touched.
    unsafe { libc::_exit(code) }
}

/// Sends a signal to a child process.
pub fn send_signal(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: no pointers. This only fails if the process has exited, and then the signal is not
    // needed.
    unsafe { libc::kill(pid, signal) };
}

impl Child {
    /// Waits until it exits. Fails unless it succeeded.
    #[inline(never)]
    pub fn wait(&mut self) -> io::Result<()> {
        black_box(self.reap(0)).map(drop)
    }

    /// True if it has exited; does not wait. Fails unless it succeeded.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        self.reap(libc::WNOHANG)
    }

    #[inline(always)]
    fn reap(&mut self, flags: libc::c_int) -> io::Result<bool> {
        if self.reaped {
            return Ok(true);
        }
        let (pid, status) = black_box(call_waitpid(self.pid, flags));
        self.reaped = check(pid)? == self.pid;
        if self.reaped && status != 0 {
            return Err(io::Error::other(format!(
                "a process of the program ended with wait status {status:#x}"
            )));
        }
        Ok(self.reaped)
    }

    /// Waits until it exits. If it is still running at `until_ns` (CLOCK_MONOTONIC), kills it and
    /// returns false.
    pub fn wait_until(&mut self, until_ns: u64) -> io::Result<bool> {
        // SAFETY: no pointers; the result is a new descriptor that nobody else owns.
        let end = unsafe {
            OwnedFd::from_raw_fd(check(
                libc::syscall(libc::SYS_pidfd_open, self.pid, 0) as libc::c_int
            )?)
        };
        while !wait_readable([end.as_fd()], until_ns)?[0] {
            if monotonic_ns() >= until_ns {
                self.kill();
                return Ok(false);
            }
        }
        self.wait().map(|()| true)
    }

    fn kill(&mut self) {
        if !self.reaped {
            send_signal(self.pid, libc::SIGKILL);
            call_waitpid(self.pid, 0);
            self.reaped = true;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the result of `wait4`, and the status.
#[inline(never)]
fn call_waitpid(pid: libc::pid_t, flags: libc::c_int) -> (libc::pid_t, libc::c_int) {
    let mut status = 0;
    // SAFETY: `status` is a valid int to write to; a null pointer declines the usage.
    let ended = black_box(unsafe {
        libc::syscall(libc::SYS_wait4, pid, &mut status, flags, std::ptr::null::<libc::rusage>())
    });
    (ended as libc::pid_t, status)
}
