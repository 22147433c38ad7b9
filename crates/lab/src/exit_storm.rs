//! `exit-storm`: a hundred processes that share a large mapping exit at the same time.
//!
//! A pool, the second process with the program's name, starts a hundred *lab-worker* processes.
//! Each fills its page tables for one mapping (48 MiB for each second of the run, at most 512 MiB).
//! Then the pool makes them all exit, and waits for one after another.
//!
//! On Linux (6.18), every worker frees its own page tables, page by page. No lock serializes them:
//! in a hundred exits, no process went to sleep. They share the CPUs, and the pool waits until the
//! last one had its turn. So the CPU is the bottleneck, and with many CPUs there may be no hang;
//! then the outcome says so.

use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Role, Stage, role};
use crate::sys::{self, Child, EventFd, Mapping, Shared, start_process};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

const WORKERS: u64 = 100;
/// Maximum number of workers that fill their page tables at the same time, so that the start is not
/// a storm, too.
const MAX_STARTING: u64 = 2;
const MIB_PER_SECOND: f64 = 48.0;
const MAX_MIB: f64 = 512.0;

pub(crate) const PROGRAM: Program = Program {
    name: "exit-storm",
    summary: "a hundred processes that share a large mapping exit at once, and their parent waits \
              for all of them",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-worker".into(),
        victim_thread: "lab-worker".into(),
        culprit_process: "lab-worker".into(),
        culprit_thread: "lab-worker".into(),
        also_named: vec![],
        pattern: "cpu_starvation".into(),
        // The pool is an event loop: it polls for workers that are ready, before it waits for them.
        kinds: vec!["cpu_starvation".into(), "event_loop".into()],
        min_duration_ms: 150,
        // A worker may lose its CPU anywhere in its exit.
        victim_function: String::new(),
        release_function: String::new(),
        culprit_function: "do_exit".into(),
    }
}

/// What the pool measured.
#[derive(Default)]
struct Figures {
    ready: AtomicU64,
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    /// CPU time of the workers before their exit, and in total, in nanoseconds.
    working_cpu_ns: AtomicU64,
    cpu_ns: AtomicU64,
}

struct Pool<'a> {
    stage: &'a Stage,
    leave: EventFd,
    memory: Mapping,
    figures: Shared<Figures>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let mib = (options.seconds * MIB_PER_SECOND).min(MAX_MIB) as usize;
    let memory = Mapping::shared(mib << 20)?.in_small_pages();
    let pool = Pool {
        stage: &stage,
        leave: EventFd::new()?,
        memory,
        figures: Shared::new(Figures::default())?,
    };
    stage.print(format_args!("the pool starts {WORKERS} workers, which share {mib} MiB"));
    let processes: Vec<Role> = vec![role("lab-exit-storm", || pool.manage())];
    stage.perform_with(processes, vec![])?;
    let Figures { ready, start_ns, end_ns, working_cpu_ns, cpu_ns } = &*pool.figures;
    let ready = ready.load(Ordering::Relaxed);
    let hang = match end_ns.load(Ordering::Relaxed) {
        0 => Span::default(),
        end_ns => Span { start_ns: start_ns.load(Ordering::Relaxed), end_ns },
    };
    stage.print(format_args!(
        "{ready} workers had filled their page tables and took {:.3} s to exit",
        hang.seconds()
    ));
    let figures = [("workers", ready), ("mapping_mib", mib as u64)];
    let ending_cpu_ns =
        cpu_ns.load(Ordering::Relaxed).saturating_sub(working_cpu_ns.load(Ordering::Relaxed));
    let of_one_cpu_ns = ending_cpu_ns / sys::allowed_cpus()?.len().max(1) as u64;
    let late = (ready < WORKERS)
        .then(|| format!("only {ready} workers were ready in time: the machine is too busy"));
    let doubt = late.or_else(|| no_cpu_doubt("the workers (average per CPU)", hang, of_one_cpu_ns));
    Ok(Outcome::new(&stage, answer(), hang, &figures).unless(doubt))
}

impl Pool<'_> {
    #[inline(never)]
    fn manage(&self) -> io::Result<()> {
        self.memory.populate(true)?;
        let mut workers: Vec<Child> = Vec::new();
        for started in (0..WORKERS).take_while(|_| self.stage.hang_is_on()) {
            self.wait_for_ready((started + 1).saturating_sub(MAX_STARTING))?;
            workers.push(start_process("lab-worker", || self.work())?);
        }
        self.wait_for_ready(WORKERS)?;
        self.stage.sleep_until(self.stage.hang_start_ns())?;
        self.stage.print(format_args!("the pool makes its workers exit"));
        self.figures.start_ns.store(sys::monotonic_ns(), Ordering::Relaxed);
        self.leave.set();
        wait_for_workers(&mut workers)?;
        self.figures.end_ns.store(sys::monotonic_ns(), Ordering::Relaxed);
        self.figures.cpu_ns.store(sys::ended_children_cpu_ns(), Ordering::Relaxed);
        Ok(())
    }

    #[inline(never)]
    fn wait_for_ready(&self, workers: u64) -> io::Result<()> {
        while self.stage.hang_is_on() && self.figures.ready.load(Ordering::Relaxed) < workers {
            self.stage.sleep_until(sys::monotonic_ns() + 500_000)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn work(&self) -> io::Result<()> {
        if self.stage.hang_is_on() {
            self.memory.populate(false)?;
        }
        // A hundred exits at a higher priority than everything else would be another hang.
        sys::set_nice(0)?;
        self.figures.working_cpu_ns.fetch_add(sys::thread_cpu_ns(), Ordering::Relaxed);
        self.figures.ready.fetch_add(1, Ordering::Relaxed);
        while !sys::wait_readable([self.leave.as_fd(), self.stage.curtain().as_fd()], u64::MAX)?
            .contains(&true)
        {}
        Ok(())
    }
}

#[inline(never)]
fn wait_for_workers(workers: &mut [Child]) -> io::Result<()> {
    workers.iter_mut().try_for_each(Child::wait)
}
