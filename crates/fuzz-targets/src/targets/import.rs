//! Traces of other tools: Perfetto, trace-cmd, `perf script`, CTF.

use crate::check;
use unhitch_formats::import::{ctf as reader, format_of};
use unhitch_formats::{Error, read_bytes};
use unhitch_model::{Format, Trace};

pub(super) fn perfetto(bytes: &[u8]) {
    of(Format::Perfetto, bytes);
}

pub(super) fn trace_dat(bytes: &[u8]) {
    of(Format::TraceDat, bytes);
}

pub(super) fn perf_script(bytes: &[u8]) {
    of(Format::PerfScript, bytes);
}

/// The metadata, a NUL, and a file of events.
pub(super) fn ctf(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (metadata, events) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    twice(bytes, || reader::load(metadata, &[events], &|_| {}));
}

/// Other formats have targets of their own.
fn of(format: Format, bytes: &[u8]) {
    if format_of(bytes) == Some(format) {
        twice(bytes, || read_bytes(bytes));
    }
}

fn twice(bytes: &[u8], read: impl Fn() -> Result<Trace, Error>) {
    let Ok(trace) = read() else { return };
    check::trace(&trace);
    // A difference shows for many inputs, so a fraction of them is enough.
    if bytes.len().is_multiple_of(8) {
        check::same(&trace, &read().expect("what was read once is read again"));
    }
}
