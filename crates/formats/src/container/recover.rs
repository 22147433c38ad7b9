//! Finds the members of a container that lacks its directory: its end was cut off, a crash
//! interrupted the adding of names, or the recording was killed or still goes on.
//!
//! Each member follows a [header](super::headers) with its name and length. The members other than
//! the records get a new directory in memory.

use super::headers::{LOCAL_LEN, Member, add_entry, end_of_directory};
use super::members::{PERF_DATA, RINGS};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

/// Maximum number of members that are looked at.
const MAX_MEMBERS: usize = 64;
/// Maximum number of bytes that are copied of them, in all.
const MAX_COPIED_LEN: usize = 512 << 20;
/// Maximum length of a header with name and extra field, in front of the records.
const MAX_HEADER_LEN: u64 = 1 << 10;

/// The members that were found.
pub(super) struct Found {
    pub(super) records: Content,
    pub(super) rings: Option<Content>,
    /// True if the records were still being written.
    pub(super) is_growing: bool,
    /// The other members, as a zip.
    pub(super) others: Vec<u8>,
}

/// The content of a stored member.
pub(super) struct Content {
    /// Where it is, as far as it exists.
    pub(super) range: Range<usize>,
    /// The checksum that it was written with; `None` if its end is missing.
    pub(super) crc32: Option<u32>,
}

/// True if the records are still being written. They are the last member then: what looks like a
/// directory behind their header is data, which a program that was recorded may have made.
pub(super) fn is_growing(mut file: impl Read + Seek) -> bool {
    let mut at = 0;
    for _ in 0..MAX_MEMBERS {
        let mut header = Vec::new();
        let read = file
            .seek(SeekFrom::Start(at))
            .and_then(|_| file.by_ref().take(MAX_HEADER_LEN).read_to_end(&mut header));
        let Some(member) = read.ok().and_then(|_| Member::at(&header, 0)) else { break };
        if member.name == PERF_DATA.as_bytes() {
            return member.is_open;
        }
        at = at.saturating_add(member.content.end as u64);
    }
    false
}

/// Walks the headers from the first one on; `None` if there are no records.
pub(super) fn find(bytes: &[u8]) -> Option<Found> {
    let (mut at, mut records, mut rings, mut is_growing) = (0, None, None, false);
    let (mut others, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for _ in 0..MAX_MEMBERS {
        let Some(member) = Member::at(bytes, at) else { break };
        let is_records = member.name == PERF_DATA.as_bytes();
        let is_open = is_records && member.is_open;
        let end = if is_open { bytes.len() } else { bytes.len().min(member.content.end) };
        let is_whole = end == member.content.end && !is_open;
        let crc32 = is_whole.then_some(member.crc32);
        let content = Content { range: member.content.start.min(end)..end, crc32 };
        if is_records {
            // Unhitch does not compress records, so this is not a save that was interrupted.
            if member.method != 0 {
                return None;
            }
            records = Some(content);
            is_growing = is_open;
        } else if member.name == RINGS.as_bytes() && member.method == 0 {
            rings = Some(content);
        } else if is_whole && others.len() + (end - at) <= MAX_COPIED_LEN {
            let offset = u32::try_from(others.len()).ok()?;
            add_entry(&mut directory, &bytes[at..at + LOCAL_LEN], &member, offset);
            others.extend_from_slice(&bytes[at..end]);
            count += 1;
        }
        at = end;
    }
    let (start, len) = (others.len() as u64, u32::try_from(directory.len()).ok()?);
    others.append(&mut directory);
    others.extend(end_of_directory(count, len, start));
    Some(Found { records: records?, rings, is_growing, others })
}
