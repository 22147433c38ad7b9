//! The terminal of a process.

use crate::procfs::read_small;
use std::path::PathBuf;

/// The terminal of a process, and its session.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Terminal {
    pub(crate) session: u32,
    /// 0: none.
    pub(crate) device: u64,
    /// The process that leads the group in the foreground.
    pub(crate) foreground: Option<u32>,
}

impl Terminal {
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::read(&read_small(&PathBuf::from(format!("/proc/{pid}/stat")))?)
    }

    /// Whether the process leads a session that has a terminal, as a shell does.
    pub(crate) fn is_led_by(&self, pid: u32) -> bool {
        self.session == pid && self.device != 0
    }

    /// From `/proc/PID/stat`, proc_pid_stat(5).
    fn read(stat: &str) -> Option<Self> {
        // The name, in brackets, may contain anything; after it: state, parent, group, session,
        // terminal, the terminal's foreground group.
        let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace().skip(3);
        let session = fields.next()?.parse().ok()?;
        let device = fields.next()?.parse().ok()?;
        Some(Self { session, device, foreground: fields.next()?.parse().ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_read_whatever_the_name() {
        let stat = "77 (a) 1 2 (b) S 70 77 76 1025 99 4194304 1 2";
        let expected = Terminal { session: 76, device: 1025, foreground: Some(99) };
        assert_eq!(Terminal::read(stat), Some(expected));
        let none = Terminal::read("77 (a) S 70 77 76 0 -1 0").unwrap();
        assert_eq!((none.device, none.foreground), (0, None));
        assert_eq!(Terminal::read("77 (a"), None);
        assert!(Terminal::read(stat).unwrap().is_led_by(76) && !none.is_led_by(76));
    }
}
