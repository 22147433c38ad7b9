//! What recorder 2 notes beside switches and wake-ups, read from the trace's events: signals,
//! requests to disks, who wrote to the page cache, and locks on files that were refused. Events are named
//! as the kernel's tracepoints.

use rustc_hash::FxHashMap;
use std::fmt;
use unhitch_model::linux::{
    DIRTIED, EventName, FLOCK, POSIX_LOCK, REQUEST, SIGNAL, device_text, signal_name,
};
use unhitch_model::{KindId, NameId, ThreadId, Time, Trace, Value, Window};

/// A signal that one thread sent to another.
pub(crate) struct Signal {
    /// Index of the event.
    pub(crate) event: usize,
    /// Who sent it: an unknown thread if that was an interrupt, idle if it is not known.
    pub(crate) sender: ThreadId,
    pub(crate) number: u64,
}

/// SIGCONT, which also takes back the signals below that the process has not got yet.
const CONTINUING: u64 = 18;
/// SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const STOPPING: [u64; 4] = [19, 20, 21, 22];

impl Signal {
    pub(crate) fn name(&self) -> &'static str {
        signal_name(self.number).unwrap_or("a signal")
    }
}

/// What a request asks a disk to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    /// To put what it has in its own memory onto the medium.
    Flush,
    /// A discard, for example.
    Other,
}

impl Operation {
    /// `REQ_OP_*` (include/linux/blk_types.h).
    fn of(flags: u64) -> Self {
        match flags & 0xff {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Flush,
            _ => Self::Other,
        }
    }
}

/// A block device by its number, as the kernel encodes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Device(u64);

impl Device {
    /// False for the number of a file system that has no block device of its own: NFS, FUSE, tmpfs,
    /// btrfs.
    pub(crate) const fn is_block(self) -> bool {
        self.0 >> 20 != 0
    }

    /// True for a loop device, which is a file, and for a network block device: a program may serve it.
    pub(crate) const fn is_served_by_program(self) -> bool {
        const LOOP_MAJOR: u64 = 7;
        const NBD_MAJOR: u64 = 43;
        matches!(self.0 >> 20, LOOP_MAJOR | NBD_MAJOR)
    }

    /// False if a partition with this number cannot be on `disk`. Only SCSI disks have their
    /// partitions' numbers in a fixed place: 16 each.
    pub(crate) const fn may_be_on(self, disk: Self) -> bool {
        const SCSI_MAJOR: u64 = 8;
        self.0 >> 20 == disk.0 >> 20 && (self.0 >> 20 != SCSI_MAJOR || self.0 >> 4 == disk.0 >> 4)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&device_text(self.0))
    }
}

/// A request to a disk that is done.
pub(crate) struct Request {
    /// Index of the event.
    pub(crate) event: usize,
    /// From when it was made to when it was done.
    pub(crate) window: Window,
    /// Who asked for it; an unknown thread, or idle, if that is not known.
    pub(crate) asker: ThreadId,
    pub(crate) disk: Device,
    pub(crate) operation: Operation,
    pub(crate) bytes: u64,
    /// How long it waited until the disk got it.
    pub(crate) queued_ns: u64,
}

/// The signal that stopped the process of `thread` at `time`: the last that it got before, if that
/// is one that stops.
pub(crate) fn stopped_by(trace: &Trace, thread: ThreadId, time: Time) -> Option<Signal> {
    let process = trace.threads.get(thread).process;
    let before = Window::new(Time::ZERO, time.plus(1));
    let signals = Events::of(trace, SIGNAL)?.inside(before);
    let signals = signals.filter_map(|event| {
        let number = number(trace, event, "sig")?;
        let tid = number_u32(trace, event, "tid")?;
        let target = trace.threads.at(tid, trace.events.time[event])?;
        let counts = number == CONTINUING || STOPPING.contains(&number);
        let to_process = trace.threads.get(target).process == process;
        let sender = trace.events.thread[event];
        (to_process && counts).then_some(Signal { event, sender, number })
    });
    signals.last().filter(|signal| signal.number != CONTINUING)
}

