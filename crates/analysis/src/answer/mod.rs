//! Answers: the same facts as text for people and as JSON for programs.

mod info;
mod json;
mod text;
pub mod units;

pub use info::Info;
pub use json::Why;
pub use text::text;
