//! Numbers and names as people read them. Numbers carry units; hangs read in seconds, waits in ms
//! and µs.

pub use unhitch_model::units::{count, duration, percent, percents, plural, rounded_percent};
use unhitch_model::{Policy, Process, Thread, ThreadId, Time, Trace};

/// A duration in seconds with milliseconds, for columns: `2.810 s`.
pub fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A thread as text: `typing 4712 (lab-starve 4711)`; the process is left out for its leader of the
/// same name.
pub fn thread(trace: &Trace, id: ThreadId, at: Time) -> String {
    if id.is_idle() {
        return "nobody (idle)".to_owned();
    }
    let (thread, process) = (trace.threads.get(id), trace.threads.process_of(id));
    let (name, process_name) = (trace.thread_name(id, at), trace.process_name(id, at));
    let is_leader = thread.tid == process.pid && name == process_name;
    // Some sources name only threads that ran.
    let name = if name.is_empty() { "thread" } else { name };
    let process_name = if process_name.is_empty() { "process" } else { process_name };
    if process.pid == Process::UNKNOWN_PID {
        return if id.is_unknown() {
            name.to_owned()
        } else {
            format!("{name} {} of an unknown process", thread.tid)
        };
    }
    if id.is_unknown() {
        return format!("a thread of {process_name} {}", process.pid);
    }
    if is_leader {
        format!("{name} {}", thread.tid)
    } else {
        format!("{name} {} ({process_name} {})", thread.tid, process.pid)
    }
}

/// A policy or priority that explains something, in brackets: ` [SCHED_IDLE]`, ` [SCHED_FIFO
/// priority 50]`, ` [nice 10]`; empty for the default. `real_time` is the priority that it ran at,
/// where that was a real-time one; its policy is known only as of the recording's end.
pub fn policy(thread: &Thread, real_time: Option<i16>) -> String {
    let policy = thread.policy.filter(|policy| *policy != Policy::Other).map(Policy::name);
    match (policy, real_time, thread.nice) {
        (Some(policy @ ("SCHED_FIFO" | "SCHED_RR")), Some(priority), _) => {
            format!(" [{policy} priority {priority}]")
        }
        (_, Some(priority), _) => format!(" [real-time priority {priority}]"),
        (Some(policy), None, _) => format!(" [{policy}]"),
        (None, None, Some(nice)) if nice != 0 => format!(" [nice {nice}]"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::System;

    #[test]
    fn numbers_read_as_an_engineer_writes_them() {
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(1, 1), "100.0 %");
        assert_eq!(
            [7_498, 41, 1, 0].map(|part| rounded_percent(part, 7_547)),
            ["99.4 %", "0.5 %", "< 0.1 %", "0.0 %"]
        );
        assert_eq!(
            [9_999, 10_000].map(|part| rounded_percent(part, 10_000)),
            ["99.9 %", "100.0 %"]
        );
    }

    #[test]
    fn real_time_priorities_are_told_as_people_set_them() {
        let shown = |policy, kernel: i16| {
            let thread = Thread { policy, ..Trace::default().threads.get(ThreadId::IDLE).clone() };
            super::policy(&thread, System::Linux.real_time_priority(kernel))
        };
        assert_eq!(shown(Some(Policy::Fifo), 49), " [SCHED_FIFO priority 50]");
        assert_eq!(shown(Some(Policy::RoundRobin), 98), " [SCHED_RR priority 1]");
        assert_eq!(shown(None, 0), " [real-time priority 99]", "perf.data has no policies");
        assert_eq!(
            shown(Some(Policy::Other), 19),
            " [real-time priority 80]",
            "it had inherited it, or has changed since"
        );
        assert_eq!(
            [shown(Some(Policy::Idle), 120), shown(None, 120), shown(Some(Policy::Deadline), -1)],
            [" [SCHED_IDLE]", "", " [SCHED_DEADLINE]"]
        );
    }
}
