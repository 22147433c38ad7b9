//! Puts names into a trace, and formats lists of modules for its warnings.

use crate::function::Function;
use unhitch_model::{FrameId, Symbol, Trace};

/// Maximum number of modules that a warning lists by name.
pub(crate) const MAX_LISTED_MODULES: usize = 5;

/// The first names of a list, for a warning.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(MAX_LISTED_MODULES).map(AsRef::as_ref).collect();
    format!("{}{}", first.join(", "), if names.len() > MAX_LISTED_MODULES { ", …" } else { "" })
}

/// Names frames that have one function each.
pub(crate) fn set_names(trace: &mut Trace, names: impl Iterator<Item = (FrameId, Option<String>)>) {
    for (frame, name) in names {
        if let Some(name) = name {
            set_functions(trace, frame, &[Function::named(name)]);
        }
    }
}

/// Names one frame: its functions, innermost first.
pub(crate) fn set_functions(trace: &mut Trace, frame: FrameId, functions: &[Function]) {
    let strings = &mut trace.strings;
    let symbols: Vec<Symbol> = functions
        .iter()
        .map(|Function { name, file, line }| Symbol {
            function: strings.intern(name),
            file: strings.intern(file),
            line: *line,
        })
        .collect();
    if !symbols.is_empty() {
        trace.symbols.set(frame, &symbols);
    }
}
