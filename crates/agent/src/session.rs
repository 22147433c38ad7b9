//! The thread of the X session: hot key, marks, pings.

use crate::activity::Activity;
use crate::display::Display;
use crate::error::Error;
use crate::event::Event;
use crate::hot_key::{Combination, HotKey};
use crate::input::Input;
use crate::mark::{InputMode, Mark, What};
use crate::options::Options;
use crate::ping::{Found, INTERVAL, OVERDUE_INTERVAL, Ping};
use crate::recorder::Outgoing;
use crate::window::Focused;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use x11rb::connection::Connection;
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::sync::ALARMSTATE;

/// How long events are collected while input is marked: each look at them wakes the agent, and then the
/// recorder. The X server keeps their times. A trigger of the recorder's waits for half a second before
/// it saves.
const COLLECT: Duration = Duration::from_millis(250);
/// A key that is held down repeats: presses closer than this are one.
const HOT_KEY_INTERVAL: Duration = Duration::from_secs(1);

/// What the session is asked for.
pub struct Session {
    display: Display,
    /// The hot key, and what is taken for it.
    hot_key: Option<(HotKey, Vec<Combination>)>,
    input: Option<Input>,
    activity: Option<Activity>,
    ping: Option<Ping>,
    focus: Option<Focused>,
    pressed: Option<Instant>,
    /// When answers that are due, or the window with the focus, are looked at again.
    next_look: Instant,
    /// When the window with the focus is asked again.
    next_ask: Instant,
    events: Sender<Event>,
    /// Marks that are not sent yet: those of one look are sent at once, and before anything else
    /// that may lead to a save.
    made: Vec<Mark>,
    marks: Sender<Outgoing>,
}

impl Session {
    /// Connects, and takes what `options` wants. What cannot be had is reported, and the rest goes
    /// on without it.
    pub fn open(
        options: &Options,
        events: Sender<Event>,
        marks: Sender<Outgoing>,
    ) -> Result<Self, Error> {
        let display = Display::open()?;
        let missing = |error: &Error| {
            let _ = events.send(Event::Missing(error.to_string()));
        };
        let hot_key = options.hot_key.clone().and_then(|key| {
            let held = key.grab(&display, &[]).inspect_err(missing).ok()?;
            Some((key, held))
        });
        let input = Input::select(&display, options.input).unwrap_or_else(|error| {
            missing(&error);
            None
        });
        let watched = options.not_answering.map(|threshold| {
            Activity::watch(&display).map(|activity| (activity, Ping::new(threshold)))
        });
        let (activity, ping) = match watched.transpose() {
            Ok(watched) => watched.unzip(),
            Err(error) => {
                missing(&error);
                (None, None)
            }
        };
        let mode = if input.is_some() { options.input } else { InputMode::Off };
        let _ = events.send(Event::Session {
            hot_key: hot_key.as_ref().map(|(key, _)| key.to_string()),
            input: mode,
            pings: ping.is_some(),
        });
        Ok(Self {
            display,
            hot_key,
            input,
            activity,
            ping,
            focus: None,
            pressed: None,
            next_look: Instant::now(),
            next_ask: Instant::now(),
            events,
            made: Vec::new(),
            marks,
        })
    }

