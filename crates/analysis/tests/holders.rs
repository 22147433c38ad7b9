//! Who had what a thread waited for, where nobody handed it over in so many words: a session that
//! is idle in its transaction, a thread that ran on, a process for which another one polls.

use crate::scene::{Scene, judged};
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::{Analysis, Evidence, Pattern, Query, Rules};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const NONE: StackId = StackId::EMPTY;

/// The stack of a timer's interrupt that ran `function`.
fn timer(scene: &mut Scene, function: &str) -> StackId {
    let entry = "asm_sysvec_apic_timer_interrupt";
    scene.stack(&["|", entry, "hrtimer_interrupt", function, "try_to_wake_up"])
}

/// A session waits for a row lock, and looks for deadlocks after a second, for which it needs a page
/// from the disk. The holder is idle until its client, which sleeps, sends the next command.
#[test]
fn who_is_idle_with_a_lock_is_named_and_not_the_waiters_alarm() {
    let mut scene = Scene::default();
    let waiter = scene.thread(100, 100, "postgres");
    let holder = scene.thread(200, 200, "postgres");
    let client = scene.thread(300, 300, "client");
    let wait = scene.stack(&[
        "PostgresMain",
        "heap_update",
        "XactLockTableWait",
        "LockAcquireExtended",
        "ProcSleep",
        "postgres!WaitLatch",
        "|",
        "do_epoll_wait",
        "schedule",
    ]);
    let fault = scene.stack(&["ProcSleep", "|", "filemap_fault", "io_schedule", "schedule"]);
    let command = scene.stack(&[
        "PostgresMain",
        "pq_getbyte",
        "postgres!secure_read",
        "|",
        "do_epoll_wait",
        "schedule",
    ]);
    let think = scene.stack(&["main", "think", "|", "do_nanosleep", "schedule"]);
    let (alarm, timeout) = (timer(&mut scene, "it_real_fn"), timer(&mut scene, "hrtimer_wakeup"));
    let disk = scene.stack(&["|", "common_interrupt", "folio_wake_bit", "try_to_wake_up"]);
    let latch =
        scene.stack(&["PostgresMain", "ProcWakeup", "|", "kill_pid_info", "try_to_wake_up"]);
    let send = scene.stack(&["main", "commit", "|", "unix_stream_sendmsg", "try_to_wake_up"]);
    scene.switch(10 * MS, 1, client, Sleeping, IDLE, think);
    scene.switch(10 * MS, 2, holder, Sleeping, IDLE, command);
    scene.switch(50 * MS, 0, waiter, Sleeping, IDLE, wait);
    scene.wake(1050 * MS, 0, IDLE, waiter, WakeFlags::HARDIRQ, alarm);
    scene.switch(1050 * MS + 10, 0, IDLE, Runnable, waiter, NONE);
    scene.switch(1050 * MS + 300, 0, waiter, Sleeping, IDLE, fault);
    scene.wake(1051 * MS, 0, IDLE, waiter, WakeFlags::HARDIRQ, disk);
    scene.switch(1051 * MS + 10, 0, IDLE, Runnable, waiter, NONE);
    scene.switch(1051 * MS + 400, 0, waiter, Sleeping, IDLE, wait);
    scene.wake(1200 * MS, 1, IDLE, client, WakeFlags::HARDIRQ, timeout);
    scene.switch(1200 * MS + 10, 1, IDLE, Runnable, client, NONE);
    scene.wake(1200 * MS + 50, 1, client, holder, WakeFlags::default(), send);
    scene.switch(1200 * MS + 60, 2, IDLE, Runnable, holder, NONE);
    scene.wake(1200 * MS + 90, 2, holder, waiter, WakeFlags::default(), latch);
    scene.switch(1200 * MS + 100, 0, IDLE, Runnable, waiter, NONE);
    let mut trace = scene.finish(3, 1300 * MS);
    let (stall, text) = judged(&trace);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::LongHold, Some(holder)), "{text}");
    assert_eq!((finding.function.as_str(), finding.evidence), ("pq_getbyte", Evidence::Inferred));
    insta::assert_snapshot!("idle_in_transaction", text);

    // For a process that it started, the holder is not idle: that one works for it.
    let process = trace.threads.get(client).process;
    trace.threads.process_mut(process).unwrap().parent_pid = Some(200);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.culprit, stall.finding.function.as_str()),
        (Some(client), "think"),
        "{text}"
    );
}

