//! Programs as Debian ships them, without frame pointers, under a light load: servers in folders of
//! their own, each with a client that asks it something every few milliseconds.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(4);
/// A server that does not answer for so long is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Threads that wait in many ways, at different depths: in the interpreter, in the C library, in
/// modules that are mapped late, below callbacks from C.
const PYTHON: &str = r#"
import threading, time, queue, select, socket, os, subprocess, re, json
l = threading.Lock(); l.acquire()
c = threading.Condition()
def deep(n, f): return deep(n - 1, f) if n else f()
def condition():
    with c: c.wait()
def naps():
    while True: time.sleep(.003)
def answers(a):
    while a.recv(1): time.sleep(.002); a.send(b'a')
def asks(b):
    while True: b.send(b'q'); b.recv(1)
a, b = socket.socketpair()
ways = [queue.Queue().get, l.acquire, condition, threading.Event().wait,
    threading.Semaphore(0).acquire, threading.Barrier(2000).wait,
    lambda: select.select([], [], [], 1000), lambda: select.poll().poll(1000000),
    lambda: select.epoll().poll(), lambda: os.read(os.pipe()[0], 1),
    lambda: [a.recv(1) for a in socket.socketpair()], lambda: time.sleep(1000),
    lambda: sorted([2, 1], key=lambda x: time.sleep(1000)),
    lambda: re.sub('a', lambda m: time.sleep(1000), 'a'),
    lambda: json.loads('{"a":1}', object_hook=lambda o: time.sleep(1000)),
    naps, lambda: answers(a), lambda: asks(b)]
for i in range(108):
    threading.Thread(target=deep, args=(i % 9, ways[i % len(ways)]), daemon=True).start()
print('ready', flush=True)
time.sleep(1000)
"#;

/// Timers, promises, and the work of libuv's threads.
const NODE: &str = r#"
const fs = require('fs'), crypto = require('crypto'), net = require('net');
setInterval(() => JSON.stringify(process.memoryUsage()), 3);
setInterval(() => crypto.pbkdf2('a', 'b', 500, 32, 'sha256', () => {}), 7);
setInterval(async () => { await fs.promises.readFile('/etc/passwd'); }, 5);
const server = net.createServer(s => s.on('data', d => setTimeout(() => s.write(d), 2)));
server.listen(0, '127.0.0.1', () => {
    const client = net.connect(server.address().port, '127.0.0.1', () => client.write('a'));
    client.on('data', d => client.write(d));
    console.log('ready');
});
"#;

const NGINX: &str = "
daemon off; worker_processes 2; user root; pid PWD/pid; error_log PWD/log;
events {}
http { access_log off; server { listen unix:PWD/socket; location / { root PWD; } } }
";

/// What asks the server once.
type Client = Box<dyn FnMut() + Send>;

/// True if other programs of this machine left no room for unwind tables: then stacks are cut, and the
/// trace says so.
pub fn lacks_tables(trace: &unhitch_model::Trace) -> bool {
    trace.warnings.lines().any(|line| line.contains("no room for the unwind tables"))
}

/// A running program; it ends when this is dropped.
pub struct Program {
    pub name: &'static str,
    process: Child,
    stop: Arc<AtomicBool>,
    load: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Its process and their children, of now.
    pub fn pids(&self) -> Vec<u32> {
        let mut pids = vec![self.process.id()];
        let mut at = 0;
        while let Some(pid) = pids.get(at) {
            pids.extend(children(*pid));
            at += 1;
        }
        pids
    }

