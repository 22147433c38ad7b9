//! The one exception class, and why something failed.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};

create_exception!(
    unhitch,
    UnhitchError,
    PyException,
    "Whatever Unhitch could not do: a file that is no trace, a column that a table does not have, a \
     program that is missing. The message says it in one sentence."
);

/// Why something failed, in one sentence.
#[derive(Debug)]
pub struct Failure(String);

/// What something gave, or why it failed.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// With these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The words.
    pub fn words(self) -> String {
        self.0
    }
}

/// An error with all its causes, as the program prints them.
pub fn because(error: &dyn std::error::Error) -> Failure {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    Failure(words)
}

/// The same, of a file.
pub fn of_file(path: &str, error: impl Display) -> Failure {
    let words = error.to_string();
    Failure(if words.contains(path) { words } else { format!("{path}: {words}") })
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        UnhitchError::new_err(failure.0)
    }
}

/// Refuses to work in a process that was forked after Unhitch was first used: its worker threads
/// stayed in the parent, and whatever waited for them would wait for ever.
pub fn check_fork() -> Outcome<()> {
    static FIRST: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    match FIRST.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Err(first) if first != own => Err(Failure::new(
            "this process was forked after unhitch was used, and its threads did not come along: \
             start worker processes with multiprocessing's \"spawn\"",
        )),
        _ => Ok(()),
    }
}
