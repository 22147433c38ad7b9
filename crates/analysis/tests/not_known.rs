//! Answers state what is known, and mark what is not known: samples, timers, tracers,
//! CPUs that report nothing, idle threads.

use crate::scene::{Desktop, Scene, judged};
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::answer::{text, text_for};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Rules};
use unhitch_analysis::{Query, Stall, StallKind};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;

/// The event loop computes from 100 to 400 ms, with samples in `functions` in turns.
fn computing(functions: &[&[&str]]) -> (Stall, String) {
    let mut desktop = Desktop::new();
    let stacks: Vec<StackId> = functions.iter().map(|names| desktop.scene.stack(names)).collect();
    for (index, at) in (100..400).step_by(5).enumerate() {
        if let Some(stack) = stacks.get(index % stacks.len().max(1)) {
            desktop.scene.sample(at * MS + 100, 0, desktop.ui, *stack);
        }
    }
    desktop.pump_all(0, 100);
    desktop.pump(400 * MS, 410 * MS);
    desktop.pump_all(410, 500);
    let trace = desktop.scene.finish(2, 500 * MS);
    judged(&trace)
}

#[test]
fn regression_samples_without_a_function_in_common_are_shown_by_function_and_module() {
    let (stall, text) =
        computing(&[&["main", "alpha"], &["beta"], &["gamma", "alpha"], &["delta"]]);
    assert_eq!(stall.finding.pattern, Pattern::CpuBound);
    assert_eq!(stall.finding.function, "alpha", "at whatever depth it stands");
    assert!(text.contains("30 of 60 samples are in"), "{text}");

    let (stall, text) = computing(&[&["main", "alpha"], &["main", "beta"], &["main", "gamma"]]);
    assert_eq!(stall.finding.function, "");
    assert!(text.contains("No function has half of its 60 CPU samples. By function: alpha 33.3 %, beta 33.3 %, gamma 33.3 %."), "{text}");
    assert!(text.contains("By module: scene 100.0 %."), "{text}");
    assert!(text.contains("CAUSE     its own computation on the event loop mostly in the module scene (100.0 % of 60 samples)."), "{text}");
    assert!(!text.contains("o CPU sample"), "{text}");
}

/// A stack that goes on below the function that samples share would say where few of them are.
#[test]
fn regression_the_stack_of_samples_ends_at_the_function_that_they_share() {
    let (stall, text) = computing(&[
        &["main", "find", "search", "hash"],
        &["main", "find", "search", "compare"],
        &["main", "find", "search", "fold"],
    ]);
    assert_eq!(stall.finding.function, "search");
    assert!(text.contains("60 of 60 samples are in\n  find → search\nBy function: "), "{text}");
    for below in ["hash", "compare", "fold"] {
        assert!(text.contains(&format!("{below} 33.3 %")), "{text}");
    }
    // Most of them are in the function itself.
    let (_, text) =
        computing(&[&["main", "search"], &["main", "search"], &["main", "search", "hash"]]);
    assert!(text.contains("60 of 60 samples are in\n  search\n"), "{text}");
    assert!(!text.contains("By function"), "{text}");
}

#[test]
fn regression_missing_samples_are_said_to_be_missing_and_nothing_else() {
    let (_, text) = computing(&[]);
    assert!(
        text.contains("CPU samples were not recorded, so it is not known where it computed."),
        "{text}"
    );
    assert!(
        text.contains("EVIDENCE  direct: its switches were seen."),
        "no samples were seen:\n{text}"
    );
}

#[test]
fn regression_the_tracer_is_no_cause() {
    let tracer: &[&str] =
        &["main", "|", "vfs_write", "__traceiter_sched_switch", "perf_trace_sched_switch"];
    let (stall, text) = computing(&[tracer]);
    assert_eq!(stall.finding.function, "vfs_write", "{text}");
    let mut scene = Scene::default();
    let stack = scene.stack(&["|", "schedule", "__traceiter_sched_switch"]);
    let trace = scene.finish(1, 1);
    let analysis = Analysis::new(&trace, &Rules::default());
    assert_eq!(unhitch_analysis::text::own_function(&analysis, stack), "");
}

