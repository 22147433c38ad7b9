//! A recorder as a program, for tests. Each uses a part of this.
#![allow(dead_code)]

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");
/// Time limit for anything that must happen eventually, however busy the machine is.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub fn unhitch(arguments: &[&str]) -> Output {
    Command::new(UNHITCH).args(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says that a test, or a part of it, cannot run here. The harness would keep to itself what
/// `eprintln` prints in a test that passes.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {}", why.trim_end());
}

/// The folder of a control group of version 2, by its path; `None` if that version is not mounted.
pub fn group_folder(path: &str) -> Option<PathBuf> {
    let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(PathBuf::from);
    let root = roots.into_iter().find(|root| root.join("cgroup.controllers").exists())?;
    Some(root.join(path.trim_start_matches('/')))
}

/// A recorder with the configuration of this folder, and its log there.
fn watch(folder: &tempfile::TempDir) -> Child {
    Command::new(UNHITCH)
        .arg("watch")
        .arg("--config")
        .arg(folder.path().join("watch.toml"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.path().join("log")).unwrap())
        .spawn()
        .unwrap()
}

/// A recorder with this configuration, and its folders.
pub struct Service {
    pub child: Child,
    pub folder: tempfile::TempDir,
}

impl Service {
    /// `None` where recording is not permitted. `triggers` is the end of the configuration.
    pub fn start(test: &str, settings: &str, triggers: &str) -> Option<Self> {
        Self::start_for(test, settings, triggers, None)
    }

    /// The same, for the members of a group, with more lines about their access.
    pub fn start_for(
        test: &str,
        settings: &str,
        triggers: &str,
        group: Option<(u32, &str)>,
    ) -> Option<Self> {
        let group =
            group.map_or(String::new(), |(group, access)| format!("group = \"{group}\"\n{access}"));
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("traces")).unwrap();
        let config = format!(
            "[access]\n{group}socket_folder = {:?}\n[traces]\nfolder = {:?}\n{settings}\n{triggers}",
            path("control"),
            path("traces"),
        );
        fs::write(path("watch.toml"), config).unwrap();
        let child = watch(&folder);
        let mut service = Self { child, folder };
        service.is_ready(test).then_some(service)
    }

    /// Kills it at once, and starts it again, also with another configuration.
    pub fn kill_and_restart(&mut self, test: &str) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = watch(&self.folder);
        assert!(self.is_ready(test));
    }

    /// Waits until it records; false where that is not permitted.
    pub fn is_ready(&mut self, test: &str) -> bool {
        let begun = Instant::now();
        while !self.log().contains("watching; ") {
            if self.child.try_wait().unwrap().is_some() {
                let log = self.log();
                let why =
                    ["Permission", "permitted", "allow"].iter().any(|word| log.contains(word));
                assert!(why, "{log}");
                skipped(test, &log);
                return false;
            }
            assert!(begun.elapsed() < TIMEOUT, "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn socket(&self) -> String {
        self.path("control/control.sock").to_str().unwrap().to_owned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn status(&self) -> Value {
        let output = unhitch(&["status", "--json", "--socket", &self.socket()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What `unhitch list` knows, newest first.
    pub fn list(&self) -> Vec<Value> {
        let traces = self.path("traces");
        let output = unhitch(&["list", "--json", traces.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        list["traces"].as_array().unwrap().clone()
    }

    /// Waits until the list is as `wanted`.
    pub fn list_when(&self, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let list = self.list();
            if wanted(&list) {
                return list;
            }
            assert!(begun.elapsed() < TIMEOUT, "{list:#?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
