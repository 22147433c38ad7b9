//! Tasks that the kernel reports as hung: blocked for longer than
//! `/proc/sys/kernel/hung_task_timeout_secs`, 120 s by default.
//!
//! The kernel counts them. It looks itself only every so many seconds, so asking for the count every
//! few seconds is quick enough.

use super::hit::{Hit, Stop};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The kernel's count, since Linux 6.13.
const COUNT: &str = "/proc/sys/kernel/hung_task_detect_count";
/// How often it is read.
const PERIOD: Duration = Duration::from_secs(5);

pub(super) fn source(
    stop: Arc<Stop>,
    report: impl Fn(Hit) + Send + 'static,
) -> Result<Box<dyn FnOnce() + Send>, String> {
    let mut before = count(Path::new(COUNT))?;
    Ok(Box::new(move || {
        while !stop.sleep(PERIOD) {
            let Ok(now) = count(Path::new(COUNT)) else { continue };
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
    let text = fs::read_to_string(path).map_err(|error| {
        format!("this kernel does not count hung tasks ({}: {error})", path.display())
    })?;
    text.trim().parse().map_err(|_| format!("{} is not a number", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_count_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        assert!(count(&path).unwrap_err().contains("does not count hung tasks"));
        fs::write(&path, "17\n").unwrap();
        assert_eq!(count(&path), Ok(17));
    }
}
