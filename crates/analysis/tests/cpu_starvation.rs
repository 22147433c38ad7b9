//! Waits for a CPU, on scenes written for them: who had it, and which quota took it away.

use crate::scene::{Desktop, judged};
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Query, Rules, answer, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;

/// Another thread occupies the event loop's CPU for 300 ms.
fn beside_a_hog() -> (Trace, ThreadId) {
    let mut desktop = Desktop::new();
    let hog = desktop.scene.thread(500, 501, "hog");
    let spin = desktop.scene.stack(&["main", "spin"]);
    desktop.pump_all(0, 100);
    desktop.scene.switch(100 * MS + 90, 0, desktop.ui, Runnable, hog, spin);
    desktop.scene.switch(400 * MS, 0, hog, Runnable, desktop.ui, spin);
    desktop.pump_all(410, 500);
    (desktop.scene.finish(2, 500 * MS), hog)
}

#[test]
fn cpu_starvation() {
    let (trace, hog) = beside_a_hog();
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("cpu_starvation", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::CpuStarvation, Some(hog)));
}

/// What `cpu.stat` of a version 2 machine had at 0.0 s and at 3.1 s, with a quota of 10 % on
/// `/app`; the threads are in `/app/web`, and in `/other`, which has a quota of its own that was
/// never used up.
fn throttled_report(members: &[(ThreadId, u32)], throttled_ns: u64) -> MachineReport {
    let account = |quota_ms: u64, periods, throttled_periods, throttled_ns| GroupReading {
        cpu: Some(CpuAccount {
            quota_ns: Some(quota_ms * 1_000_000),
            period_ns: 100_000_000,
            periods,
            throttled_periods,
            throttled_ns,
        }),
        ..GroupReading::default()
    };
    let reading = |ms: u64, app, other| Reading {
        time: Time::from_nanos(ms * 1_000_000),
        groups: [(GroupId(1), app), (GroupId(3), other)].into(),
        steal_ns: Some(0),
        is_whole: true,
        ..Reading::default()
    };
    let group =
        |path: &str| ControlGroup { hierarchy: "unified".to_owned(), path: path.to_owned() };
    MachineReport {
        groups: ["/", "/app", "/app/web", "/other"].map(group).to_vec(),
        readings: vec![
            reading(0, account(10, 400, 300, 7_000_000_000), account(20, 9, 9, 900)),
            reading(
                3_100,
                account(10, 431, 328, 7_000_000_000 + throttled_ns),
                account(20, 12, 9, 900),
            ),
        ],
        members: members.iter().map(|&(thread, group)| (thread, vec![GroupId(group)])).collect(),
    }
}

/// Two threads that compute for 10 ms of each of 28 periods of 100 ms, one after the other, and are
/// then throttled although CPU 1 is idle.
fn two_throttled() -> (Trace, [ThreadId; 2]) {
    let mut desktop = Desktop::new();
    let both = [desktop.scene.thread(600, 600, "python3"), desktop.scene.thread(601, 601, "gzip")];
    let compute = desktop.scene.stack(&["main", "compute"]);
    for period in 0..28 {
        let at = 100 * MS + period * 100 * MS;
        desktop.scene.switch(at, 1, ThreadId::IDLE, Runnable, both[0], StackId::EMPTY);
        desktop.scene.switch(at + 5 * MS, 1, both[0], Runnable, both[1], compute);
        desktop.scene.switch(at + 10 * MS, 1, both[1], Runnable, ThreadId::IDLE, compute);
    }
    desktop.scene.switch(2_900 * MS, 1, ThreadId::IDLE, Runnable, both[0], StackId::EMPTY);
    desktop.scene.switch(2_905 * MS, 1, both[0], Sleeping, both[1], desktop.poll);
    desktop.scene.switch(2_910 * MS, 1, both[1], Sleeping, ThreadId::IDLE, desktop.poll);
    desktop.pump_all(0, 3_000);
    (desktop.scene.finish(2, 3_000 * MS), both)
}

#[test]
fn regression_pieces_of_one_throttling_are_one_stall_told_with_its_quota() {
    let (mut trace, [python, gzip]) = two_throttled();
    trace.machine = throttled_report(&[(python, 2), (gzip, 2)], 2_500_000_000);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("throttled", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::CpuStarvation, None));
    assert_eq!(stall.victims, [python, gzip], "one quota, one stall");
    let window = stall.candidate.window;
    assert!(
        window.duration_ns() > 2_600_000_000 && stall.finding.evidence == Evidence::Direct,
        "{window:?}"
    );
    let analysis = Analysis::new(&trace, &Rules::default());
    assert_eq!(diagnose(&analysis, &Query::default()).len(), 1);
    let json = serde_json::to_value(answer::Why::new(&analysis, "x", &[stall], 1)).unwrap();
    let quota = &json["stalls"][0]["cause"]["throttling"];
    assert_eq!(
        (&quota["group"], &quota["throttled_periods"], &quota["periods"]),
        (&"/app".into(), &28.into(), &31.into())
    );
}

