//! Shows notifications on a thread of its own: a desktop that hangs takes them late or never, and that
//! is when the hot key must not wait.

use crate::bus::Bus;
use crate::error::Error;
use crate::event::Event;
use crate::notification::{self, Button};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of notifications that wait for the desktop.
const MAX_WAITING: usize = 16;
/// Maximum number of notifications whose buttons still work.
const MAX_SHOWN: usize = 16;

/// What to show.
pub struct Notice {
    /// The trace that it is about. Of each, only the last one stays.
    pub trace: Option<PathBuf>,
    pub summary: String,
    pub text: String,
    pub buttons: Vec<Button>,
}

/// A notification that is shown, and its trace.
struct Shown {
    number: u32,
    trace: PathBuf,
}

/// Oldest first.
#[derive(Clone, Default)]
struct AllShown(Arc<Mutex<VecDeque<Shown>>>);

/// The other end of that thread, which ends with it.
pub struct Notifier {
    notices: SyncSender<Notice>,
    shown: AllShown,
}

impl Notifier {
    /// Starts the thread. What cannot be shown becomes an event.
    pub fn start(bus: Arc<Bus>, events: Sender<Event>) -> Self {
        let (notices, wanted) = sync_channel(MAX_WAITING);
        let shown = AllShown::default();
        let all = shown.clone();
        std::thread::spawn(move || {
            for notice in wanted {
                if let Err(error) = all.show(&bus, notice) {
                    let _ = events.send(Event::NotShown(error.to_string()));
                }
            }
        });
        Self { notices, shown }
    }

    /// Shows it after those before it.
    pub fn show(&self, notice: Notice) -> Result<(), Error> {
        let full = |_| Error::Bus("too many wait for the desktop to show them".to_owned());
        self.notices.try_send(notice).map_err(full)
    }

    /// The trace of the notification with this number, if it is still shown.
    pub fn trace(&self, number: u32) -> Option<PathBuf> {
        let shown = self.shown.lock();
        shown.iter().find(|shown| shown.number == number).map(|shown| shown.trace.clone())
    }

    /// Forgets the notification with this number.
    pub fn closed(&self, number: u32) {
        self.shown.lock().retain(|shown| shown.number != number);
    }
}

impl AllShown {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Shown>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows it in place of an earlier one about its trace.
    fn show(&self, bus: &Bus, notice: Notice) -> Result<(), Error> {
        let Notice { trace, summary, text, buttons } = notice;
        let replaces = self.take(trace.as_ref()).map_or(0, |shown| shown.number);
        let number = notification::show(bus, replaces, &summary, &text, &buttons)?;
        if let Some(trace) = trace {
            let mut shown = self.lock();
            shown.push_back(Shown { number, trace });
            if shown.len() > MAX_SHOWN {
                shown.pop_front();
            }
        }
        Ok(())
    }

    /// The earlier one.
    fn take(&self, trace: Option<&PathBuf>) -> Option<Shown> {
        let mut shown = self.lock();
        let at = shown.iter().position(|shown| Some(&shown.trace) == trace)?;
        shown.remove(at)
    }
}