/// "client" sleeps in `wait` from 100 ms on, is woken by its own timer every 50 ms to poll, until
/// "server", which computes, wakes it at 600 ms.
fn polling_client(wait: &[&[&str]], ended_by_server: bool) -> (Trace, ThreadId, ThreadId) {
    let mut scene = Scene::default();
    let (client, server) = (scene.thread(100, 100, "client"), scene.thread(200, 200, "server"));
    let waits: Vec<StackId> = wait.iter().map(|names| scene.stack(names)).collect();
    let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
    let answer = scene.stack(&["main", "answer", "|", "unix_stream_sendmsg", "try_to_wake_up"]);
    let busy = scene.stack(&["main", "sort_rows"]);
    scene.switch(20 * MS, 1, IDLE, Runnable, server, StackId::EMPTY);
    scene.switch(20 * MS, 0, IDLE, Runnable, client, StackId::EMPTY);
    for turn in 0..10 {
        let at = (100 + turn * 50) * MS;
        scene.switch(at, 0, client, Sleeping, IDLE, waits[turn as usize % waits.len()]);
        let last = turn == 9 && ended_by_server;
        let (cpu, waker, flags, stack) = if last {
            (1, server, WakeFlags::default(), answer)
        } else {
            (0, IDLE, WakeFlags::HARDIRQ, timer)
        };
        scene.wake(at + 50 * MS - 30, cpu, waker, client, flags, stack);
        scene.switch(at + 50 * MS - 20, 0, IDLE, Runnable, client, StackId::EMPTY);
    }
    (100..600).step_by(5).for_each(|at| {
        scene.sample(at * MS, 1, server, busy);
    });
    scene.switch(700 * MS, 0, client, Sleeping, IDLE, waits[0]);
    (scene.finish(2, 800 * MS), client, server)
}

fn asked(trace: &Trace, victims: Vec<ThreadId>, window: Option<(u64, u64)>) -> (Stall, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let query = Query {
        victims,
        window: window.map(|(from, to)| Window::new(at(from), at(to))),
        ..Query::default()
    };
    let stalls = unhitch_analysis::diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    (stalls.into_iter().next().unwrap_or_else(|| panic!("no answer:\n{text}")), text)
}

const EPOLL: [&str; 7] =
    ["main", "query", "epoll_wait", "|", "do_epoll_wait", "schedule_hrtimeout_range", "schedule"];
const POLL: [&str; 6] = ["main", "query", "poll", "|", "do_sys_poll", "schedule"];
const SEMTIMEDOP: [&str; 7] =
    ["main", "query", "semtimedop", "|", "do_semtimedop", "schedule_timeout", "schedule"];
const SEM_TIMEDWAIT: [&str; 7] =
    ["main", "query", "sem_timedwait", "|", "do_futex", "futex_wait", "schedule"];
const SLEEP: [&str; 6] = ["main", "query", "nanosleep", "|", "do_nanosleep", "schedule"];

#[test]
fn regression_waits_that_a_timer_broke_are_one_wait_whatever_the_call() {
    for wait in [EPOLL.as_slice(), &POLL, &SLEEP, &SEMTIMEDOP, &SEM_TIMEDWAIT] {
        let (trace, client, server) = polling_client(&[wait], true);
        let (stall, text) = asked(&trace, vec![client], Some((100, 600)));
        assert_eq!(
            (stall.finding.pattern, stall.finding.culprit),
            (Pattern::CpuBound, Some(server)),
            "{text}"
        );
        assert_eq!(
            (stall.finding.function.as_str(), stall.finding.evidence),
            ("sort_rows", Evidence::Inferred),
            "{text}"
        );
        assert!(text.contains("client 100 polled 9 times before that"), "{text}");
    }
}

