//! What ended a wait: an answer, a signal that only interrupted it, a device, the network, or a
//! server in user space.

use crate::scene::{Desktop, Scene, judged};
use TaskState::{DiskSleep, Runnable, Sleeping};
use unhitch_analysis::patterns::{Evidence, Pattern};
use unhitch_analysis::{Analysis, Query, Rules, StallKind, diagnose};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;
const NONE: StackId = StackId::EMPTY;
const LOCK: [&str; 6] = ["main", "update", "pthread_mutex_lock", "|", "futex_wait", "schedule"];

/// The event loop sleeps in `wait` from 100 to 1,100 ms; `meanwhile` fills the scene.
fn asleep(wait: &[&str], meanwhile: impl FnOnce(&mut Scene, ThreadId)) -> Trace {
    let mut desktop = Desktop::new();
    let wait = desktop.scene.stack(wait);
    desktop.pump_all(0, 100);
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, Sleeping, IDLE, wait);
    meanwhile(&mut desktop.scene, desktop.ui);
    desktop.scene.switch(1_100 * MS + 9, 0, IDLE, Runnable, desktop.ui, NONE);
    desktop.pump_all(1_110, 1_300);
    desktop.scene.finish(3, 1_300 * MS)
}

/// "killer" sleeps, and sends the event loop a signal at 1,100 ms.
fn killed(scene: &mut Scene, ui: ThreadId) -> ThreadId {
    let killer = scene.thread(900, 900, "killer");
    let rest = scene.stack(&["main", "nap", "|", "do_nanosleep", "schedule"]);
    let kill = scene.stack(&[
        "main",
        "kill",
        "|",
        "__x64_sys_kill",
        "do_send_sig_info",
        "complete_signal",
        "signal_wake_up_state",
        "try_to_wake_up",
    ]);
    let timer = scene.stack(&["|", "hrtimer_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
    scene.switch(85 * MS, 2, IDLE, Runnable, killer, NONE);
    scene.switch(86 * MS, 2, killer, Sleeping, IDLE, rest);
    scene.wake(1_099 * MS - 10, 2, IDLE, killer, WakeFlags::HARDIRQ, timer);
    scene.switch(1_099 * MS, 2, IDLE, Runnable, killer, NONE);
    scene.wake(1_100 * MS, 2, killer, ui, WakeFlags::default(), kill);
    scene.switch(1_101 * MS, 2, killer, Sleeping, IDLE, rest);
    killer
}

#[test]
fn regression_a_signal_releases_no_lock() {
    let trace = asleep(&LOCK, |scene, ui| _ = killed(scene, ui));
    let (stall, text) = judged(&trace);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::DeadEnd, None), "{text}");
    assert!(text.contains("when killer 900 interrupted it by a signal"), "{text}");
}

/// "holder" computes, stops the event loop by a signal now and then, as a garbage collector does, and lets it
/// go on: the wait for a lock of the event loop is over by its unlock, or during the last of the signals.
fn waits_and_is_stopped(unlocks: bool) -> (Trace, ThreadId) {
    let mut holder = IDLE;
    let trace = asleep(&LOCK, |scene, ui| {
        holder = scene.thread(100, 280, "holder");
        let kill = ["main", "stop_all", "|", "__x64_sys_kill", "complete_signal", "try_to_wake_up"];
        let kill = scene.stack(&kill);
        let stopped = ["main", "update", "on_stop", "sigsuspend", "|", "sigsuspend", "schedule"];
        let stopped = scene.stack(&stopped);
        let lock = scene.stack(&LOCK);
        let work = scene.stack(&["main", "reorganise"]);
        let unlock = ["main", "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"];
        let unlock = scene.stack(&unlock);
        scene.switch(90 * MS, 1, IDLE, Runnable, holder, NONE);
        for at in (95..1_100).step_by(5) {
            scene.sample(at * MS, 1, holder, work);
        }
        for round in [300, 700] {
            scene.wake(round * MS, 1, holder, ui, WakeFlags::default(), kill);
            scene.switch(round * MS + 9, 0, IDLE, Runnable, ui, NONE);
            scene.switch(round * MS + 50, 0, ui, Sleeping, IDLE, stopped);
            scene.wake((round + 9) * MS, 1, holder, ui, WakeFlags::default(), kill);
            scene.switch((round + 9) * MS + 9, 0, IDLE, Runnable, ui, NONE);
            scene.switch((round + 9) * MS + 50, 0, ui, Sleeping, IDLE, lock);
        }
        let last = if unlocks { unlock } else { kill };
        scene.wake(1_100 * MS, 1, holder, ui, WakeFlags::default(), last);
        scene.switch(1_101 * MS, 1, holder, Sleeping, IDLE, lock);
    });
    (trace, holder)
}

#[test]
fn regression_a_wait_that_signals_only_interrupt_is_for_who_has_the_lock() {
    for unlocks in [true, false] {
        let (trace, holder) = waits_and_is_stopped(unlocks);
        let (stall, text) = judged(&trace);
        let finding = &stall.finding;
        assert_eq!((finding.pattern, finding.culprit), (Pattern::LongHold, Some(holder)), "{text}");
        assert_eq!(finding.function, "reorganise", "{text}");
        assert_eq!(finding.evidence, Evidence::Inferred, "{text}");
    }
}

