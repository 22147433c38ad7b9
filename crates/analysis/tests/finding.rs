//! Hangs that nobody asked about: found by a break in rhythm, as a command's life, or from the
//! culprit's side; and what is no hang although it looks like one.

use crate::scene::{Scene, judged, stalls};
use TaskState::{Dead, Runnable, Sleeping};
use unhitch_analysis::patterns::Pattern;
use unhitch_analysis::{Analysis, Query, Rules, Stall, StallKind, answer, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
/// Where clients wait for a reply.
const REPLY: [&[&str]; 6] = [
    &["main", "query", "recv", "|", "unix_stream_data_wait", "schedule"],
    &["main", "query", "recv", "|", "sk_wait_data", "wait_woken"],
    &["main", "query", "epoll_wait", "|", "do_epoll_wait", "schedule"],
    &["main", "query", "pthread_cond_wait", "|", "do_futex", "futex_wait", "schedule"],
    &["main", "query", "read", "|", "pipe_read", "schedule"],
    &["main", "query", "sem_wait", "|", "do_futex", "futex_wait", "schedule"],
];

/// A client that asks its server something every 20 ms, and sleeps in between.
struct Dialogue {
    scene: Scene,
    client: ThreadId,
    server: ThreadId,
    wait: StackId,
    pump: StackId,
    sleep: StackId,
    timer: StackId,
    send: StackId,
    answer: StackId,
    busy: StackId,
    at: u64,
}

impl Dialogue {
    fn new(wait: &[&str]) -> Self {
        let mut scene = Scene::default();
        let (client, server) = (scene.thread(100, 100, "client"), scene.thread(200, 200, "server"));
        let kernel = |scene: &mut Scene, names: &[&str]| scene.stack(names);
        Self {
            client,
            server,
            wait: if wait.is_empty() { StackId::EMPTY } else { kernel(&mut scene, wait) },
            pump: kernel(
                &mut scene,
                &["main", "serve", "epoll_wait", "|", "do_epoll_wait", "schedule"],
            ),
            sleep: kernel(&mut scene, &["main", "rest", "|", "do_nanosleep", "schedule"]),
            timer: kernel(&mut scene, &["|", "hrtimer_wakeup", "try_to_wake_up"]),
            send: kernel(
                &mut scene,
                &["main", "query", "|", "unix_stream_sendmsg", "try_to_wake_up"],
            ),
            answer: kernel(
                &mut scene,
                &["main", "reply", "|", "unix_stream_sendmsg", "try_to_wake_up"],
            ),
            busy: kernel(&mut scene, &["main", "sort_rows"]),
            at: 10 * MS,
            scene,
        }
    }

    /// The client asks, gets its answer after `serve_us`, and sleeps for `rest_us`.
    fn ask(&mut self, serve_us: u64, rest_us: u64) {
        let (at, replied) = (self.at, self.at + 20 + serve_us);
        let (client, server) = (self.client, self.server);
        let scene = &mut self.scene;
        scene.wake(at, 0, client, server, WakeFlags::default(), self.send);
        scene.switch(at + 10, 0, client, Sleeping, IDLE, self.wait);
        scene.switch(at + 20, 1, IDLE, Runnable, server, StackId::EMPTY);
        for sample in (at + 20..replied).step_by(5_000).skip(1) {
            scene.sample(sample, 1, server, self.busy);
        }
        scene.wake(replied, 1, server, client, WakeFlags::default(), self.answer);
        scene.switch(replied + 10, 1, server, Sleeping, IDLE, self.pump);
        scene.switch(replied + 15, 0, IDLE, Runnable, client, StackId::EMPTY);
        self.rest(replied + 50, rest_us);
    }

    /// The client sleeps by its own timer.
    fn rest(&mut self, at: u64, rest_us: u64) {
        self.at = at + rest_us;
        self.scene.switch(at, 0, self.client, Sleeping, IDLE, self.sleep);
        self.scene.wake(self.at - 20, 0, IDLE, self.client, WakeFlags::HARDIRQ, self.timer);
        self.scene.switch(self.at - 10, 0, IDLE, Runnable, self.client, StackId::EMPTY);
    }

    fn ask_often(&mut self, times: usize) {
        (0..times).for_each(|_| self.ask(200, 20 * MS));
    }

    fn finish(self) -> Trace {
        self.scene.finish(3, self.at + 10 * MS)
    }
}

#[test]
fn a_client_whose_server_computed_for_once_is_found_wherever_it_waits() {
    for wait in REPLY {
        let mut dialogue = Dialogue::new(wait);
        let (client, server) = (dialogue.client, dialogue.server);
        dialogue.ask_often(20);
        dialogue.ask(1_000 * MS, 20 * MS);
        dialogue.ask_often(10);
        let found = stalls(&dialogue.finish());
        assert_eq!(found.len(), 1, "one hang, both sides joined: {wait:?}");
        let stall = &found[0];
        assert!(stall.victims.contains(&client), "{wait:?}");
        assert!(!stall.candidate.event_loop, "it would have seen to any event: {wait:?}");
        assert_eq!(
            (stall.finding.pattern, stall.finding.culprit, stall.finding.function.as_str()),
            (Pattern::CpuBound, Some(server), "sort_rows"),
            "{wait:?}"
        );
        let ms = stall.explanation.window.duration_ns() / 1_000_000;
        assert!((1_000..1_025).contains(&ms), "{ms} ms");
    }
}

#[test]
fn a_break_is_found_where_only_the_long_wait_has_a_stack() {
    let mut dialogue = Dialogue::new(&[]);
    let reply = dialogue.scene.stack(REPLY[0]);
    let sleep = std::mem::take(&mut dialogue.sleep);
    dialogue.ask_often(20);
    (dialogue.wait, dialogue.sleep) = (reply, sleep);
    dialogue.ask(1_000 * MS, 20 * MS);
    (dialogue.wait, dialogue.sleep) = (StackId::EMPTY, StackId::EMPTY);
    dialogue.ask_often(10);
    let (client, server) = (dialogue.client, dialogue.server);
    let found = stalls(&dialogue.finish());
    assert!(found[0].victims.contains(&client));
    assert_eq!(found[0].finding.culprit, Some(server));
}

#[test]
fn who_rests_for_longer_for_once_stalls_nobody() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    dialogue.ask_often(20);
    dialogue.ask(200, 1_000 * MS);
    dialogue.ask_often(10);
    assert!(stalls(&dialogue.finish()).is_empty(), "neither the client nor its idle server");
}

