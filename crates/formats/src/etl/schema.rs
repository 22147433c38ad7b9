//! Event descriptions in a file: `TRACE_EVENT_INFO` and `EVENT_MAP_INFO` (`tdh.h`), which tools add
//! when they merge a trace, and the types that all descriptions use.

use super::{
    buffer::{u16_at, u32_at},
    clock::utf16_z,
};
use unhitch_model::{Count, FieldType};

/// The description of a kind of event, not yet in the trace's form.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    pub provider: String,
    pub name: String,
    pub fields: Vec<SchemaField>,
}

/// A field of a description. The members of a struct follow it.
#[derive(Clone, Debug)]
pub(super) struct SchemaField {
    pub name: String,
    pub kind: FieldType,
    pub count: Count,
    pub length: Count,
    /// The name of one of its provider's maps.
    pub map: Option<String>,
}

/// Names of values.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub bits: bool,
    pub entries: Vec<(u64, String)>,
}

/// The events that a `TRACE_EVENT_INFO` describes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Subject {
    /// The provider; for classic events the class.
    pub guid: [u8; 16],
    /// The event's number; for classic events the opcode.
    pub id: u16,
    pub version: u8,
    pub classic: bool,
}

/// Maximum number of properties that are read of a description.
const MAX_PROPERTIES: u32 = 1024;
/// Maximum depth of structs in structs that are read.
const MAX_DEPTH: u8 = 4;

/// Reads a `TRACE_EVENT_INFO`.
pub(super) fn event_info(bytes: &[u8]) -> Option<(Subject, Schema)> {
    const FROM_CLASS: u32 = 1;
    let provider_guid: [u8; 16] = *bytes.first_chunk()?;
    let class_guid: [u8; 16] = *bytes.get(0x10..)?.first_chunk()?;
    let (id, version, opcode) = (u16_at(bytes, 0x20)?, *bytes.get(0x22)?, *bytes.get(0x25)?);
    let subject = if u32_at(bytes, 0x30)? == FROM_CLASS {
        Subject { guid: class_guid, id: u16::from(opcode), version, classic: true }
    } else {
        Subject { guid: provider_guid, id, version, classic: false }
    };
    let text = |at: usize| text_at(bytes, u32_at(bytes, at)?);
    let (task, opcode_name) = (text(0x44).unwrap_or_default(), text(0x48).unwrap_or_default());
    let given = text(0x5c).filter(|_| u32_at(bytes, 0x30) == Some(3));
    let mut properties = Properties {
        bytes,
        count: u32_at(bytes, 0x64)?.min(MAX_PROPERTIES),
        fields: Vec::new(),
        places: Vec::new(),
    };
    let top = u32_at(bytes, 0x68)?.min(properties.count);
    for index in 0..top {
        properties.add(index, 0)?;
    }
    let schema = Schema {
        provider: text(0x34).unwrap_or_default(),
        name: given.unwrap_or_else(|| event_name(&task, &opcode_name, opcode, id)),
        fields: properties.fields,
    };
    Some((subject, schema))
}

/// The name of an event: its task and opcode, or its number if it has neither.
pub(super) fn event_name(task: &str, opcode_name: &str, opcode: u8, id: u16) -> String {
    let opcode_name = match (opcode_name.trim(), opcode) {
        ("win:Info" | "Info", _) | (_, 0) => "",
        ("", 1) => "Start",
        ("", 2) => "Stop",
        (name, _) => name.strip_prefix("win:").unwrap_or(name),
    };
    let task = task.trim();
    match (task.is_empty(), opcode_name.is_empty()) {
        (false, false) => format!("{task}/{opcode_name}"),
        (false, true) => task.to_owned(),
        (true, false) => opcode_name.to_owned(),
        (true, true) => format!("event {id}"),
    }
}

struct Properties<'a> {
    bytes: &'a [u8],
    count: u32,
    fields: Vec<SchemaField>,
    /// Indices of properties with those of their fields.
    places: Vec<(u16, u16)>,
}

impl Properties<'_> {
    fn add(&mut self, index: u32, depth: u8) -> Option<()> {
        const STRUCT: u32 = 1;
        const LENGTH_IS_FIELD: u32 = 2;
        const COUNT_IS_FIELD: u32 = 4;
        const COUNT_IS_FIXED: u32 = 0x20;
        // Each property is read once: a struct that contains itself would grow without end.
        if index >= self.count || depth > MAX_DEPTH || self.fields.len() >= self.count as usize {
            return None;
        }
        let at = 0x70 + index as usize * 24;
        let flags = u32_at(self.bytes, at)?;
        let name = text_at(self.bytes, u32_at(self.bytes, at + 4)?).unwrap_or_default();
        let (first, second) = (u16_at(self.bytes, at + 8)?, u16_at(self.bytes, at + 10)?);
        let map_at = u32_at(self.bytes, at + 12)?;
        let (count, length) = (u16_at(self.bytes, at + 16)?, u16_at(self.bytes, at + 18)?);
        let place = |of: u16| {
            self.places
                .iter()
                .find(|(index, _)| *index == of)
                .map(|(_, place)| Count::Field(*place))
        };
        let count = match count {
            of if flags & COUNT_IS_FIELD != 0 => place(of)?,
            1 if flags & COUNT_IS_FIXED == 0 => Count::Own,
            0 if flags & COUNT_IS_FIXED == 0 => Count::Own,
            count => Count::Fixed(count),
        };
        let length_field = if flags & LENGTH_IS_FIELD != 0 { Some(place(length)?) } else { None };
        if let (Ok(index), Ok(place)) = (u16::try_from(index), u16::try_from(self.fields.len())) {
            self.places.push((index, place));
        }
        if flags & STRUCT != 0 {
            let mine = self.fields.len();
            let kind = FieldType::Struct { members: 0 };
            self.fields.push(SchemaField { name, kind, count, length: Count::Own, map: None });
            for member in 0..second {
                self.add(u32::from(first) + u32::from(member), depth + 1)?;
            }
            // Includes members of members.
            let members = u16::try_from(self.fields.len() - mine - 1).ok()?;
            self.fields.get_mut(mine)?.kind = FieldType::Struct { members };
            return Some(());
        }
        let (kind, own_length) = in_type(first, second)?;
        let length = match length {
            _ if length_field.is_some() => length_field.unwrap_or_default(),
            length if own_length && length > 0 => Count::Fixed(length),
            _ => Count::Own,
        };
        let map = (map_at != 0).then(|| text_at(self.bytes, map_at)).flatten();
        self.fields.push(SchemaField { name, kind, count, length, map });
        Some(())
    }
}

