//! Which events are recorded, with which stacks and filters.
//!
//! Formats: `perf_event_attr` (perf_event_open(2)), filters (`Documentation/trace/events.rst`).
//! Most of the cost of recording is in the stacks, and most of that in unwinding the kernel part.
//! So a switch only has kernel frames if they carry information: when the thread blocks, or is
//! preempted inside the kernel (`prev_state` is not 0). A thread that leaves in state 0 was
//! preempted on its way back to user mode: its kernel frames are always the same, and its user
//! frames show where it was. The idle thread also leaves in state 0 and has no user frames, so its
//! switches cost no stack at all. In the trace this is a single event, opened twice with
//! complementary filters.

use crate::error::Error;
use crate::options::Options;
use crate::{idle_probe, permission, procfs, sys};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use unhitch_formats::perf_data::EventAttr;
use unhitch_formats::perf_data::attr::{
    SW_CPU_CLOCK, SW_DUMMY, TYPE_HARDWARE, TYPE_SOFTWARE, TYPE_TRACEPOINT, flag, read_format,
    sample,
};

/// `CLOCK_MONOTONIC`: the only clock that NMIs, futex timeouts, X11 and user programs share.
pub(crate) const CLOCK: i32 = libc::CLOCK_MONOTONIC;
/// The fields at the end of every record and in every sample.
const IDENTITY: u64 = sample::IDENTIFIER | sample::TID | sample::TIME | sample::CPU;
/// An empty stack, which costs eight bytes and no time. Events that need no stack have an empty
/// one, because `perf sched timehist` only shows stacks if every event of the file has them.
const NO_STACK: u64 = flag::EXCLUDE_CALLCHAIN_KERNEL | flag::EXCLUDE_CALLCHAIN_USER;
/// `PERF_COUNT_HW_CPU_CYCLES`
const HW_CPU_CYCLES: u64 = 0;

/// An event as it appears in the file.
#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// The attribute for the file: that of all variants, apart from their exclusion flags.
    pub(crate) attr: EventAttr,
    /// How it is opened on each CPU.
    variants: Vec<Variant>,
    required: bool,
    /// The CPUs on which it is opened; `None` for all.
    only_cpus: Option<Vec<u16>>,
}

/// Events opened only to see whether that works.
pub(crate) type Trials = Vec<OwnedFd>;

/// One way of opening an event.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) attr: EventAttr,
    pub(crate) filter: Option<String>,
}

/// Which stacks an event carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stacks {
    None,
    /// Kernel frames, and user frames unless the options turn them off.
    Full,
}

/// A tracepoint to record. `pid_fields` are its fields with thread ids, for `only_pid`.
struct Tracepoint {
    system: &'static str,
    name: &'static str,
    stacks: Stacks,
    filter: Option<&'static str>,
    pid_fields: &'static [&'static str],
}

const fn tracepoint(
    system: &'static str,
    name: &'static str,
    stacks: Stacks,
    pid_fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { system, name, stacks, filter: None, pid_fields }
}

/// All tracepoints of interest; the first two are required.
const TRACEPOINTS: [Tracepoint; 10] = [
    tracepoint("sched", "sched_switch", Stacks::Full, &["prev_pid", "next_pid"]),
    tracepoint("sched", "sched_waking", Stacks::Full, &["common_pid", "pid"]),
    tracepoint("sched", "sched_wakeup_new", Stacks::Full, &["common_pid", "pid"]),
    // READ | WRITE | RT | PERCPU | MUTEX: a pure spin (1) is not a wait to the scheduler.
    Tracepoint {
        filter: Some("flags & 62"),
        ..tracepoint("lock", "contention_begin", Stacks::Full, &["common_pid"])
    },
    tracepoint("lock", "contention_end", Stacks::None, &["common_pid"]),
    tracepoint("sched", "sched_process_fork", Stacks::None, &[]),
    tracepoint("sched", "sched_process_exec", Stacks::None, &[]),
    tracepoint("sched", "sched_process_exit", Stacks::None, &[]),
    tracepoint("task", "task_rename", Stacks::None, &[]),
    tracepoint("sched", "sched_migrate_task", Stacks::None, &["pid"]),
];
/// How many of [`TRACEPOINTS`] are required.
const REQUIRED: usize = 2;

