//! `chain`: a hang that crosses three processes in three different ways, and ends at one that
//! sleeps.
//!
//! The *ui* of the first process waits for a document's lock, a futex in memory shared with the
//! second process, *lab-spooler*. The spooler holds the lock while it waits for an answer from a
//! pipe. The third process, *lab-printer*, should answer, but for a cold start it first sleeps 700
//! ms. Meanwhile it holds a lock of its own, because the printer must not be used until it is warm.
//!
//! *Why the spooler sends requests all the time:* ordinary requests, answered at once, show what
//! the three processes usually wait for.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, FairGuard, FairMutex, Shared};
use crate::ticker::Ticker;
use crate::work::stay_on_stack;
use std::hint::black_box;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

const FRAME_NS: u64 = 16_000_000;
const JOB_INTERVAL_NS: u64 = 50_000_000;
const WARM_UP_NS: u64 = 700_000_000;

pub(crate) const PROGRAM: Program = Program {
    name: "chain",
    summary: "three processes: one waits for a lock, its owner waits for a pipe, and the writer \
              sleeps",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-chain".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-printer".into(),
        culprit_thread: "lab-printer".into(),
        also_named: vec!["lab-spooler".into()],
        pattern: "timer_sleep".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into(), "machine".into()],
        min_duration_ms: 500,
        victim_function: "lock_document".into(),
        release_function: "release_document".into(),
        culprit_function: "warm_up".into(),
    }
}

/// Jobs that the spooler sends: ordinary, or with a warm-up first.
const ORDINARY: u8 = 0;
const COLD_START: u8 = 1;

struct Office<'a> {
    stage: &'a Stage,
    frames: Ticker,
    document: Shared<FairMutex<u64>>,
    ui_waits: OnceLock<Longest>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let office = Office {
        stage: &stage,
        frames: Ticker::new(FRAME_NS)?,
        document: Shared::new(FairMutex::new(0))?,
        ui_waits: OnceLock::new(),
    };
    let (jobs, to_printer) = io::pipe()?;
    let (answers, to_spooler) = io::pipe()?;
    stage.print(format_args!(
        "ui locks the document for each frame; the spooler locks it and asks \
         the printer, every 50 ms"
    ));
    let office = &office;
    let processes: Vec<Role> = vec![
        role("lab-spooler", move || office.spool(to_printer, answers)),
        role("lab-printer", move || office.print(jobs, to_spooler)),
    ];
    let roles: Vec<Role> = vec![
        role("ui", || office.draw_frames()),
        role("display", || office.frames.run(office.stage)),
    ];
    stage.perform_with(processes, roles)?;
    let waits = office.ui_waits.get().copied().unwrap_or_default();
    stage.print(format_args!(
        "the frame at {:.3} s waited {:.3} s for the document lock",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
    ));
    Ok(Outcome::new(&stage, answer(), waits.span, &[("frames", waits.count)]))
}

impl Office<'_> {
    #[inline(never)]
    fn draw_frames(&self) -> io::Result<()> {
        let mut waits = Longest::default();
        while self.frames.wait(self.stage)?.is_some() {
            waits.note(self.draw_document());
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn draw_document(&self) -> Span {
        let start_ns = sys::monotonic_ns();
        let document = self.lock_document();
        let waited = Span { start_ns, end_ns: sys::monotonic_ns() };
        black_box(*document);
        release_document(document);
        waited
    }

    #[inline(never)]
    fn lock_document(&self) -> FairGuard<'_, u64> {
        black_box(self.document.lock())
    }

    #[inline(never)]
    fn spool(&self, mut printer: PipeWriter, answers: PipeReader) -> io::Result<()> {
        let mut job = ORDINARY;
        while self.stage.sleep_until(sys::monotonic_ns() + JOB_INTERVAL_NS)? {
            if job == ORDINARY && sys::monotonic_ns() >= self.stage.hang_start_ns() {
                job = COLD_START;
            }
            let is_answered = self.send_document(job, &mut printer, &answers)?;
            // One cold start is enough.
            job = if job == COLD_START { u8::MAX } else { job };
            if !is_answered {
                break;
            }
        }
        Ok(())
    }

    /// False if the printer has exited.
    #[inline(never)]
    fn send_document(
        &self,
        job: u8,
        printer: &mut PipeWriter,
        answers: &PipeReader,
    ) -> io::Result<bool> {
        let mut document = self.lock_document();
        *document += 1;
        let answered = printer.write_all(&[job]).is_ok() && wait_for_printer(answers);
        release_document(document);
        Ok(answered)
    }

    #[inline(never)]
    fn print(&self, jobs: PipeReader, mut spooler: PipeWriter) -> io::Result<()> {
        let head = FairMutex::new(());
        while let Some(job) = sys::read_byte(jobs.as_fd())? {
            if job == COLD_START {
                self.warm_up(&head)?;
            }
            answer_spooler(&mut spooler);
        }
        Ok(())
    }

    #[inline(never)]
    fn warm_up(&self, head: &FairMutex<()>) -> io::Result<()> {
        let held = head.lock();
        self.stage.print(format_args!(
            "the printer sleeps for {} ms; the spooler waits for it, and ui for the spooler",
            WARM_UP_NS / 1_000_000
        ));
        std::thread::sleep(Duration::from_nanos(WARM_UP_NS));
        drop(held);
        Ok(())
    }
}

/// False if the printer has exited.
#[inline(never)]
fn wait_for_printer(answers: &PipeReader) -> bool {
    black_box(matches!(sys::read_byte(answers.as_fd()), Ok(Some(_))))
}

#[inline(never)]
fn answer_spooler(spooler: &mut PipeWriter) {
    // If the spooler has exited, the run is over.
    let _ = black_box(spooler.write_all(&[0]));
}

#[inline(never)]
fn release_document(document: FairGuard<'_, u64>) {
    drop(document);
    stay_on_stack();
}
