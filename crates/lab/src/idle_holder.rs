//! `idle-holder`: a lock is held by a thread that gets no CPU.
//!
//! The *ui* does a look-up every 20 ms under the catalogue's lock; the *indexer* thread merges its
//! index under the same lock. For a large merge, 50 ms of CPU time, the indexer switches to
//! SCHED_IDLE, as background work should. While it holds the lock, the *encoder* thread starts to
//! compute on the same CPU, which leaves 0.3 % of that CPU to SCHED_IDLE. The ui waits for the
//! lock, the indexer for the CPU, and the encoder for nothing: a priority inversion.
//!
//! *Why the encoder frees the indexer when it is done:* if other programs keep all CPUs busy, the
//! indexer would otherwise hold the lock long after the run. It stays SCHED_IDLE for as long as
//! possible, so that a recorder sees the policy afterwards, too.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Guard, Mutex};
use crate::ticker::Ticker;
use crate::work::{compute, stay_on_stack};
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const LOOKUP_INTERVAL_NS: u64 = 20_000_000;
const MERGE_INTERVAL_NS: u64 = 100_000_000;
/// CPU time of an ordinary merge, and of the one that hangs.
const SMALL_MERGE_NS: u64 = 2_000_000;
const LARGE_MERGE_NS: u64 = 50_000_000;
/// How long the large merge may last once the encoder is done.
const GRACE_NS: u64 = 300_000_000;

pub(crate) const PROGRAM: Program = Program {
    name: "idle-holder",
    summary: "a SCHED_IDLE thread holds a lock and gets no CPU because another thread computes on \
              its CPU",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-idle-holder".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-idle-holder".into(),
        culprit_thread: "indexer".into(),
        also_named: vec!["encoder".into()],
        pattern: "priority_inversion".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: 500,
        victim_function: "lock_catalogue".into(),
        release_function: "release_catalogue".into(),
        culprit_function: "merge_segments".into(),
    }
}

struct Catalogue {
    entries: u64,
}

struct Library<'a> {
    stage: &'a Stage,
    requests: Ticker,
    catalogue: Mutex<Catalogue>,
    cpus: &'a [usize],
    indexer_thread_id: AtomicI32,
    large_merge: AtomicBool,
    ui_waits: OnceLock<Longest>,
    hold: OnceLock<(Span, u64)>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let cpus = sys::allowed_cpus()?;
    let library = Library {
        stage: &stage,
        requests: Ticker::new(LOOKUP_INTERVAL_NS)?,
        catalogue: Mutex::new(Catalogue { entries: 1 }),
        cpus: &cpus,
        indexer_thread_id: AtomicI32::new(0),
        large_merge: AtomicBool::new(false),
        ui_waits: OnceLock::new(),
        hold: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui does a look-up every 20 ms; indexer merges now and then, under the same lock"
    ));
    let roles: Vec<Role> = vec![
        role("ui", || library.show_entries()),
        role("reader", || library.requests.run(library.stage)),
        role("indexer", || library.index()),
        role("encoder", || library.encode()),
    ];
    stage.perform(roles)?;
    let waits = library.ui_waits.into_inner().unwrap_or_default();
    let (hold, cpu_ns) = library.hold.into_inner().unwrap_or_default();
    stage.print(format_args!(
        "the look-up at {:.3} s waited {:.3} s for the catalogue lock; indexer held it for {:.3} s \
         and had {:.3} s of CPU time",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        hold.seconds(),
        cpu_ns as f64 / 1e9,
    ));
    let figures = [
        ("lookups", waits.count),
        ("hold_ms", hold.duration_ns() / 1_000_000),
        ("holder_cpu_us", cpu_ns / 1_000),
    ];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures))
}

