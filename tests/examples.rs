//! The examples of `docs/control-socket.md` are compiled and run against a real recorder.

#[path = "service/recorder.rs"]
mod recorder;

use recorder::{Service, text, unhitch};
use serde_json::Value;
use std::fs;
use std::process::Command;

const DOCS: &str = include_str!("../docs/control-socket.md");

/// The example in this language, for a recorder with this socket.
fn example(language: &str, socket: &str) -> String {
    let begin = format!("```{language}\n");
    let code = DOCS.split_once(&begin).and_then(|(_, rest)| rest.split_once("```"));
    let (code, _) = code.unwrap_or_else(|| panic!("no example in {language}"));
    assert!(code.contains("/run/unhitch/control.sock"), "{code}");
    code.replace("/run/unhitch/control.sock", socket)
}

/// Runs a command; what it printed, or `None` if there is no such program.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{program}: {}", text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn live_the_examples_mark_and_save() {
    let test = "live_the_examples_mark_and_save";
    let Some(service) = Service::start(test, "", "") else { return };
    // The name of a Unix socket has at most 107 bytes.
    let socket = service.socket();
    let write = |name: &str, language: &str| {
        let path = service.path(name);
        fs::write(&path, example(language, &socket)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mut marked = Vec::new();
    for (language, compiler, options) in
        [("c", "cc", &["-Wall", "-Wextra", "-Werror"][..]), ("rust", "rustc", &["--edition=2024"])]
    {
        let (source, program) =
            (write(&format!("example.{language}"), language), service.path(language));
        let program = program.to_str().unwrap();
        let mut arguments = options.to_vec();
        if language == "c" {
            arguments.extend(["-xc", &source, "-o", program]);
        } else {
            arguments.extend([&source, "-o", program]);
        }
        if run(compiler, &arguments).is_none() {
            eprintln!("SKIPPED {test}: {compiler} is missing");
            continue;
        }
        let answer = run(program, &[]).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            (&answer["marks"]["taken"], &answer["marks"]["refused"]),
            (&1.into(), &0.into())
        );
        marked.push(if language == "c" { "from C" } else { "from Rust" });
    }
    let Some(saved) = run("python3", &[&write("example.py", "python")]) else {
        return eprintln!("SKIPPED {test}: python3 is missing");
    };
    let traces = service.list();
    let [trace] = &traces[..] else { panic!("{saved}: {traces:?}") };
    let path = trace["path"].as_str().unwrap();
    assert!(saved.contains(path) && saved.contains("'verdict'"), "{saved}");
    assert_eq!(trace["notes"], "from Python");
    let table = text(&unhitch(&["table", path, "marks"]).stdout);
    assert!(marked.iter().all(|words| table.contains(words)), "{marked:?}: {table}");
}
