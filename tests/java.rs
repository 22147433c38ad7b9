//! Methods of Java programs, recorded on this machine as they are run by default, interpreted only,
//! compiled only, and with one heap for all code: whole stacks with names, for waits that have ended, for threads that sleep at the
//! save, and for samples. Every HotSpot that is found is tried. Where there is none, or BPF does not
//! load, the test is skipped and says so.

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

const PROGRAM: &str = r#"
import java.util.concurrent.locks.ReentrantLock;

public class Work {
    static final ReentrantLock lock = new ReentrantLock();
    static long result;

    static void nap(int ms) throws Exception { Thread.sleep(ms); }
    static void middle(int ms) throws Exception { nap(ms); }
    static void again() throws Exception { while (true) middle(20); }
    static void once() throws Exception { middle(600_000); }
    static long spin(int count) {
        long sum = 0;
        for (int n = 0; n < count; n++) sum = sum * 31 + n;
        return sum;
    }
    static void compute() throws Exception {
        while (true) { result += spin(2_000_000); Thread.sleep(5); }
    }
    static void hold() throws Exception {
        while (true) {
            lock.lock();
            try { nap(30); } finally { lock.unlock(); }
            nap(3);
        }
    }
    static void deposit() throws Exception {
        while (true) {
            lock.lock();
            try { result++; } finally { lock.unlock(); }
            nap(1);
        }
    }
    interface Job { void run() throws Exception; }
    static void start(Job job) {
        Thread thread = new Thread(() -> {
            try { job.run(); } catch (Exception error) { error.printStackTrace(); }
        });
        thread.setDaemon(true);
        thread.start();
    }
    public static void main(String[] arguments) throws Exception {
        start(Work::again);
        start(Work::once);
        start(Work::compute);
        start(Work::hold);
        start(Work::deposit);
        System.out.println("ready");
        Thread.sleep(600_000);
    }
}
"#;

/// The end of the recording, in which stacks have to be whole. Before that, the recorder gets to know the
/// program.
const JUDGED_NS: u64 = 2_000_000_000;
const RECORDED: Duration = Duration::from_millis(3500);

/// A running program.
struct Program {
    what: String,
    child: Child,
}

