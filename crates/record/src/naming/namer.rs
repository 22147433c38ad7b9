//! [`Namer`]: the interface to whatever names the frames of a trace.

use super::programs::Programs;
use super::rules::{LocalRules, RuleReader};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use unhitch_formats::container::SymbolFile;
use unhitch_model::Trace;
use unhitch_symbols::Symbolizer;

/// A trace without names, as a namer gets it.
#[derive(Debug)]
pub struct Unnamed<'a> {
    /// The trace file, open for reading.
    pub file: &'a File,
    pub(crate) programs: &'a Arc<Programs>,
}

/// Names the frames of traces.
pub trait Namer {
    /// Loads what is needed for every trace, so that the first trace need not wait for it.
    fn prepare(&mut self);

    /// Returns the names of a trace's frames; stops early when `stop` is set.
    ///
    /// # Errors
    /// When there are no names; the error is a warning for the user.
    fn names(&mut self, trace: &Unnamed<'_>, stop: &AtomicBool) -> Result<SymbolFile, String>;

    /// Returns a reader of unwind tables with the same rights.
    fn rule_reader(&self) -> Box<dyn RuleReader>;
}

/// Names frames in this process, with its own rights.
impl Namer for Symbolizer {
    fn prepare(&mut self) {
        Symbolizer::prepare(self);
    }

    fn names(&mut self, trace: &Unnamed<'_>, _stop: &AtomicBool) -> Result<SymbolFile, String> {
        let trace = trace.file.try_clone().map_err(|error| error.to_string()).and_then(read)?;
        Ok(names_of(trace, self))
    }

    fn rule_reader(&self) -> Box<dyn RuleReader> {
        Box::new(LocalRules)
    }
}

/// Reads a trace, but drops the reader's warnings: every later reader will add them again.
pub(super) fn read(file: File) -> Result<Trace, String> {
    let trace = unhitch_formats::open_stacks(file)
        .map_err(|error| format!("the trace could not be read back: {error}"))?;
    Ok(Trace { warnings: unhitch_model::Warnings::default(), ..trace })
}

pub(super) fn names_of(mut trace: Trace, symbolizer: &mut Symbolizer) -> SymbolFile {
    symbolizer.resolve(&mut trace);
    SymbolFile::from_trace(&trace).with_warnings(trace.warnings.lines().collect())
}
