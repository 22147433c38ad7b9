//! Hangs behind many: saturated locks, convoys, herds, whole machines; each a scene made for it, the whole answer word for word.

mod scene;

use TaskState::{Runnable, Sleeping};
use scene::{Desktop, Scene, judged};
use unhitch_analysis::patterns::Pattern;
use unhitch_analysis::stalls::StallKind;
use unhitch_model::{StackId, TaskState, ThreadId, Trace, WakeFlags};

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;

/// The event loop waits from 100 ms on behind `holders`, who take the lock one after the other for `hold_us` each, in `release`.
fn handed_on(holders: usize, hold_us: u64, release: &[&str]) -> (Trace, ThreadId) {
    let mut desktop = Desktop::new();
    let scene = &mut desktop.scene;
    let wait = scene.stack(&["main", "draw", "lock_session", "pthread_mutex_lock", "|", "do_futex", "futex_wait", "schedule"]);
    let release = scene.stack(release);
    let threads: Vec<ThreadId> = (0..holders as u32).map(|index| scene.thread(1_000 + index, 1_000 + index, "worker")).collect();
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
    let (trace, ui) =
        handed_on(1_000, 200, &["main", "serve", "close_session", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"]);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("saturated_lock", text);
    assert_eq!(
        (stall.finding.pattern, stall.candidate.victim, stall.finding.function.as_str()),
        (Pattern::SaturatedLock, ui, "close_session")
    );
}

#[test]
fn serialised_exit() {
    let (trace, _) =
        handed_on(1_000, 200, &["|", "do_group_exit", "do_exit", "exit_mm", "exit_mmap", "unlink_file_vma", "up_write", "rwsem_wake"]);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("serialised_exit", text);
    assert_eq!((stall.finding.pattern, stall.finding.function.as_str()), (Pattern::SerializedExit, "unlink_file_vma"));
}

#[test]
fn lock_convoy() {
    let (trace, ui) = handed_on(30, 10_000, &["main", "serve", "render_page", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"]);
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("lock_convoy", text);
    assert_eq!((stall.finding.pattern, stall.candidate.victim, stall.finding.function.as_str()), (Pattern::LockConvoy, ui, "sort_items"));
}

/// Eight CPUs: seven compilers wait for a lock from 500 ms (each a little later) until "checkpoint", on the eighth, lets it go at 1,500 ms.
#[test]
fn whole_machine() {
    let mut scene = Scene::default();
    let holder = scene.thread(4, 4, "checkpoint");
    let wait = scene.stack(&["main", "write_object", "|", "ext4_file_write_iter", "down_write", "rwsem_down_write_slowpath", "schedule"]);
    let release = scene.stack(&["main", "checkpoint", "|", "sync_volume", "up_write", "rwsem_wake", "try_to_wake_up"]);
    let search = scene.stack(&["main", "checkpoint", "|", "sync_volume", "find_clear_run"]);
    let rest = scene.stack(&["main", "run_event_loop", "|", "__x64_sys_poll", "do_sys_poll", "schedule"]);
    let compilers: Vec<ThreadId> = (0..7).map(|index| scene.thread(10 + index, 10 + index, "cc")).collect();
    scene.switch(10 * MS, 7, IDLE, Runnable, holder, StackId::EMPTY);
    for (index, &compiler) in compilers.iter().enumerate() {
        let cpu = index as u16;
        scene.switch(20 * MS, cpu, IDLE, Runnable, compiler, StackId::EMPTY);
        scene.switch((500 + 30 * index as u64) * MS, cpu, compiler, Sleeping, IDLE, wait);
        let woken = 1_500 * MS + index as u64 * 300;
        let waker = if index == 0 { holder } else { compilers[index - 1] };
        scene.wake(woken, if index == 0 { 7 } else { cpu - 1 }, waker, compiler, WakeFlags::default(), release);
        scene.switch(woken + 10, cpu, IDLE, Runnable, compiler, StackId::EMPTY);
        scene.switch(1_900 * MS, cpu, compiler, Sleeping, IDLE, rest);
    }
    for sample in 0..200 {
        scene.sample((501 + sample * 5) * MS, 7, holder, search);
    }
    scene.switch(1_600 * MS, 7, holder, Sleeping, IDLE, rest);
    let (stall, text) = judged(&scene.finish(8, 2_000 * MS));
    insta::assert_snapshot!("whole_machine", text);
    assert_eq!((stall.candidate.kind, stall.finding.pattern, stall.finding.culprit), (StallKind::Machine, Pattern::LongHold, Some(holder)));
    let machine = stall.candidate.machine.as_ref().expect("the whole machine");
    assert_eq!((machine.before.round(), machine.low.round(), machine.released.len(), machine.ended), (8.0, 1.0, 7, 0));
}

/// A waiter that sleeps 5 ms at a time, 100 times; `wake` says who ends each sleep, at the given time (µs).
fn in_vain(wake: impl Fn(&mut Scene, u64, ThreadId)) -> Trace {
    let mut desktop = Desktop::new();
    let wait = desktop.scene.stack(&["main", "draw", "pthread_mutex_lock", "|", "do_futex", "futex_wait", "schedule"]);
    desktop.pump_all(0, 100);
    for round in 0..100 {
        let woken = (105 + round * 5) * MS;
        desktop.scene.switch(woken - 5 * MS + 50, 0, desktop.ui, Sleeping, IDLE, wait);
        wake(&mut desktop.scene, woken, desktop.ui);
        desktop.scene.switch(woken + 10, 0, IDLE, Runnable, desktop.ui, StackId::EMPTY);
    }
    desktop.pump_all(610, 700);
    desktop.scene.finish(2, 700 * MS)
}

#[test]
fn a_herd_is_told() {
    let trace = in_vain(|scene, at, ui| {
        let unlock = scene.stack(&["main", "serve", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"]);
        let server = scene.thread(300, 300, "server");
        for other in 0..9 {
            let other = scene.thread(400 + other, 400 + other, "worker");
            scene.wake(at, 1, server, other, WakeFlags::default(), unlock);
        }
        scene.wake(at, 1, server, ui, WakeFlags::default(), unlock);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.pattern, Pattern::LockStarvation);
    assert!(text.contains("a herd") && text.contains("wakes 10 threads for it each time"), "{text}");
}

#[test]
fn polling_is_told() {
    let trace = in_vain(|scene, at, ui| {
        let timer = scene.stack(&["|", "asm_sysvec_apic_timer_interrupt", "hrtimer_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
        scene.wake(at, 0, IDLE, ui, WakeFlags::HARDIRQ, timer);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.pattern, Pattern::LockStarvation, "{text}");
    assert!(text.contains("It polled for a lock: its own timer woke it 100 times"), "{text}");
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
        let completion = scene.stack(&["|", "asm_common_interrupt", "blk_mq_complete_request", "bio_endio", "try_to_wake_up"]);
        scene.wake(600 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, completion);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("slow_disk", text);
    assert_eq!((stall.finding.pattern, stall.finding.function.as_str()), (Pattern::IoWait, "save"));
}

#[test]
fn slow_memory() {
    let wait = ["main", "draw", "|", "asm_exc_page_fault", "handle_mm_fault", "do_swap_page", "folio_wait_bit_common", "io_schedule"];
    let trace = asleep(&wait, TaskState::DiskSleep, |scene, ui| {
        let completion = scene.stack(&["|", "asm_common_interrupt", "blk_mq_complete_request", "bio_endio", "try_to_wake_up"]);
        scene.wake(600 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, completion);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("slow_memory", text);
    assert_eq!((stall.finding.pattern, stall.finding.function.as_str()), (Pattern::Memory, "draw"));
}

#[test]
fn stopped_holder() {
    let wait = ["main", "draw", "lock_cache", "pthread_mutex_lock", "|", "do_futex", "futex_wait", "schedule"];
    let mut keeper = IDLE;
    let trace = asleep(&wait, Sleeping, |scene, ui| {
        keeper = scene.thread(300, 300, "keeper");
        let shell = scene.thread(400, 400, "shell");
        let stop = scene.stack(&["main", "keep", "|", "get_signal", "do_signal_stop", "schedule"]);
        let kill = scene.stack(&["main", "kill", "|", "kill_something_info", "signal_wake_up_state", "try_to_wake_up"]);
        let unlock = scene.stack(&["main", "keep", "unlock_cache", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"]);
        scene.switch(50 * MS, 1, IDLE, Runnable, keeper, StackId::EMPTY);
        scene.switch(110 * MS, 1, keeper, TaskState::Stopped, shell, stop);
        scene.wake(590 * MS, 1, shell, keeper, WakeFlags::default(), kill);
        scene.switch(590 * MS + 10, 1, shell, Sleeping, keeper, StackId::EMPTY);
        scene.wake(600 * MS, 1, keeper, ui, WakeFlags::default(), unlock);
        scene.switch(605 * MS, 1, keeper, Sleeping, IDLE, StackId::EMPTY);
    });
    let (stall, text) = judged(&trace);
    insta::assert_snapshot!("stopped_holder", text);
    assert_eq!((stall.finding.pattern, stall.finding.culprit, stall.finding.function.as_str()), (Pattern::Stopped, Some(keeper), "keep"));
}

#[test]
fn a_peer_that_computes() {
    let wait = ["main", "ask", "|", "__x64_sys_recvfrom", "unix_stream_recvmsg", "unix_stream_data_wait", "schedule"];
    let mut server = IDLE;
    let trace = asleep(&wait, Sleeping, |scene, ui| {
        server = scene.thread(300, 300, "server");
        let busy = scene.stack(&["main", "serve", "sort_everything"]);
        let reply = scene.stack(&["main", "serve", "|", "unix_stream_sendmsg", "sock_def_readable", "try_to_wake_up"]);
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
