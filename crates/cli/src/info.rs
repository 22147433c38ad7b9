//! `unhitch info`: what a trace holds.

use crate::args::InfoArgs;
use crate::{Done, load, print};
use unhitch_analysis::answer::Info;

/// Prints what the trace holds.
pub fn info(args: &InfoArgs) -> anyhow::Result<Done> {
    let info = Info::new(&load::trace(&args.trace)?);
    print(&if args.json { serde_json::to_string(&info)? + "\n" } else { info.text() })?;
    Ok(Done::Yes)
}
