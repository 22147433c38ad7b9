//! Compares with the real `perf` of this machine. A test that cannot run reports that.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use unhitch_formats::{
    open,
    perf_data::write,
    read_bytes,
    tracepoint::{EventFormat, TracingData},
};
use unhitch_model::Trace;

mod synthetic;

const EVENTS: [&str; 8] =
    ["-g", "-a", "-e", "sched:sched_switch", "-e", "sched:sched_waking", "-e", "cpu-clock"];

/// Records a pipe benchmark; `None`, with a printed reason, when that is not possible here.
fn record(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let path = folder.join("perf.data");
    let mut command = Command::new("perf");
    command
        .args(["record", "-q", "-o"])
        .arg(&path)
        .args(options)
        .args(EVENTS)
        .args(["--", "perf", "bench", "sched", "pipe", "-l", "2000"]);
    match command.stdin(Stdio::null()).output() {
        Err(error) => println!("skipped: perf cannot be run: {error}"),
        Ok(output) if !output.status.success() => {
            println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim())
        }
        Ok(_) => return Some(path),
    }
    None
}

fn perf_script(path: &Path, fields: &str) -> String {
    let output = Command::new("perf")
        .args(["script", "-F", fields, "-i"])
        .arg(path)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Switches as `perf script` prints them: CPU, nanoseconds, the thread that left, its state, the
/// thread that came.
fn switches(trace: &Trace) -> Vec<String> {
    let switches = &trace.switches;
    let tid = |id| trace.threads.get(id).tid;
    (0..switches.len())
        .map(|index| {
            let (cpu, ns) = (switches.cpu[index], switches.time[index].nanos());
            let (prev, next) = (tid(switches.prev[index]), tid(switches.next[index]));
            format!("{cpu} {ns} {prev} {} {next}", switches.prev_state[index].letter())
        })
        .collect()
}

fn field<'a>(line: &'a str, name: &str) -> &'a str {
    line.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("?")
}

fn nanos(text: &str) -> u64 {
    text.trim_end_matches(':').replace('.', "").parse().unwrap()
}

#[test]
fn live_every_switch_is_as_perf_script_prints_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = record(folder.path(), &[]) else { return };
    let trace = open(&path).unwrap();
    let script = Command::new("perf")
        .args(["script", "--ns", "-G", "-F", "cpu,time,event,trace", "-i"])
        .arg(&path)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let script = String::from_utf8_lossy(&script.stdout);
    let expected: Vec<String> = script
        .lines()
        .filter(|line| line.contains("sched_switch:"))
        .map(|line| {
            let mut words = line.split_whitespace();
            let cpu: u16 = words.next().unwrap().trim_matches(['[', ']']).parse().unwrap();
            let ns = nanos(words.next().unwrap());
            let (prev, next) = (field(line, "prev_pid="), field(line, "next_pid="));
            format!("{cpu} {ns} {prev} {} {next}", field(line, "prev_state=").replace('Z', "X"))
        })
        .collect();
    assert!(expected.len() > 1000);
    assert_eq!(switches(&trace), expected);
    let wakings = script.lines().filter(|line| line.contains("sched_waking:")).count();
    assert_eq!(trace.wakings.len(), wakings);
}

#[test]
fn live_every_kernel_frame_is_as_perf_script_prints_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = record(folder.path(), &[]) else { return };
    let trace = open(&path).unwrap();
    // An event, then a line per frame, then an empty line.
    let script = perf_script(&path, "event,ip");
    let expected: Vec<Vec<u64>> = script
        .split("\n\n")
        .filter(|event| event.contains("sched_switch:"))
        .map(|event| {
            event
                .lines()
                .skip(1)
                .filter_map(|line| u64::from_str_radix(line.trim(), 16).ok())
                .collect()
        })
        .collect();
    assert_eq!(trace.switches.len(), expected.len());
    // perf prints nothing at all if it fails to resolve one of the user frames.
    let printed =
        trace.switches.stack.iter().zip(&expected).filter(|(_, expected)| !expected.is_empty());
    for (stack, expected) in printed {
        let frames = trace.stacks.frames_of(*stack);
        // An address in no executable mapping is no frame: we stop there, perf continues.
        match frames.last().is_some_and(|last| trace.frame_names(*last) == [unhitch_model::CUT]) {
            true => assert!(frames.len() <= expected.len(), "{frames:?} {expected:x?}"),
            false => assert_eq!(frames.len(), expected.len()),
        }
        let kernel = trace.stacks.kernel_frames(*stack).iter().enumerate().map(|(index, frame)| {
            let offset = trace.stacks.frame(*frame).unwrap().offset;
            if index == 0 { offset } else { offset + 1 }
        });
        assert_eq!(kernel.collect::<Vec<_>>(), expected[..trace.stacks.kernel_len(*stack)]);
    }
}

