//! The stacks of sleeping threads, as BPF records them, are those of gdb: frame by frame, in
//! programs that Debian builds without frame pointers. Each thread is compared twice: by the stack
//! that was unwound from its memory at a save, and by the one that the kernel's part took when gdb
//! ended its wait. Without BPF, gdb or one of the programs, that is printed as `SKIPPED`.
#![cfg(target_os = "linux")]

mod programs;

use programs::Program;
use std::collections::{BTreeMap, HashMap};
use std::io::{Write, stderr};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use unhitch_model::{FrameId, ModuleKind, StackId, TaskState, ThreadId, Time, Trace};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

const TEST: &str = "live_stacks_of_sleepers_are_those_of_gdb";
/// Until then, the programs' unwind tables are made.
const WARM_UP: Duration = Duration::from_secs(3);
/// Until then, what has no timers sleeps.
const REST: Duration = Duration::from_secs(1);
/// Enough for all that happens while gdb looks at each process.
const RING_BYTES: usize = 32 << 20;
/// Waits of at least this length have a stack of their own.
const KEPT_NS: u64 = 1_000_000;
/// Of all programs, by both ways.
const MIN_SAME: usize = 100;

/// Prints each thread with the addresses of its frames, leaf first, without inlined ones, and why
/// there are no more.
const COMMANDS: &str = r#"
set backtrace past-main on
set backtrace past-entry on
set debuginfod enabled off
python
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, pcs = gdb.newest_frame(), []
    while frame is not None:
        if frame.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):
            pcs.append('%x' % frame.pc())
        reason, frame = frame.unwind_stop_reason(), frame.older()
    print('THREAD', thread.ptid[1], reason, *pcs)
end
detach
"#;
/// Addresses are compared within their page, because libraries move.
const PAGE: u64 = 4096;

fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// The stack of a thread by gdb: the places in their pages of its frames, and why it ends.
struct ByGdb {
    tid: u32,
    places: Vec<u64>,
    stop_reason: u32,
}

fn by_gdb(pid: u32) -> Vec<ByGdb> {
    let folder = tempfile::tempdir().unwrap();
    let commands = folder.path().join("commands");
    std::fs::write(&commands, COMMANDS).unwrap();
    let pid = pid.to_string();
    let mut gdb = Command::new("gdb");
    let out = gdb.args(["-nx", "-batch", "-p", &pid, "-x"]).arg(&commands).output().unwrap();
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    let threads = out.lines().filter_map(|line| line.strip_prefix("THREAD "));
    let read = |line: &str| {
        let mut words = line.split(' ');
        let mut number = || words.next().unwrap().parse().unwrap();
        let (tid, stop_reason) = (number(), number());
        let places = words.map(|pc| u64::from_str_radix(pc, 16).unwrap() % PAGE).collect();
        ByGdb { tid, places, stop_reason }
    };
    threads.map(read).collect()
}

/// The same of a recorded stack. A cut one ends with a place that no address has.
fn places(trace: &Trace, stack: StackId) -> Vec<u64> {
    let is_native = |frame: &&FrameId| {
        let module = trace.stacks.frame(**frame).and_then(|frame| trace.modules.get(frame.module));
        module.is_none_or(|module| module.kind != ModuleKind::Script)
    };
    let place = |frame| {
        let frame = trace.stacks.frame(frame).unwrap();
        let is_cut =
            trace.modules.get(frame.module).is_some_and(|module| module.kind == ModuleKind::Cut);
        // A frame stands for the call, which is before the return address.
        if is_cut { PAGE } else { (frame.offset + 1) % PAGE }
    };
    // The interpreter's own frames: gdb shows those of the script apart.
    let native = trace.stacks.user_frames(stack).iter().filter(is_native);
    native.map(|frame| place(*frame)).collect()
}

/// A time in which a thread was off its CPU.
struct Wait {
    since: Time,
    state: TaskState,
    places: Vec<u64>,
    end: Option<End>,
}

/// How a wait ended.
struct End {
    after_ns: u64,
    is_by_gdb: bool,
}

/// The last wait of a thread that began before `until`.
fn last_wait(trace: &Trace, thread: ThreadId, until: Time) -> Option<Wait> {
    let switches = &trace.switches;
    let its = |at: &usize| switches.prev[*at] == thread && switches.time[*at] < until;
    let at = (0..switches.len()).rev().find(its)?;
    let (since, places) = (switches.time[at], places(trace, switches.stack[at]));
    let wakings = &trace.wakings;
    let ends = (0..wakings.len()).filter(|at| wakings.wakee[*at] == thread);
    let end = ends.filter(|at| wakings.time[*at] >= since).min_by_key(|at| wakings.time[*at]);
    let end = end.map(|at| {
        let time = wakings.time[at];
        let is_by_gdb = trace.process_name(wakings.waker[at], time) == "gdb";
        End { after_ns: time.since(since), is_by_gdb }
    });
    Some(Wait { since, state: switches.prev_state[at], places, end })
}

/// When gdb first stopped a thread.
fn stopped_by_gdb(trace: &Trace, thread: ThreadId) -> Option<Time> {
    let switches = &trace.switches;
    let is_stop =
        |at: &usize| switches.prev[*at] == thread && switches.prev_state[*at] == TaskState::Traced;
    (0..switches.len()).find(is_stop).map(|at| switches.time[at])
}

