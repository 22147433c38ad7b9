//! What became of a condition.

/// A condition, and what breaks it.
pub(super) struct Checked {
    pub(super) condition: String,
    /// The stalls that fulfil it, a line each.
    pub(super) breaches: Vec<String>,
}
