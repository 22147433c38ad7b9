//! Each pattern on a scene written for it: the whole answer, word for word, with the figures of the
//! scene.

use crate::scene::{Desktop, Scene, judged};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Rules, answer, diagnose};
use unhitch_analysis::{Query, StallKind};
use unhitch_model::{FutexWait, Policy, StackId, TaskState, ThreadId, Time, Trace, WakeFlags};

const MS: u64 = 1_000;
use TaskState::{Runnable, Sleeping};

#[test]
fn lock_starvation() {
    let mut desktop = Desktop::new();
    let holder = desktop.scene.thread(300, 301, "inspector");
    let wait = desktop.scene.stack(&[
        "main",
        "insert_character",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let release = desktop.scene.stack(&[
        "main",
        "inspect",
        "pthread_mutex_unlock",
        "|",
        "do_futex",
        "futex_wake",
        "try_to_wake_up",
    ]);
    let busy = desktop.scene.stack(&["main", "inspect", "count_pages"]);
    desktop.pump_all(0, 100);
    // 440 wake-ups in 2.2 s, one every 5 ms: 20 µs to the CPU, 10 µs to check the lock, 439 in
    // vain.
    for round in 0..440 {
        let begin = 100 * MS + round * 5 * MS + if round == 0 { 50 } else { 30 };
        let woken = 100 * MS + (round + 1) * 5 * MS;
        desktop.scene.switch(begin, 0, desktop.ui, Sleeping, ThreadId::IDLE, wait);
        desktop.scene.wake(woken, 1, holder, desktop.ui, WakeFlags::default(), release);
        desktop.scene.switch(woken + 20, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
        desktop.scene.sample(begin + 1_000, 1, holder, busy);
    }
    desktop.scene.switch(90 * MS, 1, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
    desktop.scene.switch(2_400 * MS, 1, holder, Sleeping, ThreadId::IDLE, desktop.poll);
    desktop.pump_all(2_310, 2_500);
    let (stall, text) = judged(&desktop.scene.finish(2, 2_500 * MS));
    insta::assert_snapshot!("lock_starvation", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.evidence),
        (Pattern::LockStarvation, Evidence::Direct)
    );
    assert_eq!(
        (stall.candidate.kind, stall.candidate.victim, stall.finding.culprit),
        (StallKind::LockStarvation, desktop.ui, Some(holder))
    );
    let operation = stall.finding.operation.as_ref().expect("one operation");
    assert_eq!((operation.wakes.len(), operation.wakes_in_vain()), (440, 439));
    assert_eq!(stall.finding.function, "inspect");
}

/// Twelve wake-ups in vain in 1.2 s; between two of them the holder is ready to run for all but
/// `on_cpu` microseconds. The pattern, and the answer.
fn woken_by_a_holder_with(on_cpu: u64) -> (Pattern, String) {
    let mut desktop = Desktop::new();
    let (holder, hog) =
        (desktop.scene.thread(300, 301, "scanner"), desktop.scene.thread(400, 401, "encoder"));
    let wait = desktop.scene.stack(&[
        "main",
        "map_buffer",
        "|",
        "vm_mmap_pgoff",
        "down_write_killable",
        "rwsem_down_write_slowpath",
        "schedule",
    ]);
    let release = desktop.scene.stack(&[
        "main",
        "read_smaps",
        "|",
        "m_stop",
        "up_read",
        "rwsem_wake",
        "try_to_wake_up",
    ]);
    let count = desktop.scene.stack(&["main", "read_smaps", "|", "smaps_pte_range"]);
    desktop.pump_all(0, 100);
    desktop.scene.switch(90 * MS, 1, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
    desktop.scene.switch(95 * MS, 1, holder, Runnable, hog, count);
    for round in 0..12 {
        let (begin, woken) = (100 * MS + round * 100 * MS + 50, 100 * MS + (round + 1) * 100 * MS);
        desktop.scene.switch(begin, 0, desktop.ui, Sleeping, ThreadId::IDLE, wait);
        desktop.scene.switch(woken - on_cpu, 1, hog, Runnable, holder, StackId::EMPTY);
        desktop.scene.sample(woken - on_cpu / 2, 1, holder, count);
        desktop.scene.wake(woken, 1, holder, desktop.ui, WakeFlags::default(), release);
        desktop.scene.switch(woken + 10, 1, holder, Runnable, hog, count);
        desktop.scene.switch(woken + 20, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    }
    desktop.pump_all(1_310, 1_400);
    let (stall, text) = judged(&desktop.scene.finish(2, 1_400 * MS));
    (stall.finding.pattern, text)
}

#[test]
fn regression_a_starved_waiter_of_a_holder_without_a_cpu_waits_for_that_cpu() {
    assert_eq!(woken_by_a_holder_with(MS).0, Pattern::PriorityInversion);
    let (pattern, text) = woken_by_a_holder_with(30 * MS);
    assert_eq!(pattern, Pattern::LockStarvation, "with a CPU for the holder, a hang would be left");
    // Its time in the sentence is that of its line in the table: the hog's is not its own.
    assert!(text.contains("scanner 301 (scanner 300) accounts for 360.0 ms of the wait (30.0 %), and waited for a CPU for 839.4 ms of 1.200 s."), "{text}");
    assert!(text.contains("360.0 ms   30.0 %  lock held by    scanner 301"), "{text}");
}

#[test]
fn regression_who_takes_the_cpu_from_others_keeps_its_own_stall() {
    let mut desktop = Desktop::new();
    let other = desktop.scene.thread(300, 301, "indexer");
    let busy = desktop.scene.stack(&["main", "lay_out_page"]);
    desktop.pump_all(0, 100);
    for sample in 0..100 {
        desktop.scene.sample(101 * MS + sample * 3 * MS, 0, desktop.ui, busy);
    }
    desktop.scene.wake(110 * MS, 0, desktop.ui, other, WakeFlags::default(), desktop.notify);
    desktop.scene.switch(400 * MS + 100, 0, desktop.ui, Sleeping, other, desktop.poll);
    desktop.scene.switch(402 * MS, 0, other, Sleeping, ThreadId::IDLE, desktop.poll);
    desktop.scene.wake(
        410 * MS,
        1,
        desktop.mouse,
        desktop.ui,
        WakeFlags::default(),
        desktop.notify,
    );
    desktop.scene.switch(410 * MS + 10, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.pump_all(410, 500);
    let trace = desktop.scene.finish(2, 500 * MS);
    let stalls = diagnose(&Analysis::new(&trace, &Rules::default()), &Query::default());
    let shown: Vec<_> =
        stalls.iter().map(|stall| (stall.candidate.victim, stall.finding.pattern)).collect();
    assert_eq!(shown, [(desktop.ui, Pattern::CpuBound), (other, Pattern::CpuStarvation)]);
}

/// Sleeps of 2 ms for one lock, woken by its holder; before each of the sleeps in `long_looks` the
/// waiter ran for 1 ms, before the others for 10 µs. Returns how many sleeps each of its operations
/// has.
fn sleeps_of_operations(long_looks: &[u64]) -> Vec<u32> {
    let mut scene = Scene::default();
    let (waiter, holder) = (scene.thread(1, 1, "waiter"), scene.thread(2, 2, "holder"));
    let wait =
        scene.stack(&["main", "pthread_mutex_lock", "|", "do_futex", "futex_wait", "schedule"]);
    let release = scene.stack(&[
        "main",
        "pthread_mutex_unlock",
        "|",
        "do_futex",
        "futex_wake",
        "try_to_wake_up",
    ]);
    let mut at = 100;
    for sleep in 0..100 {
        at += if long_looks.contains(&sleep) { MS } else { 10 };
        scene.switch(at, 0, waiter, Sleeping, ThreadId::IDLE, wait);
        scene.wake(at + 2 * MS, 1, holder, waiter, WakeFlags::default(), release);
        at += 2 * MS + 20;
        scene.switch(at, 0, ThreadId::IDLE, Runnable, waiter, StackId::EMPTY);
    }
    let trace = scene.finish(2, at + 10);
    let analysis = Analysis::new(&trace, &Rules::default());
    let operations = unhitch_analysis::explain::operations(
        &analysis,
        waiter,
        &analysis.segments(waiter, analysis.timeline.window()),
    );
    operations.iter().map(|operation| operation.sleeps).collect()
}

#[test]
fn a_long_look_at_the_lock_is_excused_only_now_and_then() {
    assert_eq!(sleeps_of_operations(&[]), [100]);
    assert_eq!(sleeps_of_operations(&[50]), [100], "an interrupt made one look long");
    assert_eq!(sleeps_of_operations(&[10]), [10, 90], "too early to know what a look is");
    assert_eq!(
        sleeps_of_operations(&[50, 51]),
        [51, 49],
        "who runs long twice in a row has got on"
    );
}

#[test]
fn condition_signalled_often_is_no_starvation() {
    let mut desktop = Desktop::new();
    let producer = desktop.scene.thread(300, 301, "producer");
    let consumer = desktop.scene.thread(300, 302, "consumer");
    let wait = desktop.scene.stack(&[
        "main",
        "consume",
        "pthread_cond_wait",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let signal = desktop.scene.stack(&[
        "main",
        "produce",
        "pthread_cond_signal",
        "|",
        "do_futex",
        "futex_wake",
        "try_to_wake_up",
    ]);
    for round in 0..200 {
        desktop.scene.switch(round * 5 * MS + 30, 0, consumer, Sleeping, ThreadId::IDLE, wait);
        desktop.scene.wake(
            (round + 1) * 5 * MS,
            1,
            producer,
            consumer,
            WakeFlags::default(),
            signal,
        );
        desktop.scene.switch(
            (round + 1) * 5 * MS + 20,
            0,
            ThreadId::IDLE,
            Runnable,
            consumer,
            StackId::EMPTY,
        );
    }
    let trace = desktop.scene.finish(2, 1_100 * MS);
    assert_eq!(diagnose(&Analysis::new(&trace, &Rules::default()), &Query::default()), []);
}

/// The event loop waits for a lock from 100 ms to 1,200 ms; "writer" had waited before it, behind
/// "checkpoint", who does `work`. The recording ends at `end_ms`.
fn held(end_ms: u64, work: impl FnOnce(&mut Scene, ThreadId)) -> (Trace, ThreadId, ThreadId) {
    let mut desktop = Desktop::new();
    let holder = desktop.scene.thread(300, 301, "checkpoint");
    let writer = desktop.scene.thread(400, 401, "writer");
    let wait = desktop.scene.stack(&[
        "main",
        "draw",
        "lock_volume",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let release = desktop.scene.stack(&[
        "main",
        "checkpoint",
        "pthread_mutex_unlock",
        "|",
        "do_futex",
        "futex_wake",
        "try_to_wake_up",
    ]);
    desktop.pump_all(0, 100);
    let end = 1_200 * MS;
    desktop.scene.switch(80 * MS, 2, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
    desktop.scene.switch(99 * MS, 3, writer, Sleeping, ThreadId::IDLE, wait);
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, Sleeping, ThreadId::IDLE, wait);
    work(&mut desktop.scene, holder);
    desktop.scene.wake(end, 2, holder, writer, WakeFlags::default(), release);
    desktop.scene.switch(end + 10, 3, ThreadId::IDLE, Runnable, writer, StackId::EMPTY);
    desktop.scene.wake(end + 40, 3, writer, desktop.ui, WakeFlags::default(), release);
    desktop.scene.switch(end + 60, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.scene.switch(end + 100, 2, holder, Sleeping, ThreadId::IDLE, wait);
    desktop.pump_all(1_210, 1_260);
    let ui = desktop.ui;
    (desktop.scene.finish(4, end_ms * MS), ui, holder)
}

#[test]
fn long_hold_on_a_cpu() {
    let (trace, ui, holder) = held(1_260, |scene, holder| {
        let search = scene.stack(&["main", "checkpoint", "find_clear_run"]);
        for sample in 0..220 {
            scene.sample(101 * MS + sample * 5 * MS, 2, holder, search);
        }
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("long_hold_on_a_cpu", text);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.victim, stall.finding.culprit),
        (Pattern::LongHold, ui, Some(holder))
    );
    assert_eq!((stall.victims.len(), stall.finding.function.as_str()), (2, "find_clear_run"));
}

#[test]
fn priority_inversion() {
    let (mut trace, _, holder) = held(1_260, |scene, holder| {
        let hog = scene.thread(500, 501, "encoder");
        let busy = scene.stack(&["main", "checkpoint", "merge"]);
        scene.switch(110 * MS, 2, holder, Runnable, hog, busy);
        scene.switch(1_190 * MS, 2, hog, Sleeping, holder, busy);
    });
    trace.threads.get_mut(holder).expect("known").policy = Some(Policy::Idle);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("priority_inversion", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::PriorityInversion, Some(holder))
    );
    assert!(text.contains("encoder 501") && text.contains("SCHED_IDLE"));
}

#[test]
fn regression_a_real_time_hog_is_to_blame_and_not_the_ordinary_thread_that_it_starves() {
    let mut hog = ThreadId::IDLE;
    let (mut trace, _, _) = held(1_260, |scene, holder| {
        hog = scene.thread(500, 501, "planner");
        let busy = scene.stack(&["main", "checkpoint", "merge"]);
        let plan = scene.stack(&["main", "plan_path"]);
        scene.switch(110 * MS, 2, holder, Runnable, hog, busy);
        (111..1_190).for_each(|ms| _ = scene.sample(ms * MS, 2, hog, plan));
        scene.switch(1_190 * MS, 2, hog, Sleeping, holder, busy);
    });
    let came = trace.switches.next.iter().position(|thread| *thread == hog).unwrap();
    trace.switches.next_prio[came] = 89;
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit, stall.finding.function.as_str()),
        (Pattern::PriorityInversion, Some(hog), "plan_path"),
        "{text}"
    );
}

#[test]
fn long_hold_asleep() {
    let (trace, _, holder) = held(1_260, |scene, holder| {
        let nap = scene.stack(&[
            "main",
            "checkpoint",
            "wait_a_little",
            "|",
            "__x64_sys_nanosleep",
            "hrtimer_nanosleep",
            "do_nanosleep",
            "schedule",
        ]);
        let timer = scene.stack(&[
            "|",
            "asm_sysvec_apic_timer_interrupt",
            "hrtimer_interrupt",
            "hrtimer_wakeup",
            "try_to_wake_up",
        ]);
        scene.switch(110 * MS, 2, holder, Sleeping, ThreadId::IDLE, nap);
        scene.wake(1_190 * MS, 2, ThreadId::IDLE, holder, WakeFlags::HARDIRQ, timer);
        scene.switch(1_190 * MS + 5, 2, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("long_hold_asleep", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(holder)));
    assert_eq!(stall.finding.function, "wait_a_little");
}

#[test]
fn long_hold_for_a_disk_and_stopped() {
    let (trace, _, holder) = held(1_260, |scene, holder| {
        let shell = scene.thread(500, 501, "shell");
        let sync = scene.stack(&[
            "main",
            "checkpoint",
            "|",
            "ext4_sync_file",
            "jbd2_log_wait_commit",
            "io_schedule",
            "schedule",
        ]);
        let done = scene.stack(&[
            "|",
            "asm_common_interrupt",
            "blk_mq_complete_request",
            "bio_endio",
            "try_to_wake_up",
        ]);
        let stop =
            scene.stack(&["main", "checkpoint", "|", "get_signal", "do_signal_stop", "schedule"]);
        let kill = scene.stack(&[
            "main",
            "kill",
            "|",
            "kill_something_info",
            "signal_wake_up_state",
            "try_to_wake_up",
        ]);
        scene.switch(110 * MS, 2, holder, TaskState::DiskSleep, ThreadId::IDLE, sync);
        scene.wake(800 * MS, 2, ThreadId::IDLE, holder, WakeFlags::HARDIRQ, done);
        scene.switch(800 * MS + 5, 2, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
        scene.switch(810 * MS, 2, holder, TaskState::Stopped, shell, stop);
        scene.wake(1_180 * MS, 2, shell, holder, WakeFlags::default(), kill);
        scene.switch(1_180 * MS + 5, 2, shell, Sleeping, holder, StackId::EMPTY);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("long_hold_for_a_disk", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(holder)));
    assert_eq!(stall.finding.function, "checkpoint");
    // 690 ms and 370 ms of 1.1 s.
    assert!(text.contains("62.7 % waiting for a disk, 33.6 % stopped"), "{text}");
}

/// A thread that beats every 20 ms, and once stands still in `state` on `stop` until `by` lets it go
/// on.
fn stands_still(state: TaskState, stop: &[&str], by: &str, go_on: &[&str]) -> Trace {
    let mut scene = Scene::default();
    let [beat, other] = [scene.thread(100, 100, "beat"), scene.thread(500, 501, by)];
    let rest = scene.stack(&["main", "|", "hrtimer_nanosleep", "do_nanosleep", "schedule"]);
    let timer = scene.stack(&["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    let [stop, go_on] = [scene.stack(stop), scene.stack(go_on)];
    for at in (0..1_000).step_by(20).map(|ms| ms * MS) {
        scene.switch(at, 0, beat, Sleeping, ThreadId::IDLE, rest);
        scene.wake(at + 19 * MS, 0, ThreadId::IDLE, beat, WakeFlags::HARDIRQ, timer);
        scene.switch(at + 19 * MS, 0, ThreadId::IDLE, Runnable, beat, StackId::EMPTY);
    }
    scene.switch(1_000 * MS, 0, beat, state, ThreadId::IDLE, stop);
    scene.switch(2_299 * MS, 1, ThreadId::IDLE, Runnable, other, StackId::EMPTY);
    scene.wake(2_300 * MS, 1, other, beat, WakeFlags::default(), go_on);
    scene.switch(2_301 * MS, 1, other, Sleeping, ThreadId::IDLE, StackId::EMPTY);
    scene.switch(2_300 * MS, 0, ThreadId::IDLE, Runnable, beat, StackId::EMPTY);
    scene.finish(2, 2_400 * MS)
}

#[test]
fn a_debugger_is_who_stopped_the_thread_that_it_lets_go_on() {
    let stop = ["main", "compute", "|", "get_signal", "ptrace_stop", "schedule"];
    let detach =
        ["main", "detach", "|", "ptrace_request", "__ptrace_unlink", "signal_wake_up_state"];
    let trace = stands_still(TaskState::Traced, &stop, "gdb", &detach);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::Stopped, Some(ThreadId(2)))
    );
    assert_eq!(stall.finding.evidence, Evidence::Direct);
    assert!(
        text.contains("CAUSE     beat 100 was stopped by its tracer gdb 501 (gdb 500)."),
        "{text}"
    );
    assert_eq!(stall.finding.function, "detach");
}

#[test]
fn whoever_thaws_a_control_group_probably_froze_it() {
    let sleep = ["main", "|", "hrtimer_nanosleep", "do_nanosleep", "schedule"];
    let thaw =
        ["main", "write", "|", "freezer_write", "unfreeze_cgroup", "__thaw_task", "wake_up_state"];
    let trace = stands_still(Sleeping, &sleep, "admin", &thaw);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::Stopped, Some(ThreadId(2)))
    );
    assert_eq!(stall.finding.evidence, Evidence::Inferred);
    assert!(
        text.contains("was stopped by the freezer (a suspend, or its control group)"),
        "{text}"
    );
    assert!(
        text.contains(
            "admin 501 (admin 500) ended the freezing; that it began it, too, is a guess"
        ),
        "{text}"
    );
}

#[test]
fn a_wait_for_another_lock_does_not_end_a_hold() {
    let (trace, _, holder) = held(1_260, |scene, holder| {
        let logger = scene.thread(500, 501, "logger");
        let wait = scene.stack(&[
            "main",
            "checkpoint",
            "log_line",
            "pthread_mutex_lock",
            "|",
            "do_futex",
            "futex_wait",
            "schedule",
        ]);
        let release = scene.stack(&[
            "main",
            "flush_log",
            "pthread_mutex_unlock",
            "|",
            "do_futex",
            "futex_wake",
            "try_to_wake_up",
        ]);
        scene.switch(90 * MS, 1, ThreadId::IDLE, Runnable, logger, StackId::EMPTY);
        scene.switch(1_100 * MS, 2, holder, Sleeping, ThreadId::IDLE, wait);
        scene.wake(1_105 * MS, 1, logger, holder, WakeFlags::default(), release);
        scene.switch(1_105 * MS + 5, 2, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
        scene.switch(1_110 * MS, 1, logger, Sleeping, ThreadId::IDLE, StackId::EMPTY);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::LongHold, Some(holder)),
        "{text}"
    );
    let held = stall
        .explanation
        .pieces
        .iter()
        .filter(|piece| piece.thread == holder)
        .map(|piece| piece.window.duration_ns());
    assert!(held.sum::<u64>() >= 1_094_000_000, "{text}");
}

#[test]
fn nothing_fits() {
    let mut desktop = Desktop::new();
    let holder = desktop.scene.thread(300, 301, "indexer");
    let wait = desktop.scene.stack(&[
        "main",
        "draw",
        "lock_index",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let release = desktop.scene.stack(&[
        "main",
        "index",
        "pthread_mutex_unlock",
        "|",
        "do_futex",
        "futex_wake",
        "try_to_wake_up",
    ]);
    let nap = desktop.scene.stack(&[
        "main",
        "draw",
        "retry",
        "|",
        "__x64_sys_nanosleep",
        "hrtimer_nanosleep",
        "schedule",
    ]);
    let timer = desktop.scene.stack(&[
        "|",
        "asm_sysvec_apic_timer_interrupt",
        "hrtimer_interrupt",
        "hrtimer_wakeup",
        "try_to_wake_up",
    ]);
    desktop.pump_all(0, 100);
    // 80 ms on a CPU, 80 ms behind a lock, 79 ms asleep, then called again.
    desktop.scene.switch(90 * MS, 1, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
    desktop.scene.switch(180 * MS, 0, desktop.ui, Sleeping, ThreadId::IDLE, wait);
    desktop.scene.wake(260 * MS, 1, holder, desktop.ui, WakeFlags::default(), release);
    desktop.scene.switch(260 * MS + 5, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.scene.switch(261 * MS, 0, desktop.ui, Sleeping, ThreadId::IDLE, nap);
    desktop.scene.wake(340 * MS, 0, ThreadId::IDLE, desktop.ui, WakeFlags::HARDIRQ, timer);
    desktop.scene.switch(340 * MS + 5, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.scene.switch(600 * MS, 1, holder, Sleeping, ThreadId::IDLE, StackId::EMPTY);
    desktop.pump_all(340, 700);
    let (stall, text) = judged(&desktop.scene.finish(2, 700 * MS));
    insta::assert_snapshot!("unknown", text);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.kind),
        (Pattern::Unknown, StallKind::EventLoop),
        "{text}"
    );
}

#[test]
fn an_answer_that_does_not_sum_says_so() {
    let (trace, ..) = held(1_260, |_, _| {});
    let analysis = Analysis::new(&trace, &Rules::default());
    let mut stalls = diagnose(&analysis, &Query::default());
    let whole = answer::text(&analysis, &stalls, 1);
    assert!(
        whole.contains("100.0 %  the whole stall, to the nanosecond") && !whole.contains("WARNING"),
        "{whole}"
    );
    let pieces = &mut stalls[0].explanation.pieces;
    let longest =
        pieces.iter_mut().max_by_key(|piece| piece.window.duration_ns()).expect("a piece");
    longest.window.end = longest.window.end.minus(1);
    let text = answer::text(&analysis, &stalls, 1);
    assert!(
        text.contains("99.9 %  the sum of the parts") && text.contains("WARNING  the parts sum to"),
        "{text}"
    );
    assert!(!text.contains("to the nanosecond"), "{text}");
}

#[test]
fn still_held_when_the_recording_ends() {
    let (mut trace, ui, holder) = held(1_000, |_, _| {});
    // Nobody was woken yet, but the lock word names its owner.
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("dead_end", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::DeadEnd, None));
    trace.futex_waits.push(FutexWait {
        time: Time::from_nanos(1_000_000_000),
        waiter: ui,
        word_avma: 0x1000,
        owner: Some(holder),
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("still_held", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::LongHold, Some(holder)));
    assert_eq!(stall.finding.evidence, Evidence::Inferred);
}

#[test]
fn own_computation() {
    let mut desktop = Desktop::new();
    let compute = desktop.scene.stack(&["main", "run_event_loop", "handle_click", "lay_out_page"]);
    desktop.pump_all(0, 200);
    for sample in 0..60 {
        desktop.scene.sample(201 * MS + sample * 5 * MS, 0, desktop.ui, compute);
    }
    desktop.pump_all(500, 600);
    let ui = desktop.ui;
    let (stall, text) = judged(&desktop.scene.finish(2, 600 * MS));
    insta::assert_snapshot!("own_computation", text);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.kind, stall.finding.culprit),
        (Pattern::CpuBound, StallKind::EventLoop, Some(ui))
    );
    assert_eq!(stall.finding.function, "lay_out_page");
}

#[test]
fn own_sleep() {
    let mut desktop = Desktop::new();
    let nap = desktop.scene.stack(&[
        "main",
        "run_event_loop",
        "retry",
        "|",
        "__x64_sys_nanosleep",
        "hrtimer_nanosleep",
        "schedule",
    ]);
    let timer = desktop.scene.stack(&[
        "|",
        "asm_sysvec_apic_timer_interrupt",
        "hrtimer_interrupt",
        "hrtimer_wakeup",
        "try_to_wake_up",
    ]);
    desktop.pump_all(0, 200);
    desktop.scene.switch(200 * MS + 50, 0, desktop.ui, Sleeping, ThreadId::IDLE, nap);
    desktop.scene.wake(700 * MS, 0, ThreadId::IDLE, desktop.ui, WakeFlags::HARDIRQ, timer);
    desktop.scene.switch(700 * MS + 9, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.pump_all(710, 800);
    let (stall, text) = judged(&desktop.scene.finish(2, 800 * MS));
    insta::assert_snapshot!("own_sleep", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.function.as_str()),
        (Pattern::TimerSleep, "retry")
    );
}
