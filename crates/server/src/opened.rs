//! An opened trace: one thread owns the trace and everything computed from it, and a few more
//! answer questions about it.
//!
//! *Why a thread owns it:* an analysis borrows its trace, so both live on one stack for as long as
//! there can be questions, which come to them as closures. *Why not the runtime's blocking
//! threads:* when a trace is closed, all of its memory goes with its thread, and a question that
//! panics breaks nothing else.

use crate::loaded::Loaded;
use crate::{Error, Tools};
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use unhitch_analysis::{Analysis, Cancel};

/// Maximum time that a request waits for a trace to be read; then it is asked to try again.
const MAX_WAIT: Duration = Duration::from_secs(60);
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
            Self::Judging => "judging",
            Self::Ready => "ready",
        }
    }
}

/// The progress of opening a trace, or why it cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub stage: Stage,
    pub failed: Option<String>,
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
        entry.extend(self.failed.clone().map(|why| ("error".to_owned(), Value::from(why))));
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

type Job = Box<dyn for<'a, 't> FnOnce(&'a Loaded<'t>) + Send>;

/// A trace that is being read, or was.
pub(crate) struct Opened {
    jobs: Sender<Job>,
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
        let (jobs, queue) = channel();
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
            let result = catch_unwind(AssertUnwindSafe(|| own(&path, &tools, &progress, queue)));
            let failed = match result {
                Ok(Ok(())) => return,
                Ok(Err(why)) => clean(&why),
                Err(_) => "reading the trace failed unexpectedly".to_owned(),
            };
            progress.send_modify(|status| status.failed = Some(failed));
        };
        thread::Builder::new()
            .name("trace".to_owned())
            .spawn(owner)
            .map_err(Error::io("a thread"))?;
        Ok(Self { jobs, status, bytes })
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
        let job: Job = Box::new(move |loaded| {
            // The question may be stale already: the page has scrolled on.
            let result =
                cancel.check().map_err(Error::from).and_then(|()| question(loaded, &cancel));
            let _ = answer.send(result);
        });
        self.jobs.send(job).map_err(|_| Error::Broken)?;
        answered.await.unwrap_or(Err(Error::Broken))
    }
}

/// Reads a trace, answers questions about it, and closes it when no more can come.
fn own(
    path: &std::path::Path,
    tools: &Tools,
    progress: &watch::Sender<Status>,
    queue: Receiver<Job>,
) -> Result<(), String> {
    let trace = (tools.open)(path)?;
    progress.send_modify(|status| (status.stage, status.since) = (Stage::Indexing, Instant::now()));
    let analysis = Analysis::new(&trace, &tools.rules);
    let loaded = Loaded::new(&trace, &analysis, tools)?;
    loaded.prepare();
    progress.send_modify(|status| {
        (status.stage, status.since, status.facts) =
            (Stage::Judging, Instant::now(), Some(loaded.facts()));
    });
    let queue = Mutex::new(queue);
    let workers = thread::available_parallelism()
        .map_or(MIN_WORKERS, usize::from)
        .clamp(MIN_WORKERS, MAX_WORKERS);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(&queue, &loaded));
        }
        // A bug here must not close the trace: its lanes and tables are still useful.
        let first = catch_unwind(AssertUnwindSafe(|| loaded.judge()))
            .unwrap_or_else(|_| loaded.judge_failed());
        progress.send_modify(|status| {
            (status.stage, status.first_answer) = (Stage::Ready, Some(first))
        });
    });
    Ok(())
}

/// Answers questions until no more can come.
fn work(queue: &Mutex<Receiver<Job>>, loaded: &Loaded<'_>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // A panic prints its message to standard error, and the request gets an error.
        let _ = catch_unwind(AssertUnwindSafe(|| job(loaded)));
    }
}
