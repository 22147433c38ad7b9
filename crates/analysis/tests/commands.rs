//! What a command took: found as a hang of its own, and told after `record -- CMD`.

use crate::scene::{Scene, stalls};
use TaskState::{Dead, Runnable, Sleeping};
use unhitch_analysis::{Analysis, Rules, Stall, StallKind, answer};
use unhitch_model::*;

const MS: u64 = 1_000;
const IDLE: ThreadId = ThreadId::IDLE;

/// A shell starts `commands` times "make", which waits 600 ms for "xz", which computes. Returns the
/// trace and the first make.
fn makes(commands: u64) -> (Trace, ThreadId, ThreadId) {
    let mut scene = Scene::default();
    let shell = scene.thread(50, 50, "sh");
    let wait = scene.stack(&["main", "wait4", "|", "do_wait", "schedule"]);
    let fork = scene.stack(&["main", "fork", "|", "wake_up_new_task"]);
    let exit = scene.stack(&["main", "|", "do_exit", "exit_notify", "try_to_wake_up"]);
    let compress = scene.stack(&["main", "compress"]);
    let mut made = Vec::new();
    for turn in 0..commands {
        let at = 100 * MS + turn * 700 * MS;
        let tid = 100 + 2 * turn as u32;
        let (make, xz) = (scene.thread(tid, tid, "make"), scene.thread(tid + 1, tid + 1, "xz"));
        for (child, parent) in [(make, 50), (xz, tid)] {
            let process = scene.trace.threads.get(child).process;
            scene.trace.threads.process_mut(process).unwrap().parent_pid = Some(parent);
        }
        scene.wake(at, 0, shell, make, WakeFlags::NEW, fork);
        scene.switch(at + 10, 0, shell, Sleeping, make, wait);
        scene.wake(at + 5 * MS, 0, make, xz, WakeFlags::NEW, fork);
        scene.switch(at + 5 * MS + 10, 0, make, Sleeping, IDLE, wait);
        scene.switch(at + 5 * MS + 20, 1, IDLE, Runnable, xz, StackId::EMPTY);
        for sample in (at + 10 * MS..at + 590 * MS).step_by(5_000) {
            scene.sample(sample, 1, xz, compress);
        }
        scene.wake(at + 600 * MS, 1, xz, make, WakeFlags::default(), exit);
        scene.switch(at + 600 * MS + 10, 1, xz, Dead, IDLE, exit);
        scene.switch(at + 600 * MS + 20, 0, IDLE, Runnable, make, StackId::EMPTY);
        scene.wake(at + 601 * MS, 0, make, shell, WakeFlags::default(), exit);
        scene.switch(at + 601 * MS + 10, 0, make, Dead, shell, exit);
        made.push((make, xz));
    }
    let (make, xz) = made[0];
    (scene.finish(2, 200 * MS + commands * 700 * MS), make, xz)
}

#[test]
fn a_command_that_waited_for_most_of_its_life_is_a_stall() {
    let (trace, make, xz) = makes(1);
    let found = stalls(&trace);
    let shown =
        |stall: &Stall| (stall.candidate.kind, stall.candidate.victim, stall.finding.culprit);
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), [(StallKind::Command, make, Some(xz))]);
    assert_eq!(found[0].candidate.kind.name(), "command");
    assert!(stalls(&makes(12).0).is_empty(), "who starts so many works through a list");
}

#[test]
fn a_recorded_command_is_explained_stall_or_not() {
    let (trace, ..) = makes(1);
    let analysis = Analysis::new(&trace, &Rules::default());
    for (pid, words) in [(100, "make 100 took 601."), (101, "xz 101 took 59")] {
        let life = unhitch_analysis::command(&analysis, pid).expect("it was recorded");
        let text = answer::took(&analysis, &life);
        assert!(text.starts_with(words), "{text}");
    }
    assert!(unhitch_analysis::command(&analysis, 999).is_none());
}

/// No compiler of a build takes long; all of them are what it took.
#[test]
fn a_recorded_build_went_into_its_compilers() {
    let mut scene = Scene::default();
    let make = scene.thread(100, 100, "make");
    let wait = scene.stack(&["main", "reap", "wait4", "|", "do_wait", "schedule"]);
    let fork = scene.stack(&["main", "fork", "|", "wake_up_new_task"]);
    let exit = scene.stack(&["_exit", "|", "do_exit", "do_notify_parent", "try_to_wake_up"]);
    scene.switch(MS, 0, IDLE, Runnable, make, StackId::EMPTY);
    for n in 0..40 {
        let at = (2 + n * 25) * MS;
        let compiler = scene.thread(200 + n as u32, 200 + n as u32, "cc1");
        let process = scene.trace.threads.get(compiler).process;
        scene.trace.threads.process_mut(process).unwrap().parent_pid = Some(100);
        scene.wake(at, 0, make, compiler, WakeFlags::NEW, fork);
        scene.switch(at, 1, IDLE, Runnable, compiler, StackId::EMPTY);
        scene.switch(at + 10, 0, make, Sleeping, IDLE, wait);
        scene.wake(at + 24 * MS, 1, compiler, make, WakeFlags::default(), exit);
        scene.switch(at + 24 * MS + 10, 1, compiler, Dead, IDLE, exit);
        scene.switch(at + 24 * MS + 20, 0, IDLE, Runnable, make, StackId::EMPTY);
    }
    scene.switch(1_010 * MS, 0, make, Dead, IDLE, exit);
    let trace = scene.finish(2, 1_200 * MS);
    let analysis = Analysis::new(&trace, &Rules::default());
    let life = unhitch_analysis::command(&analysis, 100).expect("it was recorded");
    let text = answer::took(&analysis, &life);
    assert!(text.contains(" 40 threads named cc1"), "{text}");
}
