//! The agent in a whole session: a real X server (Xvfb), window manager, GTK and xterm, and a real
//! message bus; a desktop's services and the recorder are stood in for, so that each word that
//! reaches them can be looked at.
//!
//! `UNHITCH_SOAK=N` repeats each test N times. The test's own program is also the agent, and the page
//! that the agent opens.

mod desktop;
mod program;
mod recorder;
mod tests;

use program::Missing;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;
use unhitch_agent::{InputMode, Report, Settings, run};

/// Set for the agent: its settings, as TOML.
const AGENT: &str = "UNHITCH_TEST_AGENT";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "view") {
        let opened = std::env::var("XDG_RUNTIME_DIR").unwrap() + "/opened";
        std::fs::write(opened, arguments.join(" ")).unwrap();
        return ExitCode::SUCCESS;
    }
    if let Ok(settings) = std::env::var(AGENT) {
        return agent(&settings);
    }
    // As the harness does, a word chooses tests.
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen = tests::TESTS
        .iter()
        .filter(|(name, _)| wanted.is_none_or(|wanted| name.contains(wanted.as_str())));
    run_all(&chosen.collect::<Vec<_>>())
}

/// Runs tests one after the other, and reports as the harness does: a test that fails does not end
/// the others.
fn run_all(chosen: &[&(&str, tests::Test)]) -> ExitCode {
    let rounds = std::env::var("UNHITCH_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (begun, [mut passed, mut ignored]) = (Instant::now(), [0; 2]);
    let mut failed = Vec::new();
    println!("\nrunning {} tests", chosen.len());
    for (name, test) in chosen {
        // It says by itself where and why it panics.
        match catch_unwind(|| (0..rounds).try_for_each(|_| test())) {
            Ok(Ok(())) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Ok(Err(Missing(what))) => {
                ignored += 1;
                println!("SKIPPED {name}: there is no {what}");
                println!("test {name} ... ignored");
            }
            Err(_) => {
                failed.push(name);
                println!("test {name} ... FAILED");
            }
        }
    }
    if !failed.is_empty() {
        println!("\nfailures:");
        failed.iter().for_each(|name| println!("    {name}"));
    }
    let result = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {} failed; {ignored} ignored; 0 measured; \
         {} filtered out; finished in {:.2}s\n",
        failed.len(),
        tests::TESTS.len() - chosen.len(),
        begun.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// Serves the session, and prints what it reports.
fn agent(settings: &str) -> ExitCode {
    let options = toml::from_str::<Settings>(settings).unwrap().options().unwrap();
    assert_eq!(options.input == InputMode::Off, !settings.contains("input"));
    let result = run(&options, &mut |report| match report {
        Report::Ready(text) => println!("ready: {text}"),
        Report::Warning(text) => println!("warning: {text}"),
        Report::Saved(path) => println!("saved: {}", path.display()),
        Report::Noted(path) => println!("noted: {}", path.display()),
        Report::Judged(path, line) => println!("judged: {}: {line}", path.display()),
        _ => {}
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
