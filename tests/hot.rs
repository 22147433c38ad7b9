//! `unhitch hot` on the seven instructions of "63 cores blocked by seven instructions": with real
//! samples, and with the figures of the blog post.
//!
//! The loop is written in assembly, so that it has exactly these instructions. The expected samples
//! per instruction are counted from the trace itself, only by address.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "the loop is assembly")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime};
use unhitch_formats::perf_data::{ClockData, Features, write};
use unhitch_record::{Error, Extras, Options, Recorder, SaveTarget};
use unhitch_symbols::Symbolizer;

#[path = "../crates/formats/tests/synthetic/mod.rs"]
mod synthetic;

const FUNCTION: &str = "find_next_forward_run_clear";

// The index of the first of `count` words in which not every bit is set, or `count`.
std::arch::global_asm!(
    ".globl find_next_forward_run_clear",
    ".type find_next_forward_run_clear,@function",
    ".balign 16",
    "find_next_forward_run_clear:",
    "push %rbp",
    "mov %rsp,%rbp",
    "xor %eax,%eax",
    "1: cmp %rsi,%rax",
    "jae 2f",
    "mov (%rdi,%rax,4),%edx",
    "inc %rax",
    "lea 0x20(%rcx),%ecx",
    "cmp $-1,%edx",
    "je 1b",
    "2: pop %rbp",
    "ret",
    ".size find_next_forward_run_clear, . - find_next_forward_run_clear",
    options(att_syntax)
);

unsafe extern "C" {
    fn find_next_forward_run_clear(words: *const u32, count: usize) -> usize;
}

/// The offsets of the seven instructions in the function, and their text.
const SEVEN: [(u64, &str); 7] = [
    (6, "cmp %rsi,%rax"),
    (9, "jae"),
    (11, "mov (%rdi,%rax,4),%edx"),
    (14, "inc %rax"),
    (17, "lea 0x20(%rcx),%ecx"),
    (20, "cmp $0xffffffff,%edx"),
    (23, "je"),
];
/// The samples of each instruction in the post.
const OF_THE_POST: [u64; 7] = [4, 41, 0, 7_498, 2, 1, 1];

fn function_avma() -> u64 {
    find_next_forward_run_clear as *const () as u64
}

/// Start, end and file offset of the mapping that the function is in.
fn mapping() -> (u64, u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut mappings = maps.lines().map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        (hex(start), hex(end), hex(fields[2]))
    });
    mappings.find(|&(start, end, _)| (start..end).contains(&function_avma())).unwrap()
}

fn function_offset() -> u64 {
    let (start, _, offset) = mapping();
    function_avma() - start + offset
}

fn unhitch(words: &[&str], trace: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    // Root may also read programs from these folders.
    let folders = [
        this_program().parent().unwrap().display().to_string(),
        trace.parent().unwrap().display().to_string(),
    ];
    command.arg("hot").arg(trace).args(words).arg("--symbols").arg(folders.join(";"));
    command.output().unwrap()
}

