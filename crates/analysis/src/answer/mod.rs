//! Answers: the same facts as text for people and as JSON for programs.

mod info;
mod json;
mod svg;
mod text;
pub mod units;

pub use info::Info;
pub use json::Why;
pub use svg::svg;
pub use text::text;