impl Program {
    fn start(java: &Path, classes: &Path, mode: &str) -> Self {
        let mut command = Command::new(java);
        // Otherwise methods have no frames of their own.
        command.args([mode, "-XX:-Inline", "-cp"]).arg(classes).arg("Work");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let what = format!("{} {mode}", java.display());
        assert_eq!(line.trim(), "ready", "{what}");
        Self { what, child }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Virtual machines with a compiler beside them, each once.
fn javas() -> BTreeSet<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let folders = std::env::split_paths(&path).chain(installed.map(|one| one.path().join("bin")));
    let javas = folders.filter_map(|folder| folder.join("java").canonicalize().ok());
    let is_hotspot = |java: &PathBuf| {
        let version = Command::new(java).arg("-version").output();
        let text = version.map(|out| String::from_utf8_lossy(&out.stderr).into_owned());
        java.with_file_name("javac").exists() && text.is_ok_and(|text| !text.contains("OpenJ9"))
    };
    javas.filter(is_hotspot).collect()
}

fn is_of(trace: &Trace, frame: FrameId, kind: fn(ModuleKind) -> bool) -> bool {
    let module = trace.stacks.frame(frame).and_then(|frame| trace.modules.get(frame.module));
    module.is_some_and(|module| kind(module.kind))
}

/// The names of the methods in a stack, leaf first, and whether the stack is whole.
fn methods(trace: &Trace, stack: StackId) -> (Vec<String>, bool) {
    let frames = trace.stacks.user_frames(stack);
    let is_method =
        |frame: &&FrameId| is_of(trace, **frame, |kind| matches!(kind, ModuleKind::Jit { .. }));
    let names = frames.iter().filter(is_method).map(|frame| trace.frame_names(*frame).concat());
    let is_cut = |frame: &FrameId| is_of(trace, *frame, |kind| kind == ModuleKind::Cut);
    (names.collect(), !frames.last().is_some_and(is_cut))
}

fn check(trace: &Trace, program: &Program) {
    let what = &program.what;
    let (waits, samples) = stacks_of(trace, program.child.id());
    let waits: Vec<_> = waits.iter().map(|stack| methods(trace, *stack)).collect();
    // These methods call each other without any in between, up to the start of the thread.
    let count = |chain: &[&str]| {
        let has = |names: &Vec<String>| names.windows(chain.len()).any(|part| part == chain);
        waits.iter().filter(|(names, is_whole)| has(names) && *is_whole).count()
    };
    for (chain, least) in [
        (&["Work.nap", "Work.middle", "Work.again"][..], 10),
        (&["Work.nap", "Work.middle", "Work.once"], 1),
        (&["java.util.concurrent.locks.ReentrantLock.lock", "Work.deposit"], 10),
    ] {
        let found = count(chain);
        assert!(found >= least, "{what}: {found} of {chain:?} in {waits:#?}");
    }
    let runs = |(names, _): &&(Vec<String>, bool)| {
        names.iter().any(|name| name == "java.lang.Thread.run")
            && names.last().is_some_and(|name| name.starts_with("StubRoutines"))
    };
    let from = trace.extent().end.minus(JUDGED_NS);
    let switches = &trace.switches;
    let late = (0..switches.len()).filter(|at| switches.time[*at] >= from);
    let late: Vec<_> = late.map(|at| methods(trace, switches.stack[at])).collect();
    let again = late.iter().filter(|(names, _)| names.iter().any(|name| name == "Work.again"));
    let (again, whole) = (again.clone().count(), again.filter(runs).count());
    assert!(whole * 10 >= again * 9, "{what}: {whole} of {again} begin in Thread.run: {waits:#?}");
    let samples: Vec<_> = samples.iter().map(|stack| methods(trace, *stack)).collect();
    let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let computing: Vec<_> =
        samples.iter().filter(|(names, _)| has(names, "Work.compute")).collect();
    let spinning = computing.iter().filter(|(names, _)| has(names, "Work.spin")).count();
    assert!(
        spinning >= 10 && spinning * 10 > computing.len() * 9,
        "{what}: {spinning} of {samples:#?}"
    );
}

#[test]
fn live_methods_of_java_have_names() {
    let test = "live_methods_of_java_have_names";
    let skipped = |why: &str| writeln!(stderr(), "SKIPPED {test}: {why}").unwrap();
    let javas = javas();
    if javas.is_empty() {
        return skipped("no HotSpot with javac was found");
    }
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    options.sample_hz = 499;
    for java in javas {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Work.java"), PROGRAM).unwrap();
        let mut javac = Command::new(java.with_file_name("javac"));
        let compiled = javac.arg("-d").arg(folder.path()).arg(folder.path().join("Work.java"));
        assert!(compiled.status().unwrap().success(), "{}", java.display());
        // One at a time: each wants a CPU.
        for mode in ["-Xmixed", "-Xint", "-Xcomp", "-XX:ReservedCodeCacheSize=64m"] {
            let mut recorder = match Recorder::start(&options) {
                Ok(recorder) => recorder,
                Err(error) => return skipped(&error.to_string()),
            };
            let program = Program::start(&java, folder.path(), mode);
            thread::sleep(RECORDED);
            let file = folder.path().join(format!("java{mode}.hitch"));
            let mut symbolizer = Symbolizer::new(unhitch_symbols::Options::default());
            let target = SaveTarget::File(file.clone());
            recorder.snapshot().save(&target, &mut symbolizer, &Extras::default()).unwrap();
            check(&unhitch_formats::open(&file).unwrap(), &program);
        }
    }
}
