//! Looks up function names for the frames of a trace that is already on disk.
//!
//! *Why in a separate process*: names come from files that any user can write, and the code that
//! parses them is large. Root must not parse them. An unprivileged child does. It asks the recorder
//! for file descriptors ([`opener`] has the rules) and is killed if it takes too long; then the
//! trace has no names and says so, but loses nothing else.

mod beneath;
mod channel;
mod child;
pub(crate) mod mounts;
mod namer;
mod opener;
mod process;
mod programs;
mod rules;

pub use child::{prepare_to_serve, serve};
pub use namer::{Namer, Unnamed};
pub use process::NamingProcess;
pub(crate) use programs::{MappedFile, Programs};
pub use rules::{LocalRules, RuleReader};
