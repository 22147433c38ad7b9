//! The layout of both versions of the file: one part after the other, or sections.

use super::header::{Buffer, Header, option};
use crate::Error;
use crate::cursor::Cursor;
use crate::import::unpack::Budget;
use std::borrow::Cow;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// How the file's parts are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Packing {
    #[default]
    None,
    Zlib,
    Zstd,
}

impl Packing {
    /// Unpacks one part.
    pub fn unpack(self, packed: &[u8], budget: &mut Budget) -> Option<Vec<u8>> {
        /// What every zstd frame begins with, except trace-cmd's.
        const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
        match self {
            Self::None => None,
            Self::Zlib => budget.zlib(packed),
            Self::Zstd if packed.starts_with(&ZSTD_MAGIC) => budget.zstd(packed),
            Self::Zstd => budget.zstd(&[&ZSTD_MAGIC, packed].concat()),
        }
    }
}

/// True if `bytes` begin as such a file does.
pub(super) fn has_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads all but the pages.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    budget: &mut Budget,
) -> Result<(Header<'a>, Packing), Error> {
    let mut from = Cursor::new(bytes);
    let start = |from: &mut Cursor<'a>| {
        from.bytes(MAGIC.len())?;
        let version = from.c_str()?;
        let order_and_long = from.bytes(2)?;
        Some((version, order_and_long[0], from.u32()?))
    };
    let (version, order, page_size) =
        start(&mut from).ok_or_else(|| Error::truncated("the head of a trace.dat", 0))?;
    if order != 0 {
        let big = "this trace.dat is of a big-endian machine, which Unhitch cannot read";
        return Err(Error::Unsupported(big.to_owned()));
    }
    let mut header = Header { page_size: page_size as usize, ..Header::default() };
    let at = |from: &Cursor<'_>| Error::truncated("the head of a trace.dat", from.position());
    match version {
        b"6" => {
            version_6(bytes, &mut from, &mut header).ok_or_else(|| at(&from))??;
            Ok((header, Packing::None))
        }
        b"7" => {
            let names = from.c_str().zip(from.c_str()).ok_or_else(|| at(&from))?;
            let packing = match names.0 {
                b"none" => Packing::None,
                b"zlib" => Packing::Zlib,
                b"zstd" => Packing::Zstd,
                other => {
                    return Err(Error::Unsupported(format!(
                        "this trace.dat is compressed by {}: only zlib and zstd are read",
                        String::from_utf8_lossy(other)
                    )));
                }
            };
            let first = from.u64().ok_or_else(|| at(&from))?;
            version_7(bytes, first, packing, &mut header, budget)?;
            if !header.buffers_clock.is_empty() {
                header.clock = std::mem::take(&mut header.buffers_clock);
            }
            Ok((header, packing))
        }
        other => Err(Error::Unsupported(format!(
            "this trace.dat has version {}: versions 6 and 7 are read",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Version 6: everything in a fixed order. `None` if it ends early.
fn version_6<'a>(
    bytes: &'a [u8],
    from: &mut Cursor<'a>,
    header: &mut Header<'a>,
) -> Option<Result<(), Error>> {
    header.header_info(from)?;
    header.ftrace_events(from)?;
    header.event_formats(from)?;
    let len = from.u32()?;
    header.kallsyms = from.bytes(len as usize)?.to_vec();
    let len = from.u32()?;
    from.bytes(len as usize)?;
    let len = from.u64()?;
    header.command_lines(from.bytes_u64(len)?);
    let cpus = from.u32()?;
    let mut kind = from.bytes(10)?;
    let mut instances = Vec::new();
    if kind == b"options  \0" {
        loop {
            let id = from.u16()?;
            if id == 0 {
                break;
            }
            let len = from.u32()?;
            let data = from.bytes(len as usize)?;
            match id {
                option::BUFFER => instances.extend(Cursor::new(data).u64()),
                id => header.option(id, data),
            }
        }
        kind = from.bytes(10)?;
    }
    if kind != b"flyrecord\0" {
        let text = "this trace.dat holds a latency tracer's text, and no events";
        return Some(Err(Error::Unsupported(text.to_owned())));
    }
    header.cpus = header.cpus.max(cpus);
    // Each has a place of its own in the file: 16 bytes say where it is.
    let mut parts_left = bytes.len() / 16;
    let mut places = vec![*from];
    let after = |at: u64| bytes.get(usize::try_from(at).ok()?..).map(Cursor::new);
    // Those of an instance have the same head again.
    places.extend(instances.iter().filter_map(|at| {
        let mut from = after(*at)?;
        (from.bytes(10)? == b"flyrecord\0").then_some(from)
    }));
    for mut from in places {
        let mut buffer = Buffer { page_size: header.page_size, is_packed: false, cpus: Vec::new() };
        let cpus = (0..=u16::MAX).take(cpus as usize).take(parts_left);
        for cpu in cpus {
            let (Some(at), Some(len)) = (from.u64(), from.u64()) else { break };
            parts_left -= 1;
            buffer.cpus.extend(part(bytes, at, len).map(|part| (cpu, part)));
        }
        header.buffers.push(buffer);
    }
    Some(Ok(()))
}

/// The bytes from `at` on, at most `len`.
fn part(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    Some(&rest[..usize::try_from(len).unwrap_or(usize::MAX).min(rest.len())])
}

/// A section of version 7: its flags and its content as it is in the file.
fn section(bytes: &[u8], at: u64) -> Option<(u16, &[u8])> {
    let mut from = Cursor::new(bytes.get(usize::try_from(at).ok()?..)?);
    let (_id, flags, _description, len) = (from.u16()?, from.u16()?, from.u32()?, from.u64()?);
    let rest = from.rest();
    Some((flags, &rest[..usize::try_from(len).unwrap_or(usize::MAX).min(rest.len())]))
}

/// A section's flag: its content is compressed.
const IS_PACKED: u16 = 1;

/// The content of a section, unpacked.
fn content<'a>(
    bytes: &'a [u8],
    at: u64,
    packing: Packing,
    budget: &mut Budget,
) -> Option<Cow<'a, [u8]>> {
    let (flags, data) = section(bytes, at)?;
    if flags & IS_PACKED == 0 {
        budget.stored(data.len())?;
        return Some(Cow::Borrowed(data));
    }
    let mut from = Cursor::new(data);
    let (packed_len, _len) = (from.u32()?, from.u32()?);
    let packed = from.bytes(packed_len as usize)?;
    budget.stored(packed.len())?;
    packing.unpack(packed, budget).map(Cow::Owned)
}

/// Version 7: options name the places of all sections.
fn version_7<'a>(
    bytes: &'a [u8],
    first: u64,
    packing: Packing,
    header: &mut Header<'a>,
    budget: &mut Budget,
) -> Result<(), Error> {
    /// Maximum number of sections with options.
    const MAX_SECTIONS: usize = 64;
    let (mut at, mut sections) = (first, 0);
    while at != 0 && sections < MAX_SECTIONS {
        let cut = || Error::truncated("options of a trace.dat", at as usize);
        let options = content(bytes, at, packing, budget).ok_or_else(cut)?;
        let mut from = Cursor::new(&options);
        at = loop {
            let (Some(id), Some(len)) = (from.u16(), from.u32()) else { break 0 };
            let Some(data) = from.bytes(len as usize) else { break 0 };
            if id == 0 {
                break Cursor::new(data).u64().unwrap_or(0);
            }
            one_option(bytes, (id, data), packing, header, budget);
        };
        sections += 1;
    }
    Ok(())
}

