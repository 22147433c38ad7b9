//! What the program under attack uses of the machine.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// What a process and its children used together.
#[derive(Default)]
pub struct Usage {
    /// At the moment when they used the most.
    most: Vec<Process>,
    /// What one of them alone used at most, KiB: the moment may have been missed.
    peak_kib: u64,
    /// How long each thread had been ready to run and had no CPU, nanoseconds: at the first look and at
    /// the last.
    waited_ns: HashMap<u32, [u64; 2]>,
}

impl Usage {
    pub fn look(&mut self, pid: u32) {
        // Until it has called execve(2), its memory is this program's.
        if command_line(pid) == command_line(std::process::id()) {
            return;
        }
        let mut tree = Vec::new();
        Process::add_tree(pid, &mut tree);
        for thread in tree.iter().flat_map(|process| threads(process.pid)) {
            // Time on a CPU, time ready without one, number of times.
            let times = fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
            if let Some(waited) = times.split(' ').nth(1).and_then(|ns| ns.parse().ok()) {
                self.waited_ns.entry(thread).or_insert([waited, waited])[1] = waited;
            }
        }
        let peaks = tree.iter().map(|process| process.peak_kib);
        self.peak_kib = peaks.fold(self.peak_kib, u64::max);
        if Process::sum_kib(&tree) > Process::sum_kib(&self.most) {
            self.most = tree;
        }
    }

    /// How long threads were ready to run and had no CPU, all together, between the first look and the
    /// last.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(
            self.waited_ns.values().map(|[first, last]| last.saturating_sub(*first)).sum(),
        )
    }

    /// Reports each process if they used more than what is allowed.
    pub fn peak_mebibytes(&self) -> u64 {
        let most = Process::sum_kib(&self.most).max(self.peak_kib) >> 10;
        if most > crate::MEBIBYTES {
            eprintln!("{most} MiB: {:?}", self.most);
        }
        most
    }
}

/// The memory of a process, by `/proc/PID/status`.
#[derive(Debug)]
struct Process {
    pid: u32,
    #[expect(dead_code, reason = "printed if they use too much")]
    name: String,
    kib: u64,
    peak_kib: u64,
}

impl Process {
    fn add_tree(pid: u32, tree: &mut Vec<Self>) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let kib = |name: &str| {
            field(name).and_then(|size| size.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        let name = field("Name:").unwrap_or_default().trim().to_owned();
        tree.push(Self { pid, name, kib: kib("VmRSS:"), peak_kib: kib("VmHWM:") });
        // The same with a child, whose memory is counted already.
        let command = command_line(pid);
        for child in children(pid).into_iter().filter(|&child| command_line(child) != command) {
            Self::add_tree(child, tree);
        }
    }

    fn sum_kib(tree: &[Self]) -> u64 {
        tree.iter().map(|process| process.kib).sum()
    }
}

fn command_line(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whichever thread started them.
pub fn children(pid: u32) -> Vec<u32> {
    let list = |thread| fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).ok();
    let lists = threads(pid).into_iter().filter_map(list);
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}