#[test]
fn a_group_that_was_not_throttled_then_is_not_blamed() {
    let (mut trace, [python, gzip]) = two_throttled();
    // In another group, whose quota was never used up during this time.
    trace.machine = throttled_report(&[(python, 3), (gzip, 3)], 2_500_000_000);
    let (stall, text) = judged(&trace);
    assert!(
        stall.throttling.is_none() && !text.contains("/app") && !text.contains("/other"),
        "{text}"
    );
    assert!(
        text.contains("none of the thread's control groups was throttled for half as long"),
        "{text}"
    );
    // In the right one, whose counters show next to nothing.
    trace.machine = throttled_report(&[(python, 2), (gzip, 2)], 3_000_000);
    assert!(judged(&trace).0.throttling.is_none());
    // An unknown group is not mentioned.
    trace.machine = throttled_report(&[], 2_500_000_000);
    let (stall, text) = judged(&trace);
    assert!(
        stall.throttling.is_none()
            && text.contains("control group of the waiting thread is not known"),
        "{text}"
    );
}

#[test]
fn regression_a_quota_that_took_a_part_of_the_time_is_told_beside_who_had_the_cpu() {
    let (mut trace, _) = beside_a_hog();
    let ui = trace.threads.at(100, Time::ZERO).expect("the event loop");
    trace.machine = throttled_report(&[(ui, 2)], 100_000_000);
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
    assert!(
        text.contains("hog 501") && text.contains("For a part of the time it was throttled by"),
        "{text}"
    );
}

#[test]
fn regression_a_thread_that_was_throttled_for_a_moment_does_not_blame_its_quota() {
    let (mut trace, [python, gzip]) = two_throttled();
    trace.machine = throttled_report(&[(python, 2), (gzip, 2)], 3_000_000);
    let left = |trace: &Trace, thread| {
        let switches = &trace.switches;
        (0..switches.len()).filter(|&at| switches.prev[at] == thread).collect::<Vec<_>>()
    };
    // Of 28 times that it waited for a CPU, once because it was throttled.
    let [once, many] = [1, 20].map(|times| {
        let mut trace = trace.clone();
        for thread in [python, gzip] {
            for at in left(&trace, thread).into_iter().take(times) {
                trace.switches.prev_state[at] = TaskState::Throttled;
            }
        }
        let analysis = Analysis::new(&trace, &Rules::default());
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let window = Some(Window::new(at(100), at(2_900)));
        diagnose(&analysis, &Query { victims: vec![python], window, ..Query::default() })[0]
            .throttling
    });
    assert_eq!(once, None);
    assert!(many.is_some());
}

/// A window waits for a server that gets a tenth of a CPU; the rest of it is idle, or a rival's.
fn behind_a_server(has_rival: bool) -> (Trace, [ThreadId; 3]) {
    let mut desktop = Desktop::new();
    let server = desktop.scene.thread(600, 600, "server");
    let rival = match has_rival {
        true => desktop.scene.thread(700, 700, "rival"),
        false => ThreadId::IDLE,
    };
    let wait = desktop.scene.stack(&[
        "main",
        "ask",
        "recv",
        "|",
        "unix_stream_recvmsg",
        "unix_stream_data_wait",
        "schedule",
    ]);
    let answer = desktop.scene.stack(&[
        "main",
        "serve",
        "send",
        "|",
        "unix_stream_sendmsg",
        "sock_def_readable",
        "try_to_wake_up",
    ]);
    let compute = desktop.scene.stack(&["main", "serve", "compute"]);
    desktop.pump_all(0, 100);
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, Sleeping, ThreadId::IDLE, wait);
    for period in 0..28 {
        let at = 90 * MS + period * 100 * MS;
        desktop.scene.switch(at, 1, rival, Runnable, server, StackId::EMPTY);
        desktop.scene.switch(at + 10 * MS, 1, server, Runnable, rival, compute);
    }
    desktop.scene.switch(2_890 * MS, 1, rival, Runnable, server, StackId::EMPTY);
    desktop.scene.wake(2_895 * MS, 1, server, desktop.ui, WakeFlags::default(), answer);
    desktop.scene.switch(2_895 * MS + 20, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.scene.switch(2_899 * MS, 1, server, Sleeping, ThreadId::IDLE, desktop.poll);
    desktop.pump_all(2_900, 3_000);
    let ui = desktop.ui;
    (desktop.scene.finish(2, 3_000 * MS), [ui, server, rival])
}

