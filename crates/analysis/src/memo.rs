//! Answers that are kept, to questions that lead to each other.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use unhitch_model::{ProcessId, ThreadId, Time, Window};

/// The answer to each question asked so far: most often which thread, if any. *Why it is not locked while an
/// answer is looked for:* that asks the same kind of question.
pub(crate) struct Memo<Q, A = Option<ThreadId>>(Mutex<FxHashMap<Q, A>>);

impl<Q, A> Default for Memo<Q, A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Copy + Eq + Hash, A: Clone> Memo<Q, A> {
    /// The answer to `question`, by `find` if it is not known yet.
    pub fn answer(&self, question: Q, find: impl FnOnce() -> A) -> A {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = known().get(&question) {
            return answer.clone();
        }
        let answer = find();
        known().insert(question, answer.clone());
        answer
    }
}

/// What is known of whom threads wait for that nobody woke.
#[derive(Default)]
pub(crate) struct Memos {
    /// Whom a thread waits for in a sleep that lasts until the recording ends, by the switch that began it.
    pub awaited: Memo<(ThreadId, Window, Option<usize>)>,
    /// Whom a thread asked in a sleep that no answer ended, of so many that each asked the next.
    pub asked: Memo<(ThreadId, Window, usize)>,
    /// Whom the event loops of a process asked.
    pub asked_by_loop: Memo<(ProcessId, Window, usize)>,
    /// The only thread of a process that works in a window.
    pub only_worker: Memo<(ProcessId, Window, usize)>,
    /// Whom the event loops of a process may have asked.
    pub loop_peers: Memo<ProcessId, Arc<[ThreadId]>>,
    /// Of the second process, the thread that the first woke last before a time, and when.
    pub last_woken_by: Memo<(ProcessId, ProcessId, Time), Option<(ThreadId, Time)>>,
}
