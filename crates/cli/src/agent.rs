//! `unhitch agent`: the part of a desktop session.

use crate::args::AgentArgs;
use crate::done::Done;
use crate::terminal::note;
use unhitch_agent::{Error, Report, Settings, run, show_error};
use unhitch_model::visible_path;

/// Serves the session until it ends.
pub fn agent(args: &AgentArgs) -> anyhow::Result<Done> {
    let options = || args.settings().or(Settings::of_user()?).options();
    let mut report = |report: Report| match report {
        Report::Ready(text) => note(&format!("agent: {text}")),
        Report::Warning(text) => note(&format!("warning: {text}")),
        Report::Saved(path) => note(&format!("saved {}", visible_path(&path))),
        Report::Judged(path, line) => note(&format!("{}: {line}", visible_path(&path))),
        Report::Noted(path) => note(&format!("{}: the note is stored", visible_path(&path))),
        _ => {}
    };
    match options().and_then(|options| run(&options, &mut report)) {
        Err(Error::NoSession | Error::AlreadyRunning(_) | Error::Display(_)) if args.autostart => {
            Ok(Done::Yes)
        }
        Err(error) => {
            // Nobody reads what it says on standard error.
            if args.autostart {
                show_error(&error);
            }
            Err(error.into())
        }
        Ok(()) => Ok(Done::Yes),
    }
}
