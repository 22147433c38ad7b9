//! A third-party program computes in a control group with a quota of 10 % of a CPU; the answer must
//! say so, as one stall. Works with both versions of control groups; a test that the machine does
//! not permit prints `SKIPPED name: reason`.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One at a time: what one test runs takes CPUs from the other's.
static ALONE: Mutex<()> = Mutex::new(());

fn skipped(name: &str, reason: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
}

/// A control group and the processes in it; dropping this removes both.
struct Group {
    folder: PathBuf,
    running: Vec<Child>,
}

impl Group {
    fn make(folder: PathBuf) -> std::io::Result<Self> {
        fs::create_dir(&folder)?;
        Ok(Self { folder, running: Vec::new() })
    }

    fn limit(&self, quota_us: u32) -> std::io::Result<()> {
        if self.folder.join("cpu.max").exists() {
            return fs::write(self.folder.join("cpu.max"), format!("{quota_us} 100000"));
        }
        fs::write(self.folder.join("cpu.cfs_period_us"), "100000")?;
        fs::write(self.folder.join("cpu.cfs_quota_us"), quota_us.to_string())
    }

    /// Runs a shell command in it.
    fn run(&mut self, command: &str) -> std::io::Result<()> {
        let script =
            format!("echo $$ > '{}/cgroup.procs' && exec {command}", self.folder.display());
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        self.running.push(child);
        Ok(())
    }

    /// How long it was throttled, by its own counters.
    fn throttled_ns(&self) -> u64 {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        let value = |name: &str| {
            stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        value("throttled_time ")
            .or_else(|| value("throttled_usec ").map(|us| us * 1000))
            .unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A killed process leaves its group a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Where groups of this controller can be created.
fn hierarchy(controller: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut folders = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (root, at) = (before.split(' ').nth(3)?, before.split(' ').nth(4)?);
        let (kind, options) = (after.split(' ').next()?, after.split(' ').nth(2)?);
        let has_it = match kind {
            "cgroup" => options.split(',').any(|option| option == controller),
            "cgroup2" => fs::read_to_string(Path::new(at).join("cgroup.subtree_control"))
                .ok()?
                .split_whitespace()
                .any(|name| name == controller),
            _ => false,
        };
        (has_it && root == "/").then(|| PathBuf::from(at))
    });
    folders.next()
}

#[test]
fn live_a_quota_is_reported_with_its_group_as_one_stall() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "live_a_quota_is_reported_with_its_group_as_one_stall";
    let Some(root) = hierarchy("cpu") else {
        return skipped(name, &"no control groups with CPU quotas are mounted");
    };
    let unique = format!("unhitch-test-{}", std::process::id());
    let outer = match Group::make(root.join(&unique))
        .and_then(|outer| outer.limit(10_000).map(|()| outer))
    {
        Ok(outer) => outer,
        Err(error) => return skipped(name, &format!("a control group cannot be made: {error}")),
    };
    // The program is in a group without a quota of its own, inside the group that has one; a second
    // group has a quota that is never used up.
    let mut inner = Group::make(outer.folder.join("inner")).unwrap();
    let mut idle = Group::make(root.join(format!("{unique}-idle"))).unwrap();
    idle.limit(90_000).unwrap();
    idle.run("sleep 100").unwrap();
    inner.run("gzip -9 < /dev/zero").unwrap();

    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("quota.hitch");
    let before = outer.throttled_ns();
    let unhitch = || Command::new(env!("CARGO_BIN_EXE_unhitch"));
    let recorded =
        unhitch().arg("record").arg("-o").arg(&trace).args(["--for", "2.5s"]).output().unwrap();
    let throttled_ns = outer.throttled_ns() - before;
    if !recorded.status.success() {
        return skipped(name, &String::from_utf8_lossy(&recorded.stderr));
    }
    if throttled_ns < 1_800_000_000 {
        return skipped(
            name,
            &format!(
                "others had the CPUs: the quota kept the group from them for {} ms only",
                throttled_ns / 1_000_000
            ),
        );
    }
    let answer = unhitch().arg("why").arg(&trace).args(["--json", "--top", "50"]).output().unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let stalls: Vec<&Value> = answer["stalls"].as_array().unwrap().iter().collect();
    let of_gzip: Vec<&&Value> =
        stalls.iter().filter(|stall| stall["victim"]["process"] == "gzip").collect();
    assert_eq!(of_gzip.len(), 1, "the pieces of one throttling are one stall: {of_gzip:#?}");
    let (stall, quota) = (of_gzip[0], &of_gzip[0]["cause"]["throttling"]);
    assert_eq!(stall["cause"]["pattern"], "cpu_starvation", "{stall:#}");
    assert_eq!(quota["group"], format!("/{unique}"), "{stall:#}");
    assert_eq!(
        (quota["quota_ns"].as_u64(), quota["period_ns"].as_u64()),
        (Some(10_000_000), Some(100_000_000))
    );
    let periods = |name: &str| quota[name].as_u64().unwrap();
    assert!(
        periods("throttled_periods") >= 10 && periods("throttled_periods") <= periods("periods"),
        "{quota}"
    );
    let text = stall["text"].as_str().unwrap();
    assert!(
        text.contains("10 % of a CPU allowed (quota 10.0 ms per 100.0 ms)")
            && !text.contains("a sleeping CPU"),
        "{text}"
    );
    let blamed = stalls.iter().filter_map(|stall| stall["cause"]["throttling"]["group"].as_str());
    assert!(
        blamed.clone().all(|group| !group.ends_with("-idle")),
        "{:?}",
        blamed.collect::<Vec<_>>()
    );

