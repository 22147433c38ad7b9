//! Reads `/proc`: what existed before recording started, and what the rings do not contain.
//!
//! Formats: proc(5) (`maps`, `stat`, `cmdline`, `comm`). A process may exit while it is being read;
//! it is then left out. Reading a process's memory map blocks for as long as that process has its
//! map locked, which is one of the hangs that we want to record. So `maps` and `cmdline` are never
//! read on the thread that saves: see [`read_each`].

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use unhitch_formats::perf_data::record::FileId;

/// How long to wait for one process to let its memory map be read.
pub(crate) const PROCESS_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum bytes that [`read_small`] reads of a file.
const MAX_SMALL_FILE_BYTES: u64 = 64 << 10;

/// A live thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveThread {
    pub(crate) tid: u32,
    /// Raw: names need not be UTF-8.
    pub(crate) name: Vec<u8>,
    /// The state, as a letter.
    pub(crate) state: u8,
    pub(crate) policy: u32,
    pub(crate) nice: i8,
    /// Start time in clock ticks since boot; with the tid, it identifies an incarnation.
    pub(crate) start_ticks: u64,
}

/// A live process.
#[derive(Clone, Debug)]
pub(crate) struct LiveProcess {
    pub(crate) pid: u32,
    pub(crate) parent_pid: u32,
    /// Sorted by tid.
    pub(crate) threads: Vec<LiveThread>,
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutableMap {
    pub(crate) start_avma: u64,
    pub(crate) len: u64,
    pub(crate) file_offset: u64,
    /// The device's numbers, the major one in the upper half.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) path: Vec<u8>,
}

impl ExecutableMap {
    /// Which file it is, as records of the kernel say it.
    pub(crate) fn file(&self) -> FileId {
        let (major, minor) = ((self.device >> 32) as u32, self.device as u32);
        let file = FileId { major, minor, inode: self.inode };
        if file.is_on_disk() { file } else { FileId::default() }
    }
}

/// The parts of an address space that we need.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSpace {
    pub(crate) maps: Vec<ExecutableMap>,
    pub(crate) command_line: String,
}

/// All live processes with their threads, sorted by pid. Setting `stop` ends the reading early.
pub(crate) fn processes(stop: &AtomicBool) -> Vec<LiveProcess> {
    let pids =
        numbers(Path::new("/proc")).into_iter().take_while(|_| !stop.load(Ordering::Relaxed));
    let mut processes: Vec<LiveProcess> = pids.filter_map(process).collect();
    processes.sort_unstable_by_key(|process| process.pid);
    processes
}

/// One live process; `None` if it has exited.
pub(crate) fn process(pid: u32) -> Option<LiveProcess> {
    let tasks = format!("/proc/{pid}/task");
    let mut parent_pid = 0;
    let mut threads = Vec::new();
    for tid in numbers(Path::new(&tasks)) {
        let Some((thread, parent)) =
            fs::read(format!("{tasks}/{tid}/stat")).ok().and_then(|stat| parse_stat(&stat))
        else {
            continue;
        };
        parent_pid = parent;
        threads.push(thread);
    }
    threads.sort_unstable_by_key(|thread| thread.tid);
    (!threads.is_empty()).then_some(LiveProcess { pid, parent_pid, threads })
}

/// The effective user of a process. *Why not the owner of its `/proc` folder:* that is root for
/// every process that the kernel protects from being traced.
pub(crate) fn user(pid: u32) -> Option<u32> {
    effective_user(&read_small(Path::new(&format!("/proc/{pid}/status")))?)
}

/// The second number in the `Uid:` line. A process name cannot fake one, because newlines in names
/// are escaped.
fn effective_user(status: &str) -> Option<u32> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The tids of a process.
pub(crate) fn thread_ids(pid: u32) -> Vec<u32> {
    let mut tids = numbers(Path::new(&format!("/proc/{pid}/task")));
    tids.sort_unstable();
    tids
}

/// The entries of a directory whose names are numbers.
pub(crate) fn numbers(directory: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Parses `/proc/P/task/T/stat`; also returns the parent's pid. The name is in parentheses and may
/// itself contain any byte, so it ends at the *last* parenthesis.
fn parse_stat(stat: &[u8]) -> Option<(LiveThread, u32)> {
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')').filter(|&close| close > open)?;
    let tid = std::str::from_utf8(&stat[..open]).ok()?.trim().parse().ok()?;
    // proc(5) counts fields from 1; the first field after the name is the state, field 3.
    let fields: Vec<&str> =
        std::str::from_utf8(&stat[close + 1..]).ok()?.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let thread = LiveThread {
        tid,
        name: stat[open + 1..close].to_vec(),
        state: *field(3)?.as_bytes().first()?,
        policy: field(41)?.parse().ok()?,
        nice: field(19)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
    };
    Some((thread, field(4)?.parse().ok()?))
}