#[test]
fn who_was_killed_in_a_wait_of_its_own_is_how_far_the_chain_goes() {
    let wait = ["main", "convert", "wait4", "|", "do_wait", "schedule"];
    let mut child = IDLE;
    let mut killer = IDLE;
    let trace = asleep(&wait, |scene, ui| {
        child = scene.thread(280, 280, "head");
        let write = ["main", "print", "write", "|", "anon_pipe_write", "schedule"];
        let write = scene.stack(&write);
        let exit = ["main", "write", "|", "do_exit", "do_notify_parent", "try_to_wake_up"];
        let exit = scene.stack(&exit);
        scene.switch(99 * MS, 1, IDLE, Runnable, child, NONE);
        scene.switch(101 * MS, 1, child, Sleeping, IDLE, write);
        killer = killed(scene, child);
        scene.switch(1_100 * MS + 2, 1, IDLE, Runnable, child, NONE);
        scene.wake(1_100 * MS + 5, 1, child, ui, WakeFlags::default(), exit);
        scene.switch(1_100 * MS + 6, 1, child, TaskState::Dead, IDLE, exit);
    });
    let (stall, text) = judged(&trace);
    let finding = &stall.finding;
    assert_eq!((finding.pattern, finding.culprit), (Pattern::DeadEnd, Some(child)), "{text}");
    assert!(text.contains("not known beyond head 280: it was still waiting when killer"), "{text}");
    // The killer's own waits kept nobody waiting.
    assert!(!stall.victims.contains(&killer), "{text}");
    let asked = Query { victims: vec![killer], ..Query::default() };
    let of_killer = diagnose(&Analysis::new(&trace, &Rules::default()), &asked);
    assert!(of_killer.iter().all(|stall| !stall.victims.contains(&child)), "{of_killer:#?}");
}

#[test]
fn regression_the_owner_of_a_lock_is_known_though_a_signal_ended_the_wait() {
    let mut owner = IDLE;
    let mut trace = asleep(&LOCK, |scene, ui| {
        owner = scene.thread(800, 800, "owner");
        let busy = scene.stack(&["main", "rebuild_index"]);
        scene.switch(90 * MS, 1, IDLE, Runnable, owner, NONE);
        (100..1_300).for_each(|ms| _ = scene.sample(ms * MS, 1, owner, busy));
        killed(scene, ui);
    });
    trace.kept_waits = vec![KeptWait {
        time: Time::from_nanos((100 * MS + 50) * 1000),
        thread: trace.threads.at(100, Time::ZERO).unwrap(),
        owner: Some(owner),
        ..KeptWait::default()
    }];
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.culprit, Some(owner), "{text}");
    assert!(text.contains("still did when a signal interrupted the wait"), "{text}");
}

/// The tracer writes into a pipe for 990 ms of the stop, until its reader takes something out.
#[test]
fn regression_a_tracer_that_is_kept_waiting_is_not_what_stops() {
    let stop = ["main", "look_up", "stat", "|", "ptrace_notify", "ptrace_stop", "schedule"];
    let mut reader = None;
    let trace = asleep(&stop, |scene, ui| {
        let (tracer, pager) = (scene.thread(800, 800, "tracer"), scene.thread(900, 900, "pager"));
        reader = Some(pager);
        let write = scene.stack(&["main", "print", "write", "|", "anon_pipe_write", "schedule"]);
        let read = ["main", "turn_page", "read", "|", "anon_pipe_read", "__wake_up_sync_key"];
        let read = scene.stack(&read);
        let go_on =
            scene.stack(&["main", "restart", "ptrace", "|", "ptrace_request", "wake_up_state"]);
        let think = scene.stack(&["main", "compute"]);
        scene.switch(50 * MS, 2, IDLE, Runnable, pager, NONE);
        (60..1_000).for_each(|ms| _ = scene.sample(ms * MS, 2, pager, think));
        scene.switch(99 * MS, 1, IDLE, Runnable, tracer, NONE);
        scene.switch(101 * MS, 1, tracer, Sleeping, IDLE, write);
        scene.wake(1_090 * MS, 2, pager, tracer, WakeFlags::default(), read);
        scene.switch(1_091 * MS, 1, IDLE, Runnable, tracer, NONE);
        scene.wake(1_100 * MS, 1, tracer, ui, WakeFlags::default(), go_on);
    });
    let (stall, text) = judged(&trace);
    assert_eq!((stall.finding.culprit, &*stall.finding.function), (reader, "compute"), "{text}");
}

