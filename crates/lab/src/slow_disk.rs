//! `slow-disk`: a small file is to reach the disk while another program writes a lot to the same
//! file system.
//!
//! The *ui* changes its settings every 50 ms and waits until they are on the disk (`fsync`). Then
//! four threads *downloader* write a file of 160 MiB each, and wait for it in the same way; on a
//! fast disk again, until the ui has hung. The device serves all from one queue, and a file system
//! with a journal takes all into one commit: the ui's few bytes wait for the others' many.
//!
//! The files lie in `TMPDIR`, else in `/var/tmp`, without a name, so that nothing stays behind
//! however the program ends. *Why not in `/tmp`:* that is often in memory. Where the disk is too
//! fast for the hang, or is none, the outcome says so.

use crate::beat::Beat;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys;
use crate::work::stay_on_stack;
use crate::{Answer, Options, Outcome, Program, Span};
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
    summary: "fsync of a small file behind a program that writes much to the same file system",
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
        kinds: vec!["event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: MIN_HANG_MS,
        victim_function: "save_settings".into(),
        release_function: String::new(),
        culprit_function: "save_settings".into(),
    }
}

struct Desktop<'a> {
    stage: &'a Stage,
    changes: Beat,
    written_mib: AtomicU64,
    has_hung: AtomicBool,
    ui_waits: OnceLock<Longest>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let desktop = Desktop {
        stage: &stage,
        changes: Beat::new(SAVE_INTERVAL_NS)?,
        written_mib: AtomicU64::new(0),
        has_hung: AtomicBool::new(false),
        ui_waits: OnceLock::new(),
    };
    stage.say(format_args!(
        "ui saves its settings every {} ms, in {}",
        SAVE_INTERVAL_NS / 1_000_000,
        folder().display()
    ));
    let desktop = &desktop;
    let mut roles: Vec<Role> = vec![
        role("ui", || desktop.keep_settings()),
        role("mouse", || desktop.changes.strike(desktop.stage)),
    ];
    roles.extend(
        (0..DOWNLOADERS).map(|number| role("downloader", move || desktop.download(number))),
    );
    stage.perform(roles)?;
    let waits = desktop.ui_waits.get().copied().unwrap_or_default();
    let written_mib = desktop.written_mib.load(Ordering::Relaxed);
    stage.say(format_args!(
        "from {:.3} s on ui waited {:.3} s for the disk; the downloaders wrote {written_mib} MiB",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
    ));
    let figures = [("saves", waits.count), ("written_mib", written_mib)];
    let doubt = (written_mib == 0)
        .then(|| "the downloaders wrote nothing: they were not what the ui waited for".to_owned());
    Ok(Outcome::new(&stage, answer(), waits.span, &figures).unless(doubt))
}

fn folder() -> PathBuf {
    std::env::var_os("TMPDIR").map_or("/var/tmp".into(), PathBuf::from)
}

/// A new file that has no name any more.
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
        self.stage.say(format_args!("downloader {number} writes {FILE_MIB} MiB"));
        let file = file(&format!("download-{number}"))?;
        while self.stage.hang_is_on() && !self.has_hung.load(Ordering::Relaxed) {
            self.write_download(&file)?;
        }
        self.stage.say(format_args!("downloader {number} is done"));
        // Freeing a large file is work for the disk as well; that comes after the play.
        self.stage.sleep_until(u64::MAX).map(drop)
    }

    #[inline(never)]
    fn write_download(&self, file: &File) -> io::Result<()> {
        let block = vec![0x5a; MIB as usize];
        for number in 0..FILE_MIB {
            // Who was stopped meanwhile need not wait for the disk.
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
    // Longer each time, so that the journal has to know.
    file.write_all_at(&[0x20; 512], version * 512)?;
    let saved = black_box(sys::sync_file(file));
    stay_on_stack();
    saved
}