#[test]
fn two_breaks_in_five_cycles_are_no_rhythm() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    let server = dialogue.server;
    dialogue.ask_often(3);
    dialogue.ask(1_000 * MS, 20 * MS);
    dialogue.ask_often(2);
    let rhythms = |stall: &Stall| stall.candidate.kind == StallKind::Rhythm;
    let found = stalls(&dialogue.finish());
    assert!(!found.iter().any(rhythms));
    assert_eq!(found[0].candidate.victim, server, "its own absence from its pump is seen");
}

/// "reader" reads from a pipe what "writer" writes every 10 ms, but for once not for 1 s, in which
/// the writer computes. If `asks`, the reader wakes the writer each time.
fn pipeline(asks: bool) -> Vec<Stall> {
    let mut scene = Scene::default();
    let (reader, writer) = (scene.thread(100, 100, "reader"), scene.thread(200, 200, "writer"));
    let read = scene.stack(&["main", "filter", "read", "|", "pipe_read", "schedule"]);
    let write = scene.stack(&["main", "produce", "|", "pipe_write", "try_to_wake_up"]);
    let ask = scene.stack(&["main", "filter", "|", "pipe_write", "try_to_wake_up"]);
    scene.switch(MS, 1, IDLE, Runnable, writer, StackId::EMPTY);
    let mut at = 10 * MS;
    for turn in 0..40 {
        if asks {
            scene.wake(at - 5, 0, reader, writer, WakeFlags::default(), ask);
        }
        scene.switch(at, 0, reader, Sleeping, IDLE, read);
        at += if turn == 20 { 1_000 * MS } else { 10 * MS };
        scene.wake(at - 100, 1, writer, reader, WakeFlags::default(), write);
        scene.switch(at - 90, 0, IDLE, Runnable, reader, StackId::EMPTY);
    }
    stalls(&scene.finish(2, at + MS))
}

