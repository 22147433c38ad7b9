//! Hangs of many threads at once, each of which waits too seldom to have a rhythm of its own.

use crate::scene::{Scene, judged, stalls};
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::StallKind;
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;

/// Thirty threads of a pool, each of which asks a server three times, too seldom for a rhythm; then all
/// ask at 800 ms, and the server computes for 500 ms first. True in `stacks`: the usual waits have
/// their stacks, which may not be kept of waits so short.
fn pool_of_clients(stacks: bool) -> (Trace, Vec<ThreadId>, ThreadId) {
    const THREADS: u64 = 30;
    let mut scene = Scene::default();
    let server = scene.thread(500, 500, "server");
    let pool: Vec<ThreadId> =
        (0..THREADS).map(|i| scene.thread(100, 100 + i as u32, "pool")).collect();
    let receive = |scene: &mut Scene, own: &str| {
        scene.stack(&[
            "main",
            own,
            "recv",
            "|",
            "udp_recvmsg",
            "__skb_wait_for_more_packets",
            "schedule",
        ])
    };
    let [answer, request] = ["ask", "serve"].map(|own| receive(&mut scene, own));
    let rest = scene.stack(&["main", "nap", "|", "hrtimer_nanosleep", "do_nanosleep", "schedule"]);
    let timer = scene.stack(&["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    let send =
        scene.stack(&["main", "send", "|", "udp_sendmsg", "sock_def_readable", "try_to_wake_up"]);
    let ask = |scene: &mut Scene, thread: ThreadId, at: u64, wait: StackId| {
        scene.wake(at, 0, IDLE, thread, WakeFlags::HARDIRQ, timer);
        scene.switch(at + 10, 0, IDLE, Runnable, thread, StackId::EMPTY);
        scene.wake(at + 20, 0, thread, server, WakeFlags::default(), send);
        scene.switch(at + 30, 0, thread, Sleeping, IDLE, wait);
    };
    let go_on = |scene: &mut Scene, thread: ThreadId, at: u64| {
        scene.wake(at, 1, server, thread, WakeFlags::default(), send);
        scene.switch(at + 10, 0, IDLE, Runnable, thread, StackId::EMPTY);
        scene.switch(at + 20, 0, thread, Sleeping, IDLE, rest);
    };
    for (at, thread) in (0..3 * THREADS).map(|n| (n * 8 * MS, pool[(n % THREADS) as usize])) {
        ask(&mut scene, thread, at, if stacks { answer } else { StackId::EMPTY });
        scene.switch(at + 40, 1, IDLE, Runnable, server, StackId::EMPTY);
        go_on(&mut scene, thread, at + 2 * MS);
        scene.switch(at + 3 * MS, 1, server, Sleeping, IDLE, request);
    }
    for (n, thread) in pool.iter().enumerate() {
        ask(&mut scene, *thread, 800 * MS + n as u64 * 100, answer);
        go_on(&mut scene, *thread, 1_310 * MS + n as u64 * 100);
    }
    scene.switch(800 * MS + 40, 1, IDLE, Runnable, server, StackId::EMPTY);
    scene.switch(1_320 * MS, 1, server, Sleeping, IDLE, request);
    (scene.finish(2, 1_500 * MS), pool, server)
}

#[test]
fn the_threads_of_a_pool_have_one_rhythm() {
    for stacks in [true, false] {
        let (trace, pool, server) = pool_of_clients(stacks);
        let (stall, text) = judged(&trace);
        assert!(pool.contains(&stall.candidate.victim), "{text}");
        assert_eq!(
            (stall.candidate.kind, stall.finding.culprit),
            (StallKind::Rhythm, Some(server)),
            "{text}"
        );
        assert!(stall.waiters.len() + stall.victims.len() > 8, "{text}");
    }
}

/// Twenty threads of a program that shows parts of a film, 30 times; then they wait for a part that a
/// thread of the same program takes 500 ms to load. One that waits alone may wait for work.
#[test]
fn a_crowd_waits_for_a_thread_of_its_own_process() {
    for waiting in [20, 1] {
        let mut scene = Scene::default();
        let loader = scene.thread(100, 100, "loader");
        let [rest, wait, signal, timer, busy] = [
            &["main", "nap", "|", "hrtimer_nanosleep", "do_nanosleep", "schedule"][..],
            &["main", "show_film", "pthread_cond_wait", "|", "futex_wait", "schedule"],
            &["main", "load_when_told", "|", "futex_wake", "try_to_wake_up"],
            &["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"],
            &["main", "load_film"],
        ]
        .map(|names| scene.stack(names));
        let shows: Vec<ThreadId> = (0..20).map(|i| scene.thread(100, 200 + i, "show")).collect();
        for (at, show) in (0..30).flat_map(|round| shows.iter().map(move |show| (round, *show))) {
            let at = at * 20 * MS + u64::from(show.0) * 500;
            scene.wake(at, 0, IDLE, show, WakeFlags::HARDIRQ, timer);
            scene.switch(at + 10, 0, IDLE, Runnable, show, StackId::EMPTY);
            scene.switch(at + 60, 0, show, Sleeping, IDLE, rest);
        }
        scene.switch(610 * MS, 1, IDLE, Runnable, loader, StackId::EMPTY);
        (610..1_160).for_each(|ms| _ = scene.sample(ms * MS, 1, loader, busy));
        for (n, show) in shows.iter().take(waiting).enumerate() {
            let (at, end) = (640 * MS + n as u64 * 100, 1_150 * MS + n as u64 * 100);
            scene.wake(at, 0, IDLE, *show, WakeFlags::HARDIRQ, timer);
            scene.switch(at + 10, 0, IDLE, Runnable, *show, StackId::EMPTY);
            scene.switch(at + 20, 0, *show, Sleeping, IDLE, wait);
            scene.wake(end, 1, loader, *show, WakeFlags::default(), signal);
            scene.switch(end + 10, 0, IDLE, Runnable, *show, StackId::EMPTY);
            scene.switch(end + 20, 0, *show, Sleeping, IDLE, rest);
        }
        scene.switch(1_160 * MS, 1, loader, Sleeping, IDLE, rest);
        let trace = scene.finish(2, 2_000 * MS);
        if waiting == 1 {
            let stalls = stalls(&trace);
            let crowds = stalls.iter().filter(|stall| stall.candidate.kind == StallKind::Crowd);
            assert_eq!(crowds.count(), 0);
            continue;
        }
        let (stall, text) = judged(&trace);
        assert!(shows.contains(&stall.candidate.victim), "{text}");
        let found = (stall.candidate.kind, stall.finding.culprit);
        assert_eq!(found, (StallKind::Crowd, Some(loader)), "{text}");
        assert!(text.contains("load_film"), "{text}");
    }
}