/// The system and name of every tracepoint, for the format descriptions in the file.
pub(crate) fn tracepoint_names(events: &[Event]) -> Vec<(&str, &str)> {
    events.iter().filter_map(|event| event.name.split_once(':')).collect()
}

/// Decides what to record on this machine, by trying to open each event on one CPU. Optional events
/// that cannot be opened are left out and added to `warnings`. The trials must be kept until the
/// real events are open, because the kernel waits for a grace period whenever the last user of a
/// tracepoint goes away.
pub(crate) fn plan(
    options: &Options,
    tracefs: &Path,
    online: &[u16],
    warnings: &mut Vec<String>,
) -> Result<(Vec<Event>, Trials), Error> {
    let cpu = online.first().copied().unwrap_or(0);
    let max_stack = max_stack(options, warnings);
    let threads = options.only_pid.map(|pid| thread_ranges(&procfs::thread_ids(pid)));
    if threads.as_ref().is_some_and(Vec::is_empty) {
        let what = format!("There is no process {}.", options.only_pid.unwrap_or_default());
        return Err(Error::Missing { what, remedy: "List processes:  ps -e".to_owned() });
    }
    let (mut events, mut trials) = (Vec::new(), Trials::new());
    for (index, tracepoint) in TRACEPOINTS.iter().enumerate() {
        let Tracepoint { system, name, .. } = tracepoint;
        let id = fs::read_to_string(tracefs.join(format!("events/{system}/{name}/id")))
            .ok()
            .and_then(|id| id.trim().parse().ok());
        let Some(id) = id else {
            if index < REQUIRED {
                let what = format!("The kernel has no tracepoint {system}:{name}.");
                return Err(Error::Missing {
                    what,
                    remedy: "It needs CONFIG_TRACEPOINTS and CONFIG_EVENT_TRACING.".to_owned(),
                });
            }
            warnings.push(format!(
                "the kernel has no tracepoint {system}:{name}: {}",
                consequence(name)
            ));
            continue;
        };
        let attr = tracepoint_attr(id, tracepoint.stacks, options, max_stack);
        let event = Event {
            name: format!("{system}:{name}"),
            variants: variants(tracepoint, &attr, threads.as_deref()),
            attr,
            required: index < REQUIRED,
            only_cpus: None,
        };
        match try_open(&event, cpu, &mut trials) {
            Ok(()) => events.push(event),
            Err(error) if permission::is_permission(&error) => {
                return Err(permission::not_permitted(&format!("{} ({error})", event.name)));
            }
            Err(error) => {
                events.extend(retry_unfiltered(event, cpu, &error, &mut trials, warnings)?)
            }
        }
    }
    events.extend(clock(options, cpu, max_stack, &mut trials, warnings));
    if options.only_pid.is_none() {
        events.extend(arrivals(options, online, &events, warnings));
    }
    Ok((events, trials))
}

/// What a trace lacks without an optional tracepoint.
fn consequence(name: &str) -> &'static str {
    match name {
        "contention_begin" | "contention_end" => {
            "waits for kernel locks are recognised only by their stacks"
        }
        "sched_wakeup_new" => "which thread starts another is known only from PERF_RECORD_FORK",
        "sched_migrate_task" => "migrations are not shown",
        _ => {
            "names and lifetimes of threads are known only from PERF_RECORD_COMM, \
             PERF_RECORD_FORK and PERF_RECORD_EXIT"
        }
    }
}

/// Retries an event without its filter, for kernels that refuse the filter.
fn retry_unfiltered(
    mut event: Event,
    cpu: u16,
    error: &io::Error,
    trials: &mut Trials,
    warnings: &mut Vec<String>,
) -> Result<Option<Event>, Error> {
    let filtered = event.variants.iter().any(|variant| variant.filter.is_some());
    event.variants = vec![Variant { attr: event.attr.clone(), filter: None }];
    if filtered && try_open(&event, cpu, trials).is_ok() {
        warnings.push(format!(
            "the kernel refused the filter of {} ({error}): all of its events are recorded, which \
             costs more",
            event.name
        ));
        return Ok(Some(event));
    }
    if event.required {
        return Err(Error::Event {
            event: event.name,
            cpu,
            source: io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0)),
        });
    }
    let name = event.name.split_once(':').map_or("", |(_, name)| name);
    warnings.push(format!("{} cannot be recorded ({error}): {}", event.name, consequence(name)));
    Ok(None)
}

