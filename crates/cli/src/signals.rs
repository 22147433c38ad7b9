//! Signals as flags.

use crate::terminal::complain;
use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long the end may take.
const PATIENCE: Duration = Duration::from_millis(850);

/// A flag that Ctrl-C and SIGTERM set. A second Ctrl-C ends the program at once.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .context("cannot handle signals")?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// Ends the program a second after Ctrl-C or SIGTERM, whatever it is doing then: a file or a
/// process that it waits for may never answer.
pub fn end_in_any_case() -> anyhow::Result<()> {
    let (mut told, tell) = UnixStream::pair().context("cannot handle signals")?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, tell.try_clone()?)
            .context("cannot handle signals")?;
    }
    std::thread::Builder::new().name("unhitch-end".to_owned()).spawn(move || {
        let _ = told.read(&mut [0]);
        std::thread::sleep(PATIENCE);
        complain("unhitch: something takes too long; it ends all the same, and a trace that is not whole keeps the name *.partial");
        std::process::exit(1);
    })?;
    Ok(())
}

/// A flag that SIGUSR2 sets.
pub fn save() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR2, Arc::clone(&flag)).context("cannot handle signals")?;
    Ok(flag)
}
