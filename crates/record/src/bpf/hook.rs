//! The programs whose form depends on the kernel: for the switch itself, and behind it, where the
//! stack of a wait is taken once the thread is back on a CPU.
//!
//! The kernel's BTF says which tracepoints there are. What arguments they have is tried: the
//! verifier refuses a program that reads one too many.

use super::parts::{missing, program};
use super::refused::{failed, failed_with};
use crate::error::Error;
use crate::kernel::Symbols;
use aya::programs::{BtfTracePoint, KProbe};
use aya::{Btf, Ebpf};

/// The programs for `sched_switch`, best first: since Linux 5.18 it passes the state in which the
/// thread left.
const SWITCH_PROGRAMS: [&str; 2] = ["on_switch", "on_switch_before_5_18"];

/// Loads the program for `sched_switch` that this kernel accepts, and returns its name.
pub(super) fn load_switch_program(programs: &mut Ebpf, btf: &Btf) -> Result<&'static str, Error> {
    first_loaded(&SWITCH_PROGRAMS, |name| {
        let program: &mut BtfTracePoint = program(programs, name)?;
        program.load("sched_switch", btf).map_err(failed("load a program"))
    })
}

/// What calls the recorder when a thread is back on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hook {
    /// The tracepoint `sched_exit_tp`, since Linux 6.15.
    ExitOfSchedule,
    /// A probe (kprobe) on the function that the thread calls first.
    FinishTaskSwitch,
    /// `sched_switch`: the thread is not yet back, and its user stack is out of reach.
    Switch,
}

impl Hook {
    /// Best first.
    pub(super) const ALL: [Self; 3] = [Self::ExitOfSchedule, Self::FinishTaskSwitch, Self::Switch];

    /// The name of the tracepoint or function.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ExitOfSchedule => "sched_exit_tp",
            Self::FinishTaskSwitch => "finish_task_switch",
            Self::Switch => "sched_switch",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::ExitOfSchedule => "on_exit_of_schedule",
            Self::FinishTaskSwitch => "on_finished_switch",
            Self::Switch => "on_next",
        }
    }

    /// What its user must know.
    pub(super) fn warning(self) -> Option<String> {
        (self == Self::Switch).then(|| {
            "waits have no user stacks: the kernel has neither sched_exit_tp (Linux 6.15) nor \
             kprobes (CONFIG_KPROBE_EVENTS)"
                .to_owned()
        })
    }

    /// Loads the first of `hooks` that this kernel allows. A probe is also attached: only then it
    /// is known to be allowed, and it does nothing before the first switch is recorded.
    pub(super) fn load(
        hooks: &[Self],
        programs: &mut Ebpf,
        btf: &Btf,
        symbols: &Symbols,
    ) -> Result<Self, Error> {
        first_loaded(hooks, |hook| match hook {
            Self::FinishTaskSwitch => load_probe(programs, symbols),
            Self::ExitOfSchedule | Self::Switch => {
                let program: &mut BtfTracePoint = program(programs, hook.program())?;
                program.load(hook.name(), btf).map_err(failed("load a program"))
            }
        })
    }

    /// Attaches what [`Hook::load`] has loaded; after the program for the switch itself, which must
    /// be called first.
    pub(super) fn attach(self, programs: &mut Ebpf) -> Result<(), Error> {
        if self == Self::FinishTaskSwitch {
            return Ok(());
        }
        let program: &mut BtfTracePoint = program(programs, self.program())?;
        program.attach().map(drop).map_err(failed("attach a program"))
    }
}

/// Whether a function of the kernel is the one that a thread calls first when it is back. Compilers
/// add `.isra.0` and the like to its name.
pub(super) fn finishes_switch(name: &str) -> bool {
    name.strip_prefix("finish_task_switch")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && !rest.contains("cold"))
}

fn load_probe(programs: &mut Ebpf, symbols: &Symbols) -> Result<(), Error> {
    let missing = || failed_with("find a function of the kernel", "finish_task_switch");
    let function = symbols.name(finishes_switch).ok_or_else(missing)?;
    let probe: &mut KProbe = program(programs, Hook::FinishTaskSwitch.program())?;
    probe.load().map_err(failed("load a program"))?;
    probe.attach(function, 0).map(drop).map_err(failed("attach a probe"))
}

/// The first that `load` can load; if there is none, the error of the last one: a kernel may lack what
/// the others need, and that says nothing about why the last is refused.
fn first_loaded<T: Copy>(
    all: &[T],
    mut load: impl FnMut(T) -> Result<(), Error>,
) -> Result<T, Error> {
    let mut refusal = None;
    for &one in all {
        match load(one) {
            Ok(()) => return Ok(one),
            Err(error) => refusal = Some(error),
        }
    }
    Err(refusal.unwrap_or_else(|| missing("a program")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_is_found_whatever_the_compiler_appended() {
        for name in ["finish_task_switch", "finish_task_switch.isra.0"] {
            assert!(finishes_switch(name), "{name}");
        }
        for name in ["finish_task_switch.isra.0.cold", "finish_task_switches", "finish_task"] {
            assert!(!finishes_switch(name), "{name}");
        }
    }

    #[test]
    fn the_first_that_loads_is_taken_and_else_the_last_error_remains() {
        let refuse = |number| Err(failed_with("load", format!("no {number}")));
        let taken = first_loaded(&[1, 2, 3], |one| if one == 2 { Ok(()) } else { refuse(one) });
        assert_eq!(taken.unwrap(), 2);
        let error = first_loaded(&[1, 2], refuse).unwrap_err();
        assert_eq!(error.with_causes(), "cannot load: no 2");
    }
}
