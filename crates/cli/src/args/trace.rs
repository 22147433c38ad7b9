//! Options shared by the commands that read a trace.

use super::values::parse_duration;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::time::Duration;

const WINDOWS_TRACES: &str = "Windows traces";

/// The trace that a command reads.
#[derive(ClapArgs, Debug)]
pub struct TraceArgs {
    /// The trace to read: NAME.hitch, a perf.data file, NAME.etl; or one of Perfetto, trace-cmd
    /// (trace.dat), perf script (text) or LTTng (the folder)
    #[arg(value_name = "TRACE")]
    pub path: PathBuf,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// What reading a trace needs besides its file.
#[derive(ClapArgs, Default, Debug)]
pub struct ReadingArgs {
    /// Another ETW session that was recorded together with the trace and is not merged into it,
    /// e.g. `kernel.etl --with user.etl`; can be repeated
    #[arg(long, value_name = "FILE", help_heading = WINDOWS_TRACES)]
    pub with: Vec<PathBuf>,
    /// Where to look for PDBs: folders, symbol stores and servers, in the syntax of
    /// _NT_SYMBOL_PATH; overrides that variable
    #[arg(long, value_name = "PATH", help_heading = WINDOWS_TRACES)]
    pub symbols: Option<String>,
}

/// The time range that a command looks at.
#[derive(ClapArgs, Clone, Copy, Default, Debug)]
pub struct WindowArgs {
    /// Ignore everything before this time, e.g. 1.5s; like all printed times, it is relative to the
    /// trace's origin (see `unhitch info`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub from: Option<Duration>,
    /// Ignore everything after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub to: Option<Duration>,
}

impl WindowArgs {
    /// True when neither end is given.
    pub fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }
}

/// The rules that classify waits.
#[derive(ClapArgs, Default, Debug)]
pub struct RulesArgs {
    /// Wait rules to try before the built-in ones [default: unhitch/waits.toml in the user's
    /// configuration folder]
    #[arg(long = "rules", value_name = "FILE")]
    pub file: Option<PathBuf>,
}
