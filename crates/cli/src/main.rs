//! `unhitch`: explains why a mostly idle machine hangs.
//!
//! One file per command. Exit codes: 0 done; 1 error, printed on standard error; 2 wrong usage; 3
//! `why` found no stall; 4 the lab program did not hang; 5 a `--fail-on` condition holds. `record -- CMD`
//! ends as CMD does.

#[cfg(target_os = "linux")]
mod agent;
mod args;
mod checks;
#[cfg(target_os = "linux")]
mod client;
mod diff;
mod done;
mod export;
mod hot;
mod info;
#[cfg(target_os = "linux")]
mod judge;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod list;
#[cfg(target_os = "linux")]
mod live;
mod load;
#[cfg(target_os = "linux")]
mod names;
mod python;
#[cfg(target_os = "linux")]
mod record;
mod rights;
#[cfg(target_os = "linux")]
mod scan;
mod selection;
mod settings;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod status;
mod table;
mod terminal;
#[cfg(target_os = "linux")]
mod threads;
mod view;
mod waits;
#[cfg(target_os = "linux")]
mod watch;
mod why;

use args::{Args, Command};
use done::Done;
use std::process::ExitCode;
use unhitch_analysis::table::Direction;

fn main() -> ExitCode {
    match run(args::parse()) {
        Ok(done) => ExitCode::from(done.exit_code()),
        Err(error) => {
            terminal::complain(&format!("unhitch: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<Done> {
    // This must come before anything is opened and before a second thread exists.
    rights::give_up(&args.command)?;
    match args.command {
        #[cfg(target_os = "linux")]
        Command::Record(args) => record::record(&args),
        #[cfg(target_os = "linux")]
        Command::Watch(args) => watch::watch(&args),
        #[cfg(target_os = "linux")]
        Command::Save(args) => live::save(&args),
        #[cfg(target_os = "linux")]
        Command::Agent(args) => agent::agent(&args),
        #[cfg(target_os = "linux")]
        Command::Mark(args) => client::mark(&args),
        #[cfg(target_os = "linux")]
        Command::Status(args) => status::status(&args),
        #[cfg(target_os = "linux")]
        Command::List(args) => list::list(&args),
        #[cfg(target_os = "linux")]
        Command::JudgeTrace => judge::judge_trace(),
        #[cfg(target_os = "linux")]
        Command::Lab(args) => lab::lab(&args),
        #[cfg(target_os = "linux")]
        Command::Scan(args) => scan::scan(&args),
        #[cfg(target_os = "linux")]
        Command::Threads(args) => threads::threads(&args),
        #[cfg(target_os = "linux")]
        Command::NameFrames => names::name_frames(),
        #[cfg(target_os = "linux")]
        Command::Why(args) if args.live => live::why(&args),
        Command::Why(args) => why::why(&args),
        Command::Waits(args) => waits::waits(&args),
        Command::Hot(args) => hot::hot(&args),
        Command::Info(args) => info::info(&args),
        Command::Table(args) => table::table(&args),
        Command::Callers(args) => table::butterfly(&args, Direction::Callers),
        Command::Callees(args) => table::butterfly(&args, Direction::Callees),
        Command::Diff(args) => diff::diff(&args),
        Command::View(args) => view::view(&args),
        Command::Report(args) => view::report(&args),
        Command::Sql(args) => python::sql(&args),
        Command::Fleet(args) => python::fleet(&args),
        Command::Export(args) => export::export(&args),
        Command::Manual(args) => args::manual(&args),
    }
}
