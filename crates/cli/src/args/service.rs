//! Options of the commands that talk to a running recorder, or look at what it saved: `mark`,
//! `status` and `list`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Which recorder.
#[derive(ClapArgs, Clone, Debug)]
pub struct SocketArgs {
    /// The recorder's socket [default: that of this user's recorder, else the machine's]
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
}

#[derive(ClapArgs, Debug)]
pub struct MarkArgs {
    /// What happened, in your own words; at most 256 bytes
    #[arg(value_name = "TEXT")]
    pub text: String,
    #[command(flatten)]
    pub recorder: SocketArgs,
}

#[derive(ClapArgs, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub recorder: SocketArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs, Debug)]
pub struct ListArgs {
    /// The folder of traces [default: /var/lib/unhitch if you can read it, else the current folder]
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// List at most this many, newest first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub top: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
