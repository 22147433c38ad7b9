//! The window that has the focus.

use crate::display::Display;
use crate::error::Error;
use std::time::{Duration, Instant};
use x11rb::cookie::Cookie;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt, GetPropertyReply, Window};
use x11rb::rust_connection::RustConnection;

/// Maximum steps from the window with the focus up to the one that the program made its own.
const MAX_STEPS: usize = 16;
/// How long a window is taken to keep the focus, where nobody says when it goes to another.
const AGE: Duration = Duration::from_millis(200);
/// For how long what a window says of itself is taken to be true.
const KNOWN: Duration = Duration::from_secs(2);
/// Maximum length of a class or a host's name, in words of 32 bits.
const MAX_TEXT: u32 = 64;

/// A property that was asked for.
type Property<'a> = Cookie<'a, RustConnection, GetPropertyReply>;

/// The window that the user types into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Focus {
    pub window: Window,
    /// Its process, if that is on this machine.
    pub pid: Option<u32>,
    /// It says that it answers pings.
    pub answers: bool,
    /// The class of the window: what its program is called.
    pub class: String,
}

/// The window with the focus, as of some time.
pub struct Focused {
    pub window: Option<Focus>,
    /// The window, or a part of it: where it was looked for.
    innermost: Window,
    by_manager: bool,
    at: Instant,
    /// When the window said of itself what `window` has.
    said: Instant,
}

impl Focused {
    /// Whether it is still taken to have the focus. A window manager says when another one gets it.
    pub fn is_fresh(&self) -> bool {
        self.by_manager || self.at.elapsed() < AGE
    }
}

impl Focus {
    /// What tells it from other windows, also from one that gets its number later.
    pub fn id(&self) -> (Window, Option<u32>) {
        (self.window, self.pid)
    }
}

impl Display {
    /// The window with the focus, by the window manager or else by the server. Windows may vanish
    /// at any time: then there is none. All that one look needs is asked for at once: each wait for an
    /// answer costs more than the answer. If it is the same window as `before`, that is all.
    pub fn focus(&self, before: Option<Focused>) -> Result<Focused, Error> {
        let active =
            self.property(self.root, self.atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW.into())?;
        let by_server = self.connection.get_input_focus()?;
        let active = words(active).first().copied().filter(|window| *window != 0);
        let (by_manager, at) = (active.is_some(), Instant::now());
        let mut window = match active {
            Some(window) => window,
            None => by_server.reply()?.focus,
        };
        let is_known = |before: &Focused| {
            before.innermost == window && before.window.is_some() && before.said + KNOWN > at
        };
        if let Some(before) = before.filter(is_known) {
            return Ok(Focused { by_manager, at, ..before });
        }
        let mut focused = Focused { window: None, innermost: window, by_manager, at, said: at };
        for _ in 0..MAX_STEPS {
            // None and PointerRoot are no windows.
            if window <= 1 || window == self.root {
                break;
            }
            let protocols =
                self.property(window, self.atoms.WM_PROTOCOLS, AtomEnum::ATOM.into())?;
            let pid = self.property(window, self.atoms._NET_WM_PID, AtomEnum::CARDINAL.into())?;
            let host = self.property(window, self.atoms.WM_CLIENT_MACHINE, AtomEnum::ANY.into())?;
            let class = self.property(window, AtomEnum::WM_CLASS.into(), AtomEnum::ANY.into())?;
            let tree = self.connection.query_tree(window)?;
            let (protocols, pid, class) = (words(protocols), words(pid), text(class));
            if !protocols.is_empty() || !pid.is_empty() || !class.is_empty() {
                // Two names with a zero after each: the second is that of the program.
                let class = class.split('\0').rfind(|name| !name.is_empty()).unwrap_or_default();
                focused.window = Some(Focus {
                    window,
                    pid: pid_here(&pid, host),
                    answers: protocols.contains(&self.atoms._NET_WM_PING),
                    class: class.to_owned(),
                });
                break;
            }
            // A part of a window, such as GTK's own window for the focus.
            let Ok(tree) = tree.reply() else { break };
            window = tree.parent;
        }
        Ok(focused)
    }

    /// Whether the window still exists. *Why its process must be the same*: the server gives the ids
    /// of a client that has left to the next one.
    pub fn exists(&self, focus: &Focus) -> Result<bool, Error> {
        let window = focus.window;
        let attributes = self.connection.get_window_attributes(window)?;
        let pid = self.property(window, self.atoms._NET_WM_PID, AtomEnum::CARDINAL.into())?;
        let host = self.property(window, self.atoms.WM_CLIENT_MACHINE, AtomEnum::ANY.into())?;
        Ok(attributes.reply().is_ok() && pid_here(&words(pid), host) == focus.pid)
    }

    /// Asks for a property, at most [`MAX_TEXT`] words of it.
    fn property(&self, window: Window, name: u32, kind: u32) -> Result<Property<'_>, Error> {
        Ok(self.connection.get_property(false, window, name, kind, 0, MAX_TEXT)?)
    }
}

/// The process that a window names, if that is on this machine.
fn pid_here(pid: &[u32], host: Property<'_>) -> Option<u32> {
    let is_here = text(host) == rustix::system::uname().nodename().to_string_lossy();
    pid.first().copied().filter(|_| is_here)
}

fn words(property: Property<'_>) -> Vec<u32> {
    let reply = property.reply().ok();
    reply.and_then(|reply| Some(reply.value32()?.collect())).unwrap_or_default()
}

fn text(property: Property<'_>) -> String {
    let value = property.reply().map(|reply| reply.value).unwrap_or_default();
    String::from_utf8_lossy(&value).into_owned()
}
