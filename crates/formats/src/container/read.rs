//! Reads a container: its `perf.data` in place, and the entries that add to it.
//!
//! Every entry is unpacked up to a limit only, whatever its header claims.

use super::check::{self, Zip};
use super::machine::MachineFile;
use super::marks::MarkFile;
use super::members::{
    MACHINE, MARKS, META, NOTES, PERF_DATA, RINGS, SAVE, SCRIPTS, START, START_EVENTS, SYMBOLS,
};
use super::meta::{self, ContainerMeta};
use super::recover;
use super::save::SaveFile;
use super::symbols::SymbolFile;
use crate::{Error, etl, perf_data, scope::Scope, scripts::ScriptFile};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::io::{Cursor, Read, Seek};
use unhitch_model::{
    CpuSpan, Format, FutexWait, Holder, Loss, MAX_SAMPLE_PERIOD_NS, NameId, Policy, Thread,
    ThreadId, Time, Trace, Warnings, Window, units,
};
use zip::{ZipArchive, result::ZipError};

/// Maximum number of bytes that a compressed `perf.data` is unpacked to; [`check::allowed`] may
/// allow less.
const MAX_PERF_DATA_LEN: u64 = 8 << 30;

/// True for a zip.
pub(crate) fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// True for a finished recording by BPF.
pub(crate) fn has_rings(bytes: &[u8]) -> bool {
    let Ok(mut zip) = directory(Cursor::new(bytes)) else { return false };
    let meta = json::<ContainerMeta>(&mut zip, META, &mut Warnings::default());
    meta.is_some_and(|meta| meta.is_by_bpf())
}

