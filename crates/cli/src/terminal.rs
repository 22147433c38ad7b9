//! The one place where this program writes: text, JSON and CSV to standard output, notes and
//! progress to standard error.
//!
//! *Why one:* what a trace holds was written by whoever was recorded, and a terminal obeys what it
//! is sent. Names are made [visible](unhitch_model::visible) where they leave the trace
//! ([`Trace::for_text`](unhitch_model::Trace::for_text)), because only there it is known which line
//! break is the name's and which the table's; here is the last line of defence, which lets nothing
//! through but text and line breaks. Escape sequences of our own are written by [`progress`] and
//! [`clear`] alone.

use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use unhitch_model::{is_control, visible, visible_lines};

/// Prints lines of text to standard output; that nobody reads it to the end is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&visible_lines(text))
}

/// Prints a value as one line of JSON. What a terminal would act on is written as JSON's own `\u…`,
/// which means the same.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_as_it_is(&(escaped_json(serde_json::to_string(value)?) + "\n"))
}

/// Prints text for programs (CSV, a manual page, a shell's script) byte by byte.
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes a note to standard error: one line, whatever it holds.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(line));
}

/// Writes a message of one or several lines to standard error.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible_lines(text));
}

/// Shows a line of progress in the place of the last one.
pub fn progress(line: &str) {
    let _ = write!(std::io::stderr(), "\r{}\x1b[K", visible(line));
    let _ = std::io::stderr().flush();
}

/// Takes the line of progress away.
pub fn clear() {
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}

/// Columns that a line of standard output may have: `COLUMNS`, else the terminal's; without either,
/// any.
pub fn columns() -> Option<usize> {
    let wanted =
        std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse::<usize>().ok());
    let of_terminal = || {
        terminal_size::terminal_size_of(std::io::stdout())
            .map(|(columns, _)| usize::from(columns.0))
    };
    wanted
        .or_else(|| std::io::stdout().is_terminal().then(of_terminal).flatten())
        .filter(|columns| *columns > 0)
}

/// JSON has control characters and the like inside its strings only, and there each may be written
/// by its number.
fn escaped_json(json: String) -> String {
    let is_unwanted = |c: char| c != '\n' && is_control(c);
    if !json.contains(is_unwanted) {
        return json;
    }
    let escaped =
        |c: char| if is_unwanted(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_means_the_same_and_moves_no_cursor() {
        let text = "\u{202e}a\x1b\u{9b}\x7f\n\u{2028}\\";
        let json = escaped_json(serde_json::to_string(text).unwrap());
        assert!(!json.contains(is_control), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
