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

impl Function {
    /// A function of which only the name is known.
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), file: String::new(), line: 0 }
    }
}

/// The functions at one location, innermost first; empty if it has no name.
pub(crate) type Functions = Arc<[Function]>;
