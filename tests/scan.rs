//! `unhitch scan`, `unhitch threads` and `unhitch lab address-space` from the user's point of view.

#![cfg(target_os = "linux")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");
const NOBODY: u32 = 65_534;
/// No mapping changes during the scan.
const QUIET: [&str; 2] = ["--period", "100s"];
/// If a program maps files at its start and unmaps them again, as the loader does, a few tables may
/// stay empty.
const LOADER_LEFT: u64 = 64 << 10;

fn unhitch(words: &[&str]) -> Output {
    Command::new(UNHITCH).args(words).output().unwrap()
}

/// Runs `words`, which must exit with `code`; returns standard output and standard error.
fn ends_with(code: i32, words: &[&str]) -> (String, String) {
    let output = unhitch(words);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(code), "{words:?}: {out}{err}");
    assert!(
        !out.contains('\x1b') && !err.contains('\x1b'),
        "colour or progress into a pipe: {out}{err}"
    );
    (out, err)
}

/// Standard output, with its lines joined.
fn output(words: &[&str]) -> String {
    ends_with(0, words).0.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&ends_with(0, words).0).unwrap()
}

/// A process that is killed at the end of the test.
struct Target(Child);

impl Target {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// `lab address-space`, filled.
    fn lab(words: &[&str]) -> (Self, BufReader<ChildStdout>) {
        let words = ["lab", "address-space", "--seconds", "120"].iter().chain(words);
        let mut target =
            Self(Command::new(UNHITCH).args(words).stdout(Stdio::piped()).spawn().unwrap());
        let mut stdout = BufReader::new(target.0.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready: "), "{line:?}");
        (target, stdout)
    }

    fn sleep() -> Self {
        Self(Command::new("sleep").arg("120").spawn().unwrap())
    }

    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_bitmap_of_freed_code_is_found_by_itself() {
    let (mut target, mut stdout) = Target::lab(&["--bitmap", QUIET[0], QUIET[1]]);
    let text = output(&["scan", &target.pid(), "--pages"]);
    assert!(text.contains("* One reservation (2 TiB at 0x"), "{text}");
    for words in [
        " of the mappings (49,",
        " of page tables for 98 executable blocks.",
        "It has 24,866 committed pages (97.1 MiB)",
        "a bitmap of the address space",
    ] {
        assert!(text.contains(words), "{words:?} is missing: {text}");
    }
    let answer = json(&["scan", &target.pid(), "--pages", "--json"]);
    let process = &answer["processes"][0];
    let group = &process["groups"][0];
    assert_eq!(group["kind"], "reservation");
    let figures = &group["figures"];
    assert_eq!(figures["committed_bytes"].as_u64(), Some(24_866 * 4096));
    assert_eq!(figures["reserved_bytes"].as_u64(), Some(2 << 40));
    let tables_mib = figures["pages"]["table_bytes"].as_u64().unwrap() as f64 / f64::from(1 << 20);
    assert!((58.7..59.7).contains(&tables_mib), "the post's 59.2 MiB: {tables_mib}");
    assert!(
        process["page_tables"]["empty_bytes"].as_u64().unwrap() <= LOADER_LEFT,
        "{}",
        process["page_tables"]
    );
    // Even without counting pages, the upper bound of the page tables shows it.
    let text = output(&["scan", &target.pid()]);
    assert!(
        text.contains(" of page tables for 98 executable blocks.") && text.contains(" and up to 5"),
        "{text}"
    );
    target.stop();
    let mut end = String::new();
    stdout.read_to_string(&mut end).unwrap();
    assert!(end.starts_with("mapped 0 times; the slowest took "), "{end}");
}

#[test]
fn every_layout_is_filled_and_distinguished() {
    for (layout, blocks, mappings) in [
        ("one-big", 1, 1),
        ("few-big", 16, 16),
        ("many-blocks", 3_000, 3_000),
        ("random", 2_000, 2_000),
        ("super-sparse", 500, 500),
    ] {
        let (target, _said) =
            Target::lab(&["--layout", layout, "--blocks", &blocks.to_string(), QUIET[0], QUIET[1]]);
        let answer = json(&["scan", &target.pid(), "--pages", "--json"]);
        let process = &answer["processes"][0];
        let code = process["groups"]
            .as_array()
            .unwrap()
            .iter()
            .find(|group| group["kind"] == "jit")
            .unwrap();
        assert_eq!(code["figures"]["executable_blocks"].as_u64(), Some(mappings), "{layout}");
        assert!(
            process["page_tables"]["empty_bytes"].as_u64().unwrap() <= LOADER_LEFT,
            "{layout}: {}",
            process["page_tables"]
        );
        assert_eq!(
            code["figures"]["pages"]["resident_bytes"], code["figures"]["committed_bytes"],
            "{layout}"
        );
    }
}

#[test]
fn address_space_reports_how_long_its_mappings_took() {
    let (out, _) = ends_with(
        0,
        &["lab", "address-space", "--seconds", "0.5", "--period", "2ms", "--limit", "0ms"],
    );
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("ready: few-big, 16 blocks of code mapped in "), "{out}");
    let end = lines.iter().position(|line| line.contains(" times; the slowest took ")).unwrap();
    let times: usize = lines[end].split(' ').nth(1).unwrap().parse().unwrap();
    // Each took longer than zero, and was reported.
    assert!(
        end == times + 1
            && lines[1..end].iter().all(|line| line.contains(" s  mapping 4 KiB of code took ")),
        "{out}"
    );
    let counted = lines[end + 1..]
        .iter()
        .map(|line| line.split_whitespace().nth(3).unwrap().parse::<usize>().unwrap());
    assert!(times > 0 && counted.sum::<usize>() == times, "{out}");
}

#[test]
fn an_ordinary_process_is_shown_as_text_json_and_picture() {
    let target = Target::sleep();
    let pid = target.pid();
    // The shell of the test may still be before its exec.
    let text = (0..100)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            ends_with(0, &["scan", &pid]).0
        })
        .find(|text| text.starts_with("sleep ") && text.contains("libc.so"));
    let text = text.expect("sleep has started");
    assert!(
        text.contains("Nothing stands out.")
            && text.contains("stack")
            && text.contains("cannot have waited longer than"),
        "{text}"
    );
    let answer = json(&["scan", &pid, "--json"]);
    assert_eq!(answer["version"], 1);
    let process = &answer["processes"][0];
    assert_eq!(process["process"]["pid"].as_u64(), pid.parse().ok());
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mappings = maps.lines().filter(|line| !line.contains("[vsyscall]")).count() as u64;
    assert_eq!(process["total"]["mappings"].as_u64(), Some(mappings));
    let groups = process["groups"].as_array().unwrap();
    let sum = |field: &str| {
        groups.iter().map(|group| group["figures"][field].as_u64().unwrap()).sum::<u64>()
    };
    for field in ["mappings", "reserved_bytes", "committed_bytes", "executable_blocks", "blocks"] {
        assert_eq!(process["total"][field].as_u64(), Some(sum(field)), "{field}");
    }
    assert!(
        process["total"]["pages"].is_null() && process["page_tables"]["needed_bytes"].is_null()
    );
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("space.svg");
    ends_with(0, &["scan", &pid, "--pages", "--svg", svg.to_str().unwrap()]);
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(
        picture.starts_with("<svg ")
            && picture.ends_with("</svg>\n")
            && picture.matches("<g>").count() > 3
    );
    assert!(picture.contains(&format!("sleep {pid}: ")));
    assert!(
        ends_with(1, &["scan", &pid, "--svg", "/no/such/folder/a.svg"])
            .1
            .contains("/no/such/folder/a.svg")
    );
}

