//! The configuration of the always-on recorder: one TOML file. `packaging/watch.toml` documents
//! every option.

mod checks;
mod file;
mod settings;
mod trigger;

pub use settings::{Config, GroupReads, Limits, Retention};

use file::FileToml;
use std::path::{Path, PathBuf};

/// Maximum length of a configuration file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What is wrong with a configuration file.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {message}", unhitch_model::visible_path(path), line_text(*line))]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong there.
    pub message: String,
}

fn line_text(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

impl Config {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read or says something that makes no sense.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        use std::io::Read;
        let text = (|| {
            let mut text = String::new();
            std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(text)
        })();
        let failed = |line, message| ConfigError { path: path.to_owned(), line, message };
        let text = text.map_err(|error| failed(None, error.to_string()))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(failed(None, "it is longer than 1 MiB".to_owned()));
        }
        Self::parse(&text).map_err(|(line, message)| failed(line, message))
    }

    /// Reads the text of a file. The error has the number of the wrong line.
    fn parse(text: &str) -> Result<Self, (Option<usize>, String)> {
        let line = |at: usize| Some(1 + text[..at.min(text.len())].matches('\n').count());
        let file: FileToml = toml::from_str(text).map_err(|error| {
            let place = error.span().and_then(|span| line(span.start));
            (place, error.message().trim().replace('\n', " "))
        })?;
        file.check().map_err(|(span, message)| (line(span.start), message))
    }
}

#[cfg(test)]
mod tests;
