//! The agent in a whole session: a real X server (Xvfb), window manager, GTK and xterm, and a real
//! message bus; a desktop's services and the recorder are stood in for, so that each word that
//! reaches them can be looked at.
//!
//! `UNHITCH_SOAK=N` repeats each test N times. The test's own program is also the agent, and the page
//! that the agent opens.

mod desktop;
mod tests;

use desktop::{Missing, have};
use std::process::ExitCode;
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
    let rounds = std::env::var("UNHITCH_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    // As the harness does, a word chooses tests.
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut passed = 0;
    for (name, test) in tests::TESTS {
        if wanted.is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        let mut result = Ok(());
        for _ in 0..rounds {
            result = test();
            if result.is_err() {
                break;
            }
        }
        match result {
            Ok(()) => println!("test {name} ... ok"),
            Err(Missing(what)) => println!("SKIPPED {name}: there is no {what}"),
        }
        passed += 1;
    }
    // The first that fails panics, and ends the program.
    println!("\ntest result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured");
    ExitCode::SUCCESS
}

/// Serves the session, and prints what it reports.
fn agent(settings: &str) -> ExitCode {
    let options = toml::from_str::<Settings>(settings).unwrap().options().unwrap();
    assert_eq!(options.input == InputMode::Off, !settings.contains("input"));
    let result = run(&options, &mut |report| match report {
        Report::Ready(text) => println!("ready: {text}"),
        Report::Warning(text) => println!("warning: {text}"),
        Report::Saved(path) => println!("saved: {}", path.display()),
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

/// What the tests need of this machine.
fn needs() -> Result<(), Missing> {
    ["Xvfb", "openbox", "xterm", "xdotool", "dbus-daemon", "xprop"]
        .into_iter()
        .try_for_each(have)?;
    let gtk = "import gi; gi.require_version('Gtk', '3.0'); from gi.repository import Gtk";
    let gtk = std::process::Command::new("/usr/bin/python3").args(["-c", gtk]).output();
    gtk.is_ok_and(|output| output.status.success()).then_some(()).ok_or(Missing("GTK 3 for Python"))
}
