//! A client that waits for an answer with a timeout, and gives up: its server owed it the answer.

use crate::scene::{Desktop, Scene, judged};
use TaskState::{Dead, Runnable, Sleeping};
use unhitch_analysis::StallKind;
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const NONE: StackId = StackId::EMPTY;
/// CPython's socket with a timeout.
const REPLY: [&str; 5] = ["main", "sock_recv_into", "poll", "|", "poll_schedule_timeout"];

/// How the answers before are known.
#[derive(Clone, Copy, PartialEq)]
enum Answers {
    /// By the stacks of their wake-ups.
    Seen,
    /// The waits were short, and an interrupt ended them while the server had a CPU.
    Short,
    /// The same, but somebody else had it.
    OfOthers,
}

/// Who works on the last request, if anybody does.
#[derive(Clone, Copy, PartialEq)]
enum Busy {
    Server,
    /// Another thread of the server, to which it hands the request.
    Worker,
    Nobody,
}

/// The event loop asks a server every 10 ms from 60 ms on, and has its answer after 5 ms. At 100 ms it
/// asks again, and waits for a second, until its timer ends that. The server's main thread takes 20 ms
/// for that, or more if it is busy, and then waits for requests. Returns the server's threads, too.
fn asked(busy: Busy, answers: Answers) -> (Trace, [ThreadId; 2]) {
    let mut desktop = Desktop::new();
    let ui = desktop.ui;
    let server = desktop.scene.thread(800, 800, "server");
    let worker = desktop.scene.thread(800, 801, "worker");
    let other = desktop.scene.thread(900, 900, "other");
    let reply = desktop.scene.stack(&REPLY);
    let accept = desktop.scene.stack(&["serve", "|", "inet_csk_accept"]);
    let report = desktop.scene.stack(&["serve", "render_report"]);
    let send = desktop.scene.stack(&["main", "send", "|", "tcp_sendmsg", "sock_def_readable"]);
    let timer =
        desktop.scene.stack(&["main", "|", "asm_sysvec_apic_timer_interrupt", "hrtimer_wakeup"]);
    let busy_ms = if busy == Busy::Server { 1_150 } else { 20 };
    desktop.pump_all(0, 60);
    let scene = &mut desktop.scene;
    for at in (60..=100).step_by(10).map(|ms| ms * MS) {
        let ms = if at == 100 * MS { busy_ms } else { 5 };
        scene.wake(at, 0, ui, server, WakeFlags::default(), send);
        scene.switch(at + 10, 1, IDLE, Runnable, server, NONE);
        scene.switch(at + 50, 0, ui, Sleeping, IDLE, reply);
        if at == 100 * MS {
            (0..ms).for_each(|tick| _ = scene.sample(at + tick * MS + 500, 1, server, report));
        } else {
            match answers {
                Answers::Seen => scene.wake(at + 5 * MS, 1, server, ui, WakeFlags::default(), send),
                Answers::Short => scene.wake(at + 5 * MS, 1, server, ui, WakeFlags::HARDIRQ, NONE),
                Answers::OfOthers => {
                    scene.wake(at + 5 * MS, 2, other, ui, WakeFlags::HARDIRQ, NONE)
                }
            };
            scene.switch(at + 5 * MS + 5, 0, IDLE, Runnable, ui, NONE);
        }
        scene.switch(at + ms * MS + 20, 1, server, Sleeping, IDLE, accept);
    }
    if busy == Busy::Worker {
        scene.wake(115 * MS, 1, server, worker, WakeFlags::default(), NONE);
        scene.switch(115 * MS + 10, 2, IDLE, Runnable, worker, NONE);
        (116..1_300).for_each(|ms| _ = scene.sample(ms * MS, 2, worker, report));
    }
    scene.wake(1_100 * MS, 0, IDLE, ui, WakeFlags::HARDIRQ, timer);
    scene.switch(1_100 * MS + 9, 0, IDLE, Runnable, ui, NONE);
    desktop.pump_all(1_110, 1_300);
    let mut trace = desktop.scene.finish(3, 1_300 * MS);
    trace.meta.system = System::Linux;
    (trace, [server, worker])
}

