//! The attacker: this program again, running as the other user; its arguments select the part to
//! play.
//!
//! Each part prints `ready` when it is set up, and continues until it is killed, which also happens
//! when its parent dies.

use crate::sys::{FutexWord, Spin, map_code};
use crate::{elf, fuse};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Address of copied code, so that files can give it names.
pub const JIT_AVMA: u64 = 0x6000_0000_0000;

/// Plays the part selected by `words`; only returns if it fails.
pub fn play(words: &[String]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["spin", library] => spin(Spin::load(library)?),
        ["spin-then-link", library, target] => spin_then_link(library, target),
        ["cut", library] => cut_library(library),
        ["replace", library, other] => {
            work_beside(Spin::load(library)?);
            replace(Path::new(library), Path::new(other))
        }
        ["jit", library, kind, detail] => {
            let code = Spin::load(library)?.copy_to(JIT_AVMA)?;
            perf_map(&own_perf_map()?, kind, detail)?;
            spin(code)
        }
        ["fuse", content] => serve_fuse(content),
        ["short-lived"] => short_lived(),
        ["code-mappings", count] => code_mappings(number(count)),
        ["file-mappings", folder, count] => file_mappings(Path::new(folder), number(count)),
        ["threads", count] => threads(number(count)),
        ["long-words", ..] => idle(),
        ["again-with-long-words", library] => again_with_long_words(library),
        ["futex", path] => futex(path),
        ["squat", folder] => squat(Path::new(folder)),
        ["dribble", socket, clients] => {
            dribble(number(clients), || UnixStream::connect(socket), b"{\"save\":{\"notes\":\"")
        }
        ["endless-line", socket] => endless_line(Path::new(socket)),
        ["slow-page", port, clients] => {
            let address = format!("127.0.0.1:{port}");
            let connect = move || std::net::TcpStream::connect(&address);
            dribble(number(clients), connect, b"GET / HTTP/1.1\r\nX: ")
        }
        ["peek", folder, catch] => peek(Path::new(folder), Path::new(catch)),
        ["cut-trace", path] => cut_trace(path),
        ["appear", folder, name] => appear(Path::new(folder), name),
        _ => Err(io::Error::other(format!("no such part: {words:?}"))),
    }
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

fn ready() {
    println!("ready");
    let _ = io::stdout().flush();
}

fn idle() -> io::Result<()> {
    ready();
    loop {
        thread::sleep(Duration::from_millis(100));
    }
}

fn spin(code: Spin) -> io::Result<()> {
    ready();
    work(code)
}

/// Runs the code and sleeps in between, so that both samples and switches have its stack.
fn work(code: Spin) -> ! {
    loop {
        code.run(3_000_000);
        thread::sleep(Duration::from_micros(500));
    }
}

/// The same in a second thread, while this one plays its part.
fn work_beside(code: Spin) {
    thread::spawn(move || work(code));
    ready();
}

fn spin_then_link(library: &str, target: &str) -> io::Result<()> {
    let code = Spin::load(library)?;
    fs::remove_file(library)?;
    if !target.is_empty() {
        symlink(target, library)?;
    }
    spin(code)
}

/// Truncates the library before its debug information whenever it is opened, and restores it.
fn cut_library(library: &str) -> io::Result<()> {
    let sections = elf::Sections::read(Path::new(library))?;
    let len = sections.first_debug_byte();
    let tail = sections.bytes[len as usize..].to_vec();
    work_beside(Spin::load(library)?);
    elf::cut_and_restore(Path::new(library), len, &tail)
}

/// Truncates the trace by half whenever it is opened, and restores it.
fn cut_trace(path: &str) -> io::Result<()> {
    let content = fs::read(path)?;
    ready();
    let half = content.len() / 2;
    elf::cut_and_restore(Path::new(path), half as u64, &content[half..])
}

fn replace(library: &Path, other: &Path) -> io::Result<()> {
    let originals = [fs::read(library)?, fs::read(other)?];
    let next = library.with_extension("next");
    loop {
        for original in &originals {
            fs::write(&next, original)?;
            fs::rename(&next, library)?;
        }
    }
}

/// The perf map of this process, named with its pid in its own namespace.
fn own_perf_map() -> io::Result<String> {
    Ok(format!("/tmp/perf-{}.map", std::process::id()))
}

fn perf_map(path: &str, kind: &str, detail: &str) -> io::Result<()> {
    match kind {
        "link" => symlink(detail, path),
        "hard-link" => fs::hard_link(detail, path),
        "bind" => {
            fs::write(path, "")?;
            run("mount", &["--bind", detail, path])
        }
        "fifo" => run("mkfifo", &[path]),
        "long" => {
            let mut map = BufWriter::with_capacity(1 << 20, File::create(path)?);
            let mut left = number(detail) << 20;
            let mut avma = JIT_AVMA;
            while left > 0 {
                let line = format!("{avma:x} 10 f\n");
                map.write_all(line.as_bytes())?;
                left = left.saturating_sub(line.len());
                avma += 16;
            }
            map.flush()
        }
        _ => Err(io::Error::other(format!("no such map: {kind}"))),
    }
}

