//! How often a tracepoint was hit, counted by performance events that record nothing.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use unhitch_formats::perf_data::EventAttr;
use unhitch_formats::perf_data::attr::{TYPE_TRACEPOINT, flag};

/// A counter on each of some CPUs.
pub(crate) struct TracepointCount(Vec<OwnedFd>);

impl TracepointCount {
    /// Counts the tracepoint `id` on `cpus` from now on, where `filter` holds; all of it if that is
    /// empty.
    pub(crate) fn start(id: u64, filter: &str, cpus: &[u16]) -> io::Result<Self> {
        let attr = EventAttr {
            kind: TYPE_TRACEPOINT,
            config: id,
            flags: flag::DISABLED,
            ..EventAttr::default()
        };
        let counter = |cpu: &u16| {
            let fd = sys::perf_event_open(&attr.encode(), *cpu)?;
            if !filter.is_empty() {
                sys::set_filter(fd.as_fd(), filter)?;
            }
            sys::enable(fd.as_fd())?;
            Ok(fd)
        };
        cpus.iter().map(counter).collect::<io::Result<_>>().map(Self)
    }

    /// How often it was hit so far.
    pub(crate) fn read(&self) -> io::Result<u64> {
        self.0.iter().map(|fd| sys::read_count(fd.as_fd())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{permission, procfs};
    use std::fs;
    use std::io::Write;

    #[test]
    fn switches_are_counted_and_a_filter_that_never_holds_counts_none() {
        let tracefs = permission::tracefs(&mut Vec::new()).ok();
        let id = tracefs.and_then(|tracefs| {
            let id = fs::read_to_string(tracefs.join("events/sched/sched_switch/id")).ok()?;
            id.trim().parse().ok()
        });
        let count = |filter| TracepointCount::start(id?, filter, &procfs::online_cpus()).ok();
        let (Some(all), Some(none)) = (count(""), count("next_pid == -7")) else {
            let _ = writeln!(io::stderr(), "SKIPPED switches_are_counted: not permitted");
            return;
        };
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(all.read().unwrap() > 0);
        assert_eq!(none.read().unwrap(), 0);
    }
}