#[test]
fn a_server_that_worked_owed_the_answer() {
    for answers in [Answers::Seen, Answers::Short] {
        let (trace, [server, _]) = asked(Busy::Server, answers);
        let (stall, text) = judged(&trace);
        assert_eq!(stall.finding.culprit, Some(server), "{text}");
        assert_eq!(stall.finding.pattern, Pattern::CpuBound, "{text}");
        assert_eq!(stall.finding.function, "render_report", "{text}");
        assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
        assert!(text.contains("for server 800, in vain, and gave up"), "{text}");
        assert!(text.contains("gave up before it had its answer"), "{text}");
    }
}

#[test]
fn a_thread_to_which_a_server_handed_the_request_owed_the_answer() {
    let (trace, [_, worker]) = asked(Busy::Worker, Answers::Short);
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.culprit, Some(worker), "{text}");
}

#[test]
fn who_never_answered_owes_nothing() {
    let (trace, [server, _]) = asked(Busy::Server, Answers::OfOthers);
    let (stall, text) = judged(&trace);
    assert_ne!(stall.finding.culprit, Some(server), "{text}");
}

#[test]
fn a_server_that_rested_owed_nothing() {
    let (trace, [server, _]) = asked(Busy::Nobody, Answers::Seen);
    let (stall, text) = judged(&trace);
    assert_ne!(stall.finding.culprit, Some(server), "{text}");
    assert_eq!(stall.finding.pattern, Pattern::TimerSleep, "{text}");
    assert!(text.contains("an answer on a socket did not come in time"), "{text}");
    // It ended another wait.
    assert!(!text.contains("server 800 ended the wait"), "{text}");
}

#[test]
fn a_command_whose_name_server_never_answers_is_a_stall() {
    let mut scene = Scene::default();
    let shell = scene.thread(50, 50, "sh");
    let lookup = scene.thread(100, 100, "lookup");
    let process = scene.trace.threads.get(lookup).process;
    scene.trace.threads.process_mut(process).unwrap().parent_pid = Some(50);
    let wait = scene.stack(&["main", "wait4", "|", "do_wait", "schedule"]);
    let fork = scene.stack(&["main", "fork", "|", "wake_up_new_task"]);
    let exit = scene.stack(&["main", "|", "do_exit", "exit_notify", "try_to_wake_up"]);
    let query = ["main", "connect_to_shop", "getaddrinfo", "__res_context_send", "poll"];
    let query = scene.stack(&[&query[..], &["|", "poll_schedule_timeout"]].concat());
    let timer = scene.stack(&["|", "asm_sysvec_apic_timer_interrupt", "hrtimer_wakeup"]);
    scene.wake(100 * MS, 0, shell, lookup, WakeFlags::NEW, fork);
    scene.switch(100 * MS + 10, 0, shell, Sleeping, lookup, wait);
    scene.switch(110 * MS, 0, lookup, Sleeping, IDLE, query);
    scene.wake(2_110 * MS, 0, IDLE, lookup, WakeFlags::HARDIRQ, timer);
    scene.switch(2_110 * MS + 9, 0, IDLE, Runnable, lookup, NONE);
    scene.wake(2_120 * MS, 0, lookup, shell, WakeFlags::default(), exit);
    scene.switch(2_120 * MS + 10, 0, lookup, Dead, shell, exit);
    let mut trace = scene.finish(1, 2_200 * MS);
    trace.meta.system = System::Linux;
    let (stall, text) = judged(&trace);
    assert_eq!((stall.candidate.kind, stall.candidate.victim), (StallKind::Command, lookup));
    let cause = "an answer of a name server did not come in time, in connect_to_shop";
    assert!(text.contains(cause), "{text}");
    assert!(text.contains("/etc/resolv.conf"), "{text}");
}
