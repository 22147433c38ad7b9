//! `scan-stall`: a tool inspects a process's memory but gets no CPU, and meanwhile the process
//! cannot map memory.
//!
//! The *ui* maps a buffer every 10 ms and unmaps it. Its process has the address space of `lab
//! address-space --layout one-big` with two blocks, 512 MiB in small pages. The *lab-scanner*
//! process (SCHED_IDLE, as a monitoring tool should be) sometimes reads the `/proc/PID/smaps` of
//! the first process. For each mapping, the kernel counts the pages while it holds the process's
//! `mmap_lock` for reading. Then the *lab-encoder* process computes on the scanner's CPU. The
//! scanner is preempted during the count, and keeps the lock.
//!
//! *Why `smaps`:* since Linux 6.17, a reader of `maps` only locks single mappings, but `smaps`
//! walks page tables, which still takes the lock of the whole process. *Why the encoder checks the
//! ui:* if it starts while the scanner is between two mappings, nothing is stuck; then it pauses
//! and tries again.

use crate::address_space::{self, Layout};
use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Mapping, Shared};
use crate::ticker::Ticker;
use crate::work::{compute, stay_on_stack};
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

const FRAME_NS: u64 = 10_000_000;
const BUFFER_BYTES: usize = 256 << 10;
/// Number of blocks, of 256 MiB each: counting the pages of one takes some milliseconds.
const BLOCKS: usize = 2;
const SCAN_INTERVAL_NS: u64 = 150_000_000;
/// A ui that has made no progress for this long is stuck.
const STUCK_NS: u64 = 20_000_000;
/// How long the scan may last once the encoder is done.
const GRACE_NS: u64 = 200_000_000;

pub(crate) const PROGRAM: Program = Program {
    name: "scan-stall",
    summary: "a SCHED_IDLE reader of a process's smaps is kept off its CPU, and meanwhile the process cannot map a buffer",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-scan-stall".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-scanner".into(),
        culprit_thread: "lab-scanner".into(),
        also_named: vec!["lab-encoder".into()],
        pattern: "priority_inversion".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: 300,
        victim_function: "draw_frame".into(),
        release_function: "read_smaps".into(),
        culprit_function: "read_smaps".into(),
    }
}

/// State shared by the three processes.
struct Signs {
    scanner: AtomicI32,
    scanning: AtomicBool,
    /// When the ui started its current frame; zero between frames.
    frame_start_ns: AtomicU64,
    /// CPU time of the longest scan, and how long it took, in nanoseconds.
    scan_cpu_ns: AtomicU64,
    scan_ns: AtomicU64,
}

struct Play<'a> {
    stage: &'a Stage,
    frames: Ticker,
    cpus: &'a [usize],
    signs: Shared<Signs>,
    ui_waits: OnceLock<Longest>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let cpus = sys::allowed_cpus()?;
    // Try to lock our memory: reclaimed code is read again under the very lock that this is about,
    // and then even a stop signal would have to wait.
    let _ = sys::keep_in_memory();
    let _blocks = address_space::fill(Layout::OneBig, Some(BLOCKS))?;
    let signs = Signs {
        scanner: AtomicI32::new(0),
        scanning: AtomicBool::new(false),
        frame_start_ns: AtomicU64::new(0),
        scan_cpu_ns: AtomicU64::new(0),
        scan_ns: AtomicU64::new(0),
    };
    let play = Play {
        stage: &stage,
        frames: Ticker::new(FRAME_NS)?,
        cpus: &cpus,
        signs: Shared::new(signs)?,
        ui_waits: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui maps a buffer every 10 ms; the scanner sometimes reads the smaps of its process"
    ));
    let target = std::process::id();
    let processes: Vec<Role> =
        vec![role("lab-scanner", || play.scan(target)), role("lab-encoder", || play.encode())];
    let roles: Vec<Role> =
        vec![role("ui", || play.draw_frames()), role("display", || play.frames.run(play.stage))];
    stage.perform_with(processes, roles)?;
    let waits = play.ui_waits.get().copied().unwrap_or_default();
    let (scan_ns, cpu_ns) = (
        play.signs.scan_ns.load(Ordering::Relaxed),
        play.signs.scan_cpu_ns.load(Ordering::Relaxed),
    );
    stage.print(format_args!(
        "the frame at {:.3} s waited {:.3} s for its buffer; a scan took {:.3} s, {:.3} s of it on \
         a CPU",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        scan_ns as f64 / 1e9,
        cpu_ns as f64 / 1e9,
    ));
    let figures = [
        ("frames", waits.count),
        ("scan_ms", scan_ns / 1_000_000),
        ("scanner_cpu_us", cpu_ns / 1_000),
    ];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures))
}

