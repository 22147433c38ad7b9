//! What a lab program is.

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
use std::io;

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
