//! `chain`: a hang that crosses three processes, by three different means, and ends at one that
//! sleeps.
//!
//! The *ui* of the first process wants a document's lock, a futex in memory that it shares with the
//! second, *lab-spooler*. That one holds the lock while it waits for an answer from a pipe. The
//! third, *lab-printer*, is to answer; for a cold start it sleeps 700 ms before, and holds its own
//! lock meanwhile, for the printer must not be used until it is warm.
//!
//! *Why the spooler asks all the time:* its ordinary questions, answered at once, show the three
//! what they usually wait for.

use crate::beat::Beat;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, FairGuard, FairMutex, Shared};
use crate::work::stay_on_stack;
use crate::{Answer, Options, Outcome, Program, Span};
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
    summary: "three processes: one waits for a lock whose holder waits for a pipe whose writer sleeps, with a lock of its own held",
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

/// A job that the spooler sends: to warm up first, or not.
const ORDINARY: u8 = 0;
const COLD_START: u8 = 1;

struct Office<'a> {
    stage: &'a Stage,
    frames: Beat,
    document: Shared<FairMutex<u64>>,
    ui_waits: OnceLock<Longest>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let office = Office {
        stage: &stage,
        frames: Beat::new(FRAME_NS)?,
        document: Shared::new(FairMutex::new(0))?,
        ui_waits: OnceLock::new(),
    };
    let (jobs, to_printer) = io::pipe()?;
    let (answers, to_spooler) = io::pipe()?;
    stage.say(format_args!("ui locks the document for each frame; the spooler locks it and asks the printer, every 50 ms"));
    let office = &office;
    let processes: Vec<Role> = vec![
        role("lab-spooler", move || office.spool(to_printer, answers)),
        role("lab-printer", move || office.print(jobs, to_spooler)),
    ];
    let roles: Vec<Role> = vec![
        role("ui", || office.draw_frames()),
        role("display", || office.frames.strike(office.stage)),
    ];
    stage.perform_with(processes, roles)?;
    let waits = office.ui_waits.get().copied().unwrap_or_default();
    stage.say(format_args!(
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
            let goes_on = self.send_document(job, &mut printer, &answers)?;
            // One cold start is enough.
            job = if job == COLD_START { u8::MAX } else { job };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// False when the printer has gone.
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
        self.stage.say(format_args!(
            "the printer sleeps {} ms, the spooler waits for it, ui for the spooler",
            WARM_UP_NS / 1_000_000
        ));
        std::thread::sleep(Duration::from_nanos(WARM_UP_NS));
        drop(held);
        Ok(())
    }
}

/// False when the printer has gone.
#[inline(never)]
fn wait_for_printer(answers: &PipeReader) -> bool {
    black_box(matches!(sys::read_byte(answers.as_fd()), Ok(Some(_))))
}

#[inline(never)]
fn answer_spooler(spooler: &mut PipeWriter) {
    // When the spooler has gone the run is over.
    let _ = black_box(spooler.write_all(&[0]));
}

#[inline(never)]
fn release_document(document: FairGuard<'_, u64>) {
    drop(document);
    stay_on_stack();
}
