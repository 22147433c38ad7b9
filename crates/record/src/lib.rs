//! The flight recorder: keeps what the machine did in the last seconds in ring buffers that cost
//! next to nothing, and saves them after a hitch.
//!
//! * [`Recorder`] records, reports its [`Status`] and takes [`Snapshot`]s, which are saved as
//!   `NAME.hitch`;
//! * [`record`] records once, for a time or while a command runs, and writes the trace meanwhile;
//!   [`watch`] records continuously and saves on request;
//! * [`control`] lets one process ask another's recorder for a save.
//!
//! The kernel side is `perf_event_open(2)` with one overwriting ring per CPU. Between saves we have
//! two threads, and both are nearly always asleep: see the `session` and `machine` modules. A save
//! copies the rings while the kernel keeps writing, and loses nothing: see the `ring` module. A
//! trace is on disk before any program's file is opened to look up function names: see the
//! `naming` module.
//!
//! # Example
//!
//! ```no_run
//! use unhitch_record::{Extras, Options, Recorder, SaveTarget};
//!
//! let mut recorder = Recorder::start(&Options::default())?;
//! // … something hangs …
//! let target = SaveTarget::File("hang.hitch".into());
//! let saved = recorder.snapshot().prepare(&Extras::default())?.save(&target)?;
//! println!("{} events in {}", saved.records.0, saved.path.display());
//! # Ok::<(), unhitch_record::Error>(())
//! ```

#![warn(clippy::missing_errors_doc)]

mod bpf;
mod control_groups;
mod disks;
mod error;
mod events;
mod futex;
mod history;
mod hotplug;
mod idle_probe;
mod input_devices;
mod java;
mod kernel;
mod machine;
mod marks;
mod memory;
mod naming;
mod options;
mod peers;
mod permission;
mod places;
mod procfs;
mod python;
mod recorder;
mod recording;
mod recording_info;
mod ring;
mod runtimes;
mod save;
mod session;
mod sideband;
mod snapshot;
mod stream;
mod sys;
mod terminal;
mod tracepoint_count;
mod triggers;
mod unwind;
mod watch;

pub mod control;

pub use error::Error;
pub use naming::{LocalRules, Namer, NamingProcess, RuleReader, Unnamed, prepare_to_serve, serve};
pub use options::{EngineChoice, Options};
pub use places::{SaveTarget, fallback_folders};
pub use recorder::{CpuStatus, Recorder, Status};
pub use recording::{Progress, Recorded, Until, record};
pub use save::{Extras, Prepared, Saved, Timings};
pub use snapshot::Snapshot;
pub use triggers::{Pressure, Resource, Target, TriggerConfig, Watched, What};
pub use watch::{
    Config, ConfigError, GroupReads, Judge, JudgeProcess, Limits, Retention, Share, Signals,
    WatchEvent, WatchOptions, watch,
};
