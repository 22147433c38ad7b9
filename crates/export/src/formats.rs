//! The registry of formats.

use crate::job::{Job, Progress};
use crate::report::Report;
use crate::{firefox, folded, perfetto, pprof, tables};
use std::io::{self, Write};

/// A file format of other tools.
pub struct Format {
    /// Its name in options.
    pub name: &'static str,
    /// The extension of its files.
    pub extension: &'static str,
    /// What reads it, in one line.
    pub doc: &'static str,
    /// True if a file shows one kind of stacks, see [`Job::of`].
    pub has_one_kind: bool,
    writer: Writer,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

type Writer = fn(&Job<'_>, &mut dyn Write, &mut Progress<'_>) -> io::Result<Report>;

impl Format {
    /// Writes a file of this format.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(
        &self,
        job: &Job<'_>,
        out: &mut dyn Write,
        progress: &mut Progress<'_>,
    ) -> io::Result<Report> {
        (self.writer)(job, out, progress)
    }
}

/// All formats that show what is known of a trace.
pub static FORMATS: &[Format] = &[
    Format {
        name: "perfetto",
        extension: "pftrace",
        doc: "For ui.perfetto.dev and its trace processor: threads, stacks, stalls",
        has_one_kind: false,
        writer: perfetto::export,
    },
    Format {
        name: "pprof",
        extension: "pb.gz",
        doc: "For pprof, Pyroscope, speedscope: stacks of waits, wake-ups or CPU samples, summed",
        has_one_kind: true,
        writer: pprof::export,
    },
    Format {
        name: "firefox",
        extension: "firefox.json",
        doc: "For profiler.firefox.com: stacks over time, wake-ups and stalls as markers",
        has_one_kind: false,
        writer: firefox::export,
    },
    Format {
        name: "folded",
        extension: "folded",
        doc: "For flamegraph.pl, inferno, speedscope: the same as lines of text",
        has_one_kind: true,
        writer: folded::export,
    },
    Format {
        name: "json",
        extension: "json",
        doc: "For programs: every table of `unhitch table`, with all columns and rows",
        has_one_kind: false,
        writer: tables::export,
    },
];
