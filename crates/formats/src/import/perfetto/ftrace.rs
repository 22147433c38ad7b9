//! Bundles of the kernel's events: `FtraceEventBundle`, plain and compact.

use super::wire::Value;
use crate::import::builder::{At, Import, Task, UNKNOWN_TID, WakeEvent};
use crate::perf_data::tracepoints::{task_state, wake_flags};
use rustc_hash::FxHashMap;
use unhitch_model::{StackId, TaskState, WakeFlags};

/// What carries over from one bundle to the next.
#[derive(Default)]
pub(super) struct Ftrace {
    cpus: FxHashMap<u16, Cpu>,
    /// True if wake-ups say in what context they were issued.
    pub has_contexts: bool,
    /// True for kernels before 4.14, whose states have other numbers.
    pub has_old_states: bool,
}

#[derive(Default)]
struct Cpu {
    /// The thread on the CPU, with its priority, by the last compact switch.
    current: Option<(u32, i16)>,
    /// Number of losses of packets that bundles of this CPU have seen.
    drops: u64,
}

/// The difference of the bundle's clock to the trace's.
#[derive(Clone, Copy, Default)]
struct Offset {
    ftrace: u64,
    boot: u64,
}

impl Offset {
    fn apply(self, time: u64) -> u64 {
        time.wrapping_sub(self.ftrace).wrapping_add(self.boot)
    }
}

impl Ftrace {
    /// Reads a bundle. `drops`: how many losses of packets there were in its sequence.
    pub fn bundle(&mut self, import: &mut Import, bundle: Value<'_>, drops: u64) {
        let (mut cpu, mut lost, mut clock, mut offset) = (0, false, 0, Offset::default());
        for (field, value) in bundle.fields() {
            match field {
                1 => cpu = value.number(),
                3 => lost = value.number() != 0,
                5 => clock = value.number(),
                6 => offset.ftrace = value.number(),
                7 => offset.boot = value.number(),
                _ => {}
            }
        }
        let Ok(cpu) = u16::try_from(cpu) else { return import.leave_out("CPU-less bundle") };
        if clock == 0 || offset.boot == 0 {
            offset = Offset::default();
        }
        let state = self.cpus.entry(cpu).or_default();
        lost |= std::mem::replace(&mut state.drops, drops) != drops;
        let before = import.last_time(cpu);
        if lost {
            state.current = None;
        }
        let mut first = u64::MAX;
        let mut fields = bundle.fields();
        for (field, value) in fields.by_ref() {
            match field {
                2 => first = first.min(self.event(import, cpu, offset, value)),
                4 => first = first.min(self.compact(import, cpu, offset, value)),
                _ => {}
            }
        }
        if fields.is_damaged() {
            import.leave_out("damaged bundle");
        }
        if let (true, Some(before), true) = (lost, before, first != u64::MAX) {
            import.lost(cpu, before, first, 0);
        }
    }

    /// A `FtraceEvent`. Returns its time.
    fn event(&mut self, import: &mut Import, cpu: u16, offset: Offset, event: Value<'_>) -> u64 {
        let (mut time, mut current, mut flags, mut payload) = (0, 0, None, None);
        for (field, value) in event.fields() {
            match field {
                1 => time = offset.apply(value.number()),
                2 => current = value.u32(),
                5 => flags = Some(value.number()),
                _ if matches!(value, Value::Bytes(_)) => payload = Some((field, value)),
                _ => {}
            }
        }
        let Some((kind, payload)) = payload else { return u64::MAX };
        let at = At { time, cpu, stack: StackId::EMPTY };
        match kind {
            4 => self.switch(import, at, payload),
            20 => self.waking(import, at, WakeEvent::Waking, (current, flags), payload),
            17 => self.waking(import, at, WakeEvent::Wakeup, (current, flags), payload),
            114 => self.waking(import, at, WakeEvent::New, (current, flags), payload),
            _ => life(import, at, kind, current, payload),
        }
        import.cover(at);
        time
    }

    fn switch(&mut self, import: &mut Import, at: At, payload: Value<'_>) {
        import.count("sched:sched_switch");
        let (mut prev, mut next, mut state) = (Task::default(), Task::default(), 0);
        for (field, value) in payload.fields() {
            match field {
                1 => prev.comm = value.bytes(),
                2 => prev.tid = value.u32(),
                3 => prev.prio = value.number() as i16,
                4 => state = value.number(),
                5 => next.comm = value.bytes(),
                6 => next.tid = value.u32(),
                7 => next.prio = value.number() as i16,
                _ => {}
            }
        }
        self.cpus.entry(at.cpu).or_default().current = Some((next.tid, next.prio));
        import.switch(at, prev, self.state(state), next);
    }

    fn state(&self, bits: u64) -> TaskState {
        /// What is parked now was a thread that has exited.
        const OLD_DEAD: u64 = 64;
        match bits & 0xff {
            OLD_DEAD if self.has_old_states => TaskState::Dead,
            _ => task_state(bits),
        }
    }

