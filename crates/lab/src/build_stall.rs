//! `build-stall`: a parallel build comes to a halt because all its processes wait for one lock.
//!
//! The process *lab-make* starts a compiler every 10 ms: a short process that computes for 8 ms,
//! adds its result to a shared cache, computes for another 8 ms and exits. Then the process
//! *lab-indexer* acquires the cache's lock and computes for 1.5 s while holding it. Up to forty
//! compilers wait, no new ones are started, and only one CPU is busy. When the lock is released
//! they all continue at once.
//!
//! *Why the compilers have the name of the program:* any of them is the victim, and so is the build
//! as a whole.

use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Child, FairGuard, FairMutex, Shared, start_process};
use crate::work::{compute, stay_on_stack};
use std::hint::black_box;
use std::io;

const COMPILERS: usize = 40;
const START_INTERVAL_NS: u64 = 10_000_000;
const COMPILE_NS: u64 = 8_000_000;
const LINK_NS: u64 = 8_000_000;
const REBUILD_NS: u64 = 1_500_000_000;
/// A compiler that waited longer than this was caught in the hang.
const STUCK_NS: u64 = 100_000_000;

pub(crate) const PROGRAM: Program = Program {
    name: "build-stall",
    summary: "the forty processes of a parallel build wait for a lock whose owner, another \
              process, computes",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-build-stall".into(),
        victim_thread: "lab-build-stall".into(),
        culprit_process: "lab-indexer".into(),
        culprit_thread: "lab-indexer".into(),
        also_named: vec![],
        pattern: "long_hold".into(),
        kinds: vec!["machine".into(), "unwanted_wait".into()],
        min_duration_ms: 700,
        victim_function: "lock_cache".into(),
        release_function: "release_cache".into(),
        culprit_function: "rebuild_index".into(),
    }
}

#[derive(Default)]
struct Cache {
    waits: Longest,
    stuck: u64,
    /// When the indexer held the lock, and its CPU time in nanoseconds meanwhile.
    rebuild: Span,
    rebuild_cpu_ns: u64,
}

struct Build<'a> {
    stage: &'a Stage,
    cache: Shared<FairMutex<Cache>>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let build = Build { stage: &stage, cache: Shared::new(FairMutex::new(Cache::default()))? };
    stage.print(format_args!("make starts a compiler every {} ms", START_INTERVAL_NS / 1_000_000));
    let processes: Vec<Role> =
        vec![role("lab-make", || build.make()), role("lab-indexer", || build.index())];
    stage.perform_with(processes, vec![])?;
    let cache = build.cache.lock();
    let Cache { waits, stuck, rebuild, rebuild_cpu_ns: cpu_ns } = &*cache;
    stage.print(format_args!(
        "the compiler at {:.3} s waited {:.3} s for the cache, as one of {stuck} stuck compilers; \
         {} compilers in total",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        waits.count,
    ));
    let figures = [
        ("compilers", waits.count),
        ("stuck", *stuck),
        ("hold_ms", rebuild.duration_ns() / 1_000_000),
        ("holder_cpu_ms", cpu_ns / 1_000_000),
    ];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(no_cpu_doubt(
        "the indexer",
        *rebuild,
        *cpu_ns,
    )))
}

impl Build<'_> {
    #[inline(never)]
    fn make(&self) -> io::Result<()> {
        let mut compilers: Vec<Child> = Vec::new();
        let mut next_ns = sys::monotonic_ns();
        while self.stage.sleep_until(next_ns)? {
            let mut running = Vec::new();
            for mut compiler in compilers {
                if !compiler.has_ended()? {
                    running.push(compiler);
                }
            }
            compilers = running;
            if compilers.len() < COMPILERS {
                compilers.push(start_process(&answer().victim_process, || self.compile())?);
            }
            next_ns = (next_ns + START_INTERVAL_NS).max(sys::monotonic_ns());
        }
        compilers.iter_mut().try_for_each(Child::wait)
    }

    #[inline(never)]
    fn compile(&self) -> io::Result<()> {
        self.compile_unit();
        self.note_result();
        self.link_unit();
        Ok(())
    }

    #[inline(never)]
    fn compile_unit(&self) {
        self.compute_for(COMPILE_NS);
        stay_on_stack();
    }

    #[inline(never)]
    fn link_unit(&self) {
        self.compute_for(LINK_NS);
        stay_on_stack();
    }

    #[inline(always)]
    fn compute_for(&self, cpu_time_ns: u64) {
        let until_ns = sys::thread_cpu_ns() + cpu_time_ns;
        let mut state = 1;
        while sys::thread_cpu_ns() < until_ns && self.stage.is_open() {
            compute(&mut state);
        }
        black_box(state);
    }

    #[inline(never)]
    fn note_result(&self) {
        let start_ns = sys::monotonic_ns();
        let mut cache = self.lock_cache();
        let waited = Span { start_ns, end_ns: sys::monotonic_ns() };
        cache.waits.note(waited);
        cache.stuck += u64::from(waited.duration_ns() > STUCK_NS);
        release_cache(cache);
        stay_on_stack();
    }

    #[inline(never)]
    fn lock_cache(&self) -> FairGuard<'_, Cache> {
        black_box(self.cache.lock())
    }

    #[inline(never)]
    fn index(&self) -> io::Result<()> {
        if self.stage.sleep_until(self.stage.hang_start_ns())? {
            let mut cache = self.lock_cache();
            self.stage.print(format_args!("indexer holds the cache lock and computes"));
            let (start_ns, cpu_start_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
            self.rebuild_index(start_ns + REBUILD_NS);
            cache.rebuild = Span { start_ns, end_ns: sys::monotonic_ns() };
            cache.rebuild_cpu_ns = sys::thread_cpu_ns() - cpu_start_ns;
            release_cache(cache);
            self.stage.print(format_args!("indexer is done"));
        }
        Ok(())
    }

    #[inline(never)]
    fn rebuild_index(&self, until_ns: u64) {
        let mut index = 1;
        while sys::monotonic_ns() < until_ns && self.stage.hang_is_on() {
            for _ in 0..10 {
                compute(&mut index);
            }
        }
        black_box(index);
    }
}

#[inline(never)]
fn release_cache(cache: FairGuard<'_, Cache>) {
    drop(cache);
    stay_on_stack();
}
