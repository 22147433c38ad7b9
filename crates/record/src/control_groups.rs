//! Control groups: which there are, what their accounts say, and who is in them.
//!
//! Formats: cgroups(7), `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/` of the kernel,
//! mountinfo in proc(5). Other users may own groups and make as many as they like, with any name:
//! so their number, their depth, the length of each file and the time of one reading are limited,
//! no link is followed, and what does not fit is left out and said.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;
use unhitch_formats::container::{CpuTotals, DeviceTotals, GroupAccounts, GroupName, MemoryTotals};

/// Control groups of one hierarchy that are looked at, at most.
const MAX_GROUPS: usize = 512;
/// Depth of control groups that are looked at.
const MAX_DEPTH: usize = 32;
/// Bytes of one file that are read.
const MAX_FILE_LEN: u64 = 64 << 10;
/// Block devices of one group that are listed.
const MAX_DEVICES: usize = 32;
/// Limits at or above this are none: version 1 writes a very large number.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// A hierarchy of control groups that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// `unified`, or the controller of version 1.
    pub(crate) name: &'static str,
    /// Where it is mounted.
    at: PathBuf,
    /// Which of its groups is mounted there, as `/proc/PID/cgroup` calls it.
    root: String,
}

/// What one look at all hierarchies gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Groups {
    /// Accounts by group; without what was never limited and never came to a limit.
    pub(crate) accounts: BTreeMap<GroupName, GroupAccounts>,
    /// The processes in groups whose CPU is limited, theirs or an outer one's.
    pub(crate) limited: Vec<(u32, GroupName)>,
    /// False where groups were left out.
    pub(crate) is_whole: bool,
}

/// The content of a small file, or its beginning; nothing where it cannot be read. A link is not
/// followed.
pub(crate) fn read_small(path: &Path) -> Option<String> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_LEN).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The hierarchies of this machine that have accounts for us.
pub(crate) fn hierarchies() -> Vec<Hierarchy> {
    parse_mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// `36 35 98:0 /root /mount/point options optional… - type source options`
fn parse_mounts(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let (Some(root), Some(at), Some(kind)) = (before.next(), before.next(), after.next())
        else {
            continue;
        };
        let options = after.nth(1).unwrap_or("");
        let has = |controller: &str| options.split(',').any(|option| option == controller);
        let names: Vec<&'static str> = match kind {
            "cgroup2" => vec!["unified"],
            "cgroup" => ["cpu", "memory", "blkio"].into_iter().filter(|name| has(name)).collect(),
            _ => continue,
        };
        for name in names {
            let hierarchy =
                Hierarchy { name, at: PathBuf::from(unescape(at)), root: unescape(root) };
            match found.iter_mut().find(|known| known.name == name) {
                // The whole hierarchy rather than a part of it.
                Some(known) if known.root != "/" && hierarchy.root == "/" => *known = hierarchy,
                Some(_) => {}
                None => found.push(hierarchy),
            }
        }
    }
    found
}

/// `\040` for a blank, and so on, in three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

/// The groups of a task, by the names of their hierarchies, from `/proc/P/cgroup`:
/// `4:cpu,cpuacct:/path`.
pub(crate) fn parse_membership(text: &str, hierarchies: &[Hierarchy]) -> Vec<GroupName> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_in = |hierarchy: &&Hierarchy| match hierarchy.name {
            "unified" => number == "0",
            name => controllers.split(',').any(|controller| controller == name),
        };
        found.extend(hierarchies.iter().filter(is_in).map(|hierarchy| GroupName {
            hierarchy: hierarchy.name.to_owned(),
            path: path.to_owned(),
        }));
    }
    found
}

/// Looks at all groups, until `deadline`.
pub(crate) fn look(hierarchies: &[Hierarchy], deadline: Instant) -> Groups {
    let mut groups = Groups { is_whole: true, ..Groups::default() };
    for hierarchy in hierarchies {
        let mut open = vec![(hierarchy.at.clone(), 0, false)];
        let mut seen = 0;
        while let Some((folder, depth, outer_limited)) = open.pop() {
            seen += 1;
            if seen > MAX_GROUPS || depth > MAX_DEPTH || Instant::now() >= deadline {
                groups.is_whole = false;
                break;
            }
            let Some(name) = group_name(hierarchy, &folder) else { continue };
            let accounts = accounts(hierarchy.name, &folder);
            let limited = outer_limited || accounts.cpu.is_some_and(|cpu| cpu.quota_ns.is_some());
            if limited {
                let members = read_small(&folder.join("cgroup.procs")).unwrap_or_default();
                groups.limited.extend(
                    members.lines().filter_map(|pid| Some((pid.parse().ok()?, name.clone()))),
                );
            }
            if accounts != GroupAccounts::default() {
                groups.accounts.insert(name, accounts);
            }
            let children = fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
            let children =
                children.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            open.extend(children.take(MAX_GROUPS).map(|entry| (entry.path(), depth + 1, limited)));
        }
    }
    groups
}

