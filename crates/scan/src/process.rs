//! Processes: finds them by pid or name, and reads `/proc/PID/status` (proc(5)).

use crate::error::Error;
use serde::Serialize;
use std::fs;
use std::io;
use std::path::Path;

/// The identity and the memory accounting of a process. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its name: that of its main thread, at most 15 bytes.
    pub name: String,
    /// Its effective user id.
    pub uid: u32,
    /// Its start time in clock ticks since boot; distinguishes it from a later process with the
    /// same pid.
    #[serde(skip)]
    pub start_ticks: u64,
    /// Its number of threads.
    pub threads: u64,
    /// Address space in use (VmSize).
    pub size_bytes: u64,
    /// Resident memory (VmRSS, without hugetlb).
    pub resident_bytes: u64,
    /// Swapped memory (VmSwap).
    pub swapped_bytes: u64,
    /// Memory in hugetlb pages.
    pub hugetlb_bytes: u64,
    /// Page tables without the root (VmPTE).
    pub page_table_bytes: u64,
}

/// Reads a file in the `/proc` folder of a process; `None` if the process has exited.
pub fn read(pid: u32, file: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(Path::new("/proc").join(pid.to_string()).join(file)) {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(libc::ESRCH) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Process {
    /// Reads a process that has an address space.
    ///
    /// # Errors
    /// When there is no such process, it has exited, it is a kernel thread, or `/proc` cannot be
    /// read.
    pub fn with_memory(pid: u32) -> Result<Self, Error> {
        let Some((process, memory)) = Self::read(pid)? else {
            return Err(Error::NoSuchProcess { who: pid.to_string() });
        };
        match memory {
            Memory::Own => Ok(process),
            Memory::Kernel => Err(Error::KernelThread { pid, name: process.name }),
            Memory::Gone => Err(Error::Ended { pid, name: process.name }),
        }
    }

    /// True if both are the same process, and not just the same pid.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.pid, self.start_ticks) == (other.pid, other.start_ticks)
    }

    /// Reads any process and which kind of memory it has; `None` if the pid does not exist.
    pub(crate) fn read(pid: u32) -> Result<Option<(Self, Memory)>, Error> {
        let path = |file: &str| Path::new("/proc").join(pid.to_string()).join(file);
        let read = |file| {
            read(pid, file).map_err(|source| Error::File {
                action: "read",
                path: path(file),
                source,
            })
        };
        let (Some(status), Some(stat)) = (read("status")?, read("stat")?) else { return Ok(None) };
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let kib = |name: &str| {
            let number =
                field(name).and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
            number.unwrap_or(0).saturating_mul(1024)
        };
        let process = Self {
            pid,
            name: fs::read(path("comm")).map_or_else(
                |_| unescaped(field("Name").unwrap_or_default()),
                |name| text(name.trim_ascii_end()),
            ),
            uid: field("Uid")
                .and_then(|uids| uids.split_whitespace().nth(1)?.parse().ok())
                .unwrap_or(0),
            start_ticks: Stat::parse(&stat).map_or(0, |stat| stat.start_ticks),
            threads: field("Threads").and_then(|count| count.parse().ok()).unwrap_or(0),
            size_bytes: kib("VmSize"),
            resident_bytes: kib("VmRSS"),
            swapped_bytes: kib("VmSwap"),
            hugetlb_bytes: kib("HugetlbPages"),
            page_table_bytes: kib("VmPTE"),
        };
        let memory = match (field("VmSize"), field("State").and_then(|state| state.chars().next()))
        {
            (Some(_), _) => Memory::Own,
            (None, Some('Z' | 'X')) => Memory::Gone,
            // A process that is exiting frees its memory before it becomes a zombie.
            (None, _) if field("Kthread") == Some("0") => Memory::Gone,
            (None, _) => Memory::Kernel,
        };
        Ok(Some((process, memory)))
    }
}

/// Which kind of memory a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Own,
    Kernel,
    Gone,
}

/// The fields of `/proc/PID/stat` after the name (which may contain spaces and parentheses).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    pub state: char,
    pub cpu_ticks: u64,
    pub start_ticks: u64,
}

impl Stat {
    pub fn parse(stat: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(stat);
        let words: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| words.get(index)?.parse::<u64>().ok();
        Some(Self {
            state: words.first()?.chars().next()?,
            cpu_ticks: number(11)?.saturating_add(number(12)?),
            start_ticks: number(19)?,
        })
    }
}

/// Bytes from the kernel as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn unescaped(name: &str) -> String {
    name.replace("\\n", "\n").replace("\\\\", "\\")
}

/// The pids of all processes, ascending.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn all_pids() -> Result<Vec<u32>, Error> {
    numbered(Path::new("/proc"))
}

/// The entries of a folder whose names are numbers, ascending.
pub(crate) fn numbered(folder: &Path) -> Result<Vec<u32>, Error> {
    let entries = fs::read_dir(folder).map_err(|source| Error::File {
        action: "list",
        path: folder.to_owned(),
        source,
    })?;
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Finds processes by pid, process name or file name of the program. Does not find this process by
/// name.
///
/// # Errors
/// When there is no such process, or `/proc` cannot be read.
pub fn find(who: &str) -> Result<Vec<u32>, Error> {
    let missing = || Error::NoSuchProcess { who: who.to_owned() };
    if let Ok(pid) = who.parse::<u32>() {
        return if Path::new("/proc").join(pid.to_string()).exists() {
            Ok(vec![pid])
        } else {
            Err(missing())
        };
    }
    let matches = |pid: u32| {
        let comm = read(pid, "comm").ok().flatten().unwrap_or_default();
        let command = read(pid, "cmdline").ok().flatten().unwrap_or_default();
        let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
        let file_name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        comm.trim_ascii_end() == who.as_bytes() || file_name == who.as_bytes()
    };
    let found: Vec<u32> =
        all_pids()?.into_iter().filter(|pid| *pid != std::process::id() && matches(*pid)).collect();
    if found.is_empty() { Err(missing()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_any_name() {
        let line = b"77 (a) b (c) S 1 77 77 0 -1 4194560 1 2 3 4 50 7 8 9 20 0 3 0 123456 1000 2 18446744073709551615\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.cpu_ticks, stat.start_ticks), ('S', 57, 123_456));
        for cut in 0..line.len() - 40 {
            let _ = Stat::parse(&line[..cut]);
        }
        assert!(Stat::parse(b"77 (a) S 1").is_none());
    }

    #[test]
    fn this_process_has_memory_and_is_not_found_by_name() {
        let me = Process::with_memory(std::process::id()).unwrap();
        assert!(
            me.size_bytes >= me.resident_bytes
                && me.resident_bytes > 0
                && me.page_table_bytes > 0
                && me.start_ticks > 0
        );
        assert!(find("no such program anywhere").is_err());
        assert!(matches!(Process::with_memory(u32::MAX), Err(Error::NoSuchProcess { .. })));
        assert!(find(&me.name).map_or(true, |found| !found.contains(&me.pid)));
    }
}
