//! A session to serve, and a recorder that writes down what it hears.

use crate::AGENT;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program that is not installed.
#[derive(Debug)]
pub struct Missing(pub &'static str);

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn have(program: &'static str) -> Result<(), Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    found.then_some(()).ok_or(Missing(program))
}

/// How long a program that has ended may still be looked at: its last words may be under way.
const LAST_WORDS: Duration = Duration::from_secs(2);

thread_local! {
    /// The programs of the test that runs.
    static RUNNING: RefCell<Vec<Weak<Running>>> = const { RefCell::new(Vec::new()) };
}

/// Waits until there is something. Fails at once if a program of the test has ended: then nothing
/// will come any more.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        let ended = RUNNING.with_borrow(|running| {
            running.iter().filter_map(Weak::upgrade).find_map(|program| program.ended())
        });
        if ended.is_some() {
            end = end.min(Instant::now() + LAST_WORDS);
        }
        let ended = ended.unwrap_or_default();
        assert!(Instant::now() < end, "waited too long for {what} {ended}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program that ends with the test, and what it prints.
pub struct Program {
    running: Rc<Running>,
    input: Option<ChildStdin>,
    lines: Arc<Mutex<Vec<String>>>,
}

struct Running {
    name: String,
    child: RefCell<Child>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// That it has ended, and its last words.
    fn ended(&self) -> Option<String> {
        let status = self.child.borrow_mut().try_wait().unwrap()?;
        let errors = self.errors.lock().unwrap().join("\n");
        Some(format!("({} has ended: {status}\n{errors})", self.name))
    }
}

/// The lines of a stream, as they come.
fn lines_of(stream: impl Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            sink.lock().unwrap().push(line);
        }
    });
    lines
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines = lines_of(child.stdout.take().unwrap());
        let errors = lines_of(child.stderr.take().unwrap());
        let input = child.stdin.take();
        let name = format!("{command:?}");
        let running = Rc::new(Running { name, child: RefCell::new(child), errors });
        RUNNING.with_borrow_mut(|all| {
            all.retain(|program| program.strong_count() > 0);
            all.push(Rc::downgrade(&running));
        });
        Self { running, input, lines }
    }

    pub fn pid(&self) -> u32 {
        self.running.child.borrow().id()
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The first line with these words.
    pub fn line(&self, words: &str) -> String {
        until(&format!("{words:?} of {:?}", self.running.name), || {
            self.lines().into_iter().find(|line| line.contains(words))
        })
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for its end; true if it succeeded.
    fn succeeds(self) -> bool {
        let child = &self.running.child;
        let end = || child.borrow_mut().try_wait().unwrap();
        until(&format!("the end of {:?}", self.running.name), end).success()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let mut child = self.running.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A recorder that says yes, and writes down each line.
pub struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    subscribers: Arc<Mutex<Vec<UnixStream>>>,
}

impl Recorder {
    fn listen(socket: &Path, trace: PathBuf) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let recorder = Self { lines: Arc::default(), subscribers: Arc::default() };
        let (lines, subscribers) = (Arc::clone(&recorder.lines), Arc::clone(&recorder.subscribers));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (lines, subscribers) = (Arc::clone(&lines), Arc::clone(&subscribers));
                let trace = trace.clone();
                std::thread::spawn(move || serve(&client, &trace, &lines, &subscribers));
            }
        });
        recorder
    }

    /// All that it heard, byte for byte.
    pub fn heard(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn requests(&self, name: &str) -> Vec<Value> {
        let lines = self.heard();
        let parsed = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        parsed.filter_map(|line| line.get(name).cloned()).collect()
    }

    pub fn notes(&self) -> Vec<Value> {
        self.requests("note")
    }

    pub fn saves(&self) -> Vec<Value> {
        self.requests("save")
    }

    pub fn marks(&self) -> Vec<Value> {
        let batches = self.requests("marks").into_iter();
        batches.flat_map(|batch| batch.as_array().unwrap().clone()).collect()
    }

    /// The first mark that fits.
    pub fn mark(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until(what, || self.marks().into_iter().find(|mark| fits(mark)))
    }

    /// Tells subscribers of a save.
    pub fn publish(&self, line: &Value) {
        until("a subscriber", || (!self.subscribers.lock().unwrap().is_empty()).then_some(()));
        for subscriber in self.subscribers.lock().unwrap().iter_mut() {
            writeln!(subscriber, "{line}").unwrap();
        }
    }
}

