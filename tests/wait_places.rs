//! The wait rules on this machine's kernel: records waits at about fifty wait places of the kernel
//! (`wait_places/waits.c`), each with the expected class; no wait of the program may be without a
//! class.
//!
//! *Why it does not depend on timing:* the program only ends its waits when all threads are asleep,
//! and have been for a while. So a thread's longest wait is the one it is named after, however busy
//! the machine is. What the machine does not permit is skipped, which is reported.
#![cfg(target_os = "linux")]

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use unhitch_analysis::{Analysis, Rules, Segment, State, WaitClass};
use unhitch_model::ThreadId;

const PROGRAM: &str = include_str!("wait_places/waits.c");

/// A wait: the name of its thread, its class, and whether it is unwanted.
const EXPECTED: &[(&str, WaitClass, bool)] = {
    use WaitClass::*;
    &[
        ("stopped", Stopped, true),
        ("ptraced", Stopped, true),
        ("pipe_write", Ipc, true),
        ("pipe_read", Ipc, false),
        ("fifo_open", Ipc, false),
        ("unix_send", Ipc, true),
        ("unix_dgram_send", Ipc, true),
        ("unix_recv", Ipc, false),
        ("unix_accept", Idle, false),
        ("unix_connect", Ipc, true),
        ("tcp_accept", Idle, false),
        ("tcp_recv", Network, false),
        ("tcp_send", Network, true),
        ("tcp_connect", Network, true),
        ("udp_recv", Network, false),
        ("netlink_recv", Ipc, false),
        ("flock", Lock, true),
        ("fcntl", Lock, true),
        ("semop", Condition, false),
        ("msgrcv", Ipc, false),
        ("msgsnd", Ipc, true),
        ("mq_receive", Ipc, false),
        ("mq_send", Ipc, true),
        ("eventfd_read", Ipc, false),
        ("eventfd_write", Ipc, true),
        ("epoll", Idle, false),
        ("poll", Idle, false),
        ("select", Idle, false),
        ("inotify", Idle, false),
        ("signalfd", Idle, false),
        ("timerfd", Idle, false),
        ("sigwait", Idle, false),
        ("pause", Idle, false),
        ("tty_read", Idle, false),
        ("tty_write", Ipc, true),
        ("nanosleep", Timer, false),
        ("futex", Condition, false),
        ("vfork", Process, false),
        ("waitpid", Process, false),
        ("uffd_read", Idle, false),
        ("userfault", Memory, true),
        ("fuse_server", Idle, false),
        ("fuse_client", FileSystem, true),
        ("fanotify_read", Idle, false),
        ("fanotify_open", Ipc, true),
        ("io_uring", Idle, false),
        ("aio", Idle, false),
        ("membarrier", KernelWork, false),
    ]
};

/// Prints past the test harness, which hides the output of passing tests.
fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

#[test]
fn live_waits_at_the_kernels_wait_places_have_their_classes() {
    let test = "live_waits_at_the_kernels_wait_places_have_their_classes";
    let folder = tempfile::tempdir().unwrap();
    let recording = match record(folder.path()) {
        Ok(recording) => recording,
        Err(reason) => return report(&format!("SKIPPED {test}: {reason}")),
    };
    let skipped = recording.output.lines().filter(|line| line.starts_with("SKIPPED "));
    skipped.for_each(|line| report(&format!("{test}: {line}")));
    assert!(recording.output.contains("DONE"), "the program did not finish: {}", recording.output);

    let trace = unhitch_formats::open(&recording.trace).unwrap();
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let mut wrong = Vec::new();
    for (name, class, unwanted) in EXPECTED {
        if recording.is_skipped(name) {
            continue;
        }
        let Some(longest) = longest_wait(&analysis, recording.tid(name)) else {
            wrong.push(format!("{name}: no wait of it was recorded"));
            continue;
        };
        let stack = longest.wait_stack(&trace);
        if stack.is_empty() {
            report(&format!("{test}: {name}: the kernel did not report where it waited"));
            continue;
        }
        let found = (
            unhitch_analysis::explain::class_of(&analysis, &longest),
            analysis.stacks.is_unwanted(stack),
        );
        if found != (*class, *unwanted) {
            let names = trace.stack_names(stack);
            wrong.push(format!("{name}: {found:?}, not {:?}: {names:?}", (class, unwanted)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unclassified = own_unclassified_waits(&analysis);
    assert!(unclassified.is_empty(), "waits without a class: {unclassified:?}");
}

/// The recorded program: what it and the recorder printed, and the recording.
struct Recording {
    output: String,
    trace: PathBuf,
}

impl Recording {
    /// The program could not make this wait.
    fn is_skipped(&self, name: &str) -> bool {
        let line = format!("SKIPPED {name}:");
        self.output.lines().any(|printed| printed.starts_with(&line))
    }

    /// The thread that made this wait.
    fn tid(&self, name: &str) -> Option<u32> {
        let tid = |line: &str| {
            line.strip_prefix("WAITED ")?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
        };
        self.output.lines().find_map(tid)
    }
}

/// Compiles the program and records it; if this machine does not permit that, returns why.
fn record(folder: &Path) -> Result<Recording, String> {
    let [source, program, trace] =
        ["waits.c", "waits", "waits.hitch"].map(|name| folder.join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiler = Command::new("cc")
        .args(["-O1", "-fno-omit-frame-pointer", "-pthread", "-o"])
        .arg(&program)
        .arg(&source)
        .output()
        .map_err(|error| format!("there is no C compiler: {error}"))?;
    if !compiler.status.success() {
        return Err(String::from_utf8_lossy(&compiler.stderr).trim().to_owned());
    }
    let recorded = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["record", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(&program)
        .arg(folder)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&recorded.stdout).into_owned()
        + &String::from_utf8_lossy(&recorded.stderr);
    if !trace.exists() {
        return Err(output.replace('\n', " "));
    }
    Ok(Recording { output, trace })
}

/// The longest wait of a thread, except at its exit.
fn longest_wait(analysis: &Analysis<'_>, tid: Option<u32>) -> Option<Segment> {
    let trace = analysis.trace;
    let is_wait = |segment: &Segment| {
        matches!(segment.state, State::Sleeping(_))
            && !analysis.stacks.exits(segment.wait_stack(trace))
    };
    let threads = trace.threads.iter().filter(|(_, thread)| Some(thread.tid) == tid);
    threads
        .flat_map(|(id, _)| analysis.segments(id, analysis.timeline.window()))
        .filter(is_wait)
        .max_by_key(|segment| segment.window.duration_ns())
}

/// The stacks of the program's waits that have no class.
fn own_unclassified_waits(analysis: &Analysis<'_>) -> Vec<Vec<String>> {
    let trace = analysis.trace;
    let is_own = |thread: ThreadId| {
        let leader = trace.threads.process_of(thread).leader;
        let mut names = trace.threads.get(leader).names.iter().map(|(_, name)| trace.name(*name));
        names.any(|name| name == "wait_places")
    };
    unhitch_analysis::unclassified_waits(analysis)
        .into_iter()
        .filter(|waits| !waits.stack.is_empty() && is_own(waits.most))
        .map(|waits| trace.stack_names(waits.stack).iter().map(|name| name.to_string()).collect())
        .collect()
}
