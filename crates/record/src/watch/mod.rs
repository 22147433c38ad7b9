//! The always-on recorder: saves on request and by itself, judges what it saved, and keeps the
//! folder of its traces within limits.
//!
//! The main thread sleeps until a client, a signal, a trigger or the worker has something for it
//! ([`service`]). Triggers wait in threads of their own ([`crate::triggers`]). A worker names and
//! judges traces ([`worker`]), so that the next save need not wait for that.

mod config;
mod events;
mod gate;
mod in_work;
mod notify;
mod recovery;
mod requests;
mod retention;
mod service;
mod status;
mod unsaved;
mod upkeep;
mod values;
mod verdict;
mod worker;

pub use config::{Config, ConfigError, GroupReads, Limits, Retention};
pub use events::{Signals, WatchEvent, WatchOptions};
pub use values::Share;
pub use verdict::{Judge, JudgeProcess};

use crate::error::Error;
use crate::naming::Namer;
use std::sync::mpsc::channel;

/// Records until told to stop, and saves when asked to: by a signal, through the control socket, or
/// by a trigger. If the folder of traces cannot be written, a trace goes to the first of
/// [`fallback_folders`](crate::fallback_folders) that can. If none can, it stays in memory, and the
/// save is retried at an interval, with the next save, and at the end.
///
/// # Errors
/// When another recorder is running, recording is not possible, or a trace still cannot be written
/// at the end.
pub fn watch(
    options: WatchOptions,
    namer: &mut (dyn Namer + Send),
    judge: Option<&mut dyn Judge>,
    report: &mut dyn FnMut(WatchEvent<'_>),
    signals: Signals<'_>,
) -> Result<(), Error> {
    let (jobs, to_do) = channel();
    let (done, progress) = channel();
    let mut service =
        service::Service::start(options, namer.rule_reader(), jobs, progress, report, signals)?;
    std::thread::scope(|scope| {
        let tell = worker::Tell { done, waker: service.waker() };
        let recovery = service.recovery();
        let worker = std::thread::Builder::new().name("unhitch-worker".to_owned());
        worker
            .spawn_scoped(scope, move || {
                worker::work(&to_do, &tell, namer, judge, &recovery, signals.stop);
            })
            .map_err(|source| Error::System { action: "start a thread", source })?;
        service.run()
    })
}
