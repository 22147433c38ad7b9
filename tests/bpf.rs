//! What recording by BPF promises, on this machine's kernel. Where it does not load, the tests are
//! skipped and print `SKIPPED name: reason` to stderr.

use std::io::{Write, stderr};
use std::path::Path;
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use unhitch_model::{KeptWait, ModuleKind, ThreadId, Time, Trace};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

/// `futex(2)` on x86-64.
const SYS_FUTEX: u16 = 202;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(test: &str) -> Option<Recorder> {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    match Recorder::start(&options) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
            None
        }
    }
}

/// Records a program of the lab.
fn record(program: &str, seconds: &str, path: &Path) -> Trace {
    let unhitch = env!("CARGO_BIN_EXE_unhitch");
    let out = Command::new(unhitch)
        .args(["record", "--engine", "bpf", "-o"])
        .arg(path)
        .args(["--", unhitch, "lab", program, "--seconds", seconds])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    unhitch_formats::open(path).unwrap()
}

fn name_of(trace: &Trace, thread: ThreadId) -> &str {
    trace.thread_name(thread, Time::MAX)
}

/// The typing thread of `lab starve` waits for one mutex of glibc, and for nothing else by futex,
/// while the inspector takes it again and again.
#[test]
fn live_every_long_wait_for_a_mutex_names_the_lock_and_its_owner() {
    let _alone = alone();
    let test = "live_every_long_wait_for_a_mutex_names_the_lock_and_its_owner";
    if start(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut named = 0;
    // How often it hangs is for the scheduler to say.
    for attempt in 0.. {
        let path = folder.path().join(format!("{attempt}.hitch"));
        let trace = record("starve", "6", &path);
        let of_typing = trace.kept_waits.iter().filter(|wait| {
            wait.syscall == Some(SYS_FUTEX) && name_of(&trace, wait.thread) == "typing"
        });
        let of_typing: Vec<&KeptWait> = of_typing.collect();
        let owner = |wait: &KeptWait| wait.owner.map(|owner| name_of(&trace, owner));
        // It also waits for other threads at its start and its end, which is no mutex.
        let mutex =
            of_typing.iter().find(|wait| owner(wait).is_some()).map(|wait| wait.arguments[0]);
        for wait in of_typing.iter().filter(|wait| Some(wait.arguments[0]) == mutex) {
            assert_eq!(owner(wait), Some("inspector"), "{wait:?}");
            named += 1;
        }
        let others = of_typing.iter().filter(|wait| Some(wait.arguments[0]) != mutex).count();
        assert!(others < 5, "{others} waits for something else");
        if named >= 100 {
            return;
        }
        assert!(attempt < 12, "only {named} waits in {attempt} runs");
    }
}

/// A thread that waits when the trace is saved has a stack, down to where it was started, though
/// its wait has not ended.
#[test]
fn live_a_wait_that_has_not_ended_has_its_stack() {
    let _alone = alone();
    let Some(mut recorder) = start("live_a_wait_that_has_not_ended_has_its_stack") else { return };
    let end = (Mutex::new(false), Condvar::new());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asleep.hitch");
    thread::scope(|scope| {
        thread::Builder::new()
            .name("sleepy".to_owned())
            .spawn_scoped(scope, || {
                let ended = end.0.lock().unwrap();
                drop(end.1.wait_while(ended, |ended| !*ended).unwrap());
            })
            .unwrap();
        // Its process's unwind tables are there after a moment.
        thread::sleep(Duration::from_secs(2));
        let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
        prepared.save(&SaveTarget::File(path.clone())).unwrap();
        *end.0.lock().unwrap() = true;
        end.1.notify_all();
    });
    let trace = unhitch_formats::open(&path).unwrap();
    let (index, _) = trace
        .switches
        .prev
        .iter()
        .enumerate()
        .rfind(|(_, thread)| name_of(&trace, **thread) == "sleepy")
        .unwrap();
    let stack = trace.switches.stack[index];
    let user = trace.stacks.user_frames(stack);
    let is_cut = |frame| {
        let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
        module.is_some_and(|module| module.kind == ModuleKind::Cut)
    };
    assert!(trace.stacks.kernel_len(stack) > 3, "no kernel stack");
    assert!(user.len() > 5 && !user.iter().any(|&frame| is_cut(frame)), "{} frames", user.len());
    let wait = trace.kept_waits.iter().rfind(|wait| name_of(&trace, wait.thread) == "sleepy");
    assert_eq!(wait.and_then(|wait| wait.syscall), Some(SYS_FUTEX));
}
