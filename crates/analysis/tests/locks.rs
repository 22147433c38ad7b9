//! Which waits are for the same lock, by the address of a kernel lock; and which sleeps are one
//! wait, where a waiter polls with a timer.

use crate::scene;
use crate::scene::{Desktop, judged};
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Rules, answer};
use unhitch_analysis::{Query, Stall};
use unhitch_model::{
    ContentionKind, Contentions, KeptWait, KeptWake, StackId, TaskState, ThreadId, Time, Trace,
    WakeFlags,
};

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const WRITE: [&str; 7] =
    ["main", "serve", "|", "vm_mmap_pgoff", "down_write", "rwsem_down_write_slowpath", "schedule"];
const READ: [&str; 7] = [
    "main",
    "serve",
    "|",
    "lock_mm_and_find_vma",
    "down_read",
    "rwsem_down_read_slowpath",
    "schedule",
];

/// Addresses of locks in the kernel.
const FIRST: u64 = 0xffff_8880_0000_1000;
const SECOND: u64 = 0xffff_8880_0000_2000;
const THIRD: u64 = 0xffff_8880_0000_7777;

/// The event loop waits in `WRITE` for a lock at FIRST from 100 to 600 ms, until "server" releases
/// it. The server itself had waited in `code` from 300 to 310 ms, for the lock at `lock_avma`
/// (where that was reported), which "writer" had.
fn server_that_waited(code: &[&str], lock_avma: Option<u64>) -> (Trace, [ThreadId; 2]) {
    let mut desktop = Desktop::new();
    let scene = &mut desktop.scene;
    let (server, writer) = (scene.thread(100, 300, "server"), scene.thread(100, 400, "writer"));
    let (wait, own_wait) = (scene.stack(&WRITE), scene.stack(code));
    let release = scene.stack(&[
        "main",
        "serve",
        "|",
        "vm_mmap_pgoff",
        "up_write",
        "rwsem_wake",
        "try_to_wake_up",
    ]);
    let busy = scene.stack(&["main", "serve", "sort_items"]);
    scene.switch(50 * MS, 1, IDLE, Runnable, server, StackId::EMPTY);
    scene.switch(51 * MS, 2, IDLE, Runnable, writer, StackId::EMPTY);
    scene.switch(300 * MS, 1, server, Sleeping, IDLE, own_wait);
    scene.wake(310 * MS, 2, writer, server, WakeFlags::default(), release);
    scene.switch(310 * MS, 1, IDLE, Runnable, server, StackId::EMPTY);
    scene.switch(100 * MS + 50, 0, desktop.ui, Sleeping, IDLE, wait);
    scene.wake(600 * MS, 1, server, desktop.ui, WakeFlags::default(), release);
    scene.switch(600 * MS + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
    for at in (100..600).step_by(5) {
        scene.sample(at * MS, 1, server, busy).sample(at * MS, 2, writer, busy);
    }
    let without_noise = |stack: &[&'static str]| stack[..stack.len() - 1].to_vec();
    let begun = scene.stack(&without_noise(&WRITE));
    scene.contention(100 * MS + 40, desktop.ui, ContentionKind::Begin, FIRST, begun);
    // The end of an unrecorded spin does not end this wait.
    scene.contention(100 * MS + 45, desktop.ui, ContentionKind::End, THIRD, StackId::EMPTY);
    scene.contention(600 * MS + 15, desktop.ui, ContentionKind::End, FIRST, StackId::EMPTY);
    if let Some(lock_avma) = lock_avma {
        let begun = scene.stack(&code[..code.len() - 1]);
        scene.contention(300 * MS - 5, server, ContentionKind::Begin, lock_avma, begun);
        scene.contention(310 * MS + 5, server, ContentionKind::End, lock_avma, StackId::EMPTY);
    }
    desktop.pump_all(0, 100);
    desktop.pump_all(610, 700);
    (desktop.scene.finish(3, 700 * MS), [server, writer])
}

/// For how many milliseconds each of the two held the lock.
fn held_ms(code: &[&str], lock_avma: Option<u64>) -> [u64; 2] {
    let (trace, holders) = server_that_waited(code, lock_avma);
    held_ms_in(&trace, holders)
}

fn held_ms_in(trace: &Trace, holders: [ThreadId; 2]) -> [u64; 2] {
    let analysis = Analysis::new(trace, &Rules::default());
    let stall = unhitch_analysis::diagnose(&analysis, &Query::default())
        .into_iter()
        .next()
        .expect("a stall");
    let shares = unhitch_analysis::explain::partition(&analysis, &stall.explanation);
    holders.map(|holder| {
        shares.iter().filter(|share| share.who == Some(holder)).map(|share| share.ns).sum::<u64>()
            / 1_000_000
    })
}

#[test]
fn a_locks_address_tells_whether_two_waits_are_for_it() {
    // A waiter does not own the lock: before its wait, the writer did.
    assert_eq!(held_ms(&WRITE, None), [290, 209], "equal code is all that is known");
    assert_eq!(held_ms(&WRITE, Some(FIRST)), [290, 209]);
    assert_eq!(
        held_ms(&WRITE, Some(SECOND)),
        [489, 10],
        "another lock: the server had the first one all the time"
    );
    assert_eq!(held_ms(&READ, None), [489, 10], "other code");
    assert_eq!(held_ms(&READ, Some(FIRST)), [290, 209], "other code, but the same lock");
}

/// Neither wait was kept with its system call, but both wake-ups say where they woke.
#[test]
fn regression_the_futex_of_the_wakers_tells_whether_two_waits_are_for_one_lock() {
    let held = |second_avma: u64| {
        let (mut trace, [server, writer]) = server_that_waited(&WRITE, None);
        trace.contentions = Contentions::default();
        let wakings = &trace.wakings;
        let woken = |waker: ThreadId| {
            let at = wakings.waker.iter().position(|by| *by == waker).expect("its wake-up");
            (wakings.wakee[at], wakings.time[at])
        };
        let kept = |(wakee, time), futex_avma| KeptWake { wakee, time, futex_avma };
        trace.kept_wakes = vec![kept(woken(server), 0x1000), kept(woken(writer), second_avma)];
        trace.kept_wakes.sort_by_key(|wake| (wake.wakee, wake.time));
        held_ms_in(&trace, [server, writer])
    };
    assert_eq!(held(0x1000), [290, 209]);
    assert_eq!(held(0x2000), [489, 10], "equal code, but another lock");
}

/// The holder's mutex goes to a thread that had not waited for it, past the one that is woken.
#[test]
fn regression_a_thread_that_overtakes_the_waiters_did_not_hold_the_lock_before() {
    const MUTEX: u64 = 0x1000;
    let mut desktop = Desktop::new();
    let scene = &mut desktop.scene;
    let [holder, other, thief] = [(201, "holder"), (202, "other"), (203, "thief")]
        .map(|(tid, name)| scene.thread(100, tid, name));
    let mutex = ["main", "edit", "pthread_mutex_lock", "__lll_lock_wait"];
    let unlock = ["main", "work", "pthread_mutex_unlock", "__lll_lock_wake"];
    let (wait, release) = (
        scene.stack(&[&mutex[..], &FUTEX].concat()),
        scene.stack(&[&unlock[..], &FUTEX_WAKE].concat()),
    );
    scene.switch(50 * MS, 1, IDLE, Runnable, holder, StackId::EMPTY);
    for (thread, cpu, from, woken, by, by_cpu) in [
        (other, 2, 90 * MS, 590 * MS, holder, 1),
        (desktop.ui, 0, 100 * MS + 50, 600 * MS, thief, 3),
    ] {
        scene.switch(from, cpu, thread, Sleeping, IDLE, wait);
        scene.wake(woken, by_cpu, by, thread, WakeFlags::default(), release);
        scene.switch(woken + 10, cpu, IDLE, Runnable, thread, StackId::EMPTY);
    }
    // The thief does something else until then.
    scene.switch(60 * MS, 3, IDLE, Runnable, thief, StackId::EMPTY);
    let ui = desktop.ui;
    desktop.pump_all(0, 100);
    desktop.pump_all(610, 700);
    let mut trace = desktop.scene.finish(4, 700 * MS);
    let kept = |thread, since_us: u64| KeptWait {
        thread,
        time: Time::from_nanos(since_us * 1_000),
        syscall: Some(202),
        arguments: [MUTEX, 0],
        kernel_lock_avma: None,
        owner: Some(holder),
        is_owner_at_return: false,
        is_over_budget: false,
        descriptor: None,
    };
    trace.kept_waits = vec![kept(other, 90 * MS), kept(ui, 100 * MS + 50)];
    trace.kept_waits.sort_by_key(|wait| (wait.thread, wait.time));
    let woken = |wakee, at_us: u64| KeptWake {
        wakee,
        time: Time::from_nanos(at_us * 1_000),
        futex_avma: MUTEX,
    };
    trace.kept_wakes = vec![woken(other, 590 * MS), woken(ui, 600 * MS)];
    trace.kept_wakes.sort_by_key(|wake| (wake.wakee, wake.time));
    assert_eq!(held_ms_in(&trace, [holder, thief]), [489, 10]);
    let (stall, json) = readings(&trace);
    let finding = &stall.finding;
    assert_eq!((finding.culprit, finding.evidence), (Some(holder), Evidence::Direct));
    let both = &json["cause"]["readings"];
    assert_eq!(both["same_lock_by"], "owner");
    assert_eq!(
        (&both["last_waker"]["thread"], &both["holder"]["thread"]),
        (&"thief".into(), &"holder".into())
    );
    insta::assert_snapshot!("overtaken", judged(&trace).1);
    // If the lock does not say whose it was, nothing else does.
    trace.kept_waits.clear();
    assert_eq!(held_ms_in(&trace, [holder, thief]), [0, 499]);
    // But that the holder released it meanwhile is seen.
    let (stall, json) = readings(&trace);
    assert_eq!((stall.finding.culprit, stall.finding.evidence), (Some(thief), Evidence::Inferred));
    let told = json["cause"]["evidence_words"].as_str().unwrap_or_default();
    assert!(told.contains("others released it, too, before thief 203"), "{json:#}");
    // Another lock, or the thief's own release of it, tells nothing of that.
    let at = trace.kept_wakes.iter().position(|wake| wake.wakee == other).expect("its wake-up");
    trace.kept_wakes[at].futex_avma += 8;
    let (stall, _) = readings(&trace);
    assert_eq!(stall.finding.evidence, Evidence::Direct);
}

#[test]
fn a_contention_whose_end_was_lost_is_not_that_of_later_waits() {
    let (mut trace, [server, _]) = server_that_waited(&READ, Some(FIRST));
    // The only begin of the server is one in other code, before, and its end was lost.
    let begin = (0..trace.contentions.len())
        .find(|&at| trace.contentions.thread[at] == server)
        .expect("reported");
    let of_ui = (0..trace.contentions.len())
        .find(|&at| trace.contentions.thread[at] != server)
        .expect("reported");
    trace.contentions.stack[begin] = trace.contentions.stack[of_ui];
    let analysis = Analysis::new(&trace, &Rules::default());
    let wait = |thread| {
        let segments = analysis.segments(thread, analysis.timeline.window());
        segments.iter().find_map(|segment| unhitch_analysis::lock_of(&analysis, thread, segment))
    };
    assert_eq!(wait(server), None);
    assert_eq!(wait(trace.contentions.thread[of_ui]), Some(FIRST));
}

#[test]
fn waits_for_two_locks_in_one_code_are_two_operations() {
    let sleeps = |second_avma: u64| {
        let mut scene = scene::Scene::default();
        let (waiter, holder) = (scene.thread(1, 1, "waiter"), scene.thread(2, 2, "holder"));
        let (wait, begun) = (scene.stack(&WRITE), scene.stack(&WRITE[..6]));
        for (turn, lock_avma) in [(0, FIRST), (1, second_avma)] {
            let at = 100 + turn * 5 * MS;
            scene.contention(at - 2, waiter, ContentionKind::Begin, lock_avma, begun);
            scene.switch(at, 0, waiter, Sleeping, IDLE, wait);
            scene.wake(at + 4_900, 1, holder, waiter, WakeFlags::default(), begun);
            scene.switch(at + 4_910, 0, IDLE, Runnable, waiter, StackId::EMPTY);
            scene.contention(at + 4_920, waiter, ContentionKind::End, lock_avma, StackId::EMPTY);
        }
        let trace = scene.finish(2, 12 * MS);
        let analysis = Analysis::new(&trace, &Rules::default());
        let operations = unhitch_analysis::explain::operations(
            &analysis,
            waiter,
            &analysis.segments(waiter, analysis.timeline.window()),
        );
        operations.iter().map(|operation| operation.sleeps).collect::<Vec<_>>()
    };
    assert_eq!(sleeps(FIRST), [2]);
    assert_eq!(sleeps(SECOND), [1, 1]);
}

/// The event loop waits in `wait` from 100 ms to 600 ms. Its own timer wakes it every 5 ms, to
/// poll, until "worker", which computes, ends its wait in `release`, if anybody does.
fn looks_by_its_timer(wait: &[&str], release: Option<&[&str]>) -> (Trace, ThreadId) {
    let mut desktop = Desktop::new();
    let scene = &mut desktop.scene;
    let worker = scene.thread(100, 101, "worker");
    let wait = scene.stack(wait);
    let timer = scene.stack(&[
        "|",
        "asm_sysvec_apic_timer_interrupt",
        "hrtimer_interrupt",
        "hrtimer_wakeup",
        "try_to_wake_up",
    ]);
    let sort = scene.stack(&["main", "_PyEval_EvalFrameDefault", "list_sort_impl"]);
    scene.switch(50 * MS, 1, IDLE, Runnable, worker, StackId::EMPTY);
    for round in 0..100 {
        let (from, to) =
            ((100 + round * 5) * MS + if round == 0 { 50 } else { 20 }, (105 + round * 5) * MS);
        scene.switch(from, 0, desktop.ui, Sleeping, IDLE, wait);
        match release.filter(|_| round == 99) {
            Some(release) => {
                let release = scene.stack(release);
                scene.wake(to, 1, worker, desktop.ui, WakeFlags::default(), release);
            }
            // Some wake-ups are not reported.
            None if round % 16 == 3 => {}
            None => {
                scene.wake(to, 0, IDLE, desktop.ui, WakeFlags::HARDIRQ, timer);
            }
        }
        scene.switch(to + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
        scene.sample(from + 2 * MS, 1, worker, sort);
    }
    desktop.pump_all(0, 100);
    desktop.pump_all(610, 700);
    (desktop.scene.finish(2, 700 * MS), worker)
}

const FUTEX: [&str; 5] = ["|", "__x64_sys_futex", "do_futex", "futex_wait", "schedule"];
const FUTEX_WAKE: [&str; 5] = ["|", "__x64_sys_futex", "do_futex", "futex_wake", "try_to_wake_up"];

#[test]
fn a_wait_for_the_interpreters_lock_is_the_holders_though_the_waiter_looks_by_its_timer() {
    let wait = [
        &["main", "os_read", "PyEval_RestoreThread", "take_gil", "pthread_cond_timedwait"][..],
        &FUTEX,
    ]
    .concat();
    let release =
        [&["main", "PyEval_SaveThread", "drop_gil", "pthread_cond_signal"][..], &FUTEX_WAKE]
            .concat();
    let (trace, worker) = looks_by_its_timer(&wait, Some(&release));
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("interpreter_lock", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(worker)));
    assert_eq!(
        (stall.finding.function.as_str(), stall.finding.evidence),
        ("list_sort_impl", Evidence::Inferred)
    );
    assert_eq!(
        stall.explanation.hops.iter().map(|hop| hop.looks).collect::<Vec<_>>(),
        [99],
        "one wait"
    );
}

#[test]
fn where_libc_loses_the_callers_it_is_a_wait_for_the_worker_all_the_same() {
    let wait = [&["__futex_abstimed_wait_common"][..], &FUTEX].concat();
    let (trace, worker) =
        looks_by_its_timer(&wait, Some(&[&["pthread_cond_signal"][..], &FUTEX_WAKE].concat()));
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuBound, Some(worker)),
        "{text}"
    );
    assert_eq!(
        (stall.finding.function.as_str(), stall.finding.evidence),
        ("list_sort_impl", Evidence::Inferred),
        "{text}"
    );
}

