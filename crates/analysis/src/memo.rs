//! Answers that are kept, to questions that lead to each other.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use unhitch_model::ThreadId;

/// Which thread is the answer to each question asked so far, if any is. *Why it is not locked while an
/// answer is looked for:* that asks the same kind of question.
pub(crate) struct Memo<Q>(Mutex<FxHashMap<Q, Option<ThreadId>>>);

impl<Q> Default for Memo<Q> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<Q: Copy + Eq + Hash> Memo<Q> {
    /// The answer to `question`, by `find` if it is not known yet.
    pub fn answer(&self, question: Q, find: impl FnOnce() -> Option<ThreadId>) -> Option<ThreadId> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&answer) = known().get(&question) {
            return answer;
        }
        let answer = find();
        known().insert(question, answer);
        answer
    }
}
