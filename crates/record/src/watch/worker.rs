//! Names and judges saved traces while the recorder goes on.

use super::verdict::{Judge, complete, store};
use crate::control::ClientId;
use crate::naming::Namer;
use crate::save::Saved;
use crate::triggers::Reporter;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;
use unhitch_formats::container::{Readers, SaveFile};

/// A trace that was written.
pub(super) struct Job {
    pub(super) saved: Saved,
    pub(super) save: SaveFile,
    pub(super) readers: Readers,
    /// Who asked for it.
    pub(super) client: Option<ClientId>,
    /// Who waits for the verdict.
    pub(super) wants_verdict: bool,
    /// Whether it is to be judged.
    pub(super) judged: bool,
}

/// How far a trace is.
pub(super) enum Progress {
    /// It has its function names.
    Named(Box<Job>),
    /// It has its verdict. An error: the verdict could not be stored.
    Judged(Box<Job>, Value, Option<String>),
}

/// Works until there are no more jobs. Once `stop` is set, it only passes them through.
pub(super) fn work(
    jobs: &Receiver<Job>,
    done: &Sender<Progress>,
    waker: &Reporter,
    namer: &mut dyn Namer,
    mut judge: Option<&mut dyn Judge>,
    stop: &AtomicBool,
) {
    // The first save must not have to wait for the namer to start.
    namer.prepare();
    for mut job in jobs {
        if !stop.load(Ordering::Relaxed) {
            job.saved.name(namer, stop);
        }
        let mut verdict = None;
        let copy = job.again();
        let named = done.send(Progress::Named(Box::new(job)));
        waker.wake();
        if let (Ok(()), Some(judge)) = (named, judge.as_deref_mut().filter(|_| copy.judged)) {
            let begun = Instant::now();
            let answer = judge.judge(&copy.saved.file, stop);
            verdict = Some(complete(answer, &copy.saved.path, &copy.save, begun.elapsed()));
        }
        let Some(verdict) = verdict else { continue };
        let stored = if stop.load(Ordering::Relaxed) {
            Ok(())
        } else {
            store(&copy.saved.path, copy.readers, &verdict)
        };
        let _ = done.send(Progress::Judged(Box::new(copy), verdict, stored.err()));
        waker.wake();
    }
}

impl Job {
    fn again(&self) -> Self {
        Self {
            saved: self.saved.clone(),
            save: self.save.clone(),
            readers: self.readers,
            client: self.client,
            wants_verdict: self.wants_verdict,
            judged: self.judged,
        }
    }
}
