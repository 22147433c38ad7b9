//! `unhitch info`: a summary of what a trace holds.

use crate::args::InfoArgs;
use crate::done::Done;
use crate::load;
use crate::terminal::{print, print_json};
use unhitch_analysis::answer::Info;

/// Prints the summary.
pub fn info(args: &InfoArgs) -> anyhow::Result<Done> {
    let info = Info::new(&load::trace(&args.trace, load::For::of(args.json))?);
    if args.json {
        print_json(&info)?
    } else {
        print(&info.text())?
    }
    Ok(Done::Yes)
}
