//! `saturate`: a lock is held for a fifth of a millisecond at a time, by so many threads that it is
//! never free.
//!
//! A pool of 24 *session* threads closes sessions: each acquires the lock of the session table,
//! computes for 150 to 250 µs, and queues again. The lock is handed off in order of arrival, so no
//! thread starves, but each finds 24 others in front of it. The *ui* acquires it for each frame,
//! which nobody notices, and after a click for each of the 150 sessions that it shows: 150 waits of
//! 5 ms.
//!
//! *Why a single click:* if all frames took the same time, the longest would be a matter of chance.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
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

const SESSION_THREADS: usize = 24;
const SESSIONS_SHOWN: u64 = 150;
const HOLD_NS: std::ops::Range<u64> = 150_000..250_000;
const FRAME_NS: u64 = 16_000_000;
/// Interval between two sessions of a thread while nothing hangs.
const ORDINARY_INTERVAL_NS: u64 = 100_000_000;
/// When the click comes, as a share of the run.
const CLICK: f64 = 0.35;

pub(crate) const PROGRAM: Program = Program {
    name: "saturate",
    summary: "24 threads hold a lock for 0.2 ms at a time, so it is never free; the user interface \
              acquires it 150 times",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-saturate".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-saturate".into(),
        culprit_thread: "session".into(),
        also_named: vec![],
        pattern: "saturated_lock".into(),
        kinds: vec![
            "event_loop".into(),
            "unwanted_wait".into(),
            "machine".into(),
            "lock_starvation".into(),
        ],
        min_duration_ms: 300,
        victim_function: "lock_sessions".into(),
        release_function: "release_sessions".into(),
        culprit_function: "close_session".into(),
    }
}

struct Sessions {
    closed: u64,
    state: u64,
}

/// What the ui measured.
#[derive(Default)]
struct Drawn {
    frames: Longest,
    /// In the longest frame, in nanoseconds: the sum of all waits for the lock, and the longest
    /// wait.
    waited_ns: u64,
    longest_wait_ns: u64,
}

struct Server<'a> {
    stage: &'a Stage,
    frames: Ticker,
    sessions: FairMutex<Sessions>,
    closed_in_hang: AtomicU64,
    drawn: OnceLock<Drawn>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let server = Server {
        stage: &stage,
        frames: Ticker::new(FRAME_NS)?,
        sessions: FairMutex::new(Sessions { closed: 0, state: 1 }),
        closed_in_hang: AtomicU64::new(0),
        drawn: OnceLock::new(),
    };
    stage.print(format_args!(
        "ui and {SESSION_THREADS} session threads lock the session table now and then"
    ));
    let mut roles: Vec<Role> = vec![
        role("ui", || server.draw_frames()),
        role("display", || server.frames.run(server.stage)),
    ];
    roles.extend((0..SESSION_THREADS).map(|_| role("session", || server.serve())));
    stage.perform(roles)?;
    let Drawn { frames, waited_ns, longest_wait_ns } =
        server.drawn.into_inner().unwrap_or_default();
    let hang = frames.span;
    stage.print(format_args!(
        "the frame at {:.3} s took {:.3} s: {SESSIONS_SHOWN} waits for the lock, {:.3} s in total, \
         at most {:.1} ms",
        stage.seconds_at(hang.start_ns),
        hang.seconds(),
        waited_ns as f64 / 1e9,
        longest_wait_ns as f64 / 1e6,
    ));
    let figures = [
        ("frames", frames.count),
        ("waited_ms", waited_ns / 1_000_000),
        ("longest_wait_us", longest_wait_ns / 1_000),
        ("closed_in_hang", server.closed_in_hang.into_inner()),
    ];
    let hang_ns = hang.duration_ns();
    let doubt = if waited_ns * 2 < hang_ns {
        Some(
            "for most of the hang, ui did not wait for the lock: the machine is too busy"
                .to_owned(),
        )
    } else {
        (longest_wait_ns * 3 > hang_ns)
            .then(|| "a single wait was most of the hang: the machine is too busy".to_owned())
    };
    Ok(Outcome::new(&stage, answer(), hang, &figures).unless(doubt))
}

impl Server<'_> {
    #[inline(never)]
    fn draw_frames(&self) -> io::Result<()> {
        let mut drawn = Drawn::default();
        let mut click_at_ns = self.stage.moment_ns(CLICK);
        while self.frames.wait(self.stage)?.is_some() {
            let clicked = sys::monotonic_ns() >= click_at_ns;
            if clicked {
                self.stage.print(format_args!("click: ui shows {SESSIONS_SHOWN} sessions"));
                click_at_ns = u64::MAX;
            }
            self.draw_frame(if clicked { SESSIONS_SHOWN } else { 1 }, &mut drawn);
        }
        let _ = self.drawn.set(drawn);
        Ok(())
    }

    #[inline(never)]
    fn draw_frame(&self, sessions: u64, drawn: &mut Drawn) {
        let start_ns = sys::monotonic_ns();
        let (mut waited_ns, mut longest_wait_ns) = (0, 0);
        for _ in (0..sessions).take_while(|_| self.stage.is_open()) {
            let wait_ns = self.draw_session();
            waited_ns += wait_ns;
            longest_wait_ns = wait_ns.max(longest_wait_ns);
        }
        if drawn.frames.note(Span { start_ns, end_ns: sys::monotonic_ns() }) {
            (drawn.waited_ns, drawn.longest_wait_ns) = (waited_ns, longest_wait_ns);
        }
    }

    /// Returns how long it waited for the lock, in nanoseconds.
    #[inline(never)]
    fn draw_session(&self) -> u64 {
        let start_ns = sys::monotonic_ns();
        let sessions = self.lock_sessions();
        let wait_ns = sys::monotonic_ns() - start_ns;
        black_box(sessions.closed);
        release_sessions(sessions);
        wait_ns
    }

    #[inline(never)]
    fn lock_sessions(&self) -> FairGuard<'_, Sessions> {
        black_box(self.sessions.lock())
    }

    #[inline(never)]
    fn serve(&self) -> io::Result<()> {
        // Together they keep a CPU busy. Other threads that share it should not hang, too.
        sys::set_nice(0)?;
        while self.stage.is_open() {
            let now_ns = sys::monotonic_ns();
            let in_hang = now_ns >= self.stage.hang_start_ns() && self.stage.hang_is_on();
            if !in_hang {
                let next_ns = now_ns + ORDINARY_INTERVAL_NS;
                let hang_start_ns = self.stage.hang_start_ns();
                self.stage.sleep_until(if now_ns < hang_start_ns {
                    next_ns.min(hang_start_ns)
                } else {
                    next_ns
                })?;
            }
            self.close_next_session();
            self.closed_in_hang.fetch_add(u64::from(in_hang), Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline(never)]
    fn close_next_session(&self) {
        let mut sessions = self.lock_sessions();
        close_session(&mut sessions);
        release_sessions(sessions);
        stay_on_stack();
    }
}

#[inline(never)]
fn close_session(sessions: &mut Sessions) {
    sessions.closed += 1;
    let spread_ns = HOLD_NS.end - HOLD_NS.start;
    // Make each hold differ from its neighbours, without randomness.
    let until_ns = sys::monotonic_ns() + HOLD_NS.start + sessions.closed * 37_000 % spread_ns;
    while sys::monotonic_ns() < until_ns {
        compute(&mut sessions.state);
    }
}

#[inline(never)]
fn release_sessions(sessions: FairGuard<'_, Sessions>) {
    drop(sessions);
    stay_on_stack();
}
