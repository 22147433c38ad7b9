//! Finds the members of a container that lacks its directory, because its end was cut off or a
//! crash interrupted the adding of names.
//!
//! Format: APPNOTE.TXT 4.3.7; each member follows a header with its name and length. The members
//! other than the records get a new directory in memory.

use super::members::PERF_DATA;
use std::ops::Range;

const LOCAL: &[u8; 4] = b"PK\x03\x04";
const LOCAL_LEN: usize = 30;
/// This length means that the real one is in the extra field (4.5.3).
const ZIP64: u32 = u32::MAX;
/// Maximum number of members that are looked at.
const MAX_MEMBERS: usize = 64;
/// Maximum number of bytes that are copied of them, in all.
const MAX_COPIED_LEN: usize = 512 << 20;

/// The members that were found.
pub(super) struct Found {
    /// Where the records are, as far as they exist.
    pub(super) records: Range<usize>,
    /// The checksum that the records were written with; `None` if their end is missing.
    pub(super) crc32: Option<u32>,
    /// The other members, as a zip.
    pub(super) others: Vec<u8>,
}

/// Walks the headers from the first one on; `None` if there are no records.
pub(super) fn find(bytes: &[u8]) -> Option<Found> {
    let (mut at, mut records, mut crc32) = (0, None, None);
    let (mut others, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for _ in 0..MAX_MEMBERS {
        let Some(member) = Member::at(bytes, at) else { break };
        let end = bytes.len().min(member.content.end);
        let is_whole = end == member.content.end;
        if member.name == PERF_DATA.as_bytes() {
            // Unhitch does not compress records, so this is not a save that was interrupted.
            if member.method != 0 {
                return None;
            }
            records = Some(member.content.start..end);
            crc32 = is_whole.then_some(member.crc32);
        } else if is_whole && others.len() + (end - at) <= MAX_COPIED_LEN {
            let offset = u32::try_from(others.len()).ok()?;
            let header = &bytes[at..at + LOCAL_LEN];
            directory.extend_from_slice(b"PK\x01\x02\x14\x00");
            directory.extend_from_slice(&header[4..28]);
            // No extra field, no comment, the first disk, no attributes.
            directory.extend_from_slice(&[0; 12]);
            directory.extend_from_slice(&offset.to_le_bytes());
            directory.extend_from_slice(member.name);
            others.extend_from_slice(&bytes[at..end]);
            count += 1;
        }
        at = end;
    }
    let (start, len) = (u32::try_from(others.len()).ok()?, u32::try_from(directory.len()).ok()?);
    others.append(&mut directory);
    others.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    others.extend_from_slice(&[count.to_le_bytes(), count.to_le_bytes()].concat());
    others.extend_from_slice(&[len.to_le_bytes(), start.to_le_bytes()].concat());
    others.extend_from_slice(&[0, 0]);
    Some(Found { records: records?, crc32, others })
}

/// A member by its header.
struct Member<'a> {
    name: &'a [u8],
    method: u16,
    crc32: u32,
    /// Where the content is; may reach beyond the end of the file.
    content: Range<usize>,
}

impl<'a> Member<'a> {
    fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let header =
            bytes.get(at..)?.get(..LOCAL_LEN).filter(|header| header.starts_with(LOCAL))?;
        let u16_at = |offset: usize| u16::from_le_bytes([header[offset], header[offset + 1]]);
        let u32_at = |offset: usize| {
            u32::from_le_bytes([
                header[offset],
                header[offset + 1],
                header[offset + 2],
                header[offset + 3],
            ])
        };
        let (name_len, extra_len) = (usize::from(u16_at(26)), usize::from(u16_at(28)));
        let rest = bytes.get(at + LOCAL_LEN..)?;
        let (name, extra) = (rest.get(..name_len)?, rest.get(name_len..)?.get(..extra_len)?);
        let len = match u32_at(18) {
            ZIP64 => long_len(extra)?,
            len => usize::try_from(len).ok()?,
        };
        let start = at + LOCAL_LEN + name_len + extra_len;
        Some(Self {
            name,
            method: u16_at(8),
            crc32: u32_at(14),
            content: start..start.checked_add(len)?,
        })
    }
}

/// The packed length in a zip64 extra field, which follows the unpacked length.
fn long_len(mut extra: &[u8]) -> Option<usize> {
    loop {
        let (id, len) = (
            u16::from_le_bytes([*extra.first()?, *extra.get(1)?]),
            u16::from_le_bytes([*extra.get(2)?, *extra.get(3)?]),
        );
        let field = extra.get(4..)?.get(..usize::from(len))?;
        if id == 1 {
            return usize::try_from(u64::from_le_bytes(field.get(8..16)?.try_into().ok()?)).ok();
        }
        extra = extra.get(4 + usize::from(len)..)?;
    }
}
