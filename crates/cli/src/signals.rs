//! Signals as flags.

use crate::terminal::complain;
use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR2};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the end may take.
const PATIENCE: Duration = Duration::from_millis(900);
/// How long, when a trace is being written.
const PATIENCE_FOR_A_SAVE: Duration = Duration::from_secs(10);

/// A flag that Ctrl-C and SIGTERM set. A second Ctrl-C ends the program at once.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag)).context("cannot handle signals")?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// Ends the program a second after Ctrl-C or SIGTERM, whatever it is doing then: a file or a process that it waits for may never answer. Only
/// a save that is being written is given longer, because a hang cannot be recorded twice.
pub fn end_in_any_case(saving: Arc<AtomicBool>) -> anyhow::Result<()> {
    let (mut told, tell) = UnixStream::pair().context("cannot handle signals")?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, tell.try_clone()?).context("cannot handle signals")?;
    }
    std::thread::Builder::new().name("unhitch-end".to_owned()).spawn(move || {
        let _ = told.read(&mut [0]);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE || saving.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE_FOR_A_SAVE {
            std::thread::sleep(Duration::from_millis(20));
        }
        complain("unhitch: something that it waits for does not answer; it ends all the same");
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
