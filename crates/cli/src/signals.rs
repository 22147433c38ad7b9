//! Signals as flags.

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that Ctrl-C and SIGTERM set. A second Ctrl-C ends the program at once.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag)).context("cannot handle signals")?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// A flag that SIGUSR2 sets.
pub fn save() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR2, Arc::clone(&flag)).context("cannot handle signals")?;
    Ok(flag)
}
