//! Judges the traces of a folder, one after the other, so that the list can show what each of them
//! holds before anybody opens it.
//!
//! One thread of low priority does it. It waits while a trace that somebody opened is being read,
//! and keeps nothing but what the list shows.

use crate::app::App;
use crate::opened::Stage;
use crate::trace_folder::Stamp;
use crate::verdict::{facts, verdict};
use crate::{Tools, Unreadable};
use rayon::ThreadPool;
use serde_json::{Map, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use unhitch_analysis::{Analysis, Query};

/// Maximum size of a file that is judged without being asked for, bytes: reading takes several
/// times its size of memory.
pub(crate) const MAX_BYTES: u64 = 512 << 20;
/// How often it looks whether an open trace has been read.
const PAUSE: Duration = Duration::from_millis(200);

/// A file of this size keeps a core busy for seconds, bytes. It is judged a little later: who looks at a
/// list mostly opens a trace of it first.
const LONG_BYTES: u64 = 32 << 20;
const BEFORE_LONG: Duration = Duration::from_secs(2);

/// Begins to judge what has not been judged, if nothing is being judged already.
pub(crate) fn start(app: &Arc<App>) {
    if app.folder.single().is_some() {
        return;
    }
    let mut judging = app.judging();
    if judging.is_some() {
        return;
    }
    let Some(next) = next(app) else { return };
    *judging = Some(next.0.clone());
    drop(judging);
    let weak = Arc::downgrade(app);
    let begun =
        thread::Builder::new().name("background".to_owned()).spawn(move || run(&weak, next));
    if begun.is_err() {
        // Without a thread, traces are judged when they are opened.
        *app.judging() = None;
    }
}

type Job = (String, PathBuf, Stamp);

/// The next trace to judge.
fn next(app: &App) -> Option<Job> {
    let is_unknown = |name: &String| {
        let (path, stamp) = app.folder.find(name).ok()?;
        let (loaded, known) = app.known(name, stamp);
        let entry = app.folder.entry(name).ok()?;
        let open = stamp.bytes <= MAX_BYTES && entry["error"].is_null();
        (open && !loaded && known.is_empty()).then(|| (name.clone(), path, stamp))
    };
    app.folder.names().ok()?.iter().find_map(is_unknown)
}

fn run(app: &Weak<App>, first: Job) {
    crate::loaded::yield_to_others();
    // Of its own, so that reading does not take the threads that serve the page.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .start_handler(|_| crate::loaded::yield_to_others())
        .build();
    let mut job = Some(first);
    while let (Some((name, path, stamp)), Ok(pool)) = (job.take(), &pool) {
        if stamp.bytes >= LONG_BYTES {
            thread::sleep(BEFORE_LONG);
        }
        let Some(app) = app.upgrade() else { return };
        while app.open().iter().any(|(.., opened)| is_busy(&opened.status().0)) {
            thread::sleep(PAUSE);
        }
        // It may have been opened meanwhile, which has judged it.
        let (loaded, known) = app.known(&name, stamp);
        if !loaded && known.is_empty() {
            app.closed().insert(name, (stamp, entry_of(&app, &path, pool)));
        }
        job = next(&app);
        *app.judging() = job.as_ref().map(|(name, ..)| name.clone());
    }
    if let Some(app) = app.upgrade() {
        *app.judging() = None;
    }
}

/// What the list shows of a trace once it is judged, or why it cannot be.
fn entry_of(app: &App, path: &Path, pool: &ThreadPool) -> Map<String, Value> {
    let tools = app.tools();
    let judged = catch_unwind(AssertUnwindSafe(|| pool.install(|| judge(path, tools))))
        .unwrap_or(Err(Unreadable::Bug));
    judged.unwrap_or_else(|why| why.cleaned(|why| app.folder.without_path(why)).entry())
}

fn is_busy(status: &crate::opened::Status) -> bool {
    status.failed.is_none() && status.stage < Stage::Ready
}

fn judge(path: &Path, tools: &Tools) -> Result<Map<String, Value>, Unreadable> {
    let trace = (tools.open)(path)?;
    let analysis = Analysis::new(&trace, &tools.rules);
    let stalls = unhitch_analysis::diagnose(&analysis, &Query::default());
    let mut entry = facts(&analysis);
    entry.insert("first_answer".to_owned(), verdict(&analysis, &stalls));
    Ok(entry)
}
