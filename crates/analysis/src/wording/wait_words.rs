//! What a thread waits for, in the words of those who use its program, where a rule has them.

use crate::{Analysis, Hop, WaitClass};
use unhitch_model::StackId;

/// What a wait was for: `a row lock of PostgreSQL`.
pub(crate) fn wanted(analysis: &Analysis<'_>, wait_stack: StackId) -> Option<String> {
    let words = analysis.stacks.words(wait_stack)?;
    let article = match words.split(' ').next() {
        Some("its" | "the") => "",
        Some(first) if first.starts_with(['a', 'e', 'i', 'o', 'u']) => "an ",
        _ => "a ",
    };
    Some(format!("{article}{words}"))
}

/// The lock that a hop waited for, of which was told before: `the row lock`.
pub(crate) fn the_lock(analysis: &Analysis<'_>, hop: &Hop) -> String {
    let words = analysis.stacks.words(hop.wait_stack).unwrap_or("lock");
    let words = words.strip_prefix("the ").unwrap_or(words);
    format!("the {}", words.split(" of ").next().unwrap_or(words))
}

/// A wait in a list: `row lock of PostgreSQL`, else its class.
pub(crate) fn of_wait(analysis: &Analysis<'_>, class: WaitClass, wait_stack: StackId) -> String {
    let words = analysis.stacks.words(wait_stack);
    words.map_or_else(|| class.words(), |words| words.trim_start_matches("the ").to_owned())
}
