//! Windows traces on the command line: names from PDBs according to `_NT_SYMBOL_PATH` or
//! `--symbols`, fetched from a server (which needs `curl`), sessions that were not merged, and
//! messages about what is missing. The traces are synthetic.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use unhitch_etl_writer::{
    Guid, Image, KernelEvent, Options, Pdb, Process, Public, Rundown, ThreadFacts, Writer, win32k,
};

const GUID: Guid = Guid::new(1, 2, 3, [4; 8]);
const BASE: u64 = 0x7ff6_0000_0000;

/// The process and the thread that hang.
const PID: u32 = 100;
const TID: u32 = 200;

/// Only a thread that Windows reported for 1.5 s, half of which is covered by its samples.
fn samples_only(path: &Path) {
    let mut writer = Writer::new(Options { cpus: 1, ..Options::default() });
    writer.kernel(0, 0, &KernelEvent::SampleInterval { first: true, units: 10_000 });
    process(&mut writer);
    let image =
        Image { base: BASE, size: 0x10_0000, pid: PID, timestamp: 1, path: "C:\\hanger.exe" };
    writer.kernel(0, 0, &KernelEvent::Image(Rundown::First, image));
    let pdb = "D:\\out\\hanger.pdb";
    let rsds = KernelEvent::ImageRsds { base: BASE, pid: PID, guid: GUID, age: 1, pdb };
    writer.kernel(0, 0, &rsds);
    samples(&mut writer);
    message_delay(&mut writer, 2_000_000_000);
    fs::write(path, writer.finish()).unwrap();
}

/// The process and its thread.
fn process(writer: &mut Writer) {
    let process = Process { pid: PID, parent: 4, image: "hanger.exe", command_line: "hanger.exe" };
    writer.kernel(0, 0, &KernelEvent::Process(Rundown::First, process));
    let thread = ThreadFacts { pid: PID, tid: TID, name: Some("UI") };
    writer.kernel(0, 0, &KernelEvent::Thread(Rundown::First, thread, (4, 8)));
}

/// Two seconds of CPU samples.
fn samples(writer: &mut Writer) {
    for sample in 0..2_000 {
        // Every second sample is idle.
        let tid = if sample % 2 == 0 { TID } else { 0 };
        writer.kernel(
            0,
            1_000_000 * (sample + 1),
            &KernelEvent::Sample { instruction: BASE + 0x1010, tid, in_dpc: false },
        );
    }
}

/// Windows reports that the thread did not look at its messages for 1.5 s.
fn message_delay(writer: &mut Writer, ns: u64) {
    let delay = win32k::Delay {
        delay_ms: 1_500,
        window: Some(("HangerWindow", "C:\\hanger.exe")),
        ..win32k::Delay::default()
    };
    win32k::message_check_delay(writer, 0, ns, (PID, TID), &delay);
}

/// `unhitch` with these arguments, in a clean environment.
fn unhitch(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    for variable in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME", "_NT_SYMBOL_PATH"] {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

/// What it prints with this symbol path.
fn printed(words: &[&str], symbols: Option<&str>) -> String {
    let mut command = unhitch(words);
    command.envs(symbols.map(|path| ("_NT_SYMBOL_PATH", path)));
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pdb() -> Vec<u8> {
    let public = Public { name: "?Layout@Hanger@@QEAAXXZ".to_owned(), rva: 0x1000, function: true };
    Pdb { guid: GUID, age: 1, publics: vec![public], procedures: Vec::new() }.encode()
}

#[test]
fn samples_get_names_from_a_symbol_store_and_missing_ones_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("hang.etl");
    samples_only(&trace);
    let trace = trace.to_str().unwrap();

    let bare = printed(&["why", trace], None);
    assert!(
        bare.contains(
            "name a folder, a symbol store or a server in _NT_SYMBOL_PATH, or with --symbols"
        ),
        "{bare}"
    );
    let store = format!("srv*{}", folder.path().display());
    let with_store = ["why", trace, "--symbols", &store];
    let absent = printed(&with_store, None);
    assert!(absent.contains("in none of the folders of the symbol path"), "{absent}");

    let place = folder.path().join("hanger.pdb").join(format!("{}1", GUID.digits()));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("hanger.pdb"), pdb()).unwrap();
    let named = printed(&with_store, None);
    assert_eq!(printed(&with_store, Some("/nowhere")), named, "the option goes first");
    let from_environment = printed(&["why", trace], Some(&store));
    if unhitch_confine::is_root() {
        let refused = "_NT_SYMBOL_PATH is not used, because unhitch runs as root";
        assert!(from_environment.contains(refused), "{from_environment}");
        assert!(!from_environment.contains("Hanger::Layout"), "{from_environment}");
    } else {
        assert_eq!(from_environment, named);
    }
    for words in [
        "HANG 1.500 s  UI 200 (hanger.exe 100)",
        "Windows reported that this thread did not look at its messages for 1.500 s (window class HangerWindow).",
        "750 CPU samples show it on a CPU, which is about 750.0 ms of these 1.500 s.",
        "its own computation in Hanger::Layout.",
        "EVIDENCE  inferred: the trace has only CPU samples",
    ] {
        assert!(named.contains(words), "{words} is not in\n{named}");
    }
    assert!(!named.contains("WARNING"), "{named}");
}

