//! Events of LTTng's kernel tracer become rows.

use super::bits::Values;
use crate::import::builder::{At, Import, Task, UNKNOWN_TID, WakeEvent};
use crate::import::frames::Frames;
use crate::perf_data::tracepoints::task_state;
use rustc_hash::FxHashMap;
use std::ops::RangeFrom;
use unhitch_model::{FrameId, StackId, WakeFlags};

/// LTTng counts priorities from that of the real-time threads on.
const PRIO_OFFSET: i64 = 100;

/// What carries over from one event to the next.
#[derive(Default)]
pub(super) struct Events {
    frames: Frames,
    /// In how many interrupts each CPU is: hard ones and soft ones.
    interrupts: FxHashMap<u16, (u32, u32)>,
    /// True if entries of interrupts were recorded.
    pub has_contexts: bool,
}

impl Events {
    /// Events were lost: what interrupts the CPU is in is not known any more.
    pub fn forget(&mut self, cpu: u16) {
        self.interrupts.remove(&cpu);
    }

    /// Takes an event.
    pub fn event(&mut self, import: &mut Import, at: At, name: &str, values: &Values<'_, '_>) {
        let number = |name: &str| values.number(name);
        let tid = |name: &str| values.number(name).map(|tid| tid as u32);
        import.cover(at);
        let context = |name: &str| values.context(name).map(|id| id as u32);
        if let Some((current, pid)) = context("tid").zip(context("pid")) {
            import.lives.owner(at.time, current, pid);
        }
        match name {
            "sched_switch" => {
                import.count("sched_switch");
                let at = At { stack: self.stack(import, values), ..at };
                let Some((prev, next)) = tid("prev_tid").zip(tid("next_tid")) else {
                    return import.leave_out("damaged event");
                };
                let prev = task(values, prev, "prev_prio", "prev_comm");
                let next = task(values, next, "next_prio", "next_comm");
                import.switch(at, prev, task_state(number("prev_state").unwrap_or(0)), next);
            }
            "sched_waking" => self.wake(import, at, WakeEvent::Waking, values),
            "sched_wakeup" => self.wake(import, at, WakeEvent::Wakeup, values),
            "sched_wakeup_new" => self.wake(import, at, WakeEvent::New, values),
            "sched_migrate_task" => {
                import.count("sched_migrate_task");
                let cpu = number("dest_cpu").and_then(|cpu| u16::try_from(cpu).ok());
                if let Some((tid, cpu)) = tid("tid").zip(cpu) {
                    import.migration(at.time, tid, cpu);
                }
            }
            "sched_process_fork" => {
                import.count("sched_process_fork");
                if let Some((child, parent)) = tid("child_tid").zip(tid("parent_tid")) {
                    import.lives.born(at.time, child, parent);
                }
                for (thread, process) in [("child_tid", "child_pid"), ("parent_tid", "parent_pid")]
                {
                    if let Some((tid, pid)) = tid(thread).zip(tid(process)) {
                        import.lives.owner(at.time, tid, pid);
                    }
                }
            }
            "sched_process_exit" => {
                import.count("sched_process_exit");
                if let Some(tid) = tid("tid") {
                    import.lives.gone(at.time, tid);
                }
            }
            "lttng_statedump_process_state" => statedump(import, at.time, values),
            _ => {
                self.interrupt(at.cpu, name);
                import.count("event of another kind");
            }
        }
    }

