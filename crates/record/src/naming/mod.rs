//! Names the frames of a trace that is on the disk already, and adds the names to it.
//!
//! *Why in a process of its own*: names come from files that any user can write, and whose readers
//! are large. Root must not read them. A child without rights does, which asks the recorder for
//! descriptors ([`opener`] has the rules) and is killed when it takes too long; the trace loses its
//! names then, and says so, and nothing else.

mod channel;
mod child;
mod mounts;
mod opener;
mod process;
mod programs;

pub use child::{prepare_to_serve, serve};
pub use process::NamingProcess;
pub(crate) use programs::Programs;

use crate::save::Saved;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use unhitch_formats::container::{SymbolFile, add_symbols};
use unhitch_model::Trace;
use unhitch_symbols::Symbolizer;

/// What a namer is told of a trace.
#[derive(Debug)]
pub struct Unnamed<'a> {
    /// The trace, to be read.
    pub file: &'a File,
    pub(crate) programs: &'a Arc<Programs>,
}

/// Names the frames of traces.
pub trait Namer {
    /// Reads what is needed for any trace, so that the first need not wait for it.
    fn prepare(&mut self);

    /// The names of a trace's frames; ends early when `stop` is set.
    ///
    /// # Errors
    /// Why there are none, as a warning.
    fn names(&mut self, trace: &Unnamed<'_>, stop: &AtomicBool) -> Result<SymbolFile, String>;
}

/// With this process's own rights.
impl Namer for Symbolizer {
    fn prepare(&mut self) {
        Symbolizer::prepare(self);
    }

    fn names(&mut self, trace: &Unnamed<'_>, _stop: &AtomicBool) -> Result<SymbolFile, String> {
        let trace = trace.file.try_clone().map_err(|error| error.to_string()).and_then(read)?;
        Ok(names_of(trace, self))
    }
}

/// Adds names to a saved trace. Where there are none, the trace and `saved` say why.
pub(crate) fn name(saved: &mut Saved, namer: &mut dyn Namer, stop: &AtomicBool) {
    let begun = Instant::now();
    let named = namer.names(&Unnamed { file: &saved.file, programs: &saved.programs }, stop);
    let symbols = named.unwrap_or_else(|why| {
        SymbolFile::default()
            .with_warnings(vec![format!("the functions of programs have no names: {why}")])
    });
    saved.warnings.extend_from_slice(symbols.warnings());
    saved.timings.names_ns = begun.elapsed().as_nanos() as u64;
    let begun = Instant::now();
    match add_symbols(&saved.file, &saved.path, &symbols) {
        Ok(len) => saved.bytes = len,
        Err(error) => saved
            .warnings
            .push(format!("the names of functions could not be added to the trace: {error}")),
    }
    saved.timings.write_ns += begun.elapsed().as_nanos() as u64;
}

/// Reads a trace without what the reader has to say: every later reader will say it again.
fn read(file: File) -> Result<Trace, String> {
    let trace = unhitch_formats::open_file(file)
        .map_err(|error| format!("the trace could not be read back: {error}"))?;
    Ok(Trace { warnings: unhitch_model::Warnings::default(), ..trace })
}

fn names_of(mut trace: Trace, symbolizer: &mut Symbolizer) -> SymbolFile {
    symbolizer.resolve(&mut trace);
    SymbolFile::from_trace(&trace).with_warnings(trace.warnings.lines().collect())
}
