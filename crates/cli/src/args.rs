//! The registry of commands and options: help, manual page and shell completions are generated
//! from it.

#[cfg(target_os = "linux")]
mod agent;
mod answers;
#[cfg(target_os = "linux")]
mod capture;
mod checks;
mod diff;
mod export;
#[cfg(target_os = "linux")]
mod lab;
mod page;
#[cfg(target_os = "linux")]
mod processes;
mod python;
#[cfg(target_os = "linux")]
mod service;
mod tables;
mod trace;
mod values;

#[cfg(target_os = "linux")]
pub use agent::AgentArgs;
pub use answers::{HotArgs, InfoArgs, WaitsArgs, WhyArgs};
#[cfg(target_os = "linux")]
pub use capture::{RecordArgs, RecorderArgs, SaveArgs, WatchArgs};
pub use checks::CheckArgs;
pub use diff::DiffArgs;
pub use export::{ExportArgs, ExportFormat};
#[cfg(target_os = "linux")]
pub use lab::LabArgs;
pub use page::{ReportArgs, ViewArgs};
#[cfg(target_os = "linux")]
pub use processes::{ScanArgs, ThreadsArgs};
pub use python::{FleetArgs, SqlArgs};
#[cfg(target_os = "linux")]
pub use service::{ListArgs, MarkArgs, SocketArgs, StatusArgs};
pub use tables::{ButterflyArgs, TableArgs};
pub use trace::{ReadingArgs, RulesArgs, TraceArgs, WindowArgs};

use crate::done::Done;
use clap::error::ErrorKind;
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand};
use unhitch_model::is_control;

/// Explains why a mostly idle machine hangs.
///
/// Unhitch records context switches, wake-ups (with the stacks of the waiting thread and of its
/// waker), and CPU samples into circular buffers. It follows every wait in a hang to the thread that
/// caused it, and explains in words what happened, with the evidence.
#[derive(Parser, Debug)]
#[command(
    version,
    propagate_version = true,
    max_term_width = 120,
    after_help = "Exit codes: 0 done; 1 error; 2 wrong usage; 3 `why` found no stall; 4 the lab \
                  program did not hang; 5 a --fail-on condition holds. `record -- CMD` ends as CMD \
                  does."
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Record once, starting now, straight to a file: for a set time, while a command runs, or
    /// until Ctrl-C
    #[cfg(target_os = "linux")]
    Record(RecordArgs),
    /// Record continuously into circular buffers; save on `unhitch save` or SIGUSR2
    #[cfg(target_os = "linux")]
    Watch(WatchArgs),
    /// Save what the running `unhitch watch` has recorded, and print the file name
    #[cfg(target_os = "linux")]
    Save(SaveArgs),
    /// Serve a desktop session: a hot key that saves, notifications with the answer, marks of
    /// input, windows that do not answer
    #[cfg(target_os = "linux")]
    Agent(AgentArgs),
    /// Mark this moment in the recording of the running `unhitch watch`
    #[cfg(target_os = "linux")]
    Mark(MarkArgs),
    /// Show what the running `unhitch watch` does: how far back it reaches, what it costs, which
    /// triggers are armed, what it saved
    #[cfg(target_os = "linux")]
    Status(StatusArgs),
    /// List saved traces, newest first, each with its verdict
    #[cfg(target_os = "linux")]
    List(ListArgs),
    /// Explain in words what hung in a trace and what caused it
    Why(WhyArgs),
    /// List the waits that no rule classifies, longest first: candidates for rules of your own
    /// (waits.toml)
    Waits(WaitsArgs),
    /// Rank functions by CPU samples, or show the samples on each instruction of one function
    Hot(HotArgs),
    /// Summarise a trace: time span, CPUs, events by kind, losses, warnings
    Info(InfoArgs),
    /// List switches, waits, wakes, samples, events, marks, stalls, lifetimes, threads, cpus
    /// or counters: grouped, summed, filtered and sorted
    Table(TableArgs),
    /// Show the callers of a function on the stacks of waits, wake-ups or samples; if no
    /// function is given, rank all functions
    Callers(ButterflyArgs),
    /// Show the callees of a function on the stacks of waits, wake-ups or samples; if no
    /// function is given, rank all functions
    Callees(ButterflyArgs),
    /// Compare two recordings, or two folders of them: what differs, and why
    Diff(DiffArgs),
    /// Serve a trace, or a folder of traces, as a web page to this machine only
    View(ViewArgs),
    /// Write a self-contained HTML file with the explanations, pictures and main tables of a trace,
    /// e.g. for a bug report
    Report(ReportArgs),
    /// Answer an SQL query over a trace's tables (needs the Python package and DuckDB)
    Sql(SqlArgs),
    /// Turn a folder of traces into an answer: what costs all machines most (needs the Python
    /// package and DuckDB)
    #[command(disable_help_flag = true)]
    Fleet(FleetArgs),
    /// Write a trace as a file of another tool: Perfetto, pprof, folded stacks, JSON, perf.data
    Export(ExportArgs),
    /// Scan the address spaces of processes without stalling the processes: what uses up their
    /// mappings, memory and page tables
    #[cfg(target_os = "linux")]
    Scan(ScanArgs),
    /// List threads with their name, state, CPU time and current wait; flag those that were never
    /// given a name
    #[cfg(target_os = "linux")]
    Threads(ThreadsArgs),
    /// Run a program that hangs on purpose (--record also records and explains the hang), or
    /// measure locks and address spaces
    #[cfg(target_os = "linux")]
    Lab(LabArgs),
    /// Print the manual page, or completions for a shell
    Manual(ManualArgs),
    /// Name the frames of traces passed on standard input; the recorder starts this as an
    /// unprivileged process
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    NameFrames,
    /// Judge the trace passed as standard input; the recorder starts this as an unprivileged
    /// process
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    JudgeTrace,
}

