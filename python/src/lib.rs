//! The native part of the Python package `unhitch`: reads traces and hands their tables to Python as
//! Arrow streams, without a copy.
//!
//! Everything that is computed is computed by `unhitch-analysis`, as for the program; this crate
//! only turns columns of integers into Arrow arrays. Nothing here keeps the interpreter's lock while
//! it reads or computes.

mod columns;
mod content_id;
mod failure;
mod fleet;
mod opened;
mod scan;
mod stacks;
mod table;
mod terminal;
mod trace;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("UnhitchError", module.py().get_type::<failure::UnhitchError>())?;
    module.add("SCHEMA_VERSION", columns::SCHEMA_VERSION)?;
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<scan::Scan>()?;
    module.add_function(wrap_pyfunction!(trace::open, module)?)?;
    module.add_function(wrap_pyfunction!(scan::scan, module)?)?;
    module.add_function(wrap_pyfunction!(table::describe, module)?)?;
    module.add_function(wrap_pyfunction!(terminal::visible, module)?)?;
    module.add_function(wrap_pyfunction!(terminal::visible_lines, module)?)?;
    module.add_function(wrap_pyfunction!(terminal::visible_json, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::content_id, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_rows, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::normal_name, module)?)?;
    Ok(())
}