    /// Ends the load: from now on it only waits.
    pub fn rest(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(load) = self.load.take() {
            load.join().unwrap();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for pid in self.pids().into_iter().rev().filter_map(|pid| pid.try_into().ok()) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.process.wait();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.flat_map(|task| fs::read_to_string(task.path().join("children")));
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_whitespace().flat_map(str::parse).collect()
}

/// Starts every program that is installed; why the others are not there.
pub fn start_all() -> (Vec<Program>, Vec<String>) {
    type Start = fn(&Path) -> Result<(Child, Client), String>;
    let starts: [(&str, Start); 7] = [
        ("python3", python),
        ("node", node),
        ("redis-server", redis),
        ("postgres", postgres),
        ("mariadbd", mariadb),
        ("nginx", nginx),
        ("gzip", gzip),
    ];
    let (mut programs, mut missing) = (Vec::new(), Vec::new());
    for (name, start) in starts {
        let folder = tempfile::tempdir().unwrap();
        match start(folder.path()) {
            Ok((process, client)) => programs.push(under_load(name, process, client, folder)),
            Err(why) => missing.push(format!("{name}: {why}")),
        }
    }
    (programs, missing)
}

fn under_load(
    name: &'static str,
    process: Child,
    mut ask: Client,
    folder: tempfile::TempDir,
) -> Program {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let load = spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            ask();
            sleep(PAUSE);
        }
        // The connection lasts as long as the server.
        std::mem::forget(ask);
    });
    Program { name, process, stop, load: Some(load), _folder: folder }
}

/// The first of the places where Debian has a program.
fn installed(places: &[&str]) -> Result<PathBuf, String> {
    let found = places.iter().map(PathBuf::from).find(|place| place.exists());
    found.ok_or_else(|| format!("{} is not installed", places[0]))
}

fn spawned(command: &mut Command) -> Result<Child, String> {
    command.stderr(Stdio::null()).spawn().map_err(|error| error.to_string())
}

/// Starts a program that prints a line when it is ready.
fn ready(command: &mut Command) -> Result<Child, String> {
    let mut child = spawned(command.stdout(Stdio::piped()))?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Ok(child)
}

fn until<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} does not answer");
        sleep(Duration::from_millis(50));
    }
}

/// A file system path as text, for a command line.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn python(_: &Path) -> Result<(Child, Client), String> {
    let program = installed(&["/usr/bin/python3"])?;
    Ok((ready(Command::new(program).args(["-c", PYTHON]))?, Box::new(|| ())))
}

fn node(_: &Path) -> Result<(Child, Client), String> {
    let program = installed(&["/usr/bin/node"])?;
    Ok((ready(Command::new(program).args(["-e", NODE]))?, Box::new(|| ())))
}

fn redis(folder: &Path) -> Result<(Child, Client), String> {
    let program = installed(&["/usr/bin/redis-server"])?;
    let socket = folder.join("socket");
    let options = ["--port", "0", "--save", "", "--unixsocket", text(&socket)];
    let server = spawned(Command::new(program).args(options).stdout(Stdio::null()))?;
    let mut connection = until("redis-server", || UnixStream::connect(&socket).ok());
    let mut reply = [0; 64];
    let ask = move || {
        connection.write_all(b"incr a\r\n").unwrap();
        let _ = connection.read(&mut reply);
    };
    Ok((server, Box::new(ask)))
}

fn nginx(folder: &Path) -> Result<(Child, Client), String> {
    let program = installed(&["/usr/sbin/nginx"])?;
    let (socket, configuration) = (folder.join("socket"), folder.join("nginx.conf"));
    fs::write(&configuration, NGINX.replace("PWD", text(folder))).unwrap();
    let options = ["-p", text(folder), "-c", text(&configuration)];
    let server = spawned(Command::new(program).args(options).stdout(Stdio::null()))?;
    until("nginx", || UnixStream::connect(&socket).ok());
    let ask = move || {
        let Ok(mut connection) = UnixStream::connect(&socket) else { return };
        let _ = connection.write_all(b"GET /nginx.conf HTTP/1.0\r\n\r\n");
        let _ = connection.read_to_end(&mut Vec::new());
    };
    Ok((server, Box::new(ask)))
}

