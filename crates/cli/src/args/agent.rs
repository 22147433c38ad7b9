//! Options of `agent`.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;
use unhitch_agent::{InputMode, Settings};

#[derive(ClapArgs, Debug)]
pub struct AgentArgs {
    /// The key that saves, e.g. Ctrl+Super+R; "" for none [default: Ctrl+Super+R]
    #[arg(long, value_name = "KEY")]
    pub hot_key: Option<String>,
    /// Mark input in traces: not at all, by the class of a key, or by the key itself [default: off]
    #[arg(long, value_name = "MODE")]
    pub input: Option<Input>,
    /// Say yes to --input full: traces then hold every key that you press, passwords too
    #[arg(long)]
    pub yes_keep_every_key: bool,
    /// Save when the window with the focus does not answer for this many milliseconds while the
    /// session is in use; 0 for never [default: 500]
    #[arg(long, value_name = "MS")]
    pub not_answering: Option<u64>,
    /// Show no notifications
    #[arg(long)]
    pub quiet: bool,
    /// Talk to the recorder at this socket
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// End without a word where there is no session or another agent, as at the start of a session
    #[arg(long)]
    pub autostart: bool,
}

/// How input is marked.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Input {
    /// Not at all
    Off,
    /// The class of a key and its time
    Private,
    /// The key itself
    Full,
}

impl AgentArgs {
    /// What the options say; what they leave out is for the configuration file.
    pub fn settings(&self) -> Settings {
        Settings {
            hot_key: self.hot_key.clone(),
            input: self.input.map(|input| match input {
                Input::Off => InputMode::Off,
                Input::Private => InputMode::Private,
                Input::Full => InputMode::Full,
            }),
            yes_keep_every_key: self.yes_keep_every_key.then_some(true),
            not_answering_ms: self.not_answering,
            notify: self.quiet.then_some(false),
            socket: self.socket.clone(),
        }
    }
}
