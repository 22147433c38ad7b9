//! The loader: turns one or several `.etl` files into a [`Trace`].
//!
//! 1. Walk over the buffers of each file ([`super::buffer`]). The first buffer has the clock.
//! 2. Unpack all buffers and decode them to rows on all cores ([`super::decode`]).
//! 3. Merge the workers' tables of stack parts and event kinds ([`super::merged`]).
//! 4. Merge the rows by time and turn them into the trace ([`super::assemble`]).

use super::{
    assemble,
    buffer::{self, Buffer},
    clock::LogHeader,
    decode::{Decoder, FileContext},
    event::{EventClass, Events, Manifest},
    hook, manifest,
    merged::Merged,
};
use crate::Error;
use rayon::prelude::*;
use unhitch_model::{Format, Meta, Origin, System, Trace, Warnings, units};

/// True if `bytes` start like an `.etl` file: with a buffer header and the event that comes first
/// in every file.
pub(crate) fn is_etl(bytes: &[u8]) -> bool {
    let first = bytes.get(buffer::BUFFER_HEADER_LEN..).and_then(|events| events.first_chunk::<8>());
    let size = buffer::u32_at(bytes, 0).unwrap_or(0) as usize;
    size >= buffer::BUFFER_HEADER_LEN && matches!(first, Some([_, _, 1 | 2, 0xc0, _, _, 0, 0]))
}

/// True for a merged file, which is a whole recording by itself. Merging tools also write files
/// that hold metadata only (event descriptions, image ids) and belong to other files: those do not
/// count.
pub(crate) fn is_merged(bytes: &[u8]) -> bool {
    const MERGED: &str = "Relogger";
    let header = Buffer::first(bytes).as_ref().and_then(log_header);
    header.is_some_and(|header| header.session == MERGED) && !is_metadata_only(bytes)
}

/// Stops at the first event that is not metadata. In real merged traces it is in one of the first
/// buffers. Looks at what [`load`] would read, which is limited.
fn is_metadata_only(bytes: &[u8]) -> bool {
    let (mut unpacked, mut described) = (Vec::new(), false);
    let mut allowed = buffer::allowed(bytes.len());
    for buffer in Buffer::all(bytes).filter(|buffer| buffer.fits(&mut allowed)) {
        for event in Events::new(buffer.events(&mut unpacked).0) {
            match event.class {
                EventClass::Hook { hook: hook::SESSION_FIRST..=hook::SESSION_LAST, .. } => {}
                EventClass::Classic { guid, opcode, .. } if hook::is_metadata(guid, opcode) => {
                    described = true
                }
                EventClass::Manifest(Manifest { id: manifest::EVENT_ID, .. }) => described = true,
                _ => return false,
            }
        }
    }
    described
}

