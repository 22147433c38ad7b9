//! Options of `diff`.

use super::{ReadingArgs, RulesArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(ClapArgs, Debug)]
pub struct DiffArgs {
    /// The recording to compare with, or a folder of recordings: three on each side tell noise
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The other recording, or folder of recordings
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Compare the stalls of this thread or process: a name, or in a single pair a pid or tid
    /// [default: the victim of the worst stall before]
    #[arg(long, value_name = "NAME|PID|TID")]
    pub victim: Option<String>,
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