/// What `/proc/PID/cgroup` calls the group at `folder`.
fn group_name(hierarchy: &Hierarchy, folder: &Path) -> Option<GroupName> {
    let rest = folder.strip_prefix(&hierarchy.at).ok()?;
    if rest.components().any(|part| !matches!(part, Component::Normal(_))) {
        return None;
    }
    let path =
        Path::new(&hierarchy.root).join(rest).to_string_lossy().trim_end_matches('/').to_owned();
    Some(GroupName {
        hierarchy: hierarchy.name.to_owned(),
        path: if path.is_empty() { "/".to_owned() } else { path },
    })
}

/// The accounts of the group at `folder`.
fn accounts(hierarchy: &str, folder: &Path) -> GroupAccounts {
    let read = |name: &str| read_small(&folder.join(name));
    let mut accounts = GroupAccounts::default();
    if matches!(hierarchy, "unified" | "cpu") {
        accounts.cpu = cpu(hierarchy == "unified", &read);
    }
    if matches!(hierarchy, "unified" | "memory") {
        accounts.memory = memory(hierarchy == "unified", &read);
    }
    match hierarchy {
        "unified" => accounts.io = io(&read),
        "blkio" => accounts.io = blkio(&read),
        _ => {}
    }
    accounts
}

/// `name value` a line.
fn flat(text: &str) -> FxHashMap<&str, u64> {
    text.lines()
        .filter_map(|line| {
            line.split_once(' ').and_then(|(name, value)| Some((name, value.trim().parse().ok()?)))
        })
        .collect()
}

/// The CPU account; nothing for a group that never had a limit.
fn cpu(unified: bool, read: &dyn Fn(&str) -> Option<String>) -> Option<CpuTotals> {
    let number = |text: Option<String>| text.and_then(|text| text.trim().parse::<u64>().ok());
    // `max` and -1 are no numbers that a quota can have.
    let (quota_us, period_us) = if unified {
        let max = read("cpu.max")?;
        let (quota, period) = max.trim().split_once(' ')?;
        (quota.parse::<u64>().ok(), period.parse().ok()?)
    } else {
        (number(read("cpu.cfs_quota_us")), number(read("cpu.cfs_period_us"))?)
    };
    let stat = read("cpu.stat")?;
    let stat = flat(&stat);
    let get = |name| stat.get(name).copied().unwrap_or(0);
    let throttled_ns =
        if unified { get("throttled_usec").saturating_mul(1000) } else { get("throttled_time") };
    (quota_us.is_some() || get("nr_periods") > 0).then(|| CpuTotals {
        quota_ns: quota_us.map(|quota| quota.saturating_mul(1000)),
        period_ns: period_us.saturating_mul(1000),
        periods: get("nr_periods"),
        throttled_periods: get("nr_throttled"),
        throttled_ns,
    })
}

/// The memory account; nothing for a group without a limit that never came to one.
fn memory(unified: bool, read: &dyn Fn(&str) -> Option<String>) -> Option<MemoryTotals> {
    let (limit, used) = if unified {
        ("memory.max", "memory.current")
    } else {
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
    };
    let limit_bytes = read(limit)?.trim().parse().ok().filter(|limit| *limit < NO_LIMIT_BYTES);
    let mut events = BTreeMap::new();
    let mut add = |name: &str, count: u64| {
        if count > 0 {
            events.insert(name.to_owned(), count);
        }
    };
    if unified {
        flat(&read("memory.events").unwrap_or_default())
            .into_iter()
            .for_each(|(name, count)| add(name, count));
    } else {
        add(
            "failcnt",
            read("memory.failcnt").and_then(|count| count.trim().parse().ok()).unwrap_or(0),
        );
        let oom = read("memory.oom_control").unwrap_or_default();
        add("oom_kill", flat(&oom).get("oom_kill").copied().unwrap_or(0));
    }
    let used_bytes = || read(used).and_then(|used| used.trim().parse().ok()).unwrap_or(0);
    (limit_bytes.is_some() || !events.is_empty()).then(|| MemoryTotals {
        limit_bytes,
        used_bytes: used_bytes(),
        events,
    })
}

