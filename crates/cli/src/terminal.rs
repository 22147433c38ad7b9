//! All output of this program: text, JSON and CSV to standard output, notes and progress to
//! standard error.
//!
//! *Why in one place:* the strings in a trace come from whoever was recorded, and a terminal obeys
//! the escape sequences that it receives. Names are made [visible](unhitch_model::visible) where
//! they leave the trace ([`Trace::for_text`](unhitch_model::Trace::for_text)), because only there
//! we know which line breaks belong to a name and which to a table. This module is the last line of
//! defence and lets only text and line breaks through. Only [`progress`] and [`clear`] write escape
//! sequences of our own.

use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};
use unhitch_analysis::wording::recording::Lack;
use unhitch_model::{Recorded, Trace, visible, visible_json, visible_lines};

/// Prints lines of text to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_raw(&visible_lines(text))
}

/// Prints a value as one line of JSON. Control characters are written as JSON's `\u…` escapes,
/// which mean the same to a parser and nothing to a terminal.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_raw(&(visible_json(serde_json::to_string(value)?) + "\n"))
}

/// Prints an answer about a trace, and below it what is wrong with the trace.
pub fn print_answer(text: &str, trace: &Trace) -> anyhow::Result<()> {
    let warnings =
        trace.warnings.lines().map(|warning| format!("WARNING  {}\n", visible(&warning)));
    print(&warnings.fold(text.to_owned(), |text, warning| text + &warning))
}

/// Prints an answer about a trace as one line of JSON: the fields of the answer, which has none of
/// these itself; whether `what` it is made of was recorded; and what is wrong with the trace.
pub fn print_json_answer(
    answer: &impl Serialize,
    trace: &Trace,
    what: Option<Recorded>,
) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Whole<'a, T> {
        #[serde(flatten)]
        answer: &'a T,
        not_recorded: Vec<Lack>,
        warnings: Vec<String>,
    }
    let not_recorded = what.and_then(|what| Lack::of(trace, what)).into_iter().collect();
    print_json(&Whole { answer, not_recorded, warnings: trace.warnings.lines().collect() })
}

/// Writes what is wrong with a trace to standard error: for output that has no place for it.
pub fn note_warnings(trace: &Trace) {
    trace.warnings.lines().for_each(|warning| note(&format!("warning: {warning}")));
}

/// Prints text for programs (CSV, a manual page, shell completions) unchanged.
pub fn print_raw(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Writes a note to standard error, always as one line.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible(line));
}

/// Writes a message of one or several lines to standard error.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", visible_lines(text));
}

/// Shows a progress line in place of the previous one.
pub fn progress(line: &str) {
    let _ = write!(std::io::stderr(), "\r{}\x1b[K", visible(line));
    let _ = std::io::stderr().flush();
}

/// Clears the progress line.
pub fn clear() {
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}

/// Maximum columns for a line of standard output: `COLUMNS`, or else the width of the terminal;
/// `None` for no limit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_model::is_control;

    #[test]
    fn visible_json_parses_to_the_same_and_holds_no_control_characters() {
        let text = "\u{202e}a\x1b\u{9b}\x7f\n\u{2028}\\";
        let json = visible_json(serde_json::to_string(text).unwrap());
        assert!(!json.contains(is_control), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