#[test]
fn who_only_takes_what_comes_waits_for_work_and_who_asks_waits_for_an_answer() {
    assert!(pipeline(false).is_empty());
    assert_eq!(pipeline(true)[0].candidate.kind, StallKind::Rhythm);
}

/// "heartbeat" sleeps 20 ms again and again. Once it asks, and waits for 1 s until "worker" of its process,
/// which computes, wakes it: at `place`, where it otherwise waits for `usual_us` each time, if at all.
fn heartbeat(name: &str, place: &[&str], usual_us: Option<u64>) -> Vec<Stall> {
    let mut scene = Scene::default();
    // A process begins with its main thread.
    let worker = scene.thread(100, 100, "worker");
    let heart = scene.thread(100, 101, name);
    let sleep = scene.stack(&["main", "beat", "|", "do_nanosleep", "schedule"]);
    let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
    let ask = scene.stack(&["main", "beat", "|", "do_futex", "futex_wake", "try_to_wake_up"]);
    let wait = scene.stack(place);
    let done = scene.stack(&["main", "work", "|", "do_futex", "futex_wake", "try_to_wake_up"]);
    scene.switch(MS, 1, IDLE, Runnable, worker, StackId::EMPTY);
    let mut at = 10 * MS;
    for turn in 0..60 {
        scene.switch(at, 0, heart, Sleeping, IDLE, sleep);
        scene.wake(at + 20 * MS, 0, IDLE, heart, WakeFlags::HARDIRQ, timer);
        scene.switch(at + 20 * MS + 10, 0, IDLE, Runnable, heart, StackId::EMPTY);
        at += 20 * MS + 100;
        if let Some(waits) = if turn == 30 { Some(1_000 * MS) } else { usual_us } {
            scene.wake(at - 5, 0, heart, worker, WakeFlags::default(), ask);
            scene.switch(at, 0, heart, Sleeping, IDLE, wait);
            scene.wake(at + waits, 1, worker, heart, WakeFlags::default(), done);
            scene.switch(at + waits + 10, 0, IDLE, Runnable, heart, StackId::EMPTY);
            at += waits + 100;
        }
    }
    scene.switch(at, 1, worker, Sleeping, IDLE, sleep);
    stalls(&scene.finish(2, at + MS))
}

#[test]
fn a_programs_own_threads_stall_each_other_only_beside_their_usual_waits() {
    let place = ["main", "beat", "get", "|", "do_futex", "futex_wait", "schedule"];
    let found =
        |name, usual_us| heartbeat(name, &place, usual_us).first().map(|one| one.candidate.kind);
    assert_eq!(found("heartbeat", None), Some(StallKind::Rhythm));
    assert_eq!(found("heartbeat", Some(100)), Some(StallKind::Rhythm), "10,000 times as long");
    assert_eq!(found("heartbeat", Some(80 * MS)), None, "it waits for its workers each time");
    assert_eq!(found("C2 CompilerThre", None), None, "it only helps a runtime");
}

#[test]
fn who_waited_for_a_computing_event_loop_suffered_with_it() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    let clients: Vec<ThreadId> =
        (0..3).map(|n| dialogue.scene.thread(300 + n, 300 + n, "visitor")).collect();
    dialogue.ask_often(5);
    let at = dialogue.at;
    // They come only once: no rhythm.
    for (cpu, client) in (2..).zip(&clients) {
        dialogue.scene.switch(at - MS, cpu, IDLE, Runnable, *client, StackId::EMPTY);
        dialogue.scene.switch(at + MS, cpu, *client, Sleeping, IDLE, dialogue.wait);
        let done = at + 1_000 * MS;
        let flags = WakeFlags::default();
        dialogue.scene.wake(done, 1, dialogue.server, *client, flags, dialogue.answer);
        dialogue.scene.switch(done + 20, cpu, IDLE, Runnable, *client, StackId::EMPTY);
    }
    dialogue.ask(1_000 * MS, 20 * MS);
    dialogue.ask_often(5);
    let (client, server, end) = (dialogue.client, dialogue.server, dialogue.at);
    let trace = dialogue.scene.finish(5, end);
    let analysis = Analysis::new(&trace, &Rules::default());
    let found = diagnose(&analysis, &Query::default());
    assert_eq!(found[0].finding.culprit, Some(server));
    let text = answer::text(&analysis, &found, 1);
    let suffered = |one: &ThreadId| found[0].victims.contains(one);
    assert!(clients.iter().chain([&client]).all(suffered), "{text}");
    assert!(text.contains("3 threads waited for this, up to 999.0 ms: visitor 300"), "{text}");
}