/// Reads a container.
pub(crate) fn read(
    bytes: &[u8],
    scope: Scope,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Result<Trace, Error> {
    let mut warnings = Warnings::default();
    let mut zip = match directory(Cursor::new(bytes)) {
        Ok(zip) => zip,
        Err(error) => return read_without_directory(bytes, scope, release).ok_or(error)?,
    };
    if !windows_traces(&zip).is_empty() {
        let files = unpack_etl(bytes, &mut warnings)?;
        if files.is_empty() {
            return Err(Error::Unsupported("the zip holds no readable .etl file".to_owned()));
        }
        let parts: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let mut trace = etl::load(&parts, bytes.len(), false, &|_| {})?;
        trace.warnings.merge(warnings);
        return Ok(trace);
    }
    let scripts = json::<ScriptFile>(&mut zip, SCRIPTS, &mut warnings);
    let mut trace = records(bytes, &mut zip, scripts.as_ref(), scope, release, &mut warnings)?;
    check::names(&mut zip, bytes, &mut warnings);
    add_members(&mut trace, &mut zip, false, &mut warnings);
    // Damage comes first, because it puts everything else in doubt.
    warnings.merge(std::mem::take(&mut trace.warnings));
    trace.warnings = warnings;
    Ok(trace)
}

/// The directory of a zip that holds a trace. *Why it must*: of a file without its end, any bytes in
/// the last records may look like a directory, and an empty one is 22 bytes.
pub(super) fn directory<R: Read + Seek>(mut file: R) -> Result<ZipArchive<R>, Error> {
    if recover::is_growing(&mut file) {
        return Err(ZipError::InvalidArchive("its records are still being written".into()).into());
    }
    let zip = ZipArchive::new(file)?;
    let holds_trace = zip.index_for_name(PERF_DATA).is_some() || !windows_traces(&zip).is_empty();
    if holds_trace { Ok(zip) } else { Err(ZipError::FileNotFound.into()) }
}

/// Adds the content of the members other than the records.
fn add_members(trace: &mut Trace, zip: &mut Zip<'_>, is_growing: bool, warnings: &mut Warnings) {
    trace.meta.format = Format::Hitch;
    match json::<ContainerMeta>(zip, META, warnings) {
        Some(meta) => apply_meta(meta, trace),
        None => without_meta(trace, zip, is_growing, warnings),
    }
    if let Some(machine) = json::<MachineFile>(zip, MACHINE, warnings) {
        machine.apply(trace);
    }
    json::<SymbolFile>(zip, SYMBOLS, warnings).unwrap_or_default().apply(trace);
    if let Some(marks) = json::<MarkFile>(zip, MARKS, warnings) {
        marks.apply(trace);
    }
    if let Some(save) = json::<SaveFile>(zip, SAVE, warnings) {
        save.apply(trace);
    }
    let notes = check::member(zip, NOTES, warnings).unwrap_or_default();
    trace.meta.notes = String::from_utf8_lossy(&notes).into_owned();
    check::unread(zip, warnings);
}

/// A recording that was written while it went on has what was known at its start.
fn without_meta(trace: &mut Trace, zip: &mut Zip<'_>, is_growing: bool, warnings: &mut Warnings) {
    let Some(start) = json::<ContainerMeta>(zip, START, warnings) else {
        warnings.add(
            "the trace file has no readable meta.json: the time that each CPU's events cover is \
             a guess",
        );
        return;
    };
    apply_meta(start, trace);
    // What all CPUs had recorded was written together, so the end is the same for all.
    let begin = trace.spans.iter().map(|span| span.window.start).min().unwrap_or_default();
    let end = trace.spans.iter().map(|span| span.window.end).max().unwrap_or_default();
    trace.spans.iter_mut().for_each(|span| span.window.end = end);
    trace.meta.is_interrupted = is_growing;
    if !is_growing {
        let what = if zip.index_for_name(META).is_some() { "damaged" } else { "missing" };
        warnings.add(format!(
            "meta.json is {what}: what was known when recording began is used instead"
        ));
        return;
    }
    warnings.add(format!(
        "the recording was interrupted, or still goes on: this trace ends {} after its beginning, \
         and lacks what is added at the end (counters of the machine, policies of threads that \
         began later, names of functions)",
        units::duration(end.since(begin))
    ));
}

/// Reads what is left of a container that has lost its end; `None` if there are no records.
fn read_without_directory(
    bytes: &[u8],
    scope: Scope,
    release: &(dyn Fn(&[u8]) + Sync),
) -> Option<Result<Trace, Error>> {
    let found = recover::find(bytes)?;
    let mut zip = Zip::new(Cursor::new(&found.others[..])).ok()?;
    let records = bytes.get(found.records.range)?;
    let mut warnings = Warnings::default();
    if !found.is_growing {
        warnings.add(
            "the trace file is cut off, or its zip directory is damaged: the members that were \
             found are used, others are missing",
        );
    }
    let rings = found.rings.and_then(|rings| {
        let content = bytes.get(rings.range)?;
        rings.crc32.inspect(|&crc32| compare_all(RINGS, content, crc32, &mut warnings));
        Some(content)
    });
    let description = check::member(&mut zip, START_EVENTS, &mut warnings);
    let written = found.records.crc32;
    // The records have their own description only if they are whole.
    let description = description.filter(|_| written.is_none());
    let description = description.as_deref();
    let scripts = json::<ScriptFile>(&mut zip, SCRIPTS, &mut warnings);
    let scripts = scripts.as_ref();
    let parts = perf_data::Parts { bytes: records, rings, description, scripts, scope };
    let (trace, sum) =
        rayon::join(|| parts.load(release), || written.map(|_| check::crc32(records, release)));
    if let (Some(written), Some(sum)) = (written, sum) {
        check::compare(PERF_DATA, written, sum, &mut warnings);
    }
    Some(trace.map(|mut trace| {
        add_members(&mut trace, &mut zip, found.is_growing, &mut warnings);
        warnings.merge(std::mem::take(&mut trace.warnings));
        trace.warnings = warnings;
        trace
    }))
}

/// Decodes the records, in place if they are stored uncompressed, and compares their checksum
/// meanwhile.
fn records(
    bytes: &[u8],
    zip: &mut Zip<'_>,
    scripts: Option<&ScriptFile>,
    scope: Scope,
    release: &(dyn Fn(&[u8]) + Sync),
    warnings: &mut Warnings,
) -> Result<Trace, Error> {
    let rings = rings(bytes, zip, scope, warnings);
    let rings = rings.as_deref();
    let entry = zip.by_name(PERF_DATA)?;
    let Some(data) = check::stored(&entry, bytes) else {
        let mut unpacked = Vec::new();
        let allowed = check::allowed(entry.compressed_size(), MAX_PERF_DATA_LEN);
        match entry.take(allowed).read_to_end(&mut unpacked) {
            Err(error) => {
                warnings.add(check::damaged(PERF_DATA, &error.to_string().to_lowercase()))
            }
            Ok(_) if unpacked.len() as u64 == allowed => {
                warnings.add(check::too_long(PERF_DATA, allowed))
            }
            Ok(_) => {}
        }
        let parts =
            perf_data::Parts { bytes: &unpacked, rings, scripts, scope, ..Default::default() };
        return parts.load(&|_| {});
    };
    let parts = perf_data::Parts { bytes: data, rings, scripts, scope, ..Default::default() };
    if matches!(scope, Scope::Newest(_)) {
        return parts.load(release);
    }
    let (trace, found) = rayon::join(|| parts.load(release), || check::crc32(data, release));
    check::compare(PERF_DATA, entry.crc32(), found, warnings);
    trace
}

/// The rings, in place if they are stored uncompressed: they may be as long as the recorder's memory.
fn rings<'a>(
    bytes: &'a [u8],
    zip: &mut Zip<'_>,
    scope: Scope,
    warnings: &mut Warnings,
) -> Option<Cow<'a, [u8]>> {
    if let Ok(entry) = zip.by_name(RINGS)
        && let Some(stored) = check::stored(&entry, bytes)
    {
        if !matches!(scope, Scope::Newest(_)) {
            compare_all(RINGS, stored, entry.crc32(), warnings);
        }
        return Some(Cow::Borrowed(stored));
    }
    check::member(zip, RINGS, warnings).map(Cow::Owned)
}

