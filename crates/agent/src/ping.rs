//! Whether the window with the focus answers: `_NET_WM_PING`, by the window managers' convention.
//!
//! *Why only that window, and only while the session is in use*: nobody suffers from another one,
//! and each ping wakes a program. An answer proves that the thread that reads from the X server
//! does so. A window that has never answered is not reported: some programs say that they answer,
//! and do not.

use crate::clock::now_ns;
use crate::display::Display;
use crate::error::Error;
use crate::mark::{InputMode, Mark, What};
use crate::window::Focus;
use std::collections::VecDeque;
use std::time::Duration;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    CLIENT_MESSAGE_EVENT, ClientMessageData, ClientMessageEvent, ConnectionExt, EventMask, Window,
};

/// Messages to the root, among which are windows' answers. *Why they are not always heard*: with them
/// come moves and changes of all windows.
const ANSWERS: EventMask = EventMask::SUBSTRUCTURE_NOTIFY;
/// How often the window is asked.
pub const INTERVAL: Duration = Duration::from_millis(500);
/// How often an answer is looked for that is overdue.
pub const OVERDUE_INTERVAL: Duration = Duration::from_millis(100);
/// How much longer than the threshold the end of a hang is waited for, so that the trace holds it.
const LONGER: Duration = Duration::from_millis(500);
/// Maximum time for an answer. After that, the window is asked again.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Maximum number of windows that are known to answer.
const MAX_KNOWN: usize = 64;
/// Maximum number of windows that have not answered yet. Others are not asked meanwhile.
const MAX_ASKED: usize = 8;

/// A window that did not answer for longer than the threshold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hang {
    /// The class of the window.
    pub class: String,
    pub pid: Option<u32>,
    pub from_ns: u64,
    pub to_ns: u64,
    /// It has answered by now.
    pub is_over: bool,
}

/// What came of a look.
#[derive(PartialEq, Debug, Default)]
pub struct Found {
    /// For the recorder.
    pub mark: Option<Mark>,
    /// For a save, which takes the mark of it along.
    pub hang: Option<Hang>,
}

/// A ping without an answer.
struct Asked {
    focus: Focus,
    serial: u32,
    sent_ns: u64,
    reported: bool,
}

/// Asks each window once at a time. *Why not only one window*: who waits for one that hangs turns to
/// another, which may hang as well.
pub struct Ping {
    threshold: Duration,
    asked: Vec<Asked>,
    /// Windows that have answered once, with their processes; oldest first.
    known: VecDeque<(Window, Option<u32>)>,
    serial: u32,
}

impl Ping {
    pub fn new(threshold: Duration) -> Self {
        // Window managers use the server's time as the serial: stay away from where that is now.
        let serial = u32::from_ne_bytes([0x5a; 4]) ^ std::process::id();
        Self { threshold, asked: Vec::new(), known: VecDeque::new(), serial }
    }

    /// True while a window has not answered.
    pub fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Asks the window whether it answers.
    pub fn ask(&mut self, display: &Display, focus: Focus) -> Result<(), Error> {
        let is_asked = self.asked.iter().any(|asked| asked.focus.id() == focus.id());
        if is_asked || self.asked.len() >= MAX_ASKED || !focus.answers {
            return Ok(());
        }
        self.serial = self.serial.wrapping_add(1);
        let data = [display.atoms._NET_WM_PING, self.serial, focus.window, 0, 0];
        let message = ClientMessageEvent {
            response_type: CLIENT_MESSAGE_EVENT,
            format: 32,
            sequence: 0,
            window: focus.window,
            type_: display.atoms.WM_PROTOCOLS,
            data: ClientMessageData::from(data),
        };
        display.hear_root(ANSWERS, true)?;
        display.connection.send_event(false, focus.window, EventMask::NO_EVENT, message)?;
        display.connection.flush()?;
        self.asked.push(Asked { focus, serial: self.serial, sent_ns: now_ns(), reported: false });
        Ok(())
    }

