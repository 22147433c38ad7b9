//! The agent itself: takes what its sources tell, and does what follows from it.

use crate::bus::{Bus, Message};
use crate::error::Error;
use crate::event::{Event, Saved, Why};
use crate::mark::InputMode;
use crate::note::Dialog;
use crate::notification::{self, Button, Reaction};
use crate::notifier::{Notice, Notifier};
use crate::open;
use crate::options::Options;
use crate::portal::{Portal, Told};
use crate::recorder::{self, Outgoing};
use crate::session::Session;
use rustix::fs::FlockOperation;
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of traces that are remembered.
const MAX_TRACES: usize = 16;

/// What the agent reports to whoever started it, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Report {
    /// What it does from now on.
    Ready(String),
    /// Something cannot be had.
    Warning(String),
    /// A trace was saved.
    Saved(PathBuf),
    /// A trace has its answer.
    Judged(PathBuf, String),
    /// The user's note is in a trace.
    Noted(PathBuf),
}

struct Agent<'a> {
    report: &'a mut dyn FnMut(Report),
    bus: Option<Arc<Bus>>,
    /// `None` also if the user wants no notifications.
    notifier: Option<Notifier>,
    portal: Option<Portal>,
    saves: Sender<Why>,
    sockets: Arc<Vec<PathBuf>>,
    events: Sender<Event>,
    notify: bool,
    /// Whether the session is one of X.
    has_session: bool,
    /// Traces whose answer was shown already: the recorder tells of our own saves, too.
    judged: VecDeque<PathBuf>,
    /// Traces that the hot key saved, to which a note can be added.
    own: VecDeque<PathBuf>,
}

/// Serves the session that the environment names, until it ends.
///
/// # Errors
/// When there is no session, or another agent serves it.
pub fn run(options: &Options, report: &mut dyn FnMut(Report)) -> Result<(), Error> {
    let _lock = lock()?;
    let (events, received) = channel();
    let (marks, to_send) = channel();
    let (saves, wanted) = channel();
    let sockets = Arc::new(recorder::sockets(options.socket.as_deref()));

    let (signals, of_bus) = channel();
    let bus = Bus::connect(signals);
    let is_wayland = std::env::var_os("WAYLAND_DISPLAY").is_some_and(|name| !name.is_empty());
    let session = if is_wayland {
        Err(Error::NoSession)
    } else {
        Session::open(options, events.clone(), marks.clone())
    };
    if bus.is_err() && session.is_err() {
        return Err(session.err().filter(|_| !is_wayland).unwrap_or(Error::NoSession));
    }
    let mut agent = Agent {
        report,
        bus: None,
        notifier: None,
        portal: None,
        saves,
        sockets: Arc::clone(&sockets),
        events: events.clone(),
        notify: options.notify,
        has_session: false,
        judged: VecDeque::new(),
        own: VecDeque::new(),
    };
    agent.has_session = agent.serve(session, is_wayland, options);
    agent.use_bus(bus, (!agent.has_session).then_some(options));
    let input = if agent.has_session { options.input } else { InputMode::Off };
    start(&sockets, input, (marks, to_send), wanted, of_bus, &events);
    agent.work(&received);
    Ok(())
}

/// Tells the session's user why the agent has ended, as far as its bus lets it.
pub fn show_error(error: &Error) {
    let (signals, _ignored) = channel();
    if let Ok(bus) = Bus::connect(signals) {
        let summary = "Unhitch: the agent has ended";
        let _ = notification::show(&bus, 0, summary, &error.to_string(), &[]);
    }
}

/// One agent per session: the lock goes with the process.
fn lock() -> Result<File, Error> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = runtime.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let display = std::env::var("WAYLAND_DISPLAY").or_else(|_| std::env::var("DISPLAY"));
    let display = display.unwrap_or_default().replace(['/', '.'], "_");
    let path = folder.join(format!("unhitch-agent-{uid}{display}.lock"));
    let failed = |source| Error::System { action: "lock the session", source };
    let file =
        File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::AlreadyRunning(path)),
        Err(error) => Err(failed(error.into())),
    }
}

