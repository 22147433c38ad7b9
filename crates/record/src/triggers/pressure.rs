//! Pressure stall information: the kernel tells when tasks were held up for so much of a time
//! (Documentation/accounting/psi.rst).

use super::group;
use super::hit::{Hit, Trouble};
use super::what::Pressure;
use crate::sys;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use unhitch_model::units;

impl Pressure {
    pub(super) fn words(&self) -> String {
        let ns = |time: std::time::Duration| units::duration(time.as_nanos() as u64);
        let who = if self.full { "all tasks" } else { "some task" };
        let of = match &self.control_group {
            Some(group) => format!("{who} of the control group {group}"),
            None => who.to_owned(),
        };
        let what = match self.resource.name() {
            "io" => "a disk",
            "cpu" => "a CPU",
            other => other,
        };
        let (threshold, window) = (ns(self.threshold), ns(self.window));
        format!("{of} waited for {what} for {threshold} or more of {window}")
    }

    fn path(&self) -> PathBuf {
        let name = self.resource.name();
        match &self.control_group {
            Some(group) => group::folder(group).join(format!("{name}.pressure")),
            None => Path::new("/proc/pressure").join(name),
        }
    }

    /// What is written to arm it. *Why the zero*: kernels overwrite the last byte that is written.
    fn request(&self) -> String {
        let which = if self.full { "full" } else { "some" };
        format!("{which} {} {}\0", self.threshold.as_micros(), self.window.as_micros())
    }

    fn open(&self) -> Result<File, String> {
        let path = self.path();
        let failed = |error: std::io::Error| {
            let hint = match error.raw_os_error() {
                Some(libc::EINVAL) => {
                    "; without CAP_SYS_RESOURCE the window must be a multiple of 2s"
                }
                Some(libc::EPERM) => {
                    "; before Linux 6.4 the recorder needs CAP_SYS_RESOURCE for it, since then only \
                     for windows that are no multiple of 2s"
                }
                Some(libc::ENOENT | libc::EOPNOTSUPP) => {
                    "; the kernel needs psi=1 on its command line"
                }
                _ => "",
            };
            format!("{}: {error}{hint}", path.display())
        };
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        file.write_all(self.request().as_bytes()).map_err(failed)?;
        Ok(file)
    }
}

pub(super) fn source(
    pressure: &Pressure,
    ended: UnixStream,
    report: impl Fn(Hit) + Send + 'static,
    mut trouble: Trouble,
) -> Result<Box<dyn FnOnce() + Send>, String> {
    let (file, pressure) = (pressure.open()?, pressure.clone());
    Ok(Box::new(move || {
        loop {
            let mut fds = [PollFd::new(&file, PollFlags::PRI), PollFd::new(&ended, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return trouble.tell(Some(format!("it ended: {error}"))),
            }
            // An error: the control group is gone, as `Sources::follow_groups` will say.
            if !fds[1].revents().is_empty() || fds[0].revents().contains(PollFlags::ERR) {
                return;
            }
            if fds[0].revents().contains(PollFlags::PRI) {
                let now = sys::monotonic_now();
                let begun = unhitch_model::Time::from_nanos(
                    now.nanos().saturating_sub(pressure.window.as_nanos() as u64),
                );
                let text = format!("{}{}", pressure.words(), averages(&pressure.path()));
                report(Hit { text, seen: Some((begun, now)), ..Hit::default() });
            }
        }
    }))
}

/// The kernel's averages at the moment, for the reader of a trace.
fn averages(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let average = text.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="));
    average.map_or(String::new(), |percent| format!(" ({percent} % of the last 10 s)"))
}

#[cfg(test)]
mod tests {
    use super::super::what::Resource;
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_request_is_what_the_kernel_reads() {
        let machine = Pressure {
            resource: Resource::Io,
            full: true,
            threshold: Duration::from_millis(300),
            window: Duration::from_secs(2),
            control_group: None,
        };
        assert_eq!(machine.request(), "full 300000 2000000\0");
        assert_eq!(machine.path(), Path::new("/proc/pressure/io"));
        assert!(
            machine.words().contains("all tasks waited for a disk for 300"),
            "{}",
            machine.words()
        );
        let group = Pressure {
            resource: Resource::Memory,
            control_group: Some("/system.slice/a.service".to_owned()),
            ..machine
        };
        assert_eq!(
            group.path(),
            Path::new("/sys/fs/cgroup/system.slice/a.service/memory.pressure")
        );
        assert!(group.open().unwrap_err().contains("psi=1"));
    }
}
