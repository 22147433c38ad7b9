//! The loader: one or several `.etl` files to a [`Trace`].
//!
//! 1. A walk over the buffers of each file ([`super::buffer`]); the first one tells the clock.
//! 2. All buffers are unpacked and decoded to rows on all cores ([`super::decode`]).
//! 3. The workers' parts of stacks and kinds of events become one table each; rows are merged by
//!    time ([`super::assemble`]).

use super::{
    assemble,
    buffer::{self, Buffer},
    clock::LogHeader,
    decode::{About, Decoder},
    event::{Events, Manifest, What},
    hook,
    kinds::{KindKey, KindTable},
    manifest,
    parts::Parts,
    rows::{Chunk, PartRef},
};
use crate::Error;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use unhitch_model::{Format, Meta, Trace, Warnings};

/// True for the beginning of an `.etl` file: a buffer header and the event that every file begins
/// with.
pub(crate) fn is_etl(bytes: &[u8]) -> bool {
    let first = bytes.get(buffer::BUFFER_HEADER_LEN..).and_then(|events| events.first_chunk::<8>());
    let size = buffer::u32_at(bytes, 0).unwrap_or(0) as usize;
    size >= buffer::BUFFER_HEADER_LEN && matches!(first, Some([_, _, 1 | 2, 0xc0, _, _, 0, 0]))
}

/// True for a file that is merged already, and so holds a recording of its own. A merging tool also
/// writes files of metadata alone (descriptions of events, ids of images), which their sister files
/// need: such a file is none.
pub(crate) fn is_merged(bytes: &[u8]) -> bool {
    const MERGED: &str = "Relogger";
    let header = Buffer::first(bytes).as_ref().and_then(log_header);
    header.is_some_and(|header| header.session == MERGED) && !is_metadata_alone(bytes)
}

/// Ends at the first event that is something else, in real merged traces within the first buffers.
fn is_metadata_alone(bytes: &[u8]) -> bool {
    let (mut unpacked, mut described) = (Vec::new(), false);
    for buffer in Buffer::all(bytes) {
        for event in Events::new(buffer.events(&mut unpacked).0) {
            match event.what {
                What::Hook { hook: hook::SESSION_FIRST..=hook::SESSION_LAST, .. } => {}
                What::Classic { guid, opcode, .. } if hook::is_metadata(guid, opcode) => {
                    described = true
                }
                What::Manifest(Manifest { id: manifest::EVENT_ID, .. }) => described = true,
                _ => return false,
            }
        }
    }
    described
}

/// Reads files that were recorded together, the one that the user named first. `on_disk`: how long
/// they are there, which limits how much they may become. With `keep_all` every event is among the
/// trace's provider events too, as it is in the file. `release` is told which parts are not needed
/// any more.
pub(crate) fn load(
    files: &[&[u8]],
    on_disk: usize,
    keep_all: bool,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let mut allowed = buffer::allowed(on_disk);
    let mut warnings = Warnings::default();
    let mut headers: Vec<LogHeader> = Vec::new();
    let mut jobs: Vec<(About, Buffer<'_>)> = Vec::new();
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
                "the session wrote {written} buffers, {} of them can be read",
                buffers.len()
            ));
        }
        if header.mode & NO_PER_CPU_BUFFERS != 0 {
            warnings.add(
                "the session did not keep CPUs apart (EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING): on which CPU things happened is not known",
            );
        }
        let same_clock = |first: &LogHeader| {
            (first.clock_type, first.ticks_per_second())
                == (header.clock_type, header.ticks_per_second())
        };
        if !headers.first().is_none_or(|first| first.is_beside(&header)) {
            warnings.add(format!(
                "file {} of the trace was recorded at another time and was left out",
                file + 1
            ));
            continue;
        }
        if !headers.first().is_none_or(same_clock) {
            warnings.add(format!(
                "file {} of the trace counts time by another clock and was left out",
                file + 1
            ));
            continue;
        }
        let about = About { file, pointer_bytes: usize::from(header.pointer_bytes), keep_all };
        jobs.extend(buffers.into_iter().map(|buffer| (about, buffer)));
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
    let is_header = matches!(first.what, What::Hook { hook: hook::HEADER, .. });
    LogHeader::read(first.payload, first.ticks).filter(|_| is_header)
}