#[derive(ClapArgs, Debug)]
pub struct ManualArgs {
    /// Print completions for this shell instead
    #[arg(long, value_name = "SHELL")]
    pub completions: Option<clap_complete::Shell>,
}

/// Prints the manual page, or completions.
pub fn manual(args: &ManualArgs) -> anyhow::Result<Done> {
    let mut command = Args::command();
    let mut out = Vec::new();
    match args.completions {
        Some(shell) => clap_complete::generate(shell, &mut command, "unhitch", &mut out),
        None => {
            command.build();
            clap_mangen::Man::new(command.clone()).render(&mut out)?;
            for sub in command
                .get_subcommands()
                .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
            {
                clap_mangen::Man::new(sub.clone()).render(&mut out)?;
            }
        }
    }
    crate::terminal::print_raw(&String::from_utf8_lossy(&out))?;
    Ok(Done::Yes)
}

/// Parses the command line. Exits after printing help or a usage error.
pub fn parse() -> Args {
    Args::try_parse().unwrap_or_else(|error| exit(&error))
}

/// Exits with a usage error for `command`, in the same form as the errors that clap finds itself.
pub fn wrong_usage(command: &str, error: &dyn std::error::Error) -> ! {
    let mut root = Args::command();
    root.build();
    let sub = root.find_subcommand_mut(command).map(std::mem::take);
    exit(&sub.unwrap_or(root).error(ErrorKind::ValueValidation, error))
}

/// Prints clap's message and exits.
///
/// *Why control characters are looked for*: clap quotes arguments, and an argument may be a file
/// name that the shell substituted for a `*`.
fn exit(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if text.chars().any(|c| c != '\n' && is_control(c)) {
        crate::terminal::complain(text.trim_end());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_analysis::table;

    #[test]
    fn the_registry_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn help_lists_every_table() {
        let mut command = Args::command();
        command.build();
        let about = command.find_subcommand("table").unwrap().get_about().unwrap().to_string();
        let help = command.find_subcommand_mut("table").unwrap().render_long_help().to_string();
        for table in table::TABLES {
            assert!(about.contains(table.word), "{} in {about}", table.word);
            let listed = help
                .lines()
                .any(|line| line.trim_start().starts_with(&format!("- {}:", table.word)));
            assert!(listed, "{} in {help}", table.word);
        }
    }
}
