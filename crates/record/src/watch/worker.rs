//! Names and judges saved traces while the recorder goes on.

use super::recovery::{Late, Recovery};
use super::verdict::{Judge, complete, store};
use crate::control::{ClientId, NoteRequest};
use crate::naming::Namer;
use crate::save::Saved;
use crate::triggers::Reporter;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Instant;
use unhitch_formats::container::{Readers, SaveFile, read_meta, set_notes, verdict_path};

/// Maximum length of all notes on a trace, bytes.
const MAX_NOTES: usize = 64 << 10;

/// A trace that was written.
pub(super) struct Job {
    pub(super) saved: Saved,
    pub(super) save: SaveFile,
    /// Of the verdict.
    pub(super) readers: Readers,
    /// Who asked for it.
    pub(super) client: Option<ClientId>,
    /// Its user, if that is a member of the group.
    pub(super) member: Option<u32>,
    /// Who waits for the verdict.
    pub(super) wants_verdict: bool,
    /// Whether it is to be judged.
    pub(super) judged: bool,
}

/// What there is to do.
pub(super) enum Task {
    /// A trace wants its names and its verdict.
    Finish(Box<Job>),
    /// Something is to be added to the notes of a trace.
    Note(ClientId, NoteRequest),
}

/// How far a trace is.
pub(super) enum Progress {
    /// It has its function names.
    Named(Box<Job>),
    /// It has its verdict. An error: the verdict could not be stored.
    Judged(Box<Job>, Value, Option<String>),
    /// A recorder that was killed had begun so many files; they are removed.
    Removed(usize),
    /// A trace of an earlier recorder has its verdict. An error: it could not be stored.
    JudgedLate(PathBuf, Value, Option<String>),
    /// The client's note is in its trace, or why not.
    Noted(ClientId, Result<(), String>),
}

/// Works until there are no more jobs. Once `stop` is set, it only passes them through. What an
/// earlier recorder has left undone is done while there is nothing else to do.
pub(super) fn work(
    jobs: &Receiver<Task>,
    tell: &Tell,
    namer: &mut dyn Namer,
    mut judge: Option<&mut dyn Judge>,
    recovery: &Recovery,
    stop: &AtomicBool,
) {
    // The first save must not have to wait for the namer to start.
    namer.prepare();
    let removed = recovery.remove_unfinished();
    if removed > 0 {
        tell.tell(Progress::Removed(removed));
    }
    let mut late = if judge.is_some() { recovery.not_judged() } else { VecDeque::new() };
    loop {
        let job = match jobs.try_recv() {
            Err(TryRecvError::Empty) => match late.pop_front().filter(|_| !is_set(stop)) {
                Some(path) => {
                    if let (Some(trace), Some(judge)) = (Late::open(path), &mut judge) {
                        judge_late(trace, tell, *judge, recovery.readers, stop);
                    }
                    continue;
                }
                None => jobs.recv().ok(),
            },
            job => job.ok(),
        };
        match job {
            Some(Task::Finish(job)) => finish(*job, tell, namer, &mut judge, stop),
            Some(Task::Note(client, note)) => {
                tell.tell(Progress::Noted(client, add_note(&note)));
            }
            None => return,
        }
    }
}

/// Tells the recorder, and ends its sleep.
pub(super) struct Tell {
    pub(super) done: Sender<Progress>,
    pub(super) waker: Reporter,
}

impl Tell {
    /// False if nobody listens any more.
    fn tell(&self, progress: Progress) -> bool {
        let told = self.done.send(progress).is_ok();
        self.waker.wake();
        told
    }
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// Names and judges a trace.
fn finish(
    mut job: Job,
    tell: &Tell,
    namer: &mut dyn Namer,
    judge: &mut Option<&mut dyn Judge>,
    stop: &AtomicBool,
) {
    if !is_set(stop) {
        job.saved.name(namer, stop);
    }
    let copy = job.again();
    if !tell.tell(Progress::Named(Box::new(job))) {
        return;
    }
    let (Some(judge), true) = (judge, copy.judged) else { return };
    let begun = Instant::now();
    let answer = judge.judge(&copy.saved.file, stop);
    let verdict = complete(answer, &copy.saved.path, &copy.save, begun.elapsed());
    let stored = store_unless(stop, &copy.saved.path, copy.readers, &verdict);
    tell.tell(Progress::Judged(Box::new(copy), verdict, stored.err()));
}

/// Adds to the notes of a trace. *Why here*: nobody else writes traces that are on the disk.
fn add_note(note: &NoteRequest) -> Result<(), String> {
    let known = read_meta(&note.path).map_err(|error| error.to_string())?;
    let (_, mut notes) = known.ok_or("it is no trace")?;
    if !notes.is_empty() && !notes.ends_with('\n') {
        notes.push('\n');
    }
    notes.push_str(note.text.trim());
    if notes.len() > MAX_NOTES {
        return Err("the trace has too many notes".to_owned());
    }
    set_notes(&note.path, &notes).map_err(|error| error.to_string())
}

/// Judges a trace of an earlier recorder.
fn judge_late(
    trace: Late,
    tell: &Tell,
    judge: &mut dyn Judge,
    readers: Readers,
    stop: &AtomicBool,
) {
    let begun = Instant::now();
    let Late { path, file, save } = trace;
    let verdict = complete(judge.judge(&file, stop), &path, &save, begun.elapsed());
    let stored = store_unless(stop, &path, readers, &verdict);
    tell.tell(Progress::JudgedLate(path, verdict, stored.err()));
}

/// Stores a verdict, unless the recorder was stopped while it was made: the next recorder will make
/// a whole one. Nor does it stay if the trace is gone, deleted to make room.
fn store_unless(
    stop: &AtomicBool,
    trace: &Path,
    readers: Readers,
    verdict: &Value,
) -> Result<(), String> {
    if is_set(stop) {
        return Ok(());
    }
    store(trace, readers, verdict)?;
    // *Why only now*: whoever deletes a trace deletes its verdict after it.
    if !trace.exists() {
        let _ = std::fs::remove_file(verdict_path(trace));
    }
    Ok(())
}

impl Job {
    fn again(&self) -> Self {
        Self {
            saved: self.saved.clone(),
            save: self.save.clone(),
            readers: self.readers,
            client: self.client,
            member: self.member,
            wants_verdict: self.wants_verdict,
            judged: self.judged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_no_verdict_stays_of_a_trace_that_was_deleted_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.hitch");
        let store = || store_unless(&AtomicBool::new(false), &trace, Readers::Owner, &Value::Null);
        store().unwrap();
        assert!(!verdict_path(&trace).exists());
        std::fs::write(&trace, "").unwrap();
        store().unwrap();
        assert!(verdict_path(&trace).exists());
    }
}