#[test]
fn live_packed_and_piped_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = record(folder.path(), &["-z"]) else { return };
    let trace = open(&path).unwrap();
    let lines =
        perf_script(&path, "event").lines().filter(|line| line.contains("sched_switch:")).count();
    assert_eq!(trace.switches.len(), lines);
    // A busy machine may lose events; nothing else may be wrong.
    assert!(trace.warnings.lines().all(|line| line.contains(" lost ")), "{:?}", trace.warnings);

    let mut command = Command::new("perf");
    command
        .args(["record", "-q", "-o", "-"])
        .args(EVENTS)
        .args(["--", "perf", "bench", "sched", "pipe", "-l", "2000"]);
    // The benchmark writes into the same pipe before perf does: the data begins at the magic.
    let output = command.stdin(Stdio::null()).output().unwrap().stdout;
    let start = output.windows(8).position(|window| window == b"PERFILE2").unwrap();
    let trace = read_bytes(&output[start..]).unwrap();
    assert!(trace.switches.len() > 1000);
    assert_eq!(trace.meta.cpus as usize, trace.spans.len());
}

#[test]
fn live_a_real_file_survives_damage() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = record(folder.path(), &["-F", "100"]) else { return };
    let file = std::fs::read(&path).unwrap();
    let step = file.len() / 500 + 1;
    for len in (0..file.len()).step_by(step) {
        let _ = read_bytes(&file[..len]);
    }
}

#[test]
fn live_perf_reads_what_is_written() {
    use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("synthetic.data");
    let task = Task { pid: 77, tid: 78, comm: "made-up" };
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(0, task, false);
    synthetic.map(0, 77, 0x40_0000, 0x1000, 0, "/bin/made-up");
    synthetic.switch(
        At { ns: 1_000, cpu: 0 },
        task,
        2,
        IDLE,
        Chain { kernel: &[0xffff_ffff_8100_0000], user: &[0x40_0010] },
    );
    synthetic.waking(At { ns: 2_000, cpu: 1 }, IDLE, 0x10, task, Chain::default());
    let mut out = std::fs::File::create(&path).unwrap();
    write(&mut out, &SyntheticTrace::events(), &SyntheticTrace::features(), &[&synthetic.records])
        .unwrap();
    if Command::new("perf").arg("--version").output().is_err() {
        println!("skipped: perf is not installed");
        return;
    }
    let script = perf_script(&path, "comm,tid,cpu,time,event,trace")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        script.contains(
            "made-up 78 [000] 0.000001: sched:sched_switch: prev_comm=made-up prev_pid=78"
        ),
        "{script}"
    );
    assert!(script.contains("prev_state=D ==> next_comm=swapper/0 next_pid=0"), "{script}");
    assert!(script.contains("sched:sched_waking: comm=made-up pid=78"), "{script}");
}

#[test]
fn live_formats_come_from_tracefs() {
    let tracefs = Path::new("/sys/kernel/tracing");
    let events = [("sched", "sched_switch"), ("no", "such_event")];
    match TracingData::read_from_tracefs(tracefs, &events) {
        Err(error) => println!("skipped: {error}"),
        Ok(data) => {
            assert_eq!(data.events.len(), 1);
            assert!(data.page_size.is_power_of_two());
            let format = EventFormat::parse(&data.events[0].1).unwrap();
            assert!(format.field("prev_state").is_some() && format.field("common_flags").is_some());
        }
    }
}
