//! `long-hold`: nine threads wait for one that searches a bitmap for a second, with the lock held.
//!
//! Eight *writer-N* threads and a *ui* thread lock the volume for a moment, all the time. Once, the thread *checkpoint* locks it and
//! looks for a run of free blocks for each of 400 regions, bit by bit and each time from the start: O(n²). When it releases the lock
//! the nine go through one after another, each woken by the one before.
//!
//! *Why it measures the machine first:* the search is to take about 1.1 s of CPU time on any machine and in any build.

use crate::beat::Beat;
use crate::bitmap::Bitmap;
use crate::outcome::no_cpu_doubt;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Guard, Mutex};
use crate::work::stay_on_stack;
use crate::{Answer, Options, Outcome, Program, Span};
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;

const REGIONS: usize = 400;
const RUN_BLOCKS: usize = 64;
const SEARCH_NS: f64 = 1.1e9;
const FRAME_NS: u64 = 16_000_000;
const WRITE_INTERVAL_NS: u64 = 10_000_000;
const WRITERS: [&str; 8] = ["writer-1", "writer-2", "writer-3", "writer-4", "writer-5", "writer-6", "writer-7", "writer-8"];

pub(crate) const PROGRAM: Program = Program {
    name: "long-hold",
    summary: "a slow bitmap search holds a lock for a second while nine threads, one of them the user interface's, wait",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-long-hold".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-long-hold".into(),
        culprit_thread: "checkpoint".into(),
        also_named: vec![],
        pattern: "long_hold".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into(), "machine".into()],
        min_duration_ms: 500,
        victim_function: "lock_volume".into(),
        release_function: "release_volume".into(),
        culprit_function: "find_clear_run".into(),
    }
}

struct Volume {
    map: Bitmap,
    writes: u64,
}

/// What the checkpoint did with the lock.
#[derive(Default)]
struct Hold {
    span: Span,
    cpu_ns: u64,
    regions: usize,
}

struct FileSystem<'a> {
    stage: &'a Stage,
    frames: Beat,
    volume: Mutex<Volume>,
    ui_waits: OnceLock<Longest>,
    hold: OnceLock<Hold>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let map = Bitmap::fragmented(REGIONS, region_bits(), RUN_BLOCKS);
    let system = FileSystem {
        stage: &stage,
        frames: Beat::new(FRAME_NS)?,
        volume: Mutex::new(Volume { map, writes: 0 }),
        ui_waits: OnceLock::new(),
        hold: OnceLock::new(),
    };
    stage.say(format_args!("ui and eight writers lock the volume for a moment, every {} ms", FRAME_NS / 1_000_000));
    let mut roles: Vec<Role> = vec![
        role("ui", || system.draw_frames()),
        role("display", || system.frames.strike(system.stage)),
        role("checkpoint", || system.checkpoint()),
    ];
    roles.extend(WRITERS.map(|name| role(name, || system.write_blocks())));
    stage.perform(roles)?;
    let waits = system.ui_waits.into_inner().unwrap_or_default();
    let Hold { span: hold, cpu_ns, regions } = system.hold.into_inner().unwrap_or_default();
    stage.say(format_args!(
        "the frame at {:.3} s waited {:.3} s for the volume lock; checkpoint held it {:.3} s, for {regions} of {REGIONS} regions",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        hold.seconds(),
    ));
    let (hold_ms, cpu_ms) = (hold.duration_ns() / 1_000_000, cpu_ns / 1_000_000);
    let figures = [("frames", waits.count), ("hold_ms", hold_ms), ("holder_cpu_ms", cpu_ms), ("regions", regions as u64)];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(no_cpu_doubt("checkpoint", hold, cpu_ns)))
}

/// The size of a region, in blocks, with which the whole search takes [`SEARCH_NS`].
fn region_bits() -> usize {
    const SAMPLE_REGIONS: usize = 16;
    const SAMPLE_BITS: usize = 8_192;
    // The last search, in vain, goes over all regions once more.
    const SEARCHED_BITS: usize = (triangle(SAMPLE_REGIONS) + SAMPLE_REGIONS) * SAMPLE_BITS;
    let sample_ns = || {
        let mut map = Bitmap::fragmented(SAMPLE_REGIONS, SAMPLE_BITS, RUN_BLOCKS);
        let start_ns = sys::thread_cpu_ns();
        while take_run(&mut map) {}
        sys::thread_cpu_ns() - start_ns
    };
    let fastest_ns = sample_ns().min(sample_ns()).min(sample_ns());
    let ns_per_bit = fastest_ns as f64 / SEARCHED_BITS as f64;
    ((SEARCH_NS / ns_per_bit / triangle(REGIONS) as f64) as usize).clamp(2 * RUN_BLOCKS, 1 << 18)
}

/// 1 + 2 + … + n.
const fn triangle(n: usize) -> usize {
    n * (n + 1) / 2
}

/// Takes the first free run; false when there is none.
fn take_run(map: &mut Bitmap) -> bool {
    let start = map.find_clear_run(RUN_BLOCKS);
    if let Some(start) = start {
        map.take(start..start + RUN_BLOCKS);
    }
    start.is_some()
}

impl FileSystem<'_> {
    #[inline(never)]
    fn draw_frames(&self) -> io::Result<()> {
        let mut waits = Longest::default();
        while self.frames.wait(self.stage)?.is_some() {
            self.draw_free_space(&mut waits);
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn draw_free_space(&self, waits: &mut Longest) {
        let start_ns = sys::monotonic_ns();
        let volume = self.lock_volume();
        waits.note(Span { start_ns, end_ns: sys::monotonic_ns() });
        black_box(volume.writes);
        release_volume(volume);
        stay_on_stack();
    }

    #[inline(never)]
    fn write_blocks(&self) -> io::Result<()> {
        while self.stage.sleep_until(sys::monotonic_ns() + WRITE_INTERVAL_NS)? {
            self.write_block();
        }
        Ok(())
    }

    #[inline(never)]
    fn write_block(&self) {
        let mut volume = self.lock_volume();
        volume.writes += 1;
        release_volume(volume);
        stay_on_stack();
    }

    #[inline(never)]
    fn lock_volume(&self) -> Guard<'_, Volume> {
        black_box(self.volume.lock())
    }

    #[inline(never)]
    fn checkpoint(&self) -> io::Result<()> {
        if !self.stage.sleep_until(self.stage.hang_start_ns())? {
            return Ok(());
        }
        let mut volume = self.lock_volume();
        let (start_ns, cpu_start_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        self.stage.say(format_args!("checkpoint has the lock and looks for free blocks in {REGIONS} regions"));
        let regions = self.checkpoint_volume(&mut volume);
        let (end_ns, cpu_end_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        release_volume(volume);
        self.stage.say(format_args!("checkpoint is done"));
        let _ = self.hold.set(Hold { span: Span { start_ns, end_ns }, cpu_ns: cpu_end_ns - cpu_start_ns, regions });
        Ok(())
    }

    /// Returns how many regions it got through in the time allowed.
    #[inline(never)]
    fn checkpoint_volume(&self, volume: &mut Volume) -> usize {
        (0..REGIONS).take_while(|_| self.stage.hang_is_on() && take_run(&mut volume.map)).count()
    }
}

#[inline(never)]
fn release_volume(volume: Guard<'_, Volume>) {
    drop(volume);
    stay_on_stack();
}