fn gzip(_: &Path) -> Result<(Child, Client), String> {
    let program = installed(&["/usr/bin/gzip"])?;
    let mut command = Command::new(program);
    let mut gzip = spawned(command.arg("-c").stdin(Stdio::piped()).stdout(Stdio::null()))?;
    let mut input = gzip.stdin.take().unwrap();
    let text: Vec<u8> = (0..16_384u32).flat_map(|number| (number * number).to_le_bytes()).collect();
    Ok((gzip, Box::new(move || drop(input.write_all(&text)))))
}

/// A client that is a program: it reads a statement from each line, and prints a line in return.
struct Shell {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn of(command: &mut Command) -> Result<Self, String> {
        let mut child = spawned(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let output = BufReader::new(child.stdout.take().unwrap());
        Ok(Self { input: child.stdin.take().unwrap(), output })
    }

    fn ask(&mut self, statement: &str) -> Option<String> {
        writeln!(self.input, "{statement}").ok()?;
        let mut line = String::new();
        self.output.read_line(&mut line).ok().filter(|length| *length > 0).map(|_| line)
    }
}

/// The client, once the server answers it, with a table to write to.
fn shell(what: &str, command: impl Fn() -> Command) -> Client {
    let first = || Shell::of(&mut command()).ok().and_then(answering);
    let mut shell = until(what, first);
    shell.ask("create table t (a int); select 1;");
    Box::new(move || drop(shell.ask("insert into t values (1); select count(*) from t;")))
}

fn answering(mut shell: Shell) -> Option<Shell> {
    shell.ask("select 1;").map(|_| shell)
}

/// The user and the group of the account under which a server runs, which gets `folder`.
fn give(folder: &Path, account: &str) -> Result<(u32, u32), String> {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.split(':').next() == Some(account));
    let line = line.ok_or_else(|| format!("there is no user {account}"))?;
    let id = |at| line.split(':').nth(at).and_then(|id| id.parse().ok()).unwrap();
    let (user, group) = (id(2), id(3));
    chown(folder, Some(user), Some(group)).map_err(|error| error.to_string())?;
    Ok((user, group))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|error| error.to_string())?;
    match out.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
    }
}

fn postgres(folder: &Path) -> Result<(Child, Client), String> {
    // Several versions may be there.
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|error| error.to_string())?;
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    let programs = folders.filter(|folder| folder.join("initdb").exists()).max();
    let programs = programs.ok_or("no server is installed")?;
    let (user, group) = give(folder, "postgres")?;
    let command = |program: &str| {
        let mut command = Command::new(programs.join(program));
        command.uid(user).gid(group).current_dir(folder);
        command
    };
    succeed(command("initdb").args(["-D", "data", "-A", "trust", "--no-sync"]))?;
    let options = ["-D", "data", "-k", text(folder), "-c", "listen_addresses="];
    let server = spawned(command("postgres").args(options).stdout(Stdio::null()))?;
    let client = || {
        let mut psql = command("psql");
        psql.args(["-qAt", "-h", text(folder), "postgres"]);
        psql
    };
    Ok((server, shell("postgres", client)))
}

fn mariadb(folder: &Path) -> Result<(Child, Client), String> {
    let (program, prepare) =
        (installed(&["/usr/sbin/mariadbd"])?, installed(&["/usr/bin/mariadb-install-db"])?);
    give(folder, "mysql")?;
    let (data, socket) = (format!("--datadir={}", text(folder)), folder.join("socket"));
    let options = ["--no-defaults", "--user=mysql", &data];
    succeed(
        Command::new(prepare)
            .args(options)
            .args(["--skip-test-db", "--auth-root-authentication-method=normal"]),
    )?;
    let socket = format!("--socket={}", text(&socket));
    let mut command = Command::new(program);
    command.args(options).args([&socket, "--skip-networking", "--log-error=log"]);
    let server = spawned(command.stdout(Stdio::null()))?;
    let client = || {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-uroot", &socket, "-BNn", "-f", "mysql"]);
        client
    };
    Ok((server, shell("mariadbd", client)))
}
