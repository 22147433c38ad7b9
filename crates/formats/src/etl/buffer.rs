//! [`Buffer`]: one buffer of an ETW session, as `WMI_BUFFER_HEADER` describes it, and the walk over
//! all of a file.
//!
//! A file is buffers back to back, each as long as it says itself: a relogged or compressed file
//! has buffers of every length.

use super::xpress;
use unhitch_model::Warnings;

/// Length of `WMI_BUFFER_HEADER`; events follow it.
pub(crate) const BUFFER_HEADER_LEN: usize = 0x48;
/// ETW itself allows no larger one; nothing larger is unpacked.
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
    /// How many bytes of events it holds, unpacked.
    pub used: usize,
    /// The events, or what they were packed to.
    data: &'a [u8],
    flags: u16,
}

impl<'a> Buffer<'a> {
    /// Reads the header at `offset`. The second value is where the next buffer begins.
    fn read(bytes: &'a [u8], offset: usize) -> Option<(Self, usize)> {
        let rest = bytes.get(offset..)?;
        let header = rest.first_chunk::<BUFFER_HEADER_LEN>()?;
        let (size, saved) = (u32_at(header, 0)? as usize, u32_at(header, 4)? as usize);
        if size < BUFFER_HEADER_LEN {
            return None;
        }
        // Vista and Windows 7 leave SavedOffset at 0: there the length is in Offset alone. Later
        // ones write both, but in the first buffer of a relogged file Offset is too large.
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

    /// The first one of a file.
    pub(crate) fn first(bytes: &'a [u8]) -> Option<Self> {
        Self::read(bytes, 0).map(|(buffer, _)| buffer)
    }

    /// All that can be read of a file, in their order.
    pub(crate) fn all(bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let (buffer, next) = Self::read(bytes, offset)?;
            offset = next;
            Some(buffer)
        })
    }

    /// What lies in the file, without the header.
    pub(crate) fn data(&self) -> &'a [u8] {
        self.data
    }

    /// True when it is packed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.flags & flag::COMPRESSED != 0
    }

    /// True when the session says that events before or in it were lost.
    pub(crate) fn lost_events(&self) -> bool {
        self.flags & (flag::EVENTS_LOST | flag::BUFFER_LOST) != 0
    }

    /// Its events, and what is wrong with them: a packed buffer that is damaged gives what is
    /// before the damage. `unpacked` is where a packed one is unpacked to.
    pub(crate) fn events<'b>(&self, unpacked: &'b mut Vec<u8>) -> (&'b [u8], Option<String>)
    where
        'a: 'b,
    {
        if !self.is_compressed() {
            return (self.data.get(..self.used).unwrap_or(self.data), None);
        }
        if self.used > MAX_BUFFER_LEN {
            let what = format!(
                "claims to unpack to {} bytes, which no ETW buffer does: it was left out",
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

/// Unpacked, the events of a trace may be so many times as long as its files, or the second number
/// of bytes if that is more; what goes beyond is left out. XPRESS can make gigabytes of a few
/// bytes, real traces become up to six times as long.
const MAX_GROWTH: (usize, usize) = (16, 4 << 20);

/// How many bytes of events may be unpacked from files that take `on_disk` bytes, in a zip or not.
pub(crate) fn allowed(on_disk: usize) -> usize {
    on_disk.saturating_mul(MAX_GROWTH.0).max(MAX_GROWTH.1)
}

/// All buffers of a file in their order. What cannot be one is told in `warnings`. `allowed` is how
/// many bytes of events may still be unpacked.
pub(crate) fn walk<'a>(
    bytes: &'a [u8],
    allowed: &mut usize,
    warnings: &mut Warnings,
) -> Vec<Buffer<'a>> {
    let mut buffers = Vec::new();
    let (mut offset, mut left_out) = (0, 0_u64);
    while offset < bytes.len() {
        let Some((buffer, next)) = Buffer::read(bytes, offset) else {
            // A log of fixed size that was never filled, or whose session crashed, ends in zeros.
            if bytes.get(offset..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0)) {
                let rest = bytes.len() - offset;
                warnings.add(format!("the file is damaged at offset {offset}, where a buffer should begin: {rest} bytes are not readable"));
            }
            break;
        };
        if next > bytes.len() {
            warnings
                .add(format!("the file is cut off inside the buffer at offset {offset}: {} bytes of it are missing", next - bytes.len()));
        }
        match allowed.checked_sub(if buffer.used > MAX_BUFFER_LEN { 0 } else { buffer.used }) {
            Some(rest) => {
                *allowed = rest;
                buffers.push(buffer);
            }
            None => left_out += 1,
        }
        offset = next;
    }
    if left_out > 0 {
        let limit = MAX_GROWTH.0;
        warnings.add(format!(
            "{left_out} buffers were left out: unpacked, the events would be more than {limit} times as long as what is on the disk"
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