/// Reads files that were recorded together, the one that the user named first.
///
/// `on_disk` is the length in bytes of what they were read from, which limits how far they may
/// unpack. With `keep_all`, every event is also kept unchanged among the trace's provider events.
/// `release` is called with each part of the files that is no longer needed.
pub(crate) fn load(
    files: &[&[u8]],
    on_disk: usize,
    keep_all: bool,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let mut allowed = buffer::allowed(on_disk);
    let mut warnings = Warnings::default();
    let mut headers: Vec<LogHeader> = Vec::new();
    let mut jobs: Vec<(FileContext, Buffer<'_>)> = Vec::new();
    for (file, bytes) in files.iter().enumerate() {
        let buffers = buffer::walk(bytes, &mut allowed, &mut warnings);
        let header = buffers.first().and_then(log_header);
        let Some(header) = header else {
            if file == 0 {
                return Err(Error::truncated(
                    "the first event of an .etl file (TRACE_LOGFILE_HEADER)",
                    buffer::BUFFER_HEADER_LEN,
                ));
            }
            warnings.add(format!(
                "file {} of the trace does not begin with a TRACE_LOGFILE_HEADER and was left out",
                file + 1
            ));
            continue;
        };
        let written = header.buffers_written as usize;
        if written > buffers.len() {
            warnings.add(format!(
                "the session wrote {}, of which only {} can be read",
                units::plural(written as u64, "buffer"),
                buffers.len()
            ));
        }
        if header.mode & NO_PER_CPU_BUFFERS != 0 {
            warnings.add(
                "the session did not use a buffer per CPU \
                 (EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING): the CPU of each event is unknown",
            );
        }
        let same_clock = |first: &LogHeader| {
            (first.clock_type, first.ticks_per_second())
                == (header.clock_type, header.ticks_per_second())
        };
        if !headers.first().is_none_or(|first| first.is_concurrent_with(&header)) {
            warnings.add(format!(
                "file {} of the trace was recorded at another time and was left out",
                file + 1
            ));
            continue;
        }
        if !headers.first().is_none_or(same_clock) {
            warnings
                .add(format!("file {} of the trace uses another clock and was left out", file + 1));
            continue;
        }
        let pointer_bytes = usize::from(header.pointer_bytes);
        let context = FileContext { number: file, pointer_bytes, keep_all };
        jobs.extend(buffers.into_iter().map(|buffer| (context, buffer)));
        headers.push(header);
    }
    let decoders = decode_all(&jobs, release);
    let mut trace = Trace { meta: meta(&headers, jobs.len()), ..Trace::default() };
    let merged = Merged::new(decoders, &mut warnings);
    assemble::assemble(merged, &headers, &mut trace, &mut warnings);
    trace.warnings = warnings;
    Ok(trace)
}

fn log_header(buffer: &Buffer<'_>) -> Option<LogHeader> {
    let mut unpacked = Vec::new();
    let (events, _) = buffer.events(&mut unpacked);
    let first = Events::new(events).next()?;
    let is_header = matches!(first.class, EventClass::Hook { hook: hook::HEADER, .. });
    LogHeader::read(first.payload, first.ticks).filter(|_| is_header)
}

/// Decodes the buffers on all cores. Each core takes the next buffers when it is free.
fn decode_all(
    jobs: &[(FileContext, Buffer<'_>)],
    release: &(dyn Fn(&[u8]) + Sync),
) -> Vec<Decoder> {
    // Enough per job that a worker's tables pay off, but not so much that the others wait for one
    // worker at the end.
    let share = (jobs.len() / (rayon::current_num_threads() * 8)).clamp(1, 256);
    let decode = |jobs: &[(FileContext, Buffer<'_>)]| {
        let mut decoder = Decoder::new();
        for (context, buffer) in jobs {
            decoder.decode(buffer, *context);
            release(buffer.data());
        }
        decoder
    };
    jobs.par_chunks(share).map(decode).collect()
}

fn meta(headers: &[LogHeader], buffers: usize) -> Meta {
    // Times count from the start of the earliest session, whichever file was named first.
    let Some(header) = headers.iter().min_by_key(|header| header.zero) else {
        return Meta::default();
    };
    let named: Vec<&str> = headers
        .iter()
        .map(|header| header.session.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    Meta {
        format: Format::Etl,
        system: System::Windows,
        counts_losses: true,
        origin: Origin::SessionStart,
        kernel: format!("Windows build {}", header.build),
        cpus: u16::try_from(header.cpus).unwrap_or(u16::MAX),
        epoch_ns: header.epoch_ns(),
        producer: producer(&named, headers.len()),
        buffers: buffers as u64,
        ..Meta::default()
    }
}

/// Lists the sessions that recorded the trace by their names.
fn producer(named: &[&str], sessions: usize) -> String {
    let several = |count: usize| if count == 1 { "session" } else { "sessions" };
    match (named, sessions - named.len()) {
        ([], 1) => "an ETW session without a name".to_owned(),
        ([], nameless) => format!("{nameless} ETW sessions without names"),
        (named, 0) => format!("ETW {} {}", several(named.len()), named.join(", ")),
        (named, nameless) => {
            let more = if nameless == 1 {
                "1 without a name".to_owned()
            } else {
                format!("{nameless} without names")
            };
            format!("ETW {} {} and {more}", several(named.len() + nameless), named.join(", "))
        }
    }
}

/// `EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING`.
const NO_PER_CPU_BUFFERS: u32 = 0x1000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_without_names_leave_no_empty_places() {
        assert_eq!(producer(&["Kernel"], 1), "ETW session Kernel");
        assert_eq!(producer(&["Kernel", "User"], 2), "ETW sessions Kernel, User");
        assert_eq!(producer(&[], 1), "an ETW session without a name");
        assert_eq!(producer(&[], 4), "4 ETW sessions without names");
        assert_eq!(producer(&["Kernel"], 2), "ETW sessions Kernel and 1 without a name");
        assert_eq!(
            producer(&["Kernel", "User"], 4),
            "ETW sessions Kernel, User and 2 without names"
        );
    }
}
