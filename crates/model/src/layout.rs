//! [`Layout`]: how the bytes of a provider's event become named values.
//!
//! An event keeps its payload as recorded and is decoded on demand: a trace has millions of events,
//! and a table shows twenty. Layouts come from the trace file (ETW: TRACE_EVENT_INFO, TraceLogging,
//! EventSource manifests) or from a reader's own table.

use crate::{NameId, Value};

/// The type of a field. All numbers are little-endian.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FieldType {
    /// An integer of 1, 2, 4 or 8 bytes.
    Int {
        /// Its length.
        bytes: u8,
        /// Two's complement.
        signed: bool,
        /// Shown as hexadecimal.
        hex: bool,
    },
    /// A floating-point number of 4 or 8 bytes.
    Float {
        /// Its length.
        bytes: u8,
    },
    /// True unless all of 1 or 4 bytes are zero.
    Bool {
        /// Its length.
        bytes: u8,
    },
    /// An address or handle of pointer length in the program that wrote the event.
    Pointer,
    /// A number of pointer length.
    Size,
    /// UTF-16. Ends at a zero unless the field has a length, in characters.
    Utf16,
    /// Text of some code page, read as UTF-8. Ends at a zero unless the field has a length.
    Ansi,
    /// UTF-16 after its length in bytes (u16).
    CountedUtf16,
    /// Bytes of text after their length (u16).
    CountedAnsi,
    /// Bytes after their length (u16).
    CountedBytes,
    /// 16 bytes.
    Guid,
    /// 100 ns since 1601, UTC.
    FileTime,
    /// Eight u16: year, month, day of the week, day, hour, minute, second, millisecond.
    SystemTime,
    /// A security identifier.
    Sid,
    /// The kernel's form of a security identifier: a zero u32, or a TOKEN_USER of two pointers and
    /// the identifier.
    TokenUser,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A `SOCKADDR`. Takes all remaining bytes unless the field has a length.
    SocketAddress,
    /// A port in network byte order.
    Port,
    /// One UTF-16 character.
    Char16,
    /// Bytes. Takes all remaining ones unless the field has a length.
    Bytes,
    /// A struct. The next fields are its members.
    Struct {
        /// Number of members, including members of members.
        members: u16,
    },
}

/// A number of elements, or the length of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Count {
    /// One element; the length that its type has.
    #[default]
    Own,
    /// This number.
    Fixed(u16),
    /// The value of the earlier field with this index.
    Field(u16),
    /// The value of a u16 before the first element.
    Prefix,
    /// Up to the end of the payload.
    Rest,
}

/// One field of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// Its name.
    pub name: NameId,
    /// Its type.
    pub kind: FieldType,
    /// Number of elements; not [`Count::Own`] for arrays.
    pub count: Count,
    /// Length of one element, in characters or bytes, if its type does not have one.
    pub length: Count,
    /// Number of the [`ValueMap`](crate::ValueMap) that names its values.
    pub map: Option<u32>,
}

impl Field {
    /// A single field of a type that needs no length.
    pub const fn new(name: NameId, kind: FieldType) -> Self {
        Self { name, kind, count: Count::Own, length: Count::Own, map: None }
    }
}

/// The fields of a kind of event. Members of a struct follow the struct.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Layout {
    /// The fields in their order.
    pub fields: Vec<Field>,
    /// Length of a pointer in the program that wrote the event, bytes: 4 or 8.
    pub pointer_bytes: u8,
}

/// Maximum depth of structs in structs that are read.
const MAX_DEPTH: u8 = 4;
/// Maximum number of elements that are read of a list. No event is longer than 64 KiB.
const MAX_ELEMENTS: u64 = 1 << 16;
/// Maximum number of values that are read of an event. Those that take no bytes, such as empty lists in
/// the structs of a list, could be a thousand times as many as the bytes.
const MAX_VALUES: u32 = 1 << 18;

impl Layout {
    /// Decodes `payload`. Calls `each` with every top-level field and its value, in order. Stops at
    /// the end of the payload, because older or newer providers may write fewer fields. Returns the
    /// number of bytes at the end that no field covers.
    pub fn read<'a>(&self, payload: &'a [u8], mut each: impl FnMut(&Field, Value<'a>)) -> usize {
        let mut reader = Reader {
            rest: payload,
            pointer_bytes: usize::from(self.pointer_bytes.clamp(4, 8)),
            numbers: Vec::new(),
            left: MAX_VALUES,
        };
        let mut at = 0;
        while let Some(field) = self.fields.get(at) {
            let before = reader.rest;
            let Some(value) = reader.field(&self.fields, at, 0) else {
                // A partially read field does not cover its bytes.
                reader.rest = before;
                break;
            };
            each(field, value);
            at += 1 + members(field, &self.fields, at);
        }
        reader.rest.len()
    }

