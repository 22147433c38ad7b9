//! The scheduler's functions, which Windows' kernel has on top of every stack.

use crate::code::{Code, Stack};
use crate::machine::Machine;

/// The frames that the kernel adds to the stacks of a script, innermost last.
const SWITCH_FRAMES: &str = "nt!KiCommitThreadWait nt!KiSwapThread nt!KiSwapContext";
const PREEMPT_FRAMES: &str = "nt!KiDispatchInterrupt nt!KiSwapContext";
const READY_FRAMES: &str = "nt!KiTryUnwaitThread nt!KiReadyThread";
const IDLE_FRAMES: &str = "nt!KiIdleLoop nt!PoIdle";

/// The machine's code with the scheduler's functions, as the kernel's PDB has them too.
pub(super) fn code(machine: &Machine) -> (Code, [Stack; 4]) {
    let mut code = machine.code.clone();
    let frames =
        [SWITCH_FRAMES, PREEMPT_FRAMES, READY_FRAMES, IDLE_FRAMES].map(|frames| code.stack(frames));
    (code, frames)
}
