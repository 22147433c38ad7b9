//! `unhitch threads`: names, states and waits of threads; those that nobody named are flagged.

use crate::Done;
use crate::args::ThreadsArgs;
use crate::terminal::{print, print_json};
use unhitch_scan::{Error, ProcessThreads, all_pids, find, threads_text};

/// Lists the threads of one process, of those of a name, or of all programs.
pub fn threads(args: &ThreadsArgs) -> anyhow::Result<Done> {
    let pids = match &args.who {
        Some(who) => find(who)?,
        None => all_pids()?,
    };
    let mut processes: Vec<ProcessThreads> = Vec::new();
    for pid in pids {
        match unhitch_scan::threads(pid) {
            Ok(process) => processes.push(process),
            // One that was there a moment ago.
            Err(Error::Ended { .. } | Error::NoSuchProcess { .. }) if args.who.is_none() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if args.who.is_none() {
        processes.retain(|process| !process.kernel);
    }
    if args.json {
        print_json(&serde_json::json!({ "version": 1, "processes": processes }))?;
    } else {
        print(&threads_text(&processes))?;
    }
    Ok(Done::Yes)
}