#[test]
fn an_explained_hang_comes_before_a_longer_wait_that_nothing_explains() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    let sleeper = dialogue.scene.thread(400, 400, "sleeper");
    let flock = dialogue.scene.stack(&["main", "flock", "|", "flock_lock_inode_wait", "schedule"]);
    dialogue.scene.switch(MS, 2, sleeper, Sleeping, IDLE, flock);
    dialogue.ask_often(20);
    dialogue.ask(300 * MS, 20 * MS);
    dialogue.ask_often(10);
    let client = dialogue.client;
    let found = stalls(&dialogue.finish());
    assert!(found[0].victims.contains(&client));
    assert!(found.iter().any(|stall| stall.candidate.victim == sleeper), "it is still told");
}

#[test]
fn work_counts_by_process_and_with_the_waits_for_a_cpu() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    let hog = dialogue.scene.thread(500, 500, "hog");
    let (client, server) = (dialogue.client, dialogue.server);
    dialogue.ask_often(20);
    let at = dialogue.at;
    dialogue.ask(1_000 * MS, 20 * MS);
    // The server gets its CPU for 3 of each 10 ms.
    for slice in 0..99 {
        let from = at + MS + slice * 10 * MS;
        dialogue.scene.switch(from + 3 * MS, 1, server, Runnable, hog, dialogue.busy);
        dialogue.scene.switch(from + 10 * MS, 1, hog, Runnable, server, dialogue.busy);
    }
    dialogue.ask_often(10);
    let found = stalls(&dialogue.finish());
    let stall = found.iter().find(|stall| stall.victims.contains(&client)).expect("found");
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuBound, Some(server)),
        "{stall:?}"
    );
}

#[test]
fn a_batch_that_shares_its_cpu_is_not_starved() {
    let starved = |rests: bool| {
        let mut scene = Scene::default();
        let (one, other) = (scene.thread(100, 100, "one"), scene.thread(200, 200, "other"));
        let busy = scene.stack(&["main", "compile"]);
        let sleep = scene.stack(&["main", "rest", "|", "do_nanosleep", "schedule"]);
        let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
        let mut at = MS;
        scene.switch(at, 0, IDLE, Runnable, one, StackId::EMPTY);
        for _ in 0..8 {
            // One computes for 150 ms, or rests for most of that time; then the other has the CPU.
            if rests {
                scene.switch(at + MS, 0, one, Sleeping, IDLE, sleep);
                scene.wake(at + 149 * MS, 0, IDLE, one, WakeFlags::HARDIRQ, timer);
                scene.switch(at + 149 * MS + 10, 0, IDLE, Runnable, one, StackId::EMPTY);
            }
            scene.switch(at + 150 * MS, 0, one, Runnable, other, busy);
            scene.switch(at + 270 * MS, 0, other, Runnable, one, busy);
            at += 270 * MS;
        }
        let found = stalls(&scene.finish(1, at));
        found.iter().filter(|stall| stall.candidate.victim == one).count()
    };
    assert_eq!(starved(false), 0);
    assert!(starved(true) > 0);
}

/// A client waits 1 s for its server. Meanwhile "batch" wants the CPU that "hog" has, for 2 s.
#[test]
fn who_is_nice_and_gets_no_cpu_comes_after_who_hangs() {
    let first = |nice: i8| {
        let mut dialogue = Dialogue::new(REPLY[0]);
        let scene = &mut dialogue.scene;
        let [batch, hog] =
            [(300, "batch"), (400, "hog")].map(|(id, name)| scene.thread(id, id, name));
        let (nap, timer) = (dialogue.sleep, dialogue.timer);
        scene.switch(10, 2, IDLE, Runnable, batch, StackId::EMPTY);
        scene.switch(20 * MS, 2, batch, Sleeping, hog, nap);
        scene.wake(30 * MS, 2, IDLE, batch, WakeFlags::HARDIRQ, timer);
        dialogue.ask_often(20);
        dialogue.ask(1_000 * MS, 20 * MS);
        dialogue.ask_often(30);
        dialogue.scene.switch(2_030 * MS, 2, hog, Sleeping, batch, nap);
        let client = dialogue.client;
        let mut trace = dialogue.finish();
        trace.threads.get_mut(batch).unwrap().nice = Some(nice);
        let found = stalls(&trace);
        assert_eq!(found.len(), 2, "{nice}");
        found[0].victims.contains(&client)
    };
    assert!(first(10));
    assert!(!first(0), "the longer one");
}

