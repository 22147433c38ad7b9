//! [`Events`]: the events of a buffer, with headers of all kinds.
//!
//! The first word of a header is a marker whose third byte is its type; the layouts are those of
//! `ntwmi.h` and `evntcons.h`. An event of unknown type is skipped by its size. An impossible size
//! ends the buffer, because there is no way to find the next event.

use super::buffer::{i64_at, u16_at, u32_at, u64_at};

/// No thread or process. Kernel events with the short header have neither.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The class of an event, by its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventClass<'a> {
    /// An event of the kernel. The hook has the group in its high byte and the type in its low one.
    Hook {
        hook: u16,
        /// The payload's version.
        version: u8,
        /// The event carries hardware counters, which hide the payload.
        counters: bool,
    },
    /// An event of a provider with only a GUID and an opcode (MOF).
    Classic { guid: &'a [u8; 16], opcode: u8, version: u8, level: u8 },
    /// An event of a provider with a manifest, or an event that describes itself.
    Manifest(Manifest<'a>),
    /// WPP debug output, whose text is in the program's PDB.
    Message,
    /// None of these.
    Unknown,
}

/// `EVENT_HEADER`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Manifest<'a> {
    pub guid: &'a [u8; 16],
    pub id: u16,
    pub version: u8,
    pub level: u8,
    pub opcode: u8,
    pub task: u16,
    pub keyword: u64,
    /// Length of a pointer in the program that wrote it, bytes.
    pub pointer_bytes: u8,
    /// The extended items, see [`extended`].
    pub extended: &'a [u8],
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    /// When, in ticks of the file's clock.
    pub ticks: i64,
    /// Header's thread, or [`NOBODY`].
    pub tid: u32,
    /// Header's process, or [`NOBODY`].
    pub pid: u32,
    pub class: EventClass<'a>,
    pub payload: &'a [u8],
}

/// The events in `data`, the used part of a buffer.
pub(crate) struct Events<'a> {
    data: &'a [u8],
    at: usize,
}

/// Header types.
mod kind {
    pub const SYSTEM32: u8 = 1;
    pub const SYSTEM64: u8 = 2;
    pub const COMPACT32: u8 = 3;
    pub const COMPACT64: u8 = 4;
    pub const FULL32: u8 = 0x0a;
    pub const INSTANCE32: u8 = 0x0b;
    pub const PERFINFO32: u8 = 0x10;
    pub const PERFINFO64: u8 = 0x11;
    pub const EVENT32: u8 = 0x12;
    pub const EVENT64: u8 = 0x13;
    pub const FULL64: u8 = 0x14;
    pub const INSTANCE64: u8 = 0x15;
}

impl<'a> Events<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Where in the data the iteration stopped, if it stopped before the end of the events.
    pub(crate) fn damage(&self) -> Option<usize> {
        let rest = self.data.get(self.at..)?;
        // The unused rest of a buffer is filled with ones. Fewer bytes than the shortest header has
        // are padding.
        (rest.len() >= 8 && rest.first_chunk::<4>() != Some(&[0xff; 4])).then_some(self.at)
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    #[inline]
    fn next(&mut self) -> Option<Event<'a>> {
        let rest = self.data.get(self.at..)?;
        let [low, high, kind, flags, third, fourth, ..] = *rest.first_chunk::<8>()?;
        let size = match (flags & 0xc0, kind) {
            (0xc0, kind::SYSTEM32..=kind::COMPACT64 | kind::PERFINFO32 | kind::PERFINFO64) => {
                u16::from_le_bytes([third, fourth])
            }
            (0xc0, _) | (0x80, _) => u16::from_le_bytes([low, high]),
            _ => return None,
        };
        let size = usize::from(size);
        let bytes = rest.get(..size).filter(|bytes| bytes.len() >= 8)?;
        let event = match (flags & 0xc0, kind) {
            (0x80, _) => message(bytes),
            (_, kind::PERFINFO32 | kind::PERFINFO64) => perf_info(bytes),
            (_, kind::SYSTEM32 | kind::SYSTEM64) => system(bytes, 32),
            (_, kind::COMPACT32 | kind::COMPACT64) => system(bytes, 24),
            (_, kind::FULL32 | kind::FULL64) => full(bytes, 48),
            (_, kind::INSTANCE32 | kind::INSTANCE64) => full(bytes, 72),
            (_, kind::EVENT32) => manifest(bytes, 4),
            (_, kind::EVENT64) => manifest(bytes, 8),
            _ => Some(Event {
                ticks: 0,
                tid: NOBODY,
                pid: NOBODY,
                class: EventClass::Unknown,
                payload: &[],
            }),
        }?;
        self.at += size.next_multiple_of(8);
        Some(event)
    }
}

/// Bits of the version word that mean hardware counters; its low byte is the version.
const COUNTERS: u16 = 0x8700;