#[test]
fn regression_waits_from_one_place_of_the_program_are_one_though_the_calls_differ() {
    let (mut trace, client, server) = polling_client(&[&POLL, &SLEEP], true);
    let one_place = |trace: &Trace| {
        asked(trace, vec![client], Some((100, 600))).0.finding.culprit == Some(server)
    };
    assert!(!one_place(&trace), "the two calls are of one file here, at two places");
    // The functions belong to the C library, which the program calls from one place.
    let path = trace.strings.intern("/usr/lib/libc.so.6");
    let libc = trace.modules.intern(Module { path, kind: ModuleKind::File, build_id: Vec::new() });
    let mut in_libc = Trace { switches: trace.switches.clone(), ..trace.clone() };
    for (at, stack) in trace.switches.stack.iter().enumerate() {
        let frames = trace.stacks.frames_of(*stack).iter().map(|&frame| {
            let Frame { module, offset } = trace.stacks.frame(frame).unwrap();
            let is_call = ["poll", "nanosleep"].contains(&trace.frame_names(frame)[0].as_str());
            let moved = in_libc
                .stacks
                .intern_frame(Frame { module: if is_call { libc } else { module }, offset });
            in_libc.symbols.set(moved, trace.symbols.get(frame));
            moved
        });
        let frames: Vec<FrameId> = frames.collect();
        in_libc.switches.stack[at] =
            in_libc.stacks.intern(&frames, trace.stacks.kernel_len(*stack) as u16);
    }
    assert!(one_place(&in_libc));
}

#[test]
fn regression_a_timer_of_its_own_is_no_direct_evidence() {
    for wait in [EPOLL.as_slice(), &SLEEP] {
        let (trace, client, _) = polling_client(&[wait], false);
        let (stall, text) = asked(&trace, vec![client], Some((100, 600)));
        assert_eq!(
            (stall.finding.pattern, stall.finding.evidence),
            (Pattern::TimerSleep, Evidence::Inferred),
            "{text}"
        );
        assert!(text.contains("It slept 10 times, for"), "{text}");
        assert!(!text.contains("no single cause"), "{text}");
    }
}

#[test]
fn regression_a_part_of_almost_all_is_not_called_no_single_one() {
    // A wait for a lock with a timeout that expires each time: no owner is visible.
    let lock: &[&str] = &["main", "save", "__pthread_mutex_lock", "|", "futex_wait", "schedule"];
    let (trace, client, _) = polling_client(&[lock], false);
    let (stall, text) = asked(&trace, vec![client], Some((100, 600)));
    assert_ne!(stall.finding.evidence, Evidence::Direct, "{text}");
    assert!(!text.contains("no single cause"), "{text}");
}

#[test]
fn regression_a_wait_that_nobody_ended_beside_a_silent_cpu_says_so() {
    let with = |silent: bool, lost: bool| {
        let mut scene = Scene::default();
        let (reader, other) = (scene.thread(100, 100, "reader"), scene.thread(200, 200, "other"));
        let wait = scene.stack(&["main", "read", "|", "pipe_read", "schedule"]);
        let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
        let sleep = scene.stack(&["main", "|", "do_nanosleep", "schedule"]);
        scene.switch(5 * MS, 0, IDLE, Runnable, reader, StackId::EMPTY);
        for at in (10..700).step_by(10) {
            scene.switch(at * MS + 100, 1, other, Sleeping, IDLE, sleep);
            scene.wake(
                (at + 10) * MS - 10,
                1,
                if silent { reader } else { IDLE },
                other,
                WakeFlags::HARDIRQ,
                timer,
            );
            scene.switch((at + 10) * MS, 1, IDLE, Runnable, other, StackId::EMPTY);
        }
        scene.switch(100 * MS, 0, reader, Sleeping, IDLE, wait);
        // No waker is visible.
        scene.switch(600 * MS, 0, IDLE, Runnable, reader, StackId::EMPTY);
        let mut trace = scene.finish(2, 710 * MS);
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let loss = Loss { cpu: 1, window: Window::new(at(550), at(620)), events: 40 };
        trace.losses.extend(lost.then_some(loss));
        asked(&trace, vec![reader], Some((100, 600)))
    };
    let (stall, text) = with(true, false);
    assert_eq!(stall.finding.pattern, Pattern::DeadEnd, "{text}");
    assert!(text.contains("CPU 1 reports no events while idle"), "{text}");
    assert!(!text.contains("larger buffers"), "nothing was overwritten:\n{text}");
    let (_, text) = with(false, false);
    assert!(
        text.contains("no thread was seen to end the wait, though no records were lost"),
        "{text}"
    );
    // Where something was overwritten, larger buffers help.
    let (_, text) = with(true, true);
    assert!(
        text.contains("not in the recording") && text.contains("Record with larger buffers"),
        "{text}"
    );
}

