//! Options of `export`.

use super::values::parse_duration;
use super::{RulesArgs, TraceArgs, WindowArgs};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use unhitch_export::{FORMATS, Format, Of};

/// A file format of other tools.
#[derive(Clone, Copy, Debug)]
pub enum ExportFormat {
    /// A folder of Parquet files, written by the Python package.
    Parquet,
    /// perf's: the events alone.
    PerfData,
    /// One that also shows what is known of the trace.
    Known(&'static Format),
}

const PARQUET: &str = "parquet";
const PERF_DATA: &str = "perf.data";

impl ExportFormat {
    /// The extension of its files.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => PARQUET,
            Self::PerfData => PERF_DATA,
            Self::Known(format) => format.extension,
        }
    }

    fn parser() -> impl TypedValueParser<Value = Self> {
        let perf_data = PossibleValue::new(PERF_DATA)
            .help("For perf script, perf report and perf sched timehist: the events");
        let parquet = PossibleValue::new(PARQUET)
            .help("A folder with a Parquet file for each table, by the Python package");
        let known = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.doc));
        PossibleValuesParser::new(known.chain([parquet, perf_data])).map(|name| {
            let known = FORMATS.iter().find(|format| format.name == name);
            let others = if name == PARQUET { Self::Parquet } else { Self::PerfData };
            known.map_or(others, Self::Known)
        })
    }
}

/// Which stacks a file shows that holds one kind.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportedStacks {
    /// Where threads waited, by time
    Waits,
    /// From where they were woken, by the time that they had waited
    Wakes,
    /// What CPUs executed, by time
    Cpu,
    /// Where threads waited and from where they were woken, in one line (folded)
    #[value(name = "waits+wakes")]
    WaitsAndWakes,
}

impl From<ExportedStacks> for Of {
    fn from(of: ExportedStacks) -> Self {
        match of {
            ExportedStacks::Waits => Self::Waits,
            ExportedStacks::Wakes => Self::Wakes,
            ExportedStacks::Cpu => Self::Cpu,
            ExportedStacks::WaitsAndWakes => Self::WaitsAndWakes,
        }
    }
}

#[derive(ClapArgs, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The format of the new file
    #[arg(long, value_name = "FORMAT", value_parser = ExportFormat::parser())]
    pub to: ExportFormat,
    /// With pprof and folded: which stacks [default: waits]
    #[arg(long, value_name = "STACKS", value_enum)]
    pub of: Option<ExportedStacks>,
    /// The file to write, of Parquet the folder [default: the trace's name with the format's
    /// extension]
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
    #[command(flatten)]
    pub rules: RulesArgs,
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
