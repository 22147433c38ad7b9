//! Writes any trace as a `perf.data` that `perf script` and `perf sched timehist` read.
//!
//! All records are in the order of time, and nothing but the side-band is held in memory. What the
//! format has no place for is left out: function names, locks and their owners, counters of the
//! machine, events of other providers.

mod describe;
mod order;
mod records;
mod selection;
mod side_band;
mod stream;

pub use selection::{Exported, Selection};
pub use stream::{export, export_showing};
