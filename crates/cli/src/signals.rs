//! Signals as flags.

use crate::terminal::complain;
use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long an orderly exit may take, so that the program ends within a second of the signal.
const EXIT_TIMEOUT: Duration = Duration::from_millis(850);

/// A flag set by Ctrl-C and SIGTERM. A second Ctrl-C exits at once.
pub fn stop() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .context("cannot handle signals")?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// Makes the program exit within a second of Ctrl-C or SIGTERM, whatever it is doing then: it may
/// be waiting for a file or a process that never answers.
pub fn force_exit_after_timeout() -> anyhow::Result<()> {
    let (mut receiver, sender) = UnixStream::pair().context("cannot handle signals")?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)
            .context("cannot handle signals")?;
    }
    std::thread::Builder::new().name("unhitch-end".to_owned()).spawn(move || {
        let _ = receiver.read(&mut [0]);
        std::thread::sleep(EXIT_TIMEOUT);
        complain(
            "unhitch: forced to exit because an operation did not end in time; an incomplete \
             trace keeps the name *.partial",
        );
        std::process::exit(1);
    })?;
    Ok(())
}

/// At Ctrl-C or SIGTERM, calls `clean_up` and exits, whatever the program is doing then; while it
/// holds the returned lock, not before it lets that go.
///
/// *Why a flag that is looked at*: programs that read traces may not make sockets or pipes.
pub fn exit_after(clean_up: impl FnOnce() + Send + 'static) -> anyhow::Result<Arc<Mutex<()>>> {
    const PAUSE: Duration = Duration::from_millis(50);
    let received = Arc::new(AtomicUsize::new(0));
    let busy = Arc::new(Mutex::new(()));
    let is_busy = Arc::clone(&busy);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize)
            .context("cannot handle signals")?;
    }
    std::thread::Builder::new().name("unhitch-end".to_owned()).spawn(move || {
        let signal = loop {
            match received.load(Ordering::Relaxed) {
                0 => std::thread::sleep(PAUSE),
                signal => break signal,
            }
        };
        let _never_released = is_busy.lock();
        clean_up();
        std::process::exit(128 + signal as i32);
    })?;
    Ok(busy)
}

/// A flag set by SIGUSR2.
pub fn save() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR2, Arc::clone(&flag)).context("cannot handle signals")?;
    Ok(flag)
}

/// A flag set by SIGHUP.
pub fn reload() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&flag)).context("cannot handle signals")?;
    Ok(flag)
}

/// Sets the flag also when the terminal is closed, unless `nohup` keeps this program beyond that.
pub fn stop_with_terminal(stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    if ignored.is_none_or(|set| set & 1 << (SIGHUP - 1) == 0) {
        signal_hook::flag::register(SIGHUP, Arc::clone(stop)).context("cannot handle signals")?;
    }
    Ok(())
}

/// A stream that is readable once any of these signals has come. Flags that are set before they are
/// registered here are set first.
pub fn wake() -> anyhow::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair().context("cannot handle signals")?;
    receiver.set_nonblocking(true)?;
    for signal in [SIGINT, SIGTERM, SIGUSR2, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)
            .context("cannot handle signals")?;
    }
    Ok(receiver)
}
