//! [`Bytes`]: a sequence of little-endian fields, with pointers in the recorded machine's width.

/// A payload that grows field by field.
#[derive(Clone, Default, Debug)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// An empty payload.
    pub fn new() -> Self {
        Self::default()
    }

    /// One byte.
    #[must_use]
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Two bytes.
    #[must_use]
    pub fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Four bytes.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Eight bytes.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A pointer of `width` bytes, 4 or 8. A wider value is truncated.
    #[must_use]
    pub fn pointer(self, width: u8, value: u64) -> Self {
        if width == 4 { self.u32(value as u32) } else { self.u64(value) }
    }

    /// A 32-bit floating-point number.
    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.u32(value.to_bits())
    }

    /// Raw bytes.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// One-byte characters with a terminating zero.
    #[must_use]
    pub fn ansi(self, text: &str) -> Self {
        self.raw(text.as_bytes()).u8(0)
    }

    /// UTF-16 with a terminating zero.
    #[must_use]
    pub fn utf16(mut self, text: &str) -> Self {
        self.0.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        self
    }

    /// Zeros until the length is a multiple of `unit`.
    #[must_use]
    pub fn align(mut self, unit: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(unit), 0);
        self
    }

    /// Its length, bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