/// Whichever core is free takes the next buffers.
fn decode_all(jobs: &[(About, Buffer<'_>)], release: &(dyn Fn(&[u8]) + Sync)) -> Vec<Decoder> {
    // A worker should have enough to do that its tables pay, and not so much that the others wait
    // for it at the end.
    let share = (jobs.len() / (rayon::current_num_threads() * 8)).clamp(1, 256);
    let decode = |jobs: &[(About, Buffer<'_>)]| {
        let mut decoder = Decoder::new();
        for (about, buffer) in jobs {
            decoder.decode(buffer, *about);
            release(buffer.data());
        }
        decoder
    };
    jobs.par_chunks(share).map(decode).collect()
}

fn meta(headers: &[LogHeader], buffers: usize) -> Meta {
    // The times of the trace count from the beginning of its first session, whichever file was
    // named first.
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
        kernel: format!("Windows build {}", header.build),
        cpus: u16::try_from(header.cpus).unwrap_or(u16::MAX),
        epoch_ns: header.epoch_ns(),
        producer: producer(&named, headers.len()),
        buffers: buffers as u64,
        ..Meta::default()
    }
}

/// Which of so many sessions recorded it, by those that have a name.
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

/// So many damaged buffers are told one by one.
const SAID_BUFFERS: u64 = 8;

/// All buffers together: what the workers have in common is united, rows still lie in their
/// buffers.
pub(super) struct Merged {
    pub chunks: Vec<Chunk>,
    pub parts: Parts,
    pub kinds: KindTable,
}

impl Merged {
    fn new(decoders: Vec<Decoder>, warnings: &mut Warnings) -> Self {
        let mut merged =
            Self { chunks: Vec::new(), parts: Parts::default(), kinds: KindTable::default() };
        let mut known: FxHashMap<KindKey, u32> = FxHashMap::default();
        let (mut with_counters, mut too_short, mut miscounted, mut damaged) = (0, 0, 0, 0_u64);
        for mut decoder in decoders {
            let parts = merged.parts.union(&decoder.parts);
            let kinds = merged.kinds.union(decoder.kinds, &mut known);
            let renumbered =
                |numbers: &[u32], number: u32| numbers.get(number as usize).copied().unwrap_or(0);
            for chunk in &mut decoder.chunks {
                chunk
                    .others
                    .iter_mut()
                    .for_each(|other| other.kind = renumbered(&kinds, other.kind));
                chunk
                    .definitions
                    .iter_mut()
                    .for_each(|definition| definition.part = renumbered(&parts, definition.part));
                for record in &mut chunk.stacks {
                    if let PartRef::Here(part) = &mut record.part {
                        *part = renumbered(&parts, *part);
                    }
                }
                if let Some(damage) = chunk.damage.take() {
                    damaged += 1;
                    if damaged <= SAID_BUFFERS {
                        warnings
                            .add(format!("the buffer at offset {}{damage}", said_offset(chunk)));
                    }
                }
            }
            merged.chunks.append(&mut decoder.chunks);
            with_counters += decoder.with_counters;
            too_short += decoder.too_short;
            miscounted += decoder.miscounted;
        }
        if damaged > SAID_BUFFERS {
            warnings.add(format!("{} more buffers are damaged", damaged - SAID_BUFFERS));
        }
        if with_counters > 0 {
            warnings.add(format!("{with_counters} scheduling events carry hardware counters and cannot be read; record without them"));
        }
        if too_short > 0 {
            warnings.add(format!(
                "{too_short} events are shorter than what they should hold and were left out"
            ));
        }
        if miscounted > 0 {
            let (samples, count, they) = if miscounted == 1 {
                ("sample", "counts", "it is")
            } else {
                ("samples", "count", "each is")
            };
            warnings.add(format!(
                "{miscounted} CPU {samples} {count} more or less than once; {they} told as one"
            ));
        }
        if merged.kinds.beyond > 0 {
            warnings.add(format!(
                "{} events are of more kinds than can be told apart",
                merged.kinds.beyond
            ));
        }
        merged.chunks.sort_by_key(|chunk| {
            (chunk.cpu, chunk.file, chunk.ticks.map_or(i64::MIN, |ticks| ticks.0))
        });
        merged
    }
}

fn said_offset(chunk: &Chunk) -> String {
    match chunk.file {
        0 => format!("{} ", chunk.offset),
        file => format!("{} of file {} ", chunk.offset, file + 1),
    }
}

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
