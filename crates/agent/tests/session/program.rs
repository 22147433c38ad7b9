//! Programs that a test starts, and what they print. Each test program uses a part of this.
#![allow(dead_code)]

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program that is not installed.
#[derive(Debug)]
pub struct Missing(pub &'static str);

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

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

    /// What it has said on standard error.
    pub fn errors(&self) -> Vec<String> {
        self.running.errors.lock().unwrap().clone()
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
    pub fn succeeds(self) -> bool {
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
