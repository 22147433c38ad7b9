//! The tracepoints that Unhitch records, as files describe them, and their samples' raw bytes.
//!
//! The descriptions are those of Linux 6.18 (`events/*/*/format` in tracefs). Readers go by the
//! description in the file, so a file may hold these whatever kernel was recorded.

use crate::tracepoint::TracingData;
use unhitch_model::{TaskState, WakeFlags};

const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const SWITCH_FIELDS: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s \
    next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, \
    (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", { 1, \"S\" }, \
    { 2, \"D\" }, { 4, \"T\" }, { 8, \"t\" }, { 16, \"X\" }, { 32, \"Z\" }, { 64, \"P\" }, \
    { 128, \"I\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, \
    REC->next_pid, REC->next_prio\n";
const WAKING_FIELDS: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, \
    REC->target_cpu\n";
const BEGIN_FIELDS: &str = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\n\
    print fmt: \"%p (flags=%s)\", REC->lock_addr, __print_flags(REC->flags, \"|\", { 1, \"SPIN\" }, \
    { 2, \"READ\" }, { 4, \"WRITE\" }, { 8, \"RT\" }, { 16, \"PERCPU\" }, { 32, \"MUTEX\" } )\n";
const END_FIELDS: &str = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:int ret;\toffset:16;\tsize:4;\tsigned:1;\n\n\
    print fmt: \"%p (ret=%d)\", REC->lock_addr, REC->ret\n";
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

/// A tracepoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// The system that it belongs to.
    pub system: &'static str,
    /// Its name in the system.
    pub name: &'static str,
    /// Its number.
    pub id: u16,
    /// The part of its description after the common fields.
    fields: &'static str,
}

/// `sched:sched_switch`.
pub const SWITCH: Tracepoint =
    Tracepoint { system: "sched", name: "sched_switch", id: 372, fields: SWITCH_FIELDS };
/// `sched:sched_waking`.
pub const WAKING: Tracepoint =
    Tracepoint { system: "sched", name: "sched_waking", id: 375, fields: WAKING_FIELDS };
/// `sched:sched_wakeup_new`.
pub const WAKEUP_NEW: Tracepoint =
    Tracepoint { system: "sched", name: "sched_wakeup_new", id: 373, fields: WAKING_FIELDS };
/// `lock:contention_begin`.
pub const CONTENTION_BEGIN: Tracepoint =
    Tracepoint { system: "lock", name: "contention_begin", id: 408, fields: BEGIN_FIELDS };
/// `lock:contention_end`.
pub const CONTENTION_END: Tracepoint =
    Tracepoint { system: "lock", name: "contention_end", id: 407, fields: END_FIELDS };

/// The descriptions of these tracepoints.
pub fn tracing_data(tracepoints: &[Tracepoint]) -> TracingData {
    let text = |tracepoint: &Tracepoint| {
        let Tracepoint { system, name, id, fields } = tracepoint;
        ((*system).to_owned(), format!("name: {name}\nID: {id}\n{COMMON}{fields}"))
    };
    TracingData {
        page_size: 4096,
        header_page: HEADER_PAGE.to_owned(),
        header_event: String::new(),
        events: tracepoints.iter().map(text).collect(),
    }
}

/// A thread as a tracepoint shows it.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its name, of which 15 bytes fit.
    pub comm: &'a [u8],
    /// Its id.
    pub tid: u32,
    /// Its priority.
    pub prio: i32,
}

impl Task<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let mut comm = [0; 16];
        let len = self.comm.len().min(comm.len() - 1);
        comm[..len].copy_from_slice(&self.comm[..len]);
        out.extend_from_slice(&comm);
        out.extend_from_slice(&self.tid.to_le_bytes());
        out.extend_from_slice(&self.prio.to_le_bytes());
    }
}

/// Fills `out` with the common fields: the tracepoint, the context, and the current thread.
fn begin(out: &mut Vec<u8>, tracepoint: &Tracepoint, context: WakeFlags, current_tid: u32) {
    out.clear();
    out.extend_from_slice(&tracepoint.id.to_le_bytes());
    out.extend_from_slice(&[common_flags(context), 0]);
    out.extend_from_slice(&current_tid.to_le_bytes());
}

/// Fills `out` with the raw bytes of a `sched_switch`.
pub fn switch(out: &mut Vec<u8>, prev: &Task<'_>, prev_state: TaskState, next: &Task<'_>) {
    begin(out, &SWITCH, WakeFlags::default(), prev.tid);
    prev.put(out);
    out.extend_from_slice(&state_bits(prev_state).to_le_bytes());
    next.put(out);
}

/// Fills `out` with the raw bytes of a `sched_waking`, or of a `sched_wakeup_new` if `context` says
/// so.
pub fn waking(
    out: &mut Vec<u8>,
    waker_tid: u32,
    context: WakeFlags,
    wakee: &Task<'_>,
    target_cpu: u16,
) {
    begin(out, &waking_tracepoint(context), context, waker_tid);
    wakee.put(out);
    out.extend_from_slice(&u32::from(target_cpu).to_le_bytes());
}

