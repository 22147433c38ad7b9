//! `unhitch threads`: names, states and waits of threads; flags threads that were never given a
//! name.

use crate::args::ThreadsArgs;
use crate::done::Done;
use crate::terminal::{print, print_json};
use unhitch_scan::{Error, ProcessThreads, all_pids, find, threads_text};

/// Lists the threads of one process, of all processes of that name, or of all processes.
pub fn threads(args: &ThreadsArgs) -> anyhow::Result<Done> {
    let pids = match &args.who {
        Some(who) => find(who)?,
        None => all_pids()?,
    };
    let mut processes: Vec<ProcessThreads> = Vec::new();
    for pid in pids {
        match unhitch_scan::threads(pid) {
            Ok(process) => processes.push(process),
            // It ended since the pids were listed.
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