    fn waking(
        &mut self,
        import: &mut Import,
        at: At,
        event: WakeEvent,
        (current, flags): (u32, Option<u64>),
        payload: Value<'_>,
    ) {
        import.count(match event {
            WakeEvent::Waking => "sched:sched_waking",
            WakeEvent::Wakeup => "sched:sched_wakeup",
            WakeEvent::New => "sched:sched_wakeup_new",
        });
        let (mut wakee, mut target) = (Task::default(), None);
        for (field, value) in payload.fields() {
            match field {
                1 => wakee.comm = value.bytes(),
                2 => wakee.tid = value.u32(),
                3 => wakee.prio = value.number() as i16,
                5 => target = u16::try_from(value.number()).ok(),
                _ => {}
            }
        }
        self.has_contexts |= flags.is_some();
        let flags = flags.map_or(WakeFlags::default(), wake_flags);
        import.waking(at, event, current, wakee, (target, flags));
    }

    /// A `CompactSched`: columns, with the difference of each time to the one before. Returns the
    /// first time.
    fn compact(
        &mut self,
        import: &mut Import,
        cpu: u16,
        offset: Offset,
        compact: Value<'_>,
    ) -> u64 {
        let mut columns: [&[u8]; 13] = [&[]; 13];
        let mut comms = Vec::new();
        for (field, value) in compact.fields() {
            match (field, columns.get_mut(field as usize)) {
                (5, _) => comms.push(value.bytes()),
                (_, Some(column)) => *column = value.bytes(),
                _ => {}
            }
        }
        let column = |field: usize| Value::Bytes(columns[field]).numbers();
        let comm = |index: Option<u64>| -> &[u8] {
            index
                .and_then(|index| comms.get(usize::try_from(index).ok()?))
                .copied()
                .unwrap_or_default()
        };
        let (mut time, mut first) = (0u64, u64::MAX);
        let (mut states, mut tids, mut prios, mut names) =
            (column(2), column(3), column(4), column(6));
        for delta in column(1) {
            time = time.wrapping_add(delta);
            let (Some(state), Some(tid)) = (states.next(), tids.next()) else { break };
            let at = At { time: offset.apply(time), cpu, stack: StackId::EMPTY };
            first = first.min(at.time);
            import.count("sched:sched_switch");
            let prio = prios.next().unwrap_or(0) as i16;
            let next = Task { tid: tid as u32, prio, comm: comm(names.next()) };
            let current = &mut self.cpus.entry(cpu).or_default().current;
            match current.replace((next.tid, prio)) {
                Some((tid, prio)) => {
                    import.switch(at, Task { tid, prio, comm: &[] }, self.state(state), next);
                }
                // Who left is not in the file.
                None => import.arrival(at, next),
            }
        }
        time = 0;
        self.has_contexts |= !columns[12].is_empty();
        let (mut tids, mut targets, mut prios, mut names, mut flags) =
            (column(8), column(9), column(10), column(11), column(12));
        for delta in column(7) {
            time = time.wrapping_add(delta);
            let Some(tid) = tids.next() else { break };
            let at = At { time: offset.apply(time), cpu, stack: StackId::EMPTY };
            first = first.min(at.time);
            import.count("sched:sched_waking");
            let target = targets.next().and_then(|cpu| u16::try_from(cpu).ok());
            let prio = prios.next().unwrap_or(0) as i16;
            let wakee = Task { tid: tid as u32, prio, comm: comm(names.next()) };
            let flags = flags.next().map_or(WakeFlags::default(), wake_flags);
            import.waking(at, WakeEvent::Waking, UNKNOWN_TID, wakee, (target, flags));
        }
        first
    }
}

/// Events in the life of a thread, and those that are only counted.
fn life(import: &mut Import, at: At, kind: u32, current: u32, payload: Value<'_>) {
    let field = |number: u32| {
        payload.fields().filter(|(field, _)| *field == number).map(|(_, value)| value).last()
    };
    let number = |of: u32| field(of).map_or(0, Value::u32);
    match kind {
        235 => {
            /// `clone(2)`: the child is a thread of the caller's process.
            const CLONE_THREAD: u64 = 0x1_0000;
            import.count("task:task_newtask");
            let child = number(1);
            import.lives.born(at.time, child, current);
            if let Some(name) = field(2) {
                import.lives.renamed(at.time, child, name.bytes());
            }
            match field(3).map_or(0, Value::number) & CLONE_THREAD {
                0 => import.lives.owner(at.time, child, child),
                _ => import.lives.sibling(at.time, child, current),
            }
        }
        236 => {
            import.count("task:task_rename");
            let name = field(3).map_or(&[][..], Value::bytes);
            import.lives.renamed(at.time, number(1), name);
        }
        238 => {
            import.count("sched:sched_process_exit");
            import.lives.gone(at.time, number(2));
        }
        239 => {
            import.count("sched:sched_process_fork");
            import.lives.born(at.time, number(4), number(2));
        }
        491 => {
            import.count("sched:sched_migrate_task");
            if let Ok(cpu) = u16::try_from(number(5)) {
                import.migration(at.time, number(2), cpu);
            }
        }
        _ => import.count("ftrace event of another kind"),
    }
}
