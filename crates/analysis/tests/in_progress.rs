//! What had not ended when the recording did.

use crate::scene::Scene;
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::answer::text_for;
use unhitch_analysis::patterns::Pattern;
use unhitch_analysis::{Analysis, Query, Rules, Stall, StallKind, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;

fn in_progress(trace: &Trace, victims: Vec<ThreadId>) -> (Vec<Stall>, String) {
    let analysis = Analysis::new(trace, &Rules::default());
    let query = Query { victims, in_progress: true, ..Query::default() };
    let stalls = diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    (stalls, text)
}

/// "early" waited for a lock from 100 to 300 ms; "late" waits for one from 500 ms on, if at all;
/// "worker" waits for work from 600 ms on, and "busy" computes.
fn scene(with_late: bool) -> (Trace, [ThreadId; 4]) {
    let mut scene = Scene::default();
    let [early, late, worker, busy] =
        [(100, "early"), (200, "late"), (300, "worker"), (400, "busy")]
            .map(|(pid, name)| scene.thread(pid, pid, name));
    let lock = scene.stack(&["main", "save", "|", "rwsem_down_write_slowpath", "schedule"]);
    let queue = scene.stack(&["main", "next_job", "epoll_wait", "|", "ep_poll", "schedule"]);
    let release = scene.stack(&["main", "load", "|", "up_write", "rwsem_wake", "try_to_wake_up"]);
    for (cpu, thread) in [early, late, worker, busy].into_iter().enumerate() {
        scene.switch(MS, cpu as u16, IDLE, Runnable, thread, StackId::EMPTY);
    }
    scene.switch(100 * MS, 0, early, Sleeping, IDLE, lock);
    scene.wake(300 * MS, 3, busy, early, WakeFlags::default(), release);
    scene.switch(300 * MS, 0, IDLE, Runnable, early, StackId::EMPTY);
    scene.switch(500 * MS, 1, late, Sleeping, IDLE, if with_late { lock } else { queue });
    scene.switch(600 * MS, 2, worker, Sleeping, IDLE, queue);
    let mut trace = scene.finish(4, 1_000 * MS);
    trace.meta.system = System::Linux;
    trace.meta.notes_facts = true;
    (trace, [early, late, worker, busy])
}

#[test]
fn only_what_has_not_ended_is_explained() {
    let (trace, [_, late, ..]) = scene(true);
    let (stalls, _) = in_progress(&trace, Vec::new());
    let found: Vec<_> =
        stalls.iter().map(|stall| (stall.candidate.victim, stall.candidate.kind)).collect();
    assert_eq!(found, [(late, StallKind::UnwantedWait)]);
}

#[test]
fn where_nothing_hangs_what_had_hung_before_is_listed() {
    let (mut trace, _) = scene(false);
    let (stalls, text) = in_progress(&trace, Vec::new());
    assert!(stalls.is_empty());
    assert!(text.starts_with("Nothing was hanging when the recording ended"), "{text}");
    let (_, before) = text.split_once("Stalls that had ended before:\n").expect(&text);
    assert!(before.contains("early 100"), "{text}");
    assert!(!text.contains("BPF"), "{text}");
    // Performance events see no thread that sleeps all the time.
    trace.meta.notes_facts = false;
    assert!(in_progress(&trace, Vec::new()).1.contains("takes recording by BPF"));
}

#[test]
fn a_named_thread_is_explained_whatever_it_is_doing() {
    let (trace, [early, late, worker, busy]) = scene(true);
    let kind_and_ms = |thread| {
        let (stalls, text) = in_progress(&trace, vec![thread]);
        let stall = stalls.first().unwrap_or_else(|| panic!("no answer: {text}"));
        (stall.candidate.kind, stall.candidate.window.duration_ns() / 1_000_000)
    };
    assert_eq!(kind_and_ms(late), (StallKind::UnwantedWait, 500));
    assert_eq!(kind_and_ms(worker), (StallKind::Idle, 400));
    assert_eq!(kind_and_ms(early), (StallKind::Longest, 700), "it has run since its last wait");
    assert_eq!(kind_and_ms(busy), (StallKind::Longest, 1_000));
}

/// "one" and "other" each own what the other waits for; "third" waits for a lock of "one"'s.
fn deadlock() -> (Trace, [ThreadId; 3]) {
    let mut scene = Scene::default();
    let threads @ [one, other, third] = [(100, "one"), (101, "other"), (102, "third")]
        .map(|(tid, name)| scene.thread(100, tid, name));
    let stack = |scene: &mut Scene, name| {
        scene.stack(&["main", name, "pthread_mutex_lock", "|", "futex_wait", "schedule"])
    };
    for (cpu, (thread, name)) in threads.into_iter().zip(["debit", "credit", "audit"]).enumerate() {
        let waits_in = stack(&mut scene, name);
        scene.switch(MS, cpu as u16, IDLE, Runnable, thread, StackId::EMPTY);
        scene.switch((cpu as u64 + 1) * 100 * MS, cpu as u16, thread, Sleeping, IDLE, waits_in);
    }
    let mut trace = scene.finish(3, 1_000 * MS);
    for (waiter, owner) in [(one, other), (other, one), (third, one)] {
        let time = Time::from_nanos(1_000_000_000);
        trace.futex_waits.push(FutexWait { time, waiter, word_avma: 0x1000, owner: Some(owner) });
    }
    (trace, threads)
}

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    let (trace, [one, other, third]) = deadlock();
    for (victim, culprit) in [(one, other), (other, one), (third, one)] {
        let (stalls, text) = in_progress(&trace, vec![victim]);
        let stall = stalls.first().expect(&text);
        let finding = &stall.finding;
        assert_eq!(
            (finding.pattern, finding.culprit),
            (Pattern::Deadlock, Some(culprit)),
            "{text}"
        );
        let pieces = stall.explanation.pieces.iter().map(|piece| piece.window.duration_ns());
        assert_eq!(pieces.sum::<u64>(), stall.explanation.window.duration_ns(), "{text}");
    }
    let (_, text) = in_progress(&trace, vec![third]);
    insta::assert_snapshot!("deadlock", text);
}

