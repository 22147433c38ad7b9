//! What a lab program is, and how to run it.

use crate::outcome::{Answer, Outcome};
use crate::search;
use std::io;

/// How to run a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Length of the whole run in seconds, 3 to 60. The hang is in the middle.
    pub seconds: f64,
    /// For `long-hold`: how it searches for free blocks, on a full volume instead of a fragmented
    /// one.
    pub search: Option<search::Way>,
    /// For `long-hold`: each search continues where the last one ended.
    pub resume: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { seconds: 4.0, search: None, resume: false }
    }
}

/// A program that hangs on purpose.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name that the user types: `unhitch lab NAME`.
    pub name: &'static str,
    /// What hangs and why, in one line.
    pub summary: &'static str,
    /// The expected result of the analysis, known before the program runs.
    pub answer: fn() -> Answer,
    /// Runs the program, which prints what it does to standard output. It ends after
    /// [`Options::seconds`], or on SIGINT or SIGTERM.
    ///
    /// Fails if a system call fails. A hang that did not happen is not a failure, but
    /// [`Outcome::happened`] = false.
    pub run: fn(&Options) -> io::Result<Outcome>,
}