/// Version 2: `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`, and `8:0 rbps=1048576 wbps=max …`.
fn io(read: &dyn Fn(&str) -> Option<String>) -> Vec<DeviceTotals> {
    let mut devices: BTreeMap<String, DeviceTotals> = BTreeMap::new();
    for line in read("io.stat").unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let Some(device) = words.next().filter(|device| device.contains(':')) else { continue };
        let totals = devices.entry(device.to_owned()).or_default();
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            let Ok(value) = value.parse() else { continue };
            match name {
                "rbytes" => totals.read_bytes = value,
                "wbytes" => totals.written_bytes = value,
                "rios" => totals.reads = value,
                "wios" => totals.writes = value,
                _ => {}
            }
        }
    }
    for line in read("io.max").unwrap_or_default().lines() {
        let Some((device, limits)) = line.split_once(' ') else { continue };
        let limits: Vec<&str> =
            limits.split(' ').filter(|limit| !limit.ends_with("=max")).collect();
        devices.entry(device.to_owned()).or_default().limits = limits.join(" ");
    }
    listed(devices)
}

/// Version 1: `8:0 Read 4096` in one file for bytes and one for operations, and a file for each
/// limit.
fn blkio(read: &dyn Fn(&str) -> Option<String>) -> Vec<DeviceTotals> {
    let mut devices: BTreeMap<String, DeviceTotals> = BTreeMap::new();
    for (file, bytes) in
        [("blkio.throttle.io_service_bytes", true), ("blkio.throttle.io_serviced", false)]
    {
        for line in read(file).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [device, operation, value] = words[..] else { continue };
            let Ok(value) = value.parse() else { continue };
            let totals = devices.entry(device.to_owned()).or_default();
            match (operation, bytes) {
                ("Read", true) => totals.read_bytes = value,
                ("Write", true) => totals.written_bytes = value,
                ("Read", false) => totals.reads = value,
                ("Write", false) => totals.writes = value,
                _ => {}
            }
        }
    }
    for (file, name) in [
        ("read_bps", "rbps"),
        ("write_bps", "wbps"),
        ("read_iops", "riops"),
        ("write_iops", "wiops"),
    ] {
        for line in read(&format!("blkio.throttle.{file}_device")).unwrap_or_default().lines() {
            let Some((device, limit)) = line.split_once(' ') else { continue };
            let limits = &mut devices.entry(device.to_owned()).or_default().limits;
            let blank = if limits.is_empty() { "" } else { " " };
            limits.push_str(&format!("{blank}{name}={}", limit.trim()));
        }
    }
    listed(devices)
}

