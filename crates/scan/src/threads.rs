//! The threads of a process: names, states, CPU time, what they wait in, and which of them were
//! never given a name.
//!
//! Read from `/proc/PID/task/TID/` (proc(5)): `comm`, `stat`, `schedstat`, `wchan`, and `stack` if
//! that is allowed (root). *What counts as unnamed:* a new thread inherits the name of its creator.
//! So a thread that has its process's name, but is not the main thread, has most likely never been
//! given a name.

use crate::error::Error;
use crate::process::{Memory, Process, Stat, numbered, read, text as as_text};
use crate::sys;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use unhitch_model::units::{count, duration, plural};
use unhitch_model::visible;

/// The state of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its pid.
    pub tid: u32,
    /// Its name, at most 15 bytes (63 for kernel threads).
    pub name: String,
    /// True if it has its process's name but is not the main thread.
    pub unnamed: bool,
    /// `R` for running or runnable, `S` for interruptible and `D` for uninterruptible sleep, and so
    /// on (proc(5)).
    pub state: char,
    /// CPU time since its start, in nanoseconds.
    pub cpu_ns: u64,
    /// The kernel function in which it waits; absent if it is running or we may not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_in: Option<String>,
    /// Its kernel stack, root first; empty if we may not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// A process and its threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessThreads {
    /// Its pid.
    pub pid: u32,
    /// Its name: that of its main thread.
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// True if these are kernel threads.
    pub kernel: bool,
    /// Number of threads that were never given a name.
    pub unnamed: u64,
    /// All threads, sorted by tid.
    pub threads: Vec<Thread>,
}

/// The threads of `pid`. Threads that exit meanwhile are left out.
///
/// # Errors
/// When the process does not exist or has exited, or `/proc` cannot be read.
pub fn threads(pid: u32) -> Result<ProcessThreads, Error> {
    let Some((process, memory)) = Process::read(pid)? else {
        return Err(Error::NoSuchProcess { who: pid.to_string() });
    };
    let folder = Path::new("/proc").join(pid.to_string()).join("task");
    let tids = match numbered(&folder) {
        Err(Error::File { .. }) => return Err(Error::Ended { pid, name: process.name }),
        other => other?,
    };
    let threads: Vec<Thread> = tids.into_iter().filter_map(|tid| thread(&process, tid)).collect();
    if threads.is_empty() {
        return Err(Error::Ended { pid, name: process.name });
    }
    Ok(ProcessThreads {
        pid,
        name: process.name,
        uid: process.uid,
        kernel: memory == Memory::Kernel,
        unnamed: threads.iter().filter(|thread| thread.unnamed).count() as u64,
        threads,
    })
}

fn thread(process: &Process, tid: u32) -> Option<Thread> {
    let file = |name: &str| read(process.pid, &format!("task/{tid}/{name}")).ok().flatten();
    let stat = Stat::parse(&file("stat")?)?;
    let name = as_text(file("comm")?.strip_suffix(b"\n")?);
    let scheduled =
        file("schedstat").and_then(|text| as_text(&text).split_whitespace().next()?.parse().ok());
    let ticks_ns = || stat.cpu_ticks.saturating_mul(1_000_000_000 / sys::ticks_per_second());
    let mut stack: Vec<String> = file("stack")
        .map(|text| as_text(&text).lines().filter_map(frame).collect())
        .unwrap_or_default();
    stack.reverse();
    let channel =
        file("wchan").map(|text| as_text(&text)).filter(|name| !name.is_empty() && name != "0");
    let waits_in = if stat.state == 'R' { None } else { channel.or_else(|| stack.last().cloned()) };
    Some(Thread {
        tid,
        unnamed: tid != process.pid && name == process.name,
        name,
        state: stat.state,
        cpu_ns: scheduled.unwrap_or_else(ticks_ns),
        waits_in,
        stack,
    })
}