#[test]
fn a_server_in_the_path_is_queried_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("hang.etl");
    samples_only(&trace);
    let trace = trace.to_str().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/symbols", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", pdb().len()).unwrap();
        stream.write_all(&pdb()).unwrap();
        // A second request is refused.
    });
    // Into the user's cache, because the path contains none.
    let cache = folder.path().join("cache");
    let fetched = unhitch(&["hot", trace, "--symbols", &format!("srv*{server}")])
        .env("XDG_CACHE_HOME", &cache)
        .output()
        .unwrap();
    let place = format!("hanger.pdb/{}1/hanger.pdb", GUID.digits());
    assert_eq!(err(&fetched), format!("unhitch: fetching {server}/{place}\n"));
    assert!(String::from_utf8_lossy(&fetched.stdout).contains("Hanger::Layout"), "{fetched:?}");
    assert_eq!(fs::read(cache.join("unhitch/symbols").join(&place)).unwrap(), pdb());
    let again = unhitch(&["hot", trace, "--symbols", &format!("srv*{server}")])
        .env("XDG_CACHE_HOME", &cache)
        .output()
        .unwrap();
    assert_eq!((err(&again), again.stdout), (String::new(), fetched.stdout));

    // If the program for fetching is missing, that is reported.
    let missing =
        unhitch(&["hot", trace, "--symbols", &format!("srv*{}*{server}", folder.path().display())])
            .env("PATH", "")
            .output()
            .unwrap();
    let expected = format!(
        "{server} was not asked: this needs the program curl, which is not installed: hanger.exe"
    );
    assert!(String::from_utf8_lossy(&missing.stdout).contains(&expected), "{missing:?}");
}

/// In place of `curl`, there is a program that leaves a mark.
#[cfg(unix)]
#[test]
fn without_a_server_in_the_path_nothing_is_fetched() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (trace, curl, mark) =
        (folder.path().join("hang.etl"), folder.path().join("curl"), folder.path().join("mark"));
    samples_only(&trace);
    fs::write(
        &curl,
        format!("#!/bin/sh\n: > '{}'\necho 'curl: (99) It rains' >&2\necho 'Take an umbrella' >&2\nexit 99\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |symbols: &str| {
        unhitch(&["why", trace.to_str().unwrap(), "--symbols", symbols])
            .env("PATH", folder.path())
            .output()
            .unwrap()
    };
    let store = folder.path().display();
    for symbols in
        ["".to_owned(), format!("{store}"), format!("srv*{store}"), format!("cache*{store};srv**")]
    {
        let output = run(&symbols);
        assert!(
            output.status.success() && output.stderr.is_empty() && !mark.exists(),
            "{symbols}: {output:?}"
        );
    }
    let asked = run(&format!("srv*{store}*https://symbols.invalid"));
    assert!(asked.status.success() && mark.exists(), "the mark shows when it is run: {asked:?}");
    let expected = "https://symbols.invalid did not answer (curl: (99) It rains): hanger.exe";
    assert!(String::from_utf8_lossy(&asked.stdout).contains(expected), "{asked:?}");
}

