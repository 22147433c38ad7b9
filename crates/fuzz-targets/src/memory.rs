//! A counting allocator. A reader that takes too much memory is a find.
//!
//! A single request beyond the limit ends the process at once, before the machine has to provide
//! the memory. The fuzzer then keeps the input, as for any other crash.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Maximum size of a single request, bytes.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(len: usize) {
    if len > LIMIT.load(Relaxed) {
        LIMIT.store(usize::MAX, Relaxed);
        eprintln!(
            "one request for {len} bytes of memory\n{}",
            std::backtrace::Backtrace::force_capture()
        );
        std::process::abort();
    }
    let now = NOW.fetch_add(len, Relaxed) + len;
    PEAK.fetch_max(now, Relaxed);
}

#[allow(unsafe_code, reason = "an allocator that counts")]
// SAFETY: everything is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len);
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, len) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Begins a measurement. Returns the number of bytes in use now.
pub(crate) fn start(max: usize) -> usize {
    LIMIT.store(max, Relaxed);
    let now = NOW.load(Relaxed);
    PEAK.store(now, Relaxed);
    now
}

/// Ends a measurement.
///
/// # Panics
/// If more than `max` bytes were in use at once.
pub(crate) fn finish(before: usize, max: usize) {
    LIMIT.store(usize::MAX, Relaxed);
    let took = PEAK.load(Relaxed).saturating_sub(before);
    assert!(took <= max, "took {took} bytes of memory, where {max} are allowed");
}
