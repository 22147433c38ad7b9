//! Tasks that the kernel reports as hung: blocked for longer than
//! `/proc/sys/kernel/hung_task_timeout_secs`, 120 s by default.
//!
//! The kernel counts them since Linux 6.13. Before, it has a tracepoint for each of its reports, and
//! makes `/proc/sys/kernel/hung_task_warnings` of them, 10 by default. It looks itself only every so many
//! seconds, so asking for the count every few seconds is quick enough. Each time, it reports those that
//! are still hung again: see [`Known`].

use super::hit::{Hit, Stop, Trouble};
use crate::procfs::LiveProcess;
use crate::tracepoint_count::TracepointCount;
use crate::{permission, procfs, sys};
use rustc_hash::FxHashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The kernel's count.
const COUNT: &str = "/proc/sys/kernel/hung_task_detect_count";
/// The kernel's reports, in tracefs.
const REPORTS: &str = "events/sched/sched_process_hang/id";
/// For how many seconds a task is blocked before the kernel reports it.
const TIMEOUT: &str = "/proc/sys/kernel/hung_task_timeout_secs";
const DEFAULT_TIMEOUT: u64 = 120;
/// Maximum number of tasks that a trace names.
const MAX_NAMES: usize = 3;
/// How often it is read.
const PERIOD: Duration = Duration::from_secs(5);

pub(super) fn source(
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
    mut trouble: Trouble,
) -> Result<Box<dyn FnOnce() + Send>, String> {
    let count: Box<dyn Fn() -> Result<u64, String> + Send> = match count(Path::new(COUNT)) {
        Ok(_) => Box::new(|| count(Path::new(COUNT))),
        Err(_) => {
            let reports = reports()?;
            Box::new(move || reports.read().map_err(|error| error.to_string()))
        }
    };
    let mut before = count()?;
    let mut known = Known::default();
    Ok(Box::new(move || {
        while !stop.sleep(PERIOD) {
            let now = count();
            trouble.tell(now.as_ref().err().cloned());
            let Ok(now) = now else { continue };
            if now > before {
                let (reported, blocked) = (now - before, blocked(&stop));
                if known.is_there_another(reported, &blocked) {
                    report(hit(reported, &blocked));
                }
            }
            before = now;
        }
    }))
}

/// A task that is blocked so that nothing but what it waits for can end its wait.
struct Blocked {
    pid: u32,
    tid: u32,
    name: String,
    wait: Wait,
}

/// Which wait of which task: its id, when it was started, and how often it had switched, which it does
/// not until the wait ends.
type Wait = (u32, u64, u64);

/// What was known when the kernel last reported.
#[derive(Default)]
struct Known {
    /// How many tasks it reported.
    reported: u64,
    /// All that were blocked: those were among them.
    blocked: FxHashSet<Wait>,
}

impl Known {
    /// Whether not all of the tasks that the kernel reports now are those of the last time. One mount
    /// whose server is gone must not make traces for ever.
    fn is_there_another(&mut self, reported: u64, blocked: &[Blocked]) -> bool {
        let still = blocked.iter().filter(|task| self.blocked.contains(&task.wait)).count() as u64;
        let is_there = reported > still.min(self.reported);
        *self = Self { reported, blocked: blocked.iter().map(|task| task.wait).collect() };
        is_there
    }
}

/// How often a task has switched.
fn switches(pid: u32, tid: u32) -> u64 {
    let path = format!("/proc/{pid}/task/{tid}/status");
    let status = procfs::read_small(Path::new(&path)).unwrap_or_default();
    let numbers = status.lines().filter_map(|line| line.split_once("_switches:"));
    numbers.filter_map(|(_, number)| number.trim().parse::<u64>().ok()).sum()
}

/// The tasks that are blocked now. The kernel's report is at most [`PERIOD`] old, and has no number
/// that we could read: those that it is about are among them.
fn blocked(stop: &Stop) -> Vec<Blocked> {
    let is_ended = AtomicBool::new(stop.sleep(Duration::ZERO));
    let of_process = |process: LiveProcess| {
        let blocked = process.threads.into_iter().filter(|thread| thread.state == b'D');
        blocked.map(move |thread| Blocked {
            pid: process.pid,
            tid: thread.tid,
            name: String::from_utf8_lossy(&thread.name).into_owned(),
            wait: (thread.tid, thread.start_ticks, switches(process.pid, thread.tid)),
        })
    };
    procfs::processes(&is_ended).into_iter().flat_map(of_process).collect()
}

