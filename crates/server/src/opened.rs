//! An opened trace: one thread owns the trace and everything computed from it, and a few more
//! answer questions about it.
//!
//! Of a long recording, the newest part is read first ([`Tools::open_newest`]) and answers questions
//! about lanes and tables until all of it is read. Threads have the same numbers in both, and times the
//! same origin, so that a question may be answered by either.
//!
//! *Why a thread owns it:* an analysis borrows its trace, so both live on one stack for as long as
//! there can be questions, which come to them as closures. *Why not the runtime's blocking
//! threads:* when a trace is closed, all of its memory goes with its thread, and a question that
//! panics breaks nothing else.

use crate::loaded::{Loaded, yield_to_others};
use crate::questions::{Questions, Turn};
use crate::{Error, Tools, Unreadable};
use rayon::ThreadPool;
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use unhitch_analysis::{Analysis, Cancel};

/// Maximum time that a request waits for a trace to be read; then it is asked to try again.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The rest of a trace is read once nothing has been asked of its newest part for so long, which is when
/// the page has drawn it.
const CALM: Duration = Duration::from_millis(150);
/// It is read after so long in any case.
const MAX_CALM: Duration = Duration::from_secs(1);
/// Minimum threads that answer questions.
const MIN_WORKERS: usize = 2;
/// Maximum threads that answer questions.
const MAX_WORKERS: usize = 8;
/// Assumed speed of reading, for the progress display.
const BYTES_PER_SECOND: f64 = 150e6;

/// A stage of opening a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Its records are being read.
    Reading,
    /// Its lanes are being built.
    Indexing,
    /// Lanes and tables of its newest part answer; the rest is being read.
    Newest,
    /// Lanes and tables answer; the search for stalls is running.
    Judging,
    /// Everything answers.
    Ready,
}

impl Stage {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Indexing => "indexing",
            Self::Newest => "newest",
            Self::Judging => "judging",
            Self::Ready => "ready",
        }
    }
}

/// The progress of opening a trace, or why it cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub stage: Stage,
    pub failed: Option<Unreadable>,
    since: Instant,
    /// What the list of traces shows of it, once it is read.
    facts: Option<Map<String, Value>>,
    /// The worst stall, once it is known.
    first_answer: Option<Value>,
}

impl Status {
    /// What the list of traces shows of it.
    pub fn entry(&self) -> Map<String, Value> {
        let mut entry = self.facts.clone().unwrap_or_default();
        entry.extend(self.first_answer.clone().map(|first| ("first_answer".to_owned(), first)));
        entry.extend(self.failed.iter().flat_map(Unreadable::entry));
        entry
    }
}

