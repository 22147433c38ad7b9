//! Options of the commands that inspect running processes: `scan` and `threads`.

use super::values::parse_duration;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::time::Duration;

#[derive(ClapArgs, Debug)]
pub struct ScanArgs {
    /// Processes to scan: pids, process names or file names of programs
    #[arg(value_name = "PID|NAME", required_unless_present = "all", conflicts_with = "all")]
    pub who: Vec<String>,
    /// Scan all processes that you are allowed to inspect
    #[arg(long)]
    pub all: bool,
    /// Inspect pages as well, in bounded steps: what is resident, swapped or huge, and which page
    /// tables are empty
    #[arg(long)]
    pub pages: bool,
    /// Inspect pages even if this command runs at idle priority; that can freeze the scanned
    /// process
    #[arg(long, requires = "pages")]
    pub force: bool,
    /// Rescan at this interval and show growth per second, until Ctrl-C or until all processes have
    /// exited
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub every: Option<Duration>,
    /// With --every: stop after this many scans
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u64).range(1..))]
    pub times: Option<u64>,
    /// Print JSON; with --every, one line per scan
    #[arg(long)]
    pub json: bool,
    /// Write a picture of the address space, on a logarithmic scale, to this SVG file; for several
    /// processes, one file each, with -PID before the extension
    #[arg(long, value_name = "FILE", conflicts_with = "every")]
    pub svg: Option<PathBuf>,
}

#[derive(ClapArgs, Debug)]
pub struct ThreadsArgs {
    /// Processes to list: a pid, a process name or the file name of a program [default: all but
    /// kernel threads]
    #[arg(value_name = "PID|NAME")]
    pub who: Option<String>,
    /// Print JSON, with kernel stacks if you are allowed to read them
    #[arg(long)]
    pub json: bool,
}