fn serve(
    mut client: &UnixStream,
    trace: &Path,
    lines: &Mutex<Vec<String>>,
    subscribers: &Mutex<Vec<UnixStream>>,
) {
    for line in BufReader::new(client).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).unwrap();
        let answers = if request.get("save").is_some() {
            let verdict = json!({"version": 1, "line": "editor waited 1.6 s for a <lock>"});
            vec![json!({"path": trace, "warnings": []}), json!({ "verdict": verdict })]
        } else if request.get("note").is_some() {
            vec![json!({"noted": true})]
        } else if let Some(marks) = request.get("marks").and_then(Value::as_array) {
            vec![json!({"marks": {"taken": marks.len(), "refused": 0}})]
        } else {
            subscribers.lock().unwrap().push(client.try_clone().unwrap());
            vec![json!({"subscribed": true})]
        };
        lines.lock().unwrap().push(line);
        for answer in answers {
            let _ = writeln!(client, "{answer}");
        }
    }
}

/// A session.
pub struct Desktop {
    // In this order they end.
    programs: Vec<Program>,
    pub services: Program,
    pub recorder: Recorder,
    environment: Vec<(&'static str, String)>,
    pub folder: tempfile::TempDir,
}

impl Desktop {
    pub fn start() -> Result<Self, Missing> {
        crate::needs()?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(at("unhitch")).unwrap();
        std::fs::write(at("trace.hitch"), "a trace").unwrap();
        let recorder =
            Recorder::listen(Path::new(&at("unhitch/control.sock")), at("trace.hitch").into());
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
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/desktop.py");
        let mut services = Command::new("/usr/bin/python3");
        let services = Program::start(services.arg(script).envs(environment.iter().cloned()));
        services.line("ready");
        let mut desktop =
            Self { programs: vec![server, bus], services, recorder, environment, folder };
        let manager = desktop.start_program("openbox", &[]);
        desktop.programs.push(manager);
        until("the window manager", || {
            let output =
                desktop.command("xprop").args(["-root", "_NET_SUPPORTING_WM_CHECK"]).output();
            String::from_utf8_lossy(&output.unwrap().stdout).contains("window id").then_some(())
        });
        Ok(desktop)
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned()).env_remove("WAYLAND_DISPLAY");
        command
    }

    pub fn start_program(&self, program: &str, arguments: &[&str]) -> Program {
        Program::start(self.command(program).args(arguments))
    }

    /// The agent with these settings, once it serves the session.
    pub fn agent(&self, settings: &str) -> Program {
        let agent = self.agent_in(settings, &[]);
        agent.line("ready: ");
        agent
    }

    /// The agent with more in its environment.
    pub fn agent_in(&self, settings: &str, more: &[(&str, &str)]) -> Program {
        let mut command = self.command(std::env::current_exe().unwrap().to_str().unwrap());
        Program::start(command.env(AGENT, settings).envs(more.iter().copied()))
    }

    /// A window of GTK that has the focus.
    pub fn window(&self) -> Program {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/window.py");
        let window = self.start_program("/usr/bin/python3", &[script]);
        window.line("mapped");
        self.focus("victim");
        window
    }

    /// An xterm that has the focus.
    pub fn xterm(&self) -> Program {
        let xterm = self.start_program("xterm", &["-T", "terminal", "-e", "cat"]);
        self.focus("terminal");
        xterm
    }

    fn focus(&self, title: &str) {
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
        let has = |shown: &Value| {
            ["summary", "body"].iter().any(|field| shown[field].as_str().unwrap().contains(words))
        };
        until(&format!("a notification of {words:?}"), || {
            self.notifications().into_iter().find(has)
        })
    }
}
