//! [`Job`]: what is to be exported, and how far it is.

use unhitch_analysis::Analysis;
use unhitch_formats::perf_data::Selection;

/// Rows between two reports of progress.
const STRIDE: u64 = 1 << 14;

/// What an export is made of.
pub struct Job<'j> {
    /// The trace, with everything that is computed from it.
    pub analysis: &'j Analysis<'j>,
    /// The part of it.
    pub selection: &'j Selection,
    /// Which stacks, in a format that holds one kind.
    pub of: Of,
    /// The program that writes, e.g. "unhitch 0.1.0".
    pub producer: &'j str,
}

/// Which stacks a file shows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Of {
    /// Where threads waited, by time.
    #[default]
    Waits,
    /// From where they were woken, by the time that they had waited.
    Wakes,
    /// What CPUs executed, by time.
    Cpu,
    /// Where threads waited and, behind that, from where they were woken.
    WaitsAndWakes,
}

/// Reports how far an export is.
pub struct Progress<'p> {
    done: u64,
    of: u64,
    show: &'p mut dyn FnMut(f64),
}

impl<'p> Progress<'p> {
    /// `show` gets the share of the work that is done, from 0 to 1.
    pub fn new(show: &'p mut dyn FnMut(f64)) -> Self {
        Self { done: 0, of: 0, show }
    }

    /// So many rows are to be written.
    pub(crate) fn expect(&mut self, rows: usize) {
        self.of += rows as u64;
    }

    /// One more row was written.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(STRIDE) {
            (self.show)(self.done as f64 / self.of.max(self.done) as f64);
        }
    }
}
