//! The layouts of tracepoint samples.
//!
//! Every tracepoint has a `format` text in tracefs (`Documentation/trace/events.rst`, section 2.2)
//! with its id and the offset, size and sign of each field. perf copies these texts into the file
//! ([`TracingData`], `tools/perf/util/trace-event-info.c`, the layout of trace-cmd's version 6).
//! Offsets differ between kernels, so none is assumed.

use crate::{Error, cursor::Cursor};
use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// Where a field lies in the sample's raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Byte offset.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
    /// True for a signed number.
    pub signed: bool,
}

impl Field {
    /// The bytes of the field, if `raw` is long enough.
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        raw.get(self.offset..)?.get(..self.size)
    }

    /// The value of a field of 1, 2, 4 or 8 bytes, sign-extended when it is signed.
    #[inline]
    pub fn value(&self, raw: &[u8]) -> Option<u64> {
        let bytes = self.bytes(raw)?;
        Some(match (bytes, self.signed) {
            (&[a, b, c, d], false) => u64::from(u32::from_le_bytes([a, b, c, d])),
            (&[a, b, c, d], true) => i64::from(i32::from_le_bytes([a, b, c, d])) as u64,
            (&[a, b, c, d, e, f, g, h], _) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (&[a, b], false) => u64::from(u16::from_le_bytes([a, b])),
            (&[a, b], true) => i64::from(i16::from_le_bytes([a, b])) as u64,
            (&[a], false) => u64::from(a),
            (&[a], true) => i64::from(a as i8) as u64,
            _ => return None,
        })
    }
}

/// A tracepoint, as its format text describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Name without system, e.g. `sched_switch`.
    pub name: String,
    /// Its number on the recorded kernel: `config` of the event's attribute.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

impl EventFormat {
    /// Reads a `format` text; `None` if the name or the id is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut format = Self { name: String::new(), id: u64::MAX, fields: Vec::new() };
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
            } else if line.starts_with("field:") {
                format.fields.extend(parse_field(line));
            }
        }
        (!format.name.is_empty() && format.id != u64::MAX).then_some(format)
    }

    /// The field `name`.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut name = None;
    let mut field = Field { offset: usize::MAX, size: 0, signed: false };
    for part in line.split(';').map(str::trim) {
        let Some((key, value)) = part.split_once(':') else { continue };
        match key {
            "field" => {
                name = value
                    .split('[')
                    .next()
                    .and_then(|declared| declared.split_whitespace().next_back())
            }
            "offset" => field.offset = value.parse().ok()?,
            "size" => field.size = value.parse().ok()?,
            "signed" => field.signed = value == "1",
            _ => {}
        }
    }
    (field.offset != usize::MAX).then_some((name?.trim_start_matches('*').to_owned(), field))
}

/// The descriptions that a file carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracingData {
    /// Page size of the machine.
    pub page_size: u32,
    /// `events/header_page` of tracefs.
    pub header_page: String,
    /// `events/header_event` of tracefs.
    pub header_event: String,
    /// System and format text of each tracepoint.
    pub events: Vec<(String, String)>,
}

/// The section starts with a magic, `tracing`, the version, the byte order (little endian) and the
/// length of `long` (8 bytes).
const MAGIC: &[u8] = b"\x17\x08\x44tracing";
const VERSION: &[u8] = b"0.6";
/// Maximum length of a system's name, bytes, since each of its tracepoints gets a copy. No system
/// of the kernel has a name half as long.
const MAX_SYSTEM_LEN: usize = 128;

impl TracingData {
    /// Reads the descriptions of `events` (system, name) from a mounted tracefs. Leaves out those
    /// that do not exist there.
    ///
    /// # Errors
    /// If tracefs is missing or not readable.
    pub fn read_from_tracefs(tracefs: &Path, events: &[(&str, &str)]) -> Result<Self, Error> {
        // The kernel answers only the first read of these two files, so it must be a long one.
        // `fs::read_to_string` begins with 32 bytes.
        let read = |path: &Path| -> Result<String, Error> {
            let mut text = vec![0; 64 << 10];
            let len = fs::File::open(path)
                .and_then(|mut file| file.read(&mut text))
                .map_err(Error::at(path))?;
            Ok(String::from_utf8_lossy(&text[..len]).into_owned())
        };
        let dir = tracefs.join("events");
        let mut data = Self {
            header_page: read(&dir.join("header_page"))?,
            header_event: read(&dir.join("header_event"))?,
            ..Self::default()
        };
        // A page of the ring consists of its header and this field.
        let page = data
            .header_page
            .lines()
            .filter_map(|line| parse_field(line.trim()))
            .find(|(name, _)| name == "data");
        data.page_size = page.map_or(4096, |(_, field)| (field.offset + field.size) as u32);
        for (system, name) in events {
            let path = dir.join(system).join(name).join("format");
            match fs::read_to_string(&path) {
                Ok(text) => data.events.push(((*system).to_owned(), text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::at(&path)(error)),
            }
        }
        Ok(data)
    }

    /// The bytes of the feature section `HEADER_TRACING_DATA`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [MAGIC, VERSION, &[0, 0, 8]].concat();
        out.extend_from_slice(&self.page_size.to_le_bytes());
        for (name, text) in
            [("header_page", &self.header_page), ("header_event", &self.header_event)]
        {
            out.extend_from_slice(name.as_bytes());
            out.push(0);
            put_file(&mut out, text);
        }
        // No ftrace events.
        out.extend_from_slice(&[0; 4]);
        let mut systems: Vec<&str> =
            self.events.iter().map(|(system, _)| system.as_str()).collect();
        systems.sort_unstable();
        systems.dedup();
        out.extend_from_slice(&(systems.len() as u32).to_le_bytes());
        for system in systems {
            out.extend_from_slice(system.as_bytes());
            out.push(0);
            let texts: Vec<&String> =
                self.events.iter().filter(|(of, _)| of == system).map(|(_, text)| text).collect();
            out.extend_from_slice(&(texts.len() as u32).to_le_bytes());
            texts.into_iter().for_each(|text| put_file(&mut out, text));
        }
        // No kernel symbols, no printk formats, no saved command lines.
        out.extend_from_slice(&[0; 4 + 4 + 8]);
        out
    }

