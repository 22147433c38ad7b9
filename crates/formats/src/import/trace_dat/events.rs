//! Events of the ring buffer become rows.

use super::header::Header;
use super::kernel_names::KernelNames;
use crate::import::builder::{At, Import, Task, WakeEvent};
use crate::import::frames::Frames;
use crate::perf_data::events::{
    ContentionFields, Role, SwitchFields, WakingFields, tracepoint_role,
};
use crate::perf_data::rows::Contention;
use crate::perf_data::tracepoints::{task_state, wake_flags};
use crate::tracepoint::{EventFormat, Field};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use unhitch_model::FrameId;

/// What to do with an event.
enum Kind {
    Role(&'static str, Role),
    /// `ftrace:kernel_stack`: the callers, from this offset on, as many as this field says.
    KernelStack(usize, Option<Field>),
    /// `ftrace:user_stack`: the callers, and the process.
    UserStack(usize, Option<Field>),
    /// `task:task_newtask`: the child and the flags of clone(2).
    NewTask(Field, Field),
}

/// Names that rows are counted under.
const COUNTED: [&str; 10] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "sched:sched_migrate_task",
    "task:task_rename",
    "lock:contention_begin",
    "lock:contention_end",
];

/// Decodes events by the file's descriptions.
pub(super) struct Decoder<'a> {
    kinds: FxHashMap<u16, Kind>,
    common_type: Field,
    common_flags: Option<Field>,
    common_pid: Option<Field>,
    kallsyms: &'a [u8],
    names: OnceCell<KernelNames<'a>>,
    frames: Frames,
}

/// An event that waits for its stack, which comes next in the ring.
pub(super) struct Pending<'a> {
    at: At,
    kind: u16,
    current: u32,
    data: &'a [u8],
    kernel: Vec<FrameId>,
    user: Vec<FrameId>,
}

impl<'a> Decoder<'a> {
    pub fn new(header: &'a Header<'_>) -> Option<Self> {
        let common = header.events.first()?;
        let field = |name: &str| common.1.field(name);
        let kinds = header.events.iter().filter_map(|(system, format)| {
            Some((u16::try_from(format.id).ok()?, kind_of(system, format)?))
        });
        Some(Self {
            kinds: kinds.collect(),
            common_type: field("common_type")?,
            common_flags: field("common_flags"),
            common_pid: field("common_pid"),
            kallsyms: &header.kallsyms,
            names: OnceCell::new(),
            frames: Frames::default(),
        })
    }

    /// Takes the next event of a CPU. `pending` is the one before.
    pub fn event<'b>(
        &mut self,
        import: &mut Import,
        pending: &mut Option<Pending<'b>>,
        at: At,
        data: &'b [u8],
    ) {
        let Some(kind) = self.common_type.value(data) else {
            return import.leave_out("damaged event");
        };
        let value = |field: Option<Field>| field.and_then(|field| field.value(data)).unwrap_or(0);
        let current = value(self.common_pid) as u32;
        import.cover(at);
        match self.kinds.get(&(kind as u16)) {
            Some(Kind::KernelStack(offset, len)) => {
                let callers = callers(data, *offset, len.and_then(|len| len.value(data)));
                if let Some(pending) = pending.as_mut().filter(|it| it.current == current) {
                    pending.kernel = self.kernel_frames(import, &callers);
                }
            }
            Some(Kind::UserStack(offset, tgid)) => {
                let pid = value(*tgid) as u32;
                if pid != 0 {
                    import.lives.owner(at.time, current, pid);
                }
                let callers = callers(data, *offset, None);
                if let Some(pending) = pending.as_mut().filter(|it| it.current == current) {
                    pending.user =
                        self.frames.user_stack(&mut import.trace, pid, callers.into_iter());
                }
            }
            Some(Kind::NewTask(child, flags)) => {
                /// `clone(2)`: the child is a thread of the caller's process.
                const CLONE_THREAD: u64 = 0x1_0000;
                import.count("task:task_newtask");
                let child = value(Some(*child)) as u32;
                import.lives.born(at.time, child, current);
                match value(Some(*flags)) & CLONE_THREAD {
                    0 => import.lives.owner(at.time, child, child),
                    _ => import.lives.sibling(at.time, child, current),
                }
            }
            Some(Kind::Role(..)) => {
                self.flush(import, pending.take());
                let (kernel, user) = (Vec::new(), Vec::new());
                *pending = Some(Pending { at, kind: kind as u16, current, data, kernel, user });
            }
            None => import.count("event of another kind"),
        }
    }

    /// Adds the row of an event whose stack has come, or will not.
    pub fn flush(&mut self, import: &mut Import, pending: Option<Pending<'_>>) {
        let Some(mut event) = pending else { return };
        let kernel_len = event.kernel.len();
        event.kernel.append(&mut event.user);
        event.at.stack = import.trace.stacks.intern(&event.kernel, kernel_len as u16);
        let Some(Kind::Role(name, role)) = self.kinds.get(&event.kind) else { return };
        import.count(name);
        let Pending { at, current, data, .. } = event;
        let done = match role {
            Role::Switch(fields) => switch(import, at, fields, data),
            Role::Waking(fields) => {
                let kind = match *name {
                    "sched:sched_waking" => WakeEvent::Waking,
                    "sched:sched_wakeup" => WakeEvent::Wakeup,
                    _ => WakeEvent::New,
                };
                let flags = self.common_flags.and_then(|field| field.value(data));
                waking(import, at, (kind, current, flags.unwrap_or(0)), fields, data)
            }
            Role::Contention(fields) => contention(import, at, current, fields, data),
            Role::Born(child) => child.value(data).map(|child| {
                import.lives.born(at.time, child as u32, current);
            }),
            Role::Gone(tid) => tid.value(data).map(|tid| import.lives.gone(at.time, tid as u32)),
            Role::Renamed(tid, name) => tid.value(data).zip(name.bytes(data)).map(|(tid, name)| {
                import.lives.renamed(at.time, tid as u32, name);
            }),
            Role::Migrated(tid, to) => tid.value(data).zip(to.value(data)).map(|(tid, to)| {
                if let Ok(to) = u16::try_from(to) {
                    import.migration(at.time, tid as u32, to);
                }
            }),
            Role::Clock | Role::Ignored => Some(()),
        };
        if done.is_none() {
            import.leave_out("damaged event");
        }
    }

    /// The frames of callers in the kernel. All are return addresses, which lie behind the call.
    fn kernel_frames(&mut self, import: &mut Import, callers: &[u64]) -> Vec<FrameId> {
        let names = self.names.get_or_init(|| KernelNames::new(self.kallsyms));
        let frame = |avma: &u64| {
            let avma = avma.wrapping_sub(1);
            self.frames.kernel(&mut import.trace, avma, names.at(avma).unwrap_or_default())
        };
        callers.iter().map(frame).collect()
    }
}

