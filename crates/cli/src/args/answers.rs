//! Options of the commands that explain or summarise a trace: `why`, `waits`, `hot` and `info`.

use super::{CheckArgs, ReadingArgs, RulesArgs, TraceArgs, WindowArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(ClapArgs, Debug)]
pub struct WhyArgs {
    /// The trace to read: NAME.hitch, a perf.data file, NAME.etl; or one of Perfetto, trace-cmd
    /// (trace.dat), perf script (text) or LTTng (the folder)
    #[arg(value_name = "TRACE", required_unless_present = "live")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Explain what hangs right now: from the memory of the running `unhitch watch`, or, without
    /// one, from a second that is recorded for this
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with_all = ["trace", "from", "to", "with", "fail_on"])]
    pub live: bool,
    /// Explain only what had not ended when the recording did; with --victim, what that was doing
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub in_progress: bool,
    /// Explain only the stalls of this thread or process: a name, pid or tid. With --from or --to,
    /// explain all of its time in that span
    #[arg(long, value_name = "NAME|PID|TID")]
    pub victim: Option<String>,
    /// Explain first the whole life of this process, whether it is a stall or not
    #[arg(long, value_name = "PID", conflicts_with_all = ["victim", "from", "to"])]
    pub process: Option<u32>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// How many stalls to explain in full [default: 1; with --json: 10]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Print JSON
    #[arg(long, conflicts_with = "fail_on")]
    pub json: bool,
    /// Also write a timeline of the worst stall to this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub checks: CheckArgs,
}

#[derive(ClapArgs, Debug)]
pub struct WaitsArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// How many stacks to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs, Debug)]
pub struct HotArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Show the instructions of this function: its name, the last part of its name, or
    /// file+0xOFFSET
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Use only samples of this thread or process: a name, pid or tid
    #[arg(long, value_name = "NAME|PID|TID")]
    pub victim: Option<String>,
    #[command(flatten)]
    pub window: WindowArgs,
    /// vmlinux of the recorded kernel [default: the memory of the running kernel, if that is the
    /// recorded one]
    #[arg(long, value_name = "VMLINUX")]
    pub kernel_image: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs, Debug)]
pub struct InfoArgs {
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
