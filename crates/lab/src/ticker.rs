//! [`Ticker`]: events at a fixed interval from a separate thread, such as key strokes, frames or
//! requests.
//!
//! *Why a thread and not a timeout:* an event loop is woken by others. A loop that only wakes by
//! its own timeout is a periodic worker, and nobody notices if it is late.

use crate::stage::Stage;
use crate::sys::{self, EventFd};
use std::io;

/// Connects a source of events with the event loop that waits for them.
pub(crate) struct Ticker {
    event: EventFd,
    interval_ns: u64,
}

impl Ticker {
    /// One event every `interval_ns`.
    pub fn new(interval_ns: u64) -> io::Result<Self> {
        Ok(Self { event: EventFd::new()?, interval_ns })
    }

    /// The source: ticks until the run is over.
    pub fn run(&self, stage: &Stage) -> io::Result<()> {
        let mut at_ns = sys::monotonic_ns();
        while stage.sleep_until(at_ns)? {
            self.event.set();
            at_ns += self.interval_ns;
        }
        Ok(())
    }

    /// The event loop: waits for events and returns how many arrived; `None` when the run is over.
    #[inline(never)]
    pub fn wait(&self, stage: &Stage) -> io::Result<Option<u64>> {
        while stage.is_open() {
            sys::wait_readable([self.event.as_fd(), stage.curtain().as_fd()], u64::MAX)?;
            match self.event.take() {
                0 => {}
                count => return Ok(stage.is_open().then_some(count)),
            }
        }
        Ok(None)
    }
}
