//! The hot key: its name, and grabbing it.

use crate::display::Display;
use crate::error::Error;
use crate::keysyms::{ALT_L, NUM_LOCK, SUPER_L, keysym};
use std::fmt;
use std::str::FromStr;
use x11rb::errors::ReplyError;
use x11rb::protocol::ErrorKind;
use x11rb::protocol::xproto::{ConnectionExt, GrabMode, ModMask};

/// Modifiers, in the order in which they are written.
const MODIFIERS: [&str; 4] = ["Ctrl", "Alt", "Shift", "Super"];
const ALT: usize = 1;
const SUPER: usize = 3;

/// A key of the keyboard, with modifiers, as the server knows them.
pub type Combination = (u8, ModMask);

/// A key with modifiers, e.g. `Ctrl+Super+R`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotKey {
    /// Which of [`MODIFIERS`].
    modifiers: [bool; 4],
    key: String,
    keysym: u32,
}

impl FromStr for HotKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |reason: String| Error::HotKey { text: text.to_owned(), reason };
        let mut modifiers = [false; 4];
        let mut parts = text.split('+').map(str::trim);
        let key = parts.next_back().unwrap_or_default();
        for part in parts {
            let at = match part.to_ascii_lowercase().as_str() {
                "ctrl" | "control" => 0,
                "alt" => ALT,
                "shift" => 2,
                "super" | "win" | "meta" => SUPER,
                _ => return Err(wrong(format!("{part:?} is none of Ctrl, Alt, Shift, Super"))),
            };
            modifiers[at] = true;
        }
        let keysym = keysym(key).ok_or_else(|| {
            wrong(format!("{key:?} is no key: a letter, a digit, F1 to F35, Print, Pause, …"))
        })?;
        // A letter alone would be lost to every program.
        let types = keysym < 0xff00 || matches!(keysym, 0xff08 | 0xff09 | 0xff0d);
        if types && !(modifiers[0] || modifiers[ALT] || modifiers[SUPER]) {
            return Err(wrong("a key that types needs Ctrl, Alt or Super with it".to_owned()));
        }
        let mut key = key.to_ascii_lowercase();
        key[..1].make_ascii_uppercase();
        Ok(Self { modifiers, key, keysym })
    }
}

impl fmt::Display for HotKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, _) in MODIFIERS.iter().zip(self.modifiers).filter(|(_, is_set)| *is_set) {
            write!(out, "{name}+")?;
        }
        out.write_str(&self.key)
    }
}

impl HotKey {
    /// As the portal has it, by the specification of shortcuts (XDG): `CTRL+LOGO+r`.
    pub fn portal_trigger(&self) -> String {
        const NAMES: [&str; 4] = ["CTRL", "ALT", "SHIFT", "LOGO"];
        let set = NAMES.iter().zip(self.modifiers).filter(|(_, is_set)| *is_set);
        let modifiers: String = set.map(|(name, _)| format!("{name}+")).collect();
        let is_letter = self.key.len() == 1;
        format!("{modifiers}{}", if is_letter { self.key.to_lowercase() } else { self.key.clone() })
    }

    /// Takes the key for this program: others no longer see it. Returns what it has now. `held` is what
    /// it had, if the keyboard has changed: what is the same is never let go, as the key may be
    /// pressed at this moment.
    ///
    /// Fails if another program has taken it before, or the keyboard lacks it. Then nothing is
    /// taken.
    pub fn grab(&self, display: &Display, held: &[Combination]) -> Result<Vec<Combination>, Error> {
        let wanted = self.combinations(display).and_then(|wanted| {
            let new = wanted.iter().filter(|one| !held.contains(one));
            new.copied().try_for_each(|one| self.take(display, one)).map(|()| wanted)
        });
        match &wanted {
            Ok(wanted) => {
                for (keycode, modifiers) in held.iter().filter(|one| !wanted.contains(one)) {
                    display.connection.ungrab_key(*keycode, display.root, *modifiers)?.check()?;
                }
            }
            // 0 is every key, of this program only.
            Err(_) => {
                display.connection.ungrab_key(0_u8, display.root, ModMask::ANY)?.check()?;
            }
        }
        wanted
    }

    fn wrong(&self, reason: &str) -> Error {
        Error::HotKey { text: self.to_string(), reason: reason.to_owned() }
    }

    /// How this keyboard has the key, whatever its locks are.
    fn combinations(&self, display: &Display) -> Result<Vec<Combination>, Error> {
        let keycodes = display.keymap()?.keycodes(self.keysym);
        if keycodes.is_empty() {
            return Err(self.wrong("this keyboard has no such key"));
        }
        let modifiers = display.modifiers_of([ALT_L, SUPER_L, NUM_LOCK])?;
        let [alt, command, num_lock] = modifiers;
        let of = [ModMask::CONTROL, alt, ModMask::SHIFT, command];
        let wanted = of.iter().zip(self.modifiers).filter(|(_, is_set)| *is_set);
        let wanted = wanted.fold(ModMask::default(), |all, (mask, _)| all | *mask);
        // The locks count as modifiers, and nobody thinks of them.
        let locks = [ModMask::default(), ModMask::LOCK, num_lock, ModMask::LOCK | num_lock];
        let with_locks = |keycode| locks.map(|locks| (keycode, wanted | locks));
        Ok(keycodes.into_iter().flat_map(with_locks).collect())
    }

    fn take(&self, display: &Display, (keycode, modifiers): Combination) -> Result<(), Error> {
        let (connection, mode) = (&display.connection, GrabMode::ASYNC);
        let grab = connection.grab_key(false, display.root, modifiers, keycode, mode, mode)?;
        grab.check().map_err(|error| match error {
            ReplyError::X11Error(error) if error.error_kind == ErrorKind::Access => {
                self.wrong("another program has taken it; choose another one here or there")
            }
            error => error.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_and_written_alike() {
        for (text, written, portal) in [
            ("Ctrl+Super+R", "Ctrl+Super+R", "CTRL+LOGO+r"),
            ("super + shift+ctrl+f9", "Ctrl+Shift+Super+F9", "CTRL+SHIFT+LOGO+F9"),
            ("Pause", "Pause", "Pause"),
        ] {
            let key: HotKey = text.parse().unwrap();
            assert_eq!(
                (key.to_string().as_str(), key.portal_trigger().as_str()),
                (written, portal)
            );
        }
    }

    #[test]
    fn what_is_no_hot_key_is_refused() {
        for (text, reason) in [
            ("R", "needs Ctrl"),
            ("Shift+R", "needs Ctrl"),
            ("Ctrl+", "no key"),
            ("Ctrl+Rr", "no key"),
            ("Hyper+R", "none of"),
            ("", "no key"),
            ("Ctrl+é", "no key"),
        ] {
            let error = text.parse::<HotKey>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