/// The maximum stack depth in frames: the requested one, limited to what the kernel allows.
fn max_stack(options: &Options, warnings: &mut Vec<String>) -> u16 {
    let allowed = procfs::number("/proc/sys/kernel/perf_event_max_stack")
        .and_then(|depth| u16::try_from(depth).ok())
        .unwrap_or(127);
    if options.max_stack > allowed {
        warnings.push(format!(
            "stacks are cut after {allowed} frames; to raise the limit:  sudo sysctl \
             kernel.perf_event_max_stack={}  (while no recorder is running)",
            options.max_stack
        ));
    }
    // With more, records could get so long that a small ring holds only a few.
    options.max_stack.min(allowed).min(1024)
}

fn tracepoint_attr(id: u64, stacks: Stacks, options: &Options, max_stack: u16) -> EventAttr {
    EventAttr {
        kind: TYPE_TRACEPOINT,
        config: id,
        sample_period: 1,
        sample_type: IDENTITY | sample::CALLCHAIN | sample::RAW,
        flags: ring_flags(options) | if stacks == Stacks::None { NO_STACK } else { 0 },
        clockid: CLOCK,
        sample_max_stack: max_stack,
        ..EventAttr::default()
    }
}

fn ring_flags(options: &Options) -> u64 {
    let flags = flag::DISABLED | flag::SAMPLE_ID_ALL | flag::USE_CLOCKID | flag::WRITE_BACKWARD;
    flags | if options.user_stacks { 0 } else { flag::EXCLUDE_CALLCHAIN_USER }
}

fn variants(
    tracepoint: &Tracepoint,
    attr: &EventAttr,
    threads: Option<&[(u32, u32)]>,
) -> Vec<Variant> {
    let of_threads = threads.and_then(|ranges| pid_filter(tracepoint.pid_fields, ranges));
    let filter = |own: Option<&str>| match (own, &of_threads) {
        (Some(own), Some(threads)) => Some(format!("({own}) && ({threads})")),
        (own, threads) => own.map(str::to_owned).or_else(|| threads.clone()),
    };
    if tracepoint.name != "sched_switch" {
        return vec![Variant { attr: attr.clone(), filter: filter(tracepoint.filter) }];
    }
    let user_only =
        EventAttr { flags: attr.flags | flag::EXCLUDE_CALLCHAIN_KERNEL, ..attr.clone() };
    vec![
        Variant { attr: attr.clone(), filter: filter(Some("prev_state != 0")) },
        Variant { attr: user_only, filter: filter(Some("prev_state == 0")) },
    ]
}

/// Turns thread ids into few ranges. A filter must fit into a page, so ids that are close together
/// are joined: recording a thread too many does no harm.
fn thread_ranges(tids: &[u32]) -> Vec<(u32, u32)> {
    const MAX_RANGES: usize = 12;
    let mut ranges: Vec<(u32, u32)> = tids.iter().map(|&tid| (tid, tid)).collect();
    let mut gap = 1;
    while gap == 1 || ranges.len() > MAX_RANGES {
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.0 - last.1 <= gap => last.1 = range.1,
                _ => joined.push(range),
            }
        }
        ranges = joined;
        gap *= 2;
    }
    ranges
}

fn pid_filter(fields: &[&str], ranges: &[(u32, u32)]) -> Option<String> {
    let mut terms = Vec::new();
    for field in fields {
        for &(first, last) in ranges {
            terms.push(match first == last {
                true => format!("{field} == {first}"),
                false => format!("({field} >= {first} && {field} <= {last})"),
            });
        }
    }
    (!terms.is_empty()).then(|| terms.join(" || "))
}