    /// Serves the session until it ends.
    pub fn run(mut self) {
        let error = loop {
            if let Err(error) = self.turn() {
                break error;
            }
        };
        self.send_marks();
        let _ = self.events.send(Event::SessionEnded(error.to_string()));
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.drain()?;
        let mut timeout = self.look()?;
        // A request may have brought events with its answer: those are no longer in the socket.
        self.drain()?;
        // Among them may be that the session is in use again, which nothing tells a second time.
        if self.activity.as_ref().is_some_and(Activity::in_use) {
            timeout = timeout.or(Some(Duration::ZERO));
        }
        // An answered ping can wait for what comes next, if that is soon.
        let is_ping = |mark: &Mark| matches!(mark.what, What::Ping { .. });
        if timeout.is_none() || self.made.len() > 1 || !self.made.iter().all(is_ping) {
            self.send_marks();
        }
        self.display.connection.flush()?;
        let socket = self.display.connection.stream().as_fd();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // The time of an answer to a ping is that of its arrival.
            Ok(_) if self.input.is_some() && !self.is_asking() => {
                std::thread::sleep(self.collect())
            }
            Ok(_) => {}
            Err(error) => {
                let source = error.into();
                return Err(Error::System { action: "wait for the X server", source });
            }
        }
        Ok(())
    }

    /// Handles all events that have come. Afterwards it is known who has the focus: when keys come, it
    /// may be too late to ask, as another window may have got it meanwhile.
    fn drain(&mut self) -> Result<(), Error> {
        loop {
            while let Some(event) = self.display.connection.poll_for_event()? {
                self.handle(&event)?;
            }
            if self.input.is_none() || self.focus.is_some() {
                return Ok(());
            }
            self.focus = Some(self.display.focus(None)?);
        }
    }

    /// How long events are collected: at most until windows are looked at.
    fn collect(&self) -> Duration {
        let is_pinging = self.activity.as_ref().is_some_and(Activity::in_use);
        let to_look = self.next_look.saturating_duration_since(Instant::now());
        if is_pinging { COLLECT.min(to_look) } else { COLLECT }
    }

    /// True while a window has not answered.
    fn is_asking(&self) -> bool {
        self.ping.as_ref().is_some_and(Ping::is_waiting)
    }

    /// Asks the window, and looks at its answer; returns how long nothing has to be done.
    fn look(&mut self) -> Result<Option<Duration>, Error> {
        let (Some(activity), Some(ping)) = (&mut self.activity, &mut self.ping) else {
            return Ok(None);
        };
        if !activity.in_use() && !ping.is_waiting() {
            return Ok(None);
        }
        let now = Instant::now();
        if self.next_look <= now {
            let is_waiting = ping.is_waiting();
            self.next_look = now + if is_waiting { OVERDUE_INTERVAL } else { INTERVAL };
            let found = if is_waiting { Some(ping.look(&self.display)?) } else { None };
            // While one window does not answer, another may get the focus.
            if self.next_ask <= now {
                self.next_ask = now + INTERVAL;
                activity.look(&self.display)?;
                if activity.in_use() {
                    let before = self.focus.take();
                    let focus = self.focus.insert(self.display.focus(before)?);
                    if let Some(window) = &focus.window {
                        ping.ask(&self.display, window.clone())?;
                    }
                }
            }
            let has_to_look = activity.in_use() || ping.is_waiting();
            if let Some(found) = found {
                self.tell(found);
                self.send_marks();
            }
            if !has_to_look {
                return Ok(None);
            }
        }
        Ok(Some(self.next_look.saturating_duration_since(Instant::now())))
    }

    fn handle(&mut self, event: &XEvent) -> Result<(), Error> {
        match event {
            XEvent::KeyPress(_) => {
                let is_new = self.pressed.is_none_or(|last| last.elapsed() >= HOT_KEY_INTERVAL);
                self.pressed = Some(Instant::now());
                if is_new {
                    self.send_marks();
                    let _ = self.events.send(Event::HotKey);
                }
            }
            // Keys before this went to the window before.
            XEvent::PropertyNotify(changed)
                if changed.atom == self.display.atoms._NET_ACTIVE_WINDOW =>
            {
                self.focus = None;
            }
            XEvent::MappingNotify(_) => self.remap()?,
            // That an alarm was destroyed is told like its ringing.
            XEvent::SyncAlarmNotify(alarm) if alarm.state != ALARMSTATE::DESTROYED => {
                if let Some(activity) = &mut self.activity {
                    activity.look(&self.display)?;
                }
            }
            XEvent::ClientMessage(message) => {
                if let Some(ping) = &mut self.ping {
                    let found = ping.answer(&self.display, message)?;
                    self.tell(found);
                }
            }
            // A window may vanish between two requests about it.
            XEvent::Error(_) => {}
            event => self.mark(event)?,
        }
        Ok(())
    }

    fn mark(&mut self, event: &XEvent) -> Result<(), Error> {
        let Some(input) = &self.input else { return Ok(()) };
        let Some(mut mark) = input.mark(event, None) else { return Ok(()) };
        mark.pid = self.focused_pid()?;
        self.made.push(mark);
        Ok(())
    }

    fn send_marks(&mut self) {
        if !self.made.is_empty() {
            let _ = self.marks.send(Outgoing::Marks(std::mem::take(&mut self.made)));
        }
    }

    fn focused_pid(&mut self) -> Result<Option<u32>, Error> {
        let focus = match self.focus.take() {
            Some(focus) if focus.is_fresh() => focus,
            before => self.display.focus(before)?,
        };
        Ok(self.focus.insert(focus).window.as_ref().and_then(|window| window.pid))
    }

    /// The keyboard has changed: keys mean something else, the hot key too.
    fn remap(&mut self) -> Result<(), Error> {
        if let Some(input) = &mut self.input {
            input.remap(&self.display)?;
        }
        if let Some((key, held)) = &mut self.hot_key {
            *held = key.grab(&self.display, held).unwrap_or_else(|error| {
                let _ = self.events.send(Event::Missing(error.to_string()));
                Vec::new()
            });
        }
        Ok(())
    }

    fn tell(&mut self, found: Found) {
        self.made.extend(found.mark);
        if let Some(hang) = found.hang {
            self.send_marks();
            let _ = self.events.send(Event::Hang(hang));
        }
    }
}
