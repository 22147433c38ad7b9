//! Answers: the same facts as text for people and as JSON for programs.

mod clauses;
mod info;
mod json;
mod machine;
mod readings;
pub mod recording;
mod svg;
mod text;
pub mod units;

pub use clauses::{Clause, ClauseKind, Event, Link, clauses, words};
pub use info::Info;
pub use json::Why;
pub use svg::svg;
pub use text::{headline, one_line, text, text_for};