    /// The value of the field with this name.
    pub fn value<'a>(&self, payload: &'a [u8], name: NameId) -> Option<Value<'a>> {
        let mut found = None;
        self.read(payload, |field, value| {
            if field.name == name && found.is_none() {
                found = Some(value);
            }
        });
        found
    }
}

/// Number of fields after the one at `at` that are its members.
fn members(field: &Field, fields: &[Field], at: usize) -> usize {
    match field.kind {
        FieldType::Struct { members } => {
            usize::from(members).min(fields.len().saturating_sub(at + 1))
        }
        _ => 0,
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    pointer_bytes: usize,
    /// The last value of each integer field, by field index, for the counts of later fields.
    numbers: Vec<Option<u64>>,
    /// Number of values that may still be read.
    left: u32,
}

impl<'a> Reader<'a> {
    fn field(&mut self, fields: &[Field], at: usize, depth: u8) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let field = fields.get(at)?;
        let count = match field.count {
            Count::Own => return self.element(fields, at, depth),
            Count::Fixed(count) => u64::from(count),
            Count::Field(of) => self.number(of)?,
            Count::Prefix => self.uint(2)?,
            Count::Rest => MAX_ELEMENTS,
        };
        // An array of characters is a text.
        if matches!(
            (field.kind, field.count),
            (FieldType::Char16, Count::Fixed(_) | Count::Field(_))
        ) {
            return Some(Value::Text(utf16(
                self.bytes(usize::try_from(count).ok()?.checked_mul(2)?)?,
            )));
        }
        let mut list = Vec::new();
        for _ in 0..count.min(MAX_ELEMENTS) {
            let before = self.rest.len();
            match self.element(fields, at, depth) {
                Some(value) => list.push(value),
                None if field.count == Count::Rest => break,
                None => return None,
            }
            if self.rest.len() == before {
                break;
            }
        }
        Some(Value::List(list))
    }

    fn element(&mut self, fields: &[Field], at: usize, depth: u8) -> Option<Value<'a>> {
        let field = fields.get(at)?;
        let value = match field.kind {
            FieldType::Struct { .. } => {
                if depth >= MAX_DEPTH {
                    return None;
                }
                let end = at + 1 + members(field, fields, at);
                let (mut values, mut next) = (Vec::new(), at + 1);
                while next < end {
                    let member = fields.get(next)?;
                    values.push((member.name, self.field(fields, next, depth + 1)?));
                    next += 1 + members(member, fields, next);
                }
                Value::Struct(values)
            }
            _ => self.simple(field)?,
        };
        if let Value::Unsigned(number) | Value::Hex(number) = value
            && at <= usize::from(u16::MAX)
        {
            if self.numbers.len() <= at {
                self.numbers.resize(at + 1, None);
            }
            self.numbers[at] = Some(number);
        }
        Some(value)
    }

    fn simple(&mut self, field: &Field) -> Option<Value<'a>> {
        Some(match field.kind {
            FieldType::Int { bytes, signed: true, .. } => {
                let shift = 64_u32.checked_sub(u32::from(bytes) * 8)?;
                Value::Signed((self.uint(usize::from(bytes))? << shift) as i64 >> shift)
            }
            FieldType::Int { bytes, hex: true, .. } => Value::Hex(self.uint(usize::from(bytes))?),
            FieldType::Int { bytes, .. } => Value::Unsigned(self.uint(usize::from(bytes))?),
            FieldType::Float { bytes: 4 } => {
                Value::Float(f64::from(f32::from_bits(self.uint(4)? as u32)))
            }
            FieldType::Float { .. } => Value::Float(f64::from_bits(self.uint(8)?)),
            FieldType::Bool { bytes } => Value::Bool(self.uint(usize::from(bytes))? != 0),
            FieldType::Pointer => Value::Hex(self.uint(self.pointer_bytes)?),
            FieldType::Size => Value::Unsigned(self.uint(self.pointer_bytes)?),
            FieldType::Utf16 => match self.length(field.length)? {
                Some(chars) => Value::Text(until_zero(utf16(self.bytes(chars.checked_mul(2)?)?))),
                None => Value::Text(utf16(self.until_zero16()?)),
            },
            FieldType::Ansi => match self.length(field.length)? {
                Some(bytes) => Value::Text(until_zero(String::from_utf8_lossy(self.bytes(bytes)?))),
                None => Value::Text(String::from_utf8_lossy(self.until_zero8()?)),
            },
            FieldType::CountedUtf16 => Value::Text(utf16(self.counted()?)),
            FieldType::CountedAnsi => Value::Text(String::from_utf8_lossy(self.counted()?)),
            FieldType::CountedBytes => Value::Bytes(self.counted()?),
            FieldType::Guid => Value::Guid(*self.bytes(16)?.first_chunk()?),
            FieldType::FileTime => Value::FileTime(self.uint(8)?),
            FieldType::SystemTime => {
                let mut parts = [0; 8];
                for (part, word) in parts.iter_mut().zip(self.bytes(16)?.as_chunks::<2>().0) {
                    *part = u16::from_le_bytes(*word);
                }
                Value::SystemTime(parts)
            }
            FieldType::Sid => Value::Sid(self.sid()?),
            FieldType::TokenUser => {
                if self.rest.first_chunk::<4>()? == &[0; 4] {
                    self.bytes(4)?;
                    Value::Sid(&[])
                } else {
                    self.bytes(self.pointer_bytes * 2)?;
                    Value::Sid(self.sid()?)
                }
            }
            FieldType::Ipv4 => Value::Ip((*self.bytes(4)?.first_chunk::<4>()?).into()),
            FieldType::Ipv6 => Value::Ip((*self.bytes(16)?.first_chunk::<16>()?).into()),
            FieldType::Port => {
                Value::Unsigned(u64::from(u16::from_be_bytes(*self.bytes(2)?.first_chunk()?)))
            }
            FieldType::Char16 => Value::Text(utf16(self.bytes(2)?)),
            FieldType::SocketAddress => {
                let bytes = match self.length(field.length)? {
                    Some(bytes) => self.bytes(bytes)?,
                    None => std::mem::take(&mut self.rest),
                };
                socket_address(bytes)
                    .map_or(Value::Bytes(bytes), |address| Value::Text(address.to_string().into()))
            }
            FieldType::Bytes => match self.length(field.length)? {
                Some(bytes) => Value::Bytes(self.bytes(bytes)?),
                None => Value::Bytes(std::mem::take(&mut self.rest)),
            },
            FieldType::Struct { .. } => return None,
        })
    }

    /// `Some(None)` for the type's own length.
    fn length(&mut self, length: Count) -> Option<Option<usize>> {
        Some(match length {
            Count::Own => None,
            Count::Fixed(length) => Some(usize::from(length)),
            Count::Field(of) => Some(usize::try_from(self.number(of)?).ok()?),
            Count::Prefix => Some(self.uint(2)? as usize),
            Count::Rest => Some(self.rest.len()),
        })
    }

    fn number(&self, field: u16) -> Option<u64> {
        self.numbers.get(usize::from(field)).copied().flatten()
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn uint(&mut self, len: usize) -> Option<u64> {
        let bytes = self.bytes(len)?;
        let mut out = [0; 8];
        out.get_mut(..len)?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(out))
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.uint(2)? as usize;
        self.bytes(len)
    }

    /// Up to the zero, which is consumed; a text that lacks it ends with the payload.
    fn until_zero16(&mut self) -> Option<&'a [u8]> {
        if self.rest.len() < 2 {
            return None;
        }
        let units = self.rest.as_chunks::<2>().0;
        let len = units.iter().position(|unit| *unit == [0; 2]);
        let text = self.bytes(len.unwrap_or(units.len()) * 2)?;
        self.bytes(if len.is_some() { 2 } else { 0 })?;
        Some(text)
    }

    fn until_zero8(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let len = self.rest.iter().position(|byte| *byte == 0);
        let text = self.bytes(len.unwrap_or(self.rest.len()))?;
        self.bytes(usize::from(len.is_some()))?;
        Some(text)
    }

    /// Revision, number of parts, authority (6 bytes), parts (4 bytes each).
    fn sid(&mut self) -> Option<&'a [u8]> {
        let parts = usize::from(*self.rest.get(1)?);
        self.bytes(8 + 4 * parts)
    }
}