/// Compares the checksum of a whole member.
fn compare_all(name: &str, content: &[u8], written: u32, warnings: &mut Warnings) {
    check::compare(name, written, check::crc32(content, &|_| {}), warnings);
}

/// The names of the `.etl` files of a zip without a `perf.data`.
pub(super) fn windows_traces<R: Read + Seek>(zip: &ZipArchive<R>) -> Vec<String> {
    if zip.index_for_name(PERF_DATA).is_some() {
        return Vec::new();
    }
    let is_etl = |name: &str| {
        name.get(name.len().saturating_sub(4)..).is_some_and(|end| end.eq_ignore_ascii_case(".etl"))
    };
    zip.file_names()
        .filter_map(Result::ok)
        .filter(|name| is_etl(name))
        .map(|name| name.into_owned())
        .collect()
}

/// The `.etl` files of a zip, largest first, so that the kernel's session comes before those of
/// single programs. Empty for Unhitch's own container.
pub(crate) fn unpack_etl(bytes: &[u8], warnings: &mut Warnings) -> Result<Vec<Vec<u8>>, Error> {
    let mut zip = Zip::new(Cursor::new(bytes))?;
    // The length of the zip also limits how much all files together may unpack to.
    let mut allowed = check::allowed(bytes.len() as u64, u64::MAX);
    let mut files = Vec::new();
    for name in windows_traces(&zip) {
        let mut unpacked = Vec::new();
        let entry = zip.by_name(&name)?;
        let whole = entry.size();
        let result = entry.take(allowed).read_to_end(&mut unpacked);
        allowed = allowed.saturating_sub(unpacked.len() as u64);
        if let Err(error) = result {
            warnings.add(format!(
                "{name} in the zip cannot be unpacked beyond byte {}: {error}",
                unpacked.len()
            ));
        } else if (unpacked.len() as u64) < whole {
            warnings.add(format!(
                "{name} in the zip was read up to byte {}, and the rest was left out: it unpacks \
                 to more than is allowed for a zip of this length",
                unpacked.len()
            ));
        }
        if etl::is_etl(&unpacked) {
            files.push((name, unpacked));
        } else {
            warnings.add(format!("{name} in the zip is not an .etl file and was left out"));
        }
    }
    files.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
    Ok(files.into_iter().map(|(_, unpacked)| unpacked).collect())
}

/// A JSON member; `None` if it is missing or cannot be read.
fn json<T: DeserializeOwned>(zip: &mut Zip<'_>, name: &str, warnings: &mut Warnings) -> Option<T> {
    let text = check::member(zip, name, warnings)?;
    let parsed = serde_json::from_slice(&text);
    parsed
        .map_err(|error| {
            warnings
                .add(format!("{name} in the trace file cannot be read ({error}): it is left out"))
        })
        .ok()
}

