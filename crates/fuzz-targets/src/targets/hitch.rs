//! Containers: whole zips, and valid zips with mutated texts.

use crate::{check, zips};
use unhitch_formats::read_bytes;

pub(super) fn file(bytes: &[u8]) {
    if bytes.starts_with(b"PK")
        && let Ok(trace) = read_bytes(bytes)
    {
        check::trace(&trace);
    }
}

/// The texts are separated by a zero byte: `meta.json`, `symbols.json`, `notes.md`.
pub(super) fn parts(bytes: &[u8]) {
    let texts: Vec<&[u8]> = bytes.splitn(3, |byte| *byte == 0).collect();
    let trace =
        read_bytes(&zips::container(&texts)).expect("texts alone make no container unreadable");
    check::trace(&trace);
}
