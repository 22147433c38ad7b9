//! The agent of a desktop session, one per user and without privilege: a hot key that saves,
//! notifications with the answer, marks of input, and windows that do not answer.
//!
//! What the user's session knows, and the recorder cannot: the agent holds the connection to the X
//! server and to the session's message bus, and speaks to the recorder over its socket
//! (docs/control-socket.md). Nothing here reads a trace.
//!
//! One thread per source of events. Each blocks in its own way and sends what it learns to
//! [`agent`], so that a source with nothing to say costs nothing.

#![cfg(target_os = "linux")]

mod activity;
mod agent;
mod bus;
mod clock;
mod display;
mod error;
mod event;
mod hot_key;
mod input;
mod keysyms;
mod mark;
mod note;
mod notification;
mod notifier;
mod open;
mod options;
mod ping;
mod portal;
mod recorder;
mod session;
mod window;

pub use agent::{Report, run, show_error};
pub use error::Error;
pub use hot_key::HotKey;
pub use mark::{InputMode, KeyClass};
pub use options::{Options, Settings};
