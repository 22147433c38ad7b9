//! The headers in front of a zip's members, and the directory that repeats them.
//!
//! Format: APPNOTE.TXT 4.3.7 and 4.3.12 to 4.3.16. The directory is what makes a file a zip. It is
//! written last, so a file that is still growing, or was cut off, has only the headers.

use std::ops::Range;

const LOCAL: &[u8; 4] = b"PK\x03\x04";
/// Length of a header without the name and the extra field.
pub(super) const LOCAL_LEN: usize = 30;
/// This length means that the real one is in the extra field (4.5.3).
const IN_EXTRA: u32 = u32::MAX;
/// Flag of a member whose lengths are not in its header (4.4.4, bit 3).
const OPEN: u16 = 1 << 3;
/// The extra field with 64-bit lengths: its id and its length.
const LONG_LENGTHS: [u16; 2] = [1, 16];
/// The extra field that aligns content, as Android's zipalign writes it: the alignment, then zeros.
const PADDING: u16 = 0xd935;

/// A member by its header.
pub(super) struct Member<'a> {
    pub(super) name: &'a [u8],
    pub(super) extra: &'a [u8],
    pub(super) method: u16,
    pub(super) crc32: u32,
    /// Where the content is; may reach beyond the end of the file.
    pub(super) content: Range<usize>,
    /// True if it is stored, and its length was not known when the header was written.
    pub(super) is_open: bool,
}

impl<'a> Member<'a> {
    /// The member whose header is at `at`.
    pub(super) fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
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
            IN_EXTRA => long_len(extra)?,
            len => usize::try_from(len).ok()?,
        };
        let start = at + LOCAL_LEN + name_len + extra_len;
        Some(Self {
            name,
            extra,
            method: u16_at(8),
            crc32: u32_at(14),
            content: start..start.checked_add(len)?,
            is_open: u16_at(6) & OPEN != 0 && u16_at(8) == 0 && len == 0,
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
        if id == LONG_LENGTHS[0] {
            return usize::try_from(u64::from_le_bytes(field.get(8..16)?.try_into().ok()?)).ok();
        }
        extra = extra.get(4 + usize::from(len)..)?;
    }
}

/// The header of a stored member that may be of any length. It ends at a multiple of 8 if it is
/// written `at` that position. `written`: length and checksum of the content, once they are known.
pub(super) fn stored(name: &str, at: u64, written: Option<(u64, u32)>) -> Vec<u8> {
    let (len, crc32) = written.unwrap_or_default();
    let flags = if written.is_none() { OPEN } else { 0 };
    let before_padding = at + (LOCAL_LEN + name.len() + 20 + 6) as u64;
    let padding = (before_padding.next_multiple_of(8) - before_padding) as u16;
    let mut out = LOCAL.to_vec();
    // Version 4.5, which has 64-bit lengths; not compressed; no time, on 1 January 1980.
    put(&mut out, &[45, flags, 0, 0, 0x21]);
    out.extend(crc32.to_le_bytes());
    out.extend([IN_EXTRA.to_le_bytes(), IN_EXTRA.to_le_bytes()].concat());
    put(&mut out, &[name.len() as u16, 20 + 6 + padding]);
    out.extend(name.as_bytes());
    put(&mut out, &LONG_LENGTHS);
    out.extend([len.to_le_bytes(), len.to_le_bytes()].concat());
    put(&mut out, &[PADDING, 2 + padding, 8]);
    out.resize(out.len() + usize::from(padding), 0);
    out
}

fn put(out: &mut Vec<u8>, numbers: &[u16]) {
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
}

/// Adds a member's entry to a directory. `header` is the member's own, without name and extra
/// field; it is at `offset`.
pub(super) fn add_entry(directory: &mut Vec<u8>, header: &[u8], member: &Member<'_>, offset: u32) {
    directory.extend_from_slice(b"PK\x01\x02\x2d\x00");
    directory.extend_from_slice(header.get(4..28).unwrap_or_default());
    directory.extend_from_slice(&(member.extra.len() as u16).to_le_bytes());
    // No comment, the first disk, no attributes.
    directory.extend_from_slice(&[0; 10]);
    directory.extend_from_slice(&offset.to_le_bytes());
    directory.extend_from_slice(member.name);
    directory.extend_from_slice(member.extra);
}

/// What follows a directory of `count` entries and `len` bytes that is at `at`.
pub(super) fn end_of_directory(count: u16, len: u32, at: u64) -> Vec<u8> {
    let (mut out, short) = (Vec::new(), u32::try_from(at).unwrap_or(IN_EXTRA));
    if short == IN_EXTRA {
        // The same with 64-bit numbers, and where that is.
        out.extend_from_slice(b"PK\x06\x06");
        out.extend(44_u64.to_le_bytes());
        out.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let numbers = [u64::from(count), u64::from(count), u64::from(len), at];
        numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        out.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        out.extend((at + u64::from(len)).to_le_bytes());
        out.extend([1, 0, 0, 0]);
    }
    out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    out.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    out.extend([len.to_le_bytes(), short.to_le_bytes()].concat());
    out.extend([0, 0]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read, Seek, SeekFrom};
    use zip::ZipArchive;

    /// A file with zeros between its beginning and its end, which nobody needs to store.
    struct Sparse {
        begin: Vec<u8>,
        end: Vec<u8>,
        end_at: u64,
        at: u64,
    }

    impl Read for Sparse {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let from = |bytes: &[u8], start: u64, at: u64| {
                let offset = usize::try_from(at.checked_sub(start)?).ok()?;
                bytes.get(offset..).filter(|rest| !rest.is_empty()).map(<[u8]>::to_vec)
            };
            let stored = from(&self.end, self.end_at, self.at);
            let stored = stored.or_else(|| from(&self.begin, 0, self.at));
            let zeros = self.end_at.saturating_sub(self.at).min(out.len() as u64) as usize;
            let stored = stored.unwrap_or_else(|| vec![0; zeros]);
            let len = stored.len().min(out.len());
            out[..len].copy_from_slice(&stored[..len]);
            self.at += len as u64;
            Ok(len)
        }
    }

    impl Seek for Sparse {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            let len = self.end_at + self.end.len() as u64;
            let at = match to {
                SeekFrom::Start(at) => Some(at),
                SeekFrom::Current(by) => self.at.checked_add_signed(by),
                SeekFrom::End(by) => len.checked_add_signed(by),
            };
            self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
            Ok(self.at)
        }
    }

    #[test]
    fn members_of_any_length_are_found() {
        for len in [0, 5, u64::from(u32::MAX) - 1, u64::from(u32::MAX), 5 << 30, 1 << 45] {
            let begin = stored("perf.data", 0, Some((len, 7)));
            assert_eq!(begin.len() % 8, 0);
            let member = Member::at(&begin, 0).unwrap();
            assert!(!member.is_open && member.content.len() as u64 == len);
            let mut end = Vec::new();
            add_entry(&mut end, &begin[..LOCAL_LEN], &member, 0);
            let end_at = begin.len() as u64 + len;
            let end_len = end.len() as u32;
            end.extend(end_of_directory(1, end_len, end_at));
            let mut zip = ZipArchive::new(Sparse { begin, end, end_at, at: 0 }).unwrap();
            assert_eq!(zip.central_directory_start(), end_at);
            let member = zip.by_name("perf.data").unwrap();
            assert_eq!((member.size(), member.crc32()), (len, 7));
        }
        let open = stored("perf.data", 3, None);
        assert_eq!((open.len() + 3) % 8, 0);
        assert!(Member::at(&open, 0).is_some_and(|member| member.is_open));
    }
}
