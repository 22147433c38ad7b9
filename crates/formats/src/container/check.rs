//! Checks whether a container's members are what was written: the zip has a CRC-32 of each
//! (APPNOTE.TXT, 4.4.7).
//!
//! A damaged member is reported by name, and what can still be read of it is used. One flipped bit
//! in 200 MiB of records is no reason to lose a hang that cannot be reproduced, but it must be
//! reported.

use super::members;
use rayon::prelude::*;
use std::io::{Cursor, Read};
use unhitch_model::Warnings;
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// A zip file in memory.
pub(super) type Zip<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// Maximum number of bytes that a member other than the records is unpacked to.
const MAX_MEMBER_LEN: u64 = 512 << 20;
/// Maximum length of unpacked content: this many times its packed length, or the second number of
/// bytes if that is more. Half-empty buffers compress well, events 5 to 8 times, JSON 10 times.
/// A higher ratio means a file made to fill the reader's memory.
const MAX_GROWTH: (u64, u64) = (16, 32 << 20);
/// Maximum number of bytes, in all, that members which no reader uses are unpacked to for a check.
const MAX_UNREAD_LEN: u64 = 64 << 20;
/// Maximum number of members whose names are compared and whose content is checked.
const MAX_MEMBERS: usize = 1024;
/// Length of a member's local header up to the name, and where it has the name's length, bytes.
const HEADER_LEN: usize = 30;
const NAME_LEN_AT: usize = 26;

/// The CRC-32 of mapped bytes, computed on all cores. `release` drops pages that are done.
pub(super) fn crc32(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> u32 {
    /// Bytes per sum: enough that joining the sums costs nothing, few enough for a core's cache.
    const PART_LEN: usize = 1 << 20;
    let sum = |part: &[u8]| {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(part);
        release(part);
        hasher
    };
    let join = |mut left: crc32fast::Hasher, right: crc32fast::Hasher| {
        left.combine(&right);
        left
    };
    bytes.par_chunks(PART_LEN).map(sum).reduce(crc32fast::Hasher::new, join).finalize()
}

/// The warning for a member whose bytes are not those that were written.
pub(super) fn damaged(name: &str, why: &str) -> String {
    format!(
        "{name} in the trace file is damaged ({why}): what could be read of it is used, and may be \
         wrong"
    )
}

/// Compares the checksum of a member's bytes with the one that it was written with.
pub(super) fn compare(name: &str, written: u32, found: u32, warnings: &mut Warnings) {
    if written != found {
        let why = format!("its checksum is {found:08x}, but was {written:08x} when it was written");
        warnings.add(damaged(name, &why));
    }
}

/// Where the bytes of a member of the zip `bytes` are, as far as they exist; `None` if they are not
/// there as they are, but packed.
pub(super) fn stored<'a>(entry: &ZipFile<'_, impl Read>, bytes: &'a [u8]) -> Option<&'a [u8]> {
    if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
        return None;
    }
    let start = bytes.get(usize::try_from(entry.data_start()?).ok()?..).unwrap_or_default();
    let len = usize::try_from(entry.compressed_size()).unwrap_or(usize::MAX);
    Some(start.get(..len).unwrap_or(start))
}

/// Maximum number of bytes that `packed_len` bytes may be unpacked to; never more than `limit`.
pub(super) fn allowed(packed_len: u64, limit: u64) -> u64 {
    packed_len.saturating_mul(MAX_GROWTH.0).max(MAX_GROWTH.1).min(limit)
}

/// The warning for a member that is longer than [`allowed`].
pub(super) fn too_long(name: &str, allowed: u64) -> String {
    format!(
        "{name} in the trace file unpacks to more than {} MiB, which is too much for its packed \
         length: the rest is left out",
        allowed >> 20
    )
}

/// The bytes of a member, as far as it can be unpacked; `None` if there is none. Damage goes to
/// `warnings`.
pub(super) fn member(zip: &mut Zip<'_>, name: &str, warnings: &mut Warnings) -> Option<Vec<u8>> {
    let entry = match zip.by_name(name) {
        Ok(entry) => entry,
        Err(ZipError::FileNotFound) => return None,
        Err(error) => {
            warnings
                .add(format!("{name} in the trace file cannot be read ({error}): it is left out"));
            return None;
        }
    };
    let mut bytes = Vec::new();
    let allowed = allowed(entry.compressed_size(), MAX_MEMBER_LEN);
    match entry.take(allowed).read_to_end(&mut bytes) {
        Err(error) => warnings.add(damaged(name, &error.to_string().to_lowercase())),
        Ok(_) if bytes.len() as u64 == allowed => warnings.add(too_long(name, allowed)),
        Ok(_) => {}
    }
    Some(bytes)
}

/// Checks the members that no reader uses, such as `lab.json`.
pub(super) fn unread(zip: &mut Zip<'_>, warnings: &mut Warnings) {
    let mut left = MAX_UNREAD_LEN;
    for index in 0..zip.len().min(MAX_MEMBERS) {
        let Ok(entry) = zip.by_index(index) else {
            warnings.add(format!("member {} of the trace file cannot be read", index + 1));
            continue;
        };
        let name = entry.name().map(|name| name.into_owned()).unwrap_or_default();
        if members::KNOWN.contains(&name.as_str()) || entry.is_dir() {
            continue;
        }
        match std::io::copy(&mut entry.take(left), &mut std::io::sink()) {
            Ok(len) => left -= len,
            Err(error) => warnings.add(format!(
                "{name} in the trace file is damaged ({error}); unhitch does not read it, so \
                 nothing else is affected"
            )),
        }
        if left == 0 {
            warnings.add(format!(
                "{name} in the trace file is too long to be checked for damage; unhitch does not \
                 read it, so nothing else is affected"
            ));
            return;
        }
    }
}

/// Compares the names before the members' bytes with those in the directory at the end. If they
/// differ, one of them is damaged, and a member may seem to be missing.
pub(super) fn names(zip: &mut Zip<'_>, bytes: &[u8], warnings: &mut Warnings) {
    for index in 0..zip.len().min(MAX_MEMBERS) {
        let Ok(entry) = zip.by_index_raw(index) else { continue };
        let local = || {
            let header = bytes.get(usize::try_from(entry.header_start()).ok()?..)?;
            let len =
                u16::from_le_bytes([*header.get(NAME_LEN_AT)?, *header.get(NAME_LEN_AT + 1)?]);
            header.get(HEADER_LEN..)?.get(..usize::from(len))
        };
        let local = local().unwrap_or_default();
        if local != entry.name_raw() {
            let (one, other) = (
                String::from_utf8_lossy(entry.name_raw()).into_owned(),
                String::from_utf8_lossy(local),
            );
            warnings.add(format!(
                "the trace file is damaged: a member is called {one:?} in the zip's directory, \
                 but {other:?} in its own header"
            ));
        }
    }
}