#[test]
fn a_stopped_process_is_one_stall_with_the_client_that_it_kept_waiting() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    let (client, server) = (dialogue.client, dialogue.server);
    let helper = dialogue.scene.thread(200, 201, "helper");
    let operator = dialogue.scene.thread(600, 600, "operator");
    let stop = dialogue.scene.stack(&["main", "|", "get_signal", "do_signal_stop", "schedule"]);
    let resume = dialogue.scene.stack(&["main", "kill", "|", "prepare_signal", "try_to_wake_up"]);
    dialogue.ask_often(20);
    let at = dialogue.at;
    let flags = WakeFlags::default();
    for (cpu, thread) in [(1, server), (2, helper)] {
        dialogue.scene.switch(at + 50, cpu, thread, TaskState::Stopped, IDLE, stop);
        dialogue.scene.wake(at + 900 * MS, 3, operator, thread, flags, resume);
        dialogue.scene.switch(at + 900 * MS + 10, cpu, IDLE, Runnable, thread, StackId::EMPTY);
    }
    dialogue.ask(901 * MS, 20 * MS);
    dialogue.ask_often(10);
    let end = dialogue.at;
    let found = stalls(&dialogue.scene.finish(4, end));
    let stopped: Vec<&Stall> =
        found.iter().filter(|stall| stall.finding.pattern == Pattern::Stopped).collect();
    assert_eq!(stopped.len(), 1);
    assert_eq!(
        (stopped[0].candidate.victim, stopped[0].finding.culprit),
        (client, Some(server)),
        "whom it kept waiting comes first"
    );
}