/// The type for `TDH_INTYPE_*` and `TDH_OUTTYPE_*`. Also returns whether the description may state
/// a length.
pub(super) fn in_type(kind: u16, out: u16) -> Option<(FieldType, bool)> {
    const PORT: u16 = 22;
    const SOCKET_ADDRESS: u16 = 25;
    const IPV4: u16 = 23;
    const IPV6: u16 = 24;
    const BOOLEAN: u16 = 13;
    let hex = matches!(out, 15..=19 | 29..=32);
    let int = |bytes, signed| FieldType::Int { bytes, signed: signed && !hex, hex };
    Some(match (kind, out) {
        (4, BOOLEAN) => (FieldType::Bool { bytes: 1 }, false),
        (6, PORT) => (FieldType::Port, false),
        (8, IPV4) => (FieldType::Ipv4, false),
        (14, IPV6) => (FieldType::Ipv6, false),
        (14, SOCKET_ADDRESS) => (FieldType::SocketAddress, true),
        (1, _) => (FieldType::Utf16, true),
        (2, _) => (FieldType::Ansi, true),
        (3, _) => (int(1, true), false),
        (4, _) => (int(1, false), false),
        (5, _) => (int(2, true), false),
        (6, _) => (int(2, false), false),
        (7, _) => (int(4, true), false),
        (8, _) => (int(4, false), false),
        (9, _) => (int(8, true), false),
        (10, _) => (int(8, false), false),
        (11, _) => (FieldType::Float { bytes: 4 }, false),
        (12, _) => (FieldType::Float { bytes: 8 }, false),
        (13, _) => (FieldType::Bool { bytes: 4 }, false),
        (14, _) => (FieldType::Bytes, true),
        (15, _) => (FieldType::Guid, false),
        (16, _) => (FieldType::Pointer, false),
        (17, _) => (FieldType::FileTime, false),
        (18, _) => (FieldType::SystemTime, false),
        (19, _) => (FieldType::Sid, false),
        (20, _) => (FieldType::Int { bytes: 4, signed: false, hex: true }, false),
        (21, _) => (FieldType::Int { bytes: 8, signed: false, hex: true }, false),
        (22 | 300, _) => (FieldType::CountedUtf16, false),
        (23 | 301, _) => (FieldType::CountedAnsi, false),
        (25, _) => (FieldType::CountedBytes, false),
        (304, _) => (FieldType::Utf16, true),
        (305, _) => (FieldType::Ansi, true),
        (306, _) => (FieldType::Char16, false),
        (307, _) => (FieldType::Int { bytes: 1, signed: false, hex: false }, false),
        (308, _) => (FieldType::Size, false),
        (309, _) => (FieldType::Bytes, true),
        (310, _) => (FieldType::TokenUser, false),
        _ => return None,
    })
}

/// Maximum number of values of a map, which are compared with every value that is shown.
pub(super) const MAX_ENTRIES: usize = 4096;

/// Reads an `EVENT_MAP_INFO`: its name and entries. Only maps with numeric values are useful.
pub(super) fn map_info(bytes: &[u8]) -> Option<(String, Map)> {
    const BITS: u32 = 2;
    let flags = u32_at(bytes, 4)?;
    let count = (u32_at(bytes, 8)? as usize).min(MAX_ENTRIES);
    let entries = (0..count).map_while(|index| {
        let at = 16 + index * 8;
        Some((
            u64::from(u32_at(bytes, at + 4)?),
            text_at(bytes, u32_at(bytes, at)?)?.trim_end().to_owned(),
        ))
    });
    let entries = entries.collect();
    Some((text_at(bytes, u32_at(bytes, 0)?)?, Map { bits: flags & BITS != 0, entries }))
}

/// Maximum length of a name, bytes: a description may refer to one text a thousand times.
pub(super) const MAX_NAME_LEN: usize = 512;

fn text_at(bytes: &[u8], at: u32) -> Option<String> {
    let text = bytes.get(at as usize..).filter(|_| at != 0)?;
    Some(utf16_z(text.get(..MAX_NAME_LEN).unwrap_or(text)).0)
}
