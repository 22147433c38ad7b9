//! Adds the events of all providers to the trace's
//! [`ProviderEvents`](unhitch_model::ProviderEvents), with what other events say about them: the
//! name of the file that a transfer was for, and how long it took.

use super::{
    catalogue::Catalogue,
    columns::{Running, Settled, StackIndex},
    event::NOBODY,
    join::{Joined, Target},
    kinds::{KindKey, KindTable},
    paths::Paths,
    rows::{self, Chunk, ProviderEvent, Switch},
    tasks::ProcessIndex,
};
use rustc_hash::FxHashMap;
use unhitch_model::{
    EventHead, Field, FieldType, KindId, Layout, NameId, Process, ProcessId, Strings, ThreadId,
    Time, Trace,
};

/// A kind of event, and which of its fields answer further questions.
#[derive(Clone, Default)]
pub(super) struct Kind {
    pub id: Option<KindId>,
    /// Its name in the trace.
    pub name: String,
    layout: Layout,
    /// The thread that an event is about.
    thread: Option<NameId>,
    /// The file object, which has a name.
    file_key: Option<NameId>,
    /// How long it took, ticks.
    elapsed: Option<NameId>,
    /// When it began, ticks.
    began: Option<NameId>,
    /// The process that an event is for.
    process: Option<NameId>,
    /// Network events are written by whichever thread was running: the thread in the header has
    /// nothing to do with them.
    is_of_bystander: bool,
}

/// Fields that are added behind those of the payload.
const ELAPSED: &str = "ElapsedMs";
const FILE: &str = "FileName";

/// Describes every kind of event of the file. Only the `kept` ones become kinds of the trace.
pub(super) fn kinds(
    table: &KindTable,
    kept: &[bool],
    catalogue: &mut Catalogue,
    pointer_bytes: u8,
    trace: &mut Trace,
) -> Vec<Kind> {
    let describe = |(key, kept): (&KindKey, &bool)| {
        let mut kind = catalogue.describe(key, pointer_bytes, trace);
        let name = format!("{}/{}", trace.name(kind.provider), trace.name(kind.name));
        let mut out = Kind { name, layout: kind.layout.clone(), ..Kind::default() };
        if let KindKey::Hook { .. } = key {
            out.name = trace.name(kind.name).to_owned();
            if out.name.starts_with("TcpIp/") || out.name.starts_with("UdpIp/") {
                out.is_of_bystander = true;
            }
            out.find_fields(&trace.strings);
            if out.elapsed.or(out.began).is_some() {
                kind.layout
                    .fields
                    .push(Field::new(trace.strings.intern(ELAPSED), FieldType::Float { bytes: 8 }));
            }
            if out.file_key.is_some() {
                kind.layout.fields.push(Field::new(trace.strings.intern(FILE), FieldType::Utf16));
            }
        }
        let processes = out
            .layout
            .fields
            .iter()
            .filter(|field| is_process(&out, trace.strings.get(field.name)));
        out.process = processes.map(|field| field.name).next();
        out.id = kept.then(|| trace.events.intern_kind(kind));
        out
    };
    table.kinds.iter().zip(kept).map(describe).collect()
}

/// True for a field that says which process an event is for.
fn is_process(kind: &Kind, field: &str) -> bool {
    // Here the field is the subject of the event, not its owner.
    if kind.name.starts_with("Process/") {
        return false;
    }
    // UDP's first version calls the process "context"; the length follows it.
    field.eq_ignore_ascii_case("pid")
        || field.eq_ignore_ascii_case("ProcessID")
        || kind.is_of_bystander && field == "context"
}

impl Kind {
    fn find_fields(&mut self, strings: &Strings) {
        // Events that name a file object need no name themselves.
        for field in &self.layout.fields {
            match strings.get(field.name) {
                "IssuingThreadID" | "TThreadID" => self.thread = Some(field.name),
                "FileKey"
                    if !self.name.starts_with("FileIO/File") && self.name != "FileIO/Name" =>
                {
                    self.file_key = Some(field.name)
                }
                "ElapsedTicks" => self.elapsed = Some(field.name),
                "InitialTicks" | "StartTicks" => self.began = Some(field.name),
                _ => {}
            }
        }
    }
}

/// The thread of each event: the one in its payload, else in its header, else on its CPU.
pub(super) fn targets(
    rows: &[(u32, ProviderEvent)],
    chunks: &[Chunk],
    kinds: &[Kind],
    switches: &[Switch],
) -> Vec<Target> {
    let mut running = Running::new(switches);
    let whose = |chunk: u32, row: &ProviderEvent, running: &mut Running<'_>| {
        let kind = kinds.get(row.kind as usize);
        let named = kind.and_then(|kind| {
            kind.layout.value(rows::payload(chunks, chunk, row), kind.thread?)?.as_u64()
        });
        match (named.and_then(|tid| u32::try_from(tid).ok()), row.tid) {
            (Some(tid), _) => tid,
            (None, NOBODY) => running.before(row.ticks, row.cpu),
            (None, tid) => tid,
        }
    };
    rows.iter()
        .map(|(chunk, row)| Target {
            ticks: row.ticks,
            tid: whose(*chunk, row, &mut running),
            cpu: row.cpu,
        })
        .collect()
}

/// Maximum number of processes that are known from payloads only. No machine has more.
const MAX_PROCESSES_OF_PAYLOADS: usize = 1 << 12;

