//! The header of a `perf.data`: where everything is.
//!
//! `struct perf_file_header` of `tools/perf/util/header.h`. perf fills in the size of the data
//! last. If the recorder was killed, the size is 0 and there are no feature sections, but the
//! records are complete.

use super::{
    attr::EventAttr,
    description::EventDesc,
    feature::{self, FileDescription},
};
use crate::{Error, cursor::Cursor};
use unhitch_model::Warnings;

/// `"PERFILE2"`, the first eight bytes of a file of this machine's byte order.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";
/// Length of a file's header, bytes.
pub(crate) const FILE_HEADER_LEN: u64 = 104;
/// Length of a pipe's header, bytes. Only records follow it.
const PIPE_HEADER_LEN: u64 = 16;
/// Length of the offset and length behind each attribute, bytes.
const SECTION_LEN: u64 = 16;

/// The records, and what the header says about them.
pub(crate) struct Header<'a> {
    pub about: FileDescription,
    pub data: &'a [u8],
}

impl<'a> Header<'a> {
    pub(crate) fn read(bytes: &'a [u8], warnings: &mut Warnings) -> Result<Self, Error> {
        let mut from = Cursor::new(bytes);
        let magic = from.bytes(MAGIC.len()).ok_or_else(|| wrong_magic(bytes))?;
        if magic != MAGIC {
            return Err(wrong_magic(magic));
        }
        let len = from.u64().ok_or_else(|| Error::truncated("the header of a perf.data", 8))?;
        if len == PIPE_HEADER_LEN {
            return Ok(Self { about: FileDescription::default(), data: from.rest() });
        }
        if len < FILE_HEADER_LEN {
            let expected = "a header length of 16 (pipe) or at least 104 (file)";
            return Err(Error::Damaged { expected, found: len.to_string(), offset: 8 });
        }
        Self::read_file(bytes, from, warnings)
            .ok_or_else(|| Error::truncated("the header of a perf.data", bytes.len()))?
    }

    /// `None` if the header itself is cut off.
    fn read_file(
        bytes: &'a [u8],
        mut from: Cursor<'a>,
        warnings: &mut Warnings,
    ) -> Option<Result<Self, Error>> {
        let attr_len = from.u64()?;
        let (attrs_at, attrs_len) = (from.u64()?, from.u64()?);
        let (data_at, data_len) = (from.u64()?, from.u64()?);
        let _event_types = (from.u64()?, from.u64()?);
        let bits = [from.u64()?, from.u64()?, from.u64()?, from.u64()?];

        let mut about = FileDescription::default();
        match read_attrs(bytes, attr_len, attrs_at, attrs_len, warnings) {
            Ok(events) => about.events = events,
            Err(error) => return Some(Err(error)),
        }
        let rest = usize::try_from(data_at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
        let data = match usize::try_from(data_len) {
            Ok(0) => {
                warnings.add(
                    "the recorder was killed before it finished the file: names of events and \
                     facts about the machine are missing",
                );
                rest
            }
            Ok(len) if len <= rest.len() => &rest[..len],
            _ => {
                warnings.add(format!(
                    "the file is cut off: it has {} of {data_len} bytes of records",
                    rest.len()
                ));
                rest
            }
        };
        if data.len() as u64 == data_len {
            let mut table = Cursor::new(&rest[data.len()..]);
            for feature in (0..feature::COUNT)
                .filter(|feature| bits[*feature as usize / 64] >> (feature % 64) & 1 != 0)
            {
                let section = read_section(bytes, &mut table);
                if section.and_then(|section| about.read_section(feature, section)).is_none() {
                    warnings.add(format!(
                        "feature section {feature} of the file is damaged and was left out"
                    ));
                }
            }
        }
        Some(Ok(Self { about, data }))
    }
}

fn wrong_magic(bytes: &[u8]) -> Error {
    let magic = bytes.get(..MAGIC.len()).unwrap_or(bytes);
    let swapped: Vec<u8> = MAGIC.iter().rev().copied().collect();
    match magic {
        magic if magic == swapped => Error::Unsupported(
            "perf.data of a big-endian machine: only little-endian recordings can be read"
                .to_owned(),
        ),
        b"PERFFILE" => Error::Unsupported(
            "perf.data of version 1 (before Linux 3.6) cannot be read".to_owned(),
        ),
        b"" => {
            Error::Unknown { expected: "PERFILE2", found: "an empty file".to_owned(), offset: 0 }
        }
        _ => Error::Unknown {
            expected: "the beginning of a .hitch, perf.data, .etl, Perfetto or trace.dat file",
            found: "something else".to_owned(),
            offset: 0,
        },
    }
}

/// Reads an offset and a length from a table; returns what they point at.
fn read_section<'a>(bytes: &'a [u8], table: &mut Cursor<'_>) -> Option<&'a [u8]> {
    part(bytes, table.u64()?, table.u64()?)
}

fn part(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(at).ok()?..)?.get(..usize::try_from(len).ok()?)
}

fn read_attrs(
    bytes: &[u8],
    attr_len: u64,
    attrs_at: u64,
    attrs_len: u64,
    warnings: &mut Warnings,
) -> Result<Vec<EventDesc>, Error> {
    let damaged = |expected, found: u64, offset| Error::Damaged {
        expected,
        found: found.to_string(),
        offset,
    };
    let entry = usize::try_from(attr_len).unwrap_or(usize::MAX);
    if entry < EventAttr::MIN_LEN + SECTION_LEN as usize || attr_len > attrs_len {
        return Err(damaged("an attribute length of at least 80", attr_len, 16));
    }
    let attrs = part(bytes, attrs_at, attrs_len).ok_or_else(|| {
        if attrs_at < bytes.len() as u64 {
            damaged("attributes that end within the file (their length)", attrs_len, 32)
        } else {
            damaged("attributes that begin within the file (their position)", attrs_at, 24)
        }
    })?;
    let mut events = Vec::new();
    // No honest file has more ids than it has bytes for them. A hostile one may point at the same
    // bytes again and again.
    let mut ids_left = bytes.len() / 8;
    for bytes_of_event in attrs.chunks_exact(entry).take(feature::MAX_EVENTS) {
        let (attr, ids) = bytes_of_event.split_at(entry - SECTION_LEN as usize);
        let ids = match read_section(bytes, &mut Cursor::new(ids)) {
            Some(ids) if ids.len() / 8 <= ids_left => ids.as_chunks::<8>().0,
            _ => {
                warnings.add("the ids of an event lie outside the file, or overlap those of other events: they were left out");
                &[]
            }
        };
        ids_left -= ids.len();
        let ids = ids.iter().map(|id| u64::from_le_bytes(*id)).collect();
        events.push(EventDesc { name: String::new(), attr: EventAttr::decode(attr)?, ids });
    }
    Ok(events)
}
