//! [`Message`]: writes Protocol Buffers. <https://protobuf.dev/programming-guides/encoding>
//!
//! *Why no crate:* two of our formats need it, and only to write: numbers, bytes, and messages in
//! messages.

/// A message under construction. Fields are written in the order of the calls.
#[derive(Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// Maximum bytes of a varint.
const MAX_VARINT_LEN: usize = 10;

impl Message {
    /// What was written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds the fields of another message.
    pub(crate) fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    fn raw(&mut self, value: u64) {
        let (varint, len) = varint(value);
        self.bytes.extend_from_slice(&varint[..len]);
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.raw(u64::from(field) << 3 | wire_type);
    }

    /// A number, enumeration or truth value.
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.raw(value);
    }

    /// An `int32` or `int64`. Negative ones take ten bytes.
    pub(crate) fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value.cast_unsigned());
    }

    /// An id of a thread or process, which is an `int32`.
    pub(crate) fn tid(&mut self, field: u32, tid: u32) {
        self.int(field, i64::from(tid.cast_signed()));
    }

    /// A `fixed64`.
    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes, or a text.
    pub(crate) fn put(&mut self, field: u32, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.key(field, LENGTH_DELIMITED);
        self.raw(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A message, which `fill` writes.
    pub(crate) fn nest(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH_DELIMITED);
        let start = self.bytes.len();
        // Most messages are shorter than 128 bytes: their length is one byte.
        self.bytes.push(0);
        fill(self);
        let (length, len) = varint((self.bytes.len() - start - 1) as u64);
        self.bytes.splice(start..=start, length[..len].iter().copied());
    }

    /// Numbers without a key each.
    pub(crate) fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        self.nest(field, |list| values.into_iter().for_each(|value| list.raw(value)));
    }
}

fn varint(mut value: u64) -> ([u8; MAX_VARINT_LEN], usize) {
    let mut bytes = [0; MAX_VARINT_LEN];
    let mut len = 0;
    loop {
        bytes[len] = value as u8 & 0x7f;
        value >>= 7;
        len += 1;
        if value == 0 {
            return (bytes, len);
        }
        bytes[len - 1] |= 0x80;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification.
    #[test]
    fn messages_are_encoded_as_specified() {
        let mut message = Message::default();
        message.uint(1, 150);
        message.put(2, "testing");
        message.nest(3, |inner| inner.uint(1, 150));
        message.packed(6, [3, 270, 86_942]);
        let expected = [
            &[0x08, 0x96, 0x01, 0x12, 0x07][..],
            b"testing",
            &[0x1a, 0x03, 0x08, 0x96, 0x01],
            &[0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05],
        ];
        assert_eq!(message.bytes(), expected.concat());
        message.clear();
        message.int(1, -2);
        assert_eq!(message.bytes().len(), 1 + MAX_VARINT_LEN);
        message.clear();
        message.nest(4, |inner| inner.put(1, [7; 300]));
        assert_eq!(message.bytes()[..6], [0x22, 0xaf, 0x02, 0x0a, 0xac, 0x02]);
        assert_eq!(message.bytes().len(), 3 + 303);
    }
}
