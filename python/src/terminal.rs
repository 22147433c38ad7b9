//! Text for a terminal, by the program's own rules.

use pyo3::prelude::*;

/// A name on one line, with every control character escaped.
#[pyfunction]
pub fn visible(text: &str) -> String {
    unhitch_model::visible(text).into_owned()
}

/// The same for text of several lines.
#[pyfunction]
pub fn visible_lines(text: &str) -> String {
    unhitch_model::visible_lines(text).into_owned()
}

/// JSON that means the same, with every control character escaped.
#[pyfunction]
pub fn visible_json(json: String) -> String {
    unhitch_model::visible_json(json)
}