#[test]
fn a_throttled_thread_that_others_wait_for_is_the_culprit() {
    let (mut trace, [ui, server, _]) = behind_a_server(false);
    trace.machine = throttled_report(&[(server, 2)], 2_500_000_000);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.candidate.victim, stall.finding.pattern, stall.finding.culprit),
        (ui, Pattern::CpuStarvation, Some(server))
    );
    assert!(
        text.contains("server 600 was throttled by control group /app: 10 % of a CPU allowed"),
        "{text}"
    );
}

#[test]
fn who_has_the_cpu_of_a_thread_that_others_wait_for_is_the_culprit() {
    let (trace, [ui, _, rival]) = behind_a_server(true);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.candidate.victim, stall.finding.pattern, stall.finding.culprit),
        (ui, Pattern::CpuStarvation, Some(rival)),
        "a server that ran for a tenth of the time did not compute: {text}"
    );
    assert!(text.contains("server 600, which it waited for, was ready to run for 2."), "{text}");
    assert!(text.contains("CAUSE     CPU starvation: rival 700 had the CPU."), "{text}");
}

#[test]
fn a_real_time_hog_is_told_with_its_priority() {
    let (mut trace, hog) = beside_a_hog();
    (0..trace.switches.len())
        .filter(|&at| trace.switches.next[at] == hog)
        .collect::<Vec<_>>()
        .iter()
        .for_each(|&at| trace.switches.next_prio[at] = 49);
    assert!(
        judged(&trace).1.contains("hog 501 (hog 500) [real-time priority 50] had the CPU"),
        "as perf.data has it"
    );
    trace.threads.get_mut(hog).expect("known").policy = Some(Policy::RoundRobin);
    assert!(judged(&trace).1.contains("hog 501 (hog 500) [SCHED_RR priority 50] had the CPU"));
}

#[test]
fn a_bystander_in_an_interrupt_is_never_blamed() {
    let mut desktop = Desktop::new();
    let bystander = desktop.scene.thread(500, 501, "bystander");
    let wait = desktop.scene.stack(&[
        "main",
        "save",
        "|",
        "ext4_sync_file",
        "jbd2_log_wait_commit",
        "io_schedule",
    ]);
    let completion = desktop.scene.stack(&[
        "main",
        "innocent",
        "pthread_mutex_unlock",
        "|",
        "asm_common_interrupt",
        "blk_mq_complete_request",
        "bio_endio",
        "try_to_wake_up",
    ]);
    desktop.pump_all(0, 100);
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, TaskState::DiskSleep, ThreadId::IDLE, wait);
    desktop.scene.wake(600 * MS, 1, bystander, desktop.ui, WakeFlags::HARDIRQ, completion);
    desktop.scene.switch(600 * MS + 9, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.pump_all(610, 700);
    let ui = desktop.ui;
    let (stall, text) = judged(&desktop.scene.finish(2, 700 * MS));
    assert!(!text.contains("bystander") && !text.contains("innocent"), "{text}");
    assert_ne!(stall.finding.culprit, Some(bystander));
    assert_eq!(stall.explanation.victim, ui);
    assert!(stall.explanation.hops.is_empty());
}

#[test]
fn many_threads_of_one_name_that_take_a_cpu_in_turns_are_a_crowd() {
    let mut desktop = Desktop::new();
    let bystander = desktop.scene.thread(300, 300, "indexer");
    let workers: Vec<ThreadId> =
        (0..50).map(|n| desktop.scene.thread(500 + n, 500 + n, "worker")).collect();
    let leave = desktop.scene.stack(&["main", "leave", "|", "do_exit"]);
    desktop.pump_all(0, 100);
    // The event loop loses its CPU at 100 ms; a bystander has it for 20 ms, each of 50 workers for
    // 5 ms.
    let mut before = desktop.ui;
    for (turn, thread) in [bystander].into_iter().chain(workers.iter().copied()).enumerate() {
        let at = if turn == 0 { 100 * MS + 90 } else { 120 * MS + (turn as u64 - 1) * 5 * MS };
        desktop.scene.switch(at, 0, before, Runnable, thread, leave);
        before = thread;
    }
    desktop.scene.switch(370 * MS, 0, before, Runnable, desktop.ui, leave);
    for (turn, worker) in workers.iter().enumerate() {
        desktop.scene.sample(122 * MS + turn as u64 * 5 * MS, 0, *worker, leave);
    }
    desktop.pump_all(370, 500);
    let (stall, text) = judged(&desktop.scene.finish(2, 500 * MS));
    assert_eq!(
        (stall.finding.pattern, stall.candidate.victim),
        (Pattern::CpuStarvation, desktop.ui)
    );
    assert!(stall.finding.culprit.is_some_and(|culprit| workers.contains(&culprit)), "{text}");
    assert!(
        text.contains(
            "CPU starvation: 50 threads named worker had the CPU, ending their \
                       processes."
        ),
        "{text}"
    );
    assert!(
        text.contains("used by: 50 threads named worker 250.0 ms, indexer 300 19.9 ms"),
        "{text}"
    );
}
