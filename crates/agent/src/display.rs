//! The connection to the X server: its names, its keyboard, its clock.

use crate::clock::{MAX_OFFSET_MS, now_ns, offset_ms};
use crate::error::Error;
use crate::keysyms;
use crate::mark::KeyClass;
use std::cell::Cell;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt, CreateWindowAux, EventMask, ModMask,
    PropMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

x11rb::atom_manager! {
    /// Names of the X server that the agent uses.
    pub Atoms: AtomsCookie {
        WM_PROTOCOLS,
        WM_CLIENT_MACHINE,
        _NET_WM_PING,
        _NET_WM_PID,
        _NET_ACTIVE_WINDOW,
        UNHITCH_CLOCK,
    }
}

/// A connection.
pub struct Display {
    pub connection: RustConnection,
    pub atoms: Atoms,
    pub root: Window,
    /// Which events of the root are told.
    heard: Cell<EventMask>,
}

impl Display {
    /// Connects to the display of the environment.
    pub fn open() -> Result<Self, Error> {
        let (connection, screen) = RustConnection::connect(None)?;
        let root = connection
            .setup()
            .roots
            .get(screen)
            .ok_or_else(|| Error::Display("it has no such screen".to_owned()))?
            .root;
        let atoms = Atoms::new(&connection)?.reply()?;
        Ok(Self { connection, atoms, root, heard: Cell::new(EventMask::NO_EVENT) })
    }

    /// The keyboard as it is now.
    pub fn keymap(&self) -> Result<Keymap, Error> {
        let setup = self.connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let count = last.saturating_sub(first).saturating_add(1);
        let reply = self.connection.get_keyboard_mapping(first, count)?.reply()?;
        let per_key = usize::from(reply.keysyms_per_keycode).max(1);
        Ok(Keymap { first, per_key, keysyms: reply.keysyms })
    }

    /// The modifiers that the keys with these keysyms set; none if there is no such key.
    pub fn modifiers_of<const N: usize>(&self, of: [u32; N]) -> Result<[ModMask; N], Error> {
        let keymap = self.keymap()?;
        let reply = self.connection.get_modifier_mapping()?.reply()?;
        let per_modifier = (reply.keycodes.len() / 8).max(1);
        Ok(of.map(|keysym| {
            let keycodes = keymap.keycodes(keysym);
            let mut modifiers = reply.keycodes.chunks(per_modifier).zip(0_u32..8);
            let found = modifiers.find(|(keys, _)| keys.iter().any(|key| keycodes.contains(key)));
            found.map_or_else(ModMask::default, |(_, bit)| ModMask::from(1_u16 << bit))
        }))
    }

    /// Fails if the server's clock is not ours, as with a display on another machine: marks would
    /// have wrong times.
    pub fn check_clock(&self) -> Result<(), Error> {
        let connection = &self.connection;
        let window = connection.generate_id()?;
        let aux = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        connection.create_window(
            0,
            window,
            self.root,
            0,
            0,
            1,
            1,
            0,
            WindowClass::INPUT_ONLY,
            0,
            &aux,
        )?;
        let before = now_ns();
        let property = self.atoms.UNHITCH_CLOCK;
        connection.change_property32(
            PropMode::REPLACE,
            window,
            property,
            AtomEnum::CARDINAL,
            &[0],
        )?;
        connection.flush()?;
        let stamp = loop {
            match connection.wait_for_event()? {
                Event::PropertyNotify(event) if event.window == window => break event.time,
                Event::Error(error) => {
                    return Err(Error::Display(format!("{:?}", error.error_kind)));
                }
                _ => {}
            }
        };
        let after = now_ns();
        connection.destroy_window(window)?;
        let early = offset_ms(stamp, before);
        let late = offset_ms(stamp, after);
        if early < -MAX_OFFSET_MS || late > MAX_OFFSET_MS {
            return Err(Error::Display(format!(
                "its clock differs from this machine's by {} ms, so times of input would be wrong",
                if early < 0 { early } else { late }
            )));
        }
        Ok(())
    }

    /// Begins or ends to be told of some events of the root.
    pub fn hear_root(&self, what: EventMask, hear: bool) -> Result<(), Error> {
        let others = u32::from(self.heard.get()) & !u32::from(what);
        self.heard.set(if hear { what | others } else { others.into() });
        let aux = ChangeWindowAttributesAux::new().event_mask(self.heard.get());
        self.connection.change_window_attributes(self.root, &aux)?;
        Ok(())
    }
}

/// What the keys mean.
pub struct Keymap {
    first: u8,
    per_key: usize,
    keysyms: Vec<u32>,
}

impl Keymap {
    /// The keys with this meaning, without Shift: in the first layout, or if that has none, as one for
    /// Cyrillic has no Latin letters, in the second one.
    pub fn keycodes(&self, keysym: u32) -> Vec<u8> {
        let in_layout = |layout: usize| -> Vec<u8> {
            let keys = self.keysyms.chunks(self.per_key).zip(self.first..=u8::MAX);
            let fitting = keys.filter(|(meanings, _)| meanings.get(layout * 2) == Some(&keysym));
            fitting.map(|(_, keycode)| keycode).collect()
        };
        [0, 1].map(in_layout).into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The class of a key.
    pub fn class(&self, keycode: u32) -> KeyClass {
        let meanings = keycode
            .checked_sub(u32::from(self.first))
            .and_then(|at| self.keysyms.chunks(self.per_key).nth(at as usize))
            .unwrap_or_default();
        let level = |at: usize| meanings.get(at).copied().unwrap_or(0);
        keysyms::class(level(0), level(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latin_letter_is_on_its_key_also_if_the_first_layout_is_not_latin() {
        // For keys 8 and 9: of two layouts, without and with Shift.
        let of = |keysyms: [u32; 8]| Keymap { first: 8, per_key: 4, keysyms: keysyms.to_vec() };
        let (r, cyrillic) = (0x72, 0x6cb);
        assert_eq!(of([cyrillic, 0x6eb, r, 0x52, 0, 0, 0, 0]).keycodes(r), [8]);
        // The first layout that has it wins.
        assert_eq!(of([cyrillic, 0x6eb, r, 0x52, r, 0x52, 0, 0]).keycodes(r), [9]);
        assert!(of([0x52, r, 0, r, 0, 0, 0, 0]).keycodes(r).is_empty());
    }
}