/// The sampling clock: CPU cycles if there is a counter for them (its NMI also samples code that
/// has interrupts disabled), else a timer.
fn clock(
    options: &Options,
    cpu: u16,
    max_stack: u16,
    trials: &mut Trials,
    warnings: &mut Vec<String>,
) -> Option<Event> {
    if options.sample_hz == 0 {
        return None;
    }
    let limit = procfs::number("/proc/sys/kernel/perf_event_max_sample_rate")
        .and_then(|rate| u32::try_from(rate).ok())
        .unwrap_or(u32::MAX);
    let mut last = None;
    for (kind, config, name) in
        [(TYPE_HARDWARE, HW_CPU_CYCLES, "cycles"), (TYPE_SOFTWARE, SW_CPU_CLOCK, "cpu-clock")]
    {
        let attr = EventAttr {
            kind,
            config,
            sample_period: u64::from(options.sample_hz.min(limit)),
            sample_type: IDENTITY | sample::IP | sample::CALLCHAIN,
            // Samples of an idle CPU only show that it is idle, which the switches already do.
            flags: ring_flags(options) | flag::FREQ | flag::EXCLUDE_IDLE,
            clockid: CLOCK,
            sample_max_stack: max_stack,
            ..EventAttr::default()
        };
        let variants = vec![Variant { attr: attr.clone(), filter: None }];
        let event =
            Event { name: name.to_owned(), attr, variants, required: false, only_cpus: None };
        match try_open(&event, cpu, trials) {
            Ok(()) => return Some(event),
            Err(error) => last = Some(error),
        }
    }
    let error = last.map_or(String::new(), |error| format!(" ({error})"));
    warnings.push(format!(
        "CPU samples cannot be recorded{error}: what running threads did is not known"
    ));
    None
}

/// The event that records which thread arrives on CPUs that do not report their idle thread, or may
/// not report it.
fn arrivals(
    options: &Options,
    online: &[u16],
    events: &[Event],
    warnings: &mut Vec<String>,
) -> Option<Event> {
    let silent = idle_probe::silent_cpus(online, events.first()?.attr.config);
    if silent.is_empty() {
        return None;
    }
    let certain: Vec<String> = silent
        .iter()
        .filter(|silent| silent.certain)
        .map(|silent| silent.cpu.to_string())
        .collect();
    if !certain.is_empty() {
        warnings.push(format!(
            "this kernel reports no events of idle CPUs (here: CPU {}): which thread runs next on \
             such a CPU is still recorded, but wake-ups by interrupts while it is idle are missing",
            certain.join(", ")
        ));
    }
    let attr = EventAttr {
        kind: TYPE_SOFTWARE,
        config: SW_DUMMY,
        sample_period: 1,
        sample_type: IDENTITY | sample::CALLCHAIN,
        flags: ring_flags(options) | flag::CONTEXT_SWITCH,
        clockid: CLOCK,
        ..EventAttr::default()
    };
    let variants = vec![Variant { attr: attr.clone(), filter: None }];
    Some(Event {
        name: "arrivals".to_owned(),
        attr,
        variants,
        required: false,
        only_cpus: Some(silent.iter().map(|silent| silent.cpu).collect()),
    })
}

/// Tries to open each variant of an event.
fn try_open(event: &Event, cpu: u16, trials: &mut Trials) -> io::Result<()> {
    event.variants.iter().try_for_each(|variant| variant.open(cpu).map(|fd| trials.push(fd)))
}

impl Event {
    /// Has the kernel write the event's records one behind the other, into a ring that is drained.
    pub(crate) fn forward(&mut self) {
        let variants = self.variants.iter_mut().map(|variant| &mut variant.attr);
        for attr in std::iter::once(&mut self.attr).chain(variants) {
            attr.flags &= !flag::WRITE_BACKWARD;
        }
    }

    /// The variants to open on `cpu`.
    pub(crate) fn variants_on(&self, cpu: u16) -> &[Variant] {
        match &self.only_cpus {
            Some(cpus) if !cpus.contains(&cpu) => &[],
            _ => &self.variants,
        }
    }
}