fn text(words: &[&str], trace: &Path) -> String {
    let output = unhitch(words, trace);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(words: &[&str], trace: &Path) -> Value {
    serde_json::from_str(&text(&[words, &["--json"]].concat(), trace)).unwrap()
}

/// Offset in the function, text and samples of the instructions in the loop of the answer.
fn loop_of(answer: &Value) -> Vec<(u64, String, u64)> {
    let instructions =
        answer["instructions"].as_array().unwrap().iter().filter(|line| line["in_loop"] == true);
    let loop_line = |line: &Value| {
        let offset = line["offset"].as_u64().unwrap() - function_offset();
        (offset, line["text"].as_str().unwrap().to_owned(), line["samples"].as_u64().unwrap())
    };
    instructions.map(loop_line).collect()
}

fn assert_is_the_loop(found: &[(u64, String, u64)]) {
    assert_eq!(found.len(), 7, "{found:?}");
    for ((offset, text, _), (wanted_offset, wanted_text)) in found.iter().zip(SEVEN) {
        assert_eq!(*offset, wanted_offset, "{found:?}");
        assert!(text.starts_with(wanted_text), "{text} is not {wanted_text}");
    }
}

/// Searches a full bitmap, again and again.
fn search(for_time: Duration) {
    let words = vec![u32::MAX; 1 << 18];
    let end = Instant::now() + for_time;
    while Instant::now() < end {
        // SAFETY: it reads `words.len()` words from the pointer on.
        assert_eq!(
            unsafe { find_next_forward_run_clear(words.as_ptr(), words.len()) },
            words.len()
        );
    }
}

/// Samples of the thread called `name`, by their offset in the function.
fn counted(trace: &Path, name: &str) -> BTreeMap<u64, u64> {
    let trace = unhitch_formats::open(trace).unwrap();
    let this = this_program();
    let mut counts = BTreeMap::new();
    for index in 0..trace.samples.len() {
        let Some(&leaf) = trace.stacks.frames_of(trace.samples.stack[index]).first() else {
            continue;
        };
        let frame = trace.stacks.frame(leaf).unwrap();
        let is_ours = Path::new(trace.name(trace.modules.get(frame.module).unwrap().path)) == this;
        let is_its = is_ours
            && trace.thread_name(trace.samples.thread[index], trace.samples.time[index]) == name;
        let offset =
            frame.offset.checked_sub(function_offset()).filter(|&offset| is_its && offset < 27);
        if let Some(offset) = offset {
            *counts.entry(offset).or_default() += 1;
        }
    }
    counts
}

#[test]
fn live_hot_finds_the_seven_instructions_and_their_shares() {
    let mut options = Options::default();
    options.sample_hz = 997;
    let mut recorder = match Recorder::start(&options) {
        Err(error @ (Error::NotPermitted { .. } | Error::Missing { .. })) => {
            let reason = error.to_string().replace('\n', " ");
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED live_hot_finds_the_seven_instructions_and_their_shares: {reason}"
            );
            return;
        }
        result => result.unwrap(),
    };
    let searching = std::thread::Builder::new()
        .name("checkpoint".to_owned())
        .spawn(|| search(Duration::from_millis(1_500)))
        .unwrap();
    searching.join().unwrap();
    let snapshot = recorder.snapshot();
    drop(recorder);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seven.hitch");
    let mut symbolizer = Symbolizer::new(unhitch_symbols::Options::default());
    snapshot.save(&SaveTarget::File(trace.clone()), &mut symbolizer, &Extras::default()).unwrap();

    let ranking = json(&["--victim", "checkpoint"], &trace);
    assert_eq!(ranking["functions"][0]["function"], FUNCTION, "{ranking}");
    let answer = json(&["--function", FUNCTION, "--victim", "checkpoint"], &trace);
    let found = loop_of(&answer);
    assert_is_the_loop(&found);
    let (samples, in_loop) =
        (answer["samples"].as_u64().unwrap(), answer["loop"]["samples"].as_u64().unwrap());
    assert!(samples >= 50, "the thread got no CPU: {samples} samples");
    assert!(in_loop * 100 >= samples * 95, "{in_loop} of {samples} samples in the loop");
    assert_eq!(in_loop, found.iter().map(|(_, _, samples)| samples).sum::<u64>());
    let sampled: BTreeMap<u64, u64> = found
        .iter()
        .filter(|(_, _, samples)| *samples > 0)
        .map(|&(offset, _, samples)| (offset, samples))
        .collect();
    let counted: BTreeMap<u64, u64> = counted(&trace, "checkpoint")
        .into_iter()
        .filter(|(offset, _)| (6..25).contains(offset))
        .collect();
    assert_eq!(
        sampled, counted,
        "each instruction has the samples that the trace has at its address"
    );
}

fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// A trace with the samples of the post, taken in `program` (this one or a copy) at the time
/// `wall`, on this machine if `at_home`.
fn trace_of_the_post(folder: &Path, program: &Path, at_home: bool, wall: SystemTime) -> PathBuf {
    let task = synthetic::Task { pid: 4, tid: 3276, comm: "System" };
    let (start, end, offset) = mapping();
    let mut synthetic = synthetic::SyntheticTrace::default();
    synthetic.comm(1_000, task, false);
    synthetic.map(1_000, task.pid, start, end - start, offset, program.to_str().unwrap());
    let mut ns = 1_000_000;
    for ((at, _), samples) in SEVEN.iter().zip(OF_THE_POST) {
        for _ in 0..samples {
            ns += 446_000;
            synthetic.clock(
                synthetic::At { ns, cpu: 0 },
                task,
                synthetic::Chain { kernel: &[], user: &[function_avma() + at] },
            );
        }
    }
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap().trim().to_owned()
    };
    let here = if at_home {
        (read("hostname"), read("osrelease"))
    } else {
        ("elsewhere".to_owned(), "6.18.0".to_owned())
    };
    let wall_ns = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let clock_id = Some(ClockData { clockid: 1, wall_ns, clock_ns: 1_000 });
    let features = Features {
        host: here.0,
        kernel: here.1,
        clock_id,
        ..synthetic::SyntheticTrace::features()
    };
    let mut file = Vec::new();
    write(&mut file, &synthetic::SyntheticTrace::events(), &features, &[&synthetic.records])
        .unwrap();
    let path = folder.join("post.data");
    std::fs::write(&path, file).unwrap();
    path
}