/// The executable lines of `/proc/P/maps`.
fn parse_maps(maps: &[u8]) -> Vec<ExecutableMap> {
    let lines = maps.split(|&byte| byte == b'\n').filter_map(parse_map);
    lines.filter(|(permissions, _)| permissions.get(2) == Some(&b'x')).map(|(_, map)| map).collect()
}

/// `start-end perms offset major:minor inode   path`
fn parse_map(line: &[u8]) -> Option<(&[u8], ExecutableMap)> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (field, tail) = rest.split_at(end);
        rest = tail.get(1..).unwrap_or(&[]);
        std::str::from_utf8(field).ok()
    };
    let (range, permissions, offset, device, inode) =
        (field()?, field()?, field()?, field()?, field()?);
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let path = rest.trim_ascii_start();
    let map = ExecutableMap {
        start_avma: hex(start)?,
        len: hex(end)?.checked_sub(hex(start)?)?,
        file_offset: hex(offset)?,
        device: hex(major)? << 32 | hex(minor)?,
        inode: inode.parse().ok()?,
        // The kernel's own mmap records call anonymous memory so.
        path: if path.is_empty() { b"//anon".to_vec() } else { path.to_vec() },
    };
    Some((permissions.as_bytes(), map))
}

/// Where files of these devices are mapped, executable or not. May block: see [`read_each`].
pub(crate) fn mapped_files(pid: u32, devices: &FxHashSet<u64>) -> Vec<Range<u64>> {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = maps.split(|&byte| byte == b'\n').filter_map(parse_map).map(|(_, map)| map);
    let of_file = maps.filter(|map| map.inode != 0 && devices.contains(&map.device));
    of_file.map(|map| map.start_avma..map.start_avma.saturating_add(map.len)).collect()
}

/// The executable mappings of a process. May block: see [`read_each`].
pub(crate) fn executable_maps(pid: u32) -> Vec<ExecutableMap> {
    fs::read(format!("/proc/{pid}/maps")).map(|maps| parse_maps(&maps)).unwrap_or_default()
}

/// The executable mappings and the command line of a process. May block: see [`read_each`].
pub(crate) fn address_space(pid: u32) -> AddressSpace {
    AddressSpace { maps: executable_maps(pid), command_line: command_line_of(pid) }
}

/// The command line of a process; empty if it cannot be read. May block: see [`read_each`].
pub(crate) fn command_line_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline"));
    line.map(|line| command_line(&line)).unwrap_or_default()
}

/// True for a title that a program has written over its command line, by convention with its name and a
/// colon in front: `postgres: alice shop [local] idle in transaction`. It says what the process does now.
pub(crate) fn is_title(command_line: &str) -> bool {
    command_line.split(' ').next().is_some_and(|first| first.ends_with(':'))
}

/// The arguments, joined by spaces.
fn command_line(raw: &[u8]) -> String {
    let raw = raw.strip_suffix(b"\0").unwrap_or(raw);
    String::from_utf8_lossy(raw).replace('\0', " ").trim_end().to_owned()
}

/// Processes whose memory could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Processes that did not answer.
    hung: Vec<u32>,
    /// How many more processes were not tried.
    skipped: usize,
}

impl Unread {
    /// What is missing, as warnings for the user.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let hung = self.hung.iter().map(|pid| {
            format!(
                "process {pid} cannot be read because its address space is locked: its mappings, \
                 command line and futex waits may be missing"
            )
        });
        let skipped = (self.skipped > 0).then(|| {
            let were = match self.skipped {
                1 => "1 more process was".to_owned(),
                many => format!("{many} more processes were"),
            };
            format!(
                "{were} skipped because other processes of the same users did not answer: \
                 mappings, command lines and futex waits of skipped processes may be missing"
            )
        });
        hung.chain(skipped)
    }
}

