//! Encodes single records, for the recorder's snapshot of `/proc` and for traces made by tests.
//!
//! `enum perf_event_type` of `include/uapi/linux/perf_event.h`. All records end with the
//! [`SampleId`] that [`flag::SAMPLE_ID_ALL`](super::attr::flag::SAMPLE_ID_ALL) adds for a sample
//! type of `TID|TIME|CPU|IDENTIFIER`, so the events of a file that holds them need these four bits.

use super::attr::sample;
use unhitch_model::Time;

/// Length of a record's header, bytes: type (4), misc (2), size (2).
pub(crate) const RECORD_HEADER_LEN: usize = 8;

/// Record types of the kernel, and those that only `perf` writes (64 and above).
pub mod kind {
    #![allow(missing_docs, reason = "the names are the kernel's and perf's own")]
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;

    /// The name under which records of a type are counted.
    pub fn name(kind: u32) -> String {
        const KERNEL: [&str; 23] = [
            "",
            "MMAP",
            "LOST",
            "COMM",
            "EXIT",
            "THROTTLE",
            "UNTHROTTLE",
            "FORK",
            "READ",
            "SAMPLE",
            "MMAP2",
            "AUX",
            "ITRACE_START",
            "LOST_SAMPLES",
            "SWITCH",
            "SWITCH_CPU_WIDE",
            "NAMESPACES",
            "KSYMBOL",
            "BPF_EVENT",
            "CGROUP",
            "TEXT_POKE",
            "AUX_OUTPUT_HW_ID",
            "CALLCHAIN_DEFERRED",
        ];
        const USER: [&str; 23] = [
            "ATTR",
            "EVENT_TYPE",
            "TRACING_DATA",
            "BUILD_ID",
            "FINISHED_ROUND",
            "ID_INDEX",
            "AUXTRACE_INFO",
            "AUXTRACE",
            "AUXTRACE_ERROR",
            "THREAD_MAP",
            "CPU_MAP",
            "STAT_CONFIG",
            "STAT",
            "STAT_ROUND",
            "EVENT_UPDATE",
            "TIME_CONV",
            "FEATURE",
            "COMPRESSED",
            "FINISHED_INIT",
            "COMPRESSED2",
            "BPF_METADATA",
            "SCHEDSTAT_CPU",
            "SCHEDSTAT_DOMAIN",
        ];
        let named =
            if kind < 64 { KERNEL.get(kind as usize) } else { USER.get(kind as usize - 64) };
        match named {
            Some(name) if !name.is_empty() => (*name).to_owned(),
            _ => format!("RECORD_{kind}"),
        }
    }
}

/// Bits of a record header's `misc`.
pub mod misc {
    /// These three bits are the CPU's mode.
    pub const CPUMODE_MASK: u16 = 7;
    /// The kernel's.
    pub const KERNEL: u16 = 1;
    /// A user program's.
    pub const USER: u16 = 2;
    /// COMM: because of an exec.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// SWITCH: the thread leaves its CPU; otherwise it comes on it.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// MMAP, MMAP2: a mapping that cannot be executed.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// MMAP2: a build id takes the place of device and inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// BUILD_ID: the record has the id's length.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// Maximum number of frames in a stack: `PERF_MAX_STACK_DEPTH`. perf prints nothing of a stack with
/// more.
pub const MAX_FRAMES: usize = 127;

/// Markers between the parts of a call chain. Each says whose addresses follow.
pub mod context {
    /// The kernel's.
    pub const KERNEL: u64 = -128i64 as u64;
    /// The user program's.
    pub const USER: u64 = -512i64 as u64;
    /// Those of a user stack that is delivered later. One word follows, its cookie.
    pub const USER_DEFERRED: u64 = -640i64 as u64;
    /// Those of a hypervisor, a guest, a guest's kernel and a guest's user program, which a trace
    /// of the host cannot resolve.
    pub const OTHERS: [u64; 4] = [-32i64 as u64, -2048i64 as u64, -2176i64 as u64, -2560i64 as u64];