/// A wait is cut by the window that is asked about; where the window ends, the wait does not.
#[test]
fn regression_a_wait_that_a_window_cuts_has_not_ended_there() {
    let with = |back_ms: Option<u64>| {
        let mut scene = Scene::default();
        let (reader, other) = (scene.thread(100, 100, "reader"), scene.thread(200, 200, "other"));
        let wait = scene.stack(&["main", "read", "|", "pipe_read", "schedule"]);
        let post = scene.stack(&["main", "|", "futex_wake", "try_to_wake_up"]);
        scene.switch(5 * MS, 0, IDLE, Runnable, reader, StackId::EMPTY);
        scene.switch(6 * MS, 1, IDLE, Runnable, other, StackId::EMPTY);
        // There are wake-ups in this trace.
        scene.wake(7 * MS, 0, reader, other, WakeFlags::default(), post);
        scene.switch(100 * MS, 0, reader, Sleeping, IDLE, wait);
        if let Some(back_ms) = back_ms {
            scene.switch(back_ms * MS, 0, IDLE, Runnable, reader, StackId::EMPTY);
        }
        asked(&scene.finish(2, 800 * MS), vec![reader], Some((200, 500)))
    };
    let (stall, text) = with(None);
    assert_eq!(stall.finding.pattern, Pattern::DeadEnd, "{text}");
    assert!(
        text.contains(
            "reader 100 waited for all 300.0 ms; it was still waiting when the recording"
        ),
        "{text}"
    );
    assert!(!text.contains("end the wait") && !text.contains("That wait ended"), "{text}");
    let (stall, text) = with(Some(700));
    assert_eq!(stall.finding.pattern, Pattern::DeadEnd, "{text}");
    assert!(text.contains("That wait ended only 200.0 ms after this time."), "{text}");
    assert!(!text.contains("still waiting"), "{text}");
    let (_, text) = with(Some(500));
    assert!(!text.contains("after this time") && !text.contains("still waiting"), "{text}");
}

/// Without switches and samples, nothing is said about waiting or running.
#[test]
fn regression_where_nothing_was_recorded_nothing_is_claimed() {
    let mut scene = Scene::default();
    let thread = scene.thread(100, 100, "reader");
    let wait = scene.stack(&["main", "read", "|", "pipe_read", "schedule"]);
    scene.switch(100 * MS, 0, thread, Sleeping, IDLE, wait);
    let mut trace = scene.finish(1, 800 * MS);
    trace.switches = Switches::default();
    let (_, text) = asked(&trace, vec![thread], None);
    assert!(text.starts_with("WINDOW "), "{text}");
    assert!(text.contains("Nothing was recorded of what reader 100 did."), "{text}");
    assert!(
        text.contains(
            "CAUSE     not known: neither context switches nor CPU samples were recorded."
        ),
        "{text}"
    );
    for claim in ["it waited", "No CPU sample", "only CPU samples", "WAIT", "the whole wait"] {
        assert!(!text.contains(claim), "{claim}:\n{text}");
    }
}

