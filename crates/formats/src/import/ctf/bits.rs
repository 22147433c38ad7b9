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
pub(super) struct Values<'t, 'a> {
    fields: Vec<(&'t str, Value<'a>)>,
    /// The name of an enumeration's value.
    names: Vec<(&'t str, &'t str)>,
    /// Number of fields before those of the event itself.
    contexts: usize,
    /// Number of values that the event may still have.
    room: usize,
    /// Number of steps that may still be made in the file. What takes no bits may have any length.
    steps: u64,
    /// How far the packet's bits were exchanged for steps.
    paid: u64,
    /// The last time that was read, with its length in bits.
    pub clock: Option<(u64, u32)>,
}

impl Default for Values<'_, '_> {
    fn default() -> Self {
        Self {
            fields: Vec::new(),
            names: Vec::new(),
            contexts: 0,
            room: MAX_VALUES,
            steps: 0,
            paid: 0,
            clock: None,
        }
    }
}

/// Number of steps for each packet, and for each bit. A step is a field that is read, or a name that
/// is looked at for it; most fields of a tracer take eight bits or more.
const STEPS_PER_PACKET: u64 = 64;
const STEPS_PER_BIT: u64 = 4;
/// Maximum number of values of an event. No tracer's buffer has room for more.
const MAX_VALUES: usize = 1 << 20;
const MAX_DEPTH: u32 = 32;

impl<'t, 'a> Values<'t, 'a> {
    /// A packet begins, at its bit 0.
    pub fn begin_packet(&mut self) {
        self.clear();
        self.paid = 0;
        self.steps = self.steps.max(STEPS_PER_PACKET);
    }

    pub fn clear(&mut self) {
        self.fields.clear();
        self.names.clear();
        self.contexts = 0;
        self.room = MAX_VALUES;
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

    /// Makes `steps` steps at this place; `None` if that is too many.
    fn step(&mut self, steps: usize, bits: &Bits<'a>) -> Option<()> {
        let read = bits.position().saturating_sub(self.paid);
        self.paid = bits.position();
        self.steps = self.steps.saturating_add(read.saturating_mul(STEPS_PER_BIT));
        self.steps = self.steps.checked_sub(steps as u64)?;
        Some(())
    }

    /// Adds a field of `count` values; `None` if there is no room.
    fn push(&mut self, name: &'t str, value: Value<'a>, count: usize) -> Option<()> {
        self.room = self.room.checked_sub(count)?;
        self.fields.push((name, value));
        Some(())
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
        self.step(1, bits)?;
        match types.get(id)? {
            Type::Integer(integer) => {
                let value = bits.integer(*integer)?;
                if integer.is_clock {
                    self.clock = Some((value, integer.bits));
                }
                self.push(name, Value::Number(value), 1)?;
            }
            Type::Float { bits: len, align } => {
                let (bits_of, align) = (*len, *align);
                bits.integer(Integer { bits: bits_of, align, signed: false, is_clock: false })?;
            }
            Type::Text => {
                let text = bits.text()?;
                self.push(name, Value::Bytes(text), 1)?;
            }
            Type::Struct { fields, .. } => {
                bits.align(types.align(id))?;
                for (name, field) in fields {
                    self.field(types, *field, plain(name), bits, depth)?;
                }
            }
            Type::Array { of, len } => self.array(types, *of, *len, name, bits, depth)?,
            Type::Sequence { of, len } => {
                let len = plain(last_part(len));
                let back = self.fields.iter().rev().position(|(known, _)| *known == len)?;
                self.step(back, bits)?;
                let len = self.number(len)?;
                self.array(types, *of, len, name, bits, depth)?;
            }
            Type::Enum { of, names } => {
                let value = bits.integer(*of)?;
                let signed = if of.signed { i128::from(value as i64) } else { i128::from(value) };
                let is_it = |(_, low, high): &(_, _, _)| (*low..=*high).contains(&signed);
                let range = names.iter().position(is_it);
                self.step(range.unwrap_or(names.len()), bits)?;
                self.names.extend(range.map(|range| (name, names[range].0.as_str())));
                self.push(name, Value::Number(value), 1)?;
            }
            Type::Variant { tag, options } => {
                let tag = plain(last_part(tag));
                let mut names = self.names.iter().rev().enumerate();
                let (back, (_, label)) = names.find(|(_, (name, _))| *name == tag)?;
                let is_it = |(_, (name, _)): &(_, &(String, _))| plain(name) == plain(label);
                let (at, (name, option)) = options.iter().enumerate().find(is_it)?;
                self.step(back + at, bits)?;
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
        match types.get(of)? {
            Type::Integer(integer) if integer.bits == 8 && integer.align % 8 == 0 => {
                bits.align(integer.align)?;
                let from = (bits.at / 8) as usize;
                let bytes = bits.bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)?;
                bits.at = bits.at.checked_add(len.checked_mul(8)?).filter(|at| *at <= bits.end)?;
                self.push(name, Value::Bytes(bytes), 1)?;
            }
            Type::Integer(integer) if integer.bits > 0 => {
                let left = bits.end.saturating_sub(bits.at);
                let len = usize::try_from(len).ok().filter(|len| *len <= self.room)?;
                if len as u64 * u64::from(integer.bits) > left {
                    return None;
                }
                let numbers = (0..len).map(|_| bits.integer(*integer)).collect::<Option<_>>()?;
                self.push(name, Value::Numbers(numbers), len.max(1))?;
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
