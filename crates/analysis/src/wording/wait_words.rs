//! What a thread waits for, in the words of those who use its program, where a rule has them.

use crate::{Analysis, Hop};
use unhitch_model::StackId;

/// What the wait of a hop was for: `a row lock of PostgreSQL`.
pub(crate) fn wanted(analysis: &Analysis<'_>, hop: &Hop) -> Option<String> {
    wanted_on(analysis, hop.wait_stack)
}

/// The same for a stack.
pub(crate) fn wanted_on(analysis: &Analysis<'_>, wait_stack: StackId) -> Option<String> {
    let words = analysis.stacks.words(wait_stack)?;
    let article = match words.split(' ').next() {
        Some("its" | "the") => "",
        Some(first) if first.starts_with(['a', 'e', 'i', 'o', 'u']) => "an ",
        _ => "a ",
    };
    Some(format!("{article}{words}"))
}
