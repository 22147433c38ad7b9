//! From context switches to a cause: pure functions over a [`Trace`](unhitch_model::Trace).
//!
//! A hang's way through this crate: [`Timeline`] turns switches and wake-ups into a gapless
//! partition of every thread's time; [`StackClasses`] holds what each stack means (wait class,
//! event-loop pump, wake-up context); [`diagnose`] is the algorithm: [`stalls`] proposes stretches
//! of time that somebody must have suffered from, [`explain`](explain::explain) follows every wait
//! in them to the thread that caused it, as an exact partition, and [`patterns`] names the cause;
//! [`answer`] prints it as text and as JSON. Nothing here knows a file format.

mod analysis;
pub mod answer;
mod cancel;
pub mod candidate;
pub mod conditions;
mod contacts;
mod diagnose;
pub mod diff;
pub mod explain;
mod facts;
mod family;
pub mod flame;
mod grouped;
mod locks;
pub mod lod;
mod memo;
pub mod patterns;
pub mod samples;
mod stacks;
pub mod stalls;
pub mod table;
mod timeline;
pub mod user_marks;
mod waits;
mod wakers;
pub mod wording;

pub use analysis::Analysis;
pub use cancel::{Cancel, Cancelled, Wanted};
pub use candidate::{Candidate, StallKind};
pub use diagnose::{Query, Stall, Waiter, command, diagnose};
pub use explain::{Cause, ChainLink, Explanation, Hop, LinkState, Operation, Piece, Share, What};
pub use locks::{Release, lock_of};
pub use patterns::{Evidence, Finding, Pattern};
pub use samples::{HotInstruction, HotSpot, SampleIndex, Sampled, SelfSamples, self_samples};
pub use stacks::text;
pub use stacks::{
    InterruptSource, Rules, RulesError, StackClasses, StackKind, WaitClass, WakeContext, WakeSource,
};
pub use timeline::cpus::{CpuTimes, Occupancy};
pub use timeline::repair::repair;
pub use timeline::{Segment, State, Timeline};
pub use waits::{StackWaits, unclassified_waits};