/// The requests to known disks that were done in `window`.
pub(crate) fn requests(trace: &Trace, window: Window) -> Vec<Request> {
    let Some(events) = Events::of(trace, REQUEST) else { return Vec::new() };
    let request = |event: usize| {
        let done = trace.events.time[event];
        let queued_ns = number(trace, event, "queued_ns")?;
        let took = queued_ns.saturating_add(number(trace, event, "device_ns")?);
        let disk = Device(number(trace, event, "dev")?);
        let begun = Time::from_nanos(done.nanos().saturating_sub(took));
        disk.is_block().then_some(Request {
            event,
            window: Window::new(begun, done),
            asker: trace.events.thread[event],
            disk,
            operation: Operation::of(number(trace, event, "op")?),
            bytes: number(trace, event, "bytes")?,
            queued_ns,
        })
    };
    events.inside(window).filter_map(request).collect()
}

/// Which process wrote how many bytes to the page cache of which device in `window`. Processes by
/// their first threads.
pub(crate) fn dirtied(trace: &Trace, window: Window) -> Vec<(ThreadId, Device, u64)> {
    let Some(events) = Events::of(trace, DIRTIED) else {
        return Vec::new();
    };
    let written = |event| {
        let process = trace.threads.process_of(trace.events.thread[event]);
        let device = Device(number(trace, event, "dev")?);
        Some((process.leader, device, number(trace, event, "bytes")?))
    };
    events.inside(window).filter_map(written).collect()
}

/// A lock on a file that a thread did not get at once.
pub(crate) struct Refusal {
    pub(crate) time: Time,
    /// The first thread of the process that has it, if that is known.
    pub(crate) holder: Option<ThreadId>,
    /// The file's name, without its folder.
    pub(crate) file: String,
}

/// The locks on files that each thread was refused, in order of time.
pub(crate) struct Refusals(FxHashMap<ThreadId, Vec<Refusal>>);

impl Refusals {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut of_threads: FxHashMap<ThreadId, Vec<Refusal>> = FxHashMap::default();
        let events = [FLOCK, POSIX_LOCK].into_iter().filter_map(|name| Events::of(trace, name));
        for event in events.flat_map(|events| events.inside(Window::new(Time::ZERO, Time::MAX))) {
            let (time, thread) = (trace.events.time[event], trace.events.thread[event]);
            let pid = number_u32(trace, event, "holder").filter(|pid| *pid != 0);
            let holder = pid.and_then(|pid| trace.threads.at(pid, time));
            let holder = holder.map(|holder| trace.threads.process_of(holder).leader);
            let name = trace.strings.find("name").and_then(|name| trace.events.field(event, name));
            let file = name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            of_threads.entry(thread).or_default().push(Refusal { time, holder, file });
        }
        of_threads.values_mut().for_each(|refusals| refusals.sort_by_key(|one| one.time));
        Self(of_threads)
    }

    /// Those of one thread inside `window`.
    pub(crate) fn inside(&self, thread: ThreadId, window: Window) -> &[Refusal] {
        let all = self.0.get(&thread).map_or(&[][..], Vec::as_slice);
        let at = |time: Time| all.partition_point(|refusal| refusal.time < time);
        &all[at(window.start)..at(window.end)]
    }
}

/// The events of one kind.
struct Events<'a> {
    trace: &'a Trace,
    kind: KindId,
}

impl<'a> Events<'a> {
    fn of(trace: &'a Trace, (provider, name): EventName) -> Option<Self> {
        let mut kinds = trace.events.kinds();
        let is = |id: NameId, text: &str| trace.name(id) == text;
        let (kind, _) =
            kinds.find(|(_, kind)| is(kind.provider, provider) && is(kind.name, name))?;
        Some(Self { trace, kind })
    }

    fn inside(self, window: Window) -> impl Iterator<Item = usize> {
        let Self { trace, kind } = self;
        trace.events.range(window).filter(move |&event| trace.events.kind[event] == kind)
    }
}

fn number(trace: &Trace, event: usize, field: &str) -> Option<u64> {
    trace.events.field(event, trace.strings.find(field)?)?.as_u64()
}

fn number_u32(trace: &Trace, event: usize, field: &str) -> Option<u32> {
    number(trace, event, field)?.try_into().ok()
}