/// The tracepoint of a wake-up.
pub const fn waking_tracepoint(context: WakeFlags) -> Tracepoint {
    if context.has(WakeFlags::NEW) { WAKEUP_NEW } else { WAKING }
}

/// Fills `out` with the raw bytes of a `contention_begin` (`detail`: its flags) or `contention_end`
/// (`detail`: what it returns).
pub fn contention(
    out: &mut Vec<u8>,
    tracepoint: &Tracepoint,
    current_tid: u32,
    lock_avma: u64,
    detail: u32,
) {
    begin(out, tracepoint, WakeFlags::default(), current_tid);
    out.extend_from_slice(&lock_avma.to_le_bytes());
    out.extend_from_slice(&detail.to_le_bytes());
}

/// The state of a thread that leaves its CPU, from `prev_state`: its lowest set bit. A bit above
/// all states means that the thread was preempted.
pub(crate) const fn task_state(bits: u64) -> TaskState {
    match bits & 0xff {
        0 if bits == 0 => TaskState::Runnable,
        0 => TaskState::Preempted,
        low => match 1 << low.trailing_zeros() {
            0x01 => TaskState::Sleeping,
            0x02 => TaskState::DiskSleep,
            0x04 => TaskState::Stopped,
            0x08 => TaskState::Traced,
            0x40 => TaskState::Parked,
            0x80 => TaskState::Idle,
            _ => TaskState::Dead,
        },
    }
}

/// `prev_state` of a state.
pub const fn state_bits(state: TaskState) -> u64 {
    match state {
        TaskState::Runnable | TaskState::Throttled => 0,
        TaskState::Sleeping => 0x01,
        TaskState::DiskSleep => 0x02,
        TaskState::Stopped => 0x04,
        TaskState::Traced => 0x08,
        TaskState::Dead => 0x10,
        TaskState::Parked => 0x40,
        TaskState::Idle => 0x80,
        TaskState::Preempted => 0x100,
    }
}

/// The bits of `common_flags`, `enum trace_flag_type` of `include/linux/trace_events.h`.
const CONTEXTS: [(u8, WakeFlags); 3] =
    [(0x08, WakeFlags::HARDIRQ), (0x10, WakeFlags::SOFTIRQ), (0x40, WakeFlags::NMI)];

/// The context of an event, from `common_flags`.
pub(crate) fn wake_flags(common_flags: u64) -> WakeFlags {
    let set = CONTEXTS.into_iter().filter(|(bit, _)| common_flags & u64::from(*bit) != 0);
    set.fold(WakeFlags::default(), |flags, (_, flag)| flags.with(flag))
}

/// The `common_flags` of a context.
pub fn common_flags(context: WakeFlags) -> u8 {
    let set = CONTEXTS.into_iter().filter(|(_, flag)| context.has(*flag));
    set.fold(0, |bits, (bit, _)| bits | bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracepoint::EventFormat;

    #[test]
    fn states_are_the_kernels() {
        let states = [0, 0x100, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x102, 0x400].map(task_state);
        let letters = states.map(TaskState::letter);
        assert_eq!(letters, ["R", "R+", "S", "D", "T", "t", "X", "X", "P", "I", "D", "R+"]);
        assert_eq!(states.map(|state| task_state(state_bits(state))), states);
    }

    #[test]
    fn contexts_are_the_kernels() {
        for bits in [0, 0x08, 0x10, 0x48, 0x58] {
            assert_eq!(u64::from(common_flags(wake_flags(bits))), bits);
        }
    }

    #[test]
    fn raw_bytes_are_where_the_description_says() {
        let all = [SWITCH, WAKING, WAKEUP_NEW, CONTENTION_BEGIN, CONTENTION_END];
        let texts = tracing_data(&all).events;
        let formats: Vec<EventFormat> =
            texts.iter().map(|(_, text)| EventFormat::parse(text).unwrap()).collect();
        let value = |number: usize, name: &str, raw: &[u8]| {
            formats[number].field(name).unwrap().value(raw).unwrap()
        };
        let task = |tid, prio| Task { comm: b"a name that is too long", tid, prio };
        let mut raw = Vec::new();
        switch(&mut raw, &task(7, 120), TaskState::Parked, &task(8, -1));
        let names =
            ["common_type", "common_pid", "prev_pid", "prev_prio", "prev_state", "next_pid"];
        assert_eq!(names.map(|name| value(0, name, &raw)), [372, 7, 7, 120, 0x40, 8]);
        assert_eq!(value(0, "next_prio", &raw), u64::MAX);
        assert_eq!(
            formats[0].field("next_comm").unwrap().bytes(&raw),
            Some(&b"a name that is \0"[..])
        );
        let context = WakeFlags::HARDIRQ.with(WakeFlags::NEW);
        waking(&mut raw, 9, context, &task(8, 120), 3);
        let names = ["common_type", "common_flags", "common_pid", "pid", "prio", "target_cpu"];
        assert_eq!(names.map(|name| value(2, name, &raw)), [373, 8, 9, 8, 120, 3]);
        contention(&mut raw, &CONTENTION_END, 9, u64::MAX - 1, 5);
        assert_eq!([value(4, "lock_addr", &raw), value(4, "ret", &raw)], [u64::MAX - 1, 5]);
    }
}
