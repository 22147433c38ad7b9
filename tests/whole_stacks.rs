//! The stacks of waits, as BPF records them in programs that Debian builds without frame pointers,
//! reach the start of the thread. Where BPF does not load, or a program is not installed, that is
//! printed as `SKIPPED`.
#![cfg(target_os = "linux")]

mod programs;

use programs::Program;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Write, stderr};
use std::thread::sleep;
use std::time::Duration;
use unhitch_model::{FrameId, ModuleKind, StackId, Trace};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

const TEST: &str = "live_stacks_of_waits_reach_the_start_of_the_thread";
/// Until then, the programs' unwind tables are made.
const WARM_UP: Duration = Duration::from_secs(4);
const RECORDED: Duration = Duration::from_secs(6);
/// In percent.
const MIN_COMPLETE: usize = 95;
/// Waits at one place have a stack for each 64 ms that they take; a busy machine has fewer.
const MIN_STACKS: usize = 20;

fn report(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// What became of the kept waits of one program.
#[derive(Default)]
struct Waits {
    complete: usize,
    /// How many are cut, by the last place before that.
    cut: BTreeMap<String, usize>,
    without_stack: usize,
}

impl Waits {
    fn stacks(&self) -> usize {
        self.complete + self.cut.values().sum::<usize>()
    }
}

fn module_kind(trace: &Trace, frame: FrameId) -> Option<ModuleKind> {
    let frame = trace.stacks.frame(frame)?;
    trace.modules.get(frame.module).map(|module| module.kind)
}

/// The last frame before the cut end of a user stack; `None` if it is complete.
fn cut_after(trace: &Trace, user: &[FrameId]) -> Option<String> {
    let cut = user.iter().position(|&frame| module_kind(trace, frame) == Some(ModuleKind::Cut))?;
    let native = |frame: &&FrameId| {
        module_kind(trace, **frame).is_some_and(|kind| kind != ModuleKind::Script)
    };
    let last = user[..cut].iter().rfind(native).and_then(|&frame| trace.stacks.frame(frame));
    Some(last.map_or("no user frame".to_owned(), |frame| {
        let module = trace.modules.get(frame.module);
        let name = module.map_or("?", |module| trace.strings.get(module.path));
        format!("{name}+{:#x}", frame.offset)
    }))
}

/// The kept waits of `pids` that began after `from_ns`.
fn waits_of(trace: &Trace, pids: &HashSet<u32>, from_ns: u64) -> Waits {
    let switches = &trace.switches;
    let left = (0..switches.len()).map(|at| ((switches.prev[at], switches.time[at]), at));
    let stacks: HashMap<_, StackId> = left.map(|(key, at)| (key, switches.stack[at])).collect();
    let mut waits = Waits::default();
    let is_its = |thread| pids.contains(&trace.threads.process_of(thread).pid);
    for wait in trace.kept_waits.iter().filter(|wait| wait.time.nanos() >= from_ns) {
        if !is_its(wait.thread) {
            continue;
        }
        let Some(&stack) = stacks.get(&(wait.thread, wait.time)) else { continue };
        let user = trace.stacks.user_frames(stack);
        match cut_after(trace, user) {
            _ if trace.stacks.kernel_len(stack) == 0 && user.is_empty() => waits.without_stack += 1,
            Some(place) => *waits.cut.entry(place).or_default() += 1,
            None if user.is_empty() => {
                *waits.cut.entry("no user stack".to_owned()).or_default() += 1
            }
            None => waits.complete += 1,
        }
    }
    waits
}

#[test]
fn live_stacks_of_waits_reach_the_start_of_the_thread() {
    let mut options = Options::default();
    // All stacks, however busy the machine is.
    (options.engine, options.stack_budget_ppm) = (EngineChoice::Bpf, 0);
    let mut recorder = match Recorder::start(&options) {
        Ok(recorder) => recorder,
        Err(error) => return report(&format!("SKIPPED {TEST}: {error}")),
    };
    let (mut programs, missing) = programs::start_all();
    missing.iter().for_each(|why| report(&format!("SKIPPED {TEST} of {why}")));
    sleep(WARM_UP);
    let warm = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let warm_ns = warm.tv_sec as u64 * 1_000_000_000 + warm.tv_nsec as u64;
    sleep(RECORDED);
    programs.iter_mut().for_each(Program::rest);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stacks.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    let trace = unhitch_formats::open(&path).unwrap();
    if programs::lacks_tables(&trace) {
        return report(&format!("SKIPPED {TEST}: there was no room for the unwind tables"));
    }
    let mut wrong = Vec::new();
    report("| program | stacks of waits | complete | waits without a stack |\n|---|--:|--:|--:|");
    for program in &programs {
        let waits = waits_of(&trace, &program.pids().into_iter().collect(), warm_ns);
        let (stacks, complete) = (waits.stacks(), waits.complete);
        let share = complete as f64 * 100.0 / stacks.max(1) as f64;
        let (name, without) = (program.name, waits.without_stack);
        report(&format!("| {name} | {stacks} | {share:.1} % | {without} |"));
        for (place, count) in &waits.cut {
            report(&format!("  {name}: {count} cut after {place}"));
        }
        if stacks < MIN_STACKS {
            report(&format!("SKIPPED {TEST} of {name}: it hardly waited, the machine is too busy"));
        } else if complete * 100 < stacks * MIN_COMPLETE {
            wrong.push(format!("{name}: {complete} of {stacks} stacks are complete"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
