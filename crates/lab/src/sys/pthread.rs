//! The C library's mutex, default or with priority inheritance, as fast as possible, for
//! measurements.
//!
//! *Why not [`Mutex`](super::Mutex):* that one is made to be visible on stacks.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

/// A pthread mutex without data.
pub struct Pthread {
    // Boxed because a pthread mutex in use must not move.
    raw: Box<UnsafeCell<libc::pthread_mutex_t>>,
}

// SAFETY: a pthread mutex is made for use by many threads.
unsafe impl Sync for Pthread {}
// SAFETY: an unlocked mutex belongs to no thread, and it is only locked inside `locked`, which
// borrows it.
unsafe impl Send for Pthread {}

impl Pthread {
    /// An unlocked mutex; with `inherit`, its owner inherits the priority of its most urgent
    /// waiter.
    pub fn new(inherit: bool) -> io::Result<Self> {
        let protocol = if inherit { libc::PTHREAD_PRIO_INHERIT } else { libc::PTHREAD_PRIO_NONE };
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let raw = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        // SAFETY: `attributes` is initialised by the first call and destroyed by the last; `raw` is
        // valid to write to.
        let code = unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            let code = match libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), protocol)
            {
                0 => libc::pthread_mutex_init(raw.get(), attributes.as_ptr()),
                code => code,
            };
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
            code
        };
        if code == 0 { Ok(Self { raw }) } else { Err(io::Error::from_raw_os_error(code)) }
    }

    /// Runs `section` while holding the mutex. If it panics, the mutex stays locked forever.
    #[inline]
    pub fn locked<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `raw` is an initialised mutex that does not move; it is unlocked by the thread
        // that locked it.
        unsafe { libc::pthread_mutex_lock(self.raw.get()) };
        let result = section();
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.raw.get()) };
        result
    }
}

impl Drop for Pthread {
    fn drop(&mut self) {
        // SAFETY: `raw` is initialised, and not locked.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}
