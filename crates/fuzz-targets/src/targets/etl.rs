//! Windows traces: whole files, events in otherwise valid buffers, and single event descriptions.

use crate::check;
use std::sync::LazyLock;
use unhitch_etl_writer::{Options, Writer};
use unhitch_formats::etl::{every_event, fuzzing};
use unhitch_formats::read_bytes;
use unhitch_model::Trace;

pub(super) fn file(bytes: &[u8]) {
    // Other formats have their own targets, and no Windows trace begins like them.
    if !bytes.starts_with(b"PK") && !bytes.starts_with(b"PERFILE2") {
        read(bytes, |bytes| read_bytes(bytes).ok());
    }
}

fn read(bytes: &[u8], with: impl Fn(&[u8]) -> Option<Trace>) {
    let Some(trace) = with(bytes) else { return };
    check::trace(&trace);
    if bytes.len().is_multiple_of(8) && bytes.last().is_some_and(|byte| byte % 4 == 0) {
        check::same(&trace, &with(bytes).expect("what was read once is read again"));
    }
}

/// The beginnings of files without events, for both pointer widths: all bytes before the first
/// event.
static HEADS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [4, 8].map(|pointer_width| {
        Writer::new(Options { pointer_width, buffer_bytes: HEAD_LEN as u32, ..Options::default() })
            .finish()
    })
});
/// Length of a buffer for the event that every file begins with, bytes.
const HEAD_LEN: usize = 1024;
const BUFFER_HEADER_LEN: usize = 0x48;

/// The first byte selects the kind of buffers, the second how much of the rest is in the first
/// one.
pub(super) fn events(bytes: &[u8]) {
    let Some((&[flags, cut], events)) = bytes.split_first_chunk::<2>() else { return };
    let [narrow, wide] = &*HEADS;
    let mut file = if flags & 1 == 0 { wide.clone() } else { narrow.clone() };
    let (first, second) = events.split_at(events.len() * usize::from(cut) / 256 / 8 * 8);
    buffer(&mut file, 0, first);
    buffer(&mut file, 1, second);
    if flags & 2 == 0 {
        read(&file, |bytes| read_bytes(bytes).ok());
    } else {
        // Keeps the payload of every event, so that all fields of all kinds are read.
        read(&file, |bytes| every_event(&[bytes]).ok());
    }
}

fn buffer(out: &mut Vec<u8>, cpu: u16, events: &[u8]) {
    let len = (BUFFER_HEADER_LEN + events.len()) as u32;
    let at = out.len();
    out.resize(at + BUFFER_HEADER_LEN, 0);
    let mut put = |offset: usize, bytes: &[u8]| {
        out[at + offset..at + offset + bytes.len()].copy_from_slice(bytes)
    };
    [0, 4, 8, 0x30].into_iter().for_each(|offset| put(offset, &len.to_le_bytes()));
    put(0x28, &cpu.to_le_bytes());
    // The CPU is the word's.
    put(0x34, &0x20_u16.to_le_bytes());
    out.extend_from_slice(events);
}

pub(super) fn manifest(bytes: &[u8]) {
    let xml = String::from_utf8_lossy(bytes);
    assert_eq!(fuzzing::manifest(&xml), fuzzing::manifest(&xml), "two readings differ");
}

/// The first byte selects the reader for the rest.
pub(super) fn schema(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let fields = match kind % 4 {
        0 => fuzzing::trace_logging(rest),
        1 => fuzzing::event_info(rest),
        2 => fuzzing::map_info(rest),
        _ => fuzzing::provider(rest).map(|name| (name, 0)),
    };
    assert!(
        fields.is_none_or(|(name, fields)| name.len() <= 4 * rest.len() && fields <= rest.len()),
        "more than there are bytes"
    );
}

/// The first two bytes are the unpacked length. Input that cannot be unpacked is compressed and
/// must come back unchanged.
pub(super) fn xpress(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return };
    let len = usize::from(u16::from_le_bytes(*len));
    let (unpacked, result) = fuzzing::unpack(rest, len);
    assert!(
        unpacked.len() <= len && (result.is_err() || unpacked.len() == len),
        "of another length"
    );
    assert!(
        result.is_ok_and(|()| true) || result.is_err_and(|at| at <= rest.len()),
        "damaged behind the end"
    );
    // More bytes never change what fewer bytes unpacked to.
    let (less, _) = fuzzing::unpack(rest, len / 2);
    assert!(
        unpacked.len() < less.len() || unpacked.starts_with(&less),
        "the same bytes unpack to something else"
    );
    if len % 16 == 0 {
        let packed = unhitch_etl_writer::compress(rest);
        assert_eq!(
            fuzzing::unpack(&packed, rest.len()),
            (rest.to_vec(), Ok(())),
            "it does not come back"
        );
    }
}
