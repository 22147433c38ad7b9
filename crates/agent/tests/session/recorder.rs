//! A recorder that writes down what it hears, and a session whose agent talks to it.

use crate::AGENT;
use crate::desktop::Desktop;
use crate::program::{Missing, Program, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A recorder that says yes, unless it is told to refuse, and writes down each line.
#[derive(Clone, Default)]
pub struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    subscribers: Arc<Mutex<Vec<UnixStream>>>,
    refuses: Arc<AtomicBool>,
    judges_never: Arc<AtomicBool>,
}

impl Recorder {
    fn listen(socket: &Path, trace: PathBuf) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let recorder = Self::default();
        let serving = recorder.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (recorder, trace) = (serving.clone(), trace.clone());
                std::thread::spawn(move || recorder.serve(&client, &trace));
            }
        });
        recorder
    }

    /// It makes no more saves: there were too many.
    pub fn refuse(&self) {
        self.refuses.store(true, Ordering::Relaxed);
    }

    /// Its verdicts take for ever.
    pub fn judge_never(&self) {
        self.judges_never.store(true, Ordering::Relaxed);
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

    fn serve(&self, mut client: &UnixStream, trace: &Path) {
        for line in BufReader::new(client).lines().map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).unwrap();
            let answers = if request.get("save").is_some() {
                self.save(trace)
            } else if request.get("note").is_some() {
                vec![json!({"noted": true})]
            } else if let Some(marks) = request.get("marks").and_then(Value::as_array) {
                vec![json!({"marks": {"taken": marks.len(), "refused": 0}})]
            } else {
                self.subscribers.lock().unwrap().push(client.try_clone().unwrap());
                vec![json!({"subscribed": true})]
            };
            self.lines.lock().unwrap().push(line);
            for answer in answers {
                let _ = writeln!(client, "{answer}");
            }
        }
    }

    fn save(&self, trace: &Path) -> Vec<Value> {
        if self.refuses.load(Ordering::Relaxed) {
            let error = "too many saves: try again in 15 s";
            return vec![json!({"error": error, "suppressed": true, "retry_after_ms": 15_000})];
        }
        let mut answers = vec![json!({"path": trace, "warnings": []})];
        if !self.judges_never.load(Ordering::Relaxed) {
            let verdict = json!({"version": 1, "line": "editor waited 1.6 s for a <lock>"});
            answers.push(json!({ "verdict": verdict }));
        }
        answers
    }
}

/// A session with such a recorder where the agent looks for one.
pub struct Session {
    desktop: Desktop,
    pub recorder: Recorder,
}

impl Session {
    pub fn start() -> Result<Self, Missing> {
        let desktop = Desktop::start()?;
        let folder = desktop.folder.path();
        std::fs::create_dir(folder.join("unhitch")).unwrap();
        let trace = folder.join("trace.hitch");
        std::fs::write(&trace, "a trace").unwrap();
        let recorder = Recorder::listen(&folder.join("unhitch/control.sock"), trace);
        Ok(Self { desktop, recorder })
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
}

impl Deref for Session {
    type Target = Desktop;

    fn deref(&self) -> &Desktop {
        &self.desktop
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Desktop {
        &mut self.desktop
    }
}
