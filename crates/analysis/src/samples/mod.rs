//! What CPU samples show: where threads were while they ran.

pub mod hot_loop;
mod hot_spot;
mod index;
mod self_samples;
mod spinning;

pub use hot_spot::{HotSpot, Sampled, hot_spot, sampled};
pub use index::{HotInstruction, SampleIndex};
pub use self_samples::{SelfSamples, self_samples};
pub(crate) use spinning::{Spinning, spinning};