fn one_option<'a>(
    bytes: &'a [u8],
    (id, data): (u16, &[u8]),
    packing: Packing,
    header: &mut Header<'a>,
    budget: &mut Budget,
) {
    let mut unpacked = || {
        let at = Cursor::new(data).u64()?;
        content(bytes, at, packing, budget)
    };
    match id {
        option::HEADER_INFO | option::FTRACE_EVENTS | option::EVENT_FORMATS => {
            let Some(content) = unpacked() else { return };
            let mut from = Cursor::new(&content);
            let _whole = match id {
                option::HEADER_INFO => header.header_info(&mut from),
                option::FTRACE_EVENTS => header.ftrace_events(&mut from),
                _ => header.event_formats(&mut from),
            };
        }
        option::KALLSYMS => {
            if let Some(content) = unpacked() {
                let mut from = Cursor::new(&content);
                let text = from.u32().and_then(|len| from.bytes(len as usize));
                header.kallsyms = text.unwrap_or_default().to_vec();
            }
        }
        option::COMMAND_LINES => {
            if let Some(content) = unpacked() {
                let mut from = Cursor::new(&content);
                let text = from.u64().and_then(|len| from.bytes_u64(len));
                header.command_lines(text.unwrap_or_default());
            }
        }
        option::BUFFER => {
            let buffer = buffer(bytes, data, header);
            header.buffers.extend(buffer);
        }
        id => header.option(id, data),
    }
}

/// The option of an instance's pages.
fn buffer<'a>(bytes: &'a [u8], data: &[u8], header: &mut Header<'a>) -> Option<Buffer<'a>> {
    let mut from = Cursor::new(data);
    let at = from.u64()?;
    let _name = from.c_str()?;
    let clock = String::from_utf8_lossy(from.c_str()?).into_owned();
    let page_size = from.u32()? as usize;
    let flags = section(bytes, at).map_or(0, |(flags, _)| flags);
    let mut buffer = Buffer { page_size, is_packed: flags & IS_PACKED != 0, cpus: Vec::new() };
    for _ in 0..from.u32()? {
        let (cpu, at, len) = (from.u32()?, from.u64()?, from.u64()?);
        // trace-cmd counts less than the chunks take; their own lengths say where they end.
        let len = if buffer.is_packed { u64::MAX } else { len };
        let part = part(bytes, at, len);
        buffer.cpus.extend(u16::try_from(cpu).ok().zip(part));
    }
    if !buffer.cpus.is_empty() && header.buffers_clock.is_empty() {
        header.buffers_clock = clock;
    }
    Some(buffer)
}