/// What a trace says of `reported` hung tasks.
fn hit(reported: u64, blocked: &[Blocked]) -> Hit {
    let tasks = unhitch_model::units::plural(reported, "task");
    let names = blocked.iter().take(MAX_NAMES).map(|task| format!("{} {}", task.name, task.tid));
    let names = names.collect::<Vec<_>>().join(", ");
    let which = match blocked.len() {
        0 => String::new(),
        1 => format!(": {names}"),
        more if more > MAX_NAMES => format!(", and {more} are blocked now: {names}, …"),
        _ => format!(", and blocked now are {names}"),
    };
    let text = format!("the kernel reports {tasks} as hung{which}");
    // With more than one, it is not known which the kernel means.
    let [only] = blocked else { return Hit { text, ..Hit::default() } };
    let now = sys::monotonic_now();
    let timeout = procfs::number(TIMEOUT).and_then(|seconds| u64::try_from(seconds).ok());
    let begin = now.minus(timeout.unwrap_or(DEFAULT_TIMEOUT).saturating_mul(1_000_000_000));
    let (pid, tid) = (Some(only.pid), Some(only.tid));
    Hit { text, pid, tid, seen: Some((begin, now)), ..Hit::default() }
}

fn count(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.trim().parse().map_err(|_| format!("{} is not a number", path.display()))
}

/// Counts the kernel's reports from now on.
fn reports() -> Result<TracepointCount, String> {
    let tracefs = permission::tracefs(&mut Vec::new()).map_err(|error| error.to_string())?;
    let id = count(&tracefs.join(REPORTS))
        .map_err(|error| format!("this kernel does not report hung tasks ({error})"))?;
    TracepointCount::start(id, "", &procfs::online_cpus())
        .map_err(|error| format!("reports of hung tasks cannot be counted: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_blocked_is_named_and_is_whom_the_trace_is_about_if_there_is_one() {
        let task =
            |tid, name: &str| Blocked { pid: 7, tid, name: name.to_owned(), wait: (tid, 0, 0) };
        let none = hit(2, &[]);
        assert_eq!((none.text.as_str(), none.tid), ("the kernel reports 2 tasks as hung", None));
        let one = hit(1, &[task(8, "touch")]);
        assert_eq!(one.text, "the kernel reports 1 task as hung: touch 8");
        assert_eq!((one.pid, one.tid), (Some(7), Some(8)));
        let (from, to) = one.seen.unwrap();
        assert!(from < to);
        let two = hit(1, &[task(8, "touch"), task(9, "sync")]);
        assert_eq!(
            two.text,
            "the kernel reports 1 task as hung, and blocked now are touch 8, sync 9"
        );
        assert_eq!((two.tid, two.seen), (None, None));
        let many: Vec<Blocked> = (0..9).map(|tid| task(tid, "sync")).collect();
        assert!(hit(3, &many).text.ends_with("9 are blocked now: sync 0, sync 1, sync 2, …"));
    }

    /// A task that stays hung made a trace at each of the kernel's reports.
    #[test]
    fn regression_a_task_that_stays_hung_counts_once() {
        let task =
            |tid, switches| Blocked { pid: 7, tid, name: String::new(), wait: (tid, 1, switches) };
        let mut known = Known::default();
        // The second is blocked as well, but not for long enough.
        assert!(known.is_there_another(1, &[task(8, 3), task(9, 5)]));
        assert!(known.is_there_another(2, &[task(8, 3), task(9, 5)]));
        assert!(!known.is_there_another(2, &[task(8, 3), task(9, 5)]));
        // One is free again, and some other waits for a disk.
        assert!(!known.is_there_another(1, &[task(8, 3), task(10, 9)]));
        assert!(!known.is_there_another(1, &[task(8, 3), task(10, 12)]));
        assert!(known.is_there_another(1, &[task(8, 4)]), "it hangs anew");
        assert!(known.is_there_another(1, &[]), "its wait has just ended");
    }

    #[test]
    fn switches_of_both_kinds_count() {
        let pid = std::process::id();
        let before = switches(pid, pid);
        assert!(before > 0 && switches(pid, u32::MAX) == 0);
    }

    #[test]
    fn a_count_is_read_and_what_is_wrong_with_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        assert!(count(&path).unwrap_err().contains("count: No such file"));
        fs::write(&path, "17\n").unwrap();
        assert_eq!(count(&path), Ok(17));
        fs::write(&path, "many\n").unwrap();
        assert!(count(&path).unwrap_err().ends_with("is not a number"));
    }
}
