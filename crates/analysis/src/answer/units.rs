//! Numbers and names as people read them. Numbers carry units; hangs read in seconds, waits in ms and µs.

use unhitch_model::{Policy, Thread, ThreadId, Time, Trace};

/// A duration with three significant digits: `2.81 s`, `115.6 ms`, `52.0 µs`.
pub fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// A duration in seconds with milliseconds, for columns: `2.810 s`.
pub fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A count with thousands separated: `5,768`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 thread`, `2 threads`.
pub fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A part of a whole: `99.1 %`. Never rounds up to 100 what is less.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let tenths = (part as u128 * 1000 / whole as u128) as u64;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// A part of a whole, rounded: `99.4 %`. 100 and 0 are said of all and nothing only.
pub fn rounded_percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let rounded = (u128::from(part) * 2000 + u128::from(whole)) / (u128::from(whole) * 2);
    let tenths = if part < whole { rounded.min(999) } else { rounded };
    match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// A thread as text: `typing 4712 (lab-starve 4711)`; the process is left out for its leader of the same name.
pub fn thread(trace: &Trace, id: ThreadId, at: Time) -> String {
    if id.is_idle() {
        return "nobody (idle)".to_owned();
    }
    let (thread, process) = (trace.threads.get(id), trace.threads.process_of(id));
    let (name, process_name) = (trace.thread_name(id, at), trace.process_name(id, at));
    if thread.tid == process.pid && name == process_name {
        format!("{name} {}", thread.tid)
    } else {
        format!("{name} {} ({process_name} {})", thread.tid, process.pid)
    }
}

/// A policy that explains something, in brackets: ` [SCHED_IDLE]`, ` [nice 10]`; empty for the default.
pub fn policy(thread: &Thread) -> String {
    match (thread.policy, thread.nice) {
        (Some(policy), _) if policy != Policy::Other => format!(" [{}]", policy.name()),
        (_, Some(nice)) if nice != 0 => format!(" [nice {nice}]"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_an_engineer_writes_them() {
        assert_eq!(duration(2_810_000_000), "2.810 s");
        assert_eq!(duration(115_600_000), "115.6 ms");
        assert_eq!(duration(52_000), "52.0 µs");
        assert_eq!(count(5_768), "5,768");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(percent(999_999, 1_000_000), "99.9 %");
        assert_eq!(percent(1, 1), "100.0 %");
        assert_eq!([7_498, 41, 1, 0].map(|part| rounded_percent(part, 7_547)), ["99.4 %", "0.5 %", "< 0.1 %", "0.0 %"]);
        assert_eq!([9_999, 10_000].map(|part| rounded_percent(part, 10_000)), ["99.9 %", "100.0 %"]);
        assert_eq!(plural(1, "thread"), "1 thread");
    }
}