#[test]
fn who_keeps_the_interpreters_lock_to_the_end_is_the_thread_that_ran() {
    let wait = [&["main", "take_gil", "pthread_cond_timedwait"][..], &FUTEX].concat();
    let (trace, worker) = looks_by_its_timer(&wait, None);
    let (stall, text) = judged(&trace);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::LongHold, Some(worker)), "{text}");
    assert_eq!(finding.evidence, Evidence::Inferred, "{text}");
    assert!(text.contains("waited for the interpreter lock GIL in"), "{text}");
}

#[test]
fn who_only_ever_looks_is_let_go_by_nobody() {
    let wait = [&["main", "pthread_mutex_timedlock"][..], &FUTEX].concat();
    let (trace, _) = looks_by_its_timer(&wait, None);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::LockStarvation, None),
        "{text}"
    );
    assert!(text.contains("It polled for a lock") && stall.explanation.hops.is_empty(), "{text}");
}

/// The last waker had waited for the same lock, and the holder before it; in JSON.
fn readings(trace: &Trace) -> (Stall, serde_json::Value) {
    let analysis = Analysis::new(trace, &Rules::default());
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let why = serde_json::to_value(answer::Why::new(&analysis, "scene", &stalls, 1)).expect("JSON");
    (stalls.into_iter().next().expect("a stall"), why["stalls"][0].clone())
}

