//! Marks of input and of windows that did not answer become stalls.

use crate::scene::{Desktop, judged};
use unhitch_analysis::StallKind;
use unhitch_model::*;

const MS: u64 = 1_000;

/// A desktop whose event loop is away from 1,000 ms to 2,600 ms of 4,000, in a wait for a lock.
fn away() -> Desktop {
    let mut desktop = Desktop::new();
    desktop.pump_all(0, 1000);
    let lock = desktop.scene.stack(&[
        "main",
        "run_event_loop",
        "save_all",
        "pthread_mutex_lock",
        "|",
        "__x64_sys_futex",
        "do_futex",
        "futex_wait",
        "schedule",
    ]);
    let (ui, mouse, notify) = (desktop.ui, desktop.mouse, desktop.notify);
    let sleeping = TaskState::Sleeping;
    let scene = &mut desktop.scene;
    scene.switch(1000 * MS + 100, 0, ui, sleeping, ThreadId::IDLE, lock);
    scene.wake(2600 * MS, 1, mouse, ui, WakeFlags::default(), notify);
    scene.switch(2600 * MS + 10, 0, ThreadId::IDLE, TaskState::Runnable, ui, StackId::EMPTY);
    desktop.pump_all(2600, 4000);
    desktop
}

/// Adds a mark of the agent's about the desktop's process, at a time in milliseconds.
fn mark(trace: &mut Trace, event: MarkEvent, thread: ThreadId, ms: u64, sent_ms: Option<u64>) {
    let mut fields = Vec::new();
    let mut payload = Vec::new();
    if let Some(sent_ms) = sent_ms {
        let number = FieldType::Int { bytes: 8, signed: false, hex: false };
        fields.push(Field::new(trace.strings.intern("sent_ns"), number));
        payload.extend((sent_ms * 1_000_000).to_le_bytes());
        let yes = FieldType::Bool { bytes: 1 };
        fields.push(Field::new(trace.strings.intern("answered"), yes));
        payload.push(1);
    }
    let kind = EventKind {
        provider: trace.strings.intern("unhitch-mark"),
        provider_guid: MARK_PROVIDER,
        name: trace.strings.intern(event.name()),
        id: event as u16,
        layout: Layout { fields, pointer_bytes: 8 },
        ..EventKind::default()
    };
    let kind = trace.events.intern_kind(kind);
    let time = Time::from_nanos(ms * 1_000_000);
    let head = EventHead { time, cpu: u16::MAX, thread, kind, stack: StackId::EMPTY };
    trace.events.merge(&[(head, payload)]);
}

#[test]
fn keys_that_waited_are_counted_from_the_first() {
    let desktop = away();
    let ui = desktop.ui;
    let mut trace = desktop.scene.finish(2, 4_000 * MS);
    // Two that are handled at once, three that wait, one after the hang.
    for ms in [300, 500, 1_100, 1_400, 2_000, 3_000] {
        mark(&mut trace, MarkEvent::KeyPress, ui, ms, None);
        mark(&mut trace, MarkEvent::KeyRelease, ui, ms + 40, None);
    }
    mark(&mut trace, MarkEvent::ButtonPress, ui, 2_200, None);
    let (stall, text) = judged(&trace);
    assert_eq!((stall.candidate.kind, stall.candidate.victim), (StallKind::Input, ui));
    assert_eq!(stall.candidate.window.start, Time::from_nanos(1_100_000_000));
    assert!(text.contains("3 keys and 1 click waited up to 1.500 s."), "{text}");
}

#[test]
fn a_window_that_did_not_answer_is_a_delay_of_its_thread() {
    let desktop = away();
    let ui = desktop.ui;
    let mut trace = desktop.scene.finish(2, 4_000 * MS);
    mark(&mut trace, MarkEvent::Ping, ui, 501, Some(500));
    mark(&mut trace, MarkEvent::Ping, ui, 2_601, Some(1_001));
    let (stall, text) = judged(&trace);
    assert_eq!((stall.candidate.kind, stall.candidate.victim), (StallKind::UiDelay, ui));
    assert!(text.contains("had the focus and did not answer for 1.600 s."), "{text}");
}

/// It was told as a hang of the window manager, and nothing of the user.
#[test]
fn regression_what_a_user_waited_for_is_told_rather_than_who_else_waited_for_its_thread() {
    let mut desktop = Desktop::new();
    desktop.pump_all(0, 1000);
    let (ui, manager) = (desktop.ui, desktop.scene.thread(300, 300, "manager"));
    let nap = ["main", "run_event_loop", "save_all", "|", "hrtimer_nanosleep", "schedule"];
    let lock = ["main", "pthread_mutex_lock", "|", "do_futex", "futex_wait", "schedule"];
    let unlock = ["main", "pthread_mutex_unlock", "|", "do_futex", "futex_wake"];
    let timer = ["|", "asm_common_interrupt", "hrtimer_wakeup", "try_to_wake_up"];
    let scene = &mut desktop.scene;
    let (nap, lock) = (scene.stack(&nap), scene.stack(&lock));
    let (unlock, timer) = (scene.stack(&unlock), scene.stack(&timer));
    let (sleeping, running) = (TaskState::Sleeping, TaskState::Runnable);
    scene.switch(1000 * MS + 100, 0, ui, sleeping, ThreadId::IDLE, nap);
    scene.switch(1050 * MS, 1, manager, sleeping, ThreadId::IDLE, lock);
    scene.wake(2600 * MS, 0, ThreadId::IDLE, ui, WakeFlags::HARDIRQ, timer);
    scene.switch(2600 * MS + 10, 0, ThreadId::IDLE, running, ui, StackId::EMPTY);
    scene.wake(2600 * MS + 50, 0, ui, manager, WakeFlags::default(), unlock);
    scene.switch(2600 * MS + 60, 1, ThreadId::IDLE, running, manager, StackId::EMPTY);
    desktop.pump_all(2600, 4000);
    let mut trace = desktop.scene.finish(2, 4_000 * MS);
    mark(&mut trace, MarkEvent::KeyPress, ui, 1_100, None);
    let (stall, text) = judged(&trace);
    assert_eq!((stall.candidate.kind, stall.candidate.victim), (StallKind::Input, ui), "{text}");
    assert_eq!(stall.victims, [ui, manager], "{text}");
}

#[test]
fn a_hostile_ping_is_no_stall() {
    let mut desktop = Desktop::new();
    desktop.pump_all(0, 1000);
    let ui = desktop.ui;
    let mut trace = desktop.scene.finish(2, 1_000 * MS);
    // It claims to have been asked after the answer, and before the recording began.
    mark(&mut trace, MarkEvent::Ping, ui, 400, Some(u64::MAX / 1_000_000));
    let analysis = unhitch_analysis::Analysis::new(&trace, &unhitch_analysis::Rules::default());
    let stalls = unhitch_analysis::diagnose(&analysis, &unhitch_analysis::Query::default());
    assert!(stalls.iter().all(|stall| stall.candidate.kind != StallKind::UiDelay));
}
