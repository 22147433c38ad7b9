//! `long-hold`: nine threads wait for one that searches a bitmap for a second while it holds the
//! lock.
//!
//! Eight *writer-N* threads and a *ui* thread keep locking the volume for a moment. Once, the
//! *checkpoint* thread locks it and searches for a run of free blocks for each of 400 regions, bit
//! by bit and each time from the start: O(n²). When it releases the lock, the nine threads get it
//! one after another, each woken by the previous one.
//!
//! *Why it measures the machine first:* the search should take about 1.1 s of CPU time on any
//! machine and in any build. The other ways to search ([`Options::search`], [`Options::resume`])
//! use a volume of the same size, for comparison.

use crate::bitmap::Bitmap;
use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::search::{self, Way};
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Guard, Mutex};
use crate::ticker::Ticker;
use crate::work::stay_on_stack;
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const REGIONS: usize = 400;
const RUN_BLOCKS: usize = 64;
const SEARCH_NS: f64 = 1.1e9;
const FRAME_NS: u64 = 16_000_000;
const WRITE_INTERVAL_NS: u64 = 10_000_000;
const WRITERS: [&str; 8] = [
    "writer-1", "writer-2", "writer-3", "writer-4", "writer-5", "writer-6", "writer-7", "writer-8",
];

pub(crate) const PROGRAM: Program = Program {
    name: "long-hold",
    summary: "a slow bitmap search holds a lock for a second while nine threads wait, among them \
              the user interface",
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
    way: Way,
    /// Where the next search starts; `None` for always at the start.
    resume_at: Option<usize>,
    /// Number of blocks that were searched.
    searched: u64,
    writes: u64,
}

/// What the checkpoint did while it held the lock.
#[derive(Default)]
struct Hold {
    span: Span,
    cpu_ns: u64,
    regions: usize,
    /// Number of blocks that were searched.
    searched: u64,
}

struct FileSystem<'a> {
    stage: &'a Stage,
    frames: Ticker,
    volume: Mutex<Volume>,
    ui_waits: OnceLock<Longest>,
    /// The longest wait of any writer in nanoseconds: writers arrive more often than frames.
    writer_wait_ns: AtomicU64,
    hold: OnceLock<Hold>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let way = options.search.unwrap_or(Way::Bit);
    if !way.is_possible() {
        return Ok(Outcome::impossible(
            &stage,
            answer(),
            format!("this CPU does not support {}", way.name()),
        ));
    }
    let make = if options.search.is_some() { Bitmap::full } else { Bitmap::fragmented };
    let map = make(REGIONS, region_bits(), RUN_BLOCKS);
    let volume_bits = map.bits();
    let system = FileSystem::new(
        &stage,
        Volume { map, way, resume_at: options.resume.then_some(0), searched: 0, writes: 0 },
    )?;
    stage.print(format_args!(
        "ui and eight writers lock the volume for a moment, every {} ms",
        FRAME_NS / 1_000_000
    ));
    let mut roles: Vec<Role> = vec![
        role("ui", || system.draw_frames()),
        role("display", || system.frames.run(system.stage)),
        role("checkpoint", || system.checkpoint()),
    ];
    roles.extend(WRITERS.map(|name| role(name, || system.write_blocks())));
    stage.perform(roles)?;
    let waits = system.ui_waits.into_inner().unwrap_or_default();
    let writer_wait_ns = system.writer_wait_ns.into_inner();
    let Hold { span: hold, cpu_ns, regions, searched } =
        system.hold.into_inner().unwrap_or_default();
    let bytes_per_s = searched as f64 / 8.0 / (cpu_ns.max(1) as f64 / 1e9);
    let (mib, ms) = (|bits: f64| bits / 8.0 / 1_048_576.0, |ns: u64| ns as f64 / 1e6);
    stage.print(format_args!(
        "searches by {} ({}) read {:.3} MiB in all from a bitmap of {:.3} MiB, at {:.3} GB/s, and \
         covered {regions} of {REGIONS} regions",
        way.name(),
        if options.resume { "each from where the last one ended" } else { "each from the start" },
        mib(searched as f64),
        mib(volume_bits as f64),
        bytes_per_s / 1e9,
    ));
    stage.print(format_args!(
        "checkpoint held the lock for {:.3} ms; the hang: the frame at {:.3} s waited {:.3} ms for \
         it, a writer {:.3} ms",
        ms(hold.duration_ns()),
        stage.seconds_at(waits.span.start_ns),
        ms(waits.span.duration_ns()),
        ms(writer_wait_ns),
    ));
    let figures = [
        ("frames", waits.count),
        ("hold_ms", hold.duration_ns() / 1_000_000),
        ("hold_us", hold.duration_ns() / 1_000),
        ("writer_wait_us", writer_wait_ns / 1_000),
        ("holder_cpu_ms", cpu_ns / 1_000_000),
        ("regions", regions as u64),
        ("bitmap_bytes", volume_bits as u64 / 8),
        ("searched_bytes", searched / 8),
        ("mb_per_s", (bytes_per_s / 1e6) as u64),
    ];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(no_cpu_doubt(
        "checkpoint",
        hold,
        cpu_ns,
    )))
}

