//! `populate`: while one thread populates a large mapping, no other thread of its process can map
//! or unmap anything.
//!
//! The *ui* maps a buffer for each frame and unmaps it. Then the *loader* thread makes the kernel
//! populate 768 MiB at once (`MADV_POPULATE_WRITE`, in small pages; `MAP_POPULATE` does the same).
//! All that time, the kernel holds the process's `mmap_lock` for reading, while mapping needs it
//! for writing. So the wait is for a lock, whose owner clears pages: a long hold, not a shortage of
//! memory.

use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Mapping};
use crate::ticker::Ticker;
use crate::work::stay_on_stack;
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;

const FRAME_NS: u64 = 16_000_000;
const BUFFER_BYTES: usize = 256 << 10;
const MODEL_BYTES: usize = 768 << 20;

pub(crate) const PROGRAM: Program = Program {
    name: "populate",
    summary: "a thread populates 768 MiB in one call, and meanwhile another cannot map a buffer",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-populate".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-populate".into(),
        culprit_thread: "loader".into(),
        also_named: vec![],
        pattern: "long_hold".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: 80,
        victim_function: "draw_frame".into(),
        release_function: "load_model".into(),
        culprit_function: "load_model".into(),
    }
}

struct Viewer<'a> {
    stage: &'a Stage,
    frames: Ticker,
    ui_waits: OnceLock<Longest>,
    /// The call, and its CPU time in nanoseconds.
    load: OnceLock<(Span, u64)>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let viewer = Viewer {
        stage: &stage,
        frames: Ticker::new(FRAME_NS)?,
        ui_waits: OnceLock::new(),
        load: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui maps and unmaps a buffer for each frame, every {} ms",
        FRAME_NS / 1_000_000
    ));
    let roles: Vec<Role> = vec![
        role("ui", || viewer.draw_frames()),
        role("display", || viewer.frames.run(viewer.stage)),
        role("loader", || viewer.load()),
    ];
    stage.perform(roles)?;
    let waits = viewer.ui_waits.into_inner().unwrap_or_default();
    let (load, cpu_ns) = viewer.load.into_inner().unwrap_or_default();
    stage.print(format_args!(
        "the frame at {:.3} s waited {:.3} s for its buffer; loader was in its call for {:.3} s",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        load.seconds(),
    ));
    let figures = [
        ("frames", waits.count),
        ("load_ms", load.duration_ns() / 1_000_000),
        ("loader_cpu_ms", cpu_ns / 1_000_000),
    ];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures)
        .unless(no_cpu_doubt("loader", load, cpu_ns)))
}

impl Viewer<'_> {
    #[inline(never)]
    fn draw_frames(&self) -> io::Result<()> {
        let mut waits = Longest::default();
        while self.frames.wait(self.stage)?.is_some() {
            let start_ns = sys::monotonic_ns();
            draw_frame()?;
            waits.note(Span { start_ns, end_ns: sys::monotonic_ns() });
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn load(&self) -> io::Result<()> {
        if !self.stage.sleep_until(self.stage.hang_start_ns())? {
            return Ok(());
        }
        self.stage.print(format_args!("loader populates {} MiB", MODEL_BYTES >> 20));
        let (start_ns, cpu_start_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        let model = load_model()?;
        let (end_ns, cpu_end_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        self.stage.print(format_args!("loader is done"));
        let _ = self.load.set((Span { start_ns, end_ns }, cpu_end_ns - cpu_start_ns));
        // Freeing the memory takes the same lock, so do it after the play.
        self.stage.sleep_until(u64::MAX)?;
        drop(model);
        Ok(())
    }
}

#[inline(never)]
fn draw_frame() -> io::Result<()> {
    let buffer = Mapping::private(BUFFER_BYTES)?;
    drop(black_box(buffer));
    stay_on_stack();
    Ok(())
}

#[inline(never)]
fn load_model() -> io::Result<Mapping> {
    let model = Mapping::private(MODEL_BYTES)?.in_small_pages();
    model.populate(true)?;
    Ok(black_box(model))
}
