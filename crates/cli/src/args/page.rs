//! Options of `view` and `report`.

use super::{ReadingArgs, RulesArgs, TraceArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(ClapArgs, Debug)]
pub struct ViewArgs {
    /// A trace, or a folder of traces: the page then lists them, and more can be added by drag and
    /// drop
    #[arg(value_name = "TRACE|DIR", default_value = ".")]
    pub path: PathBuf,
    /// Above the traces, show the report over a fleet: what `unhitch fleet report DIR --json` printed
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Port on 127.0.0.1 [default: any free port]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Open the page in the browser if there is a display
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

#[derive(ClapArgs, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// The file to write [default: the trace's name with the extension .html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub rules: RulesArgs,
}
