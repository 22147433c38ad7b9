//! What a trace lacks, and exactly what to record next time, for answers that need it.
//!
//! *Why one place:* answers, tables and lists of waits print "not recorded" in the same words, with
//! the same remedy.

use super::units;
use serde::Serialize;
use unhitch_model::{Recorded, System, Trace};

/// What cannot be known if `what` was not recorded.
pub const fn lacks(what: Recorded) -> &'static str {
    match what {
        Recorded::Switches => {
            "the trace holds no context switches, so nothing shows who waited for whom"
        }
        Recorded::Wakings => "the trace holds no wake-ups, so nothing shows who ended which wait",
        Recorded::Samples => {
            "the trace holds no CPU samples, so nothing shows where threads were while they ran"
        }
        Recorded::Counters => "the trace holds no counters of the machine",
    }
}

/// What a trace lacks, for programs.
#[derive(Clone, Serialize, Debug)]
pub struct Lack {
    /// What was not recorded.
    pub what: &'static str,
    /// The columns that are empty for it.
    pub columns: Vec<String>,
    /// What cannot be known.
    pub why: &'static str,
    /// How to record it.
    pub advice: &'static str,
}

impl Lack {
    /// If `what` was not recorded. No column is empty for it yet.
    pub fn of(trace: &Trace, what: Recorded) -> Option<Self> {
        let advice = advice(trace.meta.system, what);
        let lack = Self { what: what.name(), columns: Vec::new(), why: lacks(what), advice };
        (!trace.has(what)).then_some(lack)
    }
}

/// If `what` was not recorded: that fact, what cannot be known, what can be used instead, and how
/// to record it, each on a line. `columns` names the table's columns that are empty for it, in
/// brackets.
pub fn not_recorded(trace: &Trace, what: Recorded, columns: &str) -> Option<String> {
    if trace.has(what) {
        return None;
    }
    let instead = if what == Recorded::Switches { samples_instead(trace) } else { String::new() };
    Some(format!(
        "Not recorded{columns}: {}.\n{instead}{}\n",
        lacks(what),
        advice(trace.meta.system, what)
    ))
}

/// What CPU samples tell where there are no context switches: a line, empty without samples.
pub fn samples_instead(trace: &Trace) -> String {
    match trace.samples.len() as u64 {
        0 => String::new(),
        samples => {
            format!(
                "{} {} who computed: `unhitch hot TRACE`, `unhitch table TRACE samples`.\n",
                units::plural(samples, "CPU sample"),
                if samples == 1 { "shows" } else { "show" }
            )
        }
    }
}

/// How to record it.
pub const fn advice(system: System, what: Recorded) -> &'static str {
    match what {
        Recorded::Switches => switches(system),
        Recorded::Wakings => wakings(system),
        Recorded::Samples => samples(system),
        Recorded::Counters => "`unhitch` records them on Linux, with everything else.",
    }
}

/// How to record CPU samples.
pub const fn samples(system: System) -> &'static str {
    match system {
        System::Windows => {
            "Record CPU samples next time: in UIforETW tick \"CPU sampling call stacks\"; or `wpr -start CPU`; or \
             `xperf -on …+PROFILE -stackwalk Profile`."
        }
        _ => {
            "Record with `unhitch record` without `--rate 0`, or give perf record `-e cpu-clock` as well."
        }
    }
}

/// How to record context switches and wake-ups with their stacks.
pub const fn switches(system: System) -> &'static str {
    match system {
        System::Windows => {
            "Record context switches next time: in UIforETW tick \"Context switch call stacks\" and \"CPU sampling call stacks\"; or \
             `wpr -start CPU`; or `xperf -on PROC_THREAD+LOADER+PROFILE+CSWITCH+DISPATCHER+DPC+INTERRUPT -stackwalk \
             Profile+CSwitch+ReadyThread`, then `xperf -merge`."
        }
        _ => {
            "Record with `unhitch record`, or with `perf record -a -g -e sched:sched_switch -e sched:sched_waking`."
        }
    }
}

/// How to record the wake-ups, where there are switches alone.
pub const fn wakings(system: System) -> &'static str {
    match system {
        System::Windows => {
            "Record the readying of threads too: `xperf -on …+CSWITCH+DISPATCHER -stackwalk CSwitch+ReadyThread`; UIforETW and \
             `wpr -start CPU` do."
        }
        _ => "Record with `unhitch record`, or give perf record `-e sched:sched_waking` as well.",
    }
}