    let info = unhitch().arg("info").arg(&trace).output().unwrap();
    let info = String::from_utf8(info.stdout).unwrap();
    let line = info
        .lines()
        .find(|line| line.contains(&format!("/{unique} (")))
        .unwrap_or_else(|| panic!("{info}"));
    assert!(line.contains("10 % of a CPU allowed") && line.contains("used up"), "{line}");
}

const LIMIT_BYTES: u64 = 64 << 20;

/// The kernel's own counters are in the trace, and `info` shows how much they grew.
#[test]
fn live_info_shows_the_counters_of_the_machine() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "live_info_shows_the_counters_of_the_machine";
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("counters.hitch");
    let unique = format!("unhitch-test-{}-memory", std::process::id());
    let group = hierarchy("memory").and_then(|root| Group::make(root.join(&unique)).ok());
    let limits = ["memory.max", "memory.limit_in_bytes"];
    let limit = |group: &Group| {
        let file = limits.iter().map(|name| group.folder.join(name)).find(|file| file.exists());
        file.is_some_and(|file| fs::write(file, LIMIT_BYTES.to_string()).is_ok())
    };
    let mut group = group.filter(limit);
    if let Some(group) = &mut group {
        group.run("dd if=/dev/zero of=/dev/null bs=8M").unwrap();
    }
    let unhitch = || Command::new(env!("CARGO_BIN_EXE_unhitch"));
    let recorded =
        unhitch().arg("record").arg("-o").arg(&trace).args(["--for", "1.5s"]).output().unwrap();
    if !recorded.status.success() {
        return skipped(name, &String::from_utf8_lossy(&recorded.stderr));
    }
    let out = unhitch().args(["info", "--json"]).arg(&trace).output().unwrap();
    let info: Value = serde_json::from_slice(&out.stdout).unwrap();
    let machine = &info["machine"];
    assert!(machine["readings"].as_u64() >= Some(2), "{machine}");
    let ns = |at: &str| machine[at].as_u64();
    assert!(ns("to_ns") > ns("from_ns") && machine["steal_ns"].is_u64(), "{machine}");
    assert!(machine["vmstat"].is_object(), "{machine}");
    let groups = machine["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["members"].as_u64() > Some(0)), "{machine}");
    let is_ours = |group: &&Value| {
        group["path"].as_str().is_some_and(|path| path.ends_with(&unique))
            && group["memory"]["used_bytes"].as_u64() > Some(8 << 20)
            && group["memory"]["limit_bytes"].as_u64() == Some(LIMIT_BYTES)
            && group["memory"]["events"].is_object()
    };
    assert!(group.is_none() || groups.iter().find(is_ours).is_some(), "{machine}");
    let text =
        String::from_utf8(unhitch().arg("info").arg(&trace).output().unwrap().stdout).unwrap();
    assert!(text.contains("CPU time taken by the host: "), "{text}");
    for resource in ["cpu", "io", "memory"] {
        if fs::read(format!("/proc/pressure/{resource}")).is_ok_and(|text| !text.is_empty()) {
            let pressure = &machine["pressure"][resource];
            assert!(pressure["some_ns"].is_u64() && pressure["full_ns"].is_u64(), "{machine}");
            assert!(text.contains(&format!("{resource} pressure: at least one task waited")));
        }
    }
}
