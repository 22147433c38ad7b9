//! Tasks that the kernel reports as hung: blocked for longer than
//! `/proc/sys/kernel/hung_task_timeout_secs`, 120 s by default.
//!
//! The kernel counts them since Linux 6.13. Before, it has a tracepoint for each of its reports, and
//! makes `/proc/sys/kernel/hung_task_warnings` of them, 10 by default. It looks itself only every so many
//! seconds, so asking for the count every few seconds is quick enough.

use super::hit::{Hit, Stop};
use crate::tracepoint_count::TracepointCount;
use crate::{permission, procfs};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The kernel's count.
const COUNT: &str = "/proc/sys/kernel/hung_task_detect_count";
/// The kernel's reports, in tracefs.
const REPORTS: &str = "events/sched/sched_process_hang/id";
/// How often it is read.
const PERIOD: Duration = Duration::from_secs(5);

pub(super) fn source(
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
) -> Result<Box<dyn FnOnce() + Send>, String> {
    let count: Box<dyn Fn() -> Result<u64, String> + Send> = match count(Path::new(COUNT)) {
        Ok(_) => Box::new(|| count(Path::new(COUNT))),
        Err(_) => {
            let reports = reports()?;
            Box::new(move || reports.read().map_err(|error| error.to_string()))
        }
    };
    let mut before = count()?;
    Ok(Box::new(move || {
        while !stop.sleep(PERIOD) {
            let Ok(now) = count() else { continue };
            if now > before {
                let tasks = unhitch_model::units::plural(now - before, "task");
                report(Hit {
                    text: format!("the kernel reports {tasks} as hung"),
                    ..Hit::default()
                });
            }
            before = now;
        }
    }))
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