/// The size of a region, in blocks, for which the whole search takes [`SEARCH_NS`].
fn region_bits() -> usize {
    const SAMPLE_REGIONS: usize = 16;
    const SAMPLE_BITS: usize = 8_192;
    // The last, unsuccessful search goes over all regions once more.
    const SEARCHED_BITS: usize = (triangle(SAMPLE_REGIONS) + SAMPLE_REGIONS) * SAMPLE_BITS;
    let sample_ns = || {
        let map = Bitmap::fragmented(SAMPLE_REGIONS, SAMPLE_BITS, RUN_BLOCKS);
        let mut sample = Volume { map, way: Way::Bit, resume_at: None, searched: 0, writes: 0 };
        let start_ns = sys::thread_cpu_ns();
        while sample.take_run() {}
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

impl Volume {
    /// Takes the first free run; false if there is none.
    fn take_run(&mut self) -> bool {
        let from = self.resume_at.unwrap_or(0);
        let start = self.find_clear_run(from);
        let end = start.map_or(self.map.bits(), |start| start + RUN_BLOCKS);
        if let Some(start) = start {
            self.map.take(start..end);
        }
        self.searched += end.saturating_sub(from) as u64;
        self.resume_at = self.resume_at.map(|_| end);
        start.is_some()
    }

    #[inline(never)]
    fn find_clear_run(&self, from: usize) -> Option<usize> {
        let found = search::find_clear_run(&self.map, self.way, from, RUN_BLOCKS);
        stay_on_stack();
        found
    }
}

impl<'a> FileSystem<'a> {
    fn new(stage: &'a Stage, volume: Volume) -> io::Result<Self> {
        Ok(Self {
            stage,
            frames: Ticker::new(FRAME_NS)?,
            volume: Mutex::new(volume),
            ui_waits: OnceLock::new(),
            writer_wait_ns: AtomicU64::new(0),
            hold: OnceLock::new(),
        })
    }
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
        let start_ns = sys::monotonic_ns();
        let mut volume = self.lock_volume();
        self.writer_wait_ns
            .fetch_max(sys::monotonic_ns().saturating_sub(start_ns), Ordering::Relaxed);
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
        self.stage.print(format_args!(
            "checkpoint holds the lock and searches for free blocks in {REGIONS} regions"
        ));
        let regions = self.checkpoint_volume(&mut volume);
        let searched = volume.searched;
        let (end_ns, cpu_end_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        release_volume(volume);
        self.stage.print(format_args!("checkpoint is done"));
        let _ = self.hold.set(Hold {
            span: Span { start_ns, end_ns },
            cpu_ns: cpu_end_ns - cpu_start_ns,
            regions,
            searched,
        });
        Ok(())
    }

    /// Returns how many regions were done in the allowed time.
    #[inline(never)]
    fn checkpoint_volume(&self, volume: &mut Volume) -> usize {
        (0..REGIONS).take_while(|_| self.stage.hang_is_on() && volume.take_run()).count()
    }
}

#[inline(never)]
fn release_volume(volume: Guard<'_, Volume>) {
    drop(volume);
    stay_on_stack();
}
