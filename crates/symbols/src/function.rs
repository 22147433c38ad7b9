//! [`Function`]: the name of a location.

use std::sync::Arc;

/// One function at a location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Source file; empty if unknown.
    pub(crate) file: String,
    /// Source line; 0 if unknown.
    pub(crate) line: u32,
}

/// The functions at one location, innermost first; empty if it has no name.
pub(crate) type Functions = Arc<[Function]>;