/// Applies `meta.json`, which takes precedence over what follows from the records.
fn apply_meta(meta: ContainerMeta, trace: &mut Trace) {
    let recorder = meta.recorder_words();
    let facts = &mut trace.meta;
    (facts.producer, facts.host, facts.kernel, facts.arch) =
        (meta.producer, meta.host, meta.kernel, meta.arch);
    (facts.cpus, facts.memory_bytes) = (meta.cpus, meta.memory_bytes);
    facts.epoch_ns = meta.epoch_ns.map(i128::from).or(facts.epoch_ns);
    facts.sample_period_ns = meta.sample_period_ns.min(MAX_SAMPLE_PERIOD_NS);
    facts.recorder = recorder;
    facts.only_pid = meta.recorder["only_pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let window =
        |start_ns, end_ns| Window::new(Time::from_nanos(start_ns), Time::from_nanos(end_ns));
    if !meta.spans.is_empty() {
        trace.spans = meta
            .spans
            .iter()
            .map(|span| CpuSpan { cpu: span.cpu, window: window(span.start_ns, span.end_ns) })
            .collect();
        trace.spans.sort_by_key(|span| span.cpu);
        trace.meta.buffers = trace.spans.len() as u64;
    }
    let losses = meta.losses.iter().map(|loss| Loss {
        cpu: loss.cpu,
        window: window(loss.start_ns, loss.end_ns),
        events: loss.events,
    });
    trace.losses.extend(losses);
    trace.losses.sort_by_key(|loss| (loss.window.start, loss.cpu));
    trace.losses.dedup();
    meta.warnings.into_iter().for_each(|warning| trace.warnings.add(warning));

    for facts in meta.threads {
        let Some(&latest) = trace.threads.incarnations(facts.tid).last().filter(|id| !id.is_idle())
        else {
            continue;
        };
        let name = trace.strings.intern(&facts.name);
        let Some(thread) = trace.threads.get_mut(latest) else { continue };
        describe(thread, name, facts.policy, facts.nice);
    }
    for facts in meta.processes {
        let Some(leader) = trace.threads.incarnations(facts.pid).last() else { continue };
        let process = trace.threads.get(*leader).process;
        let command_line = trace.strings.intern(&facts.command_line);
        if let Some(process) =
            trace.threads.process_mut(process).filter(|process| process.pid == facts.pid)
        {
            process.command_line = command_line;
        }
    }
    let latest = |tid: u32, time: Time| trace.threads.at(tid, time);
    let waits = meta.futex_waits.iter().filter_map(|wait| {
        let time = Time::from_nanos(wait.time_ns);
        let owner: Option<ThreadId> = wait.owner_tid.and_then(|tid| latest(tid, time));
        Some(FutexWait { time, waiter: latest(wait.tid, time)?, word_avma: wait.word_avma, owner })
    });
    trace.futex_waits = waits.collect();
    let end = trace.extent().end;
    let holders = meta.holders.iter().filter_map(|holder| {
        let process = trace.threads.at(holder.pid, end)?;
        let meta::Holder { inode, fd, reads, writes, .. } = *holder;
        Some(Holder { inode, process, fd, reads, writes })
    });
    trace.holders = holders.collect();
    trace.has_all_holders = meta.holders_complete && trace.holders.len() == meta.holders.len();
    trace.holders.sort_unstable();
    let of_loops = meta.loop_peers.iter().filter_map(|peer| {
        let thread = trace.threads.at(peer.tid, end)?;
        Some((trace.threads.get(thread).process, peer.inode))
    });
    trace.loop_peers = of_loops.collect();
    trace.loop_peers.sort_unstable();
    trace.loop_peers.dedup();
    let peers: FxHashMap<u64, u64> = meta.connections.into_iter().collect();
    for descriptor in trace.kept_waits.iter_mut().filter_map(|wait| wait.descriptor.as_mut()) {
        descriptor.peer_inode =
            descriptor.peer_inode.or_else(|| peers.get(&descriptor.inode).copied());
    }
}

fn describe(thread: &mut Thread, name: NameId, policy: Option<u32>, nice: Option<i8>) {
    if thread.names.is_empty() && !name.is_empty() {
        thread.names.push((thread.start.unwrap_or(Time::ZERO), name));
    }
    thread.policy = policy.and_then(Policy::from_raw);
    thread.nice = nice;
}
