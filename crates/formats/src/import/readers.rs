//! Which reader a file is for.

use super::unpack::Budget;
use super::{gzip, perf_script, perfetto, trace_dat};
use crate::Error;
use unhitch_model::{Format, Trace};

/// What is called with each part of a file that is no longer needed.
type Release<'a> = &'a (dyn Fn(&[u8]) + Sync);
/// A reader of a whole file.
type Load = fn(&[u8], &mut Budget, Release<'_>) -> Result<Trace, Error>;

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

/// Reads a file of another tool; `None` if it is none, by its content.
pub(crate) fn load(bytes: &[u8], release: Release<'_>) -> Option<Result<Trace, Error>> {
    let mut budget = Budget::of(bytes.len());
    match gzip::is_gzip(bytes) {
        true => Some(compressed(bytes, &mut budget)),
        false => plain(bytes).map(|load| load(bytes, &mut budget, release)),
    }
}

fn plain(bytes: &[u8]) -> Option<Load> {
    match format_of(bytes)? {
        _ if gzip::is_gzip(bytes) => None,
        Format::TraceDat => Some(trace_dat::load),
        Format::Perfetto => Some(perfetto::load),
        Format::PerfScript => Some(|bytes, _, release| perf_script::load(bytes, release)),
        _ => None,
    }
}

/// Reads a file that was compressed as a whole.
fn compressed(bytes: &[u8], budget: &mut Budget) -> Result<Trace, Error> {
    let content = gzip::unpack(bytes, budget)?;
    match plain(&content) {
        Some(load) => load(&content, budget, &|_| {}),
        None => Err(Error::Unsupported(
            "a file compressed by gzip is read if a trace of Perfetto, trace-cmd or perf script is \
             in it, which is not so here"
                .to_owned(),
        )),
    }
}