    /// Takes an answer, if this message is one.
    pub fn answer(
        &mut self,
        display: &Display,
        message: &ClientMessageEvent,
    ) -> Result<Found, Error> {
        let data = message.data.as_data32();
        let is_answer = message.type_ == display.atoms.WM_PROTOCOLS
            && message.format == 32
            && data[0] == display.atoms._NET_WM_PING;
        let fits = |asked: &Asked| data[1] == asked.serial && data[2] == asked.focus.window;
        let Some(at) = self.asked.iter().position(|asked| is_answer && fits(asked)) else {
            return Ok(Found::default());
        };
        let asked = self.asked.swap_remove(at);
        display.hear_root(ANSWERS, self.is_waiting())?;
        Ok(self.answered(&asked, now_ns()))
    }

    /// What follows from an answer. If it is the first of its window, it is no hang, however late: a
    /// program that has just started may not have been ready.
    fn answered(&mut self, asked: &Asked, now: u64) -> Found {
        let was_known = self.known.contains(&asked.focus.id());
        self.remember(asked.focus.id());
        let hang = asked.hang(now, true);
        if was_known && self.is_late(asked, now) && !asked.reported {
            return Found { mark: None, hang: Some(hang) };
        }
        Found { mark: Some(hang.mark()), hang: None }
    }

    /// Looks for an answer that is overdue; for the next one at the next look.
    pub fn look(&mut self, display: &Display) -> Result<Found, Error> {
        let now = now_ns();
        let waited = |asked: &Asked| Duration::from_nanos(now.saturating_sub(asked.sent_ns));
        let mut found = Found::default();
        for at in (0..self.asked.len()).rev() {
            let asked = &mut self.asked[at];
            if waited(asked) < self.threshold + LONGER {
                continue;
            }
            let window = asked.focus.id();
            if waited(asked) > GIVE_UP || !display.exists(&asked.focus)? {
                // Until it answers again, its hang is the one that was reported.
                self.asked.swap_remove(at);
                self.known.retain(|known| *known != window);
                display.hear_root(ANSWERS, self.is_waiting())?;
            } else if !asked.reported && found.hang.is_none() && self.known.contains(&window) {
                asked.reported = true;
                found.hang = Some(asked.hang(now, false));
            }
        }
        Ok(found)
    }

    fn is_late(&self, asked: &Asked, now: u64) -> bool {
        Duration::from_nanos(now.saturating_sub(asked.sent_ns)) >= self.threshold
    }

    fn remember(&mut self, window: (Window, Option<u32>)) {
        if !self.known.contains(&window) {
            self.known.push_back(window);
        }
        if self.known.len() > MAX_KNOWN {
            self.known.pop_front();
        }
    }
}

impl Hang {
    /// The ping and its answer, for the recorder.
    pub fn mark(&self) -> Mark {
        Mark {
            what: What::Ping { sent_ns: self.from_ns, answered: self.is_over },
            time_ns: self.to_ns,
            pid: self.pid,
            mode: InputMode::Off,
        }
    }
}

impl Asked {
    fn hang(&self, now: u64, is_over: bool) -> Hang {
        Hang {
            class: self.focus.class.clone(),
            pid: self.focus.pid,
            from_ns: self.sent_ns,
            to_ns: now,
            is_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_a_hang_unless_it_is_the_windows_first() {
        let mut ping = Ping::new(Duration::from_millis(500));
        let focus = Focus { window: 7, answers: true, class: "editor".to_owned(), pid: Some(9) };
        let asked = |reported| Asked { focus: focus.clone(), serial: 1, sent_ns: 0, reported };
        let (late, in_time) = (600_000_000, 400_000_000);
        let first = ping.answered(&asked(false), late);
        assert!(first.hang.is_none() && first.mark.is_some(), "{first:?}");
        assert!(ping.answered(&asked(false), in_time).hang.is_none());
        let hang = ping.answered(&asked(false), late).hang.unwrap();
        assert_eq!((hang.pid, hang.to_ns, hang.is_over), (Some(9), late, true));
        let found = ping.answered(&asked(true), late);
        assert!(found.hang.is_none() && found.mark.is_some(), "it was reported: {found:?}");
    }
}
