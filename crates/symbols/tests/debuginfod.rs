//! Programs and debug files are fetched from debuginfod servers by build id: once, of the right
//! build, within limits, or not at all. The servers are threads of the tests, on this machine. Needs
//! binutils, a C compiler and the program `curl`.

use crate::server_support::{Server, files, ok, status};
use crate::support::{add_frame, compile, options, place, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unhitch_model::units::hex;
use unhitch_model::{ModuleKind, Trace};
use unhitch_symbols::{Allowance, Debuginfod, Fetching, Options, Symbolizer};

/// A stripped program, its parts as a distribution's server has them, and a place in it.
struct Program {
    dir: tempfile::TempDir,
    path: PathBuf,
    whole: Vec<u8>,
    debug: Vec<u8>,
    build_id: Vec<u8>,
    outer: u64,
}

impl Program {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = compile(dir.path(), "program", &["-g", "-Wl,--build-id=sha1"]);
        let outer = place(&path, "outer").file_offset;
        let debug = dir.path().join("program.only.debug");
        let text = path.to_str().unwrap();
        run("objcopy", &["--only-keep-debug", text, debug.to_str().unwrap()]);
        run("strip", &[text]);
        let build_id = build_id(&path);
        let (whole, content) = (fs::read(&path).unwrap(), fs::read(&debug).unwrap());
        fs::remove_file(debug).unwrap();
        Self { dir, path, whole, debug: content, build_id, outer }
    }

    fn hex(&self) -> String {
        hex(&self.build_id)
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// A server of both parts.
    fn server(&self) -> Server {
        let (whole, debug) = (self.whole.clone(), self.debug.clone());
        Server::new(move |path| match path.rsplit('/').next() {
            Some("executable") => ok(&whole),
            Some("debuginfo") => ok(&debug),
            _ => status("404 Not Found"),
        })
    }

    fn options(&self, urls: &str) -> Options {
        let fetching = Fetching {
            max_bytes: 1 << 20,
            patience: Duration::from_secs(1),
            ..Fetching::default()
        };
        let debuginfod = Debuginfod::parse(urls, self.cache(), fetching);
        Options { debuginfod, ..options(self.dir.path()) }
    }

    /// A trace with a frame in `outer`, of the program at `path`.
    fn trace(&self, path: &Path, build_id: &[u8]) -> Trace {
        let mut trace = Trace::default();
        let path = path.to_str().unwrap();
        add_frame(&mut trace, path, ModuleKind::File, build_id, self.outer);
        trace
    }

    /// The names in `outer`, on any machine, and the warnings.
    fn names(&self, urls: &str, path: &Path) -> (String, Vec<String>) {
        let mut trace = self.trace(path, &self.build_id);
        Symbolizer::new(self.options(urls)).resolve_by_build_id(&mut trace);
        shown(&trace)
    }
}

/// Build id as bytes, from readelf.
fn build_id(program: &Path) -> Vec<u8> {
    let notes = run("readelf", &["-n", program.to_str().unwrap()]);
    let hex = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn shown(trace: &Trace) -> (String, Vec<String>) {
    let names = trace.frame_names(unhitch_model::FrameId(0)).join(" ");
    (names, trace.warnings.lines().collect())
}

#[test]
fn a_debug_file_is_fetched_once_and_kept() {
    let program = Program::new();
    let empty = Server::new(|_| status("404 Not Found"));
    let server = program.server();
    let urls = format!("{} ftp://ignored {}/", empty.url, server.url);
    for _ in 0..2 {
        assert_eq!(program.names(&urls, &program.path), ("outer".to_owned(), Vec::new()));
    }
    let place = format!("/store/buildid/{}/debuginfo", program.hex());
    assert_eq!((empty.asked(), server.asked()), (vec![place.clone()], vec![place.clone()]));
    // The layout that gdb uses, too.
    let kept = program.cache().join(program.hex()).join("debuginfo");
    assert_eq!(files(&program.cache()), std::slice::from_ref(&kept));
    // Source lines come with it.
    let mut trace = program.trace(&program.path, &program.build_id);
    Symbolizer::new(program.options(&urls)).resolve(&mut trace);
    let symbol = trace.symbols.get(unhitch_model::FrameId(0)).last().unwrap();
    assert!(trace.name(symbol.file).ends_with("program.c") && symbol.line > 0);
    // A damaged file is fetched again.
    fs::write(&kept, b"broken").unwrap();
    assert_eq!(program.names(&urls, &program.path).0, "outer");
    assert_eq!((server.asked(), fs::read(&kept).unwrap()), (vec![place; 2], program.debug));
}

#[test]
fn a_program_that_is_not_here_is_fetched_too() {
    let program = Program::new();
    let server = program.server();
    let elsewhere = Path::new("/not/here/program");
    assert_eq!(program.names(&server.url, elsewhere), ("outer".to_owned(), Vec::new()));
    let place = |name| format!("/store/buildid/{}/{name}", program.hex());
    assert_eq!(server.asked(), [place("debuginfo"), place("executable")]);
    // perf pads build ids of 16 bytes.
    let padded = [program.build_id[..16].to_vec(), vec![0; 4]].concat();
    let mut trace = program.trace(elsewhere, &padded);
    Symbolizer::new(program.options(&server.url)).resolve_by_build_id(&mut trace);
    let asked = format!("/store/buildid/{}/executable", &program.hex()[..32]);
    assert!(server.asked().contains(&asked), "{:?}", server.asked());
}

#[test]
fn only_the_build_id_proves_a_file_of_another_machine() {
    let program = Program::new();
    let other = compile(program.dir.path(), "other", &["-Wl,--build-id=none"]);
    let unnamed = format!("other+{:#x}", program.outer);
    assert_eq!(program.names("", &other), (unnamed.clone(), Vec::new()));
    // Without a build id in the recording there is nothing to ask for.
    let server = program.server();
    let mut trace = program.trace(&other, &[]);
    Symbolizer::new(program.options(&server.url)).resolve_by_build_id(&mut trace);
    assert_eq!((shown(&trace), server.asked()), ((unnamed, Vec::new()), Vec::new()));
}

#[test]
fn without_a_server_nothing_is_asked_for() {
    let program = Program::new();
    let (names, warnings) = program.names("", &program.path);
    assert_eq!((names, warnings), (format!("program+{:#x}", program.outer), Vec::new()));
    assert_eq!(files(&program.cache()), Vec::<PathBuf>::new());
}

#[test]
fn regression_only_programs_without_names_are_asked_for() {
    let program = Program::new();
    let server = program.server();
    // A name for each frame is enough, though there are no lines.
    let whole = compile(program.dir.path(), "whole", &["-Wl,--build-id=sha1"]);
    let id = build_id(&whole);
    let mut trace = Trace::default();
    let outer = place(&whole, "outer").file_offset;
    add_frame(&mut trace, whole.to_str().unwrap(), ModuleKind::File, &id, outer);
    Symbolizer::new(program.options(&server.url)).resolve(&mut trace);
    assert_eq!(shown(&trace), ("outer".to_owned(), Vec::new()));
    // The file at the path may be another build than the recorded one.
    let mut trace = program.trace(&program.path, &[]);
    Symbolizer::new(program.options(&server.url)).resolve(&mut trace);
    assert_eq!(shown(&trace).0, format!("program+{:#x}", program.outer));
    assert_eq!(server.asked(), Vec::<String>::new());
}

/// dwz moves what several debug files share into a file of its own.
#[test]
fn regression_what_debug_files_share_is_fetched_too() {
    let mut program = Program::new();
    let at = |name: &str| program.dir.path().join(name).to_str().unwrap().to_owned();
    let shared = compile(program.dir.path(), "shared", &["-g", "-Wl,--build-id=sha1"]);
    let id = build_id(&shared);
    fs::write(at("link"), [b"shared.debug\0".as_slice(), &id].concat()).unwrap();
    fs::write(at("debug"), &program.debug).unwrap();
    let section = format!(".gnu_debugaltlink={}", at("link"));
    run("objcopy", &["--add-section", &section, &at("debug")]);
    let shared = fs::read(shared).unwrap();
    program.debug = fs::read(at("debug")).unwrap();
    let (debug, place) = (program.debug.clone(), format!("/store/buildid/{}/debuginfo", hex(&id)));
    let of_shared = place.clone();
    let server = Server::new(move |path| ok(if path == of_shared { &shared } else { &debug }));
    assert_eq!(program.names(&server.url, &program.path), ("outer".to_owned(), Vec::new()));
    assert!(server.asked().contains(&place), "{:?}", server.asked());
}

#[test]
fn regression_a_server_that_must_sign_its_files_is_not_asked() {
    let program = Program::new();
    let server = program.server();
    let urls = format!("ima:enforcing {}", server.url);
    let warning = format!(
        "names may be missing: debuginfod server {} was not asked: DEBUGINFOD_URLS demands \
         signatures (ima:enforcing), which unhitch cannot check",
        server.url
    );
    let unnamed = format!("program+{:#x}", program.outer);
    assert_eq!(program.names(&urls, &program.path), (unnamed, vec![warning]));
    assert_eq!((server.asked(), files(&program.cache())), (Vec::new(), Vec::new()));
    let urls = format!("ima:enforcing ima:ignore {}", server.url);
    assert_eq!(program.names(&urls, &program.path), ("outer".to_owned(), Vec::new()));
}

#[test]
fn regression_a_trace_does_not_decide_how_much_is_fetched() {
    let program = Program::new();
    let big = vec![b'x'; (1 << 19) + 1];
    for ((requests, bytes), body, expected, message) in [
        ((3, 64 << 20), Vec::new(), 3..=3, "3 requests and 64 MiB"),
        // Those on their way at once.
        ((500, 1 << 20), big, 2..=39, "500 requests and 1 MiB"),
    ] {
        let server = Server::new(move |_| ok(&body));
        let mut options = program.options("");
        let allowance = Allowance::new(requests, bytes);
        let fetching = Fetching { allowance, ..Fetching::default() };
        options.debuginfod = Debuginfod::parse(&server.url, program.cache(), fetching);
        let mut trace = Trace::default();
        for build in 0..40 {
            add_frame(&mut trace, &format!("/not/here/{build}"), ModuleKind::File, &[build; 20], 1);
        }
        Symbolizer::new(options).resolve_by_build_id(&mut trace);
        assert!(expected.contains(&server.asked().len()), "{:?}", server.asked());
        let limits = trace.warnings.lines().filter(|line| line.contains("is not asked any more"));
        let limits: Vec<String> = limits.collect();
        assert!(limits.len() == 1 && limits[0].ends_with(message), "{limits:?}");
    }
}

#[test]
fn nothing_wrong_is_kept() {
    let program = Program::new();
    let other = {
        let path = compile(program.dir.path(), "other", &["-Wl,--build-id=md5"]);
        fs::read(path).unwrap()
    };
    let mut cut = ok(&program.debug);
    cut.truncate(cut.len() - 100);
    let endless = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![0; 2 << 20]].concat();
    for (answer, why) in [
        (ok(&other), "sent files of other builds"),
        (ok(b"<html>Sign in</html>"), "sent something that is not an ELF file"),
        (cut, "stopped before the end of the debug file"),
        (endless, "sent more than 1 MiB for a debug file"),
        (status("503 Service Unavailable"), "answered with status 503"),
    ] {
        let server = Server::new(move |_| answer.clone());
        let warning = format!("names may be missing: debuginfod server {} {why}", server.url);
        let unnamed = format!("program+{:#x}", program.outer);
        assert_eq!(program.names(&server.url, &program.path), (unnamed, vec![warning]));
        assert_eq!(files(&program.cache()), Vec::<PathBuf>::new(), "{why}");
    }
}
