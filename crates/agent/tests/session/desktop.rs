//! A session to serve: a real X server, window manager and message bus; what a desktop offers on
//! the bus is stood in for (`desktop.py`). The agent's tests and those of the whole program use it,
//! each a part of it.
#![allow(dead_code)]

use crate::program::{Missing, Program, have, until};
use serde_json::Value;
use std::process::Command;

/// What the tests need of this machine.
fn needs() -> Result<(), Missing> {
    ["Xvfb", "openbox", "xterm", "xdotool", "dbus-daemon", "xprop"]
        .into_iter()
        .try_for_each(have)?;
    let gtk = "import gi; gi.require_version('Gtk', '3.0'); from gi.repository import Gtk";
    let gtk = Command::new("/usr/bin/python3").args(["-c", gtk]).output();
    gtk.is_ok_and(|output| output.status.success()).then_some(()).ok_or(Missing("GTK 3 for Python"))
}

/// A session.
pub struct Desktop {
    // In this order they end.
    programs: Vec<Program>,
    pub services: Program,
    environment: Vec<(&'static str, String)>,
    pub folder: tempfile::TempDir,
}

impl Desktop {
    pub fn start() -> Result<Self, Missing> {
        needs()?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        // Without `-noreset`, the server begins anew when its last client leaves it, and cuts off
        // whoever is about to connect.
        let server = Program::start(Command::new("Xvfb").args([
            "-noreset",
            "-displayfd",
            "1",
            "-screen",
            "0",
            "800x600x24",
            "-nolisten",
            "tcp",
        ]));
        let display = until("Xvfb", || server.lines().first().map(|number| format!(":{number}")));
        let bus = Program::start(Command::new("dbus-daemon").args([
            "--session",
            "--nofork",
            "--print-address=1",
            &format!("--address=unix:path={}", at("bus")),
        ]));
        let address = until("dbus-daemon", || bus.lines().first().cloned());
        let environment = vec![
            ("DISPLAY", display),
            ("DBUS_SESSION_BUS_ADDRESS", address),
            ("XDG_RUNTIME_DIR", at("")),
            ("HOME", at("")),
            ("GTK_A11Y", "none".to_owned()),
            ("NO_AT_BRIDGE", "1".to_owned()),
        ];
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/tests/session/desktop.py");
        let mut services = Command::new("/usr/bin/python3");
        let services = Program::start(services.arg(script).envs(environment.iter().cloned()));
        services.line("ready");
        let mut desktop = Self { programs: vec![server, bus], services, environment, folder };
        let manager = desktop.start_program("openbox", &[]);
        desktop.programs.push(manager);
        until("the window manager", || {
            let output =
                desktop.command("xprop").args(["-root", "_NET_SUPPORTING_WM_CHECK"]).output();
            String::from_utf8_lossy(&output.unwrap().stdout).contains("window id").then_some(())
        });
        Ok(desktop)
    }

    /// Ends the session's bus.
    pub fn end_bus(&mut self) {
        drop(self.programs.remove(1));
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned()).env_remove("WAYLAND_DISPLAY");
        command
    }

    pub fn start_program(&self, program: &str, arguments: &[&str]) -> Program {
        Program::start(self.command(program).args(arguments))
    }

    /// A window of GTK that has the focus.
    pub fn window(&self) -> Program {
        self.window_called("victim")
    }

    /// The same with another title.
    pub fn window_called(&self, title: &str) -> Program {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/tests/session/window.py");
        let window = self.start_program("/usr/bin/python3", &[script, title]);
        window.line("mapped");
        self.focus(title);
        window
    }

    /// An xterm that has the focus.
    pub fn xterm(&self) -> Program {
        let xterm = self.start_program("xterm", &["-T", "terminal", "-e", "cat"]);
        self.focus("terminal");
        xterm
    }

    /// Gives the focus to the window with this title.
    pub fn focus(&self, title: &str) {
        self.xdotool(&[
            "search",
            "--sync",
            "--name",
            &format!("^{title}$"),
            "windowactivate",
            "--sync",
        ]);
    }

    /// Runs to its end. What it waits for may never come (`--sync`): it has no more time than
    /// anything else.
    pub fn xdotool(&self, arguments: &[&str]) {
        assert!(self.start_program("xdotool", arguments).succeeds(), "xdotool {arguments:?}");
    }

    /// The notifications so far.
    pub fn notifications(&self) -> Vec<Value> {
        let lines = self.services.lines();
        let parsed = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        parsed.filter(|line| line.get("number").is_some()).collect()
    }

    /// The first notification whose text holds these words.
    pub fn notification(&self, words: &str) -> Value {
        self.notification_since(0, words)
    }

    /// The first one since this time, nanoseconds.
    pub fn notification_since(&self, from_ns: u64, words: &str) -> Value {
        let has = |shown: &Value| {
            let mut texts = ["summary", "body"].iter().map(|field| shown[field].as_str().unwrap());
            shown["time_ns"].as_u64() >= Some(from_ns) && texts.any(|text| text.contains(words))
        };
        until(&format!("a notification of {words:?}"), || {
            self.notifications().into_iter().find(has)
        })
    }
}