/// A job that somebody suspended before the recording began.
#[test]
fn regression_a_suspended_job_comes_after_what_hung() {
    let mut owner = None;
    let trace = asleep(&LOCK, |scene, ui| {
        let (job, keeper) = (scene.thread(800, 800, "job"), scene.thread(901, 901, "keeper"));
        owner = Some(keeper);
        let stop = scene.stack(&["main", "|", "get_signal", "do_signal_stop", "schedule"]);
        let unlock = scene.stack(&["main", "pthread_mutex_unlock", "|", "futex_wake"]);
        scene.switch(0, 2, job, TaskState::Stopped, IDLE, stop);
        scene.switch(50 * MS, 1, IDLE, Runnable, keeper, NONE);
        scene.wake(1_100 * MS, 1, keeper, ui, WakeFlags::default(), unlock);
    });
    let analysis = Analysis::new(&trace, &Rules::default());
    let stalls = diagnose(&analysis, &Query::default());
    let culprits: Vec<_> = stalls.iter().map(|stall| stall.finding.culprit).collect();
    assert!(culprits.len() >= 2 && culprits[0] == owner, "{culprits:?}");
    assert_eq!(stalls.last().unwrap().finding.pattern, Pattern::Stopped);
}

#[test]
fn regression_a_soft_interrupt_in_a_bystanders_call_is_not_its_doing() {
    let recv = ["main", "ask_database", "recv", "|", "tcp_recvmsg", "sk_wait_data", "schedule"];
    // (what the soft interrupt does, by whom it is)
    let cases: [(&[&str], bool); 3] = [
        (&["net_rx_action", "e1000_clean", "netif_receive_skb_list", "sock_def_readable"], false),
        (&["run_timer_softirq", "call_timer_fn", "process_timeout"], false),
        (&["net_rx_action", "__napi_poll", "process_backlog", "sock_def_readable"], true),
    ];
    for (softirq, is_own) in cases {
        let mut bystander = IDLE;
        let trace = asleep(&recv, |scene, ui| {
            bystander = scene.thread(700, 700, "bystander");
            let called = ["main", "send_page", "|", "tcp_sendmsg", "__local_bh_enable_ip"];
            let served = ["do_softirq", "handle_softirqs"];
            let stack = [&called[..], &served, softirq, &["try_to_wake_up"]].concat();
            let stack = scene.stack(&stack);
            let busy = scene.stack(&["main", "send_page", "pack"]);
            scene.switch(50 * MS, 1, IDLE, Runnable, bystander, NONE);
            (100..1_300).for_each(|ms| _ = scene.sample(ms * MS, 1, bystander, busy));
            scene.wake(1_100 * MS, 1, bystander, ui, WakeFlags::SOFTIRQ, stack);
        });
        let (stall, text) = judged(&trace);
        assert_eq!(stall.finding.culprit == Some(bystander), is_own, "{softirq:?}: {text}");
        assert_eq!(text.contains("bystander"), is_own, "{softirq:?}: {text}");
    }
}

#[test]
fn regression_a_thread_that_handles_interrupts_is_no_culprit() {
    let recv = ["main", "ask_database", "recv", "|", "tcp_recvmsg", "sk_wait_data", "schedule"];
    let trace = asleep(&recv, |scene, ui| {
        let handler = scene.thread(600, 600, "irq/136-iwlwifi");
        let rest =
            scene.stack(&["|", "kthread", "irq_thread", "irq_wait_for_interrupt", "schedule"]);
        let stack = [
            "|",
            "kthread",
            "irq_thread",
            "irq_thread_fn",
            "iwl_pcie_rx_handle",
            "netif_receive_skb_list",
            "tcp_v4_rcv",
            "sock_def_readable",
            "try_to_wake_up",
        ];
        let stack = scene.stack(&stack);
        scene.switch(1_099 * MS, 1, IDLE, Runnable, handler, NONE);
        scene.wake(1_100 * MS, 1, handler, ui, WakeFlags::default(), stack);
        scene.switch(1_101 * MS, 1, handler, Sleeping, IDLE, rest);
    });
    let (stall, text) = judged(&trace);
    assert_eq!((stall.finding.pattern, stall.finding.culprit), (Pattern::DeadEnd, None), "{text}");
    assert!(text.contains("a message from the network"), "{text}");
}

#[test]
fn regression_a_file_systems_server_that_computes_is_to_blame() {
    let open = ["main", "list", "|", "fuse_readdir", "request_wait_answer", "schedule"];
    let mut server = IDLE;
    let trace = asleep(&open, |scene, ui| {
        server = scene.thread(500, 500, "archivefs");
        let busy = scene.stack(&["main", "serve", "unpack"]);
        let reply = scene.stack(&[
            "main",
            "serve",
            "write",
            "|",
            "fuse_dev_write",
            "fuse_dev_do_write",
            "try_to_wake_up",
        ]);
        scene.switch(90 * MS, 1, IDLE, Runnable, server, NONE);
        (100..1_300).for_each(|ms| _ = scene.sample(ms * MS, 1, server, busy));
        scene.wake(1_100 * MS, 1, server, ui, WakeFlags::default(), reply);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit, stall.finding.function.as_str()),
        (Pattern::CpuBound, Some(server), "unpack"),
        "{text}"
    );
}

#[test]
fn regression_a_wait_for_a_device_says_so() {
    let fence = ["main", "present", "|", "drm_ioctl", "dma_fence_default_wait", "schedule"];
    let trace = asleep(&fence, |scene, ui| {
        let done = ["|", "asm_common_interrupt", "amdgpu_irq_handler", "dma_fence_signal"];
        let done = scene.stack(&[&done[..], &["try_to_wake_up"]].concat());
        scene.wake(1_100 * MS, 1, IDLE, ui, WakeFlags::HARDIRQ, done);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.function.as_str()),
        (Pattern::DeviceWait, "present"),
        "{text}"
    );
    assert_eq!(stall.finding.evidence, Evidence::Direct);
    assert!(text.contains("a slow device, waited for in present"), "{text}");
}