    /// Reads the bytes of a feature section up to the end of the tracepoints.
    ///
    /// # Errors
    /// If the section ends early or does not have this layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        if !bytes.starts_with(MAGIC) {
            let found = format!("{:02x?}", &bytes[..bytes.len().min(MAGIC.len())]);
            return Err(Error::Damaged {
                expected: "the tracepoint descriptions' magic",
                found,
                offset: 0,
            });
        }
        Self::read(&mut cursor)
            .ok_or_else(|| Error::truncated("tracepoint descriptions", cursor.position()))
    }

    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        from.bytes(MAGIC.len())?;
        from.c_str()?;
        let _byte_order_and_long_size = from.bytes(2)?;
        let mut data = Self { page_size: from.u32()?, ..Self::default() };
        from.c_str()?;
        data.header_page = take_file(from)?;
        from.c_str()?;
        data.header_event = take_file(from)?;
        for _ in 0..from.u32()? {
            take_file(from)?;
        }
        for _ in 0..from.u32()? {
            let system = from.c_str().filter(|system| system.len() <= MAX_SYSTEM_LEN)?;
            let system = String::from_utf8_lossy(system).into_owned();
            for _ in 0..from.u32()? {
                let text = take_file(from)?;
                data.events.push((system.clone(), text));
            }
        }
        Some(data)
    }
}

fn put_file(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_file(from: &mut Cursor<'_>) -> Option<String> {
    let len = from.u64()?;
    Some(String::from_utf8_lossy(from.bytes_u64(len)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: sched_switch\nID: 372\nformat:\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:void * lock_addr;\toffset:32;\tsize:8;\tsigned:0;\n\nprint fmt: \"field:x; offset:9\", REC->x\n";

    #[test]
    fn parses_a_format() {
        let format = EventFormat::parse(TEXT).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
        assert_eq!(format.field("prev_comm"), Some(Field { offset: 8, size: 16, signed: false }));
        assert_eq!(format.field("lock_addr").unwrap().offset, 32);
        let mut raw = [0; 28];
        raw[24..].copy_from_slice(&(-1i32).to_le_bytes());
        assert_eq!(format.field("prev_pid").unwrap().value(&raw), Some(u64::MAX));
        assert_eq!(format.field("prev_pid").unwrap().value(&raw[..27]), None);
        assert_eq!(EventFormat::parse("name: x\nID: y\n"), None);
    }

    #[test]
    fn tracing_data_round_trips_and_survives_truncation() {
        let data = TracingData {
            page_size: 4096,
            header_page: "page".to_owned(),
            header_event: "event".to_owned(),
            events: vec![
                ("lock".to_owned(), "a".to_owned()),
                ("sched".to_owned(), TEXT.to_owned()),
            ],
        };
        let bytes = data.encode();
        assert_eq!(TracingData::decode(&bytes).unwrap(), data);
        for len in 0..bytes.len() - 16 {
            assert!(TracingData::decode(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_systems_name_is_not_multiplied() {
        let data = TracingData {
            events: vec![(String::new(), String::new()); 1000],
            ..TracingData::default()
        };
        let bytes = data.encode();
        // The one system, which has no name: before its NUL and the number of its tracepoints.
        let at = bytes.len() - (4 + 4 + 8) - 8 * 1000 - 4 - 1;
        let named = |len: usize| [&bytes[..at], "n".repeat(len).as_bytes(), &bytes[at..]].concat();
        assert_eq!(TracingData::decode(&named(100)).unwrap().events.len(), 1000);
        assert!(TracingData::decode(&named(100_000)).is_err());
    }
}
