//! Notifications of the desktop (org.freedesktop.Notifications), with buttons.

use crate::bus::{Body, Bus, Choice, Message, Value};
use crate::error::Error;

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// How long a notification stays, milliseconds: -1 is as the desktop does.
const AS_USUAL: i32 = -1;
/// Maximum length of a text, characters.
const MAX_TEXT: usize = 400;

/// What a button does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Button {
    /// Opens the page, where notes can be written, too.
    Open,
    /// Asks for a note on the save.
    Note,
}

impl Button {
    const ALL: [Self; 2] = [Self::Open, Self::Note];

    const fn key(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Note => "note",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Open => "Open the page",
            Self::Note => "Add a note",
        }
    }
}

/// What the user did with a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaction {
    Pressed(u32, Button),
    Closed(u32),
}

/// Asks for what users do with notifications.
pub fn listen(bus: &Bus) -> Result<(), Error> {
    bus.add_match(NAME, NAME)
}

/// Shows a notification in place of the one with the number `replaces`, or a new one for 0; returns
/// its number.
pub fn show(
    bus: &Bus,
    replaces: u32,
    summary: &str,
    text: &str,
    buttons: &[Button],
) -> Result<u32, Error> {
    let mut actions = Vec::new();
    for button in buttons {
        actions.extend([button.key(), button.label()]);
    }
    let body = Body::default()
        .string("Unhitch")
        .u32(replaces)
        .string("")
        .string(&plain(summary))
        .string(&marked_up(text))
        .strings(&actions)
        .options(&[("urgency", Choice::Byte(1)), ("desktop-entry", Choice::Text("unhitch-agent"))])
        .i32(AS_USUAL);
    let answer = bus.call(&Message::call(NAME, PATH, NAME, "Notify", body))?;
    let number = answer.first().and_then(Value::as_u32);
    number.ok_or_else(|| Error::Bus("the notification got no number".to_owned()))
}

/// What a signal tells, if it is about a notification.
pub fn reaction(signal: &Message) -> Option<Reaction> {
    let number = signal.values.first().and_then(Value::as_u32);
    if signal.is_signal(NAME, "ActionInvoked") {
        let key = signal.values.get(1)?.as_str()?;
        let button = Button::ALL.into_iter().find(|button| button.key() == key)?;
        return Some(Reaction::Pressed(number?, button));
    }
    signal.is_signal(NAME, "NotificationClosed").then(|| number.map(Reaction::Closed))?
}

/// Without what a line should not hold: names in a verdict are others' words.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect()
}

/// As a text that may hold markup, without any.
fn marked_up(text: &str) -> String {
    let mut marked = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => marked.push_str("&amp;"),
            '<' => marked.push_str("&lt;"),
            '>' => marked.push_str("&gt;"),
            c => marked.push(c),
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(marked_up("<b>a</b>\n&\x1b"), "&lt;b&gt;a&lt;/b&gt; &amp; ");
        assert_eq!(plain(&"x".repeat(1000)).len(), MAX_TEXT);
    }
}