/// "worker" takes jobs from a queue every 10 ms, but for one cycle of 500 ms, most of which "giver"
/// had its lock; meanwhile, "rester" rests.
fn worker() -> (Trace, [ThreadId; 3]) {
    let mut scene = Scene::default();
    let [worker, giver, rester] = [(100, "worker"), (200, "giver"), (300, "rester")]
        .map(|(id, name)| scene.thread(id, id, name));
    let queue = scene.stack(&["main", "take_job", "|", "pipe_read", "schedule"]);
    let wait = scene.stack(&["main", "log", "|", "unix_stream_data_wait", "schedule"]);
    let give = scene.stack(&["main", "give", "|", "pipe_write", "try_to_wake_up"]);
    let rest = scene.stack(&["main", "|", "do_epoll_wait", "schedule"]);
    scene.switch(MS, 1, IDLE, Runnable, giver, StackId::EMPTY);
    scene.switch(MS, 0, IDLE, Runnable, worker, StackId::EMPTY);
    scene.switch(2 * MS, 2, rester, Sleeping, IDLE, rest);
    let mut at = 10;
    for turn in 0..40 {
        scene.switch(at * MS, 0, worker, Sleeping, IDLE, queue);
        scene.wake((at + 8) * MS, 1, giver, worker, WakeFlags::default(), give);
        scene.switch((at + 8) * MS + 10, 0, IDLE, Runnable, worker, StackId::EMPTY);
        if turn == 20 {
            scene.switch((at + 9) * MS, 0, worker, Sleeping, IDLE, wait);
            scene.wake((at + 499) * MS, 1, giver, worker, WakeFlags::default(), give);
            scene.switch((at + 499) * MS + 10, 0, IDLE, Runnable, worker, StackId::EMPTY);
            at += 490;
        }
        at += 10;
    }
    (scene.finish(3, 1_000 * MS), [worker, giver, rester])
}

#[test]
fn regression_who_is_asked_about_always_gets_an_answer() {
    let (trace, [worker, giver, rester]) = worker();
    let analysis = Analysis::new(&trace, &Rules::default());
    let unasked = unhitch_analysis::diagnose(&analysis, &Query::default());
    let victims: Vec<ThreadId> = unasked.iter().map(|stall| stall.candidate.victim).collect();
    assert_eq!(victims, [worker], "nothing of the others is a stall by itself");
    // Against its own habit.
    let (stall, text) = asked(&trace, vec![worker], None);
    assert_eq!(
        (stall.candidate.kind, stall.finding.culprit),
        (StallKind::Rhythm, Some(giver)),
        "{text}"
    );
    assert_eq!(stall.explanation.window.duration_ns() / 1_000_000, 500);
    // It only waited for events, which the answer states.
    let (stall, text) = asked(&trace, vec![rester], None);
    assert_eq!((stall.candidate.kind, stall.finding.culprit), (StallKind::Idle, None), "{text}");
    assert!(
        text.contains(
            "All waits of this thread that were recorded here were for work, for events \
                       or for a set time"
        ),
        "{text}"
    );
    // It never waited at all.
    let (stall, text) = asked(&trace, vec![giver], None);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuBound, Some(giver)),
        "{text}"
    );
    // Among several, the one that was not idle comes first.
    assert_eq!(asked(&trace, vec![rester, worker], None).0.candidate.victim, worker);
}

/// A short stall of a thread must not hide the long wait that the user asks about.
#[test]
fn regression_a_threads_long_wait_is_explained_beside_its_small_stall() {
    let mut scene = Scene::default();
    let (client, server) = (scene.thread(100, 100, "client"), scene.thread(200, 200, "server"));
    let lock =
        scene.stack(&["main", "log", "|", "vfs_write", "rwsem_down_write_slowpath", "schedule"]);
    let release = scene.stack(&["main", "serve", "|", "up_write", "rwsem_wake", "try_to_wake_up"]);
    let answer = scene.stack(&["main", "query", "|", "unix_stream_data_wait", "schedule"]);
    scene.switch(MS, 1, IDLE, Runnable, server, StackId::EMPTY);
    for (from, until, stack) in [(10, 130, lock), (150, 950, answer)] {
        scene.switch(from * MS, 0, client, Sleeping, IDLE, stack);
        scene.wake(until * MS, 1, server, client, WakeFlags::default(), release);
        scene.switch(until * MS + 10, 0, IDLE, Runnable, client, StackId::EMPTY);
    }
    let trace = scene.finish(2, 1_000 * MS);
    let analysis = Analysis::new(&trace, &Rules::default());
    let unasked = unhitch_analysis::diagnose(&analysis, &Query::default());
    assert_eq!(
        unasked
            .iter()
            .map(|stall| stall.explanation.window.duration_ns() / 1_000_000)
            .collect::<Vec<_>>(),
        [120]
    );
    let lengths: Vec<u64> = unhitch_analysis::diagnose(
        &analysis,
        &Query { victims: vec![client], window: None, ..Query::default() },
    )
    .iter()
    .map(|stall| stall.explanation.window.duration_ns() / 1_000_000)
    .collect();
    assert_eq!(lengths, [800, 120]);
}

