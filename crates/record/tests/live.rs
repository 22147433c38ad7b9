//! Records this machine for real. A test that it does not permit is skipped, and prints `SKIPPED
//! name: reason` to stderr.

use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use unhitch_model::{TaskState, ThreadId, Time, Trace, Window};
use unhitch_record::{
    EngineChoice, Error, Extras, Options, Recorder, SaveTarget, Saved, Signals, Snapshot, Until,
    WatchEvent, WatchOptions, control, record, watch,
};
use unhitch_symbols::Symbolizer;

/// Tests run one at a time: a storm would disturb the figures of the others.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Time limit for anything that must happen eventually, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(60);

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints past the test harness, which hides the output of passing tests.
fn skipped(name: &str, reason: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
}

/// What tests check of a `perf.data` is what performance events record.
fn options(ring_bytes: usize) -> Options {
    options_of(EngineChoice::Perf, ring_bytes)
}

fn options_of(engine: EngineChoice, ring_bytes: usize) -> Options {
    let mut options = Options::default();
    options.ring_bytes_per_cpu = Some(ring_bytes);
    options.engine = engine;
    options
}

fn start(name: &str, options: &Options) -> Option<Recorder> {
    match Recorder::start(options) {
        Ok(recorder) => Some(recorder),
        Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) => {
            skipped(name, &error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A symbolizer shared by all tests, because it caches what it has read.
static SYMBOLIZER: LazyLock<Mutex<Symbolizer>> = LazyLock::new(|| Mutex::new(own_symbolizer()));

fn own_symbolizer() -> Symbolizer {
    Symbolizer::new(unhitch_symbols::Options {
        lines: false,
        ..unhitch_symbols::Options::default()
    })
}

fn symbolizer() -> MutexGuard<'static, Symbolizer> {
    SYMBOLIZER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn save(snapshot: &Snapshot, path: &Path) -> Saved {
    snapshot
        .save(&SaveTarget::File(path.to_owned()), &mut *symbolizer(), &Extras::default())
        .unwrap()
}

fn open(saved: &Saved) -> Trace {
    unhitch_formats::open(&saved.path).unwrap()
}

fn with_sources(error: &dyn std::error::Error) -> String {
    error.source().map_or(error.to_string(), |source| format!("{error}: {}", with_sources(source)))
}

/// Pairs of threads that send a byte back and forth until they are stopped.
struct PingPong {
    stop: Vec<UnixStream>,
    threads: Vec<JoinHandle<u64>>,
}

impl PingPong {
    fn start(pairs: usize) -> Self {
        let mut ping_pong = Self { stop: Vec::new(), threads: Vec::new() };
        for _ in 0..pairs {
            let (ping, pong) = UnixStream::pair().unwrap();
            ping_pong.stop.push(ping.try_clone().unwrap());
            (&ping).write_all(b"x").unwrap();
            for (name, mut socket) in [("ping", ping), ("pong", pong)] {
                let play = move || {
                    let (mut byte, mut rounds) = ([0], 0);
                    while socket.read_exact(&mut byte).is_ok() && socket.write_all(&byte).is_ok() {
                        rounds += 1;
                    }
                    rounds
                };
                ping_pong
                    .threads
                    .push(thread::Builder::new().name(name.to_owned()).spawn(play).unwrap());
            }
        }
        ping_pong
    }

    fn stop(self) -> u64 {
        for socket in &self.stop {
            socket.shutdown(std::net::Shutdown::Both).unwrap();
        }
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

/// All incarnations of threads that ever had this name.
fn threads_named(trace: &Trace, name: &str) -> Vec<ThreadId> {
    let named = |id: &ThreadId| {
        trace.threads.get(*id).names.iter().any(|(_, known)| trace.name(*known) == name)
    };
    trace.threads.iter().map(|(id, _)| id).filter(named).collect()
}

/// Counts how often one of our players was switched to on a CPU and the next switch there left from
/// another thread: one lost record is one break.
///
/// Only players count. They are almost all that runs in these tests, and Linux 6.18 has been seen
/// to deliver no events from other threads for a while (the idle thread, old threads of init), to
/// any tracer: perf's own counts lack them as well.
fn breaks(trace: &Trace) -> Vec<String> {
    let switches = &trace.switches;
    let players: BTreeSet<ThreadId> =
        ["ping", "pong"].iter().flat_map(|name| threads_named(trace, name)).collect();
    let mut running: BTreeMap<u16, ThreadId> = BTreeMap::new();
    let mut broken = Vec::new();
    for i in 0..switches.len() {
        let last = running.insert(switches.cpu[i], switches.next[i]);
        if let Some(last) = last.filter(|last| *last != switches.prev[i] && players.contains(last))
        {
            let tid = |id: ThreadId| trace.threads.get(id).tid;
            broken.push(format!(
                "CPU {} {:?}: {} came, {} left",
                switches.cpu[i],
                switches.time[i],
                tid(last),
                tid(switches.prev[i])
            ));
        }
    }
    broken.truncate(5);
    broken
}

/// The switches of a trace inside `window`, by CPU and in order: two saves must agree on these
/// where they overlap.
fn switches_in(trace: &Trace, window: Window) -> BTreeMap<u16, Vec<(Time, u32, u32)>> {
    let switches = &trace.switches;
    let mut by_cpu: BTreeMap<u16, Vec<(Time, u32, u32)>> = BTreeMap::new();
    for i in switches.range(window) {
        let tid = |id: ThreadId| trace.threads.get(id).tid;
        by_cpu.entry(switches.cpu[i]).or_default().push((
            switches.time[i],
            tid(switches.prev[i]),
            tid(switches.next[i]),
        ));
    }
    by_cpu
}

#[test]
fn live_switches_of_a_ping_pong_have_stacks_and_wakers() {
    let _alone = alone();
    let Some(mut recorder) =
        start("live_switches_of_a_ping_pong_have_stacks_and_wakers", &options(16 << 20))
    else {
        return;
    };
    let game = PingPong::start(1);
    thread::sleep(Duration::from_secs(1));
    let snapshot = recorder.snapshot();
    game.stop();
    let folder = tempfile::tempdir().unwrap();
    let trace = open(&save(&snapshot, &folder.path().join("a.hitch")));

    let (ping, pong) = (threads_named(&trace, "ping"), threads_named(&trace, "pong"));
    assert!(!ping.is_empty() && !pong.is_empty(), "the players are named");
    let switches = &trace.switches;
    let asleep: Vec<usize> = (0..switches.len())
        .filter(|&i| {
            ping.contains(&switches.prev[i]) && switches.prev_state[i] == TaskState::Sleeping
        })
        .collect();
    assert!(asleep.len() > 100, "{} sleeps", asleep.len());
    let names = trace.stack_names(switches.stack[asleep[asleep.len() / 2]]);
    assert!(names.iter().any(|name| name == "schedule"), "kernel frames: {names:?}");
    assert!(names.iter().any(|name| name.contains("read")), "where it waits: {names:?}");
    assert!(asleep.iter().all(|&i| trace.stacks.kernel_len(switches.stack[i]) > 0));
    let wakings = &trace.wakings;
    let woken = (0..wakings.len())
        .filter(|&i| pong.contains(&wakings.waker[i]) && ping.contains(&wakings.wakee[i]))
        .count();
    assert!(woken > 100, "{woken} wakings");
    let user = (0..wakings.len()).filter(|&i| {
        pong.contains(&wakings.waker[i]) && !trace.stacks.user_frames(wakings.stack[i]).is_empty()
    });
    assert!(user.count() > 100, "wake stacks go on into user mode");
    assert!(!trace.samples.is_empty(), "a busy second has CPU samples");
    assert_eq!(breaks(&trace), Vec::<String>::new(), "no switch is missing");
    assert_eq!(trace.spans.len(), snapshot.spans().len());
}

#[test]
fn live_perf_reads_what_we_write() {
    let _alone = alone();
    let name = "live_perf_reads_what_we_write";
    let Some(mut recorder) = start(name, &options(4 << 20)) else { return };
    let game = PingPong::start(1);
    thread::sleep(Duration::from_millis(200));
    let snapshot = recorder.snapshot();
    game.stop();
    let folder = tempfile::tempdir().unwrap();
    let saved = save(&snapshot, &folder.path().join("a.hitch"));
    let Ok(unzipped) = Command::new("unzip").arg("-p").arg(&saved.path).arg("perf.data").output()
    else {
        return skipped(name, &"there is no unzip");
    };
    let perf_data = folder.path().join("perf.data");
    fs::write(&perf_data, &unzipped.stdout).unwrap();
    for (arguments, wanted) in [(&["script"][..], "__schedule"), (&["sched", "timehist"], "ping[")]
    {
        let Ok(output) = Command::new("perf").args(arguments).arg("-i").arg(&perf_data).output()
        else {
            return skipped(name, &"there is no perf");
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(
            text.contains(wanted) && text.contains("ping"),
            "perf {arguments:?} shows nothing of it"
        );
    }
}

#[test]
fn live_saves_in_a_storm_have_no_gaps() {
    let _alone = alone();
    saves_in_a_storm(EngineChoice::Perf);
    saves_in_a_storm(EngineChoice::Bpf);
}

fn saves_in_a_storm(engine: EngineChoice) {
    let name = "live_saves_in_a_storm_have_no_gaps";
    let Some(mut recorder) = start(name, &options_of(engine, 64 << 20)) else { return };
    let storm = PingPong::start(8);
    thread::sleep(Duration::from_millis(300));
    let mut first = recorder.snapshot();
    let second = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        let second = recorder.snapshot();
        if second.window().start < first.window().end {
            return Some(second);
        }
        // In a storm, and under other load, this thread may get its CPU only after the rings have
        // wrapped.
        first = second;
        None
    });
    storm.stop();
    let Some(second) = second else {
        return skipped(
            name,
            &"100 times the rings went round before this thread got its CPU again",
        );
    };
    let folder = tempfile::tempdir().unwrap();
    assert!(second.window().end.since(first.window().end) > 90_000_000);
    let mut traces = Vec::new();
    for (name, snapshot) in [("first", &first), ("second", &second)] {
        let saved = save(snapshot, &folder.path().join(format!("{name}.hitch")));
        assert!(
            !saved.warnings.iter().any(|warning| warning.contains("ring buffer of CPU")),
            "{:?}",
            saved.warnings
        );
        let trace = open(&saved);
        assert!(trace.switches.len() > 1000 && trace.losses.is_empty());
        assert_eq!(
            breaks(&trace),
            Vec::<String>::new(),
            "{engine:?}: {name} save of {} switches",
            trace.switches.len()
        );
        traces.push(trace);
    }
    let both = Window::new(second.window().start, first.window().end);
    let [earlier, later] = [0, 1].map(|save| switches_in(&traces[save], both));
    assert!(earlier.keys().eq(later.keys()), "both saves know the same CPUs");
    for (earlier, later) in earlier.values().zip(later.values()) {
        // On each CPU, the record of one switch may have been in flight when the first copy was
        // taken.
        let missing = later
            .strip_prefix(earlier.as_slice())
            .expect("both saves agree about the time they share");
        assert!(missing.len() <= 1, "the first save lacks {missing:?}");
    }
}

#[test]
fn live_small_rings_are_copied_clean_while_they_are_overwritten() {
    let _alone = alone();
    copies_of_small_rings(EngineChoice::Perf);
    copies_of_small_rings(EngineChoice::Bpf);
}

fn copies_of_small_rings(engine: EngineChoice) {
    let name = "live_small_rings_are_copied_clean_while_they_are_overwritten";
    let Some(mut recorder) = start(name, &options_of(engine, 256 << 10)) else { return };
    let storm = PingPong::start(8);
    thread::sleep(Duration::from_millis(100));
    let snapshots: Vec<Snapshot> = (0..12).map(|_| recorder.snapshot()).collect();
    storm.stop();
    let folder = tempfile::tempdir().unwrap();
    for (round, snapshot) in snapshots.iter().enumerate() {
        let saved = save(snapshot, &folder.path().join(format!("{round}.hitch")));
        assert!(
            saved.warnings.iter().all(|warning| !warning.contains("damaged")),
            "{:?}",
            saved.warnings
        );
        assert_eq!(breaks(&open(&saved)), Vec::<String>::new(), "{engine:?}: round {round}");
    }
}

#[test]
fn live_exited_processes_keep_their_names_and_code() {
    let _alone = alone();
    let Some(mut recorder) =
        start("live_exited_processes_keep_their_names_and_code", &options(4 << 20))
    else {
        return;
    };
    let script = "for i in 1 2 3; do sleep 0.02; done; (sleep 0.01; :) & wait";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    let folder = tempfile::tempdir().unwrap();
    let trace = open(&save(&recorder.snapshot(), &folder.path().join("a.hitch")));
    let sleepers = threads_named(&trace, "sleep");
    assert!(sleepers.len() >= 4, "{} of 4 sleeps are known", sleepers.len());
    let switches = &trace.switches;
    let mut naps = (0..switches.len()).filter(|&i| {
        sleepers.contains(&switches.prev[i]) && switches.prev_state[i] == TaskState::Sleeping
    });
    let nap = naps
        .find(|&i| {
            trace.stack_names(switches.stack[i]).iter().any(|name| name.contains("nanosleep"))
        })
        .expect("a nap");
    let user = trace.stacks.user_frames(switches.stack[nap]);
    let modules: Vec<&str> = user
        .iter()
        .filter_map(|&frame| trace.modules.get(trace.stacks.frame(frame)?.module))
        .map(|module| trace.name(module.path))
        .collect();
    assert!(
        modules.iter().any(|path| path.contains("libc")),
        "the code of a dead process is known: {modules:?}"
    );
}

#[test]
fn live_a_full_disk_leaves_nothing_and_loses_nothing() {
    let _alone = alone();
    let name = "live_a_full_disk_leaves_nothing_and_loses_nothing";
    let Some(mut recorder) = start(name, &options(4 << 20)) else { return };
    let game = PingPong::start(2);
    thread::sleep(Duration::from_millis(200));
    let snapshot = recorder.snapshot();
    game.stop();
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&full).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return skipped(name, &"tmpfs cannot be mounted");
    }
    let target = SaveTarget::Folder { folder: full.clone(), what: "save".to_owned() };
    let error = snapshot.save(&target, &mut *symbolizer(), &Extras::default());
    let left = fs::read_dir(&full).unwrap().count();
    assert!(Command::new("umount").arg(&full).status().unwrap().success());
    let error = with_sources(&error.unwrap_err());
    assert!(error.contains("No space left") && error.contains("full"), "{error}");
    assert_eq!(left, 0, "nothing is left behind");
    let saved = save(&snapshot, &folder.path().join("elsewhere.hitch"));
    assert!(!open(&saved).switches.is_empty());
    let again =
        snapshot.save(&SaveTarget::File(saved.path), &mut *symbolizer(), &Extras::default());
    assert!(with_sources(&again.unwrap_err()).contains("never overwritten"));
    let nowhere = SaveTarget::File(folder.path().join("missing/a.hitch"));
    assert!(
        snapshot
            .save(&nowhere, &mut *symbolizer(), &Extras::default())
            .is_err_and(|error| with_sources(&error).contains("missing"))
    );
}

#[test]
fn live_record_runs_a_command_and_holds_all_of_it() {
    let _alone = alone();
    let name = "live_record_runs_a_command_and_holds_all_of_it";
    if start(name, &options(256 << 10)).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = Until::Command(
        ["sh", "-c", "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; exit 3"]
            .map(Into::into)
            .to_vec(),
    );
    let target =
        SaveTarget::Folder { folder: folder.path().to_owned(), what: "two words".to_owned() };
    let extras = Extras {
        notes: Some("a note".to_owned()),
        entries: vec![("lab.json".to_owned(), b"{}".to_vec())],
    };
    let recorded = record(
        &options(256 << 10),
        &command,
        &target,
        &mut *symbolizer(),
        &extras,
        &mut |_| {},
        &AtomicBool::new(false),
    )
    .unwrap();
    assert_eq!(recorded.status.and_then(|status| status.code()), Some(3));
    assert!(
        recorded.saved.path.to_string_lossy().ends_with("_two-words.hitch"),
        "{:?}",
        recorded.saved.path
    );
    let trace = open(&recorded.saved);
    assert_eq!(trace.meta.notes, "a note");
    // Each of the three hundred, unless the kernel had no room for its name.
    let named = |thread: &unhitch_model::Thread| {
        thread.names.iter().any(|(_, name)| trace.strings.get(*name) == "true")
    };
    let known = trace.threads.iter().filter(|(_, thread)| named(thread)).count();
    let is_lost = recorded.saved.warnings.iter().any(|line| line.contains("could not deliver"));
    assert!(known >= 300 || is_lost, "{known} of 300");
    let missing = Until::Command(vec!["/no/such/program".into()]);
    let error = record(
        &options(256 << 10),
        &missing,
        &target,
        &mut *symbolizer(),
        &extras,
        &mut |_| {},
        &AtomicBool::new(false),
    )
    .unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
    let traces = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(traces, 1, "nothing is left of what was not recorded");
}

fn watched(traces: &Path, socket_folder: &Path) -> WatchOptions {
    let mut watched = WatchOptions::default();
    watched.config.recorder = options(1 << 20);
    watched.config.folder = traces.to_owned();
    watched.config.socket_folder = socket_folder.to_owned();
    watched.status_interval = Some(Duration::from_secs(1));
    watched
}

#[test]
fn live_watch_saves_on_request_and_refuses_a_second_recorder() {
    let _alone = alone();
    let name = "live_watch_saves_on_request_and_refuses_a_second_recorder";
    if start(name, &options(1 << 20)).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("control");
    let (traces, socket) = (folder.with_file_name("traces"), folder.join("control.sock"));
    fs::create_dir(&traces).unwrap();
    let (save_flag, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let reload = AtomicBool::new(false);
    let signals = Signals { save: &save_flag, reload: &reload, stop: &stop, wake: None };
    let saves = Mutex::new(Vec::<PathBuf>::new());
    let watching = || {
        let mut report = |event: WatchEvent<'_>| match event {
            WatchEvent::Saved(saved) => saves.lock().unwrap().push(saved.path.clone()),
            WatchEvent::SaveFailed { error, .. } => panic!("{error}"),
            WatchEvent::Status(status) => assert!(
                status.rates.iter().any(|(name, rate)| name == "sched:sched_switch" && *rate > 0.0)
            ),
            _ => {}
        };
        watch(watched(&traces, &folder), &mut own_symbolizer(), None, &mut report, signals)
    };
    thread::scope(|scope| {
        let first = scope.spawn(watching);
        let asked = Instant::now();
        let answer = loop {
            match control::request_save(&socket, &json!({"notes": "it hung again"})) {
                Err(Error::NotWatching { .. }) if asked.elapsed() < TIMEOUT => {
                    thread::sleep(Duration::from_millis(50))
                }
                result => break result.unwrap(),
            }
        };
        assert_eq!(unhitch_formats::open(&answer.path).unwrap().meta.notes, "it hung again");
        let second =
            watch(watched(&traces, &folder), &mut own_symbolizer(), None, &mut |_| {}, signals);
        assert!(matches!(second, Err(Error::AlreadyWatching { .. })));
        save_flag.store(true, Ordering::Relaxed);
        while saves.lock().unwrap().len() < 2 && asked.elapsed() < TIMEOUT {
            thread::sleep(Duration::from_millis(50));
        }
        // This is long enough for a status or two, which are checked on arrival.
        thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
        first.join().unwrap().unwrap();
    });
    let saves = saves.into_inner().unwrap();
    assert_eq!((saves.len(), fs::read_dir(&traces).unwrap().count()), (2, 2));
    assert!(matches!(control::request_save(&socket, &json!({})), Err(Error::NotWatching { .. })));
}

#[test]
fn live_the_owner_of_a_pthread_mutex_is_found() {
    let _alone = alone();
    let name = "live_the_owner_of_a_pthread_mutex_is_found";
    let Some(mut recorder) = start(name, &options(1 << 20)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("holder.c"), folder.path().join("holder"));
    let code = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        #include <sys/syscall.h>
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static volatile long waiter_tid, asleep_before;
        static void *waiter(void *unused) {
            waiter_tid = syscall(SYS_gettid);
            pthread_mutex_lock(&mutex);
            return unused;
        }
        int main(void) {
            pthread_t thread;
            pthread_mutex_lock(&mutex);
            pthread_create(&thread, 0, waiter, 0);
            /* Until it sleeps: S is the only state in which it can wait. */
            for (char state = 0, line[512]; state != 'S' || !waiter_tid; usleep(1000)) {
                snprintf(line, sizeof line, "/proc/self/task/%ld/stat", waiter_tid);
                FILE *stat = waiter_tid ? fopen(line, "r") : 0;
                if (!stat) continue;
                char *end = fgets(line, sizeof line, stat) ? strrchr(line, ')') : 0;
                state = end && asleep_before && end[2] == 'S' ? 'S' : 0;
                asleep_before = end && end[2] == 'S';
                fclose(stat);
            }
            printf("%ld %p\n", (long)syscall(SYS_gettid), (void *)&mutex);
            fflush(stdout);
            pause();
        }"#;
    fs::write(&source, code).unwrap();
    if !Command::new("cc")
        .arg("-pthread")
        .arg("-o")
        .args([&program, &source])
        .status()
        .is_ok_and(|status| status.success())
    {
        return skipped(name, &"there is no C compiler");
    }
    let mut holder = Command::new(&program).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(holder.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    // On a busy machine, a process may not answer in time, which the trace reports.
    let is_read = |saved: &Saved| {
        !saved.warnings.iter().any(|warning| warning.contains("its address space is locked"))
    };
    let mut saves = (0..20)
        .map(|number| save(&recorder.snapshot(), &folder.path().join(format!("{number}.hitch"))));
    let saved = saves.find(is_read).expect("a save that every process answered");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let trace = open(&saved);
    let (tid, address) = line.trim().split_once(' ').unwrap();
    let word_avma = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
    let wait = trace
        .futex_waits
        .iter()
        .find(|wait| wait.word_avma == word_avma)
        .expect("the waiter is seen");
    assert_eq!(wait.owner.map(|owner| trace.threads.get(owner).tid), Some(tid.parse().unwrap()));
}

#[test]
fn live_only_one_process_is_recorded_on_request() {
    let _alone = alone();
    let name = "live_only_one_process_is_recorded_on_request";
    let game = PingPong::start(1);
    let mut other = Command::new("sh").args(["-c", "while :; do /bin/true; done"]).spawn().unwrap();
    let mut only = options(4 << 20);
    only.only_pid = Some(std::process::id());
    let recorder = start(name, &only);
    thread::sleep(Duration::from_millis(300));
    let snapshot = recorder.map(|mut recorder| recorder.snapshot());
    other.kill().unwrap();
    other.wait().unwrap();
    game.stop();
    let Some(snapshot) = snapshot else { return };
    let folder = tempfile::tempdir().unwrap();
    let saved = save(&snapshot, &folder.path().join("a.hitch"));
    assert!(
        saved.warnings.iter().any(|warning| warning.contains("are recorded")),
        "{:?}",
        saved.warnings
    );
    let trace = open(&saved);
    let ours = |id: ThreadId| trace.threads.process_of(id).pid == std::process::id();
    let switches = &trace.switches;
    assert!(switches.len() > 100);
    let foreign =
        (0..switches.len()).filter(|&i| !ours(switches.prev[i]) && !ours(switches.next[i])).count();
    assert!(foreign * 50 < switches.len(), "{foreign} of {} switches are not ours", switches.len());
    only.only_pid = Some(u32::MAX - 1);
    assert!(Recorder::start(&only).err().unwrap().to_string().contains("no process"));
}

/// Run by the tests below in a process with fewer rights: prints how starting a recorder ends.
#[test]
fn child() {
    if std::env::var_os("UNHITCH_TEST_CHILD").is_none() {
        return;
    }
    let mut stdout = std::io::stdout();
    let _ = match Recorder::start(&options(16 << 20)) {
        Ok(recorder) => writeln!(stdout, "started {:?}", recorder.warnings()),
        Err(error) => writeln!(stdout, "{error}"),
    };
}

/// The output of `child` when started by `setpriv` with `arguments`; `None` if that is not
/// possible.
fn with_rights(name: &str, arguments: &[&str]) -> Option<String> {
    // This copy can be executed by everybody.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("child");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [folder.path(), &program] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command
        .args(arguments)
        .arg(&program)
        .args(["--exact", "child", "--nocapture"])
        .env("UNHITCH_TEST_CHILD", "1");
    let output = command.output().ok().filter(|output| output.status.success());
    if output.is_none() {
        skipped(name, &"setpriv cannot change the user");
    }
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn live_without_privilege_the_error_contains_the_fixing_command() {
    let _alone = alone();
    let name = "live_without_privilege_the_error_contains_the_fixing_command";
    let Some(said) = with_rights(name, &["--reuid", "65534", "--clear-groups"]) else { return };
    if said.contains("started") {
        return skipped(name, &"this machine lets everybody record");
    }
    assert!(said.contains("sudo setcap \
                           cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_ipc_lock+ep \
                           /"), "{said}");
}

#[test]
fn live_a_limit_of_pinned_memory_makes_smaller_rings() {
    let _alone = alone();
    let name = "live_a_limit_of_pinned_memory_makes_smaller_rings";
    if start(name, &options(256 << 10)).is_none() {
        return;
    }
    let Some(said) = with_rights(name, &["--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"])
    else {
        return;
    };
    if said.contains("started []") {
        return skipped(name, &"this machine pins what we ask for");
    }
    assert!(
        said.contains("KiB per CPU instead of 16384 KiB")
            && said.contains("kernel.perf_event_mlock_kb="),
        "{said}"
    );
}

#[test]
fn live_status_reports_spans_and_rates() {
    let _alone = alone();
    let Some(mut recorder) = start("live_status_reports_spans_and_rates", &options(512 << 10))
    else {
        return;
    };
    let game = PingPong::start(4);
    thread::sleep(Duration::from_millis(2500));
    let asked = Instant::now();
    let status = recorder.status();
    let snapshot = recorder.snapshot();
    // A status reads the rings once a second; any longer time between the two means that this
    // thread had no CPU.
    let apart_ns = asked.elapsed().as_nanos() as u64 + 1_500_000_000;
    game.stop();
    // The players only get a part of the machine, so it only matters that they are seen.
    assert!(
        status.rates.iter().any(|(name, rate)| name == "sched:sched_waking" && *rate > 100.0),
        "{:?}",
        status.rates
    );
    assert!(status.memory_bytes > 2 * (512 << 10) * status.cpus.len() && status.processes > 1);
    for (cpu, span) in status.cpus.iter().zip(snapshot.spans()) {
        assert_eq!(cpu.cpu, span.cpu);
        let earlier = span.window.start.since(cpu.held.start);
        assert!(
            cpu.held.start <= span.window.start.plus(100_000_000) && earlier < apart_ns,
            "{cpu:?} {span:?}"
        );
        assert!(cpu.used_bytes <= cpu.ring_bytes && cpu.held.end > Time::ZERO);
    }
}