/// Finds the thread of the trace that each event belongs to.
struct Owners<'a> {
    processes: &'a ProcessIndex,
    settled: &'a Settled,
    /// Processes that are known from payloads only.
    more: FxHashMap<u32, ProcessId>,
    unknown: NameId,
}

impl Owners<'_> {
    /// The thread `tid` if the event is its own. Otherwise the unknown thread of the process in the
    /// payload, which network events and those of deferred procedure calls have.
    fn thread(
        &mut self,
        kind: &Kind,
        row: &ProviderEvent,
        tid: u32,
        time: Time,
        payload: &[u8],
        trace: &mut Trace,
    ) -> ThreadId {
        let is_nobody = |tid: u32| tid == 0 || tid == NOBODY;
        let known = Some(tid).filter(|tid| !is_nobody(*tid) && !kind.is_of_bystander);
        let known =
            known.map(|tid| self.settled.thread(tid, time)).filter(|thread| !thread.is_idle());
        let says_itself = kind.thread.is_some() || !is_nobody(row.tid);
        if let Some(thread) = known.filter(|_| says_itself || kind.process.is_none()) {
            return thread;
        }
        let pid = kind
            .process
            .and_then(|field| kind.layout.value(payload, field)?.as_u64())
            .map(|pid| pid as u32);
        let Some(pid) = pid.filter(|pid| !is_nobody(*pid)) else {
            return known
                .unwrap_or_else(|| trace.threads.unknown_of(ProcessId::UNKNOWN, self.unknown));
        };
        if let Some(thread) = known.filter(|thread| trace.threads.process_of(*thread).pid == pid) {
            return thread;
        }
        let process = self.processes.at(pid, time).unwrap_or_else(|| self.process(pid, trace));
        trace.threads.unknown_of(process, self.unknown)
    }

    fn process(&mut self, pid: u32, trace: &mut Trace) -> ProcessId {
        if let Some(process) = self.more.get(&pid) {
            return *process;
        }
        if self.more.len() >= MAX_PROCESSES_OF_PAYLOADS {
            return ProcessId::UNKNOWN;
        }
        let name = trace.strings.intern(&format!("process {pid}"));
        let process = trace.threads.add_process(Process { pid, name, ..Process::default() });
        self.more.insert(pid, process);
        process
    }
}

/// The name of threads and processes of which nothing is known.
const UNKNOWN: &str = "(unknown)";

/// Adds the events to the trace.
#[allow(clippy::too_many_arguments, reason = "it needs all tables that were built before")]
pub(super) fn add(
    rows: &[(u32, ProviderEvent)],
    chunks: &[Chunk],
    targets: &[Target],
    joined: &[Joined],
    kinds: &[Kind],
    paths: &Paths,
    settled: &Settled,
    processes: &ProcessIndex,
    stacks: &mut StackIndex<'_>,
    trace: &mut Trace,
) {
    let mut buffer = Vec::new();
    let unknown = trace.strings.intern(UNKNOWN);
    let mut owners = Owners { processes, settled, more: FxHashMap::default(), unknown };
    for (((chunk, row), target), stack) in rows.iter().zip(targets).zip(joined) {
        let Some((kind, id)) = kinds.get(row.kind as usize).and_then(|kind| Some((kind, kind.id?)))
        else {
            continue;
        };
        let time = settled.clock.time(row.ticks);
        let tid = if target.tid == NOBODY && *stack != Joined::default() {
            stack.tid
        } else {
            target.tid
        };
        let payload = rows::payload(chunks, *chunk, row);
        let thread = owners.thread(kind, row, tid, time, payload, trace);
        let head = EventHead {
            time,
            cpu: row.cpu,
            thread,
            kind: id,
            stack: stacks.stack(*stack, time, trace),
        };
        if kind.file_key.or(kind.elapsed).or(kind.began).is_none() {
            trace.events.push(head, payload);
            continue;
        }
        buffer.clear();
        buffer.extend_from_slice(payload);
        if kind.append(row.ticks, payload, &mut buffer, settled, paths, &trace.strings) {
            trace.events.push(head, &buffer);
        } else {
            trace.events.push(head, payload);
        }
    }
}

impl Kind {
    /// Appends the added fields. False if the payload does not have all fields before them.
    fn append(
        &self,
        ticks: i64,
        payload: &[u8],
        out: &mut Vec<u8>,
        settled: &Settled,
        paths: &Paths,
        strings: &Strings,
    ) -> bool {
        let (mut elapsed, mut key, mut read) = (None, None, 0);
        let rest = self.layout.read(payload, |field, value| {
            read += 1;
            let number = value.as_u64();
            if Some(field.name) == self.elapsed {
                elapsed = number;
            } else if Some(field.name) == self.began {
                let began = number.and_then(|began| i64::try_from(began).ok());
                elapsed = began.and_then(|began| u64::try_from(ticks.checked_sub(began)?).ok());
            } else if Some(field.name) == self.file_key {
                key = number;
            }
        });
        // Bytes that no field covers would be read as the added fields.
        if read != self.layout.fields.len() || rest > 0 {
            return false;
        }
        if self.elapsed.or(self.began).is_some() {
            let ms = elapsed.map_or(f64::NAN, |ticks| settled.clock.nanos(ticks) as f64 / 1e6);
            out.extend_from_slice(&ms.to_le_bytes());
        }
        if let Some(name) = key.and_then(|key| paths.file(key, ticks)) {
            out.extend(strings.get(name).encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        true
    }
}
