//! Options of the commands that the Python package answers.

use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(ClapArgs, Debug)]
pub struct SqlArgs {
    /// The trace
    pub trace: PathBuf,
    /// The query, over the tables of docs/sql.md, e.g. "select function, sum(waited_ns) from waits
    /// group by 1 order by 2 desc"
    pub query: String,
    /// Print every row as JSON, one a line
    #[arg(long)]
    pub json: bool,
    /// Print every row as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

#[derive(ClapArgs, Debug)]
pub struct FleetArgs {
    /// The fleet's command and its options; `unhitch fleet --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub words: Vec<OsString>,
}