#[test]
fn a_window_is_no_stall_and_its_sentence_has_the_figure_of_its_table() {
    let mut desktop = Desktop::new();
    desktop.pump_all(0, 100);
    desktop.pump(400 * MS, 410 * MS);
    desktop.pump_all(410, 700);
    let ui = desktop.ui;
    let trace = desktop.scene.finish(2, 800 * MS);
    let (_, text) = asked(&trace, vec![ui], Some((100, 600)));
    let (_, said) = text.split_once("Most of the time nobody kept it waiting: it").expect(&text);
    let (_, percent) = said.split_once('(').expect(&text);
    let (percent, _) = percent.split_once(')').expect(&text);
    assert!(text.contains(&format!("{percent}  ran")), "{text}");
    assert!(text.starts_with("WINDOW") && !text.contains("stall"), "{text}");
    // What it was idle for is not lost, whoever ended that.
    assert!(!text.contains("lost"), "{text}");
}

#[test]
fn regression_a_window_alone_is_explained_by_whoever_had_the_most_unusual_time() {
    let (trace, [worker, ..]) = worker();
    let (stall, text) = asked(&trace, Vec::new(), Some((250, 700)));
    assert_eq!(stall.candidate.victim, worker, "{text}");
    assert!(stall.explanation.window.end <= Time::from_nanos(710_000_000));
}

#[test]
fn regression_the_advice_is_not_what_was_just_done() {
    let (trace, [_, _, rester]) = worker();
    let analysis = Analysis::new(&trace, &Rules::default());
    assert!(text(&analysis, &[], 1).contains("--victim NAME"), "nothing was named");
    let query = Query { victims: vec![rester], window: None, ..Query::default() };
    let nothing = text_for(&analysis, &query, &[], 1);
    assert!(!nothing.contains("--victim"), "{nothing}");
}

