//! The questions about one trace that wait for an answer.

use crate::loaded::Loaded;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What answers a request.
pub(crate) type Question = Box<dyn for<'a, 't> FnOnce(&'a Loaded<'t>) + Send>;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Turn {
    /// What was read of the trace first.
    #[default]
    Newest,
    /// All of it.
    Whole,
    /// Nobody: the trace is closed.
    Closed,
}

/// The questions, first come, first served. *Why not a channel*: its readers could not be told that it
/// is the turn of others, who find in it what they left.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Question>,
    turn: Turn,
    /// When the last one was asked.
    last: Option<Instant>,
}

impl Questions {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks. After the end, nobody answers: the question is dropped.
    pub(crate) fn ask(&self, question: Question) {
        let mut waiting = self.waiting();
        if waiting.turn != Turn::Closed {
            waiting.questions.push_back(question);
            waiting.last = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    /// From now on it is the turn of others. There is no way back.
    pub(crate) fn turn(&self, turn: Turn) {
        let mut waiting = self.waiting();
        waiting.turn = waiting.turn.max(turn);
        if waiting.turn == Turn::Closed {
            waiting.questions.clear();
        }
        self.changed.notify_all();
    }

    /// Waits until nothing has been asked for `calm`, for at most `max`.
    pub(crate) fn wait_for_calm(&self, calm: Duration, max: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < max {
            let last = self.waiting().last.unwrap_or(begun);
            let Some(more) = calm.checked_sub(last.elapsed()) else { return };
            std::thread::sleep(more.max(Duration::from_millis(1)));
        }
    }

    /// The next question, when there is one; `None` once it is the turn of others.
    pub(crate) fn next(&self, turn: Turn) -> Option<Question> {
        let mut waiting = self.waiting();
        while waiting.turn <= turn {
            // Before its turn, it waits as well.
            let next = if waiting.turn == turn { waiting.questions.pop_front() } else { None };
            if next.is_some() {
                return next;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}