fn kind_of(system: &str, format: &EventFormat) -> Option<Kind> {
    let field = |name: &str| format.field(name);
    let full = format!("{system}:{}", format.name);
    match full.as_str() {
        "ftrace:kernel_stack" => Some(Kind::KernelStack(field("caller")?.offset, field("size"))),
        "ftrace:user_stack" => Some(Kind::UserStack(field("caller")?.offset, field("tgid"))),
        "task:task_newtask" => Some(Kind::NewTask(field("pid")?, field("clone_flags")?)),
        name => {
            let name = COUNTED.into_iter().find(|known| *known == name)?;
            match tracepoint_role(name, format, false) {
                Role::Ignored => None,
                role => Some(Kind::Role(name, role)),
            }
        }
    }
}

/// The addresses of a stack, innermost first.
fn callers(data: &[u8], offset: usize, len: Option<u64>) -> Vec<u64> {
    const MAX_CALLERS: usize = 512;
    /// Marks where the kernel has removed the frames of its tracer.
    const TRAMPOLINE: u64 = i32::MAX as u64;
    let words = data.get(offset..).unwrap_or_default().chunks_exact(8);
    let len = len.map_or(MAX_CALLERS, |len| len.min(MAX_CALLERS as u64) as usize);
    words
        .take(len)
        .filter_map(|word| word.first_chunk().map(|word| u64::from_le_bytes(*word)))
        .take_while(|avma| *avma != 0 && *avma != u64::MAX)
        .filter(|avma| *avma != TRAMPOLINE)
        .collect()
}

fn switch(import: &mut Import, at: At, fields: &SwitchFields, data: &[u8]) -> Option<()> {
    let prio = |field: Option<Field>| field.and_then(|it| it.value(data)).unwrap_or(0) as i16;
    let comm = |field: Option<Field>| field.and_then(|it| it.bytes(data)).unwrap_or_default();
    let prev = Task {
        tid: fields.prev_pid.value(data)? as u32,
        prio: prio(fields.prev_prio),
        comm: comm(fields.prev_comm),
    };
    let next = Task {
        tid: fields.next_pid.value(data)? as u32,
        prio: prio(fields.next_prio),
        comm: comm(fields.next_comm),
    };
    import.switch(at, prev, task_state(fields.prev_state.value(data)?), next);
    Some(())
}

fn waking(
    import: &mut Import,
    at: At,
    (kind, current, flags): (WakeEvent, u32, u64),
    fields: &WakingFields,
    data: &[u8],
) -> Option<()> {
    let comm = fields.comm.and_then(|field| field.bytes(data)).unwrap_or_default();
    let wakee = Task { tid: fields.pid.value(data)? as u32, prio: 0, comm };
    let target = fields.target_cpu.and_then(|field| field.value(data));
    let target = target.and_then(|cpu| u16::try_from(cpu).ok());
    import.waking(at, kind, current, wakee, (target, wake_flags(flags)));
    Some(())
}

fn contention(
    import: &mut Import,
    at: At,
    tid: u32,
    fields: &ContentionFields,
    data: &[u8],
) -> Option<()> {
    let flags = fields.detail.and_then(|field| field.value(data)).unwrap_or(0) as u32;
    let lock_avma = fields.lock_addr.value(data)?;
    import.contention(at, Contention { lock_avma, tid, flags, end: !fields.begin });
    Some(())
}
