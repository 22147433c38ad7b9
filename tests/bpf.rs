//! What recording by BPF promises, on this machine's kernel. Where it does not load, the tests are
//! skipped and print `SKIPPED name: reason` to stderr.

use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use unhitch_model::{FrameId, KeptWait, ModuleKind, ThreadId, Time, Trace, WakeFlags};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

/// `futex(2)` on x86-64.
const SYS_FUTEX: u16 = 202;
/// `clock_nanosleep(2)` on x86-64.
const SYS_CLOCK_NANOSLEEP: u16 = 230;

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
    // 4 means that it did not hang for as long as it should, which says nothing about the recording.
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 4)), "{said}");
    unhitch_formats::open(path).unwrap()
}

/// True for the frame that stands for the cut end of a stack.
fn is_cut(trace: &Trace, frame: FrameId) -> bool {
    let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
    module.is_some_and(|module| module.kind == ModuleKind::Cut)
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
    assert!(trace.stacks.kernel_len(stack) > 3, "no kernel stack");
    let is_whole = !user.iter().any(|&frame| is_cut(&trace, frame));
    assert!(user.len() > 5 && is_whole, "{} frames", user.len());
    let wait = trace.kept_waits.iter().rfind(|wait| name_of(&trace, wait.thread) == "sleepy");
    assert_eq!(wait.and_then(|wait| wait.syscall), Some(SYS_FUTEX));
}

/// A thread that slept before the recording began, and all the time since, has its stack, and about
/// since when.
#[test]
fn live_a_wait_that_began_before_the_recording_has_its_stack() {
    let _alone = alone();
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    thread::sleep(Duration::from_secs(3));
    let recorder = start("live_a_wait_that_began_before_the_recording_has_its_stack");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asleep.hitch");
    let saved = recorder.map(|mut recorder| {
        thread::sleep(Duration::from_secs(1));
        let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
        prepared.save(&SaveTarget::File(path.clone())).unwrap();
    });
    let tid = sleep.id();
    let _ = (sleep.kill(), sleep.wait());
    if saved.is_none() {
        return;
    }
    let trace = unhitch_formats::open(&path).unwrap();
    let wait = trace.earlier_waits.iter().find(|wait| trace.threads.get(wait.thread).tid == tid);
    let wait = wait.expect("its wait");
    let begun = trace.common_window().start;
    let seconds = begun.since(wait.since) as f64 / 1e9;
    assert!(wait.is_estimate && wait.until.is_none(), "{wait:?}");
    assert!((2.0..1000.0).contains(&seconds), "since {seconds} s before the recording");
    assert!(trace.stacks.kernel_len(wait.stack) > 3, "no kernel stack");
    assert!(trace.stacks.user_frames(wait.stack).len() > 3, "no user stack");
    let kept = trace.kept_waits.iter().find(|kept| kept.thread == wait.thread).unwrap();
    assert_eq!((kept.syscall, kept.time), (Some(SYS_CLOCK_NANOSLEEP), wait.since));
}

