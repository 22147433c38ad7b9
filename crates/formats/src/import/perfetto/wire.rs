//! The encoding of protocol buffers: <https://protobuf.dev/programming-guides/encoding/>.

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    /// An integer, a boolean or an enumeration.
    Number(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number; 0 for bytes.
    pub fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// The same for an id or a CPU.
    pub fn u32(self) -> u32 {
        self.number() as u32
    }

    /// The bytes; none for a number.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Number(_) => &[],
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The text; what is not UTF-8 is replaced.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The fields of the message.
    pub fn fields(self) -> Fields<'a> {
        Fields::new(self.bytes())
    }

    /// The numbers of a repeated field, packed or not.
    pub fn numbers(self) -> impl Iterator<Item = u64> + 'a {
        let (single, mut packed) = match self {
            Self::Number(number) => (Some(number), &[][..]),
            Self::Bytes(bytes) => (None, bytes),
        };
        single.into_iter().chain(std::iter::from_fn(move || varint(&mut packed)))
    }
}

/// The fields of a message, up to its end or the first damage.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    damaged: bool,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, damaged: false }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True if the fields end with something that is no field.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    fn read(&mut self) -> Option<(u32, Value<'a>)> {
        let mut rest = self.rest;
        let tag = varint(&mut rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut rest)?),
            1 => Value::Number(u64::from_le_bytes(*take(&mut rest)?)),
            5 => Value::Number(u32::from_le_bytes(*take(&mut rest)?).into()),
            2 => {
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(len)?;
                rest = after;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        self.rest = rest;
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.damaged {
            return None;
        }
        let field = self.read();
        self.damaged = field.is_none();
        field
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

#[inline]
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index as u32).min(63);
        if byte & 0x80 == 0 {
            *rest = &rest[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_up_to_damage() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, 7, 8, 0x1d, 1, 0, 0, 0, 0x23];
        let mut fields = Fields::new(&bytes);
        let mut next = || fields.next();
        assert!(matches!(next(), Some((1, Value::Number(150)))));
        let (number, packed) = next().unwrap();
        assert_eq!((number, packed.numbers().collect::<Vec<_>>()), (2, vec![7, 8]));
        assert!(matches!(next(), Some((3, Value::Number(1)))));
        assert!(next().is_none(), "a group");
        assert!(fields.is_damaged());
    }

    #[test]
    fn a_length_beyond_the_end_is_damage() {
        for bytes in [
            &[0x0a, 5, 1][..],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xff; 11],
        ] {
            let mut fields = Fields::new(bytes);
            assert!(fields.next().is_none() && fields.is_damaged());
        }
    }
}
