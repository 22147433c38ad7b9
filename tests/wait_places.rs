//! The wait rules on this machine's kernel: records waits at about fifty wait places of the kernel
//! (`wait_places/waits.c`), each with the expected class; no wait of the program may be without a
//! class.
//!
//! *Why it does not depend on timing:* the program only ends its waits when all threads are asleep,
//! and have been for a while. So a thread's longest wait is the one it is named after, however busy
//! the machine is. What the machine does not permit is skipped, which is reported.
#![cfg(target_os = "linux")]

use std::io::{Write, stderr};
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
fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

#[test]
fn live_waits_at_the_kernels_wait_places_have_their_classes() {
    let test = "live_waits_at_the_kernels_wait_places_have_their_classes";
    let folder = tempfile::tempdir().unwrap();
    let [source, program, trace] =
        ["waits.c", "waits", "waits.hitch"].map(|name| folder.path().join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiler = Command::new("cc")
        .args(["-O1", "-fno-omit-frame-pointer", "-pthread", "-o"])
        .arg(&program)
        .arg(&source)
        .output();
    match compiler {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return say(&format!(
                "SKIPPED {test}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        Err(error) => return say(&format!("SKIPPED {test}: there is no C compiler: {error}")),
    }
    let mut record = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    let recorded = record
        .args(["record", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(&program)
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&recorded.stdout).into_owned()
        + &String::from_utf8_lossy(&recorded.stderr);
    if !trace.exists() {
        return say(&format!("SKIPPED {test}: {}", said.replace('\n', " ")));
    }
    let skipped: Vec<&str> = said.lines().filter(|line| line.starts_with("SKIPPED ")).collect();
    skipped.iter().for_each(|line| say(&format!("{test}: {line}")));
    assert!(said.contains("DONE"), "the program did not come to its end: {said}");

    let trace = unhitch_formats::open(&trace).unwrap();
    let rules = Rules::default();
    let analysis = Analysis::new(&trace, &rules);
    let names = |thread: ThreadId| {
        trace.threads.get(thread).names.iter().map(|(_, name)| trace.name(*name))
    };
    let threads = || trace.threads.iter().map(|(id, _)| id);
    let mut wrong = Vec::new();
    for (name, class, unwanted) in EXPECTED {
        if skipped.iter().any(|line| line.starts_with(&format!("SKIPPED {name}:"))) {
            continue;
        }
        let tid = said.lines().find_map(|line| {
            line.strip_prefix("WAITED ")?
                .strip_prefix(*name)?
                .strip_prefix(' ')?
                .parse::<u32>()
                .ok()
        });
        // What it waited for at its exit does not matter.
        let is_wait = |segment: &Segment| {
            matches!(segment.state, State::Sleeping(_))
                && !analysis.stacks.exits(segment.wait_stack(&trace))
        };
        let sleeps = threads()
            .filter(|thread| Some(trace.threads.get(*thread).tid) == tid)
            .flat_map(|thread| {
                analysis.segments(thread, analysis.timeline.window()).into_iter().filter(is_wait)
            });
        let Some(longest) = sleeps.max_by_key(|segment| segment.window.duration_ns()) else {
            wrong.push(format!("{name}: no sleep of it was recorded"));
            continue;
        };
        let stack = longest.wait_stack(&trace);
        if stack.is_empty() {
            say(&format!("{test}: {name}: the kernel did not report where it waited"));
            continue;
        }
        let found = (
            unhitch_analysis::explain::class_of(&analysis, &longest),
            analysis.stacks.is_unwanted(stack),
        );
        if found != (*class, *unwanted) {
            wrong.push(format!(
                "{name}: {found:?}, not {:?}: {:?}",
                (class, unwanted),
                trace.stack_names(stack)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let own = |thread: ThreadId| {
        let process = trace.threads.process_of(thread).leader;
        names(process).any(|name| name == "wait_places")
    };
    let unclassified: Vec<Vec<String>> = unhitch_analysis::unclassified_waits(&analysis)
        .into_iter()
        .filter(|waits| !waits.stack.is_empty() && own(waits.most))
        .map(|waits| trace.stack_names(waits.stack).iter().map(|name| name.to_string()).collect())
        .collect();
    assert!(unclassified.is_empty(), "waits without a class: {unclassified:?}");
}
