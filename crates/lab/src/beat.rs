//! Events that come at a fixed pace from a thread of their own: key strokes, frames, questions.
//!
//! *Why a thread and not a timeout:* an event loop is called by somebody. One that only ever wakes
//! by its own timeout is a periodic worker, and nobody notices when it is late.

use crate::stage::Stage;
use crate::sys::{self, EventFd};
use std::io;

/// A source of events and the one who waits for them.
pub(crate) struct Beat {
    event: EventFd,
    interval_ns: u64,
}

impl Beat {
    /// One event every `interval_ns`.
    pub fn new(interval_ns: u64) -> io::Result<Self> {
        Ok(Self { event: EventFd::new()?, interval_ns })
    }

    /// The source's part: strikes until the run is over.
    pub fn strike(&self, stage: &Stage) -> io::Result<()> {
        let mut at_ns = sys::monotonic_ns();
        while stage.sleep_until(at_ns)? {
            self.event.set();
            at_ns += self.interval_ns;
        }
        Ok(())
    }

    /// The event loop's part: waits for events and returns how many came; none when the run is
    /// over.
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
