//! What differs between two recordings, and why: of stalls, of their chains, and of waits.
//!
//! Each recording is reduced to a [`Summary`], which holds no ids of its trace: threads are called
//! by their names with digits folded ([`Who`]), code by functions. So recordings of other runs,
//! machines and builds can be compared, one after the other in memory. [`Diff`] compares two, or
//! two groups of them, in an order: is it comparable, the exact difference of two exact partitions,
//! the first edge of the chain that differs, the waits, and how much of it may be noise.

mod compare;
mod facts;
mod flame;
mod path;
mod ranks;
mod summary;
mod text;
mod waits;
mod who;

pub use compare::{ChainDiff, Diff, Line, PartDiff, StallDiff, WaitDiff};
pub use facts::Facts;
pub use flame::{FlameDiff, FlameNode};
pub use path::{Edge, End, Path};
pub use ranks::{Ranks, ranks};
pub use summary::{StallSummary, Summary};
pub use text::text;
pub use waits::{WaitKey, WaitSum};
pub use who::{Who, plain_function};