    fn wake(&mut self, import: &mut Import, at: At, event: WakeEvent, values: &Values<'_, '_>) {
        import.count(match event {
            WakeEvent::Waking => "sched_waking",
            WakeEvent::Wakeup => "sched_wakeup",
            WakeEvent::New => "sched_wakeup_new",
        });
        let at = At { stack: self.stack(import, values), ..at };
        let Some(wakee) = values.number("tid").map(|tid| tid as u32) else {
            return import.leave_out("damaged event");
        };
        let target = values.number("target_cpu").and_then(|cpu| u16::try_from(cpu).ok());
        let (hard, soft) = self.interrupts.get(&at.cpu).copied().unwrap_or_default();
        let mut flags = WakeFlags::default();
        if hard > 0 {
            flags = flags.with(WakeFlags::HARDIRQ);
        } else if soft > 0 {
            flags = flags.with(WakeFlags::SOFTIRQ);
        }
        let wakee = task(values, wakee, "prio", "comm");
        // The kernel wakes these when a softirq leaves work to them, after its exit was reported.
        if flags == WakeFlags::default() && wakee.comm.starts_with(b"ksoftirqd/") {
            flags = flags.with(WakeFlags::SOFTIRQ);
        }
        let waker = values.context("tid").map_or(UNKNOWN_TID, |tid| tid as u32);
        import.waking(at, event, waker, wakee, (target, flags));
    }

    fn interrupt(&mut self, cpu: u16, name: &str) {
        let (hard, soft) = self.interrupts.entry(cpu).or_default();
        let is_hard = name.starts_with("irq_handler_")
            || name.starts_with("hrtimer_expire_")
            || name.starts_with("timer_hrtimer_expire_")
            || name.starts_with("x86_irq_vectors_");
        let is_soft = name.starts_with("irq_softirq_");
        let depth = match (is_hard, is_soft) {
            (true, _) => hard,
            (_, true) => soft,
            _ => return,
        };
        if name.ends_with("_entry") {
            self.has_contexts = true;
            *depth = depth.saturating_add(1);
        } else if name.ends_with("_exit") {
            *depth = depth.saturating_sub(1);
        }
    }

    /// The stack that the contexts `callstack-kernel` and `callstack-user` add to an event.
    fn stack(&self, import: &mut Import, values: &Values<'_, '_>) -> StackId {
        /// Marks the end of a stack in LTTng's buffers.
        const END: u64 = u64::MAX;
        /// x86-64's modules, and on no architecture the kernel itself.
        const MODULES: RangeFrom<u64> = 0xffff_ffff_c000_0000..;
        let is_address = |avma: &&u64| **avma != 0 && **avma != END;
        let mut frames: Vec<FrameId> = Vec::new();
        let kernel = values.numbers("callstack_kernel").unwrap_or_default();
        // LTTng begins with functions of its own modules. No module calls these tracepoints itself.
        let own = |avma: &&u64| MODULES.contains(*avma);
        for avma in kernel.iter().filter(is_address).skip_while(own) {
            frames.push(self.frames.kernel(&mut import.trace, avma.wrapping_sub(1), ""));
        }
        let kernel_len = frames.len() as u16;
        let pid = values.context("pid").unwrap_or(0) as u32;
        let user = values.numbers("callstack_user").unwrap_or_default();
        let user = user.iter().filter(is_address).copied();
        frames.extend(self.frames.user_stack(&mut import.trace, pid, user));
        import.trace.stacks.intern(&frames, kernel_len)
    }
}

fn task<'a>(values: &Values<'_, 'a>, tid: u32, prio: &str, comm: &str) -> Task<'a> {
    let prio = values.number(prio).unwrap_or(0) as i64;
    Task {
        tid,
        prio: prio.saturating_add(PRIO_OFFSET).clamp(-1, i64::from(i16::MAX)) as i16,
        comm: values.bytes(comm).unwrap_or_default(),
    }
}

/// A thread that there was when the recording began.
fn statedump(import: &mut Import, time: u64, values: &Values<'_, '_>) {
    import.count("lttng_statedump_process_state");
    let number = |name: &str| values.number(name).map(|number| number as u32);
    let Some((tid, pid)) = number("tid").zip(number("pid")) else { return };
    import.lives.owner(time, tid, pid);
    import.lives.name(time, tid, values.bytes("name").unwrap_or_default());
    if tid == pid {
        import.lives.process(pid, number("ppid"), Default::default());
    }
}
