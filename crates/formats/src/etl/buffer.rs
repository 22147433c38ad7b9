//! [`Buffer`]: one buffer of an ETW session, as `WMI_BUFFER_HEADER` describes it, and the walk over
//! the buffers of a file.
//!
//! A file consists of buffers back to back. Each one states its own length, because relogged and
//! compressed files have buffers of any length.

use super::xpress;
use unhitch_model::{Warnings, units::plural};

/// Length of `WMI_BUFFER_HEADER`, bytes. The events follow it.
pub(crate) const BUFFER_HEADER_LEN: usize = 0x48;
/// Maximum length of a buffer, bytes. ETW allows no larger one, so nothing larger is unpacked.
pub(crate) const MAX_BUFFER_LEN: usize = 16 << 20;

/// `ETW_BUFFER_FLAG_*`.
mod flag {
    pub const EVENTS_LOST: u16 = 2;
    pub const BUFFER_LOST: u16 = 4;
    pub const PROC_INDEX: u16 = 0x20;
    pub const COMPRESSED: u16 = 0x40;
}

/// A buffer as it lies in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer<'a> {
    /// Where its header begins, bytes from the start of the file.
    pub offset: usize,
    /// The CPU that wrote it.
    pub cpu: u16,
    /// Length of its events when unpacked, bytes.
    pub used: usize,
    /// The events, possibly compressed.
    data: &'a [u8],
    flags: u16,
}

impl<'a> Buffer<'a> {
    /// Reads the header at `offset`. Also returns where the next buffer begins.
    fn read(bytes: &'a [u8], offset: usize) -> Option<(Self, usize)> {
        let rest = bytes.get(offset..)?;
        let header = rest.first_chunk::<BUFFER_HEADER_LEN>()?;
        let (size, saved) = (u32_at(header, 0)? as usize, u32_at(header, 4)? as usize);
        if size < BUFFER_HEADER_LEN {
            return None;
        }
        // Vista and Windows 7 leave SavedOffset at 0 and have the length only in Offset. Later
        // versions write both, but in the first buffer of a relogged file Offset is too large.
        let saved = if saved == 0 { u32_at(header, 0x30)? as usize } else { saved };
        let flags = u16_at(header, 0x34)?;
        let cpu = match flags & flag::PROC_INDEX {
            0 => u16::from(*header.get(0x28)?),
            _ => u16_at(header, 0x28)? & 0x7ff,
        };
        let data = rest.get(BUFFER_HEADER_LEN..size.min(rest.len()))?;
        let mut used = saved.saturating_sub(BUFFER_HEADER_LEN);
        if flags & flag::COMPRESSED == 0 {
            used = used.min(data.len());
        }
        Some((Self { offset, cpu, used, data, flags }, offset.checked_add(size)?))
    }

    /// The first buffer of a file.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<Self> {
        Self::read(bytes, 0).map(|(buffer, _)| buffer)
    }

    /// The buffers of a file that can be read, in their order.
    pub(crate) fn all(bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let (buffer, next) = Self::read(bytes, offset)?;
            offset = next;
            Some(buffer)
        })
    }

    /// The content as it lies in the file, without the header.
    pub(crate) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// True if its events are compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.flags & flag::COMPRESSED != 0
    }

    /// Takes its unpacked length from `allowed`, the number of bytes of events that may still be
    /// unpacked. False if that is too much.
    pub(crate) fn fits(&self, allowed: &mut usize) -> bool {
        // One that claims more than any is not unpacked.
        let len = if self.used > MAX_BUFFER_LEN { 0 } else { self.used };
        let left = allowed.checked_sub(len);
        *allowed = left.unwrap_or(*allowed);
        left.is_some()
    }

    /// True if the session says that events in or before it were lost.
    pub(crate) fn lost_events(&self) -> bool {
        self.flags & (flag::EVENTS_LOST | flag::BUFFER_LOST) != 0
    }

    /// Its events, and what is wrong with them. A damaged compressed buffer gives the events before
    /// the damage. A compressed buffer is unpacked to `unpacked`.
    pub(crate) fn events<'b>(&self, unpacked: &'b mut Vec<u8>) -> (&'b [u8], Option<String>)
    where
        'a: 'b,
    {
        if !self.is_compressed() {
            return (self.data.get(..self.used).unwrap_or(self.data), None);
        }
        if self.used > MAX_BUFFER_LEN {
            let what = format!(
                "claims to unpack to {} bytes, more than any ETW buffer: it was left out",
                self.used
            );
            return (&[], Some(what));
        }
        let damage = xpress::unpack(self.data, self.used, unpacked).err();
        let what = damage.map(|at| {
            format!("cannot be unpacked beyond byte {}", at.saturating_add(BUFFER_HEADER_LEN))
        });
        (unpacked, what)
    }
}

/// Maximum length of a trace's unpacked events: this many times the length of its files, or the
/// second number of bytes if that is more. Buffers beyond that are left out. XPRESS can expand a
/// few bytes to gigabytes; real traces become up to six times as long.
const MAX_GROWTH: (usize, usize) = (16, 4 << 20);

/// Maximum number of bytes of events for files that take `on_disk` bytes, in a zip or not.
pub(crate) fn allowed(on_disk: usize) -> usize {
    on_disk.saturating_mul(MAX_GROWTH.0).max(MAX_GROWTH.1)
}

/// The buffers of a file in their order. Damage goes to `warnings`. `allowed` is the number of
/// bytes of events that may still be unpacked.
pub(crate) fn walk<'a>(
    bytes: &'a [u8],
    allowed: &mut usize,
    warnings: &mut Warnings,
) -> Vec<Buffer<'a>> {
    let mut buffers = Vec::new();
    let (mut offset, mut left_out) = (0, 0_u64);
    while offset < bytes.len() {
        let Some((buffer, next)) = Buffer::read(bytes, offset) else {
            // A log of fixed size ends in zeros if it was never filled or its session crashed.
            if bytes.get(offset..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0)) {
                let rest = bytes.len() - offset;
                warnings.add(format!(
                    "the file is damaged at offset {offset}, where a buffer should begin: {rest} \
                     bytes cannot be read"
                ));
            }
            break;
        };
        if next > bytes.len() {
            warnings.add(format!(
                "the file is cut off inside the buffer at offset {offset}: {} bytes of the \
                     buffer are missing",
                next - bytes.len()
            ));
        }
        if buffer.fits(allowed) {
            buffers.push(buffer);
        } else {
            left_out += 1;
        }
        offset = next;
    }
    if left_out > 0 {
        let limit = MAX_GROWTH.0;
        warnings.add(format!(
            "left out {}: unpacked, all events would be more than {limit} times as long as the \
             files on disk",
            plural(left_out, "buffer")
        ));
    }
    buffers
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// An address of the recorded machine.
#[inline]
pub(crate) fn pointer_at(bytes: &[u8], at: usize, pointer_bytes: usize) -> Option<u64> {
    if pointer_bytes == 4 { u32_at(bytes, at).map(u64::from) } else { u64_at(bytes, at) }
}
