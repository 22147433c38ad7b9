//! `starve`: a lock is released a thousand times a second, and yet its waiter never gets it.
//!
//! The *typing* thread waits in `ppoll` for key strokes, one every 50 ms, and locks the document
//! for each. The *inspector* thread, on another CPU, holds the lock for 1 ms at a time, releases
//! it, and reacquires it at once. Each release wakes the typing thread, but by the time it runs,
//! microseconds later, the lock is taken again.
//!
//! *Why on two CPUs:* on one CPU, the woken thread preempts the inspector inside the release and
//! gets the lock. More CPUs make it worse.
//!
//! *Why the releases are exactly 1 ms apart:* the typing thread gets the lock if a timer tick hits
//! the inspector just between release and lock. Ticks are whole milliseconds apart, so releases
//! that are also whole milliseconds apart either always coincide with them or never. A release
//! after which the lock was nearly lost starts a new schedule. Without this, the wait ends about
//! once a second on a busy machine.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use crate::program::Program;
use crate::span::Span;
use crate::stage::{Longest, Role, Stage, role};
use crate::sys::{self, Guard, Mutex};
use crate::ticker::Ticker;
use crate::work::{compute, stay_on_stack};
use std::hint::black_box;
use std::io;
use std::sync::OnceLock;

const KEY_INTERVAL_NS: u64 = 50_000_000;
const HOLD_NS: u64 = 1_000_000;
/// Minimum number of wake-ups in the wait; with fewer it was not starvation.
const MIN_WAKEUPS: u64 = 20;
/// A lock that is reacquired this long after its planned release was nearly lost.
const LATE_NS: u64 = 30_000;

pub(crate) const PROGRAM: Program = Program {
    name: "starve",
    summary: "an unfair lock is released a thousand times a second, but its waiter on another CPU \
              never gets it",
    answer,
    run,
};

fn answer() -> Answer {
    Answer {
        victim_process: "lab-starve".into(),
        victim_thread: "typing".into(),
        culprit_process: "lab-starve".into(),
        culprit_thread: "inspector".into(),
        also_named: vec![],
        pattern: "lock_starvation".into(),
        kinds: vec!["lock_starvation".into(), "event_loop".into(), "unwanted_wait".into()],
        min_duration_ms: 500,
        victim_function: "lock_document".into(),
        release_function: "release_document".into(),
        culprit_function: "count_pages".into(),
    }
}

struct Document {
    text: String,
    pages: u64,
}

/// What the typing thread measured.
#[derive(Default)]
struct Typed {
    waits: Longest,
    /// How often it went to sleep (and was woken) in the longest wait.
    wakeups: u64,
    /// Number of key strokes that waited at least 100 ms.
    late_keys: u64,
}

struct Editor<'a> {
    stage: &'a Stage,
    document: Mutex<Document>,
    keys: Ticker,
    typed: OnceLock<Typed>,
    holds: OnceLock<u64>,
}

fn run(options: &Options) -> io::Result<Outcome> {
    let stage = Stage::new(PROGRAM.name, options)?;
    let cpus = sys::allowed_cpus()?;
    let &[first_cpu, .., last_cpu] = cpus.as_slice() else {
        return Ok(Outcome::impossible(
            &stage,
            answer(),
            format!("starvation takes two CPUs, but this process may only use {}", cpus.len()),
        ));
    };
    let editor = Editor {
        stage: &stage,
        document: Mutex::new(Document { text: String::new(), pages: 1 }),
        keys: Ticker::new(KEY_INTERVAL_NS)?,
        typed: OnceLock::new(),
        holds: OnceLock::new(),
    };
    stage.print(format_args!(
        "typing (CPU {first_cpu}) gets a key stroke every 50 ms and locks the document for each"
    ));
    let roles: Vec<Role> = vec![
        role("typing", || editor.type_text(first_cpu)),
        role("keyboard", || editor.keys.run(editor.stage)),
        role("inspector", || editor.inspect(last_cpu)),
    ];
    stage.perform(roles)?;
    let (typed, holds) = (
        editor.typed.into_inner().unwrap_or_default(),
        editor.holds.into_inner().unwrap_or_default(),
    );
    let hang = typed.waits.span;
    stage.print(format_args!(
        "the key stroke at {:.3} s waited {:.3} s for the document lock and was woken {} times; {} \
         of {} key strokes waited at least 100 ms",
        stage.seconds_at(hang.start_ns),
        hang.seconds(),
        typed.wakeups,
        typed.late_keys,
        typed.waits.count,
    ));
    let figures = [
        ("keys", typed.waits.count),
        ("late_keys", typed.late_keys),
        ("wakeups", typed.wakeups),
        ("inspector_holds", holds),
    ];
    let doubt = (typed.wakeups < MIN_WAKEUPS)
        .then(|| format!("only {} wake-ups: the lock was held, not reacquired", typed.wakeups));
    Ok(Outcome::new(&stage, answer(), hang, &figures).unless(doubt))
}

impl Editor<'_> {
    #[inline(never)]
    fn type_text(&self, cpu: usize) -> io::Result<()> {
        sys::pin(0, &[cpu])?;
        let mut typed = Typed::default();
        while let Some(keys) = self.keys.wait(self.stage)? {
            (0..keys).for_each(|_| self.insert_character(&mut typed));
        }
        let _ = self.typed.set(typed);
        Ok(())
    }

    #[inline(never)]
    fn insert_character(&self, typed: &mut Typed) {
        let (start_ns, sleeps) = (sys::monotonic_ns(), sys::voluntary_switches());
        let mut document = self.lock_document();
        let waited = Span { start_ns, end_ns: sys::monotonic_ns() };
        document.text.push('x');
        release_document(document);
        typed.late_keys += u64::from(waited.duration_ns() >= 100_000_000);
        if typed.waits.note(waited) {
            typed.wakeups = sys::voluntary_switches() - sleeps;
        }
    }

    #[inline(never)]
    fn lock_document(&self) -> Guard<'_, Document> {
        black_box(self.document.lock())
    }

    #[inline(never)]
    fn inspect(&self, cpu: usize) -> io::Result<()> {
        sys::pin(0, &[cpu])?;
        let mut holds = 0;
        if self.stage.sleep_until(self.stage.hang_start_ns())? {
            self.stage.print(format_args!(
                "inspector (CPU {cpu}) holds the lock for 1 ms at a time, with no gap"
            ));
            let mut release_at_ns = 0;
            while self.stage.hang_is_on() {
                let mut document = self.lock_document();
                let now_ns = sys::monotonic_ns();
                let late = now_ns > release_at_ns + LATE_NS;
                release_at_ns = if late { now_ns } else { release_at_ns } + HOLD_NS;
                count_pages(&mut document, release_at_ns);
                release_document(document);
                holds += 1;
            }
            self.stage.print(format_args!("inspector is done"));
        }
        let _ = self.holds.set(holds);
        Ok(())
    }
}

#[inline(never)]
fn count_pages(document: &mut Document, until_ns: u64) {
    while sys::monotonic_ns() < until_ns {
        compute(&mut document.pages);
    }
}

#[inline(never)]
fn release_document(document: Guard<'_, Document>) {
    drop(document);
    stay_on_stack();
}
