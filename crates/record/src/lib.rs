//! The flight recorder: what the machine did in the last seconds, kept in rings that cost next to
//! nothing, saved when it hitched.
//!
//! * [`Recorder`] starts recording, tells what it holds, and takes [`Snapshot`]s, which are saved
//!   as `NAME.hitch`;
//! * [`record`] records once, for a time or a command; [`watch`] records all the time and saves
//!   when asked to;
//! * [`control`] is how one process asks another's recorder for a save.
//!
//! The kernel side is `perf_event_open(2)` with one overwriting ring per CPU. Between saves two
//! threads of ours exist, and both sleep nearly always: see the `session` and `machine` modules. A
//! save copies the rings while the kernel goes on writing and loses nothing: see the `ring` module.
//! What is saved is on the disk before any program's file is opened to name functions: see the
//! `naming` module.

mod control_groups;
mod error;
mod events;
mod facts;
mod futex;
mod history;
mod kernel;
mod machine;
mod naming;
mod places;
mod probe;
mod procfs;
mod recorder;
mod recording;
mod ring;
mod save;
mod session;
mod sideband;
mod silence;
mod snapshot;
mod sys;
mod watch;

pub mod control;

pub use error::Error;
pub use naming::{Namer, NamingProcess, Unnamed, prepare_to_serve, serve};
pub use places::fallback_folders;
pub use recorder::{CpuStatus, Options, Recorder, Status};
pub use recording::{Recorded, Until, record};
pub use save::{Extras, Prepared, SaveTarget, Saved, Timings};
pub use snapshot::Snapshot;
pub use watch::{WatchEvent, watch};
