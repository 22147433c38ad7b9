//! Whose input it is: the process that reads a device, or the one in front on the console.
//!
//! Without a window system nobody says which process an input is for. A program that draws for
//! itself, or a compositor, has the device open. Otherwise the kernel's console takes it, and the
//! process in the foreground of the active console reads it.

use crate::procfs::{numbers, read_small};
use crate::terminal::Terminal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long the reader of a device is believed to be the same.
const BELIEVED: Duration = Duration::from_secs(5);
/// Who has devices open only to see special keys, or hands them to others. A name has at most 15
/// bytes.
const WATCHERS: [&str; 6] =
    ["systemd-logind", "elogind", "acpid", "upowerd", "systemd-udevd", "systemd"];
/// Major number of virtual consoles.
const TTY_MAJOR: u64 = 4;

/// The process that has a device open, of those that we may look at.
#[derive(Default)]
pub(super) struct Opener {
    found: Option<u32>,
    looked: Option<Instant>,
}

impl Opener {
    pub(super) fn of(&mut self, device: &Path) -> Option<u32> {
        if self.looked.is_none_or(|looked| looked.elapsed() > BELIEVED) {
            self.found = opener(device);
            self.looked = Some(Instant::now());
        }
        self.found
    }
}

fn opener(device: &Path) -> Option<u32> {
    let own = std::process::id();
    let has_it = |pid: &u32| {
        let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        fds.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == device))
    };
    let watches = |pid: u32| {
        let name = read_small(&PathBuf::from(format!("/proc/{pid}/comm"))).unwrap_or_default();
        WATCHERS.contains(&name.trim_end())
    };
    let others = numbers(Path::new("/proc")).into_iter().filter(|pid| *pid != own);
    others.filter(has_it).find(|pid| !watches(*pid))
}

/// The console that is shown.
#[derive(Default)]
pub(super) struct Console {
    /// Its number, and the process that leads its session.
    leader: Option<(u64, u32)>,
}

impl Console {
    /// The process in its foreground.
    pub(super) fn foreground(&mut self) -> Option<u32> {
        let active = read_small(Path::new("/sys/class/tty/tty0/active"))?;
        let number: u64 = active.trim().strip_prefix("tty")?.parse().ok()?;
        let terminal = TTY_MAJOR << 8 | number;
        let of_leader = |pid: u32| Terminal::of(pid).filter(|known| known.device == terminal);
        if let Some((_, pid)) = self.leader.filter(|(known, _)| *known == number)
            && let Some(known) = of_leader(pid)
        {
            return known.foreground;
        }
        let (pid, known) = numbers(Path::new("/proc"))
            .into_iter()
            .filter_map(|pid| Some((pid, of_leader(pid)?)))
            .find(|(pid, known)| known.session == *pid)?;
        self.leader = Some((number, pid));
        known.foreground
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Command, Stdio};

    #[test]
    fn who_reads_a_file_is_found_and_we_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("event0");
        fs::write(&path, "").unwrap();
        let own = File::open(&path).unwrap();
        assert_eq!(opener(&path), None);
        let sleeper = Command::new("sleep").arg("1000").stdin(own).stdout(Stdio::null()).spawn();
        let mut sleeper = sleeper.unwrap();
        let found = opener(&path);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(found, Some(sleeper.id()));
    }
}