fn run(program: &str, words: &[&str]) -> io::Result<()> {
    let status = Command::new(program).args(words).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} failed"))) }
}

/// The FUSE device is its standard input.
fn serve_fuse(content: &str) -> io::Result<()> {
    let device = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let content = fs::read(content)?;
    ready();
    fuse::serve(device, &content)
}

fn code_mappings(count: usize) -> io::Result<()> {
    for _ in 0..count {
        map_code(None)?;
    }
    idle()
}

/// Maps the code of many files whose names are terminal sequences.
fn file_mappings(folder: &Path, count: usize) -> io::Result<()> {
    for index in 0..count {
        let path = folder.join(format!("{index}-\u{1b}[31m"));
        fs::write(&path, [0x90; 4096])?;
        map_code(Some(&File::open(&path)?))?;
    }
    idle()
}

/// Many threads, whose names are terminal sequences.
fn threads(count: usize) -> io::Result<()> {
    for index in 0..count {
        let name = format!("\u{1b}]0;{index}\u{7}\n");
        let sleeper = move || loop {
            thread::sleep(Duration::from_millis(300 + index as u64 % 100));
        };
        thread::Builder::new().stack_size(16 << 10).name(name).spawn(sleeper)?;
    }
    idle()
}

fn short_lived() -> io::Result<()> {
    for _ in 0..4 {
        thread::spawn(|| {
            loop {
                let _ = Command::new("/bin/true").arg0("\u{1b}[31mshort").status();
            }
        });
    }
    idle()
}

/// Spins next to a child with a command line of nearly 2 MiB.
fn again_with_long_words(library: &str) -> io::Result<()> {
    // A single argument may be 128 KiB long, all together 2 MiB.
    let child = Command::new(std::env::current_exe()?)
        .args(["attack", "long-words"])
        .args((0..14).map(|_| "\u{1b}[2J".repeat(32_000)))
        .stdout(Stdio::null())
        .spawn()?;
    let result = deep_library(library).and_then(spin);
    drop(child);
    result
}

/// Waits on a futex whose page must be read from the file again.
fn futex(path: &str) -> io::Result<()> {
    let file = File::options().read(true).open(path)?;
    let word = FutexWord::map(&file)?;
    thread::spawn(move || word.wait(0x464c_457f));
    thread::sleep(Duration::from_millis(100));
    word.forget(&file);
    idle()
}

/// The library, loaded by a path of nearly 4 KiB.
fn deep_library(library: &str) -> io::Result<Spin> {
    let mut folder = Path::new(library).parent().expect("a folder").to_owned();
    while folder.as_os_str().len() < 3_700 {
        folder.push("\u{1b}[7m".repeat(50));
    }
    fs::create_dir_all(&folder)?;
    let path = folder.join("deep.so");
    fs::copy(library, &path)?;
    Spin::load(path.to_str().expect("text"))
}

/// Impersonates another user's recorder: writes down what it receives, and sends an endless answer.
fn squat(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    run("chmod", &["0777", folder.to_str().expect("text")])?;
    let socket = folder.join("control.sock");
    let listener = UnixListener::bind(&socket)?;
    run("chmod", &["0777", socket.to_str().expect("text")])?;
    ready();
    loop {
        let (mut client, _) = listener.accept()?;
        client.set_read_timeout(Some(Duration::from_millis(500)))?;
        let mut shown = [0; 4096];
        let len = client.read(&mut shown).unwrap_or(0);
        fs::write(folder.join("received"), &shown[..len])?;
        while client.write_all(&[b'x'; 1 << 16]).is_ok() {}
    }
}

/// Many clients, each of which sends a byte per second.
fn dribble<S: Write + Send + 'static>(
    clients: usize,
    connect: impl Fn() -> io::Result<S>,
    begin: &[u8],
) -> io::Result<()> {
    let mut streams = Vec::new();
    let mut announced = false;
    loop {
        while streams.len() < clients
            && let Ok(mut stream) = connect()
        {
            let _ = stream.write_all(begin);
            streams.push(stream);
            // A client that is not served does not delay the others.
            if !announced {
                announced = true;
                ready();
            }
        }
        thread::sleep(Duration::from_secs(1));
        streams.retain_mut(|stream| stream.write_all(b"x").is_ok());
    }
}

fn endless_line(socket: &Path) -> io::Result<()> {
    let mut announced = false;
    loop {
        let mut stream = UnixStream::connect(socket)?;
        if !std::mem::replace(&mut announced, true) {
            ready();
        }
        while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
        thread::sleep(Duration::from_millis(20));
    }
}

/// Keeps creating and removing a link where a file is about to be written.
fn appear(folder: &Path, name: &str) -> io::Result<()> {
    let path = folder.join(name);
    ready();
    loop {
        let _ = symlink(folder.join("elsewhere"), &path);
        let _ = fs::remove_file(&path);
    }
}

/// Tries to read every file in a folder, and writes down the name of the first that can be read.
fn peek(folder: &Path, catch: &Path) -> io::Result<()> {
    ready();
    loop {
        for entry in fs::read_dir(folder)?.flatten() {
            if File::open(entry.path()).is_ok() {
                fs::write(catch, entry.file_name().as_encoded_bytes())?;
                return idle();
            }
        }
    }
}
