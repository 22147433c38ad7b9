//! Pairs of recordings that differ in one known thing: the difference must name it, and nothing
//! else.

use crate::scene::Desktop;
use TaskState::{Runnable, Sleeping};
use unhitch_analysis::diff::{Diff, Summary, text};
use unhitch_analysis::{Analysis, Query, Rules};
use unhitch_model::*;

const MS: u64 = 1_000;

/// A recording in which the event loop waits for a lock, behind "writer-N", behind the holder.
#[derive(Clone, Copy)]
struct Recording {
    /// How long the lock is held.
    hold_ms: u64,
    /// The holder's name.
    holder: &'static str,
    /// The function in which it gives the lock back.
    release: &'static str,
    /// What it does meanwhile.
    work: &'static str,
    /// Half of that time it sleeps until a time that it had set.
    sleeps: bool,
    /// Added to all ids.
    ids: u32,
}

const USUAL: Recording = Recording {
    hold_ms: 1_100,
    holder: "checkpoint",
    release: "release_volume",
    work: "find_clear_run",
    sleeps: false,
    ids: 0,
};

impl Recording {
    fn trace(self) -> Trace {
        let mut desktop = Desktop::new();
        let scene = &mut desktop.scene;
        let ids = self.ids;
        let holder = scene.thread(300 + ids, 301 + ids, self.holder);
        let writer = scene.thread(400 + ids, 401 + ids, &format!("writer-{}", ids % 7));
        let lock =
            ["main", "draw", "lock_volume", "pthread_mutex_lock", "|", "futex_wait", "schedule"];
        let wait = scene.stack(&lock);
        let release =
            ["main", self.release, "pthread_mutex_unlock", "|", "futex_wake", "try_to_wake_up"];
        let release = scene.stack(&release);
        let search = scene.stack(&["main", "checkpoint", self.work]);
        desktop.pump_all(0, 100);
        let (start, end) = (100, 100 + self.hold_ms);
        let scene = &mut desktop.scene;
        scene.switch(80 * MS, 2, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
        scene.switch(99 * MS, 3, writer, Sleeping, ThreadId::IDLE, wait);
        scene.switch(start * MS + 50, 0, desktop.ui, Sleeping, ThreadId::IDLE, wait);
        for sample in 0..self.hold_ms / 5 {
            scene.sample((start + sample * 5) * MS + 100, 2, holder, search);
        }
        if self.sleeps {
            let nap = [
                "main",
                "checkpoint",
                "back_off",
                "|",
                "__x64_sys_nanosleep",
                "do_nanosleep",
                "schedule",
            ];
            let nap = scene.stack(&nap);
            let timer =
                ["|", "asm_sysvec_apic_timer_interrupt", "hrtimer_wakeup", "try_to_wake_up"];
            let timer = scene.stack(&timer);
            let until = start + self.hold_ms * 9 / 10;
            scene.switch((start + 10) * MS, 2, holder, Sleeping, ThreadId::IDLE, nap);
            scene.wake(until * MS, 2, ThreadId::IDLE, holder, WakeFlags::HARDIRQ, timer);
            scene.switch(until * MS + 5, 2, ThreadId::IDLE, Runnable, holder, StackId::EMPTY);
        }
        let task = WakeFlags::default();
        scene.wake(end * MS, 2, holder, writer, task, release);
        scene.switch(end * MS + 10, 3, ThreadId::IDLE, Runnable, writer, StackId::EMPTY);
        scene.wake(end * MS + 40, 3, writer, desktop.ui, task, release);
        scene.switch(end * MS + 60, 0, ThreadId::IDLE, Runnable, desktop.ui, StackId::EMPTY);
        scene.switch(end * MS + 100, 2, holder, Sleeping, ThreadId::IDLE, wait);
        let rest = end / 10 * 10 + 10;
        desktop.pump_all(rest, rest + 100);
        desktop.scene.finish(4, (rest + 100) * MS)
    }
}

fn summary(recording: Recording, before: Option<&Summary>) -> Summary {
    let trace = recording.trace();
    let analysis = Analysis::new(&trace, &Rules::default());
    let focus = before.and_then(|before| before.stall.as_ref()).map(|stall| &stall.victim);
    Summary::new(&analysis, "a.hitch", &Query::default(), focus)
}

fn compared(before: &[Recording], after: &[Recording]) -> (Diff, String) {
    let first = summary(before[0], None);
    let before: Vec<Summary> = before.iter().map(|one| summary(*one, Some(&first))).collect();
    let after: Vec<Summary> = after.iter().map(|one| summary(*one, Some(&first))).collect();
    let diff = Diff::new(&before, &after);
    let sum: i64 = diff.stall.partition.iter().map(|part| part.difference_ns).sum();
    assert_eq!(sum, diff.stall.difference_ns, "the lines sum to the difference");
    for waits in &diff.waits {
        assert_eq!(waits.more_often_ns + waits.longer_ns, waits.difference_ns);
    }
    let text = text(&diff);
    (diff, text)
}

fn changed(change: Recording) -> (Diff, String) {
    compared(&[USUAL], &[change])
}

#[test]
fn a_shorter_hold_is_named_with_its_function_to_the_nanosecond() {
    let (diff, text) = changed(Recording { hold_ms: 300, ..USUAL });
    assert!(!diff.is_noise && diff.stall.length_differs && !diff.stall.cause_differs, "{text}");
    assert_eq!(diff.stall.difference_ns, -800_000_000);
    let first = &diff.stall.partition[0];
    assert_eq!((first.what, first.difference_ns), ("lock", -800_000_000));
    assert_eq!(first.who.as_ref().unwrap().thread, "checkpoint");
    insta::assert_snapshot!("shorter_hold", text);
}

#[test]
fn the_same_thing_twice_is_no_difference() {
    // Other ids, other digits in names, a little longer.
    let (diff, text) = changed(Recording { hold_ms: 1_130, ids: 1_000, ..USUAL });
    assert!(diff.is_noise, "{text}");
    assert!(text.starts_with("NO DIFFERENCE ABOVE NOISE"), "{text}");
    assert_eq!(diff.stall.chain.differs, [""; 0], "{text}");
    let (same, _) = changed(USUAL);
    assert!(same.is_noise && same.stall.difference_ns == 0);
}

#[test]
fn one_changed_edge_is_found() {
    let (diff, text) = changed(Recording { release: "flush_journal", ..USUAL });
    assert_eq!(diff.stall.chain.differs, ["wake"], "{text}");
    assert!(diff.stall.cause_differs && !diff.stall.length_differs, "{text}");
    let (before, after) = (diff.stall.chain.before.unwrap(), diff.stall.chain.after.unwrap());
    assert_eq!(
        (before.wake_in.as_str(), after.wake_in.as_str()),
        ("release_volume", "flush_journal")
    );
    insta::assert_snapshot!("changed_release", text);

    let (diff, text) = changed(Recording { holder: "defragment", ..USUAL });
    assert_eq!((diff.stall.chain.same, diff.stall.chain.differs), (1, vec!["waker"]), "{text}");
    assert_eq!(diff.stall.chain.before.unwrap().waker.thread, "checkpoint");
    assert_eq!(diff.stall.chain.after.unwrap().waker.thread, "defragment");
}

#[test]
fn another_end_of_the_same_chain_is_found() {
    let (diff, text) = changed(Recording { work: "merge_runs", ..USUAL });
    assert_eq!(diff.stall.chain.differs, ["end"], "{text}");
    let ends = diff.stall.chain.ends;
    assert_eq!(ends.0.unwrap().function, "find_clear_run");
    assert_eq!(ends.1.unwrap().function, "merge_runs");

    let (diff, text) = changed(Recording { sleeps: true, ..USUAL });
    assert_eq!(diff.stall.chain.differs, ["end"], "{text}");
    assert!(text.contains("checkpoint slept until a time it had set in back_off"), "{text}");
    let timer = diff.stall.partition.iter().find(|part| part.what == "timer").unwrap();
    assert!(timer.before_ns == 0 && timer.after_ns > 900_000_000, "{text}");
}

#[test]
fn a_stall_that_is_gone_is_gone() {
    let (diff, text) = changed(Recording { hold_ms: 10, ..USUAL });
    assert!(!diff.is_noise, "{text}");
    assert!(diff.stall.after.as_ref().is_none_or(|after| !after.is_stall), "{text}");
    assert_eq!((diff.stalls[0].before.0, diff.stalls[0].after.0), (1, 0), "{text}");
}

#[test]
fn three_recordings_on_a_side_tell_noise() {
    let of = |lengths: [u64; 3]| lengths.map(|hold_ms| Recording { hold_ms, ..USUAL });
    // A tenth less is noise in a single pair; here it is not.
    let (diff, text) = compared(&of([1_100, 1_110, 1_120]), &of([990, 1_000, 1_010]));
    assert!(diff.stall.length_differs && !diff.is_noise, "{text}");
    assert_eq!(diff.stall.difference_ns, -110_000_000, "the medians' difference");
    assert!(text.contains("do not overlap") && text.contains("0.100"), "{text}");
    // Half as long again, but so it was before.
    let (diff, text) = compared(&of([800, 1_100, 1_500]), &of([900, 1_200, 1_600]));
    assert!(diff.is_noise, "{text}");
}