#[inline]
fn perf_info(bytes: &[u8]) -> Option<Event<'_>> {
    let (version, hook) = (u16_at(bytes, 0)?, u16_at(bytes, 6)?);
    let class =
        EventClass::Hook { hook, version: version as u8, counters: version & COUNTERS != 0 };
    Some(Event {
        ticks: i64_at(bytes, 8)?,
        tid: NOBODY,
        pid: NOBODY,
        class,
        payload: bytes.get(16..)?,
    })
}

fn system(bytes: &[u8], header_len: usize) -> Option<Event<'_>> {
    let (version, hook) = (u16_at(bytes, 0)?, u16_at(bytes, 6)?);
    let class =
        EventClass::Hook { hook, version: version as u8, counters: version & COUNTERS != 0 };
    Some(Event {
        ticks: i64_at(bytes, 0x10)?,
        tid: u32_at(bytes, 8)?,
        pid: u32_at(bytes, 0xc)?,
        class,
        payload: bytes.get(header_len..)?,
    })
}

fn full(bytes: &[u8], header_len: usize) -> Option<Event<'_>> {
    let class = EventClass::Classic {
        guid: bytes.get(0x18..)?.first_chunk()?,
        opcode: *bytes.get(4)?,
        version: u16_at(bytes, 6)? as u8,
        level: *bytes.get(5)?,
    };
    Some(Event {
        ticks: i64_at(bytes, 0x10)?,
        tid: u32_at(bytes, 8)?,
        pid: u32_at(bytes, 0xc)?,
        class,
        payload: bytes.get(header_len..)?,
    })
}

fn manifest(bytes: &[u8], pointer_bytes: u8) -> Option<Event<'_>> {
    const HEADER_LEN: usize = 80;
    const EXTENDED: u16 = 1;
    const IS_32_BIT: u16 = 0x20;
    const CLASSIC: u16 = 0x100;
    let flags = u16_at(bytes, 4)?;
    let all = bytes.get(HEADER_LEN..)?;
    let len = if flags & EXTENDED != 0 { extended_len(all)? } else { 0 };
    let (extended, payload) = all.split_at_checked(len)?;
    let guid = bytes.get(0x18..)?.first_chunk()?;
    let (version, level, opcode) = (*bytes.get(0x2a)?, *bytes.get(0x2c)?, *bytes.get(0x2d)?);
    let class = if flags & CLASSIC != 0 {
        EventClass::Classic { guid, opcode, version, level }
    } else {
        EventClass::Manifest(Manifest {
            guid,
            id: u16_at(bytes, 0x28)?,
            version,
            level,
            opcode,
            task: u16_at(bytes, 0x2e)?,
            keyword: u64_at(bytes, 0x30)?,
            pointer_bytes: if flags & IS_32_BIT != 0 { 4 } else { pointer_bytes },
            extended,
        })
    };
    Some(Event {
        ticks: i64_at(bytes, 0x10)?,
        tid: u32_at(bytes, 8)?,
        pid: u32_at(bytes, 0xc)?,
        class,
        payload,
    })
}

/// `WMI_TRACE_MESSAGE_PACKET`. The options say which items precede the arguments.
fn message(bytes: &[u8]) -> Option<Event<'_>> {
    const SEQUENCE: u16 = 1;
    const GUID: u16 = 2;
    const COMPONENT: u16 = 4;
    const TIME: u16 = 8;
    const PROCESS: u16 = 0x20;
    let options = u16_at(bytes, 6)?;
    let mut at = 8;
    at += if options & SEQUENCE != 0 { 4 } else { 0 };
    at += if options & GUID != 0 {
        16
    } else if options & COMPONENT != 0 {
        4
    } else {
        0
    };
    let mut ticks = 0;
    if options & TIME != 0 {
        ticks = i64_at(bytes, at)?;
        at += 8;
    }
    let (mut tid, mut pid) = (NOBODY, NOBODY);
    if options & PROCESS != 0 {
        (tid, pid) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)?);
        at += 8;
    }
    Some(Event { ticks, tid, pid, class: EventClass::Message, payload: bytes.get(at..)? })
}

/// `EVENT_HEADER_EXT_TYPE_*`.
pub(crate) mod ext {
    pub const STACK32: u16 = 5;
    pub const STACK64: u16 = 6;
    pub const SCHEMA_TL: u16 = 0xb;
    pub const PROVIDER_TRAITS: u16 = 0xc;
}

fn extended_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    loop {
        let (linkage, size) = (u16_at(bytes, at + 4)?, usize::from(u16_at(bytes, at + 6)?));
        at += (8 + size).next_multiple_of(8);
        if linkage & 1 == 0 {
            return (at <= bytes.len()).then_some(at);
        }
    }
}

/// The extended items of an event: type and data.
pub(crate) fn extended(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (kind, size) = (u16_at(rest, 2)?, usize::from(u16_at(rest, 6)?));
        let data = rest.get(8..8 + size)?;
        rest = rest.get((8 + size).next_multiple_of(8)..).unwrap_or_default();
        Some((kind, data))
    })
}
