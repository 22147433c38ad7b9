//! Control groups: which exist, their accounts, and which processes are in them.
//!
//! Formats: cgroups(7), `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/` of the kernel,
//! mountinfo in proc(5). Other users may own groups and create as many as they like, with any name.
//! So the number of groups, their depth, the length of each file and the time of one reading are
//! limited, and links are not followed. What exceeds a limit is left out, and the result says so.

mod accounts;
mod hierarchy;

pub(crate) use hierarchy::{Hierarchy, hierarchies, parse_membership};

use crate::procfs::read_small;
use accounts::accounts;
use hierarchy::group_name;
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;
use unhitch_formats::container::{GroupAccounts, GroupName};

/// Maximum number of groups read per hierarchy.
const MAX_GROUPS: usize = 512;
/// Maximum depth of the groups read.
const MAX_DEPTH: usize = 32;

/// The groups of all hierarchies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Groups {
    /// Accounts by group, without groups that never had a limit and never hit one.
    pub(crate) accounts: BTreeMap<GroupName, GroupAccounts>,
    /// Processes whose CPU time is limited, by their group or an outer one.
    pub(crate) limited: Vec<(u32, GroupName)>,
    /// False if groups were left out.
    pub(crate) is_whole: bool,
}

/// Reads all groups, until `deadline`.
pub(crate) fn read(hierarchies: &[Hierarchy], deadline: Instant) -> Groups {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use unhitch_formats::container::CpuTotals;

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
                    "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n9:0 rbytes=0 \
                     wbytes=0 rios=0 wios=0\n",
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
        let groups = read(&[hierarchy], soon());
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
        let groups = read(&[of("cpu", cpu), of("memory", memory), of("blkio", blkio)], soon());
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
    fn groups_beyond_the_limits_and_links_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_GROUPS + 8 {
            fs::create_dir(folder.path().join(number.to_string())).unwrap();
        }
        let hierarchy =
            || Hierarchy { name: "cpu", at: folder.path().to_owned(), root: "/".to_owned() };
        assert!(!read(&[hierarchy()], soon()).is_whole);
        assert!(!read(&[hierarchy()], Instant::now()).is_whole, "out of time");
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
        assert_eq!(read_small(&folder.path().join("link")), None);
    }
}