/// An unmerged session with this content, which started `later_ns` after the clock of the machine.
fn session(path: &Path, later_ns: u64, fill: impl FnOnce(&mut Writer)) {
    let whole = Options::default();
    let options = Options {
        cpus: 1,
        merged: false,
        start_ticks: whole.start_ticks + later_ns / 100,
        start_filetime: whole.start_filetime + later_ns / 100,
        ..whole
    };
    let mut writer = Writer::new(options);
    fill(&mut writer);
    fs::write(path, writer.finish()).unwrap();
}

#[test]
fn sessions_that_were_not_merged_are_given_together_to_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (whole, kernel, ui) = (path("whole.etl"), path("machine.etl"), path("windows.etl"));
    session(Path::new(&whole), 0, |writer| {
        process(writer);
        samples(writer);
        message_delay(writer, 2_000_000_000);
    });
    two_sessions(&kernel, &ui);

    // Each alone lacks what the other has.
    assert_eq!(unhitch(&["why", &kernel]).output().unwrap().status.code(), Some(3));
    let first = |text: &str| text.lines().take(4).collect::<Vec<_>>().join("\n");
    let story = first(&printed(&["why", &whole], None));
    assert!(story.contains("HANG 1.500 s  UI 200 (hanger.exe 100)"), "{story}");
    for (one, other) in [(&kernel, &ui), (&ui, &kernel)] {
        let with = |words: &[&str]| printed(&[words, &["--with", other]].concat(), None);
        assert_eq!(first(&with(&["why", one])), story);
        for command in [
            &["hot", one][..],
            &["table", one, "stalls", "--csv"],
            &["table", one, "samples", "--csv"],
            &["callers", one, "--of", "sample"],
        ] {
            let words: Vec<&str> = command
                .iter()
                .map(|word| if *word == one { whole.as_str() } else { word })
                .collect();
            assert_eq!(with(command), printed(&words, None), "{command:?}");
        }
        assert!(
            with(&["waits", one]).contains("Not recorded: the trace holds no context switches")
        );
        let info: Value = serde_json::from_str(&with(&["info", one, "--json"])).unwrap();
        assert_eq!(
            (&info["samples"], &info["producer"]),
            (&2_000.into(), &"ETW sessions NT Kernel Logger, NT Kernel Logger".into())
        );
        let html = path("report.html");
        assert_eq!(with(&["report", one, "-o", &html]).trim_end(), html);
        assert!(fs::read_to_string(&html).unwrap().contains("HangerWindow"));
    }
}

/// The session of the kernel, and that of the user interface.
fn two_sessions(kernel: &str, ui: &str) {
    session(Path::new(kernel), 0, |writer| {
        process(writer);
        samples(writer);
    });
    // It started half a second later, and its times are relative to that.
    session(Path::new(ui), 500_000_000, |writer| message_delay(writer, 1_500_000_000));
}

#[test]
fn sessions_that_do_not_belong_together_are_reported_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (kernel, ui) = (path("machine.etl"), path("windows.etl"));
    two_sessions(&kernel, &ui);
    let refused = unhitch(&["why", &kernel, "--with", &path("none.etl")]).output().unwrap();
    assert_eq!(
        (refused.status.code(), err(&refused).matches("none.etl").count()),
        (Some(1), 1),
        "{}",
        err(&refused)
    );
    let twice =
        err(&unhitch(&["why", &kernel, "--with", &ui, "--with", &kernel]).output().unwrap());
    assert_eq!(twice, format!("unhitch: {kernel}: the same session is given twice\n"));
    let yesterday = path("yesterday.etl");
    session(Path::new(&yesterday), 86_400_000_000_000, |writer| message_delay(writer, 0));
    let apart = printed(&["info", &kernel, "--with", &yesterday], None);
    assert!(
        apart.contains("file 2 of the trace was recorded at another time and was left out"),
        "{apart}"
    );
}
