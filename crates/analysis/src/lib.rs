//! From context switches to a cause: pure functions over a [`Trace`](unhitch_model::Trace).
//!
//! The way of a hang through this crate: [`Timeline`] turns switches and wake-ups into a gapless
//! partition of every thread's time; [`Facts`] says what each stack means (wait class, event-loop
//! pump, wake-up context); [`stalls`] finds what someone must have suffered from;
//! [`explain`](Analysis::explain) follows every wait inside a stall to the thread that caused it,
//! as an exact partition; [`patterns`] names the cause; [`answer`] says it in words and as JSON.
//! Nothing here knows a file format.

mod all_waits;
mod analysis;
pub mod answer;
mod cancel;
mod chain;
mod cpus;
mod crowd;
mod explain;
mod facts;
pub mod flame;
mod hot;
pub mod hot_loop;
mod kernel_locks;
pub mod lod;
pub mod marks;
mod mend;
mod operations;
mod partition;
pub mod patterns;
mod same_lock;
mod self_samples;
pub mod stalls;
mod story;
pub mod table;
pub mod throttling;
mod timeline;
mod waits;

pub use all_waits::{Release, StackWaits};
pub use analysis::Analysis;
pub use cancel::{Cancel, Cancelled, Wanted};
pub use chain::{Link, LinkState};
pub use cpus::{CpuTimes, Occupancy};
pub use explain::{Cause, Explanation, Hop, Piece};
pub use facts::{Facts, WakeContext, WakeSource};
pub use hot::{HotInstruction, HotSpot, SampleIndex, Sampled};
pub use mend::mend;
pub use operations::Operation;
pub use partition::{Share, What};
pub use patterns::{Evidence, Finding, Pattern};
pub use self_samples::{SelfSamples, self_samples};
pub use timeline::{Segment, State, Timeline};
pub use waits::{InterruptSource, Rules, RulesError, WaitClass};