/// The function name in a line such as `[<0>] futex_wait_queue+0x5f/0x90`.
fn frame(line: &str) -> Option<String> {
    let symbol = line.split_once("] ").map_or(line, |(_, symbol)| symbol);
    let name = symbol.split(['+', ' ']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A table for each process, most threads first, and a line with totals.
pub fn text(processes: &[ProcessThreads]) -> String {
    let mut sorted: Vec<&ProcessThreads> = processes.iter().collect();
    sorted.sort_by_key(|process| (std::cmp::Reverse(process.threads.len()), process.pid));
    let mut out = String::new();
    for process in &sorted {
        let _ = write!(
            out,
            "{} {}, user {}: {}",
            visible(&process.name),
            process.pid,
            process.uid,
            plural(process.threads.len() as u64, "thread")
        );
        match process.unnamed {
            0 => out.push('\n'),
            unnamed => drop(writeln!(out, ", {} unnamed", count(unnamed))),
        }
        let mut lines =
            vec![["tid", "name", "state", "CPU time", "waits in", ""].map(str::to_owned)];
        lines.extend(process.threads.iter().map(|thread| {
            let flag = if thread.unnamed { "unnamed" } else { "" };
            let waits_in = thread.waits_in.as_deref().unwrap_or_default();
            [
                thread.tid.to_string(),
                visible(&thread.name).into_owned(),
                state(thread.state).to_owned(),
                duration(thread.cpu_ns),
                visible(waits_in).into_owned(),
                flag.to_owned(),
            ]
        }));
        let widths: [usize; 6] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        });
        let [tid, name, state, cpu, wait, _] = widths;
        for line in &lines {
            let [a, b, c, d, e, f] = line;
            let _ = writeln!(
                out,
                "{}",
                format!("  {a:>tid$}  {b:<name$}  {c:<state$}  {d:>cpu$}  {e:<wait$}  {f}")
                    .trim_end()
            );
        }
        out.push('\n');
    }
    let (threads, unnamed) = sorted.iter().fold((0, 0), |(threads, unnamed), process| {
        (threads + process.threads.len() as u64, unnamed + process.unnamed)
    });
    let _ = writeln!(
        out,
        "{} of {}, {} of them unnamed",
        plural(threads, "thread"),
        plural_processes(sorted.len() as u64),
        count(unnamed)
    );
    out
}

fn plural_processes(n: u64) -> String {
    if n == 1 { "1 process".to_owned() } else { format!("{} processes", count(n)) }
}

fn state(state: char) -> &'static str {
    match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting (D)",
        'T' => "stopped",
        't' => "traced",
        'Z' => "zombie",
        'X' => "dead",
        'I' => "idle",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_without_a_name_are_told_apart() {
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        std::thread::scope(|scope| {
            let sleep = || drop(wait.lock().map(|wait| wait.recv()));
            std::thread::Builder::new()
                .name("a-name-of-its".into())
                .spawn_scoped(scope, sleep)
                .unwrap();
            // A thread gives itself its name, so it may take a moment.
            let named = (0..500).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                let all = threads(std::process::id()).unwrap();
                all.threads
                    .iter()
                    .find(|thread| thread.name == "a-name-of-its")
                    .map(|thread| (thread.clone(), all.clone()))
            });
            drop(stop);
            let (thread, all) = named.expect("the thread is listed");
            assert!(!thread.unnamed && thread.tid != all.pid);
            assert!(
                !all.kernel
                    && all.threads.iter().all(|thread| thread.unnamed
                        == (thread.tid != all.pid && thread.name == all.name))
            );
            let text = text(&[all]);
            assert!(text.contains("a-name-of-its") && text.contains("of 1 process, "), "{text}");
        });
    }

    #[test]
    fn frames_are_names() {
        assert_eq!(frame("[<0>] futex_wait_queue+0x5f/0x90").as_deref(), Some("futex_wait_queue"));
        assert_eq!(frame("[<0>] a+0x5f/0x90 [module]").as_deref(), Some("a"));
        assert_eq!(frame(""), None);
    }
}
