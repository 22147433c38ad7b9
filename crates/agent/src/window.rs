//! The window that has the focus.

use crate::display::Display;
use crate::error::Error;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt, Window};

/// Maximum steps from the window with the focus up to the one that the program made its own.
const MAX_STEPS: usize = 16;
/// Maximum length of a class or a host's name, in words of 32 bits.
const MAX_TEXT: u32 = 64;

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

impl Focus {
    /// What tells it from other windows, also from one that gets its number later.
    pub fn id(&self) -> (Window, Option<u32>) {
        (self.window, self.pid)
    }
}

impl Display {
    /// The window with the focus, by the window manager or else by the server. Windows may vanish
    /// at any time: then there is none.
    pub fn focus(&self) -> Result<Option<Focus>, Error> {
        let active =
            self.words(self.root, self.atoms._NET_ACTIVE_WINDOW, AtomEnum::WINDOW.into())?;
        let mut window = match active.first().copied().filter(|window| *window != 0) {
            Some(window) => window,
            None => self.connection.get_input_focus()?.reply()?.focus,
        };
        for _ in 0..MAX_STEPS {
            // None and PointerRoot are no windows.
            if window <= 1 || window == self.root {
                return Ok(None);
            }
            let protocols = self.words(window, self.atoms.WM_PROTOCOLS, AtomEnum::ATOM.into())?;
            let pid = self.words(window, self.atoms._NET_WM_PID, AtomEnum::CARDINAL.into())?;
            let class = self.text(window, AtomEnum::WM_CLASS.into())?;
            if !protocols.is_empty() || !pid.is_empty() || !class.is_empty() {
                return Ok(Some(Focus {
                    window,
                    pid: self.process_here(window, &pid)?,
                    answers: protocols.contains(&self.atoms._NET_WM_PING),
                    // Two names with a zero after each: the second is that of the program.
                    class: class
                        .split('\0')
                        .rfind(|name| !name.is_empty())
                        .unwrap_or_default()
                        .to_owned(),
                }));
            }
            // A part of a window, such as GTK's own window for the focus.
            let Ok(tree) = self.connection.query_tree(window)?.reply() else { return Ok(None) };
            window = tree.parent;
        }
        Ok(None)
    }

    /// Whether the window still exists. *Why its process must be the same*: the server gives the ids
    /// of a client that has left to the next one.
    pub fn exists(&self, focus: &Focus) -> Result<bool, Error> {
        let window = focus.window;
        if self.connection.get_window_attributes(window)?.reply().is_err() {
            return Ok(false);
        }
        let pid = self.words(window, self.atoms._NET_WM_PID, AtomEnum::CARDINAL.into())?;
        Ok(self.process_here(window, &pid)? == focus.pid)
    }

    /// The process that a window names, if that is on this machine.
    fn process_here(&self, window: Window, pid: &[u32]) -> Result<Option<u32>, Error> {
        let is_here = self.text(window, self.atoms.WM_CLIENT_MACHINE)? == host_name();
        Ok(pid.first().copied().filter(|_| is_here))
    }

    fn words(&self, window: Window, property: u32, kind: u32) -> Result<Vec<u32>, Error> {
        let cookie = self.connection.get_property(false, window, property, kind, 0, MAX_TEXT)?;
        let reply = cookie.reply().ok();
        Ok(reply.and_then(|reply| Some(reply.value32()?.collect())).unwrap_or_default())
    }

    fn text(&self, window: Window, property: u32) -> Result<String, Error> {
        let any = AtomEnum::ANY;
        let cookie = self.connection.get_property(false, window, property, any, 0, MAX_TEXT)?;
        let value = cookie.reply().map(|reply| reply.value).unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).into_owned())
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
