//! TraceLogging: events that carry their own description (`TraceLoggingProvider.h`).

use super::{
    buffer::u16_at,
    schema::{Schema, SchemaField, in_type},
};
use unhitch_model::{Count, FieldType};

/// Reads an event's description (`EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL`): length, tags, name,
/// fields.
pub(super) fn schema(bytes: &[u8]) -> Option<Schema> {
    let len = usize::from(u16_at(bytes, 0)?);
    let mut reader = Reader { rest: bytes.get(2..len.min(bytes.len()))? };
    reader.tags()?;
    let name = reader.text()?;
    let mut schema = Schema { name, ..Schema::default() };
    while !reader.rest.is_empty() {
        // A truncated field is left out.
        if reader.field(&mut schema.fields, 0).is_none() {
            break;
        }
    }
    Some(schema)
}

/// The name of a provider from its traits: length, name.
pub(super) fn provider(traits: &[u8]) -> Option<String> {
    Reader { rest: traits.get(2..)? }.text().filter(|name| !name.is_empty())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.u8()?, self.u8()?]))
    }

    /// Skips tags: bytes that all have the highest bit set, except the last one.
    fn tags(&mut self) -> Option<()> {
        while self.u8()? & 0x80 != 0 {}
        Some(())
    }

    fn text(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let text = String::from_utf8_lossy(self.rest.get(..end)?).into_owned();
        self.rest = self.rest.get(end + 1..)?;
        Some(text)
    }

    fn field(&mut self, fields: &mut Vec<SchemaField>, depth: u8) -> Option<()> {
        const STRUCT: u8 = 24;
        const CHAIN: u8 = 0x80;
        let name = self.text()?;
        let first = self.u8()?;
        let mut out = 0;
        if first & CHAIN != 0 {
            let second = self.u8()?;
            out = second & 0x7f;
            if second & CHAIN != 0 {
                self.tags()?;
            }
        }
        let count = match first & 0x60 {
            0x20 => Count::Fixed(self.u16()?),
            0x40 => Count::Prefix,
            0x60 => {
                let len = usize::from(self.u16()?);
                self.rest = self.rest.get(len..)?;
                Count::Prefix
            }
            _ => Count::Own,
        };
        let kind = first & 0x1f;
        if kind != STRUCT {
            let (kind, length) = field_type(kind, out)?;
            fields.push(SchemaField { name, kind, count, length, map: None });
            return Some(());
        }
        if depth > 3 {
            return None;
        }
        let mine = fields.len();
        fields.push(SchemaField {
            name,
            kind: FieldType::Struct { members: 0 },
            count,
            length: Count::Own,
            map: None,
        });
        for _ in 0..out {
            self.field(fields, depth + 1)?;
        }
        let members = u16::try_from(fields.len() - mine - 1).ok()?;
        fields.get_mut(mine)?.kind = FieldType::Struct { members };
        Some(())
    }
}

/// `TlgIn*` have the numbers of `TDH_INTYPE_*`; `TlgOut*` have their own.
fn field_type(kind: u8, out: u8) -> Option<(FieldType, Count)> {
    const BOOLEAN: u8 = 3;
    const HEX: u8 = 4;
    const IPV4: u8 = 8;
    const IPV6: u8 = 9;
    const PORT: u8 = 7;
    Some(match (kind, out) {
        (3 | 4, BOOLEAN) => (FieldType::Bool { bytes: 1 }, Count::Own),
        (3 | 4, HEX) => (FieldType::Int { bytes: 1, signed: false, hex: true }, Count::Own),
        (5 | 6, HEX) => (FieldType::Int { bytes: 2, signed: false, hex: true }, Count::Own),
        (7 | 8, HEX) => (FieldType::Int { bytes: 4, signed: false, hex: true }, Count::Own),
        (9 | 10, HEX) => (FieldType::Int { bytes: 8, signed: false, hex: true }, Count::Own),
        (6, PORT) => (FieldType::Port, Count::Own),
        (8, IPV4) => (FieldType::Ipv4, Count::Own),
        (14, IPV6) => (FieldType::Ipv6, Count::Prefix),
        (14, _) => (FieldType::Bytes, Count::Prefix),
        _ => (in_type(u16::from(kind), 0)?.0, Count::Own),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_structs_and_tags_are_read() {
        let mut bytes = vec![0, 0, 0x81, 0, b'E', 0];
        bytes.extend(b"plain\0\x08");
        bytes.extend(b"hex\0\x88\x84\x85\x01");
        bytes.extend(b"fixed\0\x24\x03\0");
        bytes.extend(b"counted\0\x41");
        bytes.extend(b"pair\0\x98\x02");
        bytes.extend(b"a\0\x02b\0\x0f");
        bytes[0] = bytes.len() as u8;
        let schema = schema(&bytes).unwrap();
        let fields: Vec<(&str, Count)> =
            schema.fields.iter().map(|field| (field.name.as_str(), field.count)).collect();
        let own = Count::Own;
        let expected = [
            ("plain", own),
            ("hex", own),
            ("fixed", Count::Fixed(3)),
            ("counted", Count::Prefix),
            ("pair", own),
            ("a", own),
            ("b", own),
        ];
        assert_eq!((schema.name.as_str(), fields), ("E", expected.to_vec()));
        assert_eq!(schema.fields[1].kind, FieldType::Int { bytes: 4, signed: false, hex: true });
        assert_eq!(schema.fields[4].kind, FieldType::Struct { members: 2 });
        assert_eq!(provider(b"\x0b\0PerfView\0").as_deref(), Some("PerfView"));
    }
}