/// The address of the lock that the user interface waits for.
const LOCK: u64 = 0xffff_8881_0000_1000;

/// The user interface waits for `LOCK`, which a writer holds. The writer waits for the lock at
/// `writers_lock_avma`, which is held by a checkpoint. Returns the trace and the checkpoint.
fn writer_that_waits(writers_lock_avma: u64) -> (Trace, ThreadId) {
    let mut desktop = Desktop::new();
    let scene = &mut desktop.scene;
    let (holder, writer) = (scene.thread(300, 301, "checkpoint"), scene.thread(400, 401, "writer"));
    let (wait, begun) = (scene.stack(&WRITE), scene.stack(&WRITE[..6]));
    let release = scene.stack(&[
        "main",
        "serve",
        "|",
        "vm_mmap_pgoff",
        "up_write",
        "rwsem_wake",
        "try_to_wake_up",
    ]);
    scene.switch(80 * MS, 2, IDLE, Runnable, holder, StackId::EMPTY);
    for (thread, cpu, from, woken, by, lock_avma) in [
        (writer, 3, 99 * MS, 1_100 * MS, holder, writers_lock_avma),
        (desktop.ui, 0, 100 * MS + 50, 1_101 * MS, writer, LOCK),
    ] {
        scene.contention(from - 10, thread, ContentionKind::Begin, lock_avma, begun);
        scene.switch(from, cpu, thread, Sleeping, IDLE, wait);
        scene.wake(woken, 2, by, thread, WakeFlags::default(), release);
        scene.switch(woken + 10, cpu, IDLE, Runnable, thread, StackId::EMPTY);
        scene.contention(woken + 20, thread, ContentionKind::End, lock_avma, StackId::EMPTY);
    }
    scene.switch(1_101 * MS + 100, 3, writer, Sleeping, IDLE, desktop.poll);
    desktop.pump_all(0, 100);
    desktop.pump_all(1_110, 1_200);
    (desktop.scene.finish(4, 1_200 * MS), holder)
}