#[test]
fn regression_pages_of_a_mapped_file_are_called_so() {
    let fault = [
        "main",
        "search",
        "|",
        "asm_exc_page_fault",
        "handle_mm_fault",
        "__do_fault",
        "filemap_fault",
        "folio_wait_bit_common",
        "io_schedule",
    ];
    let mut desktop = Desktop::new();
    let fault = desktop.scene.stack(&fault);
    let done =
        ["|", "asm_common_interrupt", "blk_mq_complete_request", "bio_endio", "try_to_wake_up"];
    let done = desktop.scene.stack(&done);
    desktop.pump_all(0, 100);
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, DiskSleep, IDLE, fault);
    desktop.scene.wake(600 * MS, 1, IDLE, desktop.ui, WakeFlags::HARDIRQ, done);
    desktop.scene.switch(600 * MS + 9, 0, IDLE, Runnable, desktop.ui, NONE);
    desktop.pump_all(610, 700);
    let (stall, text) = judged(&desktop.scene.finish(2, 700 * MS));
    assert_eq!(stall.finding.pattern, Pattern::Memory);
    assert!(text.contains("a wait for a page of a mapped file, in search"), "{text}");
    assert!(text.contains("REMEDY    Its pages were read from their disk"), "{text}");
}

#[test]
fn regression_an_event_loop_that_rests_elsewhere_does_not_hang() {
    let accept = ["main", "child_main", "accept4", "|", "inet_csk_accept", "schedule"];
    let trace = asleep(&accept, |scene, ui| {
        let browser = scene.thread(400, 400, "browser");
        let connect = scene.stack(&[
            "main",
            "visit",
            "connect",
            "|",
            "tcp_v4_connect",
            "__local_bh_enable_ip",
            "do_softirq",
            "process_backlog",
            "sock_def_readable",
            "try_to_wake_up",
        ]);
        let rest = scene.stack(&["main", "think", "|", "do_nanosleep", "schedule"]);
        scene.switch(1_099 * MS, 2, IDLE, Runnable, browser, NONE);
        scene.wake(1_100 * MS, 2, browser, ui, WakeFlags::SOFTIRQ, connect);
        scene.switch(1_101 * MS, 2, browser, Sleeping, IDLE, rest);
    });
    let stalls = diagnose(&Analysis::new(&trace, &Rules::default()), &Query::default());
    let of_loop: Vec<_> =
        stalls.iter().filter(|stall| stall.candidate.kind == StallKind::EventLoop).collect();
    assert!(of_loop.is_empty(), "{of_loop:?}");
}

#[test]
fn regression_one_long_wait_for_an_answer_that_timed_out_is_a_hang() {
    let call = [
        "main",
        "dbus_connection_send_with_reply_and_block",
        "recvmsg",
        "|",
        "unix_stream_recvmsg",
        "unix_stream_read_generic",
        "unix_stream_data_wait",
        "schedule_timeout",
    ];
    let trace = asleep(&call, |scene, ui| {
        let timer = scene.stack(&["|", "sysvec_apic_timer_interrupt", "process_timeout"]);
        scene.wake(1_100 * MS, 0, IDLE, ui, WakeFlags::HARDIRQ, timer);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(stall.candidate.kind, StallKind::EventLoop, "{text}");
}

#[test]
fn regression_a_condition_that_an_unlock_ended_is_no_lock() {
    let wait =
        ["main", "run_tasks", "parking_lot::condvar::Condvar::wait", "|", "futex_wait", "schedule"];
    let mut sender = IDLE;
    let trace = asleep(&wait, |scene, ui| {
        sender = scene.thread(300, 300, "sender");
        let busy = scene.stack(&["main", "prepare"]);
        let unlock =
            ["main", "send", "parking_lot::raw_mutex::RawMutex::unlock_slow", "|", "futex_wake"];
        let unlock = scene.stack(&unlock);
        scene.switch(90 * MS, 1, IDLE, Runnable, sender, NONE);
        (100..1_300).for_each(|ms| _ = scene.sample(ms * MS, 1, sender, busy));
        scene.wake(1_100 * MS, 1, sender, ui, WakeFlags::default(), unlock);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuBound, Some(sender)),
        "{text}"
    );
}

/// What the host had taken by a time of the trace.
fn reading(ms: u64, stolen_ms: u64) -> Reading {
    Reading {
        time: Time::from_nanos(ms * 1_000_000),
        steal_ns: Some(stolen_ms * 1_000_000),
        ..Reading::default()
    }
}

#[test]
fn regression_a_host_that_took_the_cpu_makes_a_computation_uncertain() {
    for (stolen_ms, evidence) in [(0, Evidence::Direct), (900, Evidence::Inferred)] {
        let mut desktop = Desktop::new();
        let busy = desktop.scene.stack(&["main", "draw", "fill"]);
        desktop.pump_all(0, 100);
        (101..1_100).for_each(|ms| _ = desktop.scene.sample(ms * MS, 0, desktop.ui, busy));
        desktop.pump_all(1_110, 1_300);
        let mut trace = desktop.scene.finish(2, 1_300 * MS);
        trace.machine.readings = vec![reading(50, 7), reading(1_200, 7 + stolen_ms)];
        let (stall, text) = judged(&trace);
        assert_eq!((stall.finding.pattern, stall.finding.evidence), (Pattern::CpuBound, evidence));
        assert_eq!(text.contains("host took 900.0 ms of CPU time"), stolen_ms > 0, "{text}");
    }
}

#[test]
fn regression_a_host_that_took_the_cpu_took_nothing_from_who_slept() {
    let wait = ["main", "draw", "pthread_mutex_lock", "|", "futex_wait", "schedule"];
    let mut holder = IDLE;
    let mut trace = asleep(&wait, |scene, ui| {
        holder = scene.thread(300, 300, "holder");
        let nap = scene.stack(&["main", "keep", "nanosleep", "|", "do_nanosleep", "schedule"]);
        let timer = scene.stack(&["|", "hrtimer_interrupt", "hrtimer_wakeup"]);
        let unlock = scene.stack(&["main", "keep", "pthread_mutex_unlock", "|", "futex_wake"]);
        scene.switch(90 * MS, 1, IDLE, Runnable, holder, NONE);
        scene.switch(95 * MS, 1, holder, Sleeping, IDLE, nap);
        scene.wake(1_095 * MS, 1, IDLE, holder, WakeFlags::HARDIRQ, timer);
        scene.switch(1_096 * MS, 1, IDLE, Runnable, holder, NONE);
        scene.wake(1_100 * MS, 1, holder, ui, WakeFlags::default(), unlock);
    });
    trace.machine.readings =
        [(50, 0), (1_200, 400)].map(|(ms, stolen_ms)| reading(ms, stolen_ms)).into();
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit, stall.finding.evidence),
        (Pattern::LongHold, Some(holder), Evidence::Direct),
        "{text}"
    );
    assert!(!text.contains("host took"), "{text}");
}

