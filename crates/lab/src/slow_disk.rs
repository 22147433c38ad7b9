//! `slow-disk`: syncs a small file while other threads write a lot to the same file system.
//!
//! The *ui* saves its settings every 50 ms and waits until they are on disk (`fsync`). Then four
//! *downloader* threads write a file of 160 MiB each and also sync it; on a fast disk they repeat
//! that until the ui has hung. The device serves everybody from one queue, and a journaling file
//! system puts everything into one commit, so the ui's few bytes wait for the many bytes of the
//! others.
//!
//! The files are unlinked files in `TMPDIR`, else in `/var/tmp`, so that nothing is left behind
//! however the program ends. *Why not in `/tmp`:* that is often in memory. If the disk is too fast
//! for the hang, or the folder is not on a disk, the outcome says so.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys;
use crate::ticker::Ticker;
use crate::work::stay_on_stack;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SAVE_INTERVAL_NS: u64 = 50_000_000;
const MIN_HANG_MS: u64 = 100;
const DOWNLOADERS: usize = 4;
const FILE_MIB: u64 = 160;
const MIB: u64 = 1 << 20;

pub(crate) const PROGRAM: Program = Program {
    name: "slow-disk",
    summary: "fsync of a small file while other threads write a lot to the same file system",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-slow-disk".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-slow-disk".into(),
        culprit_thread: "ui".into(),
        also_named: vec!["downloader".into()],
        pattern: "io_wait".into(),
        // A save that hangs right after another one breaks the rhythm of both.
        kinds: vec!["event_loop".into(), "unwanted_wait".into(), "rhythm".into()],
        min_duration_ms: MIN_HANG_MS,
        victim_function: "save_settings".into(),
        release_function: String::new(),
        culprit_function: "save_settings".into(),
    }
}

struct Desktop<'a> {
    stage: &'a Stage,
    changes: Ticker,
    written_mib: AtomicU64,
    has_hung: AtomicBool,
    ui_waits: OnceLock<Longest>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let desktop = Desktop {
        stage: &stage,
        changes: Ticker::new(SAVE_INTERVAL_NS)?,
        written_mib: AtomicU64::new(0),
        has_hung: AtomicBool::new(false),
        ui_waits: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui saves its settings every {} ms, in {}",
        SAVE_INTERVAL_NS / 1_000_000,
        folder().display()
    ));
    let desktop = &desktop;
    let mut roles: Vec<Role> = vec![
        role("ui", || desktop.keep_settings()),
        role("mouse", || desktop.changes.run(desktop.stage)),
    ];
    roles.extend(
        (0..DOWNLOADERS).map(|number| role("downloader", move || desktop.download(number))),
    );
    stage.perform(roles)?;
    let waits = desktop.ui_waits.get().copied().unwrap_or_default();
    let written_mib = desktop.written_mib.load(Ordering::Relaxed);
    stage.print(format_args!(
        "at {:.3} s, ui started to wait for the disk, for {:.3} s; the downloaders wrote \
         {written_mib} MiB",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
    ));
    let figures = [("saves", waits.count), ("written_mib", written_mib)];
    let doubt = (written_mib == 0)
        .then(|| "the downloaders wrote nothing, so the ui did not wait for them".to_owned());
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(doubt))
}

fn folder() -> PathBuf {
    std::env::var_os("TMPDIR").map_or("/var/tmp".into(), PathBuf::from)
}

/// A new file, already unlinked.
fn file(name: &str) -> io::Result<File> {
    let path = folder().join(format!("unhitch-lab-{}-{name}", std::process::id()));
    let file = File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

impl Desktop<'_> {
    #[inline(never)]
    fn keep_settings(&self) -> io::Result<()> {
        let file = file("settings")?;
        let mut waits = Longest::default();
        while self.changes.wait(self.stage)?.is_some() {
            let start_ns = sys::monotonic_ns();
            save_settings(&file, waits.count)?;
            let wait = Span { start_ns, end_ns: sys::monotonic_ns() };
            waits.note(wait);
            self.has_hung
                .fetch_or(wait.duration_ns() >= MIN_HANG_MS * 1_000_000, Ordering::Relaxed);
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn download(&self, number: usize) -> io::Result<()> {
        if !self.stage.sleep_until(self.stage.hang_start_ns())? {
            return Ok(());
        }
        self.stage.print(format_args!("downloader {number} writes {FILE_MIB} MiB"));
        let file = file(&format!("download-{number}"))?;
        while self.stage.hang_is_on() && !self.has_hung.load(Ordering::Relaxed) {
            self.write_download(&file)?;
        }
        self.stage.print(format_args!("downloader {number} is done"));
        // Freeing a large file also keeps the disk busy, so do it after the play.
        self.stage.sleep_until(u64::MAX).map(drop)
    }

    #[inline(never)]
    fn write_download(&self, file: &File) -> io::Result<()> {
        let block = vec![0x5a; MIB as usize];
        for number in 0..FILE_MIB {
            // After a stop signal, do not wait for the disk.
            if !self.stage.hang_is_on() {
                return Ok(());
            }
            file.write_all_at(&block, number * MIB)?;
            self.written_mib.fetch_add(1, Ordering::Relaxed);
        }
        black_box(sys::sync_file(file))
    }
}

#[inline(never)]
fn save_settings(file: &File, version: u64) -> io::Result<()> {
    // The file gets longer each time, so that its metadata must go through the journal.
    file.write_all_at(&[0x20; 512], version * 512)?;
    let saved = black_box(sys::sync_file(file));
    stay_on_stack();
    saved
}