#[test]
fn the_last_waker_and_the_holder_are_both_told() {
    let (trace, holder) = writer_that_waits(LOCK);
    let (stall, text) = judged(&trace);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(holder)));
    let shown = "READINGS  The last waker was writer 401 (writer 400), which held the lock for 1.0 \
                 ms; the main holder was checkpoint 301 (checkpoint 300), which held it for \
                 1000.0 ms. The waits between the two were for the same lock, according to its \
                 address.";
    assert!(text.contains(shown), "{text}");
    let (_, json) = readings(&trace);
    let both = &json["cause"]["readings"];
    assert_eq!(
        (&both["last_waker"]["tid"], &both["last_waker"]["evidence"]),
        (&401.into(), &"direct".into()),
        "{both}"
    );
    assert_eq!(
        (&both["last_waker"]["held_ns"], &both["last_waker"]["at_ns"]),
        (&1_000_000.into(), &1_101_000_000u64.into()),
        "{both}"
    );
    assert_eq!(
        (&both["holder"]["tid"], &both["holder"]["evidence"]),
        (&301.into(), &"direct".into()),
        "{both}"
    );
    assert_eq!(
        (&both["holder"]["at_ns"], &both["same_lock_by"]),
        (&1_100_000_000u64.into(), &"address".into()),
        "{both}"
    );
    assert_eq!(json["chain"][1]["lock"], "0xffff888100001000", "{json}");

    let mut unreported = trace.clone();
    unreported.contentions = Default::default();
    assert_eq!(readings(&unreported).1["cause"]["readings"]["same_lock_by"], "code");
    // The waker of the victim held the lock: there is only one reading.
    let (one, _) = server_that_waited(&READ, None);
    assert_eq!(readings(&one).1["cause"]["readings"], serde_json::Value::Null);
    assert!(!judged(&one).1.contains("READINGS"));
}