/// All Java threads but one have stopped for a safepoint, and the VM thread looks every millisecond.
/// The compiler's thread runs, too, but nobody has to wait for that one.
#[test]
fn a_safepoint_is_held_up_by_the_thread_that_ran_on() {
    let mut scene = Scene::default();
    let stopped = scene.thread(100, 100, "heartbeat");
    let vm = scene.thread(100, 101, "VM Thread");
    let runner = scene.thread(100, 102, "worker");
    let compiler = scene.thread(100, 103, "C2 CompilerThre");
    let barrier = scene.stack(&[
        "Hangs.beat",
        "SafepointSynchronize::block",
        "LinuxWaitBarrier::wait",
        "|",
        "futex_wait",
        "schedule",
    ]);
    let look = scene.stack(&[
        "VMThread::run",
        "SafepointSynchronize::begin",
        "SafepointSynchronize::synchronize_threads",
        "|",
        "do_nanosleep",
        "schedule",
    ]);
    let disarm = scene.stack(&[
        "VMThread::run",
        "LinuxWaitBarrier::disarm",
        "|",
        "futex_wake",
        "try_to_wake_up",
    ]);
    let sum = scene.stack(&["Hangs.run", "Hangs.sumWithoutSafepoint"]);
    let timeout = timer(&mut scene, "hrtimer_wakeup");
    scene.switch(50 * MS, 2, IDLE, Runnable, runner, NONE);
    scene.switch(50 * MS, 3, IDLE, Runnable, compiler, NONE);
    scene.switch(100 * MS, 0, stopped, Sleeping, IDLE, barrier);
    for round in 0..400 {
        let (from, to) = ((100 + round) * MS + 100, (101 + round) * MS);
        scene.switch(from, 1, vm, Sleeping, IDLE, look);
        scene.wake(to, 1, IDLE, vm, WakeFlags::HARDIRQ, timeout);
        scene.switch(to + 10, 1, IDLE, Runnable, vm, NONE);
        scene.sample(from, 2, runner, sum);
    }
    scene.switch(500 * MS, 2, runner, Sleeping, IDLE, barrier);
    scene.wake(501 * MS, 1, vm, stopped, WakeFlags::default(), disarm);
    scene.wake(501 * MS + 5, 1, vm, runner, WakeFlags::default(), disarm);
    scene.switch(501 * MS + 10, 0, IDLE, Runnable, stopped, NONE);
    scene.switch(501 * MS + 20, 2, IDLE, Runnable, runner, NONE);
    let trace = scene.finish(4, 600 * MS);
    let (stall, text) = judged(&trace);
    let finding = &stall.finding;
    assert_eq!(finding.culprit, Some(runner), "{text}");
    assert_eq!(finding.function, "Hangs.sumWithoutSafepoint", "{text}");
    assert_eq!(finding.evidence, Evidence::Inferred, "nobody was woken by it: {text}");
    insta::assert_snapshot!("safepoint", text);
}

/// A process polls for the lock on a database's file, and gets it after the fifth sleep, while
/// `others` of the processes that use the same library ran.
fn polls(others: usize) -> (Trace, Vec<ThreadId>) {
    let mut scene = Scene::default();
    let waiter = scene.thread(100, 100, "writer");
    let holders: Vec<ThreadId> =
        (0..others as u32).map(|n| scene.thread(200 + n, 200 + n, "holder")).collect();
    let poll = scene.stack(&[
        "main",
        "sqlite3_step",
        "sqlite3InvokeBusyHandler",
        "|",
        "do_nanosleep",
        "schedule",
    ]);
    let think = scene.stack(&["main", "think", "|", "do_nanosleep", "schedule"]);
    let timeout = timer(&mut scene, "hrtimer_wakeup");
    let module = scene.trace.stacks.frame(scene.trace.stacks.user_frames(poll)[0]).unwrap().module;
    for pid in std::iter::once(100).chain((0..others as u32).map(|n| 200 + n)) {
        let (start_avma, path) = (0x1000, NameId::EMPTY);
        let mapping = Mapping {
            start_avma,
            end_avma: 0x2000,
            module_offset: 0,
            from: Time::ZERO,
            module,
            path,
        };
        scene.trace.address_spaces.map(pid, mapping);
    }
    scene.trace.address_spaces.sort();
    for (cpu, holder) in (1..).zip(&holders) {
        scene.switch(10 * MS, cpu, *holder, Sleeping, IDLE, think);
        scene.wake(950 * MS, cpu, IDLE, *holder, WakeFlags::HARDIRQ, timeout);
        scene.switch(950 * MS + 10, cpu, IDLE, Runnable, *holder, NONE);
        scene.switch(951 * MS, cpu, *holder, Sleeping, IDLE, think);
    }
    for round in 0..10 {
        let (from, to) = ((100 + round * 90) * MS + 100, (190 + round * 90) * MS);
        scene.switch(from, 0, waiter, Sleeping, IDLE, poll);
        scene.wake(to, 0, IDLE, waiter, WakeFlags::HARDIRQ, timeout);
        scene.switch(to + 10, 0, IDLE, Runnable, waiter, NONE);
    }
    (scene.finish(others as u16 + 1, 1100 * MS), holders)
}

