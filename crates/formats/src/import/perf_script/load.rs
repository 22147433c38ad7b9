//! The loader: line by line.

use super::fields::{self, SwitchText};
use super::line::Head;
use super::stack::StackText;
use crate::Error;
use crate::import::builder::{At, Import, UNKNOWN_CPU, WakeEvent};
use crate::import::frames::Frames;
use std::borrow::Cow;
use unhitch_model::{Format, Lack, Meta, StackId, Trace, WakeFlags};

/// True if `bytes` begin with an event of `perf script`, or with the head that `--header` prints.
pub(crate) fn is_perf_script(bytes: &[u8]) -> bool {
    /// Maximum length of what comes before the first event, bytes.
    const MAX_HEAD: usize = 64 << 10;
    let start = &bytes[..bytes.len().min(MAX_HEAD)];
    let Ok(start) = std::str::from_utf8(start)
        .or_else(|error| std::str::from_utf8(&start[..error.valid_up_to()]))
    else {
        return false;
    };
    let mut lines = start.lines().filter(|line| !line.trim().is_empty());
    if start.starts_with("# ========") && start.contains("# perf version :") {
        return true;
    }
    lines.find(|line| !line.starts_with('#')).is_some_and(|line| Head::parse(line).is_some())
}

/// Reads a trace. `release` is called with each part of `bytes` that is no longer needed.
pub(crate) fn load(bytes: &[u8], release: &(dyn Fn(&[u8]) + Sync)) -> Result<Trace, Error> {
    /// Length of the parts that are released, bytes.
    const PART: usize = 16 << 20;
    let mut reader = Reader::default();
    let mut done = 0;
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let text = String::from_utf8_lossy(line);
        reader.line(text);
        if at - done >= PART {
            release(&bytes[done..at]);
            done = at;
        }
    }
    reader.flush();
    if reader.import.is_empty() {
        return Err(Error::Unsupported(
            "this text of perf script holds no event with a time: print it with perf script \
             --ns -F +tid,+pid,+cpu"
                .to_owned(),
        ));
    }
    if !reader.has_processes {
        reader.lacks.push(Lack::Processes);
    }
    Ok(reader.finish())
}

#[derive(Default)]
struct Reader {
    import: Import,
    frames: Frames,
    stack: StackText,
    pending: Option<Pending>,
    lacks: Vec<Lack>,
    has_processes: bool,
    meta: Meta,
    /// The event that samples CPUs: the first one that does.
    clock: Option<String>,
}

/// An event whose stack is being read.
struct Pending {
    at: At,
    pid: u32,
    tid: u32,
    event: String,
    details: String,
}

impl Reader {
    fn line(&mut self, line: Cow<'_, str>) {
        let line = line.trim_end();
        if line.is_empty() {
            return self.flush();
        }
        if let Some(fact) = line.strip_prefix('#') {
            return self.fact(fact);
        }
        // Names of threads are indented by blanks, frames by a tab.
        if line.starts_with('\t')
            && let Some(pending) = &self.pending
            && self.stack.add(&mut self.import.trace, &mut self.frames, pending.pid, line)
        {
            return;
        }
        let Some(head) = Head::parse(line) else {
            if !line.starts_with('\t') {
                self.import.leave_out("unreadable line");
            }
            return;
        };
        self.flush();
        self.has_processes |= head.pid.is_some();
        let at =
            At { time: head.time, cpu: head.cpu.unwrap_or(UNKNOWN_CPU), stack: StackId::EMPTY };
        self.import.lives.name(at.time, head.tid, head.comm.as_bytes());
        if let Some(pid) = head.pid {
            self.import.lives.owner(at.time, head.tid, pid);
        }
        self.pending = Some(Pending {
            at,
            pid: head.pid.unwrap_or(head.tid),
            tid: head.tid,
            event: head.event.to_owned(),
            details: head.details.to_owned(),
        });
    }

