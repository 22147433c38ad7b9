//! Marks of input: from the server's raw events to marks.
//!
//! Off means that no event is selected. The hot key does not need any.

use crate::clock::{event_time_ns, now_ns};
use crate::display::{Display, Keymap};
use crate::error::Error;
use crate::mark::{InputMode, Mark, What};
use x11rb::protocol::xinput::{ConnectionExt, Device, EventMask, KeyEventFlags, XIEventMask};
use x11rb::protocol::{Event, xproto};

/// The buttons that a wheel presses, also sideways.
const WHEEL: std::ops::RangeInclusive<u32> = 4..=7;

/// Makes marks.
pub struct Input {
    mode: InputMode,
    keymap: Keymap,
}

impl Input {
    /// Asks the server for keys and buttons, if `mode` wants any; otherwise asks for nothing.
    pub fn select(display: &Display, mode: InputMode) -> Result<Option<Self>, Error> {
        if mode == InputMode::Off {
            return Ok(None);
        }
        display.check_clock()?;
        let connection = &display.connection;
        connection.xinput_xi_query_version(2, 2)?.reply()?;
        let events = XIEventMask::RAW_KEY_PRESS
            | XIEventMask::RAW_KEY_RELEASE
            | XIEventMask::RAW_BUTTON_PRESS
            | XIEventMask::RAW_BUTTON_RELEASE;
        // The window manager says there when another window gets the focus.
        display.hear_root(xproto::EventMask::PROPERTY_CHANGE, true)?;
        let mask = EventMask { deviceid: Device::ALL_MASTER.into(), mask: vec![events] };
        connection.xinput_xi_select_events(display.root, &[mask])?.check()?;
        Ok(Some(Self { mode, keymap: display.keymap()? }))
    }

    /// The keyboard has changed.
    pub fn remap(&mut self, display: &Display) -> Result<(), Error> {
        self.keymap = display.keymap()?;
        Ok(())
    }

    /// The mark of an event, if it is one of input.
    pub fn mark(&self, event: &Event, pid: Option<u32>) -> Option<Mark> {
        let (what, server_ms) = match event {
            Event::XinputRawKeyPress(key) | Event::XinputRawKeyRelease(key)
                if key.flags.contains(KeyEventFlags::KEY_REPEAT) =>
            {
                // How long a key was held shows by its release already.
                return None;
            }
            Event::XinputRawKeyPress(key) => (self.key(key.detail, true), key.time),
            Event::XinputRawKeyRelease(key) => (self.key(key.detail, false), key.time),
            Event::XinputRawButtonPress(button) if WHEEL.contains(&button.detail) => {
                (What::Wheel, button.time)
            }
            Event::XinputRawButtonRelease(button) if WHEEL.contains(&button.detail) => return None,
            Event::XinputRawButtonPress(button) => {
                (What::Button { code: button.detail, press: true }, button.time)
            }
            Event::XinputRawButtonRelease(button) => {
                (What::Button { code: button.detail, press: false }, button.time)
            }
            _ => return None,
        };
        let time_ns = event_time_ns(server_ms, now_ns());
        Some(Mark { what, time_ns, pid, mode: self.mode })
    }

    fn key(&self, keycode: u32, press: bool) -> What {
        let code = (self.mode == InputMode::Full).then_some(keycode);
        What::Key { class: self.keymap.class(keycode), press, code }
    }
}
