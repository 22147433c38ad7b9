//! Hangs behind many threads: saturated locks, convoys, herds, whole machines. Each test has its
//! own scene, and compares the whole answer word for word.

use crate::scene::{Desktop, Scene, judged};
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Rules};
use unhitch_analysis::{Query, Stall, StallKind};
use unhitch_model::{StackId, TaskState, ThreadId, Trace, WakeFlags};

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;

/// The event loop waits from 100 ms on behind `holders`, which hold the lock one after the other
/// for `hold_us` each, and release it in `release`.
fn handed_on(holders: usize, hold_us: u64, release: &[&str]) -> (Trace, ThreadId) {
    handed_on_beside(holders, hold_us, release, |_| ())
}

/// The same on CPUs 0 to 2, and `others` on further ones.
fn handed_on_beside(
    holders: usize,
    hold_us: u64,
    release: &[&str],
    others: impl FnOnce(&mut Scene),
) -> (Trace, ThreadId) {
    let mut desktop = Desktop::new();
    others(&mut desktop.scene);
    let scene = &mut desktop.scene;
    let wait = scene.stack(&[
        "main",
        "draw",
        "lock_session",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let release = scene.stack(release);
    let threads: Vec<ThreadId> = (0..holders as u32)
        .map(|index| scene.thread(1_000 + index, 1_000 + index, "worker"))
        .collect();
    let begin = 100 * MS + 50;
    let end = begin + holders as u64 * hold_us;
    let work = scene.stack(&["main", "serve", "render_page", "sort_items"]);
    for (index, &thread) in threads.iter().enumerate() {
        let (from, to) = (begin + index as u64 * hold_us, begin + (index as u64 + 1) * hold_us);
        if index > 0 {
            scene.switch(begin - 2 * index as u64 - 1, 2, IDLE, Runnable, thread, StackId::EMPTY);
            scene.switch(begin - 2 * index as u64, 2, thread, Sleeping, IDLE, wait);
            scene.wake(from, 1, threads[index - 1], thread, WakeFlags::default(), release);
            scene.switch(from + 1, 1, threads[index - 1], Sleeping, thread, desktop.poll);
        } else {
            scene.switch(begin - 10, 1, IDLE, Runnable, thread, StackId::EMPTY);
        }
        // One sample a millisecond.
        for sample in (from..to).filter(|at| at % 1_000 == 100) {
            scene.sample(sample, 1, thread, if hold_us < 1_000 { release } else { work });
        }
    }
    scene.switch(begin, 0, desktop.ui, Sleeping, IDLE, wait);
    let last = threads[holders - 1];
    scene.wake(end, 1, last, desktop.ui, WakeFlags::default(), release);
    scene.switch(end + 5, 1, last, Sleeping, IDLE, desktop.poll);
    scene.switch(end + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.pump_all(0, 100);
    let end_ms = end / MS / 10 * 10 + 10;
    desktop.pump_all(end_ms, end_ms + 100);
    let ui = desktop.ui;
    let mut trace = desktop.scene.finish(3, (end_ms + 100) * MS);
    trace.meta.sample_period_ns = 1_000_000;
    (trace, ui)
}

#[test]
fn saturated_lock() {
    let (trace, ui) = handed_on(
        1_000,
        200,
        &[
            "main",
            "serve",
            "close_session",
            "pthread_mutex_unlock",
            "|",
            "futex_wake",
            "try_to_wake_up",
        ],
    );
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("saturated_lock", text);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.victim, stall.finding.function.as_str()),
        (Pattern::SaturatedLock, ui, "close_session")
    );
}

#[test]
fn serialised_exit() {
    let (trace, _) = handed_on(
        1_000,
        200,
        &[
            "|",
            "do_group_exit",
            "do_exit",
            "exit_mm",
            "exit_mmap",
            "unlink_file_vma",
            "up_write",
            "rwsem_wake",
        ],
    );
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("serialised_exit", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.function.as_str()),
        (Pattern::SerializedExit, "unlink_file_vma")
    );
}

#[test]
fn lock_convoy() {
    let (trace, ui) = handed_on(
        30,
        10_000,
        &[
            "main",
            "serve",
            "render_page",
            "pthread_mutex_unlock",
            "|",
            "futex_wake",
            "try_to_wake_up",
        ],
    );
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("lock_convoy", text);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.victim, stall.finding.function.as_str()),
        (Pattern::LockConvoy, ui, "sort_items")
    );
}

/// Each hold is a small part of the whole, and all of them are the whole.
#[test]
fn regression_hundreds_of_holds_are_no_moments_on_the_way() {
    let unlock = ["main", "serve", "render_page", "pthread_mutex_unlock", "|", "futex_wake"];
    let (trace, _) = handed_on(600, 2_500, &unlock);
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.pattern, Pattern::LockConvoy, "{text}");
    assert!(text.contains("600 threads took one lock in turn, 2.5 ms each"), "{text}");
}

