//! An opened trace: one thread owns the trace and everything computed from it, a few more answer
//! questions about it.
//!
//! *Why a thread owns it:* an analysis borrows its trace, so both live on one stack, for as long as
//! somebody may ask; questions come to them as closures. *Why not the runtime's own blocking
//! threads:* when a trace is closed all of its memory goes with its thread, and a question that
//! breaks takes nothing with it.

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

/// A request waits so long for a trace to be read before it is told to ask again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Questions answered at once, at least and at most.
const LEAST_WORKERS: usize = 2;
const MOST_WORKERS: usize = 8;
/// What is guessed of the speed of reading, for the progress that is shown.
const BYTES_PER_SECOND: f64 = 150e6;

/// How far a trace is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// Its records are being read.
    Reading,
    /// Its lanes are being built.
    Indexing,
    /// Lanes and tables answer; its stalls are being looked for.
    Judging,
    /// Everything answers.
    Ready,
}

impl Stage {
    /// The word for it in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Indexing => "indexing",
            Self::Judging => "judging",
            Self::Ready => "ready",
        }
    }
}

/// How far a trace is, or why it cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub stage: Stage,
    pub failed: Option<String>,
    since: Instant,
    /// What kind of trace it is, once it is read.
    facts: Option<Map<String, Value>>,
    /// The worst stall, once that is known.
    first_answer: Option<Value>,
}

impl Status {
    /// What the list of traces says of it.
    pub fn told(&self) -> Map<String, Value> {
        let mut told = self.facts.clone().unwrap_or_default();
        told.extend(self.first_answer.clone().map(|first| ("first_answer".to_owned(), first)));
        told.extend(self.failed.clone().map(|why| ("error".to_owned(), Value::from(why))));
        told
    }
}

/// Says so when the request's future is dropped.
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
    /// Begins to read the trace at `path`; `clean` takes paths out of what is told when that fails.
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
        let (told, status) = watch::channel(begin);
        let owner = move || {
            let told = AssertUnwindSafe(&told);
            let own = catch_unwind(AssertUnwindSafe(|| own(&path, &tools, &told, queue)));
            let failed = match own {
                Ok(Ok(())) => return,
                Ok(Err(why)) => clean(&why),
                Err(_) => "reading it failed unexpectedly".to_owned(),
            };
            told.send_modify(|status| status.failed = Some(failed));
        };
        thread::Builder::new()
            .name("trace".to_owned())
            .spawn(owner)
            .map_err(Error::io("a thread"))?;
        Ok(Self { jobs, status, bytes })
    }

    /// How far it is, with a guess from 0 to 1.
    pub fn status(&self) -> (Status, f64) {
        let status = self.status.borrow().clone();
        let elapsed = status.since.elapsed().as_secs_f64();
        // Approaches its end without ever being there: guesses that stand still look broken.
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

    /// Asks a question once the trace is as far as `need`; its answer, unless it cannot be read.
    pub async fn ask<R: Send + 'static>(
        &self,
        need: Stage,
        question: impl FnOnce(&Loaded<'_>, &Cancel) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let mut status = self.status.clone();
        let far_enough = status.wait_for(|status| status.failed.is_some() || status.stage >= need);
        match tokio::time::timeout(PATIENCE, far_enough).await {
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
            // Stale before it began: the page has scrolled on.
            let result =
                cancel.check().map_err(Error::from).and_then(|()| question(loaded, &cancel));
            let _ = answer.send(result);
        });
        self.jobs.send(job).map_err(|_| Error::Broken)?;
        answered.await.unwrap_or(Err(Error::Broken))
    }
}

/// Reads, answers and closes a trace: ends when nobody can ask any more.
fn own(
    path: &std::path::Path,
    tools: &Tools,
    told: &watch::Sender<Status>,
    queue: Receiver<Job>,
) -> Result<(), String> {
    let trace = (tools.open)(path)?;
    told.send_modify(|status| (status.stage, status.since) = (Stage::Indexing, Instant::now()));
    let analysis = Analysis::new(&trace, &tools.rules);
    let loaded = Loaded::new(&trace, &analysis, tools)?;
    loaded.prepare();
    told.send_modify(|status| {
        (status.stage, status.since, status.facts) =
            (Stage::Judging, Instant::now(), Some(loaded.facts()));
    });
    let queue = Mutex::new(queue);
    let workers = thread::available_parallelism()
        .map_or(LEAST_WORKERS, usize::from)
        .clamp(LEAST_WORKERS, MOST_WORKERS);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(&queue, &loaded));
        }
        // A defect here must not close the trace: its lanes and tables tell something all the same.
        let first = catch_unwind(AssertUnwindSafe(|| loaded.judge()))
            .unwrap_or_else(|_| loaded.judge_failed());
        told.send_modify(|status| {
            (status.stage, status.first_answer) = (Stage::Ready, Some(first))
        });
    });
    Ok(())
}

/// Answers questions until there can be no more.
fn work(queue: &Mutex<Receiver<Job>>, loaded: &Loaded<'_>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // What breaks is told on standard error; who asked sees that the answer will not come.
        let _ = catch_unwind(AssertUnwindSafe(|| job(loaded)));
    }
}
