//! Answers: the same facts as text for people and as JSON for programs.

mod clauses;
mod info;
mod json;
mod link;
mod machine;
mod proofs;
mod saved;
mod spans_json;
mod svg;
mod text;
mod thread_json;
mod waker_vs_holder;
mod words;

pub use clauses::{Clause, ClauseKind, TextLink, clauses};
pub use info::Info;
pub use json::Why;
pub use link::LinkWait;
pub use saved::{SavedJson, seen_by_trigger};
pub use svg::svg;
pub use text::{Nothing, nothing_found, one_line, text, text_for, text_of, took};
pub use words::headline;