    /// True for a marker, which is not an address.
    pub fn is_marker(word: u64) -> bool {
        matches!(word, KERNEL | USER | USER_DEFERRED) || OTHERS.contains(&word)
    }
}

/// Announces `len` bytes that perf has no records for and that follow: `struct
/// perf_record_auxtrace`, of no CPU and no thread.
pub fn auxtrace(out: &mut Vec<u8>, len: u64) {
    const LEN: u16 = 48;
    out.extend_from_slice(&kind::AUXTRACE.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&LEN.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    // Offset and reference, which are for what a device traced.
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(&[
        0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
    ]);
}

/// Thread, time, CPU and event: the trailer of every record that is not a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// When; zero for a record that describes what existed before the recording.
    pub time: Time,
    /// On which CPU.
    pub cpu: u32,
    /// Id of the event that the record belongs to.
    pub id: u64,
}

/// A mapping of code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mmap2<'a> {
    /// Process id; `u32::MAX` for the kernel.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// First address.
    pub start_avma: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// Path of the file, or a name such as `[vdso]`.
    pub path: &'a [u8],
    /// The file's build id, at most 20 bytes.
    pub build_id: Option<&'a [u8]>,
    /// The file, where the record has no build id.
    pub file: FileId,
    /// True for the kernel and its modules.
    pub kernel: bool,
}

/// A file, by its device and inode. The inode is 0 if it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FileId {
    /// The device's numbers.
    pub major: u32,
    /// The device's numbers.
    pub minor: u32,
    /// The number on the device.
    pub inode: u64,
}

impl FileId {
    /// How many bytes of a MMAP2 record tell which file it is.
    pub const LEN: usize = 24;

    /// That of a MMAP2 record without a build id.
    pub fn read(identity: &[u8; Self::LEN]) -> Self {
        let [major, minor, low, high, ..] = std::array::from_fn::<u32, 6, _>(|at| {
            u32::from_le_bytes(std::array::from_fn(|byte| identity[4 * at + byte]))
        });
        Self { major, minor, inode: u64::from(high) << 32 | u64::from(low) }
    }

    /// True if the numbers are of a disk. Those of other file systems depend on who tells them: for a
    /// file of an overlay, `/proc/PID/maps` has the overlay's, records of the kernel its layer's.
    pub const fn is_on_disk(self) -> bool {
        self.major != 0 && self.inode != 0
    }

    /// The file that was mapped at `time`, if it can be compared. What existed before the recording
    /// was read from `/proc/PID/maps`, whose numbers are those of the kernel's records only on disks.
    pub fn comparable(self, time: Time) -> Option<Self> {
        let by_kernel = time != Time::ZERO && self.inode != 0;
        (by_kernel || self.is_on_disk()).then_some(self)
    }
}

/// A sample of a tracepoint or a clock. The sample type decides which fields are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// Thread, time, CPU and event.
    pub id: SampleId,
    /// Instruction pointer.
    pub ip: u64,
    /// Period.
    pub period: u64,
    /// Kernel part of the call chain, leaf first.
    pub kernel_frames: &'a [u64],
    /// User part of the call chain, leaf first.
    pub user_frames: &'a [u64],
    /// The tracepoint's fields.
    pub raw: &'a [u8],
}

/// Starts a record. [`end`] sets its size.
fn begin(out: &mut Vec<u8>, kind: u32, misc: u16) -> usize {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&misc.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    start
}

/// Completes the record that began at `start`. Leaves it out if its size does not fit into 16 bits,
/// which no caller's data can cause: paths have at most 4096 bytes, chains 127 frames, tracepoints
/// a page.
fn end(out: &mut Vec<u8>, start: usize) {
    match u16::try_from(out.len() - start) {
        Ok(size) => out[start + 6..start + RECORD_HEADER_LEN].copy_from_slice(&size.to_le_bytes()),
        Err(_) => out.truncate(start),
    }
}