#[test]
fn the_only_process_that_can_have_released_a_polled_lock_is_named_as_likely() {
    let (trace, holders) = polls(1);
    let (stall, text) = judged(&trace);
    let finding = &stall.finding;
    assert_eq!(
        (finding.culprit, finding.evidence),
        (Some(holders[0]), Evidence::Inferred),
        "{text}"
    );
    assert!(text.contains("seems to have had it"), "{text}");
    assert!(text.contains("polling for a lock on the database file"), "{text}");
}

#[test]
fn of_two_nobody_is_named() {
    let (trace, _) = polls(2);
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.culprit, None, "{text}");
}

/// The holder's side of the same, as the client of the process that polls sees it.
#[test]
fn a_server_that_polls_is_not_to_blame_for_its_own_timer() {
    let mut scene = Scene::default();
    let client = scene.thread(50, 50, "client");
    let server = scene.thread(100, 100, "server");
    let ask = scene.stack(&["main", "ask", "|", "unix_stream_read_generic", "schedule"]);
    let reply = scene.stack(&["main", "reply", "|", "sock_def_readable", "try_to_wake_up"]);
    let poll = scene.stack(&[
        "main",
        "save",
        "sqlite3_step",
        "sqlite3InvokeBusyHandler",
        "|",
        "do_nanosleep",
        "schedule",
    ]);
    let timeout = timer(&mut scene, "hrtimer_wakeup");
    scene.switch(90 * MS, 1, client, Sleeping, IDLE, ask);
    for round in 0..5 {
        let (from, to) = ((100 + round * 90) * MS + 100, (190 + round * 90) * MS);
        scene.switch(from, 0, server, Sleeping, IDLE, poll);
        scene.wake(to, 0, IDLE, server, WakeFlags::HARDIRQ, timeout);
        scene.switch(to + 10, 0, IDLE, Runnable, server, NONE);
    }
    scene.wake(551 * MS, 0, server, client, WakeFlags::default(), reply);
    scene.switch(551 * MS + 10, 1, IDLE, Runnable, client, NONE);
    let trace = scene.finish(2, 600 * MS);
    let analysis = Analysis::new(&trace, &Rules::default());
    let window = Window::new(Time::from_nanos(90 * MS * 1000), Time::from_nanos(551 * MS * 1000));
    let query = Query { victims: vec![client], window: Some(window), ..Query::default() };
    let stall = unhitch_analysis::diagnose(&analysis, &query).into_iter().next().expect("asked");
    let finding = &stall.finding;
    let cause = finding.cause.to_string();
    assert_eq!((finding.culprit, finding.function.as_str()), (None, "sqlite3_step"), "{cause}");
    assert!(cause.contains("polling for a lock on the database file"), "{cause}");
    assert_eq!(finding.evidence, Evidence::Inferred);
}

/// What is said of `victim` from 100 to 660 ms.
fn asked(trace: &Trace, victim: ThreadId) -> (unhitch_analysis::Finding, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let window = Some(Window::new(at(100), at(660)));
    let query = Query { victims: vec![victim], window, ..Query::default() };
    let stalls = unhitch_analysis::diagnose(&analysis, &query);
    let text = unhitch_analysis::answer::text_for(&analysis, &query, &stalls, 1);
    (stalls.into_iter().next().expect("asked").finding, text)
}