#[test]
fn regression_who_queued_elsewhere_was_not_kept_by_the_cpu_that_it_came_to() {
    let mut desktop = Desktop::new();
    let hog = desktop.scene.thread(250, 250, "hog");
    let last = desktop.scene.thread(260, 260, "last");
    let (busy, nap) = (
        desktop.scene.stack(&["main", "spin"]),
        desktop.scene.stack(&["main", "nap", "|", "do_nanosleep", "schedule"]),
    );
    desktop.pump_all(0, 100);
    // It is woken where it slept, on CPU 0, but "hog" has that; CPU 2 takes it over at the end.
    desktop.scene.switch(100 * MS + 50, 0, desktop.ui, Sleeping, hog, desktop.poll);
    (101..700).for_each(|ms| _ = desktop.scene.sample(ms * MS, 0, hog, busy));
    desktop.scene.wake(
        110 * MS,
        1,
        desktop.mouse,
        desktop.ui,
        WakeFlags::default(),
        desktop.notify,
    );
    for ms in 0..99 {
        desktop.scene.switch((110 + ms * 5) * MS, 2, IDLE, Runnable, last, NONE);
        desktop.scene.switch((113 + ms * 5) * MS, 2, last, Sleeping, IDLE, nap);
    }
    desktop.scene.switch(610 * MS, 2, IDLE, Runnable, desktop.ui, NONE);
    desktop.scene.switch(611 * MS, 2, desktop.ui, Sleeping, IDLE, desktop.poll);
    let (stall, text) = judged(&desktop.scene.finish(3, 700 * MS));
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::CpuStarvation, Some(hog)),
        "{text}"
    );
}

#[test]
fn regression_a_shell_waits_for_the_command_that_was_typed() {
    for (name, is_told) in [("bash", false), ("editor", true)] {
        let wait = ["main", "run", "waitpid", "|", "do_wait", "schedule"];
        let mut trace = asleep(&wait, |scene, ui| {
            let child = scene.thread(270, 270, "child");
            let busy = scene.stack(&["main", "compile"]);
            let exit = scene.stack(&["|", "do_exit", "exit_notify", "__wake_up_sync_key"]);
            scene.switch(101 * MS, 1, IDLE, Runnable, child, NONE);
            (102..1_100).for_each(|ms| _ = scene.sample(ms * MS, 1, child, busy));
            scene.wake(1_100 * MS, 1, child, ui, WakeFlags::default(), exit);
            scene.switch(1_101 * MS, 1, child, TaskState::Dead, IDLE, NONE);
        });
        let id = trace.threads.at(100, Time::ZERO).unwrap();
        let name = trace.strings.intern(name);
        trace.threads.get_mut(id).unwrap().names = vec![(Time::ZERO, name)];
        let stalls = diagnose(&Analysis::new(&trace, &Rules::default()), &Query::default());
        let of_loop = stalls.iter().any(|stall| stall.candidate.kind == StallKind::EventLoop);
        assert_eq!(of_loop, is_told, "{stalls:#?}");
    }
}

