//! The stacks of sleeping threads, as BPF records them, are those of gdb: frame by frame, in
//! programs without frame pointers. Without BPF, gdb or Python the test prints `SKIPPED`.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write, stderr};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use unhitch_model::{FrameId, ModuleKind, ThreadId, Trace};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

/// Threads that wait in many ways, at different depths: in the interpreter, in the C library, in
/// modules that are mapped late, below callbacks from C.
const PROGRAM: &str = r#"
import threading, time, queue, select, socket, os, subprocess, re, json
l = threading.Lock(); l.acquire()
c = threading.Condition()
def deep(n, f): return deep(n - 1, f) if n else f()
def condition():
    with c: c.wait()
ways = [queue.Queue().get, l.acquire, condition, threading.Event().wait,
    threading.Semaphore(0).acquire, threading.Barrier(2000).wait,
    lambda: select.select([], [], [], 1000), lambda: select.poll().poll(1000000),
    lambda: select.epoll().poll(), lambda: os.read(os.pipe()[0], 1),
    lambda: [a.recv(1) for a in socket.socketpair()], lambda: time.sleep(1000),
    lambda: sorted([2, 1], key=lambda x: time.sleep(1000)),
    lambda: re.sub('a', lambda m: time.sleep(1000), 'a'),
    lambda: json.loads('{"a":1}', object_hook=lambda o: time.sleep(1000))]
for i in range(110):
    threading.Thread(target=deep, args=(i % 9, ways[i % len(ways)]), daemon=True).start()
print('ready', flush=True)
time.sleep(1000)
"#;

/// Prints each thread with the addresses of its frames, leaf first, without inlined ones.
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
        frame = frame.older()
    print('THREAD', thread.ptid[1], *pcs)
end
detach
"#;
/// Addresses are compared within their page, because libraries move.
const PAGE: u64 = 4096;

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(options: &Options) -> Result<(Recorder, Killed), String> {
    let version = |program| Command::new(program).arg("--version").output();
    version("gdb").map_err(|error| format!("gdb: {error}"))?;
    let recorder = Recorder::start(options).map_err(|error| error.to_string())?;
    let python = Command::new("python3").args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn();
    Ok((recorder, Killed(python.map_err(|error| format!("python3: {error}"))?)))
}

/// The places in their pages of each thread's frames, by gdb.
fn by_gdb(pid: u32) -> HashMap<u32, Vec<u64>> {
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
        let tid = words.next().unwrap().parse().unwrap();
        let pcs = words.map(|pc| u64::from_str_radix(pc, 16).unwrap() % PAGE);
        (tid, pcs.collect())
    };
    threads.map(read).collect()
}

/// The same for the stack with which a thread left its CPU last; `None` without a stack. A cut one
/// ends with a place that no address has.
fn recorded(trace: &Trace, thread: ThreadId) -> Option<Vec<u64>> {
    let switch = trace.switches.prev.iter().rposition(|prev| *prev == thread)?;
    let stack = trace.switches.stack[switch];
    let is_native = |frame: &&FrameId| {
        let module = trace.stacks.frame(**frame).and_then(|frame| trace.modules.get(frame.module));
        module.is_none_or(|module| module.kind != ModuleKind::Script)
    };
    let place = |frame| {
        let frame = trace.stacks.frame(frame)?;
        let is_cut = trace.modules.get(frame.module)?.kind == ModuleKind::Cut;
        // A frame stands for the call, which is before the return address.
        Some(if is_cut { PAGE } else { (frame.offset + 1) % PAGE })
    };
    // The interpreter's own frames: gdb shows those of the script apart.
    let native = trace.stacks.user_frames(stack).iter().filter(is_native);
    native.map(|frame| place(*frame)).collect()
}

#[test]
fn live_stacks_of_sleepers_are_those_of_gdb() {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    let (mut recorder, mut python) = match start(&options) {
        Ok(started) => started,
        Err(reason) => {
            let _ =
                writeln!(stderr(), "SKIPPED live_stacks_of_sleepers_are_those_of_gdb: {reason}");
            return;
        }
    };
    let mut ready = String::new();
    BufReader::new(python.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    // The last of its threads is asleep a moment later.
    thread::sleep(Duration::from_secs(1));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asleep.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    drop(recorder);
    let trace = unhitch_formats::open(&path).unwrap();
    let (mut same, mut differ) = (0, Vec::new());
    for (tid, expected) in by_gdb(python.0.id()) {
        let Some(thread) = trace.threads.at(tid, trace.extent().end) else { continue };
        match recorded(&trace, thread) {
            Some(found) if found == expected => same += 1,
            found => differ.push(format!("{tid}: gdb {expected:x?}, recorded {found:x?}")),
        }
    }
    // One that is awake at the save, or goes on while it is unwound, has none.
    assert!(same >= 100 && differ.len() <= 2, "{same} are the same\n{}", differ.join("\n"));
}
