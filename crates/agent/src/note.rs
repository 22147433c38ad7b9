//! The note on a save: a dialog asks for it, by a program of the desktop.

use std::path::PathBuf;
use std::process::{Command, Stdio};

const QUESTION: &str = "What happened? The note is stored in the trace.";
/// Programs that ask for a line, and print it; what is typed is never an argument of theirs.
const DIALOGS: [(&str, [&str; 4]); 2] = [
    ("zenity", ["--entry", "--title", "Unhitch", "--text"]),
    ("kdialog", ["--title", "Unhitch", "--geometry=480x120", "--inputbox"]),
];
/// Maximum length of a note, bytes, by the protocol.
const MAX_NOTE: usize = 4096;

/// A program that can ask.
pub struct Dialog(Command);

impl Dialog {
    /// The first that is installed.
    pub fn find() -> Option<Self> {
        let folders = std::env::var_os("PATH")?;
        let at = |program: &str| -> Option<PathBuf> {
            let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(program));
            paths.find(|path| path.is_absolute() && path.is_file())
        };
        DIALOGS.iter().find_map(|(program, arguments)| {
            let mut command = Command::new(at(program)?);
            command.args(arguments).arg(QUESTION);
            Some(Self(command))
        })
    }

    /// Asks; `None` if the user does not want to say anything.
    pub fn ask(mut self) -> std::io::Result<Option<String>> {
        let output = self.0.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let text = text.trim();
        let end = (0..=text.len().min(MAX_NOTE)).rev().find(|end| text.is_char_boundary(*end));
        let text = &text[..end.unwrap_or(0)];
        Ok((output.status.success() && !text.is_empty()).then(|| text.to_owned()))
    }
}