fn end_with_id(out: &mut Vec<u8>, start: usize, id: &SampleId) {
    out.extend_from_slice(&id.pid.to_le_bytes());
    out.extend_from_slice(&id.tid.to_le_bytes());
    out.extend_from_slice(&id.time.nanos().to_le_bytes());
    out.extend_from_slice(&id.cpu.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&id.id.to_le_bytes());
    end(out, start);
}

/// A text, NUL-terminated and padded to eight bytes.
fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.resize(out.len() + 8 - text.len() % 8, 0);
}

fn words_u32(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn words_u64(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Appends a MMAP2 record.
pub fn mmap2(out: &mut Vec<u8>, map: &Mmap2<'_>, id: &SampleId) {
    let mode = if map.kernel { misc::KERNEL } else { misc::USER };
    let build_id = map.build_id.filter(|id| !id.is_empty() && id.len() <= 20);
    let start =
        begin(out, kind::MMAP2, mode | if build_id.is_some() { misc::MMAP_BUILD_ID } else { 0 });
    words_u32(out, &[map.pid, map.tid]);
    words_u64(out, &[map.start_avma, map.len, map.file_offset]);
    if let Some(build_id) = build_id {
        let mut identity = [0; FileId::LEN];
        identity[0] = build_id.len() as u8;
        identity[4..4 + build_id.len()].copy_from_slice(build_id);
        out.extend_from_slice(&identity);
    } else {
        words_u32(out, &[map.file.major, map.file.minor]);
        // The inode's generation is not known.
        words_u64(out, &[map.file.inode, 0]);
    }
    words_u32(out, &[map.prot, map.flags]);
    text(out, map.path);
    end_with_id(out, start, id);
}

/// Appends a MMAP record, which has neither protection nor build id. *Why it exists beside
/// [`mmap2`]*: `perf sched` reads no other.
pub fn mmap(out: &mut Vec<u8>, map: &Mmap2<'_>, id: &SampleId) {
    let start = begin(out, kind::MMAP, if map.kernel { misc::KERNEL } else { misc::USER });
    words_u32(out, &[map.pid, map.tid]);
    words_u64(out, &[map.start_avma, map.len, map.file_offset]);
    text(out, map.path);
    end_with_id(out, start, id);
}

/// Appends a BUILD_ID record of the kernel's code at `path`, for the section of build ids.
pub(crate) fn kernel_build_id(out: &mut Vec<u8>, path: &[u8], build_id: &[u8]) {
    let start = begin(out, 0, misc::KERNEL | misc::BUILD_ID_SIZE);
    words_u32(out, &[u32::MAX]);
    let len = build_id.len().min(20);
    let mut bytes = [0; 24];
    bytes[..len].copy_from_slice(&build_id[..len]);
    bytes[20] = len as u8;
    out.extend_from_slice(&bytes);
    text(out, path);
    end(out, start);
}

/// Appends a COMM record: `tid` is called `name` from now on.
pub fn comm(out: &mut Vec<u8>, pid: u32, tid: u32, name: &[u8], exec: bool, id: &SampleId) {
    let start = begin(out, kind::COMM, if exec { misc::COMM_EXEC } else { 0 });
    words_u32(out, &[pid, tid]);
    text(out, &name[..name.len().min(15)]);
    end_with_id(out, start, id);
}

/// Appends a FORK record: `ptid` of process `ppid` created `tid` of process `pid`.
pub fn fork(out: &mut Vec<u8>, pid: u32, ppid: u32, tid: u32, ptid: u32, id: &SampleId) {
    task(out, kind::FORK, [pid, ppid, tid, ptid], id);
}

/// Appends an EXIT record: `tid` of process `pid`, a child of `ptid` of process `ppid`, ends.
pub fn exit(out: &mut Vec<u8>, pid: u32, ppid: u32, tid: u32, ptid: u32, id: &SampleId) {
    task(out, kind::EXIT, [pid, ppid, tid, ptid], id);
}

fn task(out: &mut Vec<u8>, kind: u32, ids: [u32; 4], id: &SampleId) {
    let start = begin(out, kind, 0);
    words_u32(out, &ids);
    words_u64(out, &[id.time.nanos()]);
    end_with_id(out, start, id);
}

/// Appends a LOST record: before it, `events` did not fit into the ring.
pub fn lost(out: &mut Vec<u8>, events: u64, id: &SampleId) {
    let start = begin(out, kind::LOST, 0);
    words_u64(out, &[id.id, events]);
    end_with_id(out, start, id);
}

/// Appends a FINISHED_ROUND record: no record behind it is older than any before it. So perf need not
/// keep the whole file in memory to sort it.
pub fn finished_round(out: &mut Vec<u8>) {
    let start = begin(out, kind::FINISHED_ROUND, 0);
    end(out, start);
}

/// Appends a SAMPLE record with the fields of `sample_type`: any of IDENTIFIER, IP, TID, TIME, ID,
/// CPU, PERIOD, CALLCHAIN, RAW.
pub fn sample(out: &mut Vec<u8>, sample_type: u64, sample: &Sample<'_>) {
    let has = |bit: u64| sample_type & bit != 0;
    let start = begin(
        out,
        kind::SAMPLE,
        if sample.kernel_frames.is_empty() { misc::USER } else { misc::KERNEL },
    );
    if has(sample::IDENTIFIER) {
        words_u64(out, &[sample.id.id]);
    }
    if has(sample::IP) {
        words_u64(out, &[sample.ip]);
    }
    if has(sample::TID) {
        words_u32(out, &[sample.id.pid, sample.id.tid]);
    }
    if has(sample::TIME) {
        words_u64(out, &[sample.id.time.nanos()]);
    }
    if has(sample::ID) {
        words_u64(out, &[sample.id.id]);
    }
    if has(sample::CPU) {
        words_u32(out, &[sample.id.cpu, 0]);
    }
    if has(sample::PERIOD) {
        words_u64(out, &[sample.period]);
    }
    if has(sample::CALLCHAIN) {
        let parts = [(context::KERNEL, sample.kernel_frames), (context::USER, sample.user_frames)];
        let words: usize = parts
            .iter()
            .filter(|(_, frames)| !frames.is_empty())
            .map(|(_, frames)| frames.len() + 1)
            .sum();
        words_u64(out, &[words as u64]);
        for (marker, frames) in parts.into_iter().filter(|(_, frames)| !frames.is_empty()) {
            words_u64(out, &[marker]);
            words_u64(out, frames);
        }
    }
    if has(sample::RAW) {
        let size = (sample.raw.len() + 4).next_multiple_of(8) - 4;
        words_u32(out, &[size as u32]);
        out.extend_from_slice(sample.raw);
        out.resize(out.len() + size - sample.raw.len(), 0);
    }
    end(out, start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_multiples_of_eight_bytes() {
        let mut out = Vec::new();
        let id = SampleId { pid: 1, tid: 2, time: Time::from_nanos(3), cpu: 4, id: 5 };
        comm(&mut out, 1, 2, b"a name that is too long", true, &id);
        mmap2(
            &mut out,
            &Mmap2 { path: b"/usr/lib/x.so", build_id: Some(&[7; 20]), ..Mmap2::default() },
            &id,
        );
        fork(&mut out, 1, 2, 3, 4, &id);
        sample(
            &mut out,
            u64::MAX,
            &Sample {
                id,
                raw: &[1; 61],
                kernel_frames: &[1],
                user_frames: &[2, 3],
                ..Sample::default()
            },
        );
        let mut rest = &out[..];
        let mut kinds = Vec::new();
        while !rest.is_empty() {
            let size = usize::from(u16::from_le_bytes([rest[6], rest[7]]));
            assert_eq!(size % 8, 0);
            kinds.push(rest[0]);
            rest = &rest[size..];
        }
        assert_eq!(kinds, [3, 10, 7, 9]);
    }

    #[test]
    fn a_record_that_does_not_fit_is_left_out() {
        let mut out = Vec::new();
        sample(&mut out, sample::RAW, &Sample { raw: &[0; 70_000], ..Sample::default() });
        assert!(out.is_empty());
    }
}