#[test]
fn the_figures_of_the_post_are_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace_of_the_post(folder.path(), &this_program(), true, SystemTime::now());
    let answer = json(&["--function", FUNCTION], &trace);
    let found = loop_of(&answer);
    assert_is_the_loop(&found);
    assert_eq!(found.iter().map(|(_, _, samples)| *samples).collect::<Vec<_>>(), OF_THE_POST);
    assert_eq!(
        (&answer["samples"], &answer["loop"]["samples"], &answer["loop"]["share"]),
        (&7_547.into(), &7_547.into(), &1.0.into())
    );

    let text = text(&["--function", "find_next"], &trace);
    assert!(
        text.contains(
            "a loop of 7 instructions, 100.0 % of the function's samples; 99.4 % on one instruction"
        ),
        "{text}"
    );
    assert!(text.contains("SKID") && !text.contains("KERNEL"), "{text}");
    let hottest = text.lines().find(|line| line.contains("7,498")).unwrap();
    assert!(
        hottest.contains("99.4 %") && hottest.contains("│") && hottest.contains("inc %rax"),
        "{text}"
    );
    assert!(
        text.lines().any(|line| line.contains("┌") && line.contains("cmp %rsi,%rax")),
        "{text}"
    );
    assert!(text.lines().any(|line| line.contains("└") && line.contains("je ")), "{text}");
    // The first 20 ms have 45 samples, all of the first two instructions.
    let early = json(&["--function", FUNCTION, "--to", "20ms"], &trace);
    assert_eq!(early["total"], 45, "{early}");
}

#[test]
fn without_names_the_code_around_the_samples_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    std::fs::copy(this_program(), &stripped).unwrap();
    assert!(Command::new("strip").arg(&stripped).status().expect("binutils are needed").success());
    for (program, is_known) in [(this_program(), true), (stripped, false)] {
        let trace = trace_of_the_post(folder.path(), &program, false, SystemTime::now());
        let file = program.file_name().unwrap().to_str().unwrap();
        let first = function_offset() + SEVEN[0].0;
        let place = json(&[], &trace)["functions"][0]["function"].as_str().unwrap().to_owned();
        assert_eq!(place, format!("{file}+{first:#x}..{:#x}", function_offset() + SEVEN[6].0));
        for wanted in [&place, &format!("{file}+{first:#x}")] {
            let answer = json(&["--function", wanted], &trace);
            assert_is_the_loop(&loop_of(&answer));
            let notes = answer["notes"].as_array().unwrap();
            assert_eq!(
                notes.iter().any(|note| note.as_str().unwrap().contains("around the samples")),
                !is_known,
                "{answer}"
            );
            let whole = format!("{file}+{:#x}", function_offset());
            assert_eq!(answer["function"], if is_known { whole } else { place.clone() });
        }
    }
}

#[test]
fn a_file_written_after_the_recording_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace_of_the_post(
        folder.path(),
        &this_program(),
        false,
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
    );
    let place = json(&[], &trace)["functions"][0]["function"].as_str().unwrap().to_owned();
    let answer = json(&["--function", &place], &trace);
    assert!(
        answer["no_code"].as_str().unwrap().contains("not the file that was recorded"),
        "{answer}"
    );
    let samples: u64 = answer["instructions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["samples"].as_u64().unwrap())
        .sum();
    assert_eq!(
        (samples, &answer["loop"]),
        (7_547, &Value::Null),
        "the samples per address are still shown"
    );
}

#[test]
fn kernel_code_of_another_machine_takes_its_image() {
    let folder = tempfile::tempdir().unwrap();
    let task = synthetic::Task { pid: 4, tid: 4, comm: "kworker" };
    let mut synthetic = synthetic::SyntheticTrace::default();
    synthetic.clock(
        synthetic::At { ns: 1_000_000, cpu: 0 },
        task,
        synthetic::Chain { kernel: &[0xffff_ffff_8123_4567], user: &[] },
    );
    let trace = folder.path().join("kernel.data");
    std::fs::write(&trace, synthetic.file()).unwrap();
    assert!(text(&[], &trace).contains("[kernel]+0xffffffff81234567"));
    let code = text(&["--function", "[kernel]+0xffffffff81234567"], &trace);
    assert!(
        code.contains("NO CODE   the trace is from another machine; name the recorded kernel with --kernel-image VMLINUX"),
        "{code}"
    );
    assert!(
        code.contains("KERNEL    while the kernel has interrupts disabled")
            && code.contains("ffffffff81234567"),
        "{code}"
    );
    let image = this_program();
    let wrong = text(
        &["--function", "[kernel]+0xffffffff81234567", "--kernel-image", image.to_str().unwrap()],
        &trace,
    );
    assert!(wrong.contains("is not the kernel that was recorded"), "{wrong}");
}

#[test]
fn functions_without_samples_are_distinguished_from_unknown_ones() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace_of_the_post(folder.path(), &this_program(), true, SystemTime::now());
    for (function, message) in
        [("seek", "no sample is in a function called \"seek\""), ("", "no sample")]
    {
        let output = unhitch(&["--function", function], &trace);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{output:?}");
    }
}
