//! The command line from the user's point of view: help, wrong usage, files that are not traces,
//! closed pipes, missing permissions.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

#[path = "../crates/formats/tests/synthetic/mod.rs"]
mod synthetic;

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");

fn unhitch<'a>(words: impl IntoIterator<Item = &'a str>) -> Output {
    // The user's own configuration must not change what is tested.
    Command::new(UNHITCH)
        .args(words)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HOME")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs `words`, which must exit with `code`; returns standard output and standard error.
fn ends_with<'a>(code: i32, words: impl IntoIterator<Item = &'a str>) -> (String, String) {
    let output = unhitch(words);
    let (out, err) = (text(&output.stdout).to_owned(), text(&output.stderr).to_owned());
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(!out.contains('\x1b') && !err.contains('\x1b'), "colour into a pipe: {out}{err}");
    (out, err)
}

/// A trace of two threads that take turns for 10 ms, without any hang.
fn calm_trace(folder: &Path) -> String {
    use synthetic::{At, Chain, SyntheticTrace, Task};
    let (ping, pong) =
        (Task { pid: 100, tid: 100, comm: "ping" }, Task { pid: 200, tid: 200, comm: "pong" });
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(1_000_000, ping, false);
    synthetic.comm(1_000_000, pong, false);
    for round in 0..10 {
        let (from, to) = if round % 2 == 0 { (ping, pong) } else { (pong, ping) };
        let ns = 1_000_000 + round * 1_000_000;
        synthetic.waking(At { ns, cpu: 0 }, from, 0, to, Chain::default());
        synthetic.switch(At { ns: ns + 1_000, cpu: 0 }, from, 1, to, Chain::default());
    }
    let path = folder.join("calm.data");
    fs::write(&path, synthetic.file()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The functions and source lines of the frames of [`named_trace`], by the last digits of their
/// addresses.
const NAMES: [(u64, &str, &str, u32); 4] = [
    (0x010, "wait_for_paint", "src/paint.c", 12),
    (0x020, "finish_paint", "src/paint.c", 40),
    (0x030, "main_loop", "src/main.c", 7),
    (0x040, "do_sys_poll", "fs/select.c", 900),
];

/// A container: ten times, "ping" waits 2 ms in `wait_for_paint`, which no rule classifies, until
/// "pong", which polls, wakes it in `finish_paint`.
fn named_trace(folder: &Path) -> String {
    use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
    use unhitch_formats::container::{ContainerMeta, ContainerParts, SymbolFile, write_container};
    use unhitch_model::Symbol;
    const TEXT: u64 = 0xffff_ffff_8100_0000;
    let (ping, pong) =
        (Task { pid: 100, tid: 100, comm: "ping" }, Task { pid: 200, tid: 200, comm: "pong" });
    let mut synthetic = SyntheticTrace::default();
    synthetic.comm(1_000_000, ping, false);
    synthetic.comm(1_000_000, pong, false);
    for round in 0..10 {
        let at = |us: u64, cpu: u32| At { ns: 1_000_000 + round * 4_000_000 + us * 1_000, cpu };
        synthetic.switch(
            at(0, 0),
            ping,
            1,
            IDLE,
            Chain { kernel: &[TEXT + 0x010, TEXT + 0x030], user: &[] },
        );
        synthetic.switch(at(1_990, 1), IDLE, 0, pong, Chain::default());
        synthetic.waking(
            at(2_000, 1),
            pong,
            0,
            ping,
            Chain { kernel: &[TEXT + 0x020, TEXT + 0x030], user: &[] },
        );
        synthetic.switch(at(2_010, 0), IDLE, 0, ping, Chain::default());
        synthetic.switch(
            at(2_020, 1),
            pong,
            1,
            IDLE,
            Chain { kernel: &[TEXT + 0x040, TEXT + 0x030], user: &[] },
        );
        synthetic.waking(at(3_000, 0), ping, 0, pong, Chain { kernel: &[TEXT + 0x030], user: &[] });
    }
    let file = synthetic.file();
    let mut named = unhitch_formats::read_bytes(&file).unwrap();
    // For a return address, the call before it counts.
    let frames: Vec<u64> = named
        .stacks
        .frames()
        .iter()
        .map(|frame| (frame.offset % 0x1000).next_multiple_of(0x10))
        .collect();
    for (index, at) in frames.into_iter().enumerate() {
        let (_, function, file, line) = NAMES.into_iter().find(|name| name.0 == at).unwrap();
        let (function, file) = (named.strings.intern(function), named.strings.intern(file));
        named.symbols.set(unhitch_model::FrameId(index as u32), &[Symbol { function, file, line }]);
    }
    let path = folder.join("named.hitch");
    let meta = ContainerMeta { version: 1, cpus: 2, ..ContainerMeta::default() };
    let symbols = SymbolFile::from_trace(&named);
    let parts = ContainerParts {
        meta: &meta,
        perf_data: &mut |out| out.write_all(&file),
        rings: None,
        symbols: Some(&symbols),
        notes: None,
        extra: Vec::new(),
    };
    write_container(&path, parts).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn unclassified_waits_are_listed_until_a_rule_classifies_them() {
    let folder = tempfile::tempdir().unwrap();
    let trace = named_trace(folder.path());
    let unknown = |out: &str| {
        out.contains("main_loop → wait_for_paint") && out.contains("20.0 ms        10  ping 100")
    };
    let known = "A rule classifies every wait in this trace.\n";
    let (out, _) = ends_with(0, ["waits", &trace]);
    assert!(unknown(&out), "{out}");
    assert!(!out.contains("do_sys_poll") && !out.contains("pong"), "polling has a class: {out}");
    let rows: Value = serde_json::from_str(&ends_with(0, ["waits", &trace, "--json"]).0).unwrap();
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["waits"]), (1, &10.into()), "{rows}");
    assert_eq!(
        (&rows[0]["waited_ns"], &rows[0]["stack"]),
        (&20_000_000.into(), &vec!["main_loop", "wait_for_paint"].into()),
        "{rows}"
    );

    // A rule of the user: given as an option, or in the configuration folder.
    let rules = folder.path().join("own.toml");
    fs::write(&rules, "[[wait]]\nclass = \"idle\"\nany = [\"wait_for_p*\"]\n").unwrap();
    let rules = rules.to_str().unwrap();
    assert_eq!(ends_with(0, ["waits", &trace, "--rules", rules]).0, known);
    let configured = folder.path().join("config/unhitch");
    fs::create_dir_all(&configured).unwrap();
    fs::copy(rules, configured.join("waits.toml")).unwrap();
    let waits = |key: &str, folder: &Path, words: &[&str]| {
        let mut command = Command::new(UNHITCH);
        command
            .args(["waits", &trace])
            .args(words)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("HOME")
            .env(key, folder);
        text(&command.output().unwrap().stdout).to_owned()
    };
    assert_eq!(waits("XDG_CONFIG_HOME", &folder.path().join("config"), &[]), known);
    fs::rename(folder.path().join("config"), folder.path().join(".config")).unwrap();
    assert_eq!(waits("HOME", folder.path(), &[]), known);
    let other = folder.path().join("other.toml");
    fs::write(&other, "").unwrap();
    assert!(
        unknown(&waits("HOME", folder.path(), &["--rules", other.to_str().unwrap()])),
        "the file that is named, not the configured one"
    );

    // All commands use the class.
    let reasons = ["table", &trace, "waits", "--by", "thread,reason", "--show", "count", "--csv"];
    assert_eq!(
        ends_with(0, reasons).0,
        "thread,reason,count\r\nping,unknown,10\r\npong,idle,10\r\n"
    );

    fs::write(&other, "[[wait]]\nclass = \"nonsense\"\n").unwrap();
    let (_, err) = ends_with(1, ["waits", &trace, "--rules", other.to_str().unwrap()]);
    assert!(
        err.contains("other.toml: wait rules: line 2, column 9: expected")
            && err.contains("`block_io`"),
        "where, and the classes: {err}"
    );
    assert!(!err.contains("nonsense"), "a file's content is not repeated: {err}");
    assert!(ends_with(1, ["waits", &trace, "--rules", "missing.toml"]).1.contains("missing.toml"));
}

#[test]
fn callers_and_tables_go_by_source_files() {
    let folder = tempfile::tempdir().unwrap();
    let trace = named_trace(folder.path());
    let squeezed = |words: &[&str]| {
        let (out, _) = ends_with(0, words.iter().copied());
        out.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let ranking = squeezed(&["callers", &trace, "--by", "file"]);
    let ranked = [
        "20 29.8 ms 100.0 % 0 ns src/main.c",
        "10 20.0 ms 67.1 % 20.0 ms src/paint.c",
        "10 9.8 ms 32.8 % 9.8 ms fs/select.c",
    ];
    assert_eq!(
        ranking[1..],
        [&["count waited share innermost file on these stacks"][..], &ranked].concat()
    );
    let tree = squeezed(&["callers", &trace, "paint.c", "--by", "file", "--of", "wake"]);
    assert_eq!(
        tree[0],
        "src/paint.c is on 10 of 20 wake-ups: wait ended 20.0 ms of 29.8 ms (67.1 %)"
    );
    assert_eq!(tree[2..], ["10 20.0 ms 100.0 % src/paint.c", "10 20.0 ms 100.0 % src/main.c"]);
    let called = squeezed(&["callees", &trace, "src/main.c", "--by", "file"]);
    assert_eq!(
        called[2..],
        [
            "20 29.8 ms 100.0 % src/main.c",
            "10 20.0 ms 67.1 % src/paint.c",
            "10 9.8 ms 32.8 % fs/select.c"
        ]
    );

    let files = |table: &str| {
        ends_with(
            0,
            ["table", &trace, table, "--by", "file", "--show", "count,sum:waited", "--csv"],
        )
        .0
    };
    assert_eq!(
        files("waits"),
        "file,count,sum_waited_ns\r\nsrc/paint.c,10,20000000\r\nfs/select.c,10,9800000\r\n"
    );
    assert_eq!(
        files("wakes"),
        "file,count,sum_waited_ns\r\nsrc/paint.c,10,20000000\r\nsrc/main.c,10,9800000\r\n"
    );
    let own = [
        "table",
        &trace,
        "waits",
        "--by",
        "file,thread",
        "--show",
        "count",
        "--where",
        "file = 'src/paint.c'",
        "--csv",
    ];
    assert_eq!(ends_with(0, own).0, "file,thread,count\r\nsrc/paint.c,ping,10\r\n");
}

#[test]
fn help_shows_every_command_and_each_command_has_its_own() {
    let (help, _) = ends_with(0, ["--help"]);
    assert!(help.contains("Exit codes: 0 done"), "{help}");
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(str::trim)
        .collect();
    let names: Vec<&str> =
        commands.iter().filter_map(|line| line.split_whitespace().next()).collect();
    let recording: &[&str] = if cfg!(target_os = "linux") {
        &["record", "watch", "save", "scan", "threads", "lab"]
    } else {
        &[]
    };
    for &name in
        ["why", "info", "table", "callers", "callees", "export", "manual"].iter().chain(recording)
    {
        assert!(names.contains(&name), "{name} is missing: {help}");
        let (own, _) = ends_with(0, [name, "--help"]);
        assert!(own.contains(&format!("Usage: unhitch {name}")), "{own}");
        assert_eq!(ends_with(0, ["help", name]).0, own);
    }
    let (version, _) = ends_with(0, ["--version"]);
    assert_eq!(version, concat!("unhitch ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn wrong_usage_exits_with_2_and_shows_the_right_one() {
    let wrong: [&[&str]; 12] = [
        &[],
        &["why"],
        &["wyh"],
        &["why", "a.hitch", "--form", "1s"],
        &["why", "a.hitch", "--from", "soon"],
        &["info", "a", "b"],
        &["table"],
        &["table", "a.hitch"],
        &["table", "a.hitch", "chairs"],
        &["table", "a.hitch", "waits", "--where", "waited > five"],
        &["table", "a.hitch", "waits", "--csv", "--json"],
        &["callers", "a.hitch", "--of", "chair"],
    ];
    for words in wrong {
        let (out, err) = ends_with(2, words.iter().copied());
        assert!(out.is_empty(), "{out}");
        assert!(err.contains("Usage: unhitch") || err.contains("--help"), "{words:?}: {err}");
    }
    assert!(
        ends_with(2, ["why", "a.hitch", "--from", "soon"])
            .1
            .contains("write it as 10s, 500ms or 1.5")
    );
}

#[test]
fn what_is_no_trace_is_named_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (missing, text, empty, directory) =
        (path("missing.hitch"), path("note.txt"), path("empty.hitch"), path("folder"));
    fs::write(&text, "It hung again this morning, twice.\n").unwrap();
    fs::write(&empty, "").unwrap();
    fs::create_dir(&directory).unwrap();
    for (file, message) in [
        (&missing, "No such file"),
        (&text, "not a trace"),
        (&empty, "an empty file"),
        (&directory, "directory"),
    ] {
        for command in ["why", "info"] {
            let (out, err) = ends_with(1, [command, file]);
            assert!(out.is_empty(), "{out}");
            assert!(err.starts_with("unhitch: ") && err.contains(message), "{file}: {err}");
            assert_eq!(err.matches(file.as_str()).count(), 1, "the file is named once: {err}");
        }
    }
    assert_eq!(
        ends_with(1, ["why", &missing]).1.matches("No such file").count(),
        1,
        "the cause is printed once"
    );
}

#[test]
fn a_truncated_trace_gives_an_answer_or_an_error_but_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(calm_trace(folder.path())).unwrap();
    let cut = folder.path().join("cut.data");
    for len in (0..whole.len()).step_by(whole.len() / 16) {
        fs::write(&cut, &whole[..len]).unwrap();
        for words in [&["why"][..], &["table", "--by", "none", "--show", "all"], &["callers"]] {
            let table = words.first().filter(|word| **word == "table").map(|_| "switches");
            let output = unhitch(words.iter().copied().chain([cut.to_str().unwrap()]).chain(table));
            assert!(
                matches!(output.status.code(), Some(0 | 1 | 3)),
                "{words:?}, cut to {len} bytes: {}",
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn a_trace_without_stalls_exits_with_3() {
    let folder = tempfile::tempdir().unwrap();
    let trace = calm_trace(folder.path());
    let (out, _) = ends_with(3, ["why", &trace]);
    assert!(!out.trim().is_empty(), "it reports that in words");
    let why: Value = serde_json::from_str(&ends_with(3, ["why", &trace, "--json"]).0).unwrap();
    assert_eq!(
        (&why["version"], &why["stalls"], &why["trace"]["switches"]),
        (&1.into(), &Value::Array(vec![]), &10.into())
    );
    let info: Value = serde_json::from_str(&ends_with(0, ["info", &trace, "--json"]).0).unwrap();
    assert_eq!(
        (&info["format"], &info["switches"], &info["wakings"]),
        (&"perf.data".into(), &10.into(), &10.into())
    );
}

#[test]
fn a_thread_or_time_that_is_not_in_the_trace_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = calm_trace(folder.path());
    assert!(
        ends_with(1, ["why", &trace, "--victim", "nobody"])
            .1
            .contains("no thread or process in this trace is called \"nobody\"")
    );
    assert!(
        ends_with(1, ["why", &trace, "--from", "100s"])
            .1
            .contains("there is nothing in this time range")
    );
}

#[test]
fn tables_are_grouped_filtered_and_printed_three_ways() {
    let folder = tempfile::tempdir().unwrap();
    let trace = calm_trace(folder.path());
    let (switches, _) = ends_with(0, ["table", &trace, "switches", "--top", "3"]);
    let lines: Vec<&str> = switches.lines().collect();
    assert!(
        lines[0]
            .starts_with("switched in (s)  cpu  thread  tid  process  woken by  off-CPU (ms)  waited (ms)  runnable (ms)  ran for (ms)"),
        "{switches}"
    );
    assert_eq!((lines.len(), lines[4]), (6, "… and 7 more of 10 rows (--top N)"), "{switches}");
    assert!(lines[5].starts_with("WARNING  function names are missing"), "{switches}");
    let by =
        ["--by", "New Process Id", "--show", "count,sum:waited,max:waited", "--sort", "pid:asc"];
    let (grouped, _) = ends_with(0, ["table", &trace, "switches", "--csv"].into_iter().chain(by));
    // Each waits 999 µs until the other wakes it; pong runs first, and had not waited.
    assert_eq!(
        grouped,
        "pid,count,sum_waited_ns,max_waited_ns\r\n100,5,4995000,999000\r\n200,5,3996000,999000\r\n"
    );
    let filter = [
        "--by",
        "none",
        "--where",
        "thread = ping and blocked at >= 2ms",
        "--from",
        "2ms",
        "--to",
        "5ms",
        "--show",
        "waited,tid",
    ];
    let (waits, _) = ends_with(0, ["table", &trace, "waits", "--json"].into_iter().chain(filter));
    let waits: Value = serde_json::from_str(&waits).unwrap();
    assert_eq!(
        (&waits["table"], &waits["columns"][0]["name"]),
        (&"waits".into(), &"waited_ns".into()),
        "{waits}"
    );
    assert!(waits["rows"].as_array().unwrap().iter().all(|row| row["tid"] == 100), "{waits}");
    let width = waits["end_ns"].as_u64().unwrap() - waits["start_ns"].as_u64().unwrap();
    assert_eq!(width, 3_000_000);
}

#[test]
fn columns_are_listed_without_a_trace() {
    let (all, _) = ends_with(0, ["table", "--columns"]);
    let (own, _) = ends_with(0, ["table", "--columns", "wakes"]);
    assert!(
        all.contains(&own) && own.starts_with("wakes: ") && own.contains("Readying Thread Stack"),
        "{own}"
    );
    for table in [
        "switches",
        "waits",
        "wakes",
        "samples",
        "stalls",
        "lifetimes",
        "threads",
        "cpus",
        "counters",
    ] {
        assert!(all.contains(&format!("{table}: ")), "{table}: {all}");
    }
}

#[test]
fn a_wrong_filter_is_pointed_at() {
    let (_, err) =
        ends_with(2, ["table", "a.hitch", "waits", "--where", "thread = ping and waitd > 5ms"]);
    assert!(err.contains("found `waitd` at offset 18, expected a column: blocked at, "), "{err}");
    assert!(err.contains("\n  thread = ping and waitd > 5ms\n                    ^\n"), "{err}");
    let (_, err) = ends_with(2, ["table", "a.hitch", "waits", "--by", "threda"]);
    assert!(err.contains("waits has no column `threda`; it has blocked at, "), "{err}");
}

#[test]
fn a_function_that_is_on_no_stack_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = calm_trace(folder.path());
    let (_, err) = ends_with(1, ["callers", &trace, "nobody"]);
    assert!(err.contains("no function on these stacks is called \"nobody\"; run `unhitch callers` without it to list them"), "{err}");
    assert!(ends_with(0, ["callees", &trace]).0.contains("function on these stacks"));
}

#[test]
fn manual_and_completions_come_from_the_one_registry() {
    let (manual, _) = ends_with(0, ["manual"]);
    assert!(manual.contains(".TH unhitch 1") && manual.contains(".SH SYNOPSIS"), "{manual}");
    for command in ["why", "info", "table", "callers", "callees", "manual"] {
        assert!(manual.contains(&format!(".TH unhitch-{command} 1")), "{command}");
    }
    for (shell, start) in
        [("bash", "_unhitch()"), ("zsh", "#compdef unhitch"), ("fish", "complete -c unhitch")]
    {
        let (completions, _) = ends_with(0, ["manual", "--completions", shell]);
        assert!(completions.contains(start) && completions.contains("victim"), "{shell}");
    }
    ends_with(2, ["manual", "--completions", "dos"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let trace = calm_trace(folder.path());
    for (words, code) in [
        (&["manual"][..], 0),
        (&["--help"], 0),
        (&["info", &trace], 0),
        (&["why", &trace], 3),
        (&["table", &trace, "waits"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(UNHITCH).args(words).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(code), ""), "{words:?}");
    }
}

#[cfg(target_os = "linux")]
mod permission {
    use super::{UNHITCH, text};
    use std::fs::{self, Permissions};
    use std::io::{Write, stderr};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::{Command, Output};
    use unhitch_record::{Error, Options, Recorder};

    /// Records for a moment, as the user nobody if this is root; `None` if that is not possible.
    fn record_as_nobody(program: &Path, trace: &Path) -> Option<Output> {
        let mut command = match fs::metadata("/proc/self").unwrap() {
            process if std::os::unix::fs::MetadataExt::uid(&process) == 0 => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
                command
            }
            _ => Command::new(program),
        };
        command.args(["record", "--for", "200ms", "-o"]).arg(trace).output().ok()
    }

    fn skipped(reason: &str) {
        let _ = writeln!(
            stderr(),
            "SKIPPED live_without_permission_record_prints_a_fix_that_works: {reason}"
        );
    }

    #[test]
    fn live_without_permission_record_prints_a_fix_that_works() {
        // In a folder that the user nobody may enter and write to, unlike perhaps the build folder.
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let (program, trace) = (folder.path().join("unhitch"), folder.path().join("a.hitch"));
        fs::copy(UNHITCH, &program).unwrap();
        let Some(refused) = record_as_nobody(&program, &trace) else {
            return skipped("setpriv is not installed");
        };
        if refused.status.success() {
            return skipped("here everybody may record");
        }
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{error}");
        assert!(refused.stdout.is_empty() && !trace.exists());
        let fix = error.lines().find_map(|line| {
            line.split_once("sudo ").filter(|(_, command)| command.starts_with("setcap"))
        });
        let Some((_, fix)) = fix else {
            assert!(error.contains("tracefs") && error.contains("sudo mount"), "{error}");
            return skipped("tracefs is not mounted");
        };
        assert!(fix.ends_with(program.to_str().unwrap()), "{fix}");

        // Only root may apply the fix, and only if root itself may record.
        if let Err(Error::NotPermitted { what, .. } | Error::Missing { what, .. }) =
            Recorder::start(&Options::default())
        {
            return skipped(&what);
        }
        match Command::new("sh").args(["-c", fix]).output() {
            Ok(output) if output.status.success() => {}
            output => return skipped(&format!("cannot {fix}: {output:?}")),
        }
        let recorded = record_as_nobody(&program, &trace).unwrap();
        assert!(recorded.status.success(), "after {fix}: {}", text(&recorded.stderr));
        assert_eq!(text(&recorded.stdout).trim_end(), trace.to_str().unwrap());
    }
}

/// The output of `lab long-hold` with these options, and its figures.
#[cfg(target_os = "linux")]
fn long_hold(options: &[&str]) -> (String, Value) {
    let outcome = tempfile::NamedTempFile::new().unwrap();
    let words =
        ["lab", "long-hold", "--seconds", "3", "--outcome", outcome.path().to_str().unwrap()];
    let output = unhitch(words.iter().chain(options).copied());
    let printed = text(&output.stdout).to_owned() + text(&output.stderr);
    // 4 means that it did not hang, which is the purpose of the faster ways.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{printed}");
    let outcome: Value = serde_json::from_slice(&fs::read(outcome.path()).unwrap()).unwrap();
    (printed, outcome["measured"]["figures"].clone())
}

#[cfg(target_os = "linux")]
#[test]
fn the_ways_to_search_and_to_resume_work_as_documented() {
    let runs: [&[&str]; 4] = [
        &["--search", "bit"],
        &["--search", "bit", "--resume"],
        &["--search", "word"],
        &["--search", "avx2", "--resume"],
    ];
    let runs_done = std::thread::scope(|scope| {
        let runs = runs.map(|options| scope.spawn(move || long_hold(options)));
        runs.map(|run| run.join().unwrap())
    });
    let figure = |run: usize, name: &str| runs_done[run].1[name].as_u64().unwrap();
    for (run, (printed, figures)) in runs_done.iter().enumerate() {
        if printed.contains("this CPU does not support avx2") {
            println!(
                "SKIPPED the_ways_to_search_and_to_resume_work_as_documented: {} on this CPU",
                runs[run].join(" ")
            );
            continue;
        }
        let resumes = runs[run].contains(&"--resume");
        let how =
            if resumes { "each from where the last one ended" } else { "each from the start" };
        let way = format!("searches by {} ({how}) read ", runs[run][1]);
        for words in [
            way.as_str(),
            " GB/s, and covered ",
            "checkpoint held the lock ",
            "; the hang: the frame at ",
        ] {
            assert!(printed.contains(words), "{words:?} is missing: {printed}");
        }
        // On a very busy machine, it stops before all regions are done.
        if figures["regions"] == 400 {
            let (bitmap, searched) = (figure(run, "bitmap_bytes"), figure(run, "searched_bytes"));
            let times = searched as f64 / bitmap as f64;
            assert!(
                (times - if resumes { 1.0 } else { 200.5 }).abs() < 0.1,
                "{:?}: {searched} of {bitmap}",
                runs[run]
            );
        }
    }
    // Eight writers want the lock every 10 ms, so one waits for most of a hold of a second.
    let (hold_us, wait_us) = (figure(0, "hold_us"), figure(0, "writer_wait_us"));
    assert!(
        hold_us < 500_000 || wait_us * 2 > hold_us,
        "held {hold_us} µs, a writer waited {wait_us} µs"
    );
    assert!(
        figure(1, "hold_us") * 5 < figure(0, "hold_us"),
        "resuming does not help: {runs_done:?}"
    );
}
