//! Waits that go through the beginnings and the ends of processes.

use crate::scene::{Scene, stalls};
use TaskState::{Dead, Runnable, Sleeping};
use unhitch_analysis::answer::text_for;
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::stalls::descendants;
use unhitch_analysis::{Analysis, Query, Rules, Stall, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const NONE: StackId = StackId::EMPTY;
const SLEEP: [&str; 5] = ["main", "wait_for_turn", "|", "do_nanosleep", "schedule"];
const TIMER: [&str; 3] = ["|", "hrtimer_wakeup", "try_to_wake_up"];
const READ: [&str; 6] = ["main", "read", "|", "anon_pipe_read", "pipe_read", "schedule"];
const WRITE: [&str; 5] = ["main", "write", "|", "anon_pipe_write", "try_to_wake_up"];
const WAIT4: [&str; 6] = ["main", "run", "wait4", "|", "do_wait", "schedule"];
const EXIT: [&str; 6] =
    ["_exit", "|", "do_exit", "do_notify_parent", "signal_wake_up_state", "wake"];

/// What kept `victim` from 100 ms to 1,100 ms.
fn asked(trace: &Trace, victim: ThreadId) -> (Stall, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let window = Window::new(Time::from_nanos(100_000_000), Time::from_nanos(1_100_000_000));
    let query = Query { victims: vec![victim], window: Some(window), ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    (stalls.into_iter().next().unwrap_or_else(|| panic!("no answer: {text}")), text)
}

fn process(trace: &mut Trace, thread: ThreadId) -> &mut Process {
    let process = trace.threads.get(thread).process;
    trace.threads.process_mut(process).unwrap()
}

fn born(trace: &mut Trace, child: ThreadId, parent: u32, us: u64) {
    process(trace, child).parent_pid = Some(parent);
    trace.threads.get_mut(child).unwrap().start = Some(Time::from_nanos(us * 1_000));
}

fn leaves(scene: &mut Scene, thread: ThreadId, cpu: u16, at: u64, stack: &[&str]) {
    let stack = scene.stack(stack);
    scene.switch(MS, cpu, IDLE, Runnable, thread, NONE);
    scene.switch(at, cpu, thread, Sleeping, IDLE, stack);
}

/// "git" reads what a script writes, the last command of which begins when the first has ended; with
/// git, the first and the last.
fn script_of_two_commands() -> (Trace, [ThreadId; 3]) {
    let mut scene = Scene::default();
    let names = [(100, "git"), (200, "script"), (300, "fetch"), (400, "cat")];
    let [git, script, fetch, cat] = names.map(|(pid, name)| scene.thread(pid, pid, name));
    let [exit, write, busy] =
        [&EXIT[..], &WRITE[..], &["main", "download"][..]].map(|names| scene.stack(names));
    leaves(&mut scene, git, 0, 100 * MS, &READ);
    leaves(&mut scene, script, 1, 90 * MS, &WAIT4);
    scene.switch(80 * MS, 2, IDLE, Runnable, fetch, NONE);
    (80..1_000).for_each(|ms| _ = scene.sample(ms * MS, 2, fetch, busy));
    scene.wake(1_000 * MS, 2, fetch, script, WakeFlags::default(), exit);
    scene.switch(1_000 * MS + 10, 2, fetch, Dead, IDLE, NONE);
    scene.switch(1_000 * MS + 20, 1, IDLE, Runnable, script, NONE);
    scene.switch(1_001 * MS + 20, 3, IDLE, Runnable, cat, NONE);
    let wait4 = scene.stack(&WAIT4);
    scene.switch(1_002 * MS, 1, script, Sleeping, IDLE, wait4);
    scene.wake(1_099 * MS, 3, cat, git, WakeFlags::default(), write);
    scene.switch(1_099 * MS + 10, 0, IDLE, Runnable, git, NONE);
    let mut trace = scene.finish(4, 1_200 * MS);
    born(&mut trace, fetch, 200, 0);
    born(&mut trace, cat, 200, 1_001 * MS);
    (trace, [git, fetch, cat])
}

#[test]
fn regression_until_a_process_is_born_who_started_it_is_waited_for() {
    let (mut trace, [git, fetch, _]) = script_of_two_commands();
    trace.threads.get_mut(fetch).unwrap().start = None;
    let (stall, text) = asked(&trace, git);
    assert_eq!((stall.finding.culprit, stall.finding.function.as_str()), (Some(fetch), "download"));
    assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
    let words = "waited (ipc) until script 200 had started cat 400, which woke it";
    assert!(text.contains(words), "{text}");
    let sum: u64 = stall.explanation.pieces.iter().map(|piece| piece.window.duration_ns()).sum();
    assert_eq!(sum, 1_000_000_000, "{text}");
}

#[test]
fn a_culprit_of_another_service_is_told_with_its_control_group() {
    let (mut trace, [git, fetch, _]) = script_of_two_commands();
    let group = |path: &str| ControlGroup { hierarchy: "unified".into(), path: path.into() };
    trace.machine.groups = ["/", "/user", "/system/mirror.service"].map(group).to_vec();
    let script = trace.threads.process_of(fetch).parent_pid.unwrap();
    let script = trace.threads.at(script, Time::MAX).unwrap();
    // The group of git and of the script, from which its commands inherit theirs.
    let mut told = |of_git, of_script| {
        let members =
            [(git, of_git), (script, of_script)].map(|(id, group)| (id, vec![GroupId(group)]));
        trace.machine.members = members.into_iter().collect();
        let (stall, text) = asked(&trace, git);
        assert_eq!(stall.finding.culprit, Some(fetch));
        text.lines().find_map(|line| Some(line.strip_prefix("GROUPS")?.trim().to_owned()))
    };
    let both = "fetch 300 is in /system/mirror.service, git 100 in /user.";
    assert_eq!(told(1, 2).as_deref(), Some(both));
    let of_none = "fetch 300 is in /system/mirror.service.";
    assert_eq!(told(0, 2).as_deref(), Some(of_none));
    assert_eq!([told(1, 1), told(1, 0)], [None, None], "the same, or none");

    // Whoever owns a group may name it as they like, to forge lines of an answer.
    trace.machine.groups[2].path = "/mine\nCAUSE     root\u{1b}[2J".to_owned();
    let script = (script, vec![GroupId(2)]);
    trace.machine.members = [(git, vec![GroupId(1)]), script].into_iter().collect();
    let (_, text) = asked(&trace.for_text(), git);
    assert!(!text.contains("\nCAUSE     root") && !text.contains('\u{1b}'), "{text}");
}

/// A file system is frozen by one command and thawed by another, three seconds later: that one was
/// told to have held the lock all the time.
#[test]
fn regression_who_was_not_born_yet_held_no_lock() {
    let mut scene = Scene::default();
    let touch = scene.thread(100, 100, "touch");
    let thaw = scene.thread(200, 200, "fsfreeze");
    let frozen = ["main", "open", "|", "mnt_want_write", "__percpu_down_read", "percpu_rwsem_wait"];
    let release = scene.stack(&["ioctl", "|", "thaw_super", "percpu_up_write", "__wake_up"]);
    leaves(&mut scene, touch, 0, 100 * MS, &frozen);
    scene.switch(3_100 * MS, 1, IDLE, Runnable, thaw, NONE);
    scene.wake(3_102 * MS, 1, thaw, touch, WakeFlags::default(), release);
    scene.switch(3_102 * MS + 10, 0, IDLE, Runnable, touch, NONE);
    let mut trace = scene.finish(2, 3_200 * MS);
    born(&mut trace, thaw, 50, 3_100 * MS);
    let analysis = Analysis::new(&trace, &Rules::default());
    let query = Query { victims: vec![touch], ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    let (stall, text) = (&stalls[0], text_for(&analysis, &query, &stalls, 1));
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::DeadEnd, None), "{text}");
    assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
    for words in [
        "touch 100 waited for 3.000 s of 3.002 s; fsfreeze 200, which released the lock in the end, \
         did not exist yet.",
        "It waited for a lock of a frozen file system in",
        "a lock of a frozen file system; who had it before fsfreeze 200 was started is not known.",
        "`fsfreeze -u MOUNTPOINT` thaws it.",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let held = stall.explanation.pieces.iter().filter(|piece| piece.thread == thaw);
    let held: u64 = held.map(|piece| piece.window.duration_ns()).sum();
    assert!(held <= 2_000_000, "{text}");
}

/// A server that may have one child sleeps until that has ended, and then starts the next, which
/// answers the client. A heartbeat sleeps on, whichever of its children ends.
#[test]
fn a_sleep_that_the_end_of_a_child_cuts_short_is_a_wait_for_it() {
    for starts_next in [true, false] {
        let mut scene = Scene::default();
        let names = [(100, "client"), (200, "server"), (300, "old"), (400, "new")];
        let [client, server, old, new] = names.map(|(pid, name)| scene.thread(pid, pid, name));
        let [exit, write, sleep, busy] =
            [&EXIT[..], &WRITE, &SLEEP, &["main", "count_words"]].map(|names| scene.stack(names));
        leaves(&mut scene, client, 0, 100 * MS, &READ);
        leaves(&mut scene, server, 1, 100 * MS, &SLEEP);
        scene.switch(MS, 2, IDLE, Runnable, old, NONE);
        (80..1_000).for_each(|ms| _ = scene.sample(ms * MS, 2, old, busy));
        scene.wake(1_000 * MS, 2, old, server, WakeFlags::default(), exit);
        scene.switch(1_000 * MS + 10, 2, old, Dead, IDLE, NONE);
        scene.switch(1_000 * MS + 20, 1, IDLE, Runnable, server, NONE);
        scene.switch(1_001 * MS, 1, server, Sleeping, IDLE, sleep);
        let answers = match starts_next {
            true => new,
            false => {
                let timer = scene.stack(&TIMER);
                scene.wake(1_080 * MS, 1, IDLE, server, WakeFlags::HARDIRQ, timer);
                server
            }
        };
        scene.switch(1_090 * MS, 3, IDLE, Runnable, answers, NONE);
        scene.wake(1_099 * MS, 3, answers, client, WakeFlags::default(), write);
        scene.switch(1_099 * MS + 10, 0, IDLE, Runnable, client, NONE);
        let mut trace = scene.finish(4, 1_200 * MS);
        process(&mut trace, old).parent_pid = Some(200);
        if starts_next {
            born(&mut trace, new, 200, 1_000 * MS + 500);
        }
        let (stall, text) = asked(&trace, client);
        let culprit = stall.finding.culprit;
        match starts_next {
            true => assert_eq!(culprit, Some(old), "{text}"),
            false => assert_ne!(culprit, Some(old), "{text}"),
        }
    }
}

/// "editor" sleeps for 10 ms at a time until "xz" has ended: its child, or a process of its name and
/// parent.
#[test]
fn regression_who_polls_for_the_end_of_a_process_waits_for_it() {
    for (name, own_parent, parent, is_it) in
        [("xz", 1, 100, true), ("editor", 50, 50, true), ("xz", 50, 50, false)]
    {
        let mut scene = Scene::default();
        let editor = scene.thread(100, 100, "editor");
        let other = scene.thread(200, 200, name);
        let [sleep, timer, busy] =
            [&SLEEP[..], &TIMER, &["main", "compress"]].map(|names| scene.stack(names));
        scene.switch(90 * MS, 0, IDLE, Runnable, editor, NONE);
        scene.switch(102 * MS, 1, IDLE, Runnable, other, NONE);
        (103..1_095).for_each(|ms| _ = scene.sample(ms * MS, 1, other, busy));
        scene.switch(1_095 * MS, 1, other, Dead, IDLE, NONE);
        for round in 10..110 {
            scene.switch(round * 10 * MS, 0, editor, Sleeping, IDLE, sleep);
            scene.wake(round * 10 * MS + 9_900, 0, IDLE, editor, WakeFlags::HARDIRQ, timer);
            scene.switch(round * 10 * MS + 9_950, 0, IDLE, Runnable, editor, NONE);
        }
        scene.switch(1_112 * MS, 0, editor, Dead, IDLE, NONE);
        let mut trace = scene.finish(2, 1_200 * MS);
        process(&mut trace, editor).parent_pid = Some(own_parent);
        process(&mut trace, other).parent_pid = Some(parent);
        trace.threads.get_mut(other).unwrap().end = Some(Time::from_nanos(1_095_000_000));
        let (stall, text) = asked(&trace, editor);
        assert_eq!(stall.finding.pattern, Pattern::TimerSleep, "{text}");
        assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
        match is_it {
            true => assert_eq!(
                (stall.finding.culprit, stall.finding.function.as_str()),
                (Some(other), "compress"),
                "{text}"
            ),
            false => assert_ne!(stall.finding.culprit, Some(other), "{text}"),
        }
    }
}

/// The same, where its child waits for "server", which computes.
#[test]
fn regression_what_kept_a_process_whose_end_is_polled_for_is_followed() {
    let mut scene = Scene::default();
    let names = [(50, "shell"), (100, "editor"), (200, "fetch"), (300, "server")];
    let [_, editor, child, server] = names.map(|(pid, name)| scene.thread(pid, pid, name));
    let [sleep, timer, read, write, busy] =
        [&SLEEP[..], &TIMER, &READ, &WRITE, &["main", "render"]].map(|names| scene.stack(names));
    scene.switch(90 * MS, 0, IDLE, Runnable, editor, NONE);
    scene.switch(102 * MS, 1, IDLE, Runnable, child, NONE);
    scene.switch(103 * MS, 1, child, Sleeping, IDLE, read);
    scene.switch(104 * MS, 2, IDLE, Runnable, server, NONE);
    (105..1_094).for_each(|ms| _ = scene.sample(ms * MS, 2, server, busy));
    scene.wake(1_094 * MS, 2, server, child, WakeFlags::default(), write);
    scene.switch(1_094 * MS + 9, 1, IDLE, Runnable, child, NONE);
    scene.switch(1_095 * MS, 1, child, Dead, IDLE, NONE);
    for round in 10..110 {
        scene.switch(round * 10 * MS, 0, editor, Sleeping, IDLE, sleep);
        scene.wake(round * 10 * MS + 9_900, 0, IDLE, editor, WakeFlags::HARDIRQ, timer);
        scene.switch(round * 10 * MS + 9_950, 0, IDLE, Runnable, editor, NONE);
    }
    scene.switch(1_112 * MS, 0, editor, Dead, IDLE, NONE);
    let mut trace = scene.finish(3, 1_200 * MS);
    born(&mut trace, editor, 50, 90 * MS);
    process(&mut trace, child).parent_pid = Some(100);
    trace.threads.get_mut(child).unwrap().end = Some(Time::from_nanos(1_095_000_000));
    let (stall, text) = asked(&trace, editor);
    let finding = &stall.finding;
    assert_eq!((finding.culprit, &*finding.function), (Some(server), "render"), "{text}");
    assert_eq!(finding.evidence, Evidence::Inferred, "{text}");
    // A command that polls for what it started is found unasked.
    let of_editor = |stall: &Stall| stall.candidate.victim == editor;
    let found = stalls(&trace).into_iter().find(of_editor).expect("it is found");
    assert_eq!(found.finding.culprit, Some(server));
    let cause = "fetch 200 had not ended, for which it polled; what kept that one: the computation of server 300";
    assert!(text.contains(cause), "{text}");
}

/// A hundred thousand processes that each start the next, the last of which writes what "reader" waits for.
#[test]
fn whoever_started_whom_is_followed_through_any_number_of_processes() {
    const PROCESSES: u64 = 100_000;
    let mut scene = Scene::default();
    let reader = scene.thread(1, 1, "reader");
    let forks: Vec<ThreadId> =
        (100..).take(PROCESSES as usize).map(|pid| scene.thread(pid, pid, "fork")).collect();
    leaves(&mut scene, reader, 0, 100 * MS, &READ);
    let write = scene.stack(&WRITE);
    let birth = |n: u64| 100 * MS + 10 * (n + 1);
    let mut on = IDLE;
    for (n, fork) in (0..).zip(&forks) {
        scene.switch(birth(n), 1, on, if on == IDLE { Runnable } else { Dead }, *fork, NONE);
        on = *fork;
    }
    scene.wake(1_100 * MS + 5, 1, on, reader, WakeFlags::default(), write);
    scene.switch(1_100 * MS + 6, 0, IDLE, Runnable, reader, NONE);
    let mut trace = scene.finish(2, 1_200 * MS);
    for (n, fork) in (0..).zip(&forks) {
        born(&mut trace, *fork, 99 + n as u32, birth(n));
    }
    let (stall, _) = asked(&trace, reader);
    let explanation = &stall.explanation;
    assert_eq!(explanation.hops.len() as u64, PROCESSES);
    assert_eq!(descendants(&trace, 100).len() as u64, PROCESSES);
    let sum: u64 = explanation.pieces.iter().map(|piece| piece.window.duration_ns()).sum();
    assert_eq!(sum, 1_000_000_000);
}
