//! Makes text from a trace safe for a terminal: nothing in it moves the cursor, breaks a line or
//! reverses letters.
//!
//! Names, paths, payloads and notes come from the recorded programs. Escaped are C0, DEL and C1
//! (ISO 6429), the bidirectional controls (UAX #9 §2), and the separators of lines and paragraphs.
//! *Why escaped and not removed*: two names that differ only there must look different. A backslash
//! is not escaped, or every Windows path would be unreadable.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// True for a character that a terminal acts on instead of showing it.
pub const fn is_control(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}')
}

/// `text` on one line, with every control character escaped: `\n`, `\x1b`, `\u{202e}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_control)
}

/// The same for text of several lines. Line ends stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_control(c))
}

/// A path on one line. Parts that are not Unicode become U+FFFD.
pub fn visible_path(path: &Path) -> String {
    visible(&path.to_string_lossy()).into_owned()
}

/// JSON in which every control character is written as `\u202e`, so that it means the same; line ends
/// between its parts stay.
pub fn visible_json(json: String) -> String {
    let is_unwanted = |c: char| c != '\n' && is_control(c);
    if !json.contains(is_unwanted) {
        return json;
    }
    let escaped =
        |c: char| if is_unwanted(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    json.chars().map(escaped).collect()
}

fn escaped(text: &str, is_unwanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Nearly every text has no control characters, and most are ASCII.
    if !text.bytes().any(|byte| !(b' '..0x7f).contains(&byte)) || !text.contains(&is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        let _ = match c {
            _ if !is_unwanted(c) => out.write_char(c),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\0'..='\u{ff}' => write!(out, "\\x{:02x}", u32::from(c)),
            _ => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_written_out_and_nothing_else_is() {
        assert_eq!(visible("a\x1b[31mb\r\n\tc\x7f\u{9b}d"), "a\\x1b[31mb\\r\\n\\tc\\x7f\\x9bd");
        assert_eq!(
            visible("\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}\u{2028}"),
            "\\u{202e}gpj.exe\\u{2066}\\u{200f}\\u{61c}\\u{2028}"
        );
        for plain in ["", "C:\\new\\table", "naïve → 漢字 👩‍💻", "\u{a0}"] {
            assert!(matches!(visible(plain), Cow::Borrowed(text) if text == plain), "{plain:?}");
        }
    }

    #[test]
    fn lines_keep_their_ends() {
        assert_eq!(visible_lines("one\ntwo\r\n\x07"), "one\ntwo\\r\n\\x07");
    }

    #[test]
    fn what_is_visible_stays_as_it_is() {
        for c in (0..0x3000).filter_map(char::from_u32) {
            let once = visible(c.encode_utf8(&mut [0; 4])).into_owned();
            assert!(!once.contains(is_control), "{c:?}");
            assert_eq!(visible(&once), once);
        }
    }
}
