//! `loop-stall`: an event loop that computes in a handler.
//!
//! The *ui* thread waits in `epoll_wait` for the mouse, which moves every 10 ms. Three times it
//! gets a click instead, and the handler of the click lays out a page: 300 ms of CPU time in which
//! no event is handled. No lock is involved; the victim is its own culprit.

use crate::options::Options;
use crate::outcome::{Answer, Outcome, no_cpu_doubt};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Epoll, EventFd};
use crate::work::compute;
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;

const MOUSE_INTERVAL_NS: u64 = 10_000_000;
const LAYOUT_NS: u64 = 300_000_000;
/// When the clicks come, as shares of the run.
const CLICKS: [f64; 3] = [0.3, 0.5, 0.7];

pub(crate) const PROGRAM: Program = Program {
    name: "loop-stall",
    summary: "an event loop that sometimes computes for 300 ms in a handler",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-loop-stall".into(),
        victim_thread: "ui".into(),
        culprit_process: "lab-loop-stall".into(),
        culprit_thread: "ui".into(),
        also_named: vec![],
        pattern: "cpu_bound".into(),
        kinds: vec!["event_loop".into()],
        min_duration_ms: 250,
        victim_function: "lay_out_page".into(),
        release_function: String::new(),
        culprit_function: "lay_out_page".into(),
    }
}

struct Window<'a> {
    stage: &'a Stage,
    moves: EventFd,
    clicks: EventFd,
    /// The stalls, and the CPU time in the longest one in nanoseconds.
    stalls: OnceLock<(Longest, u64)>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let window = Window {
        stage: &stage,
        moves: EventFd::new()?,
        clicks: EventFd::new()?,
        stalls: OnceLock::new(),
    };
    stage.print(format_args!("ui handles mouse moves, one every 10 ms"));
    let roles: Vec<Role> = vec![
        role("ui", || window.run_event_loop()),
        role("mouse", || window.move_mouse()),
        role("mouse-button", || window.click()),
    ];
    stage.perform(roles)?;
    let (stalls, cpu_ns) = window.stalls.into_inner().unwrap_or_default();
    stage.print(format_args!(
        "the click at {:.3} s kept the event loop busy for {:.3} s, {:.3} s of it on a CPU; {} \
         clicks in total",
        stage.seconds_at(stalls.span.start_ns),
        stalls.span.seconds(),
        cpu_ns as f64 / 1e9,
        stalls.count,
    ));
    let figures = [("stalls", stalls.count), ("cpu_ms", cpu_ns / 1_000_000)];
    Ok(Outcome::new(&stage, answer(), stalls.span, &figures).unless(no_cpu_doubt(
        "ui",
        stalls.span,
        cpu_ns,
    )))
}

impl Window<'_> {
    fn move_mouse(&self) -> io::Result<()> {
        while self.stage.sleep_until(sys::monotonic_ns() + MOUSE_INTERVAL_NS)? {
            self.moves.set();
        }
        Ok(())
    }

    fn click(&self) -> io::Result<()> {
        for share in CLICKS {
            if self.stage.sleep_until(self.stage.moment_ns(share))? {
                self.stage.print(format_args!("click"));
                self.clicks.set();
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn run_event_loop(&self) -> io::Result<()> {
        let events =
            Epoll::new(&[self.moves.as_fd(), self.clicks.as_fd(), self.stage.curtain().as_fd()])?;
        let mut stalls = (Longest::default(), 0);
        while self.stage.is_open() {
            match events.wait()? {
                Some(0) => drop(black_box(self.moves.take())),
                Some(1) => self.handle_click(&mut stalls),
                _ => {}
            }
        }
        let _ = self.stalls.set(stalls);
        Ok(())
    }

    #[inline(never)]
    fn handle_click(&self, (stalls, longest_cpu_ns): &mut (Longest, u64)) {
        self.clicks.take();
        let (start_ns, cpu_start_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        // The second page takes longest, so that there is one longest stall to find.
        self.lay_out_page(if stalls.count == 1 { LAYOUT_NS + LAYOUT_NS / 3 } else { LAYOUT_NS });
        if stalls.note(Span { start_ns, end_ns: sys::monotonic_ns() }) {
            *longest_cpu_ns = sys::thread_cpu_ns() - cpu_start_ns;
        }
    }

    #[inline(never)]
    fn lay_out_page(&self, layout_ns: u64) {
        let until_ns = sys::thread_cpu_ns() + layout_ns;
        let mut page = 1;
        while sys::thread_cpu_ns() < until_ns && self.stage.is_open() {
            for _ in 0..100 {
                compute(&mut page);
            }
        }
        black_box(page);
    }
}