/// Calls `read` for many processes (a pid and whatever `read` needs) on a separate thread.
///
/// A process that does not answer within `timeout` is given up, and so are all other processes of
/// its user unless that is root: an ordinary user's processes can cost us only one timeout. The
/// thread that hangs is left behind until the kernel returns from the call, and another one
/// continues with the rest. If `stop` is set, the rest is skipped.
pub(crate) fn read_each<I, T>(
    items: Vec<(u32, I)>,
    timeout: Duration,
    stop: &AtomicBool,
    read: impl Fn(u32, &I) -> T + Send + Sync + 'static,
) -> (FxHashMap<u32, T>, Unread)
where
    I: Send + 'static,
    T: Send + 'static,
{
    /// Maximum number of processes that may time out before we give up on the machine.
    const MAX_HUNG: usize = 8;
    /// How often the stop flag is checked.
    const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
    let queue = Arc::new(Mutex::new(VecDeque::from(items)));
    let read = Arc::new(read);
    let (mut found, mut unread) = (FxHashMap::default(), Unread::default());
    while unread.hung.len() < MAX_HUNG {
        let current = Arc::new(AtomicU32::new(0));
        let (sender, receiver) = channel();
        let (queue_of_reader, read, at) =
            (Arc::clone(&queue), Arc::clone(&read), Arc::clone(&current));
        let reader = std::thread::Builder::new().name("unhitch-proc".to_owned()).spawn(move || {
            loop {
                let Some((pid, item)) =
                    queue_of_reader.lock().ok().and_then(|mut queue| queue.pop_front())
                else {
                    return;
                };
                at.store(pid, Ordering::Relaxed);
                if sender.send((pid, read(pid, &item))).is_err() {
                    return;
                }
            }
        });
        if reader.is_err() {
            break;
        }
        let mut answered = Instant::now();
        while !stop.load(Ordering::Relaxed) && answered.elapsed() < timeout {
            match receiver.recv_timeout(timeout.min(STOP_CHECK_INTERVAL)) {
                Ok((pid, value)) => {
                    found.insert(pid, value);
                    answered = Instant::now();
                }
                Err(RecvTimeoutError::Disconnected) => return (found, unread),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let hung = current.load(Ordering::Relaxed);
        unread.hung.push(hung);
        if let (Some(hostile), Ok(mut queue)) = (user(hung).filter(|&user| user != 0), queue.lock())
        {
            let before = queue.len();
            queue.retain(|(pid, _)| user(*pid) != Some(hostile));
            unread.skipped += before - queue.len();
        }
    }
    // Stop the last reader from taking another process.
    unread.skipped += queue.lock().map_or(0, |mut queue| std::mem::take(&mut *queue).len());
    (found, unread)
}

/// The content of a small file, of a longer one its first lines of up to 64 KiB; `None` if it cannot
/// be read. Links are not followed.
pub(crate) fn read_small(path: &Path) -> Option<String> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .ok()?;
    // Most are shorter: one read, and one that says that this was all.
    let mut bytes = Vec::with_capacity(4096);
    file.take(MAX_SMALL_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 == MAX_SMALL_FILE_BYTES {
        // Part of a number would be another number.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.truncate(whole);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number in a file such as those under `/proc/sys`.
pub(crate) fn number(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// How many context switches the kernel has counted since it was booted.
pub(crate) fn context_switches() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

/// The id that the kernel gave to a process or thread last: it is another one after each that begins.
pub(crate) fn newest_id() -> Option<u32> {
    last_number(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// `0.08 0.03 0.01 2/345 6789`.
fn last_number(loadavg: &str) -> Option<u32> {
    loadavg.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// The machine's memory, in KiB; 0 if it is not known.
pub(crate) fn memory_kib() -> u64 {
    total_memory_kib(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn total_memory_kib(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|total| total.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Parses a CPU list such as `0-3,7`, as in `/sys/devices/system/cpu/online`.
pub(crate) fn cpu_list(text: &str) -> Vec<u16> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> Vec<u16> {
    fs::read_to_string("/sys/devices/system/cpu/online")
        .map(|list| cpu_list(&list))
        .unwrap_or_else(|_| vec![0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_longer_file_whole_lines_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("procs");
        let line = "1234567\n";
        fs::write(&path, format!("1\n{}", line.repeat(MAX_SMALL_FILE_BYTES as usize))).unwrap();
        let read = read_small(&path).unwrap();
        assert!(read.ends_with(&format!("\n{line}")) && read.len() < MAX_SMALL_FILE_BYTES as usize);
        fs::write(&path, "1\n2").unwrap();
        assert_eq!(read_small(&path).as_deref(), Some("1\n2"));
    }

    #[test]
    fn stat_of_a_thread_with_a_malicious_name() {
        let stat = b"4242 (a) R (b) D 1 4242 4242 0 -1 4194304 91 0 0 0 1 2 0 0 39 -19 1 0 8881 2490368 213 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 99 2 0 0 0 0 0 0 0 0 0 0 0";
        let (thread, parent) = parse_stat(stat).unwrap();
        let expected = LiveThread {
            tid: 4242,
            name: b"a) R (b".to_vec(),
            state: b'D',
            policy: 2,
            nice: -19,
            start_ticks: 8881,
        };
        assert_eq!((thread, parent), (expected, 1));
    }

    #[test]
    fn the_user_whose_rights_a_process_has() {
        assert_eq!(effective_user("Name:\tx\nUid:\t1000\t1001\t1002\t1003\n"), Some(1001));
        assert_eq!(effective_user("Uid:\t1\n"), None);
        assert!(user(std::process::id()).is_some());
        assert_eq!(user(u32::MAX), None);
    }

    #[test]
    fn truncated_stats_are_rejected() {
        let stat = b"7 (sh) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0";
        assert!(parse_stat(stat).is_some());
        assert!((0..stat.len() - 3).all(|len| parse_stat(&stat[..len]).is_none()));
        assert!(parse_stat(b")(").is_none());
    }

    #[test]
    fn maps_keep_only_code() {
        let maps = b"55d0c0000000-55d0c0002000 r--p 00000000 fe:01 1234   /usr/bin/my app\n\
            55d0c0002000-55d0c0007000 r-xp 00002000 fe:01 1234      /usr/bin/my app\n\
            7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n\
            7ffc1d5f4000-7ffc1d5f6000 r-xp 00000000 00:00 0         [vdso]\n\
            garbage\n";
        let maps = parse_maps(maps);
        let brief: Vec<_> = maps
            .iter()
            .map(|map| (map.len, map.file_offset, String::from_utf8_lossy(&map.path)))
            .collect();
        let expected =
            [(0x5000, 0x2000, "/usr/bin/my app"), (0x1000, 0, "//anon"), (0x2000, 0, "[vdso]")];
        assert_eq!(brief, expected.map(|(len, offset, path)| (len, offset, path.into())));
    }

    #[test]
    fn our_own_process_is_found() {
        let never = AtomicBool::new(false);
        let own = processes(&never)
            .into_iter()
            .find(|process| process.pid == std::process::id())
            .unwrap();
        assert!(own.threads.iter().any(|thread| thread.tid == own.pid));
        let (spaces, hung) = read_each(
            vec![(own.pid, ()), (u32::MAX, ())],
            Duration::from_secs(5),
            &never,
            |pid, ()| address_space(pid),
        );
        assert_eq!(hung, Unread::default());
        assert!(spaces[&own.pid].maps.iter().any(|map| map.path.starts_with(b"/")));
        assert!(!spaces[&own.pid].command_line.is_empty());
    }

    #[test]
    fn a_process_that_does_not_answer_is_reported_and_skipped() {
        let items = (1..=4).map(|pid| (pid, pid == 2)).collect();
        let (found, hung) =
            read_each(items, Duration::from_millis(50), &AtomicBool::new(false), |pid, &hangs| {
                std::thread::sleep(Duration::from_millis(if hangs { 2000 } else { 0 }));
                pid
            });
        // Every process of root is tried, but none of another user after the first failure.
        let skipped = (3..=4)
            .filter(|&pid| user(pid).is_some() && user(pid) == user(2).filter(|&user| user != 0))
            .count();
        assert_eq!((found.len(), hung), (3 - skipped, Unread { hung: vec![2], skipped }));
    }

    #[test]
    fn the_newest_id_is_the_last_number() {
        assert_eq!(last_number("0.08 0.03 0.01 2/345 6789\n"), Some(6789));
        assert_eq!(last_number("0.08 0.03"), None);
        assert!(newest_id().is_some());
    }

    #[test]
    fn memory_is_found() {
        assert_eq!(total_memory_kib("MemTotal:       24684084 kB\nMemFree: 1 kB"), 24_684_084);
        assert_eq!(total_memory_kib(""), 0);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(cpu_list("\n").is_empty());
    }
}