const SAME: &str = "the same";
const BY_BPF: &str = "by BPF";
const AT_SAVE: &str = "at the save";

/// Compares one stack: what is to be said of it, or how the two differ without a reason.
fn compare(gdb: &ByGdb, wait: Option<&Wait>) -> Result<&'static str, String> {
    let Some(wait) = wait else { return Ok("not recorded: its wait began before the rings do") };
    let found = &wait.places;
    if *found == gdb.places {
        return Ok(SAME);
    }
    let is_short = wait.end.as_ref().is_some_and(|end| end.after_ns < KEPT_NS);
    if is_short && found.is_empty() {
        return Ok("not compared: gdb ended a wait that is too short for a stack");
    }
    if wait.state.is_runnable() || wait.end.as_ref().is_some_and(|end| !end.is_by_gdb) {
        return Ok("not compared: it was not asleep when gdb stopped it");
    }
    Err(format!("gdb {:x?} ({}), recorded {found:x?}", gdb.places, gdb.stop_reason))
}

struct Compared {
    trace: Trace,
    at: Time,
}

fn save(recorder: &mut Recorder) -> Compared {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asleep.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    let trace = unhitch_formats::open(&path).unwrap();
    let at = trace.extent().end;
    Compared { trace, at }
}

/// Counts what is said of each stack of a program, and lists what differs.
#[derive(Default)]
struct Verdicts {
    counts: BTreeMap<(&'static str, &'static str), usize>,
    unexplained: Vec<String>,
}

impl Verdicts {
    fn add(&mut self, what: &'static str, tid: u32, verdict: Result<&'static str, String>) {
        match verdict {
            Ok(verdict) => *self.counts.entry((what, verdict)).or_default() += 1,
            Err(how) => self.unexplained.push(format!("{tid} {what}: {how}")),
        }
    }

    /// Both stacks of one thread; `asleep` is from before gdb, `after` from after it.
    fn thread(&mut self, gdb: &ByGdb, asleep: &Compared, after: &Compared) {
        let Some(thread) = after.trace.threads.at(gdb.tid, after.at) else { return };
        let stopped = stopped_by_gdb(&after.trace, thread).unwrap_or(Time::MAX);
        let wait = last_wait(&after.trace, thread, stopped);
        self.add(BY_BPF, gdb.tid, compare(gdb, wait.as_ref()));
        let goes_on = wait
            .is_none_or(|wait| wait.since <= asleep.at && wait.end.is_none_or(|end| end.is_by_gdb));
        let Some(thread) = asleep.trace.threads.at(gdb.tid, asleep.at).filter(|_| goes_on) else {
            return self.add(AT_SAVE, gdb.tid, Ok("not compared: it ran after the save"));
        };
        let wait = last_wait(&asleep.trace, thread, Time::MAX);
        self.add(AT_SAVE, gdb.tid, compare(gdb, wait.as_ref()));
    }

    fn same(&self) -> usize {
        let same = self.counts.iter().filter(|((_, verdict), _)| *verdict == SAME);
        same.map(|(_, count)| count).sum()
    }
}

#[test]
fn live_stacks_of_sleepers_are_those_of_gdb() {
    if let Err(error) = Command::new("gdb").arg("--version").output() {
        return report(&format!("SKIPPED {TEST}: gdb: {error}"));
    }
    let mut options = Options::default();
    (options.engine, options.stack_budget_ppm) = (EngineChoice::Bpf, 0);
    options.ring_bytes_per_cpu = Some(RING_BYTES);
    let mut recorder = match Recorder::start(&options) {
        Ok(recorder) => recorder,
        Err(error) => return report(&format!("SKIPPED {TEST}: {error}")),
    };
    let (mut programs, missing) = programs::start_all();
    missing.iter().for_each(|why| report(&format!("SKIPPED {TEST} of {why}")));
    sleep(WARM_UP);
    programs.iter_mut().for_each(Program::rest);
    sleep(REST);
    let asleep = save(&mut recorder);
    let stacks: HashMap<&str, Vec<ByGdb>> = programs
        .iter()
        .map(|program| (program.name, program.pids().into_iter().flat_map(by_gdb).collect()))
        .collect();
    let after = save(&mut recorder);
    drop(recorder);
    if programs::lacks_tables(&after.trace) {
        return report(&format!("SKIPPED {TEST}: there was no room for the unwind tables"));
    }
    let (mut same, mut unexplained) = (0, Vec::new());
    for program in &programs {
        let mut verdicts = Verdicts::default();
        for gdb in &stacks[program.name] {
            verdicts.thread(gdb, &asleep, &after);
        }
        for ((what, verdict), count) in &verdicts.counts {
            report(&format!("{} {what}: {count} {verdict}", program.name));
        }
        same += verdicts.same();
        let of_program = |how| format!("{} {how}", program.name);
        unexplained.extend(verdicts.unexplained.into_iter().map(of_program));
    }
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    assert!(same >= MIN_SAME, "only {same} stacks were compared");
}