/// Starts the threads that talk to the recorder, and the one that hands on signals.
fn start(
    sockets: &Arc<Vec<PathBuf>>,
    input: InputMode,
    (marks, to_send): (Sender<Outgoing>, Receiver<Outgoing>),
    wanted: Receiver<Why>,
    signals: Receiver<Message>,
    events: &Sender<Event>,
) {
    let with = || (Arc::clone(sockets), events.clone());
    let (to, tell) = with();
    std::thread::spawn(move || recorder::send_marks(&to, &to_send, &tell));
    let (to, tell) = with();
    std::thread::spawn(move || recorder::make_saves(&to, &wanted, &marks, &tell));
    let (to, tell) = with();
    std::thread::spawn(move || recorder::listen(&to, input, &tell));
    let tell = events.clone();
    std::thread::spawn(move || {
        signals.into_iter().all(|signal| tell.send(Event::Signal(signal)).is_ok());
        let _ = tell.send(Event::BusEnded);
    });
}

impl Agent<'_> {
    /// Starts the thread of the X session, if there is one.
    fn serve(
        &mut self,
        session: Result<Session, Error>,
        is_wayland: bool,
        options: &Options,
    ) -> bool {
        match session {
            Ok(session) => {
                std::thread::spawn(move || session.run());
                return true;
            }
            Err(_) if is_wayland && options.input != InputMode::Off => self.warn(
                "on Wayland no program sees the session's input: there are no marks of input"
                    .to_owned(),
            ),
            Err(_) if is_wayland => {}
            Err(error) => self.warn(error.to_string()),
        }
        false
    }

    /// Uses the bus for notifications, and for the hot key if there is no X session.
    fn use_bus(&mut self, bus: Result<Bus, Error>, of_portal: Option<&Options>) {
        let bus = match bus {
            Ok(bus) => Arc::new(bus),
            Err(error) => return self.warn(format!("no notifications: {error}")),
        };
        if let Err(error) = notification::listen(&bus) {
            self.warn(format!("no buttons of notifications: {error}"));
        }
        let key = of_portal.and_then(|options| options.hot_key.as_ref());
        let asked = key.map(|key| Portal::ask(&bus, key)).transpose();
        self.notifier = self.notify.then(|| Notifier::start(Arc::clone(&bus), self.events.clone()));
        self.bus = Some(bus);
        match asked {
            Ok(portal) => self.portal = portal,
            Err(error) => self.has_no_hot_key(&error),
        }
    }

    fn work(&mut self, events: &Receiver<Event>) {
        for event in events {
            match event {
                Event::Session { hot_key, input, pings } => self.ready(hot_key, input, pings),
                Event::SessionEnded(reason) => {
                    // Without X, the bus may still bring keys of the portal; but it is over, too.
                    return self.warn(format!("the session has ended: {reason}"));
                }
                Event::Missing(what) => self.miss(what),
                Event::HotKey => {
                    let _ = self.saves.send(Why::HotKey);
                }
                Event::Hang(hang) => {
                    let _ = self.saves.send(Why::Hang(hang));
                }
                Event::Saved { why, saved } => self.saved(&why, &saved),
                Event::SaveFailed { why, error } => {
                    let text = format!("not saved: {error}");
                    // Nobody asked for the others.
                    match why {
                        Why::HotKey => self.miss(text),
                        Why::Hang(_) => self.warn(text),
                    }
                }
                Event::Judged(saved) => self.judged(&saved),
                Event::Noted(path) => (self.report)(Report::Noted(path)),
                Event::Signal(signal) => self.signal(&signal),
                Event::NotShown(error) => self.warn(format!("no notification: {error}")),
                Event::BusEnded if self.bus.take().is_none() => {}
                Event::BusEnded if self.has_session => {
                    self.notifier = None;
                    self.warn("the session's bus has ended: no more notifications".to_owned());
                }
                Event::BusEnded => {
                    return self.warn("the session has ended: its bus is gone".to_owned());
                }
            }
        }
    }

    /// Tells the user of the session what they do without.
    fn miss(&mut self, what: String) {
        self.show(None, "Unhitch", what.clone(), Vec::new());
        self.warn(what);
    }

    fn has_no_hot_key(&mut self, error: &Error) {
        self.miss(format!(
            "no hot key ({error}): bind `unhitch save` to a key in the desktop's settings"
        ));
    }

    fn warn(&mut self, text: String) {
        (self.report)(Report::Warning(text));
    }

    fn ready(&mut self, hot_key: Option<String>, input: InputMode, pings: bool) {
        let key = hot_key.map_or("no hot key".to_owned(), |key| format!("{key} saves"));
        let pings = if pings {
            "the window with the focus is asked whether it answers"
        } else {
            "windows are not asked"
        };
        (self.report)(Report::Ready(format!("{key}; input marks {}; {pings}", input.name())));
    }

    fn saved(&mut self, why: &Why, saved: &Saved) {
        (self.report)(Report::Saved(saved.path.clone()));
        if *why == Why::HotKey {
            remember(&mut self.own, saved.path.clone());
            self.show_trace(&saved.path, "Saved", "The answer will follow.");
        }
    }

    fn judged(&mut self, saved: &Saved) {
        if self.judged.contains(&saved.path) {
            return;
        }
        remember(&mut self.judged, saved.path.clone());
        let line = saved.verdict.clone().unwrap_or_else(|| "A trace was saved".to_owned());
        self.show_trace(&saved.path, "Unhitch", &line);
        (self.report)(Report::Judged(saved.path.clone(), line));
    }

    /// Shows a notification about a trace.
    fn show_trace(&mut self, path: &Path, summary: &str, text: &str) {
        let mut buttons = Vec::new();
        let mut text = text.to_owned();
        let can_open = open::can_open(path);
        if can_open {
            buttons.push(Button::Open);
        }
        if self.own.contains(&path.to_owned()) && (can_open || Dialog::find().is_some()) {
            buttons.push(Button::Note);
        }
        if !can_open {
            text.push_str(&format!("\u{20}See it with: sudo unhitch view {}", path.display()));
        }
        self.show(Some(path.to_owned()), summary, text, buttons);
    }

    fn show(&mut self, trace: Option<PathBuf>, summary: &str, text: String, buttons: Vec<Button>) {
        let Some(notifier) = &self.notifier else { return };
        let notice = Notice { trace, summary: summary.to_owned(), text, buttons };
        if let Err(error) = notifier.show(notice) {
            self.warn(format!("no notification: {error}"));
        }
    }

    fn signal(&mut self, signal: &Message) {
        let (Some(bus), Some(portal)) = (&self.bus, &mut self.portal) else {
            return self.react(signal);
        };
        match portal.take(bus, signal) {
            Ok(Some(Told::Pressed)) => {
                let _ = self.saves.send(Why::HotKey);
            }
            Ok(Some(Told::Bound(key))) => self.ready(Some(key), InputMode::Off, false),
            Ok(None) => self.react(signal),
            Err(error) => self.has_no_hot_key(&error),
        }
    }

    fn react(&mut self, signal: &Message) {
        let (Some(reaction), Some(notifier)) = (notification::reaction(signal), &self.notifier)
        else {
            return;
        };
        match reaction {
            Reaction::Closed(number) => notifier.closed(number),
            Reaction::Pressed(number, button) => match (notifier.trace(number), button) {
                (None, _) => {}
                (Some(trace), Button::Open) => self.open_page(&trace),
                (Some(trace), Button::Note) => self.ask_for_note(trace),
            },
        }
    }

    fn open_page(&mut self, path: &Path) {
        if let Err(error) = open::open_page(path) {
            self.warn(format!("the page cannot be opened: {error}"));
        }
    }

    /// Asks for a note in a dialog, which may stay open for long; without one, on the page.
    fn ask_for_note(&mut self, path: PathBuf) {
        let Some(dialog) = Dialog::find() else { return self.open_page(&path) };
        let (sockets, events) = (Arc::clone(&self.sockets), self.events.clone());
        std::thread::spawn(move || {
            let stored = match dialog.ask() {
                Ok(None) => return,
                Ok(Some(text)) => recorder::add_note(&sockets, &path, &text)
                    .map_err(|error| format!("the note was not stored: {error}")),
                Err(error) => Err(format!("no note: {error}")),
            };
            let _ = events.send(match stored {
                Ok(()) => Event::Noted(path),
                Err(error) => Event::Missing(error),
            });
        });
    }
}

/// Keeps what is new, but not for ever.
fn remember<T>(list: &mut VecDeque<T>, new: T) {
    list.push_back(new);
    if list.len() > MAX_TRACES {
        list.pop_front();
    }
}