/// A pool gives a task to whichever of its workers is awake: who answered late need not be the one that
/// was woken.
#[test]
fn regression_another_worker_of_the_pool_answers_late() {
    let mut scene = Scene::default();
    let caller = scene.thread(100, 100, "thumbnails");
    let [first, second] = [101, 102].map(|tid| scene.thread(100, tid, "pool"));
    let nap = scene.stack(&["main", "rhythm", "clock_nanosleep", "|", "do_nanosleep", "schedule"]);
    let wait = scene.stack(&["main", "make_thumbnail", "|", "do_futex", "futex_wait", "schedule"]);
    let idle = scene.stack(&[
        "rayon_core::sleep::Sleep::sleep",
        "|",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let upload = scene.stack(&["retry_upload", "|", "do_nanosleep", "schedule"]);
    let post = scene.stack(&["post", "|", "futex_wake", "try_to_wake_up"]);
    let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
    let (by_thread, by_timer) = (WakeFlags::default(), WakeFlags::HARDIRQ);
    scene.switch(10, 0, IDLE, Runnable, caller, StackId::EMPTY);
    let mut at = 1_000;
    for round in 0..60 {
        let is_late = round == 40;
        scene.switch(at, 0, caller, Sleeping, IDLE, nap);
        at += 20 * MS;
        scene.wake(at, 0, IDLE, caller, by_timer, timer);
        scene.switch(at + 10, 0, IDLE, Runnable, caller, StackId::EMPTY);
        scene.wake(at + 20, 0, caller, first, by_thread, post);
        scene.switch(at + 30, 1, IDLE, Runnable, first, StackId::EMPTY);
        scene.switch(at + 40, 0, caller, Sleeping, IDLE, wait);
        // The first worker wakes the other one, in case there are more tasks.
        scene.wake(at + 50, 1, first, second, by_thread, post);
        scene.switch(at + 60, 2, IDLE, Runnable, second, StackId::EMPTY);
        let answers = if is_late {
            scene.switch(at + 80, 1, first, Sleeping, IDLE, idle);
            scene.switch(at + 90, 2, second, Sleeping, IDLE, upload);
            at += 1_000 * MS;
            scene.wake(at, 2, IDLE, second, by_timer, timer);
            scene.switch(at + 10, 2, IDLE, Runnable, second, StackId::EMPTY);
            (2, second)
        } else {
            scene.switch(at + 80, 2, second, Sleeping, IDLE, idle);
            (1, first)
        };
        scene.wake(at + 100, answers.0, answers.1, caller, by_thread, post);
        scene.switch(at + 110, 0, IDLE, Runnable, caller, StackId::EMPTY);
        scene.switch(at + 120, answers.0, answers.1, Sleeping, IDLE, idle);
        at += MS;
    }
    let (stall, text) = judged(&scene.finish(3, at + MS));
    assert_eq!(stall.candidate.victim, caller, "{text}");
    assert_eq!(stall.finding.culprit, Some(second), "{text}");
    assert_eq!(stall.finding.function, "retry_upload", "{text}");
}

/// "worker" waits for the disk again and again, then once for an event, which its main thread sends by
/// a timer of its own 2 s later. If `asks`, it had woken the main thread for that.
fn worker_of_a_main_thread_with_a_timer(asks: bool) -> Vec<Stall> {
    let mut scene = Scene::default();
    let main = scene.thread(100, 100, "main");
    let worker = scene.thread(100, 101, "worker");
    let disk = scene.stack(&["work", "fsync", "|", "do_fsync", "folio_wait_bit", "io_schedule"]);
    let block = scene.stack(&["|", "blk_mq_complete_request", "try_to_wake_up"]);
    let events = ["ppoll", "|", "do_sys_poll", "poll_schedule_timeout"];
    let rest = scene.stack(&[&["work", "rest"][..], &events].concat());
    let pump = scene.stack(&[&["main", "wait_for_the_end"][..], &events].concat());
    let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
    let send = scene.stack(&["main", "|", "eventfd_write", "try_to_wake_up"]);
    let (by_thread, by_interrupt) = (WakeFlags::default(), WakeFlags::HARDIRQ);
    scene.switch(10, 1, main, Sleeping, IDLE, pump);
    scene.switch(20, 0, IDLE, Runnable, worker, StackId::EMPTY);
    let mut at = MS;
    for _ in 0..40 {
        scene.switch(at, 0, worker, Sleeping, IDLE, disk);
        scene.wake(at + 2 * MS, 0, IDLE, worker, by_interrupt, block);
        scene.switch(at + 2 * MS + 10, 0, IDLE, Runnable, worker, StackId::EMPTY);
        at += 5 * MS;
    }
    if asks {
        scene.wake(at, 0, worker, main, by_thread, send);
        scene.switch(at + 10, 1, IDLE, Runnable, main, StackId::EMPTY);
        scene.switch(at + 100, 1, main, Sleeping, IDLE, pump);
    }
    scene.switch(at + 200, 0, worker, Sleeping, IDLE, rest);
    at += 2_000 * MS;
    scene.wake(at, 1, IDLE, main, by_interrupt, timer);
    scene.switch(at + 10, 1, IDLE, Runnable, main, StackId::EMPTY);
    scene.wake(at + 20, 1, main, worker, by_thread, send);
    scene.switch(at + 30, 0, IDLE, Runnable, worker, StackId::EMPTY);
    // It ends, and the main thread waits for that.
    scene.switch(at + 40, 1, main, Sleeping, IDLE, pump);
    scene.switch(at + 50, 0, worker, Sleeping, IDLE, disk);
    scene.wake(at + 2 * MS, 0, IDLE, worker, by_interrupt, block);
    scene.switch(at + 2 * MS + 10, 0, IDLE, Runnable, worker, StackId::EMPTY);
    scene.wake(at + 5 * MS, 0, worker, main, by_thread, send);
    scene.switch(at + 5 * MS + 10, 1, IDLE, Runnable, main, StackId::EMPTY);
    scene.switch(at + 5 * MS + 20, 0, worker, Dead, IDLE, StackId::EMPTY);
    stalls(&scene.finish(2, at + 10 * MS))
}

#[test]
fn regression_a_timer_of_a_thread_that_nobody_had_asked_is_no_stall_of_an_idle_worker() {
    assert!(worker_of_a_main_thread_with_a_timer(false).is_empty());
    let asked = worker_of_a_main_thread_with_a_timer(true);
    assert_eq!(asked[0].finding.pattern, Pattern::TimerSleep);
}

/// A client waits for a proxy, which waits for what a server computes; for its first two thirds, the
/// proxy's loop also gets other events.
#[test]
fn regression_a_proxy_that_lost_a_part_of_its_clients_hang_is_not_the_hang() {
    let mut dialogue = Dialogue::new(REPLY[0]);
    dialogue.ask_often(20);
    let Dialogue { client, server, wait, pump, send, answer, busy, at: from, .. } = dialogue;
    let scene = &mut dialogue.scene;
    let proxy = scene.thread(300, 300, "proxy");
    let network = scene.stack(&["|", "handle_softirqs", "tcp_data_queue", "sock_def_readable"]);
    let (none, by_thread, by_network) = (StackId::EMPTY, WakeFlags::default(), WakeFlags::SOFTIRQ);
    let (late, end) = (from + 650 * MS, from + 1_000 * MS);
    for at in (12 * MS..from).step_by(20_000) {
        let until = (at + 20 * MS).min(from + 5);
        scene.switch(at, 2, IDLE, Runnable, proxy, none);
        scene.switch(at + 50, 2, proxy, Sleeping, IDLE, pump);
        match until < from {
            true => scene.wake(until - 10, 2, IDLE, proxy, by_network, network),
            false => scene.wake(from, 0, client, proxy, by_thread, send),
        };
    }
    scene.switch(from + 5, 0, client, Sleeping, IDLE, wait);
    scene.switch(from + 20, 2, IDLE, Runnable, proxy, none);
    scene.wake(from + 30, 2, proxy, server, by_thread, send);
    scene.switch(from + 35, 1, IDLE, Runnable, server, none);
    scene.switch(from + 40, 2, proxy, Sleeping, IDLE, pump);
    (from + MS..end).step_by(5_000).for_each(|at| {
        scene.sample(at, 1, server, busy);
    });
    for at in (from + 20 * MS..late).step_by(20_000) {
        scene.wake(at - 10, 1, server, proxy, by_thread, answer);
        scene.switch(at, 2, IDLE, Runnable, proxy, none);
        scene.switch(at + 50, 2, proxy, Sleeping, IDLE, pump);
    }
    scene.wake(end, 1, server, proxy, by_thread, answer);
    scene.switch(end + 10, 1, server, Sleeping, IDLE, pump);
    scene.switch(end + 20, 2, IDLE, Runnable, proxy, none);
    scene.wake(end + 30, 2, proxy, client, by_thread, answer);
    scene.switch(end + 40, 0, IDLE, Runnable, client, none);
    scene.switch(end + 50, 2, proxy, Sleeping, IDLE, pump);
    dialogue.rest(end + 100, 20 * MS);
    dialogue.ask_often(10);
    let found = stalls(&dialogue.finish());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].candidate.victim, client);
    assert!(found[0].victims.contains(&proxy));
}

/// "resolver" asks by UDP every now and then, gets its answer by an event, and sleeps 20 ms between
/// questions; for once, it asks nothing for 40 sleeps.
#[test]
fn regression_who_rests_as_ever_is_not_away_from_its_events() {
    let mut dialogue = Dialogue::new(REPLY[2]);
    let network = ["|", "handle_softirqs", "udp_queue_rcv_skb", "sock_def_readable"];
    let network = dialogue.scene.stack(&network);
    let client = dialogue.client;
    for round in 0..40 {
        let at = dialogue.at;
        dialogue.scene.switch(at, 0, client, Sleeping, IDLE, dialogue.wait);
        dialogue.scene.wake(at + 100, 0, IDLE, client, WakeFlags::SOFTIRQ, network);
        dialogue.scene.switch(at + 110, 0, IDLE, Runnable, client, StackId::EMPTY);
        dialogue.at += 150;
        for _ in 0..if round == 20 { 40 } else { 2 } {
            dialogue.rest(dialogue.at, 20 * MS);
        }
    }
    assert!(stalls(&dialogue.finish()).is_empty());
}
