//! What triggers report, where to, and how they are told to end.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use unhitch_model::Time;

/// A trigger fired.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Hit {
    /// The number of the trigger in the configuration.
    pub(crate) trigger: usize,
    /// What it saw, in words.
    pub(crate) text: String,
    pub(crate) pid: Option<u32>,
    pub(crate) tid: Option<u32>,
    /// From when to when.
    pub(crate) seen: Option<(Time, Time)>,
    /// It fired more often than it reported.
    pub(crate) unreported: u64,
}

/// Where triggers report to.
#[derive(Clone)]
pub(crate) struct Reporter {
    sender: Sender<Hit>,
    wake: Arc<UnixStream>,
}

impl Reporter {
    /// Reports to `sender`, and makes the other end of `wake` readable.
    pub(crate) fn new(sender: Sender<Hit>, wake: UnixStream) -> std::io::Result<Self> {
        wake.set_nonblocking(true)?;
        Ok(Self { sender, wake: Arc::new(wake) })
    }

    pub(crate) fn report(&self, hit: Hit) {
        if self.sender.send(hit).is_ok() {
            self.wake();
        }
    }

    /// Ends the recorder's sleep.
    pub(crate) fn wake(&self) {
        // If the buffer is full, it is awake already.
        let _ = (&*self.wake).write(&[1]);
    }
}

/// Tells the recorder why some triggers do not work, and when they do again.
pub(super) struct Trouble {
    triggers: Vec<usize>,
    sender: Sender<(usize, Option<String>)>,
    reporter: Reporter,
    told: Option<String>,
}

impl Trouble {
    pub(super) fn new(
        triggers: Vec<usize>,
        sender: Sender<(usize, Option<String>)>,
        reporter: Reporter,
    ) -> Self {
        Self { triggers, sender, reporter, told: None }
    }

    /// Tells why they do not work now, `None` if they do, unless that was told already.
    pub(super) fn tell(&mut self, reason: Option<String>) {
        if reason == self.told {
            return;
        }
        for trigger in &self.triggers {
            let _ = self.sender.send((*trigger, reason.clone()));
        }
        self.told = reason;
        self.reporter.wake();
    }
}

/// Tells the threads of triggers to end.
#[derive(Default)]
pub(super) struct Stop {
    ended: Mutex<bool>,
    condition: Condvar,
}

impl Stop {
    /// Sleeps; true if it is time to end.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.condition.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn set(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_all();
    }
}
