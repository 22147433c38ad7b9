//! [`Golden`]: a synthetic trace, written like a Linux or a Windows recording.

use crate::machine::{Event, Machine};
use crate::perf_data::PRODUCER;
use crate::{etl, perf_data};
use std::path::Path;
use unhitch_formats::{
    Error,
    container::{ContainerMeta, ContainerParts, CpuWindow, SymbolFile, write_container},
};

/// A synthetic trace and what an answer must contain.
///
/// The same events can be written like a Linux recording ([`Golden::write`]) or like a Windows one
/// ([`Golden::write_etl`]).
pub struct Golden<F> {
    /// The records, without function names.
    pub perf_data: Vec<u8>,
    /// The figures of the trace.
    pub figures: F,
    symbols: SymbolFile,
    meta: ContainerMeta,
    notes: &'static str,
    machine: Machine,
    events: Vec<Event>,
}

impl<F> Golden<F> {
    /// The recording of a machine.
    ///
    /// # Panics
    /// If the description of the machine contradicts itself.
    pub fn of(machine: Machine, figures: F) -> Self {
        let events = machine.finish();
        Self::new(machine, events, "Synthetic.", figures)
    }

    pub(crate) fn new(
        machine: Machine,
        events: Vec<Event>,
        notes: &'static str,
        figures: F,
    ) -> Self {
        let perf_data = perf_data::perf_data(&machine, &events);
        let mut trace = unhitch_formats::read_bytes(&perf_data).expect("our own file is readable");
        machine.code.name(&mut trace);
        let span = |cpu: usize| CpuWindow {
            cpu: cpu as u16,
            start_ns: machine.start,
            end_ns: machine.end,
        };
        let meta = ContainerMeta {
            version: 1,
            producer: PRODUCER.to_owned(),
            host: trace.meta.host.clone(),
            kernel: trace.meta.kernel.clone(),
            arch: trace.meta.arch.clone(),
            cpus: machine.cpus() as u16,
            memory_bytes: trace.meta.memory_bytes,
            clock: "monotonic".to_owned(),
            sample_period_ns: machine.period_ns,
            spans: (0..machine.cpus()).map(span).collect(),
            ..ContainerMeta::default()
        };
        Self {
            perf_data,
            figures,
            symbols: SymbolFile::from_trace(&trace),
            meta,
            notes,
            machine,
            events,
        }
    }

    /// Writes the trace with its function names to `path`, usually a `NAME.hitch`.
    ///
    /// # Errors
    /// If the file exists already or cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let parts = ContainerParts {
            meta: &self.meta,
            perf_data: &mut |out| out.write_all(&self.perf_data),
            rings: None,
            symbols: Some(&self.symbols),
            notes: Some(self.notes),
            extra: Vec::new(),
        };
        write_container(path, parts).map(drop)
    }

    /// When the trace begins, nanoseconds on the clock of the figures. Times in an `.etl` file
    /// count from there.
    pub fn start_ns(&self) -> u64 {
        self.machine.start
    }

    /// The trace as Event Tracing for Windows writes it, without function names.
    pub fn etl(&self) -> Vec<u8> {
        etl::trace(&self.machine, &self.events)
    }

    /// Writes that to `path`, usually a `NAME.etl`, and the PDBs with its function names into the
    /// folder `symbols`, laid out as a symbol store.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn write_etl(&self, path: &Path, symbols: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.etl())?;
        for (name, bytes) in etl::symbol_files(&self.machine) {
            let path = symbols.join(name);
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(path, bytes)?;
        }
        Ok(())
    }
}
