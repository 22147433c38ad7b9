//! How one process talks to another's recorder: lines of JSON on a Unix socket, described in
//! docs/control-socket.md.
//!
//! A trace shows what all programs on a machine did, so only the recorder's user and root may do
//! everything; the members of one group may mark and save, if the recorder's owner wants that. The
//! folder and the socket are theirs alone. Each end also checks the user at the other end
//! (SO_PEERCRED) before it sends anything, because anybody can put a socket into `/tmp`. Both ends
//! limit the length of a line and the time to receive it, so neither can block the other. If too
//! many clients are slow, the oldest is disconnected, so they cannot block anybody else.

mod client;
mod line;
mod peer;
mod rates;
mod request;
mod server;
mod socket;

pub use client::{Answer, Client, find, request_save, sockets};
pub(crate) use peer::{Class, Peer};
pub(crate) use rates::{Bucket, Rate};
#[cfg(test)]
pub(crate) use request::KEY_CLASSES;
pub(crate) use request::{NoteRequest, Request, SaveRequest};
pub(crate) use server::{ClientId, Incoming, Server, failed, saved};

use crate::sys;
use std::path::PathBuf;

/// The folder for the socket of the machine's recorder.
pub const MACHINE_FOLDER: &str = "/run/unhitch";

/// The folder for the socket of this user's recorder: `/run/unhitch` for root, else
/// `$XDG_RUNTIME_DIR/unhitch` or `/tmp/unhitch-UID`.
pub fn default_folder() -> PathBuf {
    let uid = sys::effective_uid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        _ if uid == 0 => PathBuf::from(MACHINE_FOLDER),
        Some(folder) => PathBuf::from(folder).join("unhitch"),
        None => PathBuf::from(format!("/tmp/unhitch-{uid}")),
    }
}

#[cfg(test)]
mod tests;
