//! `stopped`: a process is stopped (SIGSTOP) while it holds a lock that another process needs.
//!
//! Every 20 ms, the *ui* acquires the lock of a ledger, in memory shared with the *lab-backup*
//! process. The backup also acquires it, every 50 ms for 2 ms. Then the backup copies the whole
//! ledger, which takes 40 ms of CPU time with the lock held. In the middle of that, the *operator*
//! thread stops it, as Ctrl-Z would, and continues it 800 ms later.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, FairGuard, FairMutex, Shared};
use crate::ticker::Ticker;
use crate::work::{compute, stay_on_stack};
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

const LOOKUP_INTERVAL_NS: u64 = 20_000_000;
const BACKUP_INTERVAL_NS: u64 = 50_000_000;
/// CPU time of an ordinary backup, and of the one that is stopped.
const SMALL_COPY_NS: u64 = 2_000_000;
const LARGE_COPY_NS: u64 = 40_000_000;
const STOPPED_NS: u64 = 800_000_000;

pub(crate) const PROGRAM: Program = Program {
    name: "stopped",
    summary: "a process is stopped by a signal while it holds a lock that it shares with another",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-stopped".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-backup".into(),
        culprit_thread: "lab-backup".into(),
        also_named: vec![],
        pattern: "stopped".into(),
        kinds: vec!["event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: 500,
        victim_function: "lock_ledger".into(),
        release_function: "release_ledger".into(),
        culprit_function: "copy_ledger".into(),
    }
}

struct Accounts<'a> {
    stage: &'a Stage,
    requests: Ticker,
    ledger: Shared<FairMutex<u64>>,
    /// Pid of the process that is copying the whole ledger, or zero.
    copying: Shared<AtomicI32>,
    ui_waits: OnceLock<Longest>,
    stopped: OnceLock<Span>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let accounts = Accounts {
        stage: &stage,
        requests: Ticker::new(LOOKUP_INTERVAL_NS)?,
        ledger: Shared::new(FairMutex::new(1))?,
        copying: Shared::new(AtomicI32::new(0))?,
        ui_waits: OnceLock::new(),
        stopped: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui does a look-up every 20 ms; the backup copies now and then, under the same lock"
    ));
    let processes: Vec<Role> = vec![role("lab-backup", || accounts.back_up())];
    let roles: Vec<Role> = vec![
        role("ui", || accounts.show_entries()),
        role("reader", || accounts.requests.run(accounts.stage)),
        role("operator", || accounts.stop_backup()),
    ];
    stage.perform_with(processes, roles)?;
    let waits = accounts.ui_waits.get().copied().unwrap_or_default();
    let stopped = accounts.stopped.get().copied().unwrap_or_default();
    stage.print(format_args!(
        "the look-up at {:.3} s waited {:.3} s for the ledger; the backup was stopped for {:.3} s",
        stage.seconds_at(waits.span.start_ns),
        waits.span.seconds(),
        stopped.seconds(),
    ));
    let figures = [("lookups", waits.count), ("stopped_ms", stopped.duration_ns() / 1_000_000)];
    Ok(Outcome::new(&stage, answer(), waits.span, &figures))
}

impl Accounts<'_> {
    #[inline(never)]
    fn show_entries(&self) -> io::Result<()> {
        let mut waits = Longest::default();
        while self.requests.wait(self.stage)?.is_some() {
            waits.note(self.look_up());
        }
        let _ = self.ui_waits.set(waits);
        Ok(())
    }

    #[inline(never)]
    fn look_up(&self) -> Span {
        let start_ns = sys::monotonic_ns();
        let ledger = self.lock_ledger();
        let waited = Span { start_ns, end_ns: sys::monotonic_ns() };
        black_box(*ledger);
        release_ledger(ledger);
        waited
    }

    #[inline(never)]
    fn lock_ledger(&self) -> FairGuard<'_, u64> {
        black_box(self.ledger.lock())
    }

    #[inline(never)]
    fn back_up(&self) -> io::Result<()> {
        let mut large_copy_at_ns = self.stage.hang_start_ns();
        while self.stage.sleep_until(sys::monotonic_ns() + BACKUP_INTERVAL_NS)? {
            let large = sys::monotonic_ns() >= large_copy_at_ns;
            let mut ledger = self.lock_ledger();
            if large {
                large_copy_at_ns = u64::MAX;
                self.copying.store(std::process::id() as i32, Ordering::Relaxed);
            }
            copy_ledger(&mut ledger, if large { LARGE_COPY_NS } else { SMALL_COPY_NS });
            self.copying.store(0, Ordering::Relaxed);
            release_ledger(ledger);
        }
        Ok(())
    }

    #[inline(never)]
    fn stop_backup(&self) -> io::Result<()> {
        self.stage.sleep_until(self.stage.hang_start_ns())?;
        while self.stage.hang_is_on() {
            let backup = self.copying.load(Ordering::Relaxed);
            if backup != 0 {
                let start_ns = sys::monotonic_ns();
                sys::send_signal(backup, libc::SIGSTOP);
                self.stage
                    .print(format_args!("operator has stopped the backup, which holds the lock"));
                self.stage.sleep_until(start_ns + STOPPED_NS)?;
                sys::send_signal(backup, libc::SIGCONT);
                self.stage.print(format_args!("operator has continued the backup"));
                let _ = self.stopped.set(Span { start_ns, end_ns: sys::monotonic_ns() });
                break;
            }
            self.stage.sleep_until(sys::monotonic_ns() + 2_000_000)?;
        }
        Ok(())
    }
}

#[inline(never)]
fn copy_ledger(ledger: &mut u64, cpu_time_ns: u64) {
    let until_ns = sys::thread_cpu_ns() + cpu_time_ns;
    while sys::thread_cpu_ns() < until_ns {
        for _ in 0..10 {
            compute(ledger);
        }
    }
}

#[inline(never)]
fn release_ledger(ledger: FairGuard<'_, u64>) {
    drop(ledger);
    stay_on_stack();
}
