//! Options of `export`.

use super::values::parse_duration;
use super::{TraceArgs, WindowArgs};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// A file format of other tools.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// For perf script, perf report and perf sched timehist
    #[value(name = "perf.data")]
    PerfData,
}

impl ExportFormat {
    /// The extension of its files.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::PerfData => "perf.data",
        }
    }
}

#[derive(ClapArgs, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The format of the new file
    #[arg(long, value_name = "FORMAT")]
    pub to: ExportFormat,
    /// The file to write [default: the trace's name with the format's extension]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists already
    #[arg(long)]
    pub force: bool,
    /// Export only events of this thread or process: switches to and from it, wake-ups by and of it,
    /// its samples and lock events; a name, pid or tid
    #[arg(long, value_name = "NAME|PID|TID")]
    pub victim: Option<String>,
    /// Leave out all events before this time, e.g. 1.5s; like all printed times, it is relative to
    /// the trace's origin (see `unhitch info`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub from: Option<Duration>,
    /// Leave out all events after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub until: Option<Duration>,
}

impl ExportArgs {
    /// The file to write.
    pub fn output(&self) -> PathBuf {
        let beside = || self.trace.path.with_extension(self.to.extension());
        self.output.clone().unwrap_or_else(beside)
    }

    /// The time range. Its end is not called `--to`, because that is the format.
    pub fn window(&self) -> WindowArgs {
        WindowArgs { from: self.from, to: self.until }
    }
}
