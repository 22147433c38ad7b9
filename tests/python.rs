//! Frames of Python programs, recorded on this machine: between the native frames where they belong,
//! with function, file and line, for threads that sleep at the save, for waits that have ended, and
//! for samples. Every Python from 3.9 to 3.13 that is found is tried: in `PATH`, and among those of
//! pyenv. Where BPF does not load, the test is skipped and says so.

mod own_stacks;

use own_stacks::stacks_of;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use unhitch_model::{FrameId, ModuleKind, StackId, Trace};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};
use unhitch_symbols::Symbolizer;

/// `sorted` calls `key` from C. The other calls are between functions of Python.
const PROGRAM: &str = "\
import threading, time

def leaf(seconds):
    time.sleep(seconds)

def middle(seconds):
    leaf(
        seconds)

def key(seconds):
    middle(seconds)
    return 0

def through_c(seconds):
    return sorted([seconds], key=key)

def spin(count):
    total = 0
    for number in range(count):
        total += number * number
    return total

class Worker:
    def once(self):
        through_c(600)

    def again(self):
        while True:
            through_c(0.02)
            middle(0.02)

    def compute(self):
        while True:
            spin(20000)
            time.sleep(0.01)

for target in [Worker().once, Worker().again, Worker().compute]:
    threading.Thread(target=target, daemon=True).start()
print('ready', flush=True)
time.sleep(600)
";

/// A running program.
struct Program {
    python: PathBuf,
    child: Child,
}

impl Program {
    fn start(python: PathBuf, script: &Path) -> Self {
        let mut command = Command::new(&python);
        let mut child =
            command.args(["-S", "-E"]).arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "{}", python.display());
        Self { python, child }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pythons whose frames can be read, each once.
fn pythons() -> BTreeSet<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home).unwrap_or_default();
    let versions = fs::read_dir(pyenv.join("versions")).into_iter().flatten().flatten();
    let folders = std::env::split_paths(&path).chain(versions.map(|one| one.path().join("bin")));
    let folders: Vec<PathBuf> = folders.collect();
    let mut found = BTreeSet::new();
    for minor in 9..=13 {
        for python in folders.iter().map(|folder| folder.join(format!("python3.{minor}"))) {
            // A shim of pyenv fails if its version is not chosen.
            let works = Command::new(&python).args(["-c", ""]).stderr(Stdio::null()).status();
            if works.is_ok_and(|status| status.success()) {
                found.extend(python.canonicalize());
            }
        }
    }
    found
}

fn is_of(trace: &Trace, frame: FrameId, kind: ModuleKind) -> bool {
    let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
    module.is_some_and(|module| module.kind == kind)
}

fn is_script(trace: &Trace, frame: FrameId) -> bool {
    is_of(trace, frame, ModuleKind::Script)
}

/// The names of the frames of scripts in a stack, leaf first, without classes: before 3.11 there are
/// none.
fn script_names(trace: &Trace, stack: StackId) -> Vec<String> {
    let frames = trace.stacks.frames_of(stack).iter().filter(|frame| is_script(trace, **frame));
    let name = |frame: &FrameId| trace.frame_names(*frame).concat().replace("Worker.", "");
    frames.map(name).collect()
}

/// Checks that each group of scripts' frames comes before a frame of the interpreter's loop, and that
/// each of those has one. A stack of a process whose tables were not there yet is cut before that.
fn check_places(trace: &Trace, stack: StackId, python: &str) {
    let frames = trace.stacks.user_frames(stack);
    if frames.last().is_some_and(|frame| is_of(trace, *frame, ModuleKind::Cut)) {
        return;
    }
    let kinds: Vec<char> = frames
        .iter()
        .map(|&frame| {
            let is_loop = trace.frame_names(frame).concat().contains("_PyEval_EvalFrameDefault");
            if is_script(trace, frame) {
                's'
            } else if is_loop {
                'l'
            } else {
                '-'
            }
        })
        .collect();
    let groups = kinds.iter().collect::<String>();
    for group in groups.split('-').filter(|group| !group.is_empty()) {
        assert!(group.ends_with('l') && group.matches('l').count() == 1, "{python}: {groups}");
    }
}

fn check(trace: &Trace, pid: u32, python: &str) {
    let (waits, samples) = stacks_of(trace, pid);
    let begins = |stacks: &[StackId], expected: &[&str]| {
        let found: Vec<Vec<String>> =
            stacks.iter().map(|stack| script_names(trace, *stack)).collect();
        let matches = found.iter().filter(|names| {
            names.len() >= expected.len() && names.iter().zip(expected).all(|(a, b)| a == b)
        });
        (matches.count(), found)
    };
    let below_sleep = ["leaf (work.py:4)", "middle (work.py:7)"];
    let through_c = ["key (work.py:11)", "through_c (work.py:15)"];
    for (caller, least) in [("once (work.py:25)", 1), ("again (work.py:29)", 3)] {
        let expected = [&below_sleep[..], &through_c, &[caller]].concat();
        let (count, found) = begins(&waits, &expected);
        assert!(count >= least, "{python}: {count} of {expected:?} in {found:#?}");
    }
    let expected = [&below_sleep[..], &["again (work.py:30)"]].concat();
    let (count, found) = begins(&waits, &expected);
    assert!(count >= 3, "{python}: {count} of {expected:?} in {found:#?}");
    let (count, _) = begins(&waits, &["<module> (work.py:40)"]);
    assert!(count >= 1, "{python}: the main thread");
    for stack in waits.iter().filter(|stack| !script_names(trace, **stack).is_empty()) {
        check_places(trace, *stack, python);
    }
    let spinning = [19, 20].map(|line| format!("spin (work.py:{line})"));
    let count: usize =
        spinning.iter().map(|spin| begins(&samples, &[spin, "compute (work.py:34)"]).0).sum();
    let (_, found) = begins(&samples, &[]);
    assert!(count >= 10 && count * 2 > samples.len(), "{python}: {count} of {found:#?}");
}

#[test]
fn live_frames_of_python_have_function_file_and_line() {
    let test = "live_frames_of_python_have_function_file_and_line";
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    options.sample_hz = 499;
    let mut recorder = match Recorder::start(&options) {
        Ok(recorder) => recorder,
        Err(error) => {
            let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("work.py");
    fs::write(&script, PROGRAM).unwrap();
    let programs: Vec<Program> =
        pythons().into_iter().map(|python| Program::start(python, &script)).collect();
    if programs.is_empty() {
        let _ = writeln!(stderr(), "SKIPPED {test}: no Python from 3.9 to 3.13");
        return;
    }
    thread::sleep(Duration::from_secs(4));
    let path = folder.path().join("python.hitch");
    let mut symbolizer = Symbolizer::new(unhitch_symbols::Options::default());
    recorder
        .snapshot()
        .save(&SaveTarget::File(path.clone()), &mut symbolizer, &Extras::default())
        .unwrap();
    let trace = unhitch_formats::open(&path).unwrap();
    for program in &programs {
        check(&trace, program.child.id(), &program.python.to_string_lossy());
        let _ = writeln!(stderr(), "{test}: {} is read", program.python.display());
    }
}