impl Variant {
    /// Opens the variant on one CPU, disabled.
    pub(crate) fn open(&self, cpu: u16) -> io::Result<OwnedFd> {
        let fd = sys::perf_event_open(&self.attr.encode(), cpu)?;
        if let Some(filter) = &self.filter {
            sys::set_filter(fd.as_fd(), filter)?;
        }
        Ok(fd)
    }
}

/// Opens the dummy event that carries the side-band: mappings, names and lifetimes. It wakes its
/// reader every `watermark` bytes, and counts for how long it was enabled. Older kernels do not have
/// all features.
///
/// *Why no build ids*: Linux marks the mappings that it reports to others, too, as having one if it
/// has just reported one with (`perf_event_mmap_output`, 5.12 to at least 6.18). They take the device
/// and inode for a build id, and perf 6.1 crashes.
pub(crate) fn sideband(cpu: u16, watermark: u32) -> io::Result<(OwnedFd, EventAttr)> {
    let base = flag::DISABLED
        | flag::SAMPLE_ID_ALL
        | flag::USE_CLOCKID
        | flag::WATERMARK
        | flag::MMAP
        | flag::MMAP2
        | flag::COMM
        | flag::COMM_EXEC
        | flag::TASK;
    let mut result = Err(io::ErrorKind::Unsupported.into());
    for more in [flag::KSYMBOL, 0] {
        let attr = EventAttr {
            kind: TYPE_SOFTWARE,
            config: SW_DUMMY,
            sample_period: 1,
            sample_type: IDENTITY | sample::CALLCHAIN,
            flags: base | more,
            wakeup: watermark,
            clockid: CLOCK,
            ..EventAttr::default()
        };
        let counted = EventAttr { read_format: read_format::TOTAL_TIME_ENABLED, ..attr.clone() };
        result = sys::perf_event_open(&counted.encode(), cpu).map(|fd| (fd, attr));
        match &result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            _ => break,
        }
    }
    result
}

/// True if the CPU went offline. Events are opened CPU by CPU, and such a CPU is left out.
pub(crate) fn is_offline(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

pub(crate) fn open_failed(event: &str, cpu: u16, source: io::Error) -> Error {
    match source.raw_os_error() {
        _ if permission::is_permission(&source) => {
            permission::not_permitted(&format!("{event} on CPU {cpu} ({source})"))
        }
        Some(libc::EMFILE) => Error::NotPermitted {
            what: "Recording needs more open files than the limit allows.".to_owned(),
            remedy: "Raise it:  ulimit -n 65536".to_owned(),
        },
        _ => Error::Event { event: event.to_owned(), cpu, source },
    }
}

/// EPERM: over the limit of pinned memory. ENOMEM: no memory left.
pub(crate) fn is_memory(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_ids_are_joined_into_few_ranges() {
        assert_eq!(thread_ranges(&[]), []);
        assert_eq!(thread_ranges(&[5, 6, 7, 20]), [(5, 7), (20, 20)]);
        let scattered: Vec<u32> = (0..1000).map(|index| index * 30).collect();
        let ranges = thread_ranges(&scattered);
        assert!(
            ranges.len() <= 12
                && scattered
                    .iter()
                    .all(|tid| ranges.iter().any(|&(first, last)| (first..=last).contains(tid)))
        );
    }

    #[test]
    fn filters_of_one_process() {
        let filter = pid_filter(&["prev_pid", "next_pid"], &[(5, 7), (20, 20)]).unwrap();
        assert_eq!(
            filter,
            "(prev_pid >= 5 && prev_pid <= 7) || prev_pid == 20 || (next_pid >= 5 && next_pid <= \
             7) || next_pid == 20"
        );
        let attr = EventAttr::default();
        let switch = variants(&TRACEPOINTS[0], &attr, Some(&[(9, 9)]));
        assert_eq!(
            switch[1].filter.as_deref(),
            Some("(prev_state == 0) && (prev_pid == 9 || next_pid == 9)")
        );
        let contention = variants(&TRACEPOINTS[3], &attr, None);
        assert_eq!(contention[0].filter.as_deref(), Some("flags & 62"));
    }
}