#[test]
fn one_that_could_go_on_is_none() {
    let (mut trace, [one, other, third]) = deadlock();
    // "other" waits for something without an owner.
    trace.futex_waits.retain(|wait| wait.waiter != other);
    let (stalls, text) = in_progress(&trace, vec![third]);
    let stall = stalls.first().expect(&text);
    assert_eq!(stall.finding.pattern, Pattern::LongHold, "{text}");
    let chain: Vec<ThreadId> = stall.explanation.hops.iter().map(|hop| hop.by).collect();
    assert_eq!(chain, [one, other], "owners are followed: {text}");
}

/// "client" asks "server" on a socket every 20 ms. The server answers at once, but the last time, at
/// 800 ms, it does what `last` says until the recording ends at 2 s.
fn asks(last: impl Fn(&mut Scene, ThreadId)) -> (Trace, [ThreadId; 2]) {
    let mut scene = Scene::default();
    let [client, server] =
        [(100, "client"), (200, "server")].map(|(pid, name)| scene.thread(pid, pid, name));
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
    let rest = scene.stack(&["main", "|", "hrtimer_nanosleep", "do_nanosleep", "schedule"]);
    let timer = scene.stack(&["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    let send =
        scene.stack(&["main", "send", "|", "udp_sendmsg", "sock_def_readable", "try_to_wake_up"]);
    for at in (0..=800).step_by(20).map(|ms| ms * MS) {
        scene.wake(at, 0, ThreadId::IDLE, client, WakeFlags::HARDIRQ, timer);
        scene.switch(at + 10, 0, IDLE, Runnable, client, StackId::EMPTY);
        scene.wake(at + 20, 0, client, server, WakeFlags::default(), send);
        scene.switch(at + 30, 0, client, Sleeping, IDLE, answer);
        scene.switch(at + 30, 1, IDLE, Runnable, server, StackId::EMPTY);
        if at < 800 * MS {
            scene.wake(at + 40, 1, server, client, WakeFlags::default(), send);
            scene.switch(at + 50, 1, server, Sleeping, IDLE, request);
            scene.switch(at + 50, 0, IDLE, Runnable, client, StackId::EMPTY);
            scene.switch(at + 60, 0, client, Sleeping, IDLE, rest);
        }
    }
    last(&mut scene, server);
    let mut trace = scene.finish(2, 2_000 * MS);
    trace.meta.system = System::Linux;
    trace.has_all_holders = true;
    trace.holders = vec![Holder { inode: 7, process: server, fd: 3, reads: true, writes: true }];
    let on = Descriptor {
        kind: DescriptorKind::InternetSocket,
        inode: 6,
        peer_inode: Some(7),
        ..Descriptor::default()
    };
    trace.kept_waits.push(KeptWait {
        thread: client,
        time: Time::from_nanos(800_030_000),
        syscall: Some(45),
        arguments: [3, 0],
        descriptor: Some(Box::new(on)),
        ..KeptWait::default()
    });
    (trace, [client, server])
}

#[test]
fn who_does_not_answer_is_followed() {
    let (trace, [client, server]) = asks(|scene, server| {
        let sleep =
            scene.stack(&["main", "compact", "|", "hrtimer_nanosleep", "do_nanosleep", "schedule"]);
        scene.switch(801 * MS, 1, server, Sleeping, IDLE, sleep);
    });
    let analysis = Analysis::new(&trace, &Rules::default());
    let query = Query::default();
    let stalls = diagnose(&analysis, &query);
    let text = text_for(&analysis, &query, &stalls, 1);
    let found: Vec<_> =
        stalls.iter().map(|stall| (stall.candidate.victim, stall.finding.culprit)).collect();
    assert_eq!(found, [(client, Some(server))], "{text}");
    assert!(text.contains("waits (network) for server 200, which has not answered yet"), "{text}");
    assert!(
        text.contains("EVIDENCE  inferred: the recording ends before client 100 has its answer"),
        "{text}"
    );
}

#[test]
fn a_server_that_waits_for_requests_owes_no_answer() {
    let (trace, _) = asks(|scene, server| {
        let names = [
            "main",
            "serve",
            "recv",
            "|",
            "udp_recvmsg",
            "__skb_wait_for_more_packets",
            "schedule",
        ];
        let request = scene.stack(&names);
        scene.switch(801 * MS, 1, server, Sleeping, IDLE, request);
    });
    let analysis = Analysis::new(&trace, &Rules::default());
    assert_eq!(diagnose(&analysis, &Query::default()).len(), 0);
}
