//! JUnit's XML: a test case for each condition.

use super::outcome::Checked;
use std::io::{self, Write};

/// Writes the outcome. `answer` is what `unhitch why` says.
pub(super) fn write(out: &mut impl Write, checked: &[Checked], answer: &str) -> io::Result<()> {
    let failures = checked.iter().filter(|checked| !checked.breaches.is_empty()).count();
    let tests = checked.len();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites tests=\"{tests}\" failures=\"{failures}\">")?;
    writeln!(out, "<testsuite name=\"unhitch\" tests=\"{tests}\" failures=\"{failures}\">")?;
    for Checked { condition, breaches } in checked {
        let name = escaped(&format!("not {condition}"));
        writeln!(out, "<testcase classname=\"unhitch\" name=\"{name}\">")?;
        if let Some(first) = breaches.first() {
            let (first, all) = (escaped(first), escaped(&breaches.join("\n")));
            writeln!(out, "<failure message=\"{first}\">{all}</failure>")?;
        }
        writeln!(out, "</testcase>")?;
    }
    writeln!(out, "<system-out>{}</system-out>", escaped(answer))?;
    writeln!(out, "</testsuite>\n</testsuites>")
}

/// A text for XML 1.0, which has no place for most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_and_names_stay_text() {
        let failed = Checked {
            condition: "stall > 200ms".to_owned(),
            breaches: vec!["</failure><a b=\"c\"> & \u{1b}".to_owned()],
        };
        let passed = Checked { condition: "pattern = deadlock".to_owned(), breaches: vec![] };
        let mut out = Vec::new();
        write(&mut out, &[failed, passed], "HANG").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("tests=\"2\" failures=\"1\""), "{text}");
        assert!(text.contains("name=\"not stall &gt; 200ms\""), "{text}");
        let body = "&lt;/failure&gt;&lt;a b=&quot;c&quot;&gt; &amp; \u{fffd}";
        assert!(text.contains(&format!("<failure message=\"{body}\">{body}</failure>")), "{text}");
        assert_eq!(text.matches("<testcase").count(), 2);
        assert!(text.contains("<system-out>HANG</system-out>"));
    }
}
