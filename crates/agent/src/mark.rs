//! Marks: what the agent tells the recorder about input and windows.
//!
//! *Why the class is made here*: in private mode, which key it was must not leave the agent. A
//! [`Mark`] of a key has no place for a code unless it is made in full mode.

use serde_json::{Value, json};

/// How much marks of input tell.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputMode {
    /// Nothing: no event of input is asked for.
    #[default]
    Off,
    /// The class of a key and its time.
    Private,
    /// Which key.
    Full,
}

impl InputMode {
    /// The name, as in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Private => "private",
            Self::Full => "full",
        }
    }
}

/// What kind of key it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyClass {
    /// A letter of any alphabet.
    Letter,
    /// A digit.
    Digit,
    /// The space bar.
    Space,
    /// Enter.
    Enter,
    /// Backspace or delete.
    Delete,
    /// Arrows, tab, page up and the like.
    Navigation,
    /// F1 to F35.
    Function,
    /// Shift, Control and the like.
    Modifier,
    /// Punctuation, media keys, and what the server has no meaning for.
    Other,
}

impl KeyClass {
    /// The name, as in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Letter => "letter",
            Self::Digit => "digit",
            Self::Space => "space",
            Self::Enter => "enter",
            Self::Delete => "delete",
            Self::Navigation => "navigation",
            Self::Function => "function",
            Self::Modifier => "modifier",
            Self::Other => "other",
        }
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A key.
    Key {
        /// What kind of key.
        class: KeyClass,
        /// Pressed, as against released.
        press: bool,
        /// Which key; in full mode only.
        code: Option<u32>,
    },
    /// A button of the mouse.
    Button {
        /// Which.
        code: u32,
        /// Pressed, as against released.
        press: bool,
    },
    /// A step of the wheel.
    Wheel,
    /// A window was asked whether it answers.
    Ping {
        /// When it was asked.
        sent_ns: u64,
        /// Whether it has answered.
        answered: bool,
    },
}

/// A mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// What happened.
    pub what: What,
    /// When, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The process of the window that had the focus, or was asked.
    pub pid: Option<u32>,
    /// How input is marked; of no account for a ping.
    pub mode: InputMode,
}

impl Mark {
    /// As the protocol has it.
    pub fn json(&self) -> Value {
        let mut mark = match self.what {
            What::Key { class, press, code } => {
                let mut key = json!({"kind": "key", "class": class.name(), "press": press});
                // Private marks never have one; this is the last place where one could slip in.
                if let Some(code) = code.filter(|_| self.mode == InputMode::Full) {
                    key["code"] = code.into();
                }
                key
            }
            What::Button { code, press } => {
                json!({"kind": "button", "code": code, "press": press})
            }
            What::Wheel => json!({"kind": "wheel"}),
            What::Ping { sent_ns, answered } => {
                json!({"kind": "ping", "sent_ns": sent_ns, "answered": answered})
            }
        };
        if !matches!(self.what, What::Ping { .. }) {
            mark["mode"] = self.mode.name().into();
        }
        if let Some(pid) = self.pid {
            mark["pid"] = pid.into();
        }
        mark["time_ns"] = self.time_ns.into();
        mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_marks_have_a_code() {
        let key = |mode| Mark {
            what: What::Key { class: KeyClass::Letter, press: true, code: Some(38) },
            time_ns: 5,
            pid: Some(7),
            mode,
        };
        assert_eq!(
            key(InputMode::Private).json(),
            json!({"kind": "key", "class": "letter", "press": true, "mode": "private", "pid": 7, "time_ns": 5})
        );
        assert_eq!(key(InputMode::Full).json()["code"], 38);
    }
}
