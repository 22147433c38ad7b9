//! `convoy`: thirty threads do the same work under the same lock at the same time, and another
//! thread queues behind them.
//!
//! When a backup starts, thirty *saver* threads each lock the journal and write to it for 10 ms. No
//! thread holds the lock for long, and it is handed off in order of arrival. The *ui*, which
//! arrives a little later for its next frame, is last in the queue: it waits for thirty holds, not
//! for one.

use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, FairGuard, FairMutex};
use crate::ticker::Ticker;
use crate::work::{compute, stay_on_stack};
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const SAVERS: u64 = 30;
const HOLD_NS: u64 = 10_000_000;
const FRAME_NS: u64 = 16_000_000;
/// The frame of the hang comes this long after the savers, so that all of them are in the queue.
const HEAD_START_NS: u64 = 5_000_000;

pub(crate) const PROGRAM: Program = Program {
    name: "convoy",
    summary: "thirty threads each hold a lock for 10 ms, one after another; the user interface is \
              last in the queue",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-convoy".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-convoy".into(),
        culprit_thread: "saver".into(),
        also_named: vec![],
        pattern: "lock_convoy".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into(), "machine".into()],
        min_duration_ms: 200,
        victim_function: "lock_journal".into(),
        release_function: "release_journal".into(),
        culprit_function: "write_records".into(),
    }
}

struct Journal {
    records: u64,
}

struct Database<'a> {
    stage: &'a Stage,
    frames: Ticker,
    journal: FairMutex<Journal>,
    saved: AtomicU64,
    cpu_ns: AtomicU64,
    /// The longest wait, and how many savers had the lock during it.
    ui_waits: OnceLock<(Longest, u64)>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let database = Database {
        stage: &stage,
        frames: Ticker::new(FRAME_NS)?,
        journal: FairMutex::new(Journal { records: 1 }),
        saved: AtomicU64::new(0),
        cpu_ns: AtomicU64::new(0),
        ui_waits: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui locks the journal for a moment, every {} ms",
        FRAME_NS / 1_000_000
    ));
    let mut roles: Vec<Role> = vec![
        role("ui", || database.draw_frames()),
        role("display", || database.frames.run(database.stage)),
    ];
    roles.extend((0..SAVERS).map(|_| role("saver", || database.save())));
    stage.perform(roles)?;
    let (waits, hops) = database.ui_waits.into_inner().unwrap_or_default();
    let cpu_ns = database.cpu_ns.into_inner();
    stage.print(format_args!(
        "the frame at {:.3} s waited {:.3} s for the journal, behind {hops} of {SAVERS} savers",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
    ));
    let figures = [("frames", waits.count), ("hops", hops), ("saver_cpu_ms", cpu_ns / 1_000_000)];
    let doubt = (hops * 2 < SAVERS).then(|| {
        format!("only {hops} savers were ahead of it in the queue: the machine is too busy")
    });
    let doubt = doubt.or_else(|| no_cpu_doubt("the savers", waits.span, cpu_ns));
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(doubt))
}

impl Database<'_> {
    #[inline(never)]
    fn draw_frames(&self) -> io::Result<()> {
        let (mut waits, mut hops) = (Longest::default(), 0);
        while self.frames.wait(self.stage)?.is_some() {
            let start_ns = sys::monotonic_ns();
            let hang_start_ns = self.stage.hang_start_ns();
            if (hang_start_ns..hang_start_ns + HEAD_START_NS).contains(&start_ns) {
                continue;
            }
            let saved = self.saved.load(Ordering::Relaxed);
            if waits.note(self.draw_state()) {
                hops = self.saved.load(Ordering::Relaxed) - saved;
            }
        }
        let _ = self.ui_waits.set((waits, hops));
        Ok(())
    }

    #[inline(never)]
    fn draw_state(&self) -> Span {
        let start_ns = sys::monotonic_ns();
        let journal = self.lock_journal();
        let waited = Span { start_ns, end_ns: sys::monotonic_ns() };
        black_box(journal.records);
        release_journal(journal);
        waited
    }

    #[inline(never)]
    fn lock_journal(&self) -> FairGuard<'_, Journal> {
        black_box(self.journal.lock())
    }

    #[inline(never)]
    fn save(&self) -> io::Result<()> {
        if self.stage.sleep_until(self.stage.hang_start_ns())? {
            self.save_all();
        }
        Ok(())
    }

    #[inline(never)]
    fn save_all(&self) {
        let mut journal = self.lock_journal();
        let cpu_start_ns = sys::thread_cpu_ns();
        if self.stage.hang_is_on() {
            write_records(&mut journal);
            self.saved.fetch_add(1, Ordering::Relaxed);
        }
        self.cpu_ns.fetch_add(sys::thread_cpu_ns() - cpu_start_ns, Ordering::Relaxed);
        release_journal(journal);
        stay_on_stack();
    }
}

#[inline(never)]
fn write_records(journal: &mut Journal) {
    let until_ns = sys::monotonic_ns() + HOLD_NS;
    while sys::monotonic_ns() < until_ns {
        compute(&mut journal.records);
    }
}

#[inline(never)]
fn release_journal(journal: FairGuard<'_, Journal>) {
    drop(journal);
    stay_on_stack();
}