    /// Adds the event whose stack is complete.
    fn flush(&mut self) {
        let Some(Pending { mut at, pid, tid, event, details }) = self.pending.take() else {
            return;
        };
        at.stack = self.stack.take(&mut self.import.trace);
        let import = &mut self.import;
        let number = |key: &str| fields::number(&details, key);
        let wake = match event.as_str() {
            "sched:sched_waking" => Some(("sched:sched_waking", WakeEvent::Waking)),
            "sched:sched_wakeup" => Some(("sched:sched_wakeup", WakeEvent::Wakeup)),
            "sched:sched_wakeup_new" => Some(("sched:sched_wakeup_new", WakeEvent::New)),
            _ => None,
        };
        if at.cpu == UNKNOWN_CPU && (wake.is_some() || event == "sched:sched_switch") {
            return import.leave_out("CPU-less switch or wake-up");
        }
        let done = match (event.as_str(), wake) {
            (_, Some((name, kind))) => {
                import.count(name);
                fields::waking(&details).map(|(wakee, target)| {
                    import.waking(at, kind, tid, wakee, (target, WakeFlags::default()));
                })
            }
            ("sched:sched_switch", _) => {
                import.count("sched:sched_switch");
                fields::switch(&details).map(|SwitchText { prev, state, next }| {
                    import.switch(at, prev, state, next);
                })
            }
            ("sched:sched_process_exit", _) => {
                import.lives.gone(at.time, tid);
                Some(())
            }
            ("sched:sched_process_fork", _) => {
                number(" child_pid=").map(|child| import.lives.born(at.time, child, tid))
            }
            ("task:task_newtask", _) => new_task(import, at.time, tid, &details),
            ("task:task_rename", _) => {
                let name = details.rsplit_once(" newcomm=").map(|(_, rest)| rest);
                let name = name.and_then(|rest| Some(rest.rsplit_once(" oom_score_adj=")?.0));
                name.map(|name| import.lives.renamed(at.time, tid, name.as_bytes()))
            }
            ("sched:sched_migrate_task", _) => number(" pid=")
                .zip(number(" dest_cpu=").and_then(|cpu| u16::try_from(cpu).ok()))
                .map(|(tid, cpu)| import.migration(at.time, tid, cpu)),
            (name, _) if name.starts_with("PERF_RECORD_") => {
                if name == "PERF_RECORD_LOST" {
                    let events = details.rsplit(' ').next().and_then(|it| it.parse().ok());
                    let before = import.last_time(at.cpu).unwrap_or(at.time);
                    import.lost(at.cpu, before, at.time, events.unwrap_or(0));
                }
                Some(())
            }
            (name, _) => {
                self.sample(name.to_owned(), at, (pid, tid), &details);
                return;
            }
        };
        if done.is_none() {
            import.leave_out("unreadable event");
        }
    }

    /// An event that has no details, or an address, samples a CPU.
    fn sample(&mut self, event: String, mut at: At, (pid, tid): (u32, u32), details: &str) {
        let import = &mut self.import;
        let base = event.split(':').next().unwrap_or_default();
        let ticks = matches!(
            base,
            "cycles"
                | "cpu-clock"
                | "task-clock"
                | "cpu-cycles"
                | "cpu_core/cycles/"
                | "cpu_atom/cycles/"
        ) || base.starts_with("cpu/");
        if !ticks {
            return import.count("event of another kind");
        }
        let base = base.trim_start_matches("cpu_core/").trim_start_matches("cpu_atom/").to_owned();
        if *self.clock.get_or_insert_with(|| base.clone()) != base {
            return import.count("sample of a second event");
        }
        import.count("CPU sample");
        if at.stack.is_empty() && self.stack.add(&mut import.trace, &mut self.frames, pid, details)
        {
            at.stack = self.stack.take(&mut import.trace);
        }
        import.sample(at, tid);
    }

    /// A line of what `perf script --header` prints.
    fn fact(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(" : ") else { return };
        let value = value.trim();
        match name.trim() {
            "hostname" => self.meta.host = value.to_owned(),
            "os release" => self.meta.kernel = value.to_owned(),
            "arch" => self.meta.arch = value.to_owned(),
            "perf version" => self.meta.producer = format!("perf {value}"),
            "nrcpus online" => self.meta.cpus = value.parse().unwrap_or(0),
            "total memory" => {
                let kib = value.split(' ').next().and_then(|kib| kib.parse::<u64>().ok());
                self.meta.memory_bytes = kib.unwrap_or(0).saturating_mul(1024);
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Trace {
        self.lacks.extend([Lack::WakeContexts, Lack::CodeAddresses]);
        self.import.trace.meta = Meta { format: Format::PerfScript, ..self.meta };
        self.import.finish(&self.lacks)
    }
}

fn new_task(import: &mut Import, time: u64, parent: u32, details: &str) -> Option<()> {
    /// `clone(2)`: the child is a thread of the caller's process.
    const CLONE_THREAD: u64 = 0x1_0000;
    let child = details.strip_prefix("pid=")?.split(' ').next()?.parse().ok()?;
    let flags = u64::from_str_radix(fields::value(details, " clone_flags=")?, 16).ok()?;
    import.lives.born(time, child, parent);
    if flags & CLONE_THREAD == 0 {
        import.lives.owner(time, child, child);
    } else {
        import.lives.sibling(time, child, parent);
    }
    Some(())
}