/// A client waits for a server's answer from 100 to 500 ms, and the server sleeps from 110 to
/// 490 ms, by its own timer.
fn sleeping_server() -> (Trace, ThreadId, ThreadId) {
    let mut scene = Scene::default();
    let (client, server) = (scene.thread(100, 100, "client"), scene.thread(200, 200, "server"));
    let wait = scene.stack(&["main", "query", "read", "|", "pipe_read", "schedule"]);
    let rest = scene.stack(&["main", "rest", "nanosleep", "|", "do_nanosleep", "schedule"]);
    let timer = scene.stack(&["|", "hrtimer_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    let answer = scene.stack(&["main", "answer", "write", "|", "pipe_write", "try_to_wake_up"]);
    scene.switch(0, 0, IDLE, Runnable, client, StackId::EMPTY);
    scene.switch(0, 1, IDLE, Runnable, server, StackId::EMPTY);
    scene.switch(100 * MS, 0, client, Sleeping, IDLE, wait);
    scene.switch(110 * MS, 1, server, Sleeping, IDLE, rest);
    scene.wake(490 * MS, 1, IDLE, server, WakeFlags::HARDIRQ, timer);
    scene.switch(490 * MS + 10, 1, IDLE, Runnable, server, StackId::EMPTY);
    scene.wake(500 * MS, 1, server, client, WakeFlags::default(), answer);
    scene.switch(500 * MS + 10, 0, IDLE, Runnable, client, StackId::EMPTY);
    scene.switch(600 * MS, 0, client, Sleeping, IDLE, wait);
    (scene.finish(2, 700 * MS), client, server)
}

#[test]
fn regression_a_window_that_ends_inside_the_waits_is_explained() {
    let (trace, client, server) = sleeping_server();
    for (end, words) in [(600, "until its own timer expired"), (300, "and longer, until a time")] {
        let (stall, text) = asked(&trace, vec![client], Some((120, end)));
        assert_eq!(
            (stall.finding.pattern, stall.finding.culprit),
            (Pattern::TimerSleep, Some(server)),
            "{text}"
        );
        assert!(text.contains(words) && !text.contains("did not report"), "{text}");
    }
    let (_, text) = asked(&trace, vec![server], Some((120, 300)));
    assert!(text.contains("which had not come yet") && !text.contains("was seen to"), "{text}");
}

#[test]
fn regression_a_window_without_a_thread_is_explained_and_nothing_else() {
    let (trace, ..) = sleeping_server();
    let (stall, text) = asked(&trace, vec![], Some((200, 300)));
    let window = Window::new(Time::from_nanos(200_000_000), Time::from_nanos(300_000_000));
    assert_eq!(stall.explanation.window, window, "{text}");
}

#[test]
fn regression_a_thread_that_competes_for_a_cpu_is_told_as_a_whole() {
    let mut scene = Scene::default();
    let threads = [101, 102, 103, 104].map(|tid| scene.thread(tid, tid, "worker"));
    let work = scene.stack(&["main", "work"]);
    scene.switch(0, 0, IDLE, Runnable, threads[0], StackId::EMPTY);
    for turn in 1..200 {
        let (prev, next) = (threads[(turn - 1) % 4], threads[turn % 4]);
        scene.switch(turn as u64 * 5 * MS, 0, prev, Runnable, next, work);
    }
    let trace = scene.finish(1, 1000 * MS);
    let (stall, text) = asked(&trace, vec![threads[3]], None);
    assert_eq!(stall.finding.pattern, Pattern::CpuStarvation, "{text}");
    assert!(stall.explanation.window.duration_ns() > 900_000_000, "{text}");
    assert!(text.contains("none of them for half of the time"), "{text}");
}

/// The CPUs between the recorded ones do not exist, or nothing is known of them.
#[test]
fn regression_cpus_without_events_are_not_busy() {
    let mut scene = Scene::default();
    let (client, other) = (scene.thread(100, 100, "client"), scene.thread(200, 200, "other"));
    let wait = scene.stack(&["main", "query", "read", "|", "pipe_read", "schedule"]);
    for (cpu, thread) in [(0, client), (7, other)] {
        scene.switch(0, cpu, IDLE, Runnable, thread, StackId::EMPTY);
        scene.switch(100 * MS, cpu, thread, Sleeping, IDLE, wait);
    }
    let trace = scene.finish(8, 500 * MS);
    let (_, text) = asked(&trace, vec![client], Some((100, 500)));
    assert!(text.contains("100 % idle meanwhile, 2 CPUs"), "{text}");
}

/// The last CPU ran one thread all the time: it has samples, and no switch.
#[test]
fn regression_a_cpu_that_only_has_samples_is_busy() {
    let mut scene = Scene::default();
    let (client, hog) = (scene.thread(100, 100, "client"), scene.thread(200, 200, "hog"));
    let wait = scene.stack(&["main", "query", "read", "|", "pipe_read", "schedule"]);
    let work = scene.stack(&["main", "work"]);
    scene.switch(0, 0, IDLE, Runnable, client, StackId::EMPTY);
    scene.switch(100 * MS, 0, client, Sleeping, IDLE, wait);
    for at in 0..50 {
        scene.sample(at * 10 * MS, 1, hog, work);
    }
    let trace = scene.finish(2, 500 * MS);
    let (_, text) = asked(&trace, vec![client], Some((100, 500)));
    assert!(text.contains("50 % idle meanwhile, 2 CPUs"), "{text}");
}
