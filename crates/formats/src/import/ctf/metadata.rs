//! What the metadata of a trace say.

use super::types::{TypeId, Types};
use crate::Error;
use crate::cursor::Cursor;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a trace's metadata says.
#[derive(Default, Debug)]
pub(super) struct Metadata {
    pub types: Types,
    pub packet_header: Option<TypeId>,
    pub streams: BTreeMap<u64, Stream>,
    /// Texts and numbers about the machine.
    pub environment: FxHashMap<String, String>,
    pub clock_name: String,
    /// Ticks per second.
    pub clock_hertz: u64,
    /// Nanoseconds from the epoch to the clock's zero.
    pub clock_offset_ns: i128,
    pub is_big_endian: bool,
    /// Types by their names.
    pub names: BTreeMap<String, TypeId>,
    /// Options of variants that were copied to their uses.
    pub copied: usize,
}

/// The description of a stream.
#[derive(Default, Debug)]
pub(super) struct Stream {
    pub packet_context: Option<TypeId>,
    pub event_header: Option<TypeId>,
    pub event_context: Option<TypeId>,
    pub events: FxHashMap<u64, Event>,
}

/// The description of an event.
#[derive(Default, Debug)]
pub(super) struct Event {
    pub name: String,
    pub context: Option<TypeId>,
    pub fields: Option<TypeId>,
}

/// The text of a metadata file, which may be in packets.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    const MAGIC: [u8; 4] = 0x75d1_1d57_u32.to_le_bytes();
    const HEADER: usize = 37;
    if !bytes.starts_with(&MAGIC) {
        return Ok(String::from_utf8_lossy(bytes));
    }
    let mut text = String::new();
    let mut rest = bytes;
    while rest.starts_with(&MAGIC) {
        let mut from = Cursor::new(rest);
        let sizes = from.bytes(4 + 16 + 4).and_then(|_| from.u32().zip(from.u32()));
        let flags = from.bytes(3);
        let (Some((content, packet)), Some(flags)) = (sizes, flags) else { break };
        if flags[0] != 0 || flags[1] != 0 {
            let packed = "the CTF metadata are compressed or encrypted";
            return Err(Error::Unsupported(packed.to_owned()));
        }
        let (content, packet) = (content as usize / 8, packet as usize / 8);
        let end = content.min(rest.len());
        text.push_str(&String::from_utf8_lossy(rest.get(HEADER..end).unwrap_or_default()));
        let Some(after) = rest.get(packet.max(HEADER)..) else { break };
        rest = after;
    }
    Ok(Cow::Owned(text))
}