/// Two threads of another program hand off another lock to each other, once a millisecond, in
/// `release`.
fn another_lock(scene: &mut Scene, release: &[&str]) {
    let (one, other) =
        (scene.thread(5_000, 5_000, "stranger"), scene.thread(5_001, 5_001, "stranger"));
    let wait = scene.stack(&[
        "main",
        "log_line",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let release = scene.stack(release);
    scene.switch(50 * MS, 3, IDLE, Runnable, one, StackId::EMPTY);
    scene.switch(50 * MS, 4, IDLE, Runnable, other, StackId::EMPTY);
    for round in 0..160 {
        let at = (90 + 2 * round) * MS;
        for (from, sleeper, cpu, waker) in [(at, one, 3, other), (at + MS, other, 4, one)] {
            scene.switch(from, cpu, sleeper, Sleeping, IDLE, wait);
            scene.wake(from + 900, 7 - cpu, waker, sleeper, WakeFlags::default(), release);
            scene.switch(from + 910, cpu, IDLE, Runnable, sleeper, StackId::EMPTY);
        }
    }
}

/// "indexer" holds the lock from 50 to 1,100 ms. Ten workers, which waited for it, then hold it for
/// 20 ms each, but the ninth for 30 ms and the last for 2 ms; the event loop comes after all of
/// them, at 1,101 ms.
#[test]
fn regression_a_convoy_does_not_hide_that_its_culprit_had_waited_for_much_longer() {
    let mut desktop = Desktop::new();
    let scene = &mut desktop.scene;
    let indexer = scene.thread(900, 900, "indexer");
    let workers: Vec<ThreadId> =
        (0..10).map(|index| scene.thread(1_000 + index, 1_000 + index, "worker")).collect();
    let wait = scene.stack(&[
        "main",
        "draw",
        "lock_session",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let release = scene.stack(&[
        "main",
        "serve",
        "render_page",
        "pthread_mutex_unlock",
        "|",
        "futex_wake",
        "try_to_wake_up",
    ]);
    scene.switch(50 * MS, 1, IDLE, Runnable, indexer, StackId::EMPTY);
    let (mut before, mut at) = (indexer, 1_100 * MS);
    for (index, &worker) in workers.iter().enumerate() {
        let cpu = 2 + index as u16;
        let asleep = if index == 8 { 60 * MS } else { (101 + index as u64) * MS };
        scene.switch(asleep - 10, cpu, IDLE, Runnable, worker, StackId::EMPTY);
        scene.switch(asleep, cpu, worker, Sleeping, IDLE, wait);
        scene.wake(
            at,
            if index == 0 { 1 } else { cpu - 1 },
            before,
            worker,
            WakeFlags::default(),
            release,
        );
        scene.switch(at + 2, cpu, IDLE, Runnable, worker, StackId::EMPTY);
        scene.switch(at + 40 * MS, cpu, worker, Sleeping, IDLE, desktop.poll);
        (before, at) = (worker, at + [20, 30, 2][index.saturating_sub(7)] * MS);
    }
    scene.switch(1_101 * MS, 0, desktop.ui, Sleeping, IDLE, wait);
    scene.wake(at, 11, before, desktop.ui, WakeFlags::default(), release);
    scene.switch(at + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.pump_all(0, 1_100);
    desktop.pump_all(1_300, 1_400);
    let trace = desktop.scene.finish(12, 1_400 * MS);
    let analysis = Analysis::new(&trace, &Rules::default());
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let shown: Vec<_> = stalls
        .iter()
        .map(|stall| (stall.finding.pattern, stall.finding.culprit, stall.candidate.victim))
        .collect();
    let texts = unhitch_analysis::answer::text(&analysis, &stalls, 9);
    assert!(shown.contains(&(Pattern::LockConvoy, Some(workers[8]), desktop.ui)), "{texts}");
    assert!(shown.contains(&(Pattern::LongHold, Some(indexer), workers[8])), "{texts}");
}

/// Eight CPUs: seven compilers wait for a lock from 500 ms (each a little later) until
/// "checkpoint", on the eighth, releases it at 1,500 ms.
#[test]
fn regression_a_busy_lock_of_others_is_not_the_lock_that_was_waited_for() {
    let release = [
        "main",
        "serve",
        "render_page",
        "pthread_mutex_unlock",
        "|",
        "futex_wake",
        "try_to_wake_up",
    ];
    let (alone, _) = handed_on(30, 10_000, &release);
    let shown = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with("MACHINE"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let alone = shown(&judged(&alone).1);
    for foreign in [
        &["main", "log_line", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"][..],
        &[
            "|",
            "do_group_exit",
            "do_exit",
            "exit_mm",
            "exit_mmap",
            "unlink_file_vma",
            "up_write",
            "rwsem_wake",
        ],
    ] {
        let (beside, ui) =
            handed_on_beside(30, 10_000, &release, |scene| another_lock(scene, foreign));
        let (stall, text) = judged(&beside);
        assert_eq!(
            (stall.finding.pattern, stall.candidate.victim),
            (Pattern::LockConvoy, ui),
            "{text}"
        );
        assert_eq!(shown(&text), alone);
    }
}

/// Eight CPUs: seven compilers wait for a lock from 500 ms on (each `apart_ms` later) until
/// "checkpoint", on the eighth, releases it.
fn held_back(apart_ms: u64, until_ms: u64) -> (Trace, ThreadId) {
    let mut scene = Scene::default();
    let holder = scene.thread(4, 4, "checkpoint");
    let wait = scene.stack(&[
        "main",
        "write_object",
        "|",
        "ext4_file_write_iter",
        "down_write",
        "rwsem_down_write_slowpath",
        "schedule",
    ]);
    let release = scene.stack(&[
        "main",
        "checkpoint",
        "|",
        "sync_volume",
        "up_write",
        "rwsem_wake",
        "try_to_wake_up",
    ]);
    let search = scene.stack(&["main", "checkpoint", "|", "sync_volume", "find_clear_run"]);
    let rest =
        scene.stack(&["main", "run_event_loop", "|", "__x64_sys_poll", "do_sys_poll", "schedule"]);
    let compilers: Vec<ThreadId> =
        (0..7).map(|index| scene.thread(10 + index, 10 + index, "cc")).collect();
    scene.switch(10 * MS, 7, IDLE, Runnable, holder, StackId::EMPTY);
    for (index, &compiler) in compilers.iter().enumerate() {
        let cpu = index as u16;
        scene.switch(20 * MS, cpu, IDLE, Runnable, compiler, StackId::EMPTY);
        scene.switch((500 + apart_ms * index as u64) * MS, cpu, compiler, Sleeping, IDLE, wait);
        let woken = until_ms * MS + index as u64 * 300;
        let waker = if index == 0 { holder } else { compilers[index - 1] };
        scene.wake(
            woken,
            if index == 0 { 7 } else { cpu - 1 },
            waker,
            compiler,
            WakeFlags::default(),
            release,
        );
        scene.switch(woken + 10, cpu, IDLE, Runnable, compiler, StackId::EMPTY);
        scene.switch((until_ms + 400) * MS, cpu, compiler, Sleeping, IDLE, rest);
    }
    for sample in (501..until_ms).step_by(5) {
        scene.sample(sample * MS, 7, holder, search);
    }
    scene.switch((until_ms + 100) * MS, 7, holder, Sleeping, IDLE, rest);
    (scene.finish(8, (until_ms + 500) * MS), holder)
}

#[test]
fn whole_machine() {
    let (trace, holder) = held_back(30, 1_500);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("whole_machine", text);
    assert_eq!(
        (stall.candidate.kind, stall.finding.pattern, stall.finding.culprit),
        (StallKind::Machine, Pattern::LongHold, Some(holder))
    );
    let machine = stall.candidate.machine.as_ref().expect("the whole machine");
    assert_eq!(
        (machine.before.round(), machine.low.round(), machine.released.len(), machine.ended),
        (8.0, 1.0, 7, 0)
    );
    // The last of the seven is on its CPU 10 µs after it was woken, 1.8 ms after the first was.
    assert_eq!((machine.recovery_ns, machine.switches), (1_810_000, 7));
}

/// The event loop waits for the lock that "checkpoint" holds from 500 ms, seven compilers from
/// `compilers_wait_ms`, and all until 1.5 s. Before that, the event loop waits for it for 110 ms each
/// from `early_ms` on, while the compilers have the other CPUs. Returns the first stall, its text,
/// the event loop and the holder.
fn checkpoint(compilers_wait_ms: u64, early_ms: &[u64]) -> (Stall, String, [ThreadId; 2]) {
    let mut desktop = Desktop::new();
    let lock = ["|", "ext4_file_write_iter", "down_write", "rwsem_down_write_slowpath", "schedule"];
    let save = desktop.scene.stack(&[["main", "save_draft"].as_slice(), &lock].concat());
    let write = desktop.scene.stack(&[["main", "write_object"].as_slice(), &lock].concat());
    let release = desktop.scene.stack(&[
        "main",
        "checkpoint",
        "|",
        "sync_volume",
        "up_write",
        "rwsem_wake",
        "try_to_wake_up",
    ]);
    let scene = &mut desktop.scene;
    let holder = scene.thread(4, 4, "checkpoint");
    let compilers: Vec<ThreadId> =
        (0..7).map(|index| scene.thread(10 + index, 10 + index, "cc")).collect();
    scene.switch(10 * MS, 9, IDLE, Runnable, holder, StackId::EMPTY);
    for (cpu, &compiler) in (2..).zip(&compilers) {
        scene.switch(20 * MS, cpu, IDLE, Runnable, compiler, StackId::EMPTY);
    }
    let ui = desktop.ui;
    desktop.pump_all(0, early_ms.first().map_or(500, |begin| begin - 10));
    let scene = &mut desktop.scene;
    for (cpu, &compiler) in (2..).zip(&compilers) {
        let begin = compilers_wait_ms * MS + u64::from(cpu);
        scene.switch(begin, cpu, compiler, Sleeping, IDLE, write);
    }
    for begin in early_ms {
        scene.switch(begin * MS, 0, ui, Sleeping, IDLE, save);
        scene.wake((begin + 110) * MS, 9, holder, ui, WakeFlags::default(), release);
        scene.switch((begin + 110) * MS + 10, 0, IDLE, Runnable, ui, StackId::EMPTY);
    }
    scene.switch(500 * MS + 100, 0, ui, Sleeping, IDLE, save);
    for (order, (cpu, thread)) in
        (0..).zip(std::iter::once((0, ui)).chain((2..).zip(compilers.iter().copied())))
    {
        let woken = 1_500 * MS + order * 300;
        scene.wake(woken, 9, holder, thread, WakeFlags::default(), release);
        scene.switch(woken + 10, cpu, IDLE, Runnable, thread, StackId::EMPTY);
    }
    desktop.pump_all(1_510, 1_900);
    let trace = desktop.scene.finish(10, 1_900 * MS);
    let (stall, text) = judged(&trace);
    (stall, text, [ui, holder])
}

#[test]
fn an_event_loop_comes_before_the_whole_machine() {
    let (stall, text, [ui, holder]) = checkpoint(500, &[]);
    assert_eq!(
        (stall.candidate.victim, stall.finding.pattern, stall.finding.culprit),
        (ui, Pattern::LongHold, Some(holder)),
        "{text}"
    );
    assert!(stall.victims.len() > 7, "{text}");
}

#[test]
fn the_whole_absence_of_an_event_loop_is_reported() {
    let (stall, text, [ui, _]) = checkpoint(510, &[260, 380]);
    assert_eq!(
        (stall.candidate.victim, stall.candidate.kind),
        (ui, StallKind::EventLoop),
        "{text}"
    );
    assert!(stall.candidate.window.duration_ns() > 1_200 * MS, "{text}");
}

#[test]
fn a_machine_stalls_sooner_than_a_thread() {
    let (trace, holder) = held_back(1, 570);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.candidate.kind, stall.finding.culprit),
        (StallKind::Machine, Some(holder)),
        "{text}"
    );
    assert!(text.starts_with("STALL 70.0 ms  whole machine: 8 → 1 busy CPUs"), "{text}");
    // Waits of less than 50 ms are not reported, and neither is one of 70 ms of a single thread.
    for (trace, _) in [held_back(1, 549), held_back(60, 570)] {
        let analysis = Analysis::new(&trace, &Rules::default());
        assert_eq!(unhitch_analysis::diagnose(&analysis, &Query::default()), []);
    }
}

/// A waiter that sleeps 5 ms at a time, 100 times; `wake` ends each sleep, at the given time
/// (µs), with one of the `wakers`. They have their CPUs from 50 ms on, from CPU 1.
fn in_vain(
    wakers: &[&str],
    wake: impl Fn(&mut Scene, u64, ThreadId, &[ThreadId]),
) -> (Trace, Vec<ThreadId>) {
    in_vain_after(40, wakers, wake)
}

/// The same; the waiter runs for `look_us` before it sleeps again.
fn in_vain_after(
    look_us: u64,
    wakers: &[&str],
    wake: impl Fn(&mut Scene, u64, ThreadId, &[ThreadId]),
) -> (Trace, Vec<ThreadId>) {
    let mut desktop = Desktop::new();
    let wait = desktop.scene.stack(&[
        "main",
        "draw",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let wakers: Vec<ThreadId> =
        (300..).zip(wakers).map(|(id, name)| desktop.scene.thread(id, id, name)).collect();
    for (cpu, &thread) in (1..).zip(&wakers) {
        desktop.scene.switch(50 * MS, cpu, IDLE, Runnable, thread, StackId::EMPTY);
    }
    desktop.pump_all(0, 100);
    for round in 0..100 {
        let woken = (105 + round * 5) * MS;
        let slept = woken - 5 * MS + 10 + look_us;
        desktop.scene.switch(slept, 0, desktop.ui, Sleeping, IDLE, wait);
        wake(&mut desktop.scene, woken, desktop.ui, &wakers);
        desktop.scene.switch(woken + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
    }
    desktop.pump_all(610, 700);
    (desktop.scene.finish(12, 700 * MS), wakers)
}

#[test]
fn regression_who_runs_long_between_its_sleeps_may_have_had_the_lock() {
    for (look_us, evidence) in [(40, Evidence::Direct), (120, Evidence::Inferred)] {
        let (trace, _) = in_vain_after(look_us, &["server"], |scene, at, ui, wakers| {
            let unlock =
                ["main", "serve", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"];
            let unlock = scene.stack(&unlock);
            scene.wake(at, 1, wakers[0], ui, WakeFlags::default(), unlock);
        });
        let (stall, text) = judged(&trace);
        assert_eq!(stall.finding.pattern, Pattern::LockStarvation, "{text}");
        assert_eq!(stall.finding.evidence, evidence, "{text}");
    }
}

#[test]
fn a_herd_is_named() {
    let names = [
        "server", "worker", "worker", "worker", "worker", "worker", "worker", "worker", "worker",
        "worker",
    ];
    let (trace, wakers) = in_vain(&names, |scene, at, ui, wakers| {
        let unlock = scene.stack(&[
            "main",
            "serve",
            "pthread_mutex_unlock",
            "|",
            "futex_wake",
            "try_to_wake_up",
        ]);
        for &other in &wakers[1..] {
            scene.wake(at, 1, wakers[0], other, WakeFlags::default(), unlock);
        }
        scene.wake(at, 1, wakers[0], ui, WakeFlags::default(), unlock);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("herd", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::LockStarvation, Some(wakers[0]))
    );
    assert!(
        text.contains("a herd") && text.contains("wakes an average of 10 threads each time"),
        "{text}"
    );
}

#[test]
fn polling_is_told() {
    let (trace, _) = in_vain(&[], |scene, at, ui, _| {
        let timer = scene.stack(&[
            "|",
            "asm_sysvec_apic_timer_interrupt",
            "hrtimer_interrupt",
            "hrtimer_wakeup",
            "try_to_wake_up",
        ]);
        scene.wake(at, 0, IDLE, ui, WakeFlags::HARDIRQ, timer);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("poll", text);
    assert_eq!(stall.finding.pattern, Pattern::LockStarvation, "{text}");
    assert!(text.contains("It polled for a lock: its own timer woke it 100 times"), "{text}");
}

#[test]
fn regression_many_short_weak_steps_are_no_direct_evidence() {
    // Each sleep is a hundredth of the stall; a kernel worker ends 13 of them, or 7.
    for (every, evidence) in [(8, Evidence::Inferred), (16, Evidence::Direct)] {
        let (trace, wakers) = in_vain(&["server", "kworker/2:1"], |scene, at, ui, wakers| {
            let unlock = scene.stack(&[
                "main",
                "serve",
                "pthread_mutex_unlock",
                "|",
                "futex_wake",
                "try_to_wake_up",
            ]);
            let worker = usize::from((at / (5 * MS)).is_multiple_of(every));
            scene.wake(at, 1 + worker as u16, wakers[worker], ui, WakeFlags::default(), unlock);
        });
        let (stall, text) = judged(&trace);
        assert_eq!(
            (stall.finding.pattern, stall.finding.culprit),
            (Pattern::LockStarvation, Some(wakers[0])),
            "{text}"
        );
        assert_eq!(stall.finding.evidence, evidence, "{text}");
        assert_eq!(
            text.contains("wake-ups came from a soft interrupt or a kernel worker"),
            evidence == Evidence::Inferred,
            "{text}"
        );
    }
}

/// A waiter woken in vain by "keeper", which sleeps in its event loop from 5 µs after every release
/// to the next but for 100 µs before it; meanwhile "thief", on a third CPU, holds the lock if it
/// `steals`.
fn woken_by_a_sleeper(steals: bool) -> (Trace, [ThreadId; 3]) {
    let mut desktop = Desktop::new();
    let [keeper, thief] = [300, 400]
        .map(|id| desktop.scene.thread(id, id, if id == 300 { "keeper" } else { "thief" }));
    let (ui, poll, scene) = (desktop.ui, desktop.poll, &mut desktop.scene);
    let wait = scene.stack(&[
        "main",
        "draw",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let keeps = scene.stack(&[
        "main",
        "keep",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let [unlock, give] = ["keep", "steal"].map(|name| {
        scene.stack(&["main", name, "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"])
    });
    let timer = scene.stack(&[
        "|",
        "asm_sysvec_apic_timer_interrupt",
        "hrtimer_interrupt",
        "hrtimer_wakeup",
        "try_to_wake_up",
    ]);
    scene.switch(50 * MS, 1, IDLE, Runnable, keeper, StackId::EMPTY);
    scene.switch(50 * MS, 2, IDLE, Runnable, thief, StackId::EMPTY);
    for round in 0..100 {
        let woken = (105 + round * 5) * MS;
        scene.switch(woken - 5 * MS + 50, 0, ui, Sleeping, IDLE, wait);
        match steals {
            true => scene.wake(woken - 100, 2, thief, keeper, WakeFlags::default(), give),
            false => scene.wake(woken - 100, 1, IDLE, keeper, WakeFlags::HARDIRQ, timer),
        };
        if round > 0 {
            scene.switch(woken - 90, 1, IDLE, Runnable, keeper, StackId::EMPTY);
        }
        scene.wake(woken, 1, keeper, ui, WakeFlags::default(), unlock);
        scene.switch(woken + 5, 1, keeper, Sleeping, IDLE, if steals { keeps } else { poll });
        scene.switch(woken + 10, 0, IDLE, Runnable, ui, StackId::EMPTY);
    }
    desktop.pump_all(0, 100);
    desktop.pump_all(610, 700);
    (desktop.scene.finish(3, 700 * MS), [ui, keeper, thief])
}

#[test]
fn regression_who_sleeps_when_the_waiter_comes_has_not_been_seen_to_take_the_lock() {
    let (trace, [_, keeper, _]) = woken_by_a_sleeper(false);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::LockStarvation, Some(keeper)),
        "{text}"
    );
    assert_eq!(stall.finding.evidence, Evidence::Inferred);
    assert!(text.contains("and seems to have taken it again before the waiter runs: after 0 of 99 wake-ups in vain"), "{text}");
    assert!(!text.contains("and has taken it again"), "{text}");
}

#[test]
fn regression_a_third_thread_that_takes_the_lock_is_named() {
    let (trace, [_, keeper, thief]) = woken_by_a_sleeper(true);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("a_thief", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::LockStarvation, Some(thief)),
        "{text}"
    );
    assert_ne!(stall.finding.culprit, Some(keeper));
}

/// The event loop sleeps in `wait` from 100 to 600 ms; `meanwhile` fills the scene.
fn asleep(wait: &[&str], state: TaskState, meanwhile: impl FnOnce(&mut Scene, ThreadId)) -> Trace {
    let mut desktop = Desktop::new();
    let wait = desktop.scene.stack(wait);
    desktop.pump_all(0, 100);
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, state, IDLE, wait);
    meanwhile(&mut desktop.scene, desktop.ui);
    desktop.scene.switch(600 * MS + 9, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
    desktop.pump_all(610, 700);
    desktop.scene.finish(2, 700 * MS)
}

#[test]
fn slow_disk() {
    let wait = ["main", "save", "|", "ext4_sync_file", "jbd2_log_wait_commit", "io_schedule"];
    let trace = asleep(&wait, TaskState::DiskSleep, |scene, ui| {
        let completion = scene.stack(&[
            "|",
            "asm_common_interrupt",
            "blk_mq_complete_request",
            "bio_endio",
            "try_to_wake_up",
        ]);
        scene.wake(600 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, completion);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("slow_disk", text);
    assert_eq!((stall.finding.pattern, stall.finding.function.as_str()), (Pattern::IoWait, "save"));
}

/// Nine waits of 50 ms for the disk, and between them one of 40 ms for a lock in the file system, whose
/// owner also waits for the disk: `victims_wait` is the lock's, and the hang is the disk's.
#[test]
fn regression_many_waits_for_the_disk_and_one_for_a_lock_are_a_slow_disk() {
    let locked = ["main", "save", "|", "ext4_sync_file", "__wait_on_bit_lock", "bit_wait_io"];
    let trace = asleep(&locked, Sleeping, |scene, ui| {
        let flusher = scene.thread(400, 400, "flusher");
        let sync = ["main", "save", "|", "ext4_sync_file", "jbd2_log_wait_commit", "io_schedule"];
        let (sync, commit) =
            (scene.stack(&sync), scene.stack(&["main", "commit", "|", "io_schedule"]));
        let done = ["|", "asm_common_interrupt", "blk_mq_complete_request", "bio_endio"];
        let done = scene.stack(&done);
        let unlock = scene.stack(&["main", "commit", "|", "unlock_buffer", "wake_up_bit"]);
        scene.switch(90 * MS, 1, IDLE, Runnable, flusher, StackId::EMPTY);
        scene.switch(101 * MS, 1, flusher, TaskState::DiskSleep, IDLE, commit);
        scene.wake(139 * MS, 1, IDLE, flusher, WakeFlags::HARDIRQ, done);
        scene.switch(139 * MS + 10, 1, IDLE, Runnable, flusher, StackId::EMPTY);
        scene.wake(140 * MS, 1, flusher, ui, WakeFlags::default(), unlock);
        scene.switch(140 * MS + 10, 0, IDLE, Runnable, ui, StackId::EMPTY);
        for at in (141..=549).step_by(51) {
            scene.switch(at * MS, 0, ui, TaskState::DiskSleep, IDLE, sync);
            scene.wake((at + 50) * MS, 0, IDLE, ui, WakeFlags::HARDIRQ, done);
            if at < 549 {
                scene.switch((at + 50) * MS + 10, 0, IDLE, Runnable, ui, StackId::EMPTY);
            }
        }
    });
    let (stall, text) = judged(&trace);
    let found = (stall.finding.pattern, stall.finding.function.as_str());
    assert_eq!(found, (Pattern::IoWait, "save"), "{text}");
    assert!(text.contains("jbd2_log_wait_commit"), "where the disk was waited for: {text}");
}

/// The client reads from a socket until the server, which waits for the disk, has answered.
#[test]
fn regression_the_function_behind_a_slow_disk_is_the_servers() {
    let read = ["main", "ask", "recv", "|", "tcp_recvmsg", "sk_wait_data", "schedule"];
    let trace = asleep(&read, Sleeping, |scene, ui| {
        let server = scene.thread(400, 400, "server");
        let fsync =
            ["main", "commit", "|", "ext4_sync_file", "jbd2_log_wait_commit", "io_schedule"];
        let fsync = scene.stack(&fsync);
        let reply = scene.stack(&["main", "answer", "send", "|", "sock_def_readable"]);
        let done = ["|", "asm_common_interrupt", "blk_mq_complete_request", "bio_endio"];
        let done = scene.stack(&done);
        scene.switch(90 * MS, 1, IDLE, Runnable, server, StackId::EMPTY);
        scene.switch(110 * MS, 1, server, TaskState::DiskSleep, IDLE, fsync);
        scene.wake(590 * MS, 1, IDLE, server, WakeFlags::HARDIRQ, done);
        scene.switch(590 * MS + 10, 1, IDLE, Runnable, server, StackId::EMPTY);
        scene.wake(600 * MS, 1, server, ui, WakeFlags::default(), reply);
    });
    let (stall, text) = judged(&trace);
    let found = (stall.finding.pattern, stall.finding.function.as_str());
    assert_eq!(found, (Pattern::IoWait, "commit"), "{text}");
}

#[test]
fn slow_memory() {
    let wait = [
        "main",
        "draw",
        "|",
        "asm_exc_page_fault",
        "handle_mm_fault",
        "do_swap_page",
        "folio_wait_bit_common",
        "io_schedule",
    ];
    let trace = asleep(&wait, TaskState::DiskSleep, |scene, ui| {
        let completion = scene.stack(&[
            "|",
            "asm_common_interrupt",
            "blk_mq_complete_request",
            "bio_endio",
            "try_to_wake_up",
        ]);
        scene.wake(600 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, completion);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("slow_memory", text);
    assert_eq!((stall.finding.pattern, stall.finding.function.as_str()), (Pattern::Memory, "draw"));
}

/// The kernel lets who writes too fast sleep, by its own timer, until others have written to the disk.
#[test]
fn who_is_let_sleep_for_the_dirty_pages_of_others_is_not_the_culprit_for_sure() {
    let wait = ["main", "save", "|", "ksys_write", "balance_dirty_pages", "io_schedule_timeout"];
    let trace = asleep(&wait, TaskState::DiskSleep, |scene, ui| {
        let timer =
            scene.stack(&["|", "asm_common_interrupt", "process_timeout", "try_to_wake_up"]);
        scene.wake(600 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, timer);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.pattern, Pattern::Memory, "{text}");
    assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
}

/// A thread called `name` waits in `wait` from 100 to 600 ms, ended by "other", which computes
/// meanwhile; then it wakes "waiter", if there is one, which has waited in a file system since 110
/// ms.
fn beside_another(
    name: &str,
    state: TaskState,
    wait: &[&str],
    waiter: bool,
) -> (Trace, [ThreadId; 3]) {
    let mut scene = Scene::default();
    let [victim, other, third] =
        [(300, name), (400, "other"), (500, "waiter")].map(|(id, name)| scene.thread(id, id, name));
    let wait = scene.stack(wait);
    let busy = scene.stack(&["main", "sort_everything"]);
    let wake = scene.stack(&["main", "take", "|", "anon_pipe_read", "try_to_wake_up"]);
    let done = scene.stack(&[
        "|",
        "kthread",
        "worker_thread",
        "process_one_work",
        "complete",
        "try_to_wake_up",
    ]);
    let asked =
        scene.stack(&["main", "ask", "|", "ext4_sync_file", "jbd2_log_wait_commit", "schedule"]);
    scene.switch(50 * MS, 0, IDLE, Runnable, victim, StackId::EMPTY);
    scene.switch(60 * MS, 1, IDLE, Runnable, other, StackId::EMPTY);
    scene.switch(100 * MS, 0, victim, state, if waiter { third } else { IDLE }, wait);
    if waiter {
        scene.switch(110 * MS, 0, third, Sleeping, IDLE, asked);
    }
    (0..100).for_each(|sample| {
        scene.sample((100 + sample * 5) * MS, 1, other, busy);
    });
    scene.wake(600 * MS, 1, other, victim, WakeFlags::default(), wake);
    scene.switch(600 * MS + 9, 0, IDLE, Runnable, victim, StackId::EMPTY);
    if waiter {
        scene.wake(601 * MS, 0, victim, third, WakeFlags::default(), done);
    }
    scene.switch(602 * MS, 0, victim, Sleeping, if waiter { third } else { IDLE }, wait);
    (scene.finish(2, 700 * MS), [victim, other, third])
}

fn victims_of_unwanted_waits(trace: &Trace) -> Vec<(ThreadId, Option<ThreadId>)> {
    let rules = Rules::default();
    let stalls = unhitch_analysis::diagnose(&Analysis::new(trace, &rules), &Query::default());
    let unwanted = stalls.iter().filter(|stall| stall.candidate.kind == StallKind::UnwantedWait);
    unwanted.map(|stall| (stall.candidate.victim, stall.finding.culprit)).collect()
}

#[test]
fn regression_housekeeping_that_nobody_waits_for_is_no_stall() {
    let wait = [
        "|",
        "kthread",
        "worker_thread",
        "page_reporting_process",
        "virtballoon_free_page_report",
        "schedule",
    ];
    let (trace, _) = beside_another("kworker/0:1", TaskState::DiskSleep, &wait, false);
    assert_eq!(victims_of_unwanted_waits(&trace), [], "nobody waited for it");
    let wait = [
        "|",
        "kthread",
        "worker_thread",
        "process_one_work",
        "wb_workfn",
        "submit_bio_wait",
        "io_schedule",
    ];
    let (trace, [_, _, waiter]) = beside_another("kworker/0:1", TaskState::DiskSleep, &wait, true);
    let victims = victims_of_unwanted_waits(&trace);
    assert!(
        victims.iter().any(|(victim, _)| *victim == waiter),
        "a program waited for it: {victims:?}"
    );
}

#[test]
fn regression_writing_into_a_full_pipe_is_a_stall_and_reading_an_empty_one_is_none() {
    let wait = ["main", "send", "|", "vfs_write", "anon_pipe_write", "schedule"];
    let (trace, [writer, reader, _]) = beside_another("writer", Sleeping, &wait, false);
    assert_eq!(victims_of_unwanted_waits(&trace), [(writer, Some(reader))]);
    let wait = ["main", "receive", "|", "vfs_read", "anon_pipe_read", "schedule"];
    let (trace, _) = beside_another("reader", Sleeping, &wait, false);
    assert_eq!(victims_of_unwanted_waits(&trace), []);
}

/// "keeper" holds the lock that the event loop waits for, and is stopped in `state` on a stack with
/// `stop` from 110 ms to 590 ms, when "shell" continues it in `go_on`.
fn stopped(state: TaskState, stop: &[&str], go_on: &[&str]) -> (Trace, ThreadId) {
    let wait = [
        "main",
        "draw",
        "lock_cache",
        "pthread_mutex_lock",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ];
    let mut keeper = IDLE;
    let trace = asleep(&wait, Sleeping, |scene, ui| {
        keeper = scene.thread(300, 300, "keeper");
        let shell = scene.thread(400, 400, "shell");
        let stop =
            scene.stack(&[&["main", "keep", "|", "get_signal"][..], stop, &["schedule"]].concat());
        let go_on = scene.stack(&[&["main"][..], go_on, &["try_to_wake_up"]].concat());
        let unlock = scene.stack(&[
            "main",
            "keep",
            "unlock_cache",
            "pthread_mutex_unlock",
            "|",
            "futex_wake",
            "try_to_wake_up",
        ]);
        scene.switch(50 * MS, 1, IDLE, Runnable, keeper, StackId::EMPTY);
        scene.switch(110 * MS, 1, keeper, state, shell, stop);
        scene.wake(590 * MS, 1, shell, keeper, WakeFlags::default(), go_on);
        scene.switch(590 * MS + 10, 1, shell, Sleeping, keeper, StackId::EMPTY);
        scene.wake(600 * MS, 1, keeper, ui, WakeFlags::default(), unlock);
        scene.switch(605 * MS, 1, keeper, Sleeping, IDLE, StackId::EMPTY);
    });
    (trace, keeper)
}

#[test]
fn stopped_holder() {
    let kill = ["kill", "|", "kill_something_info", "signal_wake_up_state"];
    let (trace, keeper) = stopped(TaskState::Stopped, &["do_signal_stop"], &kill);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("stopped_holder", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit, stall.finding.function.as_str()),
        (Pattern::Stopped, Some(keeper), "keep")
    );
}

#[test]
fn stopped_by_a_tracer_or_the_freezer() {
    let resume = ["resume", "|", "ptrace_resume", "wake_up_state"];
    let (trace, keeper) = stopped(TaskState::Traced, &["ptrace_stop"], &resume);
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::Stopped, Some(keeper)),
        "{text}"
    );
    assert!(text.contains("keeper 300 was stopped by its tracer shell 400."), "{text}");

    let thaw = ["thaw", "|", "cgroup_freeze_write", "wake_up_process"];
    let (trace, keeper) = stopped(Sleeping, &["do_freezer_trap"], &thaw);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("frozen_holder", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::Stopped, Some(keeper)),
        "{text}"
    );
}

#[test]
fn a_peer_that_computes() {
    let wait = [
        "main",
        "ask",
        "|",
        "__x64_sys_recvfrom",
        "unix_stream_recvmsg",
        "unix_stream_data_wait",
        "schedule",
    ];
    let mut server = IDLE;
    let trace = asleep(&wait, Sleeping, |scene, ui| {
        server = scene.thread(300, 300, "server");
        let busy = scene.stack(&["main", "serve", "sort_everything"]);
        let reply = scene.stack(&[
            "main",
            "serve",
            "|",
            "unix_stream_sendmsg",
            "sock_def_readable",
            "try_to_wake_up",
        ]);
        scene.switch(50 * MS, 1, IDLE, Runnable, server, StackId::EMPTY);
        (0..100).for_each(|sample| {
            scene.sample((100 + sample * 5) * MS, 1, server, busy);
        });
        scene.wake(600 * MS, 1, server, ui, WakeFlags::default(), reply);
        scene.switch(605 * MS, 1, server, Sleeping, IDLE, StackId::EMPTY);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("a_peer_that_computes", text);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit, stall.finding.function.as_str()),
        (Pattern::CpuBound, Some(server), "sort_everything")
    );
}