#[test]
fn a_waker_that_waited_for_another_lock_is_told_from_its_holder() {
    let (trace, holder) = writer_that_waits(LOCK + 0x1000);
    let (stall, text) = judged(&trace);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(holder)));
    let shown = "READINGS  The last waker was writer 401 (writer 400), which held the lock for 1.0 \
                 ms. Meanwhile writer 401 (writer 400) itself waited for another lock; its main \
                 holder was checkpoint 301 (checkpoint 300), for 1000.0 ms.\n";
    assert!(text.contains(shown), "{text}");
    assert_eq!(readings(&trace).1["cause"]["readings"]["same_lock_by"], serde_json::Value::Null);
}

/// A reader has the lock for a second; another comes late and lets it go last, which wakes the writer.
#[test]
fn which_of_several_readers_kept_a_lock_is_inferred() {
    let wake_of = |release: &[&str]| {
        let mut desktop = Desktop::new();
        let scene = &mut desktop.scene;
        let reader = scene.thread(100, 300, "reader");
        let names = [&["main", "save", "pthread_rwlock_wrlock"][..], &FUTEX].concat();
        let (wait, release) = (scene.stack(&names), scene.stack(release));
        scene.switch(90 * MS, 1, IDLE, Runnable, reader, StackId::EMPTY);
        scene.switch(100 * MS + 50, 0, desktop.ui, Sleeping, IDLE, wait);
        scene.wake(1_100 * MS, 1, reader, desktop.ui, WakeFlags::default(), release);
        scene.switch(1_100 * MS + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
        desktop.pump_all(0, 100);
        desktop.pump_all(1_110, 1_200);
        judged(&desktop.scene.finish(2, 1_200 * MS))
    };
    let (stall, text) =
        wake_of(&["main", "look", "pthread_rwlock_unlock", "|", "futex_wake", "try_to_wake_up"]);
    assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
    assert!(text.contains("until all readers of the lock had let it go"), "{text}");
    // Who released it is known to have had it alone.
    let (stall, text) =
        wake_of(&["main", "look", "RwLock::write_unlock", "|", "futex_wake", "try_to_wake_up"]);
    assert_eq!(stall.finding.evidence, Evidence::Direct, "{text}");
}
