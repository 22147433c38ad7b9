//! The hot key on Wayland, where no program sees others' keys: the desktop's portal binds it
//! (org.freedesktop.portal.GlobalShortcuts). The desktop asks the user, who may choose another key.

use crate::bus::{Body, Bus, Choice, Message, Value};
use crate::error::Error;
use crate::hot_key::HotKey;

const NAME: &str = "org.freedesktop.portal.Desktop";
const PATH: &str = "/org/freedesktop/portal/desktop";
const SHORTCUTS: &str = "org.freedesktop.portal.GlobalShortcuts";
const REQUEST: &str = "org.freedesktop.portal.Request";
const SESSION: &str = "org.freedesktop.portal.Session";
/// What our shortcut is called.
const SAVE: &str = "save";
/// Our names in the portal's paths.
const TOKEN: &str = "unhitch";

/// A binding that is being made, or made.
pub struct Portal {
    trigger: String,
    /// The portal's path of our session; empty before there is one.
    session: String,
    request: String,
}

/// What a signal of the portal's tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// The key was pressed.
    Pressed,
    /// The key is bound; what the desktop calls it.
    Bound(String),
}

impl Portal {
    /// Asks for a session; its answer is a signal.
    pub fn ask(bus: &Bus, key: &HotKey) -> Result<Self, Error> {
        bus.add_match(NAME, REQUEST)?;
        bus.add_match(NAME, SHORTCUTS)?;
        bus.add_match(NAME, SESSION)?;
        let options =
            [("handle_token", Choice::Text(TOKEN)), ("session_handle_token", Choice::Text(TOKEN))];
        let request = call(bus, "CreateSession", Body::default().options(&options))?;
        Ok(Self { trigger: key.portal_trigger(), session: String::new(), request })
    }

    /// Takes a signal, and goes on to the next step.
    pub fn take(&mut self, bus: &Bus, signal: &Message) -> Result<Option<Told>, Error> {
        if signal.is_signal(SHORTCUTS, "Activated") {
            let text = |at: usize| signal.values.get(at).and_then(Value::as_str);
            let is_ours = text(0) == Some(&self.session) && text(1) == Some(SAVE);
            return Ok(is_ours.then_some(Told::Pressed));
        }
        if signal.is_signal(SESSION, "Closed") && signal.path == self.session {
            return Err(Error::Bus("the desktop has let go of it".to_owned()));
        }
        if !signal.is_signal(REQUEST, "Response") || signal.path != self.request {
            return Ok(None);
        }
        let refused = || Error::Bus("the desktop did not bind the hot key".to_owned());
        let [Value::Number(0), results] = &signal.values[..] else { return Err(refused()) };
        if self.session.is_empty() {
            let session = results.get("session_handle").and_then(Value::as_str);
            self.session = session.ok_or_else(refused)?.to_owned();
            let shortcut = [
                ("description", Choice::Text("Save what led to a hang")),
                ("preferred_trigger", Choice::Text(&self.trigger)),
            ];
            let body = Body::default()
                .path(&self.session)
                .named_options(&[(SAVE, &shortcut)])
                .string("")
                .options(&[("handle_token", Choice::Text("unhitch_bind"))]);
            self.request = call(bus, "BindShortcuts", body)?;
            return Ok(None);
        }
        let shortcuts = results.get("shortcuts").ok_or_else(refused)?;
        let bound = shortcuts.get(SAVE).ok_or_else(refused)?;
        let trigger = bound.get("trigger_description").and_then(Value::as_str);
        Ok(Some(Told::Bound(trigger.unwrap_or("a key").to_owned())))
    }
}

/// Calls the portal; returns the path at which it will answer.
fn call(bus: &Bus, member: &str, body: Body) -> Result<String, Error> {
    let answer = bus.call(&Message::call(NAME, PATH, SHORTCUTS, member, body))?;
    let path = answer.first().and_then(Value::as_str);
    path.map(str::to_owned).ok_or_else(|| Error::Bus("the portal sent no path".to_owned()))
}