#[test]
fn regression_who_gave_a_kernel_worker_its_work_is_followed_and_not_what_it_did_before() {
    let write = ["main", "print", "write", "|", "n_tty_write", "wait_woken", "schedule"];
    let mut user = IDLE;
    let trace = asleep(&write, |scene, ui| {
        user = scene.thread(280, 280, "user");
        let worker = scene.thread(281, 281, "kworker/u8:1");
        let rest = scene.stack(&["|", "kthread", "worker_thread", "schedule"]);
        let nap = scene.stack(&["main", "wait_a_little", "|", "do_nanosleep", "schedule"]);
        let timer = scene.stack(&["|", "hrtimer_wakeup", "try_to_wake_up"]);
        let press = ["main", "press", "write", "|", "pty_write", "queue_work_on", "try_to_wake_up"];
        let press = scene.stack(&press);
        let start = ["|", "kthread", "worker_thread", "flush_to_ldisc", "start_tty"];
        let start = scene.stack(&[&start[..], &["try_to_wake_up"]].concat());
        scene.switch(90 * MS, 2, IDLE, Runnable, user, NONE);
        scene.switch(91 * MS, 2, user, Sleeping, IDLE, nap);
        // In between, the worker does something for others.
        scene.switch(50 * MS, 1, IDLE, Runnable, worker, NONE);
        for ms in [51, 400, 700] {
            scene.switch(ms * MS, 1, worker, TaskState::Idle, IDLE, rest);
            let next = if ms == 51 {
                399
            } else if ms == 400 {
                699
            } else {
                1_099
            };
            if next < 1_099 {
                scene.wake(next * MS, 1, IDLE, worker, WakeFlags::HARDIRQ, timer);
            }
            scene.switch(next * MS + 500, 1, IDLE, Runnable, worker, NONE);
        }
        scene.wake(1_098 * MS, 2, IDLE, user, WakeFlags::HARDIRQ, timer);
        scene.switch(1_098 * MS + 10, 2, IDLE, Runnable, user, NONE);
        scene.wake(1_099 * MS, 2, user, worker, WakeFlags::default(), press);
        scene.wake(1_100 * MS, 1, worker, ui, WakeFlags::default(), start);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::TimerSleep, Some(user)),
        "{text}"
    );
}