impl Library<'_> {
    /// The CPU that indexer and encoder share.
    fn background_cpu(&self) -> &[usize] {
        self.cpus.last_chunk::<1>().map_or(&[], |cpu| cpu)
    }

    #[inline(never)]
    fn show_entries(&self) -> io::Result<()> {
        if let [cpus @ .., _] = self.cpus
            && !cpus.is_empty()
        {
            sys::pin(0, cpus)?;
        }
        let mut waits = Longest::default();
        while self.requests.wait(self.stage)?.is_some() {
            self.look_up(&mut waits);
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn look_up(&self, waits: &mut Longest) {
        let start_ns = sys::monotonic_ns();
        let catalogue = self.lock_catalogue();
        waits.note(Span { start_ns, end_ns: sys::monotonic_ns() });
        black_box(catalogue.entries);
        release_catalogue(catalogue);
        stay_on_stack();
    }

    #[inline(never)]
    fn lock_catalogue(&self) -> Guard<'_, Catalogue> {
        black_box(self.catalogue.lock())
    }

    #[inline(never)]
    fn index(&self) -> io::Result<()> {
        sys::pin(0, self.background_cpu())?;
        self.indexer_thread_id.store(sys::thread_id(), Ordering::Relaxed);
        while self.stage.sleep_until(sys::monotonic_ns() + MERGE_INTERVAL_NS)? {
            if sys::monotonic_ns() >= self.stage.hang_start_ns() {
                sys::set_idle_policy(0, true)?;
                self.merge_all();
                self.stage.sleep_until(u64::MAX)?;
            } else {
                let mut catalogue = self.lock_catalogue();
                self.merge_segments(&mut catalogue, SMALL_MERGE_NS);
                release_catalogue(catalogue);
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn merge_all(&self) {
        let mut catalogue = self.lock_catalogue();
        self.large_merge.store(true, Ordering::Relaxed);
        let (start_ns, cpu_start_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        self.merge_segments(&mut catalogue, LARGE_MERGE_NS);
        let (end_ns, cpu_end_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        release_catalogue(catalogue);
        self.large_merge.store(false, Ordering::Relaxed);
        let _ = self.hold.set((Span { start_ns, end_ns }, cpu_end_ns - cpu_start_ns));
    }

    #[inline(never)]
    fn merge_segments(&self, catalogue: &mut Catalogue, cpu_time_ns: u64) {
        let until_ns = sys::thread_cpu_ns() + cpu_time_ns;
        while sys::thread_cpu_ns() < until_ns && self.stage.is_open() {
            for _ in 0..10 {
                compute(&mut catalogue.entries);
            }
        }
    }

    #[inline(never)]
    fn encode(&self) -> io::Result<()> {
        sys::pin(0, self.background_cpu())?;
        self.stage.sleep_until(self.stage.hang_start_ns())?;
        while self.stage.hang_is_on() && !self.large_merge.load(Ordering::Relaxed) {
            self.stage.sleep_until(sys::monotonic_ns() + 1_000_000)?;
        }
        if self.large_merge.load(Ordering::Relaxed) {
            self.stage.print(format_args!(
                "encoder starts to compute on the CPU of indexer, which holds the lock"
            ));
            let mut frame = 1;
            while self.stage.hang_is_on() {
                encode_frame(&mut frame);
            }
            self.stage.print(format_args!("encoder is done"));
        }
        self.free_indexer()
    }

    /// Lets the indexer finish. Errors are ignored: leaving SCHED_IDLE needs a privilege, and
    /// without it the indexer just finishes a little later.
    fn free_indexer(&self) -> io::Result<()> {
        let indexer = self.indexer_thread_id.load(Ordering::Relaxed);
        let _ = sys::pin(indexer, self.cpus);
        self.stage.sleep_until(sys::monotonic_ns() + GRACE_NS)?;
        if !self.large_merge.load(Ordering::Relaxed) {
            self.stage.sleep_until(u64::MAX)?;
        }
        let _ = sys::set_idle_policy(indexer, false);
        Ok(())
    }
}

#[inline(never)]
fn encode_frame(frame: &mut u64) {
    for _ in 0..100 {
        compute(frame);
    }
}

#[inline(never)]
fn release_catalogue(catalogue: Guard<'_, Catalogue>) {
    drop(catalogue);
    stay_on_stack();
}