#[test]
fn several_processes_are_drawn_into_a_file_each() {
    let targets = [Target::sleep(), Target::sleep()];
    let [a, b] = targets.each_ref().map(Target::pid);
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("space.svg");
    let (_, notes) = ends_with(0, &["scan", &a, &b, "--svg", svg.to_str().unwrap()]);
    for pid in [&a, &b] {
        let own = folder.path().join(format!("space-{pid}.svg"));
        let picture = std::fs::read_to_string(&own).unwrap();
        assert!(
            picture.starts_with("<svg ") && picture.contains(&format!(" {pid}: ")),
            "{picture}"
        );
        assert!(
            notes.lines().any(|line| line.starts_with(&format!("{}: ", own.display()))
                && line.ends_with(pid.as_str())),
            "{notes}"
        );
    }
    assert!(!svg.exists());
}

#[test]
fn growth_is_reported_per_second_and_in_words() {
    let pid = std::process::id().to_string();
    let words = ["scan", &pid, "--every", "300ms", "--times", "3"];
    let scan = |more: &[&str]| {
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        let mut child = Command::new(UNHITCH).args(words).stdout(Stdio::piped()).spawn().unwrap();
        // Large blocks are separate mappings; they are kept so that no later one reuses their
        // address.
        let mut kept: Vec<Vec<u8>> = Vec::new();
        while child.try_wait().unwrap().is_none() && kept.len() < 400 {
            kept.push(vec![1; 512 << 10]);
            std::thread::sleep(Duration::from_millis(10));
        }
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    // On a busy machine this test may get no CPU between two scans, and then nothing grows, so it
    // is repeated up to ten times.
    let changes =
        |text: &str| text.matches("per second: ").count() + text.matches(": no change in ").count();
    let tries = (0..10).map(|_| scan(&[])).inspect(|text| assert_eq!(changes(text), 2, "{text}"));
    let grows = |text: &String| {
        ["per second: +", " committed, +", " resident"].iter().all(|words| text.contains(words))
    };
    assert!(tries.into_iter().any(|text| grows(&text)), "it grows at last");
    let lines: Vec<Value> =
        scan(&["--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0]["growth"].is_null());
    let growth = &lines[2]["growth"][0];
    let committed =
        |line: &Value| line["processes"][0]["total"]["committed_bytes"].as_f64().unwrap();
    let rate = (committed(&lines[2]) - committed(&lines[1])) / growth["seconds"].as_f64().unwrap();
    assert!(
        (growth["committed_bytes_per_second"].as_f64().unwrap() - rate).abs() < 1.0,
        "{growth}"
    );
}

#[test]
fn a_process_that_ends_meanwhile_ends_the_scan() {
    let mut target = Target::sleep();
    let pid = target.pid();
    let child = Command::new(UNHITCH)
        .args(["scan", &pid, "--every", "50ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    target.0.kill().unwrap();
    target.0.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    // If the scan was too late to see the process, that is an error, else a normal end.
    assert!(
        output.status.success() && !out.is_empty() || output.status.code() == Some(1),
        "{out}{err}"
    );
    assert!(err.contains(&pid), "{err}");
    assert!(ends_with(1, &["scan", &pid]).1.contains("no process is called"));
}

#[test]
fn what_cannot_be_scanned_is_reported_with_a_remedy() {
    let (_, err) = ends_with(1, &["scan", "no-such-program"]);
    assert!(err.contains("no process is called \"no-such-program\""), "{err}");
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        assert!(ends_with(1, &["scan", "2"]).1.contains("a kernel thread"));
    }
    let (out, _) = ends_with(0, &["scan", "--all", "--json"]);
    let all: Value = serde_json::from_str(&out).unwrap();
    assert!(!all["processes"].as_array().unwrap().is_empty());
    if !rustix::process::geteuid().is_root() {
        println!(
            "SKIPPED what_cannot_be_scanned_is_reported_with_a_remedy: only root can try it as somebody else"
        );
        return;
    }
    let target = Target::sleep();
    let output = Command::new(UNHITCH)
        .args(["scan", &target.pid()])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .output();
    let Ok(output) = output else {
        println!(
            "SKIPPED what_cannot_be_scanned_is_reported_with_a_remedy: others may not run the program where it lies"
        );
        return;
    };
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("belongs to user 0") && err.contains("sudo"), "{err}");
}

#[test]
fn pages_are_not_inspected_at_idle_priority_unless_forced() {
    let target = Target::sleep();
    let idle = |words: &[&str]| {
        Command::new("nice")
            .args(["-n", "39", UNHITCH, "scan", &target.pid()])
            .args(words)
            .output()
            .unwrap()
    };
    let refused = idle(&["--pages"]);
    assert_eq!(refused.status.code(), Some(1));
    let err = String::from_utf8(refused.stderr).unwrap();
    assert!(err.contains("idle priority") && err.contains("--force"), "{err}");
    assert!(idle(&["--pages", "--force"]).status.success() && idle(&[]).status.success());
}

#[test]
fn wrong_usage_exits_with_2() {
    let wrong: [&[&str]; 11] = [
        &["scan"],
        &["scan", "1", "--all"],
        &["scan", "1", "--force"],
        &["scan", "1", "--times", "3"],
        &["scan", "1", "--every", "1s", "--svg", "a.svg"],
        &["scan", "1", "--every", "soon"],
        &["threads", "1", "2"],
        &["lab", "starve", "--bitmap"],
        &["lab", "starve", "--markdown"],
        &["lab", "fairness", "--markdown", "--json"],
        &["lab", "address-space", "--layout", "round"],
    ];
    for words in wrong {
        let (out, err) = ends_with(2, words);
        assert!(
            out.is_empty() && (err.contains("Usage: unhitch") || err.contains("--help")),
            "{words:?}: {err}"
        );
    }
    assert!(
        ends_with(2, &["lab", "address-space", "--layout", "round"]).1.contains("super-sparse")
    );
}

#[test]
fn threads_are_listed_and_unnamed_ones_are_flagged() {
    let pid = std::process::id();
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    std::thread::scope(|scope| {
        // It inherits the name of its creator, which is the thread of this test.
        let make = || drop(scope.spawn(|| drop(wait.lock().map(|wait| wait.recv()))));
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        std::fs::write("/proc/thread-self/comm", &own).unwrap();
        make();
        let own = own.trim_end();
        let answer = json(&["threads", &pid.to_string(), "--json"]);
        let process = &answer["processes"][0];
        let threads = process["threads"].as_array().unwrap();
        let unnamed: Vec<&Value> =
            threads.iter().filter(|thread| thread["unnamed"] == true).collect();
        drop(stop);
        assert!(
            !unnamed.is_empty() && process["unnamed"].as_u64() == Some(unnamed.len() as u64),
            "{answer}"
        );
        assert!(unnamed.iter().all(|thread| thread["name"] == own && thread["tid"] != pid));
        assert!(
            threads.iter().all(|thread| thread["state"].is_string() && thread["cpu_ns"].is_u64())
        );
    });
    let (text, _) = ends_with(0, &["threads"]);
    assert!(text.contains("waits in") && text.contains(" processes, "), "{text}");
    assert!(ends_with(1, &["threads", "no-such-program"]).1.contains("no process is called"));
}
