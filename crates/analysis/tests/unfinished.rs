//! Whom a thread waits for whose wait has not ended when the recording does.

use crate::scene::Scene;
use TaskState::{Runnable, Sleeping, Stopped};
use unhitch_analysis::answer::text_for;
use unhitch_analysis::explain::explain;
use unhitch_analysis::patterns::Pattern;
use unhitch_analysis::{Analysis, Explanation, Query, Rules, Stall, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const NONE: StackId = StackId::EMPTY;
const END: u64 = 1_000 * MS;

const WAIT4: [&str; 6] = ["main", "run", "wait4", "|", "do_wait", "schedule"];
const PIPE: [&str; 6] = ["main", "read", "|", "anon_pipe_read", "pipe_read", "schedule"];
const JOB: [&str; 5] = ["main", "submit", "pthread_cond_wait", "|", "futex_wait"];

/// What `victim` is doing at the end.
fn present(trace: &Trace, victim: ThreadId) -> (Stall, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let query = Query { victims: vec![victim], in_progress: true, ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    (stalls.into_iter().next().unwrap_or_else(|| panic!("no answer: {text}")), text)
}

fn finish(scene: Scene) -> Trace {
    let mut trace = scene.finish(4, END);
    trace.meta.system = System::Linux;
    trace
}

/// `thread` leaves its CPU at `at` for good, after it came on at the beginning.
fn leaves(scene: &mut Scene, thread: ThreadId, cpu: u16, at: u64, stack: &[&str]) {
    let stack = scene.stack(stack);
    scene.switch(MS, cpu, IDLE, Runnable, thread, NONE);
    scene.switch(at, cpu, thread, Sleeping, IDLE, stack);
}

fn set_parent(trace: &mut Trace, child: ThreadId, parent: u32) {
    let process = trace.threads.get(child).process;
    trace.threads.process_mut(process).unwrap().parent_pid = Some(parent);
}

/// "sh" waits for its children from 100 ms on: "sort" reads from a pipe, and "perl" computes.
fn pipeline() -> (Trace, [ThreadId; 3]) {
    let mut scene = Scene::default();
    let threads @ [shell, sort, perl] =
        [(100, "sh"), (200, "sort"), (300, "perl")].map(|(pid, name)| scene.thread(pid, pid, name));
    leaves(&mut scene, shell, 0, 100 * MS, &WAIT4);
    leaves(&mut scene, sort, 1, 50 * MS, &PIPE);
    scene.switch(MS, 2, IDLE, Runnable, perl, NONE);
    let mut trace = finish(scene);
    for child in [sort, perl] {
        set_parent(&mut trace, child, 100);
    }
    (trace, threads)
}

#[test]
fn who_waits_for_its_children_waits_for_the_one_that_works() {
    let (trace, [shell, _, perl]) = pipeline();
    let (stall, text) = present(&trace, shell);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::CpuBound, Some(perl)), "{text}");
    for words in [
        "the computation of perl 300, for whose end it waited.",
        "waits (process) for perl 300, which has not ended yet",
        "the recording ends before perl 300, for whose end sh 100 waits",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn regression_who_waits_for_another_child_is_not_the_one_that_works() {
    let (mut trace, [shell, sort, perl]) = pipeline();
    // That it waits for who works makes it work, too, in a sense.
    trace.has_all_holders = true;
    trace.holders = vec![Holder { inode: 7, process: perl, fd: 1, reads: false, writes: true }];
    let on = Descriptor { kind: DescriptorKind::Pipe, inode: 7, ..Descriptor::default() };
    trace.kept_waits = vec![KeptWait {
        thread: sort,
        time: Time::from_nanos(50 * MS * 1_000),
        syscall: Some(0),
        descriptor: Some(Box::new(on)),
        ..KeptWait::default()
    }];
    let (stall, text) = present(&trace, shell);
    assert_eq!(stall.finding.culprit, Some(perl), "{text}");
}

#[test]
fn the_system_call_says_for_which_process() {
    let (mut trace, [shell, sort, _]) = pipeline();
    trace.kept_waits = vec![KeptWait {
        thread: shell,
        time: Time::from_nanos(100 * MS * 1_000),
        syscall: Some(61),
        arguments: [200, 0],
        ..KeptWait::default()
    }];
    let (stall, text) = present(&trace, shell);
    assert_eq!(stall.explanation.hops.first().map(|hop| hop.by), Some(sort), "{text}");
}

#[test]
fn a_process_ends_by_the_thread_that_ended_it() {
    let mut scene = Scene::default();
    let shell = scene.thread(100, 100, "sh");
    let [node, helper] =
        [(200, "node"), (201, "helper")].map(|(tid, name)| scene.thread(200, tid, name));
    leaves(&mut scene, shell, 0, 100 * MS, &WAIT4);
    let rest = scene.stack(&["work", "sem_wait", "|", "futex_wait", "schedule"]);
    scene.switch(MS, 1, IDLE, Runnable, helper, NONE);
    scene.switch(2 * MS, 1, helper, Sleeping, IDLE, rest);
    scene.switch(MS, 2, IDLE, Runnable, node, NONE);
    let kill = scene.stack(&[
        "main",
        "exit_group",
        "|",
        "do_group_exit",
        "zap_other_threads",
        "signal_wake_up_state",
    ]);
    scene.wake(800 * MS, 2, node, helper, WakeFlags::default(), kill);
    scene.switch(801 * MS, 2, node, TaskState::Dead, IDLE, NONE);
    scene.switch(801 * MS, 1, IDLE, Runnable, helper, NONE);
    let exit = scene.stack(&["work", "|", "do_exit", "do_notify_parent", "try_to_wake_up"]);
    scene.wake(802 * MS, 1, helper, shell, WakeFlags::default(), exit);
    scene.switch(803 * MS, 1, helper, TaskState::Dead, IDLE, NONE);
    scene.switch(803 * MS, 0, IDLE, Runnable, shell, NONE);
    let trace = finish(scene);
    let analysis = Analysis::new(&trace, &Rules::default());
    let window =
        Some(Window::new(Time::from_nanos(100 * MS * 1_000), Time::from_nanos(803 * MS * 1_000)));
    let query = Query { victims: vec![shell], window, ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    assert_eq!(stalls[0].finding.culprit, Some(node), "{text}");
}

#[test]
fn who_gave_work_to_its_thread_waits_for_it() {
    let mut scene = Scene::default();
    let [main, worker, resting] = [(100, "main"), (101, "worker"), (102, "resting")]
        .map(|(tid, name)| scene.thread(100, tid, name));
    let signal = scene.stack(&["main", "submit", "|", "futex_wake", "try_to_wake_up"]);
    leaves(&mut scene, resting, 1, 50 * MS, &JOB);
    leaves(&mut scene, worker, 2, 50 * MS, &JOB);
    scene.wake(100 * MS, 0, main, worker, WakeFlags::default(), signal);
    leaves(&mut scene, main, 0, 101 * MS, &JOB);
    scene.switch(101 * MS, 2, IDLE, Runnable, worker, NONE);
    let trace = finish(scene);
    let (stall, text) = present(&trace, main);
    assert_eq!(stall.finding.culprit, Some(worker), "{text}");
    assert!(text.contains("inferred that it waits for worker 101"), "{text}");
    // Nobody was given any.
    let (stall, text) = present(&trace, resting);
    assert_eq!(stall.explanation.hops.first().map(|hop| hop.by), Some(worker), "{text}");
}

/// "cp" asks a file system that "drive" serves, which is stopped.
#[test]
fn a_file_system_of_a_program_waits_for_that_program() {
    let serve = ["main", "fuse_session_loop", "read", "|", "fuse_dev_do_read", "schedule"];
    let ask =
        ["main", "stat", "|", "fuse_do_getattr", "__fuse_simple_request", "request_wait_answer"];
    let mut scene = Scene::default();
    let [copy, drive] =
        [(100, "cp"), (200, "drive")].map(|(pid, name)| scene.thread(pid, pid, name));
    leaves(&mut scene, drive, 1, 10 * MS, &serve);
    let stop =
        scene.stack(&["main", "fuse_session_loop", "read", "|", "get_signal", "do_signal_stop"]);
    scene.switch(50 * MS, 1, IDLE, Runnable, drive, NONE);
    scene.switch(51 * MS, 1, drive, Stopped, IDLE, stop);
    leaves(&mut scene, copy, 0, 100 * MS, &ask);
    let (stall, text) = present(&finish(scene), copy);
    let hop = stall.explanation.hops.first().map(|hop| hop.by);
    assert_eq!((stall.finding.pattern, hop), (Pattern::Stopped, Some(drive)), "{text}");
    // Where nobody is known to serve it, it is no disk either.
    let mut scene = Scene::default();
    let copy = scene.thread(100, 100, "cp");
    leaves(&mut scene, copy, 0, 100 * MS, &ask);
    let (_, text) = present(&finish(scene), copy);
    assert!(text.contains("inferred: a program serves this file system (FUSE)"), "{text}");
}

/// A backend of PostgreSQL that waits for a row from 10 ms on, and two others that wait for commands. A
/// wake-up after half a second is no polling: PostgreSQL looks for deadlocks.
fn row_lock() -> (Trace, [ThreadId; 3]) {
    let mut scene = Scene::default();
    let threads @ [backend, first, second] =
        [100, 200, 300].map(|pid| scene.thread(pid, pid, "postgres"));
    let command =
        ["main", "PostgresMain", "pq_getbyte", "secure_read", "|", "do_epoll_wait", "schedule"];
    leaves(&mut scene, first, 1, 5 * MS, &command);
    leaves(&mut scene, second, 2, 6 * MS, &command);
    let wait = scene.stack(&[
        "main",
        "heap_delete",
        "XactLockTableWait",
        "ProcSleep",
        "postgres!WaitLatch",
        "|",
        "do_epoll_wait",
        "schedule",
    ]);
    let timer = scene.stack(&["|", "asm_common_interrupt", "it_real_fn", "try_to_wake_up"]);
    scene.switch(MS, 0, IDLE, Runnable, backend, NONE);
    scene.switch(10 * MS, 0, backend, Sleeping, IDLE, wait);
    scene.wake(500 * MS, 0, IDLE, backend, WakeFlags::HARDIRQ, timer);
    scene.switch(500 * MS, 0, IDLE, Runnable, backend, NONE);
    scene.switch(501 * MS, 0, backend, Sleeping, IDLE, wait);
    (finish(scene), threads)
}

#[test]
fn a_lock_that_nobody_released_is_named() {
    let (trace, [backend, ..]) = row_lock();
    let (stall, text) = present(&trace, backend);
    assert_eq!(stall.finding.pattern, Pattern::DeadEnd, "{text}");
    let cause = "CAUSE     a row lock of PostgreSQL that was not released before the recording ended; who has it";
    assert!(
        text.contains(cause) && text.contains("It waited for a row lock of PostgreSQL in"),
        "{text}"
    );
}

#[test]
fn the_only_session_that_is_idle_in_a_transaction_holds_the_row() {
    let (mut trace, [backend, first, second]) = row_lock();
    let mut title = |thread: ThreadId, words: &str| {
        let process = trace.threads.get(thread).process;
        let title = trace.strings.intern(&format!("postgres: alice shop [local] {words}"));
        trace.threads.process_mut(process).unwrap().command_line = title;
        present(&trace, backend)
    };
    title(first, "idle");
    let (stall, text) = title(second, "idle in transaction");
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::LongHold, Some(second)),
        "{text}"
    );
    let words =
        "postgres 300 is the only session that was idle in a transaction then, by its title";
    assert!(text.contains(words) && text.contains("still did when the recording ended"), "{text}");
    assert!(text.contains("kept the row lock while it was idle in its transaction."), "{text}");
    let (stall, text) = title(first, "idle in transaction (aborted)");
    assert_eq!(stall.finding.culprit, None, "which of two is not known: {text}");
}

/// "loop" asks "server" at 100 ms; its own timer wakes it at 500 ms, and the answer at 900 ms.
#[test]
fn a_timer_of_an_event_loop_is_no_answer() {
    let mut scene = Scene::default();
    let [node, server] =
        [(100, "loop"), (200, "server")].map(|(pid, name)| scene.thread(pid, pid, name));
    let poll =
        scene.stack(&["main", "uv_run", "uv__io_poll", "epoll_pwait", "|", "ep_poll", "schedule"]);
    let request = scene.stack(&["main", "accept", "|", "inet_csk_accept", "schedule"]);
    let send =
        scene.stack(&["main", "write", "|", "tcp_sendmsg", "sock_def_readable", "try_to_wake_up"]);
    let timer = scene.stack(&["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    scene.switch(MS, 0, IDLE, Runnable, node, NONE);
    scene.switch(MS, 1, IDLE, Runnable, server, NONE);
    scene.switch(10 * MS, 1, server, Sleeping, IDLE, request);
    scene.wake(99 * MS, 0, node, server, WakeFlags::default(), send);
    scene.switch(100 * MS, 0, node, Sleeping, IDLE, poll);
    scene.switch(100 * MS, 1, IDLE, Runnable, server, NONE);
    scene.wake(500 * MS, 0, IDLE, node, WakeFlags::HARDIRQ, timer);
    scene.switch(500 * MS, 0, IDLE, Runnable, node, NONE);
    scene.switch(505 * MS, 0, node, Sleeping, IDLE, poll);
    scene.wake(900 * MS, 1, server, node, WakeFlags::default(), send);
    scene.switch(900 * MS, 0, IDLE, Runnable, node, NONE);
    let trace = finish(scene);
    let analysis = Analysis::new(&trace, &Rules::default());
    let window =
        Some(Window::new(Time::from_nanos(100 * MS * 1_000), Time::from_nanos(900 * MS * 1_000)));
    let query = Query { victims: vec![node], window, ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    assert_eq!(stalls[0].finding.culprit, Some(server), "{text}");
}

/// "login" waits for "sh", which begins at 90 ms and waits for its children.
#[test]
fn a_command_that_has_not_ended_is_a_stall_if_others_keep_it() {
    let mut scene = Scene::default();
    let [login, shell, perl] =
        [(50, "login"), (100, "sh"), (300, "perl")].map(|(pid, name)| scene.thread(pid, pid, name));
    leaves(&mut scene, login, 3, 90 * MS, &WAIT4);
    let wait = scene.stack(&WAIT4);
    scene.switch(91 * MS, 0, IDLE, Runnable, shell, NONE);
    scene.switch(100 * MS, 0, shell, Sleeping, IDLE, wait);
    scene.switch(99 * MS, 2, IDLE, Runnable, perl, NONE);
    let mut trace = finish(scene);
    for (child, parent, ms) in [(shell, 50, 90), (perl, 100, 98)] {
        set_parent(&mut trace, child, parent);
        let born = Time::from_nanos(ms * MS * 1_000);
        trace.threads.get_mut(child).unwrap().start = Some(born);
    }
    let analysis = Analysis::new(&trace, &Rules::default());
    let stalls = diagnose(&analysis, &Query::default());
    let found = stalls.iter().map(|stall| (stall.candidate.victim, stall.finding.culprit));
    assert_eq!(found.collect::<Vec<_>>(), [(shell, Some(perl))]);
}

/// "client" asks "gateway" at 100 ms, which asks "bank" at once, and that one does not answer. Then
/// another client of the gateway gets an answer every 20 ms.
fn gateway() -> (Trace, [ThreadId; 4]) {
    let mut scene = Scene::default();
    let threads @ [client, gateway, bank, other] =
        [(100, "client"), (200, "gateway"), (300, "bank"), (400, "other")]
            .map(|(pid, name)| scene.thread(pid, pid, name));
    let receive = ["main", "recv", "|", "tcp_recvmsg", "sk_wait_data", "schedule"];
    let poll = scene.stack(&[
        "main",
        "uv_run",
        "epoll_pwait",
        "|",
        "do_epoll_wait",
        "ep_poll",
        "schedule",
    ]);
    let send =
        scene.stack(&["main", "write", "|", "tcp_sendmsg", "sock_def_readable", "try_to_wake_up"]);
    let rest = scene.stack(&["main", "rest", "nanosleep", "|", "do_nanosleep", "schedule"]);
    let balance = ["main", "find_balance", "nanosleep", "|", "do_nanosleep", "schedule"];
    let timer = scene.stack(&["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    let receives = scene.stack(&receive);
    scene.switch(MS, 1, IDLE, Runnable, gateway, NONE);
    scene.switch(2 * MS, 1, gateway, Sleeping, IDLE, poll);
    scene.switch(MS, 2, IDLE, Runnable, bank, NONE);
    scene.switch(2 * MS, 2, bank, Sleeping, IDLE, receives);
    scene.switch(MS, 3, IDLE, Runnable, other, NONE);
    scene.switch(2 * MS, 3, other, Sleeping, IDLE, rest);
    scene.switch(MS, 0, IDLE, Runnable, client, NONE);
    scene.wake(100 * MS, 0, client, gateway, WakeFlags::default(), send);
    scene.switch(100 * MS + 100, 0, client, Sleeping, IDLE, receives);
    scene.switch(100 * MS + 100, 1, IDLE, Runnable, gateway, NONE);
    scene.wake(100 * MS + 300, 1, gateway, bank, WakeFlags::default(), send);
    scene.switch(100 * MS + 400, 1, gateway, Sleeping, IDLE, poll);
    scene.switch(100 * MS + 400, 2, IDLE, Runnable, bank, NONE);
    let balance = scene.stack(&balance);
    scene.switch(101 * MS, 2, bank, Sleeping, IDLE, balance);
    for at in (120..1_000).step_by(20).map(|ms| ms * MS) {
        scene.wake(at, 3, IDLE, other, WakeFlags::HARDIRQ, timer);
        scene.switch(at + 10, 3, IDLE, Runnable, other, NONE);
        scene.wake(at + 100, 3, other, gateway, WakeFlags::default(), send);
        scene.switch(at + 110, 3, other, Sleeping, IDLE, receives);
        scene.switch(at + 110, 1, IDLE, Runnable, gateway, NONE);
        scene.wake(at + 200, 1, gateway, other, WakeFlags::default(), send);
        scene.switch(at + 210, 1, gateway, Sleeping, IDLE, poll);
        scene.switch(at + 210, 3, IDLE, Runnable, other, NONE);
        scene.switch(at + 300, 3, other, Sleeping, IDLE, rest);
    }
    let mut trace = finish(scene);
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let holder = |inode, process| Holder { inode, process, fd: 5, reads: true, writes: true };
    let of_gateway = process(gateway);
    trace.loop_peers = vec![(of_gateway, 2)];
    trace.holders = vec![holder(1, gateway), holder(2, bank), holder(3, other)];
    let on = Descriptor {
        kind: DescriptorKind::InternetSocket,
        inode: 9,
        peer_inode: Some(1),
        ..Descriptor::default()
    };
    trace.kept_waits = vec![KeptWait {
        thread: client,
        time: Time::from_nanos((100 * MS + 100) * 1_000),
        syscall: Some(45),
        descriptor: Some(Box::new(on)),
        ..KeptWait::default()
    }];
    (trace, threads)
}

#[test]
fn regression_an_event_loop_that_serves_others_waits_for_whom_it_asked() {
    let (mut trace, [client, gateway, bank, _]) = gateway();
    let until = |ms: u64| {
        let (from, to) = (100 * MS * 1_000, ms * MS * 1_000);
        Some(Window::new(Time::from_nanos(from), Time::from_nanos(to)))
    };
    let asked = |trace: &Trace, window| {
        let analysis = Analysis::new(trace, &Rules::default());
        let query = Query { victims: vec![client], window, ..Query::default() };
        let stalls = diagnose(&analysis, &query);
        let text = text_for(&analysis, &query, &stalls, 1);
        (stalls[0].finding.culprit, text)
    };
    // Also where the question is about a time before the loop's last sleep.
    for window in [None, until(1_000), until(955)] {
        let (culprit, text) = asked(&trace, window);
        assert_eq!(culprit, Some(bank), "{text}");
        let words = "gateway 200 waits (idle) for bank 300, which has not answered yet";
        assert!(text.contains("find_balance") && text.contains(words), "{text}");
    }
    let (stall, text) = present(&trace, client);
    assert_eq!(stall.finding.culprit, Some(bank), "{text}");

    // Of two that are at work, neither is known to be the one.
    let of_gateway = trace.loop_peers[0].0;
    trace.loop_peers.push((of_gateway, 3));
    let (culprit, text) = asked(&trace, until(1_000));
    assert_eq!(culprit, Some(gateway), "{text}");
    trace.loop_peers.clear();
    let (culprit, text) = asked(&trace, until(1_000));
    assert_eq!(culprit, Some(gateway), "{text}");
}

/// Twelve processes, of which each has asked each other: following every path between them would take days.
#[test]
fn regression_event_loops_that_all_ask_each_other_are_followed_once() {
    let mut scene = Scene::default();
    let all: Vec<ThreadId> =
        (1..13).map(|pid| scene.thread(pid * 100, pid * 100, "peer")).collect();
    let poll = ["main", "serve", "epoll_wait", "|", "ep_poll", "do_epoll_wait", "schedule"];
    let (poll, send) =
        (scene.stack(&poll), scene.stack(&["main", "send", "|", "unix_stream_sendmsg"]));
    for (number, &one) in (0..).zip(&all) {
        scene.switch(MS + number * 10, 0, IDLE, Runnable, one, NONE);
        scene.switch(MS + number * 10 + 5, 0, one, Sleeping, IDLE, poll);
    }
    for (asker, &one) in (1..).zip(&all) {
        let at = 100 * MS * asker;
        scene.wake(at, 3, IDLE, one, WakeFlags::HARDIRQ, NONE);
        scene.switch(at, 0, IDLE, Runnable, one, NONE);
        for (number, &other) in (1..).zip(all.iter().filter(|other| **other != one)) {
            scene.wake(at + number * 10, 0, one, other, WakeFlags::default(), send);
            scene.switch(at + number * 10, 1, IDLE, Runnable, other, NONE);
            scene.switch(at + number * 10 + 5, 1, other, Sleeping, IDLE, poll);
        }
        scene.switch(at + 500, 0, one, Sleeping, IDLE, poll);
    }
    let mut trace = scene.finish(4, 3_000 * MS);
    let process = |thread: ThreadId| trace.threads.get(thread).process;
    let pairs = || all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other)));
    let inode = |thread: ThreadId| u64::from(process(thread).0) + 1;
    let peers = pairs().filter(|(one, other)| one != other);
    trace.loop_peers = peers.map(|(one, other)| (process(one), inode(other))).collect();
    let holder = |&process: &ThreadId| Holder {
        inode: inode(process),
        process,
        fd: 5,
        reads: true,
        writes: true,
    };
    trace.holders = all.iter().map(holder).collect();
    let analysis = Analysis::new(&trace, &Rules::default());
    let query = Query { victims: all.clone(), ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    assert!(stalls.iter().all(|stall| stall.finding.culprit.is_none()), "nobody works");
}

/// Fifty thousand losses cut the waits of a shell and of its child into as many pieces, which are each one
/// wait all the same.
#[test]
fn a_wait_that_losses_cut_is_one() {
    const LOSSES: u64 = 50_000;
    let (mut trace, [shell, _, perl]) = pipeline();
    trace.losses = (0..LOSSES)
        .map(|n| {
            let start = Time::from_nanos(110_000_000 + n * 17_000);
            Loss { cpu: 3, window: Window::new(start, start.plus(1_000)), events: 1 }
        })
        .collect();
    let analysis = Analysis::new(&trace, &Rules::default());
    let window = Window::new(Time::from_nanos(100_000_000), analysis.timeline.window().end);
    let Explanation { pieces, hops, .. } = explain(&analysis, shell, window);
    assert!(hops.iter().all(|hop| hop.by == perl && !hop.is_timed()), "{hops:?}");
    let of_perl = pieces.iter().filter(|piece| piece.thread == perl);
    let ns: u64 = of_perl.map(|piece| piece.window.duration_ns()).sum();
    assert_eq!(ns, window.duration_ns() - LOSSES * 1_000);
    let (stall, text) = present(&trace, shell);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::CpuBound, Some(perl)), "{text}");
}
