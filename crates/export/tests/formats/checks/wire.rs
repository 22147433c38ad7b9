//! Reads Protocol Buffers: <https://protobuf.dev/programming-guides/encoding>. Written from the
//! specification, apart from what writes and reads them in this project.

use std::collections::BTreeMap;

/// A message, by number of field; damage is a panic.
#[derive(Clone, Default, Debug)]
pub struct Message<'a>(BTreeMap<u32, Vec<Value<'a>>>);

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    pub fn read(mut rest: &'a [u8]) -> Self {
        let mut fields: BTreeMap<u32, Vec<Value<'a>>> = BTreeMap::new();
        while !rest.is_empty() {
            let key = varint(&mut rest);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut rest)),
                1 => Value::Number(u64::from_le_bytes(take(&mut rest, 8).try_into().unwrap())),
                2 => {
                    let len = varint(&mut rest) as usize;
                    Value::Bytes(take(&mut rest, len))
                }
                kind => panic!("a field of kind {kind}"),
            };
            fields.entry((key >> 3) as u32).or_default().push(value);
        }
        Self(fields)
    }

    /// The numbers of the fields that are there.
    pub fn fields(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }

    pub fn has(&self, field: u32) -> bool {
        self.0.contains_key(&field)
    }

    fn values(&self, field: u32) -> &[Value<'a>] {
        self.0.get(&field).map_or(&[], Vec::as_slice)
    }

    /// The number in a field, 0 if there is none.
    pub fn number(&self, field: u32) -> u64 {
        match self.values(field).last() {
            None => 0,
            Some(Value::Number(number)) => *number,
            Some(Value::Bytes(_)) => panic!("field {field} is no number"),
        }
    }

    /// The numbers in a field, packed or not.
    pub fn numbers(&self, field: u32) -> Vec<u64> {
        let mut all = Vec::new();
        for value in self.values(field).iter().copied() {
            match value {
                Value::Number(number) => all.push(number),
                Value::Bytes(mut rest) => {
                    while !rest.is_empty() {
                        all.push(varint(&mut rest));
                    }
                }
            }
        }
        all
    }

    pub fn all_bytes(&self, field: u32) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.values(field).iter().map(move |value| match value {
            Value::Bytes(bytes) => *bytes,
            Value::Number(_) => panic!("field {field} is no bytes"),
        })
    }

    /// The text in a field, empty if there is none.
    pub fn text(&self, field: u32) -> &'a str {
        self.all_bytes(field).last().map_or("", |bytes| std::str::from_utf8(bytes).unwrap())
    }

    pub fn messages(&self, field: u32) -> impl Iterator<Item = Message<'a>> + '_ {
        self.all_bytes(field).map(Message::read)
    }

    /// The message in a field, an empty one if there is none.
    pub fn message(&self, field: u32) -> Message<'a> {
        self.messages(field).last().unwrap_or_default()
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, after) = rest.split_at_checked(len).expect("a length within the message");
    *rest = after;
    taken
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = take(rest, 1)[0];
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}
