//! Fields of a packet, bit by bit, little-endian.

use super::types::{Integer, Type, TypeId, Types};

/// A place in a packet.
#[derive(Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: u64,
    /// The end of the content.
    end: u64,
}

impl<'a> Bits<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() as u64 * 8 }
    }

    pub fn position(&self) -> u64 {
        self.at
    }

    /// The content ends here, or with the bytes.
    pub fn end_at(&mut self, end: u64) {
        self.end = end.min(self.bytes.len() as u64 * 8);
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    fn align(&mut self, bits: u32) -> Option<()> {
        let at = self.at.checked_next_multiple_of(u64::from(bits.max(1)))?;
        self.at = at;
        Some(())
    }

    fn integer(&mut self, of: Integer) -> Option<u64> {
        self.align(of.align)?;
        let to = self.at.checked_add(u64::from(of.bits)).filter(|to| *to <= self.end)?;
        let (first, last) = (self.at / 8, to.div_ceil(8));
        let bytes = self.bytes.get(first as usize..last as usize)?;
        // At most 64 bits that begin inside a byte: nine bytes.
        let mut value = 0u128;
        for (index, byte) in bytes.iter().enumerate() {
            value |= u128::from(*byte) << (8 * index);
        }
        value >>= self.at % 8;
        value &= (1 << of.bits) - 1;
        self.at = to;
        let value = value as u64;
        let is_negative = of.signed && of.bits < 64 && of.bits > 0 && value >> (of.bits - 1) == 1;
        Some(if is_negative { value | u64::MAX << of.bits } else { value })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        self.align(8)?;
        let rest = self.bytes.get((self.at / 8) as usize..(self.end / 8) as usize)?;
        let len = rest.iter().position(|byte| *byte == 0)?;
        self.at += (len as u64 + 1) * 8;
        Some(&rest[..len])
    }
}

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Numbers(Vec<u64>),
}

/// The fields of one event, with their names, without the underscore before them.
#[derive(Default)]
pub(super) struct Values<'t, 'a> {
    fields: Vec<(&'t str, Value<'a>)>,
    /// The name of an enumeration's value.
    names: Vec<(&'t str, &'t str)>,
    /// Number of fields before those of the event itself.
    contexts: usize,
    /// Steps that were made.
    steps: u64,
    /// The last time that was read, with its length in bits.
    pub clock: Option<(u64, u32)>,
}

/// Maximum number of steps for an event: beyond that, only as many as there are bits.
const MAX_STEPS: u64 = 1024;
const MAX_DEPTH: u32 = 32;

impl<'t, 'a> Values<'t, 'a> {
    pub fn clear(&mut self) {
        self.fields.clear();
        self.names.clear();
        self.contexts = 0;
        self.steps = 0;
        self.clock = None;
    }

    /// The last field of this name.
    fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// What follows are fields of the event itself.
    pub fn end_contexts(&mut self) {
        self.contexts = self.fields.len();
    }

    /// A number that was added to the event, and is no field of its own.
    pub fn context(&self, name: &str) -> Option<u64> {
        let found = self.fields[..self.contexts].iter().rev().find(|(known, _)| *known == name)?;
        match found.1 {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    pub fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        match self.get(name)? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn numbers(&self, name: &str) -> Option<&[u64]> {
        match self.get(name)? {
            Value::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }

    /// Reads a field; `None` if the packet ends before it does.
    pub fn read(
        &mut self,
        types: &'t Types,
        id: TypeId,
        name: &'t str,
        bits: &mut Bits<'a>,
    ) -> Option<()> {
        self.field(types, id, plain(name), bits, MAX_DEPTH)
    }

    fn field(
        &mut self,
        types: &'t Types,
        id: TypeId,
        name: &'t str,
        bits: &mut Bits<'a>,
        depth: u32,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.steps += 1;
        if self.steps > MAX_STEPS + bits.position() {
            return None;
        }
        match types.get(id)? {
            Type::Integer(integer) => {
                let value = bits.integer(*integer)?;
                if integer.is_clock {
                    self.clock = Some((value, integer.bits));
                }
                self.fields.push((name, Value::Number(value)));
            }
            Type::Float { bits: len, align } => {
                let (bits_of, align) = (*len, *align);
                bits.integer(Integer { bits: bits_of, align, signed: false, is_clock: false })?;
            }
            Type::Text => {
                let text = bits.text()?;
                self.fields.push((name, Value::Bytes(text)));
            }
            Type::Struct { fields, .. } => {
                bits.align(types.align(id))?;
                for (name, field) in fields {
                    self.field(types, *field, plain(name), bits, depth)?;
                }
            }
            Type::Array { of, len } => self.array(types, *of, *len, name, bits, depth)?,
            Type::Sequence { of, len } => {
                let len = self.number(plain(last_part(len)))?;
                self.array(types, *of, len, name, bits, depth)?;
            }
            Type::Enum { of, names } => {
                let value = bits.integer(*of)?;
                let signed = if of.signed { i128::from(value as i64) } else { i128::from(value) };
                let range = names.iter().find(|(_, low, high)| (*low..=*high).contains(&signed));
                if let Some((label, ..)) = range {
                    self.names.push((name, label));
                }
                self.fields.push((name, Value::Number(value)));
            }
            Type::Variant { tag, options } => {
                let tag = plain(last_part(tag));
                let label = self.names.iter().rev().find(|(name, _)| *name == tag)?.1;
                let (name, option) =
                    options.iter().find(|(name, _)| plain(name) == plain(label))?;
                self.field(types, *option, plain(name), bits, depth)?;
            }
        }
        Some(())
    }

    fn array(
        &mut self,
        types: &'t Types,
        of: TypeId,
        len: u64,
        name: &'t str,
        bits: &mut Bits<'a>,
        depth: u32,
    ) -> Option<()> {
        let left = bits.end.saturating_sub(bits.at);
        match types.get(of)? {
            Type::Integer(integer) if integer.bits == 8 && integer.align % 8 == 0 => {
                bits.align(integer.align)?;
                let from = (bits.at / 8) as usize;
                let bytes = bits.bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)?;
                bits.at = bits.at.checked_add(len.checked_mul(8)?).filter(|at| *at <= bits.end)?;
                self.fields.push((name, Value::Bytes(bytes)));
            }
            Type::Integer(integer) if integer.bits > 0 => {
                if len.checked_mul(u64::from(integer.bits))? > left {
                    return None;
                }
                let mut numbers = Vec::with_capacity(len as usize);
                for _ in 0..len {
                    numbers.push(bits.integer(*integer)?);
                }
                self.fields.push((name, Value::Numbers(numbers)));
            }
            _ => {
                for _ in 0..len {
                    self.field(types, of, name, bits, depth)?;
                }
            }
        }
        Some(())
    }
}

/// A field's name without the underscore that keeps it apart from keywords.
fn plain(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// The name of a field without the structures around it.
fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}
