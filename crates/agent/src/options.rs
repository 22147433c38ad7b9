//! What the agent is told: its configuration file, and options over it.

use crate::error::Error;
use crate::hot_key::HotKey;
use crate::mark::InputMode;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The hot key, unless another is chosen.
const DEFAULT_HOT_KEY: &str = "Ctrl+Super+R";
/// How long a window may not answer, milliseconds, unless another time is chosen.
const DEFAULT_NOT_ANSWERING_MS: u64 = 500;
/// Maximum length of the configuration, bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The configuration file, `~/.config/unhitch/agent.toml`. Every setting may be left out.
#[derive(Clone, PartialEq, Default, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The key that saves, e.g. `Ctrl+Super+R`; empty for none.
    pub hot_key: Option<String>,
    /// Marks of input: off, private or full.
    pub input: Option<InputMode>,
    /// The yes to marks in full.
    pub yes_keep_every_key: Option<bool>,
    /// After how many milliseconds a window that does not answer is reported; 0 for never.
    pub not_answering_ms: Option<u64>,
    /// Whether to show notifications.
    pub notify: Option<bool>,
    /// The recorder's socket.
    pub socket: Option<PathBuf>,
}

/// What the agent is to do.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The key that saves.
    pub hot_key: Option<HotKey>,
    /// Marks of input.
    pub input: InputMode,
    /// How long a window may not answer; `None` if windows are not asked.
    pub not_answering: Option<Duration>,
    /// Whether to show notifications.
    pub notify: bool,
    /// The recorder's socket, if it is not at its usual place.
    pub socket: Option<PathBuf>,
}

impl Settings {
    /// The user's configuration; an empty one if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong.
    pub fn of_user() -> Result<Self, Error> {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
        let folder = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        match folder.map(PathBuf::from).or_else(home) {
            Some(folder) => Self::read(&folder.join("unhitch/agent.toml")),
            None => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |message: String| Error::Configuration { path: path.to_owned(), message };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
                return Err(wrong("the file is too long".to_owned()));
            }
            _ => {}
        }
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| {
                let before = text.as_bytes().iter().take(span.start);
                before.filter(|byte| **byte == b'\n').count() + 1
            });
            match line {
                Some(line) => wrong(format!("line {line}: {}", error.message())),
                None => wrong(error.message().to_owned()),
            }
        })
    }

    /// These settings where they are given, else `others`.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            hot_key: self.hot_key.or(others.hot_key),
            input: self.input.or(others.input),
            yes_keep_every_key: self.yes_keep_every_key.or(others.yes_keep_every_key),
            not_answering_ms: self.not_answering_ms.or(others.not_answering_ms),
            notify: self.notify.or(others.notify),
            socket: self.socket.or(others.socket),
        }
    }

    /// What to do by these settings.
    ///
    /// # Errors
    /// When the hot key is not understood, or marks in full lack their yes.
    pub fn options(self) -> Result<Options, Error> {
        let input = self.input.unwrap_or_default();
        if input == InputMode::Full && self.yes_keep_every_key != Some(true) {
            return Err(Error::NoYes);
        }
        let hot_key = self.hot_key.as_deref().unwrap_or(DEFAULT_HOT_KEY);
        let threshold = self.not_answering_ms.unwrap_or(DEFAULT_NOT_ANSWERING_MS);
        Ok(Options {
            hot_key: if hot_key.is_empty() { None } else { Some(hot_key.parse()?) },
            input,
            not_answering: (threshold > 0).then(|| Duration::from_millis(threshold)),
            notify: self.notify.unwrap_or(true),
            socket: self.socket,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        fs::write(&path, text).unwrap();
        Settings::read(&path)
    }

    #[test]
    fn without_a_file_input_is_off() {
        let options = Settings::read(Path::new("/nonexistent")).unwrap().options().unwrap();
        assert_eq!(options.input, InputMode::Off);
        assert_eq!(options.hot_key.unwrap().to_string(), "Ctrl+Super+R");
        assert_eq!(options.not_answering, Some(Duration::from_millis(500)));
    }

    #[test]
    fn full_marks_need_a_yes() {
        let full = read("input = 'full'").unwrap();
        assert!(matches!(full.clone().options(), Err(Error::NoYes)));
        let yes = Settings { yes_keep_every_key: Some(true), ..Settings::default() };
        assert_eq!(yes.or(full).options().unwrap().input, InputMode::Full);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = read("notify = true\n\ninput = 'all'\n").unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
        let error = read("notify = true\nhotkey = 'x'\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("hotkey"), "{error}");
        assert!(read("").unwrap().options().is_ok());
        let none = read("hot_key = ''\nnot_answering_ms = 0").unwrap().options().unwrap();
        assert_eq!((none.hot_key, none.not_answering), (None, None));
    }
}
