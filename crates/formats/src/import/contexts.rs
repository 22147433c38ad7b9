//! Contexts of wake-ups that the source does not tell, from their kernel stacks: an interrupt's
//! functions are on them.

use rustc_hash::FxHashMap;
use unhitch_model::{StackId, Trace, WakeFlags};

/// How the names of functions begin with which the kernel enters an interrupt's context.
const CONTEXTS: [(&str, WakeFlags); 20] = [
    // Softirqs, which run at the end of interrupts, or where a thread lets them.
    ("__do_softirq", WakeFlags::SOFTIRQ),
    ("handle_softirqs", WakeFlags::SOFTIRQ),
    // On every machine: devices, timers, and other CPUs.
    ("__handle_irq_event_percpu", WakeFlags::HARDIRQ),
    ("hrtimer_interrupt", WakeFlags::HARDIRQ),
    ("irq_work_run", WakeFlags::HARDIRQ),
    ("generic_smp_call_function_", WakeFlags::HARDIRQ),
    // x86.
    ("asm_sysvec_", WakeFlags::HARDIRQ),
    ("sysvec_", WakeFlags::HARDIRQ),
    ("asm_common_interrupt", WakeFlags::HARDIRQ),
    ("common_interrupt", WakeFlags::HARDIRQ),
    ("smp_apic_timer_interrupt", WakeFlags::HARDIRQ),
    ("smp_reschedule_interrupt", WakeFlags::HARDIRQ),
    ("do_IRQ", WakeFlags::HARDIRQ),
    ("exc_nmi", WakeFlags::NMI),
    // arm64, RISC-V.
    ("el0_interrupt", WakeFlags::HARDIRQ),
    ("el1_interrupt", WakeFlags::HARDIRQ),
    ("el0_irq", WakeFlags::HARDIRQ),
    ("el1_irq", WakeFlags::HARDIRQ),
    ("gic_handle_irq", WakeFlags::HARDIRQ),
    ("handle_riscv_irq", WakeFlags::HARDIRQ),
];

/// How the names of functions begin in which a thread that was interrupted works for itself again,
/// although the interrupt's functions are still on its stack.
const ENDS: [&str; 4] =
    ["exit_to_user_mode", "irqentry_exit", "do_notify_resume", "prepare_exit_to_usermode"];

/// Sets the flags of all wake-ups. Returns whether each had a stack that tells its context.
pub(super) fn from_stacks(trace: &mut Trace) -> bool {
    let mut known: FxHashMap<StackId, Option<WakeFlags>> = FxHashMap::default();
    let mut all = true;
    for row in 0..trace.wakings.len() {
        let stack = trace.wakings.stack[row];
        match *known.entry(stack).or_insert_with(|| context(trace, stack)) {
            Some(context) => trace.wakings.flags[row] = trace.wakings.flags[row].with(context),
            None => all &= trace.wakings.waker[row].is_idle(),
        }
    }
    all
}

/// The context in which the functions of a stack ran; `None` if their names are not known.
fn context(trace: &Trace, stack: StackId) -> Option<WakeFlags> {
    let mut is_known = false;
    for frame in trace.stacks.kernel_frames(stack) {
        for symbol in trace.symbols.get(*frame) {
            let name = trace.name(symbol.function);
            is_known |= !name.is_empty();
            if ENDS.iter().any(|end| name.starts_with(end)) {
                return Some(WakeFlags::default());
            }
            if let Some((_, flags)) = CONTEXTS.iter().find(|(begin, _)| name.starts_with(begin)) {
                return Some(*flags);
            }
        }
    }
    is_known.then(WakeFlags::default)
}
