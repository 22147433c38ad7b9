//! Which reader a file is for.

use super::{gzip, perf_script, perfetto, trace_dat};
use crate::Error;
use unhitch_model::{Format, Trace};

/// A reader of a whole file. Its second argument is called with each part of the file that is no
/// longer needed.
pub(crate) type Load = fn(&[u8], &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error>;

/// The format of a file of another tool, by the first 64 KiB of its content, or more.
pub fn format_of(head: &[u8]) -> Option<Format> {
    if gzip::is_gzip(head) {
        return format_of(&gzip::begin(head)?);
    }
    if trace_dat::is_trace_dat(head) {
        Some(Format::TraceDat)
    } else if perfetto::is_perfetto(head) {
        Some(Format::Perfetto)
    } else if perf_script::is_perf_script(head) {
        Some(Format::PerfScript)
    } else {
        None
    }
}

/// The reader of a file, by its content.
pub(crate) fn of(bytes: &[u8]) -> Option<Load> {
    if gzip::is_gzip(bytes) { Some(compressed) } else { plain(bytes) }
}

fn plain(bytes: &[u8]) -> Option<Load> {
    match format_of(bytes)? {
        _ if gzip::is_gzip(bytes) => None,
        Format::TraceDat => Some(trace_dat::load),
        Format::Perfetto => Some(perfetto::load),
        Format::PerfScript => Some(perf_script::load),
        _ => None,
    }
}

/// Reads a file that was compressed as a whole.
fn compressed(bytes: &[u8], _release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    let content = gzip::unpack(bytes)?;
    match plain(&content) {
        Some(load) => load(&content, &|_| {}),
        None => Err(Error::Unsupported(
            "a file compressed by gzip is read if a trace of Perfetto, trace-cmd or perf script is \
             in it, which is not so here"
                .to_owned(),
        )),
    }
}
