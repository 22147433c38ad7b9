//! Annotations of GitHub Actions: lines that the runner obeys.
//! <https://docs.github.com/actions/reference/workflow-commands-for-github-actions>

use super::outcome::Checked;
use std::fmt::Write;

/// An error for each stall that breaks a condition.
pub(super) fn annotations(checked: &[Checked]) -> String {
    let mut out = String::new();
    for Checked { condition, breaches } in checked {
        for breach in breaches {
            let title = property(&format!("unhitch: {condition}"));
            let _ = writeln!(out, "::error title={title}::{}", message(breach));
        }
    }
    out
}

/// A text that cannot end the command.
fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property's value, which cannot end the property either.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_add_a_command() {
        let breaches = vec!["100 %\n::stop-commands::x".to_owned()];
        let checked = Checked { condition: "victim = a,b::c".to_owned(), breaches };
        assert_eq!(
            annotations(&[checked]),
            "::error title=unhitch%3A victim = a%2Cb%3A%3Ac::100 %25%0A::stop-commands::x\n"
        );
    }
}