impl Play<'_> {
    #[inline(never)]
    fn draw_frames(&self) -> io::Result<()> {
        if let [cpus @ .., _] = self.cpus
            && !cpus.is_empty()
        {
            sys::pin(0, cpus)?;
        }
        let mut waits = Longest::default();
        while self.frames.wait(self.stage)?.is_some() {
            let start_ns = sys::monotonic_ns();
            self.signs.frame_start_ns.store(start_ns, Ordering::Relaxed);
            draw_frame()?;
            self.signs.frame_start_ns.store(0, Ordering::Relaxed);
            waits.note(Span { start_ns, end_ns: sys::monotonic_ns() });
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    fn ui_is_stuck(&self) -> bool {
        let start_ns = self.signs.frame_start_ns.load(Ordering::Relaxed);
        start_ns != 0 && sys::monotonic_ns().saturating_sub(start_ns) > STUCK_NS
    }

    /// The CPU that the scanner and the encoder share.
    fn background_cpu(&self) -> &[usize] {
        self.cpus.last_chunk::<1>().map_or(&[], |cpu| cpu)
    }

    #[inline(never)]
    fn scan(&self, target: u32) -> io::Result<()> {
        sys::pin(0, self.background_cpu())?;
        sys::set_idle_policy(0, true)?;
        self.signs.scanner.store(sys::thread_id(), Ordering::Relaxed);
        let path = format!("/proc/{target}/smaps");
        while self.stage.is_open() {
            let (start_ns, cpu_start_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
            self.signs.scanning.store(true, Ordering::Relaxed);
            read_smaps(&path)?;
            self.signs.scanning.store(false, Ordering::Relaxed);
            let scan_ns = sys::monotonic_ns() - start_ns;
            if scan_ns > self.signs.scan_ns.fetch_max(scan_ns, Ordering::Relaxed) {
                self.signs
                    .scan_cpu_ns
                    .store(sys::thread_cpu_ns() - cpu_start_ns, Ordering::Relaxed);
            }
            let in_hang =
                sys::monotonic_ns() >= self.stage.hang_start_ns() && self.stage.hang_is_on();
            self.stage
                .sleep_until(sys::monotonic_ns() + if in_hang { 0 } else { SCAN_INTERVAL_NS })?;
        }
        Ok(())
    }

    #[inline(never)]
    fn encode(&self) -> io::Result<()> {
        sys::pin(0, self.background_cpu())?;
        self.stage.sleep_until(self.stage.hang_start_ns())?;
        let (mut frame, mut tries) = (1, 0);
        while self.stage.hang_is_on() {
            // This wakes up in the middle of a scan, if a scan takes longer than this.
            self.stage.sleep_until(sys::monotonic_ns() + 2_000_000)?;
            if self.signs.scanning.load(Ordering::Relaxed) {
                tries += 1;
                let start_ns = sys::monotonic_ns();
                while self.stage.hang_is_on()
                    && (sys::monotonic_ns() < start_ns + 2 * STUCK_NS || self.ui_is_stuck())
                {
                    encode_frame(&mut frame);
                }
            }
        }
        self.stage.print(format_args!("encoder is done after computing during {tries} scans"));
        self.free_scanner()
    }

    /// Lets the scanner finish. Errors are ignored: leaving SCHED_IDLE needs a privilege, and
    /// without it the scanner just finishes a little later.
    fn free_scanner(&self) -> io::Result<()> {
        let scanner = self.signs.scanner.load(Ordering::Relaxed);
        let _ = sys::pin(scanner, self.cpus);
        self.stage.sleep_until(sys::monotonic_ns() + GRACE_NS)?;
        let _ = sys::set_idle_policy(scanner, false);
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
fn read_smaps(path: &str) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut text = [0; 4096];
    while black_box(file.read(&mut text)?) > 0 {}
    Ok(())
}

#[inline(never)]
fn encode_frame(frame: &mut u64) {
    for _ in 0..100 {
        compute(frame);
    }
}
