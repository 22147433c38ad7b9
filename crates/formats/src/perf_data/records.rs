//! [`Records`]: an iterator over the records of some data.
//!
//! `struct perf_event_header` of `include/uapi/linux/perf_event.h`. Two of perf's own records are
//! followed by a payload that their 16-bit size does not include. Damage ends the iteration: after
//! a wrong size, there is no way to find the next record.

use super::record::{RECORD_HEADER_LEN, kind};
use crate::cursor::Cursor;

/// One record.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// Flags, see [`misc`](super::record::misc).
    pub misc: u16,
    /// What follows the header.
    pub body: &'a [u8],
    /// The payload behind the record.
    pub payload: &'a [u8],
}

/// The records of `data`.
pub(crate) struct Records<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Offset of the next record.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// What stopped the iteration before the end of the data.
    pub(crate) fn damage(&self) -> Option<String> {
        let rest = self.data.len() - self.at;
        if rest == 0 {
            return None;
        }
        Some(match self.header() {
            Some((_, _, size)) if size < RECORD_HEADER_LEN => {
                format!("a record claims to be {size} bytes long; {rest} bytes cannot be read")
            }
            _ => format!("the last record is cut off; {rest} bytes cannot be read"),
        })
    }

    #[inline]
    fn header(&self) -> Option<(u32, u16, usize)> {
        let [a, b, c, d, e, f, g, h] =
            *self.data.get(self.at..)?.first_chunk::<RECORD_HEADER_LEN>()?;
        Some((
            u32::from_le_bytes([a, b, c, d]),
            u16::from_le_bytes([e, f]),
            usize::from(u16::from_le_bytes([g, h])),
        ))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (kind, misc, size) = self.header()?;
        let body = self.data.get(self.at + RECORD_HEADER_LEN..self.at.checked_add(size)?)?;
        let payload_len = match kind {
            kind::TRACING_DATA => u64::from(Cursor::new(body).u32()?),
            kind::AUXTRACE => Cursor::new(body).u64()?,
            _ => 0,
        };
        let payload = match payload_len {
            0 => &[],
            len => Cursor::new(&self.data[self.at + size..]).bytes_u64(len)?,
        };
        self.at += size + payload.len();
        Some(Record { kind, misc, body, payload })
    }
}