#[test]
fn regression_the_rest_of_kernel_workers_that_report_a_disks_completion_is_the_disks() {
    let sync = ["main", "save", "fsync", "|", "folio_wait_bit", "io_schedule", "schedule"];
    let mut ui = IDLE;
    let trace = asleep(&sync, |scene, victim| {
        ui = victim;
        let workers = [281, 282].map(|tid| scene.thread(tid, tid, &format!("kworker/{tid}:1")));
        let rest = scene.stack(&["|", "kthread", "worker_thread", "schedule"]);
        let timer = scene.stack(&["|", "call_timer_fn", "queue_work_on", "try_to_wake_up"]);
        let queue = ["|", "kthread", "worker_thread", "process_one_work", "queue_work_on"];
        let queue = scene.stack(&[&queue[..], &["try_to_wake_up"]].concat());
        let done = ["|", "kthread", "worker_thread", "bio_endio", "folio_end_writeback"];
        let done = scene.stack(&[&done[..], &["try_to_wake_up"]].concat());
        for (worker, cpu) in workers.into_iter().zip([1, 2]) {
            scene.switch(50 * MS, cpu, IDLE, Runnable, worker, NONE);
            scene.switch(51 * MS, cpu, worker, TaskState::Idle, IDLE, rest);
        }
        scene.wake(1_098 * MS, 1, IDLE, workers[0], WakeFlags::SOFTIRQ, timer);
        scene.switch(1_098 * MS + 10, 1, IDLE, Runnable, workers[0], NONE);
        scene.wake(1_099 * MS, 1, workers[0], workers[1], WakeFlags::default(), queue);
        scene.switch(1_099 * MS + 10, 2, IDLE, Runnable, workers[1], NONE);
        scene.wake(1_100 * MS, 2, workers[1], victim, WakeFlags::default(), done);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(
        (stall.finding.pattern, stall.finding.culprit),
        (Pattern::IoWait, Some(ui)),
        "{text}"
    );
}

#[test]
fn who_serves_a_disk_that_is_a_file_is_followed_if_it_waited_as_long() {
    let sync = ["main", "save", "fsync", "|", "folio_wait_bit", "io_schedule", "schedule"];
    for (served_until_ms, is_followed) in [(1_099, true), (600, false)] {
        let (mut ui, mut server) = (IDLE, IDLE);
        let trace = asleep(&sync, |scene, victim| {
            ui = victim;
            server = scene.thread(280, 280, "server");
            let worker = scene.thread(281, 281, "kworker/u8:1");
            let rest = scene.stack(&["|", "kthread", "worker_thread", "schedule"]);
            let serve =
                ["|", "kthread", "worker_thread", "loop_process_work", "request_wait_answer"];
            let serve = scene.stack(&[&serve[..], &["schedule"]].concat());
            let nap = scene.stack(&["main", "read_slowly", "|", "do_nanosleep", "schedule"]);
            let answer = ["main", "reply", "|", "fuse_request_end", "try_to_wake_up"];
            let answer = scene.stack(&answer);
            let done = ["|", "asm_sysvec", "blk_done_softirq", "folio_wake_bit", "try_to_wake_up"];
            let done = scene.stack(&done);
            scene.switch(90 * MS, 2, IDLE, Runnable, server, NONE);
            scene.switch(91 * MS, 2, server, Sleeping, IDLE, nap);
            scene.switch(99 * MS, 1, IDLE, Runnable, worker, NONE);
            scene.switch(101 * MS, 1, worker, DiskSleep, IDLE, serve);
            scene.switch((served_until_ms - 1) * MS, 2, IDLE, Runnable, server, NONE);
            scene.wake(served_until_ms * MS, 2, server, worker, WakeFlags::default(), answer);
            scene.switch(served_until_ms * MS + 10, 1, IDLE, Runnable, worker, NONE);
            // Its rest begins before the request is over.
            scene.switch(served_until_ms * MS + 50, 1, worker, TaskState::Idle, IDLE, rest);
            scene.wake(1_100 * MS, 1, IDLE, victim, WakeFlags::SOFTIRQ, done);
        });
        let (stall, text) = judged(&trace);
        let expected = match is_followed {
            true => (Pattern::TimerSleep, Some(server), Evidence::Inferred),
            false => (Pattern::IoWait, Some(ui), stall.finding.evidence),
        };
        let finding = &stall.finding;
        assert_eq!((finding.pattern, finding.culprit, finding.evidence), expected, "{text}");
        assert_eq!(text.contains("while kworker/u8:1 281 served the disk"), is_followed, "{text}");
    }
}

#[test]
fn regression_a_timer_of_a_loop_before_the_event_that_mattered_is_not_what_kept_it() {
    let recv = ["main", "fetch", "recv", "|", "tcp_recvmsg", "sk_wait_data", "schedule"];
    for is_asked in [true, false] {
        let mut busy = IDLE;
        let trace = asleep(&recv, |scene, victim| {
            let proxy = scene.thread(280, 280, "proxy");
            let worker = scene.thread(280, 281, "worker");
            let server = scene.thread(290, 290, "server");
            let spawner = scene.thread(300, 300, "spawner");
            let pump = ["main", "loop", "epoll_wait", "|", "do_epoll_wait", "schedule"];
            let pump = scene.stack(&pump);
            let timer =
                scene.stack(&["|", "hrtimer_interrupt", "hrtimer_wakeup", "try_to_wake_up"]);
            let send = scene.stack(&["main", "send", "|", "sock_def_readable", "try_to_wake_up"]);
            let fork = scene.stack(&["main", "fork", "|", "wake_up_new_task"]);
            let close = ["main", "close", "|", "__fput", "sock_def_wakeup", "try_to_wake_up"];
            let close = scene.stack(&close);
            let sum = scene.stack(&["main", "sum_up"]);
            let awake = |scene: &mut Scene, at: u64, until: u64| {
                scene.switch(at + 10, 1, IDLE, Runnable, proxy, NONE);
                scene.switch(until, 1, proxy, Sleeping, IDLE, pump);
            };
            awake(scene, 90 * MS, 91 * MS);
            scene.wake(700 * MS, 1, IDLE, proxy, WakeFlags::HARDIRQ, timer);
            // It did something for another one.
            scene.wake(700 * MS + 30, 1, proxy, spawner, WakeFlags::default(), send);
            awake(scene, 700 * MS, 700 * MS + 60);
            if is_asked {
                // Its own worker lets it ask the server.
                busy = worker;
                scene.switch(80 * MS, 2, IDLE, Runnable, worker, NONE);
                scene.wake(800 * MS, 2, worker, proxy, WakeFlags::default(), send);
                scene.wake(800 * MS + 40, 1, proxy, server, WakeFlags::default(), send);
                awake(scene, 800 * MS, 800 * MS + 60);
                scene.switch(802 * MS, 2, worker, Sleeping, server, pump);
            } else {
                // The server is started while the proxy already waits, which closes an old connection
                // to its process.
                busy = server;
                scene.wake(700 * MS + 40, 1, proxy, server, WakeFlags::default(), close);
                scene.wake(150 * MS, 0, spawner, server, WakeFlags::NEW, fork);
                scene.switch(150 * MS + 10, 2, IDLE, Runnable, server, NONE);
            }
            let samples = if is_asked { 81..800 } else { 151..1_099 };
            samples.for_each(|ms| _ = scene.sample(ms * MS, 2, busy, sum));
            scene.wake(1_099 * MS, 2, server, proxy, WakeFlags::default(), send);
            scene.switch(1_099 * MS + 10, 1, IDLE, Runnable, proxy, NONE);
            scene.switch(1_099 * MS + 20, 2, server, Sleeping, IDLE, pump);
            scene.wake(1_100 * MS, 1, proxy, victim, WakeFlags::default(), send);
        });
        let (stall, text) = judged(&trace);
        assert_eq!(
            (stall.finding.pattern, stall.finding.culprit),
            (Pattern::CpuBound, Some(busy)),
            "{text}"
        );
    }
}

#[test]
fn regression_who_spins_for_a_lock_does_not_compute() {
    for others in [1, 2] {
        let mut desktop = Desktop::new();
        let spin = desktop.scene.stack(&["main", "draw", "pthread_spin_lock"]);
        let nap = desktop.scene.stack(&["main", "save", "|", "do_nanosleep", "schedule"]);
        desktop.pump_all(0, 100);
        (101..1_100).for_each(|ms| _ = desktop.scene.sample(ms * MS, 0, desktop.ui, spin));
        let mut saver = IDLE;
        for other in 0..others {
            saver = desktop.scene.thread(100, 150 + other, "saver");
            let cpu = 1 + other as u16;
            desktop.scene.switch(90 * MS, cpu, IDLE, Runnable, saver, NONE);
            desktop.scene.switch(91 * MS, cpu, saver, Sleeping, IDLE, nap);
            desktop.scene.switch(1_095 * MS, cpu, IDLE, Runnable, saver, NONE);
            desktop.scene.switch(1_200 * MS, cpu, saver, Sleeping, IDLE, nap);
        }
        desktop.pump_all(1_110, 1_300);
        let (stall, text) = judged(&desktop.scene.finish(3, 1_300 * MS));
        assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
        assert!(text.contains("spinning for a lock"), "{text}");
        let (culprit, function) = (stall.finding.culprit, stall.finding.function.as_str());
        match others {
            1 => assert_eq!((culprit, function), (Some(saver), "save"), "{text}"),
            _ => assert_eq!(culprit, None, "either may have had it: {text}"),
        }
    }
}

/// Who goes round and round in MPI's barrier waits for the only process of the program that works.
#[test]
fn who_spins_for_others_waits_for_the_one_that_works() {
    for working in [1, 2] {
        let mut desktop = Desktop::new();
        let barrier = ["main", "PMPI_Barrier", "ompi_request_default_wait", "opal_progress"];
        let spin = desktop.scene.stack(&barrier);
        let busy = desktop.scene.stack(&["main", "simulate_storm"]);
        desktop.pump_all(0, 100);
        (101..1_100).for_each(|ms| _ = desktop.scene.sample(ms * MS, 0, desktop.ui, spin));
        let name = desktop.scene.trace.threads.name_at(desktop.ui, Time::ZERO);
        let name = desktop.scene.trace.name(name).to_owned();
        let mut worker = IDLE;
        for other in 0..working {
            worker = desktop.scene.thread(700 + other, 700 + other, &name);
            let cpu = 1 + other as u16;
            desktop.scene.switch(90 * MS, cpu, IDLE, Runnable, worker, NONE);
            (101..1_100).for_each(|ms| _ = desktop.scene.sample(ms * MS, cpu, worker, busy));
            desktop.scene.switch(1_100 * MS, cpu, worker, Sleeping, IDLE, NONE);
        }
        desktop.pump_all(1_110, 1_300);
        let mut trace = desktop.scene.finish(3, 1_300 * MS);
        let processes: Vec<ProcessId> = trace.threads.processes().map(|(id, _)| id).collect();
        for process in processes {
            trace.threads.process_mut(process).unwrap().parent_pid = Some(50);
        }
        let (stall, text) = judged(&trace);
        assert_eq!(stall.finding.evidence, Evidence::Inferred, "{text}");
        assert!(text.contains("spinning until another thread or process"), "{text}");
        let (culprit, function) = (stall.finding.culprit, stall.finding.function.as_str());
        match working {
            1 => assert_eq!((culprit, function), (Some(worker), "simulate_storm"), "{text}"),
            _ => assert_eq!(culprit, None, "it may be either: {text}"),
        }
    }
}

#[test]
fn who_slept_while_another_waited_for_it_ended_that_wait() {
    let mut server = IDLE;
    let trace = asleep(&["main", "recv", "|", "tcp_recvmsg", "schedule"], |scene, ui| {
        server = scene.thread(800, 800, "server");
        let nap = scene.stack(&["serve", "nap", "|", "do_nanosleep", "schedule"]);
        let reply = scene.stack(&["serve", "reply", "|", "tcp_sendmsg", "sock_def_readable"]);
        let timer = scene.stack(&["|", "asm_sysvec_apic_timer_interrupt", "hrtimer_wakeup"]);
        scene.switch(90 * MS, 1, IDLE, Runnable, server, NONE);
        scene.switch(101 * MS, 1, server, Sleeping, IDLE, nap);
        scene.wake(1_090 * MS, 1, IDLE, server, WakeFlags::HARDIRQ, timer);
        scene.switch(1_090 * MS + 5, 1, IDLE, Runnable, server, NONE);
        scene.wake(1_100 * MS, 1, server, ui, WakeFlags::default(), reply);
        scene.switch(1_101 * MS, 1, server, Sleeping, IDLE, nap);
    });
    let (stall, text) = judged(&trace);
    assert_eq!(stall.finding.culprit, Some(server), "{text}");
    assert_eq!(stall.finding.pattern, Pattern::TimerSleep, "{text}");
    assert!(text.contains("server 800 ended the wait in\n  serve → reply"), "{text}");
}