/// The devices on which something was done or is limited.
fn listed(devices: BTreeMap<String, DeviceTotals>) -> Vec<DeviceTotals> {
    let named = devices.into_iter().map(|(device, totals)| DeviceTotals { device, ..totals });
    named
        .filter(|totals| totals.reads + totals.writes > 0 || !totals.limits.is_empty())
        .take(MAX_DEVICES)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, content) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn mounts_of_both_versions() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 /docker/x /mnt/a\\040b rw - cgroup cgroup rw,memory\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = parse_mounts(mounts);
        let brief: Vec<_> = found
            .iter()
            .map(|found| (found.name, found.at.to_str().unwrap(), found.root.as_str()))
            .collect();
        let expected = [
            ("cpu", "/sys/fs/cgroup/cpu,cpuacct", "/"),
            ("memory", "/mnt/a b", "/docker/x"),
            ("unified", "/sys/fs/cgroup/unified", "/"),
        ];
        assert_eq!(brief, expected);
        let member = parse_membership(
            "4:memory:/docker/x/y\n3:cpuacct,cpu:/a:b\n1:name=systemd:/s\n0::/u\nnonsense\n",
            &found,
        );
        let member: Vec<_> =
            member.iter().map(|group| (group.hierarchy.as_str(), group.path.as_str())).collect();
        assert_eq!(member, [("memory", "/docker/x/y"), ("cpu", "/a:b"), ("unified", "/u")]);
    }

    #[test]
    fn accounts_of_version_2() {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            &[
                ("cpu.stat", "usage_usec 5\n"),
                ("app/cpu.max", "10000 100000\n"),
                (
                    "app/cpu.stat",
                    "usage_usec 1\nnr_periods 47\nnr_throttled 28\nthrottled_usec 2531000\n",
                ),
                ("app/memory.max", "1048576\n"),
                ("app/memory.current", "4096\n"),
                ("app/memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n"),
                (
                    "app/io.stat",
                    "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n9:0 rbytes=0 wbytes=0 rios=0 wios=0\n",
                ),
                ("app/io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=100\n"),
                ("app/web/cgroup.procs", "41\n42\n"),
                ("app/web/cpu.max", "max 100000\n"),
                (
                    "app/web/cpu.stat",
                    "usage_usec 1\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
                ),
                ("free/cgroup.procs", "43\n"),
                ("free/memory.max", "max\n"),
            ],
        );
        let hierarchy =
            Hierarchy { name: "unified", at: folder.path().to_owned(), root: "/".to_owned() };
        let groups = look(&[hierarchy], soon());
        let name =
            |path: &str| GroupName { hierarchy: "unified".to_owned(), path: path.to_owned() };
        assert_eq!(groups.accounts.keys().cloned().collect::<Vec<_>>(), [name("/app")]);
        let app = &groups.accounts[&name("/app")];
        let cpu = CpuTotals {
            quota_ns: Some(10_000_000),
            period_ns: 100_000_000,
            periods: 47,
            throttled_periods: 28,
            throttled_ns: 2_531_000_000,
        };
        assert_eq!(app.cpu, Some(cpu));
        let memory = app.memory.as_ref().unwrap();
        assert_eq!(
            (memory.limit_bytes, memory.used_bytes, memory.events["max"], memory.events.get("low")),
            (Some(1 << 20), 4096, 12, None)
        );
        assert_eq!(
            (app.io.len(), app.io[0].written_bytes, app.io[0].limits.as_str()),
            (1, 8192, "rbps=1048576 wiops=100")
        );
        assert_eq!(
            groups.limited,
            [(41, name("/app/web")), (42, name("/app/web"))],
            "an outer limit counts"
        );
        assert!(groups.is_whole);
    }

    #[test]
    fn accounts_of_version_1() {
        let folder = tempfile::tempdir().unwrap();
        let (cpu, memory, blkio) =
            (folder.path().join("cpu"), folder.path().join("memory"), folder.path().join("blkio"));
        write(
            &cpu,
            &[
                ("a/cpu.cfs_quota_us", "10000\n"),
                ("a/cpu.cfs_period_us", "100000\n"),
                ("a/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 180000000\n"),
                ("b/cpu.cfs_quota_us", "-1\n"),
                ("b/cpu.cfs_period_us", "100000\n"),
                ("b/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
            ],
        );
        let none = "9223372036854771712\n";
        write(
            &memory,
            &[
                ("memory.limit_in_bytes", none),
                ("memory.failcnt", "4\n"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            ],
        );
        write(
            &blkio,
            &[
                (
                    "blkio.throttle.io_service_bytes",
                    "8:0 Read 4096\n8:0 Write 0\n8:0 Total 4096\nTotal 4096\n",
                ),
                ("blkio.throttle.io_serviced", "8:0 Read 1\n"),
                ("blkio.throttle.read_bps_device", "8:0 1000\n"),
                ("blkio.throttle.write_iops_device", "8:0 7\n"),
            ],
        );
        let of = |name: &'static str, at: PathBuf| Hierarchy { name, at, root: "/r".to_owned() };
        let groups = look(&[of("cpu", cpu), of("memory", memory), of("blkio", blkio)], soon());
        let name = |hierarchy: &str, path: &str| GroupName {
            hierarchy: hierarchy.to_owned(),
            path: path.to_owned(),
        };
        let keys: Vec<_> = groups.accounts.keys().cloned().collect();
        assert_eq!(keys, [name("blkio", "/r"), name("cpu", "/r/a"), name("memory", "/r")]);
        assert_eq!(
            groups.accounts[&name("cpu", "/r/a")].cpu.map(|cpu| (cpu.quota_ns, cpu.throttled_ns)),
            Some((Some(10_000_000), 180_000_000))
        );
        let memory = groups.accounts[&name("memory", "/r")].memory.as_ref().unwrap();
        assert_eq!(
            (memory.limit_bytes, memory.events["failcnt"], memory.events["oom_kill"]),
            (None, 4, 2)
        );
        let io = &groups.accounts[&name("blkio", "/r")].io[0];
        assert_eq!((io.read_bytes, io.reads, io.limits.as_str()), (4096, 1, "rbps=1000 wiops=7"));
    }

    #[test]
    fn more_groups_than_allowed_and_links_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_GROUPS + 8 {
            fs::create_dir(folder.path().join(number.to_string())).unwrap();
        }
        let hierarchy =
            || Hierarchy { name: "cpu", at: folder.path().to_owned(), root: "/".to_owned() };
        assert!(!look(&[hierarchy()], soon()).is_whole);
        assert!(!look(&[hierarchy()], Instant::now()).is_whole, "out of time");
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
        assert_eq!(read_small(&folder.path().join("link")), None);
    }
}