/// Family, port in network order; IPv4: address; IPv6: flow (4 bytes), address.
fn socket_address(bytes: &[u8]) -> Option<std::net::SocketAddr> {
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match u16::from_le_bytes(*bytes.first_chunk()?) {
        2 => Some((*bytes.get(4..)?.first_chunk::<4>()?, port).into()),
        23 => Some((*bytes.get(8..)?.first_chunk::<16>()?, port).into()),
        _ => None,
    }
}

fn utf16(bytes: &[u8]) -> std::borrow::Cow<'static, str> {
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect::<String>()
        .into()
}

fn until_zero(text: std::borrow::Cow<'_, str>) -> std::borrow::Cow<'_, str> {
    match text.find('\0') {
        Some(end) => text[..end].to_owned().into(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U16: FieldType = FieldType::Int { bytes: 2, signed: false, hex: false };

    fn read(layout: &Layout, payload: &[u8]) -> (Vec<String>, usize) {
        let mut values = Vec::new();
        let rest = layout.read(payload, |_, value| values.push(value.to_string()));
        (values, rest)
    }

    #[test]
    fn counts_and_lengths_may_be_fields() {
        let name = NameId::EMPTY;
        let list = Field {
            count: Count::Field(0),
            ..Field::new(name, FieldType::Int { bytes: 1, signed: true, hex: false })
        };
        let text = Field { length: Count::Field(0), ..Field::new(name, FieldType::Ansi) };
        let layout = Layout {
            fields: vec![Field::new(name, U16), list, text, Field::new(name, FieldType::Pointer)],
            pointer_bytes: 4,
        };
        let (values, rest) = read(&layout, &[3, 0, 1, 255, 2, b'a', b'b', b'c', 0x10, 0, 0, 0, 9]);
        assert_eq!(
            (values, rest),
            (["3", "[1, -1, 2]", "abc", "0x10"].map(str::to_owned).to_vec(), 1)
        );
    }

    #[test]
    fn a_field_that_is_cut_off_belongs_to_the_rest() {
        let name = NameId::EMPTY;
        let list = Field { count: Count::Fixed(3), ..Field::new(name, U16) };
        let layout = Layout {
            fields: vec![Field::new(name, U16), list, Field::new(name, U16)],
            pointer_bytes: 8,
        };
        let (values, rest) = read(&layout, &[1, 0, 2, 0, 3, 0]);
        assert_eq!((values, rest), (vec!["1".to_owned()], 4));
    }

    #[test]
    fn structs_keep_their_members_together() {
        let name = NameId::EMPTY;
        let fields = vec![
            Field { count: Count::Fixed(2), ..Field::new(name, FieldType::Struct { members: 2 }) },
            Field::new(name, U16),
            Field::new(name, FieldType::Utf16),
            Field::new(name, U16),
        ];
        let layout = Layout { fields, pointer_bytes: 8 };
        let (values, rest) = read(&layout, &[1, 0, b'x', 0, 0, 0, 2, 0, 0, 0, 7, 0]);
        assert_eq!((values, rest), (["[{1, x}, {2, }]", "7"].map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn a_payload_that_ends_early_gives_what_it_has() {
        let layout = Layout { fields: vec![Field::new(NameId::EMPTY, U16); 3], pointer_bytes: 8 };
        assert_eq!(read(&layout, &[1, 0, 2]), (vec!["1".to_owned()], 1));
        let endless = Field {
            count: Count::Fixed(u16::MAX),
            ..Field::new(NameId::EMPTY, FieldType::Struct { members: 0 })
        };
        assert_eq!(read(&Layout { fields: vec![endless], pointer_bytes: 8 }, &[]).0, ["[{}]"]);
    }

    /// Each byte of the payload is the first of a struct whose other members are empty lists.
    #[test]
    fn members_without_bytes_are_limited() {
        const MEMBERS: u16 = 1000;
        let byte =
            Field::new(NameId::EMPTY, FieldType::Int { bytes: 1, signed: false, hex: false });
        let structs = Field::new(NameId::EMPTY, FieldType::Struct { members: MEMBERS });
        let mut fields = vec![Field { count: Count::Rest, ..structs }, byte];
        fields.resize(1 + usize::from(MEMBERS), Field { count: Count::Fixed(0), ..byte });
        let layout = Layout { fields, pointer_bytes: 8 };
        let members = |payload: &[u8]| {
            let mut members = 0;
            layout.read(payload, |_, value| {
                let Value::List(structs) = value else { panic!("{value}") };
                members += structs.len() * usize::from(MEMBERS);
            });
            members
        };
        assert_eq!(members(&[1; 100]), 100_000);
        let limited = members(&[1; 1 << 16]);
        assert!((1..=MAX_VALUES as usize).contains(&limited), "{limited}");
    }
}