/// A timer that ends a sleep while a program computes: the program has nothing to do with it, though
/// the interrupt's handler runs on its stack.
#[test]
fn live_an_interrupt_is_no_wake_up_by_whom_it_interrupts() {
    const WAKE_UPS: usize = 100;
    let _alone = alone();
    let test = "live_an_interrupt_is_no_wake_up_by_whom_it_interrupts";
    let Some(mut recorder) = start(test) else { return };
    let mut busy = Command::new("taskset")
        .args(["-c", "0", "sh", "-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let sleeper = thread::spawn(|| {
        let mut first = rustix::thread::CpuSet::new();
        first.set(0);
        rustix::thread::sched_setaffinity(None, &first).unwrap();
        for _ in 0..WAKE_UPS {
            // With a stack, and without.
            thread::sleep(Duration::from_millis(5));
            thread::sleep(Duration::from_micros(200));
        }
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    });
    let sleeper = sleeper.join().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("interrupts.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    let _ = (busy.kill(), busy.wait());
    let trace = unhitch_formats::open(&path).unwrap();
    let (wakings, tid) = (&trace.wakings, |thread| trace.threads.get(thread).tid);
    let interrupted: Vec<usize> = (0..wakings.len())
        .filter(|&at| tid(wakings.wakee[at]) == sleeper && tid(wakings.waker[at]) == busy.id())
        .collect();
    let blamed =
        interrupted.iter().filter(|&&at| !wakings.flags[at].has(WakeFlags::HARDIRQ)).count();
    assert!(interrupted.len() > WAKE_UPS / 2, "only {} wake-ups", interrupted.len());
    assert_eq!(blamed, 0, "of {} wake-ups", interrupted.len());
}

/// Waits `left` levels deep, so that stacks differ.
fn sleep_at(left: u32, time: Duration) {
    match left {
        0 => thread::sleep(time),
        _ => std::hint::black_box(sleep_at)(std::hint::black_box(left - 1), time),
    }
}

fn nap(left: u32) {
    sleep_at(left, Duration::from_micros(1500));
}

const NICE: i32 = 5;

/// Saves what the rings hold after they were overwritten many times by threads that wait; false if
/// they were not. "nappers" have a priority of their own and one place each, "mixed" has two.
fn save_overwritten(recorder: &mut Recorder, path: &Path) -> bool {
    /// How long a ring of this size lasts on a busy machine, and several times that on an idle one.
    const HISTORY: Duration = Duration::from_secs(6);
    let ended = AtomicBool::new(false);
    let (there, back) = (mpsc::sync_channel(0), mpsc::sync_channel(0));
    thread::scope(|scope| {
        let goes_on = || !ended.load(Ordering::Relaxed);
        for depth in 0..8 {
            let nap = move || {
                rustix::process::nice(NICE).unwrap();
                while goes_on() {
                    nap(depth);
                }
            };
            thread::Builder::new().name("napper".to_owned()).spawn_scoped(scope, nap).unwrap();
        }
        // Most of the time that it is blocked is at one place, and it is there at each stack.
        let mixed = move || {
            while goes_on() {
                let (long, short) = (Duration::from_millis(80), Duration::from_millis(5));
                sleep_at(1, long);
                sleep_at(3, short);
            }
        };
        thread::Builder::new().name("mixed".to_owned()).spawn_scoped(scope, mixed).unwrap();
        // They fill the rings, in a second or two, however fast the machine is.
        let ((ask, asked), (answer, answered)) = (there, back);
        scope.spawn(move || while asked.recv().is_ok() && answer.send(()).is_ok() {});
        scope.spawn(move || {
            let asked = || ask.send(()).is_ok() && answered.recv().is_ok();
            while goes_on() && (0..150).all(|_| asked()) {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let begin = Instant::now();
        let is_overwritten = |recorder: &mut Recorder| {
            let started = recorder.status().cpus.iter().map(|cpu| cpu.held).collect::<Vec<_>>();
            started.iter().all(|held| held.end.since(held.start) < HISTORY.as_nanos() as u64 / 2)
        };
        thread::sleep(HISTORY);
        while !is_overwritten(recorder) && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(100));
        }
        let overwritten = is_overwritten(recorder);
        let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
        prepared.save(&SaveTarget::File(path.to_owned())).unwrap();
        ended.store(true, Ordering::Relaxed);
        overwritten
    })
}

/// A ring that has been overwritten many times has the stacks of what it holds, and the priorities of
/// its threads, though both were written first in what is gone.
#[test]
fn live_an_overwritten_ring_has_its_stacks_and_priorities() {
    let _alone = alone();
    let mut options = Options::default();
    (options.engine, options.stack_budget_ppm) = (EngineChoice::Bpf, 0);
    options.ring_bytes_per_cpu = Some(1 << 20);
    let test = "live_an_overwritten_ring_has_its_stacks_and_priorities";
    let mut recorder = match Recorder::start(&options) {
        Ok(recorder) => recorder,
        Err(error) => {
            let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("overwritten.hitch");
    let overwritten = save_overwritten(&mut recorder, &path);
    if !overwritten {
        let _ = writeln!(stderr(), "SKIPPED {test}: the rings were not overwritten in a minute");
        return;
    }
    let trace = unhitch_formats::open(&path).unwrap();
    let (mut waits, mut without_stack) = ([0; 2], [0; 2]);
    let switches = &trace.switches;
    // Outside of it, the ring that had the stacks may be overwritten.
    let window = trace.common_window();
    for at in (0..switches.len()).filter(|&at| window.contains(switches.time[at])) {
        let nice = |thread, prio| {
            let is_napper = name_of(&trace, thread) == "napper";
            assert!(!is_napper || prio == 120 + NICE as i16, "priority {prio} at {at}");
            is_napper
        };
        let _ = nice(switches.next[at], switches.next_prio[at]);
        let is_mixed = name_of(&trace, switches.prev[at]) == "mixed";
        let is_napper = nice(switches.prev[at], switches.prev_prio[at]);
        if (is_napper || is_mixed) && !switches.prev_state[at].is_runnable() {
            let has_stack = !trace.stacks.user_frames(switches.stack[at]).is_empty();
            waits[usize::from(is_mixed)] += 1;
            without_stack[usize::from(is_mixed)] += usize::from(!has_stack);
        }
    }
    // The stacks of those in the oldest quarter may be gone.
    assert!(waits[0] >= 100 && waits[1] >= 5, "{waits:?} waits");
    let is_few = |of: usize, part: usize| without_stack[of] * part <= waits[of];
    assert!(is_few(0, 5) && is_few(1, 3), "{without_stack:?} of {waits:?} waits have no stack");
}

/// The greatest thread id that the kernel gives, for as long as this lives: as most machines have it.
struct ManyIds(String);

const PID_MAX: &str = "/proc/sys/kernel/pid_max";

impl ManyIds {
    fn allow() -> Option<Self> {
        let before = fs::read_to_string(PID_MAX).ok()?;
        fs::write(PID_MAX, "4194304").ok()?;
        Some(Self(before))
    }
}

impl Drop for ManyIds {
    fn drop(&mut self) {
        let _ = fs::write(PID_MAX, &self.0);
    }
}

/// Starts a program whose thread has this id.
fn spawn_with_id(id: u32, command: &mut Command) -> Option<Child> {
    for _ in 0..50 {
        fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string()).ok()?;
        let mut child = command.spawn().unwrap();
        if child.id() == id {
            return Some(child);
        }
        // Another program was started meanwhile.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

/// Threads whose ids have the same low bits do not forget each other's waits.
#[test]
fn live_threads_with_like_ids_keep_their_waits() {
    let _alone = alone();
    let test = "live_threads_with_like_ids_keep_their_waits";
    let Some(_many) = ManyIds::allow() else {
        let _ = writeln!(stderr(), "SKIPPED {test}: {PID_MAX} cannot be set here");
        return;
    };
    let Some(mut recorder) = start(test) else { return };
    let mut sleeper = Command::new("sleep").arg("2").spawn().unwrap();
    let mut like = Command::new("sh");
    like.args(["-c", "while :; do sleep 0.01; done"]);
    let naps: Vec<Child> =
        (1..=3).filter_map(|nth| spawn_with_id(sleeper.id() + nth * 65536, &mut like)).collect();
    let (tid, like_ids) = (sleeper.id(), naps.len());
    sleeper.wait().unwrap();
    for mut nap in naps {
        nap.kill().unwrap();
        nap.wait().unwrap();
    }
    if like_ids == 0 {
        let _ = writeln!(stderr(), "SKIPPED {test}: no thread could be given the id that it needs");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("like.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    let trace = unhitch_formats::open(&path).unwrap();
    let kept = trace.kept_waits.iter().find(|wait| {
        trace.threads.get(wait.thread).tid == tid && wait.syscall == Some(SYS_CLOCK_NANOSLEEP)
    });
    assert!(kept.is_some(), "the sleep of thread {tid} was forgotten");
}

/// The recorder takes a stack that it remembers only if unwinding would give the same.
#[test]
fn live_remembered_stacks_are_those_that_unwinding_gives() {
    let _alone = alone();
    let mut options = Options::default();
    (options.engine, options.compare_stacks, options.stack_budget_ppm) =
        (EngineChoice::Bpf, true, 0);
    let mut recorder = match Recorder::start(&options) {
        Ok(recorder) => recorder,
        Err(error) => {
            let test = "live_remembered_stacks_are_those_that_unwinding_gives";
            let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
            return;
        }
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..1000).for_each(|round| nap(round % 7)));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compared.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    let trace = unhitch_formats::open(&path).unwrap();
    let told = trace.warnings.lines().find(|line| line.starts_with("compared"));
    let told = told.expect("what was compared").to_owned();
    let number = |word: usize| -> u64 {
        let words: Vec<&str> = told.split_whitespace().collect();
        words[word].replace(',', "").parse().unwrap()
    };
    // `compared N stacks of the cache with stacks that were unwound: M differed`
    assert!(number(1) > 1000, "{told}");
    assert_eq!(number(11), 0, "{told}");
}

/// The verifier gives up after a million instructions. That of Linux 6.1 follows more of them
/// than newer ones: programs of which 6.18 followed 293,000 did not load there.
#[test]
fn live_the_programs_are_far_from_what_a_verifier_follows() {
    const MOST: u64 = 250_000;
    let test = "live_the_programs_are_far_from_what_a_verifier_follows";
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut version = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    if (version.next(), version.next()) < (Some(6), Some(12)) {
        let _ = writeln!(stderr(), "SKIPPED {test}: the bound is for newer kernels");
        return;
    }
    let _alone = alone();
    // Those of the service watch waits, too.
    for watch_waits in [false, true] {
        let mut options = Options::default();
        (options.engine, options.watch_waits) = (EngineChoice::Bpf, watch_waits);
        let _recorder = match Recorder::start(&options) {
            Ok(recorder) => recorder,
            Err(error) => {
                let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
                return;
            }
        };
        let open = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
        let counts = open.filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let count = text.lines().find_map(|line| line.strip_prefix("verified_insns:"))?;
            count.trim().parse::<u64>().ok()
        });
        let most = counts.max().expect("a program is loaded");
        assert!((1..MOST).contains(&most), "{most} instructions, watching: {watch_waits}");
    }
}
