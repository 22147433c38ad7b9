//! `unhitch export`: the file is complete, private and never replaces another by accident; and
//! `perf script` reads the events of a live recording as we do, stack by stack.
//! `tests/oracle.rs` compares what `perf sched timehist` makes of an export.
#![cfg(target_os = "linux")]

use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Write, stderr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use unhitch_model::{FrameId, ModuleKind, StackId, ThreadId, Time, Trace};
use unhitch_record::{EngineChoice, Options, Recorder};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/starve.hitch");

fn unhitch(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unhitch")).args(words).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn skipped(test: &str, reason: &str) {
    let _ = writeln!(stderr(), "SKIPPED {test}: {reason}");
}

#[test]
fn an_export_is_private_and_replaces_nothing_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("starve.hitch");
    fs::copy(EXAMPLE, &trace).unwrap();
    let trace = trace.to_str().unwrap();
    let output = unhitch(&["export", trace, "--to", "perf.data"]);
    assert!(output.status.success(), "{}", errors(&output));
    let file = folder.path().join("starve.perf.data");
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(printed.trim_end(), file.to_str().unwrap());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for words in ["exported 3,880 context switches", "left out function names", "1 lock event "] {
        assert!(errors(&output).contains(words), "{words}: {}", errors(&output));
    }
    let first = fs::read(&file).unwrap();
    fs::write(&file, b"mine").unwrap();
    let again = unhitch(&["export", trace, "--to", "perf.data"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(errors(&again).contains("exists already; --force replaces it"), "{}", errors(&again));
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert!(unhitch(&["export", trace, "--to", "perf.data", "--force"]).status.success());
    assert!(fs::read(&file).unwrap() == first, "an export depends on nothing but the trace");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn a_part_of_a_trace_can_be_exported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("part.data");
    let words = ["export", EXAMPLE, "--to", "perf.data", "-o", file.to_str().unwrap()];
    let part = ["--victim", "typing", "--from", "1s", "--until", "1.5s"];
    let output = unhitch(&[&words[..], &part].concat());
    assert!(output.status.success(), "{}", errors(&output));
    let (whole, read) =
        (unhitch_formats::open(Path::new(EXAMPLE)).unwrap(), unhitch_formats::open(&file).unwrap());
    assert!(!read.switches.is_empty() && !read.wakings.is_empty());
    for row in 0..read.switches.len() {
        let time = read.switches.time[row];
        let second = time.since(whole.origin()) as f64 / 1e9;
        assert!((1.0..1.5).contains(&second), "{second}");
        let threads = [read.switches.prev[row], read.switches.next[row]];
        assert!(threads.iter().any(|&thread| read.thread_name(thread, time) == "typing"));
    }
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let test = "a_full_disk_leaves_nothing_behind";
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let script = format!(
        "mkdir '{0}' && mount -t tmpfs -o size=4k tmpfs '{0}' || exit 77
         for format in perfetto pprof firefox folded json perf.data; do
             \"$UNHITCH\" export '{EXAMPLE}' --to $format -o '{0}/out' >&2; echo $format $?
         done
         ls -A '{0}'",
        disk.display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .env("UNHITCH", env!("CARGO_BIN_EXE_unhitch"))
        .output();
    let Ok(output) = output else { return skipped(test, "unshare cannot be run") };
    let text = errors(&output);
    if output.status.code() == Some(77) || text.contains("Operation not permitted") {
        return skipped(test, "a file system cannot be mounted");
    }
    let formats = ["perfetto", "pprof", "firefox", "folded", "json", "perf.data"];
    assert_eq!(text.matches("No space left on device").count(), formats.len(), "{text}");
    assert_eq!(text.matches("disk/out: nothing was written").count(), formats.len(), "{text}");
    // Each failed, and nothing is left behind.
    let expected: String = formats.map(|format| format!("{format} 1\n")).concat();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn an_export_that_is_stopped_leaves_nothing_behind() {
    let test = "an_export_that_is_stopped_leaves_nothing_behind";
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // An export may be over before it is seen.
        let stopped = (0..100).any(|_| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("out");
            let mut child = Command::new(env!("CARGO_BIN_EXE_unhitch"))
                .args(["export", EXAMPLE, "--to", "json", "-o", file.to_str().unwrap()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let names = || fs::read_dir(folder.path()).unwrap().count();
            while names() == 0 && child.try_wait().unwrap().is_none() {
                sleep(Duration::from_millis(1));
            }
            let _ = kill_process(Pid::from_child(&child), signal);
            let status = child.wait().unwrap();
            if file.exists() {
                assert_eq!(names(), 1, "the whole file, and nothing else");
                return false;
            }
            assert_eq!(status.code(), Some(code));
            assert_eq!(names(), 0, "nothing is left behind");
            true
        });
        if !stopped {
            skipped(test, "every export was over before it could be stopped");
        }
    }
}

/// The switches and wake-ups of a trace.
fn events(path: &Path) -> (Vec<String>, Vec<String>) {
    let trace = unhitch_formats::open(path).unwrap();
    let tid = |thread: ThreadId| trace.threads.get(thread).tid as i32;
    let of = &trace.switches;
    let switches = (0..of.len()).map(|row| {
        let (prev, next, state) = (tid(of.prev[row]), tid(of.next[row]), of.prev_state[row]);
        format!("{} {} {prev} {} {next}", of.time[row].nanos(), of.cpu[row], state.letter())
    });
    let of = &trace.wakings;
    let wakings = (0..of.len()).map(|row| {
        let (waker, wakee) = (tid(of.waker[row]), tid(of.wakee[row]));
        format!("{} {} {waker} {wakee}", of.time[row].nanos(), of.cpu[row])
    });
    (switches.collect(), wakings.collect())
}

/// What `why` answers first: its sentences and the chain. The shares of time below have threads whose
/// process the text of perf script does not name. Under another kernel than the recorded one, perf
/// still names functions by this machine's files, and we do not: then the thread that hung is asked
/// about, and the lines with functions are left out.
fn answer(path: &Path) -> String {
    let recorded = unhitch_formats::open(path).unwrap().meta.kernel;
    let is_own = recorded == fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim();
    let asked: &[&str] = if is_own { &[] } else { &["--victim", "typing"] };
    let output = unhitch(&[&["why", "--top", "1", path.to_str().unwrap()], asked].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = text.split("where the time went").next().unwrap();
    if is_own {
        return answer.to_owned();
    }
    let has_functions = |line: &str| line.contains('→') || line.contains("By function");
    answer.lines().filter(|line| !has_functions(line)).collect::<Vec<_>>().join("\n")
}

/// The text of a recording whose programs are not on this machine: their frames have no names.
#[test]
fn perf_scripts_text_says_what_the_perf_data_says() {
    let test = "perf_scripts_text_says_what_the_perf_data_says";
    match Command::new("perf").arg("--version").output() {
        Ok(out) if out.status.success() => {}
        _ => return skipped(test, "perf does not run"),
    }
    let folder = tempfile::tempdir().unwrap();
    let (data, text) = (folder.path().join("a.data"), folder.path().join("a.txt"));
    let output = unhitch(&["export", EXAMPLE, "--to", "perf.data", "-o", data.to_str().unwrap()]);
    assert!(output.status.success(), "{}", errors(&output));
    let script = Command::new("perf")
        .args(["script", "--header", "--ns", "-F"])
        .arg("comm,pid,tid,cpu,time,event,trace,ip,sym,symoff,dso")
        .arg("-i")
        .arg(&data)
        .output()
        .unwrap();
    assert!(script.status.success(), "{}", errors(&script));
    fs::write(&text, &script.stdout).unwrap();
    let (of_data, of_text) = (events(&data), events(&text));
    assert!(of_data.0 == of_text.0, "context switches differ");
    assert!(of_data.1 == of_text.1, "wake-ups differ");
    let (of_data, of_text) = (answer(&data), answer(&text));
    assert!(of_data.contains("typing"), "{of_data}");
    assert_eq!(of_text, of_data);
}

/// An event as perf script prints it, and as we have it: time in nanoseconds, CPU and thread.
type Key = (u64, u16, i64);
/// Frames as perf prints them, leaf first: the offset in the file, or the address in the kernel and
/// in memory without a file; and the file.
type Stack = Vec<(u64, String)>;

/// The events of a file by kind, by perf script.
fn script(file: &Path) -> BTreeMap<String, HashMap<Key, Stack>> {
    let out = Command::new("perf")
        .args(["script", "--ns", "-F", "tid,cpu,time,event,ip,dso", "-i"])
        .arg(file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", errors(&out));
    let mut events = BTreeMap::<String, HashMap<Key, Stack>>::new();
    let mut last: Option<(String, Key)> = None;
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] => last = None,
            [offset, ref file @ ..] if file.first().is_some_and(|file| file.starts_with('(')) => {
                let (event, key) = last.as_ref().expect("a frame follows its event");
                let frame = (u64::from_str_radix(offset, 16).unwrap(), file.join(" "));
                events.get_mut(event).unwrap().get_mut(key).unwrap().push(frame);
            }
            [tid, cpu, time, event] => {
                let (seconds, nanos) = time.trim_end_matches(':').split_once('.').unwrap();
                let ns =
                    seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanos.parse::<u64>().unwrap();
                let cpu = cpu.trim_matches(['[', ']']).parse().unwrap();
                let key = (ns, cpu, tid.parse().unwrap());
                let event = event.trim_end_matches(':').to_owned();
                events.entry(event.clone()).or_default().insert(key, Vec::new());
                last = Some((event, key));
            }
            _ => panic!("perf script printed {line:?}"),
        }
    }
    events
}

/// A stack of ours as perf prints it. Only frames in files have a file: perf has names of its own for
/// memory without a file, and none for code that the kernel made while it ran.
fn as_printed(trace: &Trace, stack: StackId) -> Stack {
    let frame = |(index, id): (usize, &FrameId)| {
        let frame = trace.stacks.frame(*id).unwrap();
        let module = trace.modules.get(frame.module).unwrap();
        // Ours lie inside the call, perf's behind it.
        let behind = frame.offset + u64::from(index > 0);
        match module.kind {
            ModuleKind::Cut => (0, String::new()),
            ModuleKind::File => (behind, format!("({})", trace.name(module.path))),
            _ => (behind, String::new()),
        }
    };
    trace.stacks.frames_of(stack).iter().enumerate().map(frame).collect()
}

fn is_same(ours: &Stack, perf: &Stack) -> bool {
    let is_same = |((offset, file), (printed, of)): (&(u64, String), &(u64, String))| {
        offset == printed && (file.is_empty() || file == of)
    };
    ours.len() == perf.len() && ours.iter().zip(perf).all(is_same)
}

#[test]
fn live_perf_script_reads_an_export_as_we_read_the_recording() {
    let test = "live_perf_script_reads_an_export_as_we_read_the_recording";
    match Command::new("perf").arg("--version").output() {
        Ok(out) if out.status.success() => {}
        _ => return skipped(test, "perf does not run"),
    }
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    if let Err(error) = Recorder::start(&options) {
        return skipped(test, &error.to_string().replace('\n', " "));
    }
    let folder = tempfile::tempdir().unwrap();
    let (recording, file) = (folder.path().join("a.hitch"), folder.path().join("a.data"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (of, to) = (path(&recording), path(&file));
    // Many programs, each with its own address space, that wait long enough for a stack.
    let load = "for i in $(seq 200); do sleep 0.005; done";
    let record =
        ["record", "--engine", "bpf", "--stack-budget", "100", "-o", &of, "--", "sh", "-c"];
    let output = unhitch(&[&record[..], &[load]].concat());
    assert!(output.status.success(), "{}", errors(&output));
    let output = unhitch(&["export", &of, "--to", "perf.data", "-o", &to]);
    assert!(output.status.success(), "{}", errors(&output));

    let mut trace = unhitch_formats::open(&recording).unwrap();
    // What the kernel did not report is in the tables and in the export.
    unhitch_analysis::repair(&mut trace);
    let theirs = script(&file);
    let Trace { switches, wakings, samples, .. } = &trace;
    let key = |time: Time, cpu: u16, thread: ThreadId| {
        (time.nanos(), cpu, i64::from(trace.threads.get(thread).tid as i32))
    };
    let (mut equal, mut different) = (0, Vec::new());
    let mut check = |event: &[&str], rows: usize, row: &dyn Fn(usize) -> (Key, StackId)| {
        let found: usize =
            event.iter().filter_map(|name| theirs.get(*name)).map(HashMap::len).sum();
        assert_eq!(found, rows, "{event:?}");
        for (key, stack) in (0..rows).map(row) {
            let printed = event.iter().find_map(|name| theirs.get(*name)?.get(&key));
            let printed = printed.unwrap_or_else(|| panic!("perf script has no {event:?} {key:?}"));
            match as_printed(&trace, stack) {
                // perf prints an event without a stack with its instruction, 0.
                empty if empty.is_empty() => assert!(printed.len() <= 1, "{printed:x?}"),
                expected if is_same(&expected, printed) => equal += 1,
                expected => different.push(format!("{expected:x?}\n{printed:x?}\n")),
            }
        }
    };
    check(&["sched:sched_switch"], switches.len(), &|row| {
        let thread = switches.prev[row];
        (key(switches.time[row], switches.cpu[row], thread), switches.stack[row])
    });
    check(&["sched:sched_waking", "sched:sched_wakeup_new"], wakings.len(), &|row| {
        let thread = wakings.waker[row];
        (key(wakings.time[row], wakings.cpu[row], thread), wakings.stack[row])
    });
    check(&["cpu-clock"], samples.len(), &|row| {
        let thread = samples.thread[row];
        (key(samples.time[row], samples.cpu[row], thread), samples.stack[row])
    });
    let _ = writeln!(stderr(), "{equal} stacks equal, frame by frame; {} differ", different.len());
    assert!(equal > 100, "a shell waits two hundred times, with stacks: {equal}");
    // perf cannot know a mapping that was found only after an exec had ended it.
    assert!(different.len() * 100 <= equal, "{}", different.join("\n"));
}