/// A thread waits until its timer expires, five times for 80 ms, each time with 20 ms of work behind it;
/// "stocktaker" ends the next of these waits, on the stack `end`.
fn timed_waits(end: &[&str]) -> (unhitch_analysis::Finding, String, [ThreadId; 2]) {
    let mut scene = Scene::default();
    let waiter = scene.thread(100, 100, "heartbeat");
    let other = scene.thread(100, 101, "stocktaker");
    let wait = scene.stack(&["main", "alter_ref", "|", "futex_wait", "schedule"]);
    let count = scene.stack(&["main", "count_shelves"]);
    let (timeout, end) = (timer(&mut scene, "hrtimer_wakeup"), scene.stack(end));
    scene.switch(0, 1, IDLE, Runnable, other, NONE);
    (0..65).for_each(|n| _ = scene.sample(n * 10 * MS, 1, other, count));
    scene.switch(0, 0, IDLE, Runnable, waiter, NONE);
    for round in 1..7 {
        let (from, to) = (round * 100 * MS, (round * 100 + 80) * MS);
        scene.switch(from, 0, waiter, Sleeping, IDLE, wait);
        let woken = if round < 6 { to } else { 650 * MS };
        match round < 6 {
            true => scene.wake(woken, 0, IDLE, waiter, WakeFlags::HARDIRQ, timeout),
            false => scene.wake(woken, 1, other, waiter, WakeFlags::default(), end),
        };
        scene.switch(woken + 10, 0, IDLE, Runnable, waiter, NONE);
    }
    let (finding, text) = asked(&scene.finish(2, 700 * MS), waiter);
    (finding, text, [waiter, other])
}

#[test]
fn who_ended_the_last_of_several_timed_waits_is_whom_they_were_for() {
    let (finding, text, [_, other]) = timed_waits(&["main", "commit", "|", "futex_wake"]);
    assert_eq!((finding.pattern, finding.culprit), (Pattern::TimerSleep, Some(other)), "{text}");
    assert_eq!(
        (finding.function.as_str(), finding.evidence),
        ("count_shelves", Evidence::Inferred)
    );
    assert!(text.contains("which ended the last of these waits"), "{text}");
    // Who only interrupted it did not.
    for signal in [["kill_something_info", "complete_signal"], ["do_exit", "do_notify_parent"]] {
        let (finding, text, [waiter, _]) = timed_waits(&[&["main", "|"][..], &signal].concat());
        assert_eq!(
            (finding.pattern, finding.culprit),
            (Pattern::TimerSleep, Some(waiter)),
            "{text}"
        );
    }
}

/// Commands of one name: one looks every 40 ms whether it may go on, and `others` end in its last
/// sleep, which have other parents.
#[test]
fn who_polls_for_a_lock_file_waits_for_the_command_of_its_name_that_ended_then() {
    for others in [1, 2] {
        let mut scene = Scene::default();
        let poller = scene.thread(100, 100, "sem");
        let nap = scene.stack(&["main", "take_place", "|", "do_nanosleep", "schedule"]);
        let timeout = timer(&mut scene, "hrtimer_wakeup");
        let holders: Vec<ThreadId> =
            (0..others).map(|n| scene.thread(200 + n, 200 + n, "sem")).collect();
        for (cpu, holder) in (1..).zip(&holders) {
            scene.switch(0, cpu, IDLE, Runnable, *holder, NONE);
            scene.switch(640 * MS, cpu, *holder, TaskState::Dead, IDLE, NONE);
            let ended = Time::from_nanos(640 * MS * 1_000);
            scene.trace.threads.get_mut(*holder).unwrap().end = Some(ended);
        }
        scene.switch(0, 0, IDLE, Runnable, poller, NONE);
        for round in 0..14 {
            let from = (100 + round * 40) * MS;
            scene.switch(from, 0, poller, Sleeping, IDLE, nap);
            scene.wake(from + 39 * MS, 0, IDLE, poller, WakeFlags::HARDIRQ, timeout);
            scene.switch(from + 39 * MS + 5, 0, IDLE, Runnable, poller, NONE);
        }
        let mut trace = scene.finish(4, 700 * MS);
        let processes: Vec<ProcessId> = trace.threads.processes().map(|(id, _)| id).collect();
        for (number, process) in (0..).zip(processes) {
            trace.threads.process_mut(process).unwrap().parent_pid = Some(50 + number);
        }
        let (finding, text) = asked(&trace, poller);
        let expected = if others == 1 { holders[0] } else { poller };
        assert_eq!(
            (finding.culprit, finding.evidence),
            (Some(expected), Evidence::Inferred),
            "{text}"
        );
    }
}