/// Cancels a question when the request's future is dropped.
struct CancelOnDrop(Arc<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// A trace that is being read, or was.
pub(crate) struct Opened {
    questions: Arc<Questions>,
    status: watch::Receiver<Status>,
    bytes: u64,
}

impl Opened {
    /// Begins to read the trace at `path`. `clean` removes paths from the message if that fails.
    pub fn new(
        path: PathBuf,
        bytes: u64,
        tools: Arc<Tools>,
        clean: impl Fn(&str) -> String + Send + 'static,
    ) -> Result<Self, Error> {
        let questions = Arc::new(Questions::default());
        let asked = Arc::clone(&questions);
        let begin = Status {
            stage: Stage::Reading,
            failed: None,
            since: Instant::now(),
            facts: None,
            first_answer: None,
        };
        let (progress, status) = watch::channel(begin);
        let owner = move || {
            let progress = AssertUnwindSafe(&progress);
            let result = catch_unwind(AssertUnwindSafe(|| own(&path, &tools, &progress, &asked)));
            let failed = match result {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why.cleaned(clean),
                Err(_) => Unreadable::Bug,
            };
            progress.send_modify(|status| status.failed = Some(failed));
        };
        thread::Builder::new()
            .name("trace".to_owned())
            .spawn(owner)
            .map_err(Error::io("a thread"))?;
        Ok(Self { questions, status, bytes })
    }

    /// Its status, with an estimate of the progress from 0 to 1.
    pub fn status(&self) -> (Status, f64) {
        let status = self.status.borrow().clone();
        let elapsed = status.since.elapsed().as_secs_f64();
        // Approaches the end without reaching it: a progress bar that stands still looks broken.
        let part = |expected: f64| 1.0 - (-2.0 * elapsed / expected.max(0.05)).exp();
        let reading = self.bytes as f64 / BYTES_PER_SECOND;
        let progress = match status.stage {
            Stage::Reading => 0.6 * part(reading),
            Stage::Indexing => 0.6 + 0.1 * part(reading / 4.0),
            // It goes on from where reading was.
            Stage::Newest => 0.7 * part(reading * 7.0 / 6.0),
            Stage::Judging => 0.7 + 0.3 * part(reading),
            Stage::Ready => 1.0,
        };
        (status, progress)
    }

    /// Asks a question once the trace has reached the stage `need`.
    pub async fn ask<R: Send + 'static>(
        &self,
        need: Stage,
        question: impl FnOnce(&Loaded<'_>, &Cancel) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let mut status = self.status.clone();
        let far_enough = status.wait_for(|status| status.failed.is_some() || status.stage >= need);
        match tokio::time::timeout(MAX_WAIT, far_enough).await {
            Ok(Ok(status)) => {
                status.failed.clone().map_or(Ok(()), |why| Err(Error::Unreadable(why)))?
            }
            Ok(Err(_)) => return Err(Error::Broken),
            Err(_) => return Err(Error::NotReady),
        }
        let cancel = Arc::new(Cancel::never());
        let _guard = CancelOnDrop(Arc::clone(&cancel));
        let (answer, answered) = oneshot::channel();
        self.questions.ask(Box::new(move |loaded| {
            // The question may be stale already: the page has scrolled on.
            let result =
                cancel.check().map_err(Error::from).and_then(|()| question(loaded, &cancel));
            let _ = answer.send(result);
        }));
        answered.await.unwrap_or(Err(Error::Broken))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.questions.turn(Turn::Closed);
    }
}

/// Reads a trace, answers questions about it, and closes it when no more can come.
fn own(
    path: &Path,
    tools: &Tools,
    progress: &watch::Sender<Status>,
    questions: &Questions,
) -> Result<(), Unreadable> {
    thread::scope(|scope| {
        let (begun, answers) = channel();
        scope.spawn(move || {
            // After a bug here, all of the trace still answers.
            let newest = || answer_newest(path, tools, progress, questions, &begun);
            let _ = catch_unwind(AssertUnwindSafe(newest));
        });
        // Until the newest part answers, or there is none.
        let is_shown = answers.recv().is_ok();
        if is_shown {
            questions.wait_for_calm(CALM, MAX_CALM);
        }
        let whole = || answer(path, tools, progress, questions, Reading::new(is_shown));
        let result = catch_unwind(AssertUnwindSafe(whole));
        // Also after a bug, or the newest part would be shown for ever.
        questions.turn(Turn::Closed);
        result.unwrap_or_else(|bug| resume_unwind(bug))
    })
}

/// Reads the newest part of a trace, and answers questions about it until all of it does.
fn answer_newest(
    path: &Path,
    tools: &Tools,
    progress: &watch::Sender<Status>,
    questions: &Questions,
    begun: &Sender<()>,
) -> Option<()> {
    let trace = (tools.open_newest)(path)?;
    let analysis = Analysis::new(&trace, &tools.rules);
    let loaded = Loaded::new(&trace, &analysis, tools).ok()?;
    loaded.prepare();
    progress.send_modify(|status| status.stage = Stage::Newest);
    let _ = begun.send(());
    thread::scope(|scope| start_workers(scope, questions, Turn::Newest, &loaded));
    Some(())
}

/// Where all of a trace is read.
struct Reading(Option<ThreadPool>);

impl Reading {
    /// While its newest part is shown, on threads that yield to those that show it.
    fn new(is_shown: bool) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().start_handler(|_| yield_to_others());
        Self(is_shown.then(|| pool.build().ok()).flatten())
    }

    fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// Reads all of a trace, and answers questions about it.
fn answer(
    path: &Path,
    tools: &Tools,
    progress: &watch::Sender<Status>,
    questions: &Questions,
    reading: Reading,
) -> Result<(), Unreadable> {
    let trace = reading.run(|| (tools.open)(path))?;
    progress.send_modify(|status| {
        if status.stage < Stage::Indexing {
            (status.stage, status.since) = (Stage::Indexing, Instant::now());
        }
    });
    let analysis = reading.run(|| Analysis::new(&trace, &tools.rules));
    let loaded =
        reading.run(|| Loaded::new(&trace, &analysis, tools)).map_err(Unreadable::Refused)?;
    reading.run(|| loaded.prepare());
    drop(reading);
    questions.turn(Turn::Whole);
    progress.send_modify(|status| {
        (status.stage, status.since, status.facts) =
            (Stage::Judging, Instant::now(), Some(loaded.facts()));
    });
    thread::scope(|scope| {
        start_workers(scope, questions, Turn::Whole, &loaded);
        // A bug here must not close the trace: its lanes and tables are still useful.
        let first = catch_unwind(AssertUnwindSafe(|| loaded.judge()))
            .unwrap_or_else(|_| loaded.judge_failed());
        progress.send_modify(|status| {
            (status.stage, status.first_answer) = (Stage::Ready, Some(first))
        });
    });
    Ok(())
}

/// Answers questions on a few threads, as long as it is the turn of what was `loaded`.
fn start_workers<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    questions: &'scope Questions,
    turn: Turn,
    loaded: &'scope Loaded<'_>,
) {
    let workers = thread::available_parallelism()
        .map_or(MIN_WORKERS, usize::from)
        .clamp(MIN_WORKERS, MAX_WORKERS);
    for _ in 0..workers {
        scope.spawn(move || {
            while let Some(question) = questions.next(turn) {
                // A panic prints its message to standard error, and the request gets an error.
                let _ = catch_unwind(AssertUnwindSafe(|| question(loaded)));
            }
        });
    }
}
