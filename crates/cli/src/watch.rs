//! `unhitch watch`: the always-on recorder, in a terminal or as a service.

use crate::args::WatchArgs;
use crate::done::Done;
use crate::judge::judge;
use crate::names::namer;
use crate::record::{options, report_saved};
use crate::signals;
use crate::terminal::{clear, complain, note, print, progress};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use unhitch_model::units::plural;
use unhitch_model::{visible, visible_path};
use unhitch_record::{
    Config, Judge, Signals, Status, Target, TriggerConfig, WatchEvent, WatchOptions, Watched, What,
    watch as watch_until,
};

/// How often the command of `--when` runs.
const WHEN_PERIOD: Duration = Duration::from_secs(5);
/// Minimum time between two saves by a trigger of the command line, and the time after it that is
/// recorded, too.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_millis(500);

/// Records until Ctrl-C. Prints a status line on a terminal, and the names of saved files to
/// standard output.
pub fn watch(args: &WatchArgs) -> anyhow::Result<Done> {
    if let Some(file) = &args.check {
        return check(file);
    }
    let (stop, save) = (signals::stop()?, signals::save()?);
    let reload = match &args.config {
        Some(_) => signals::reload()?,
        None => {
            signals::stop_with_terminal(&stop)?;
            Arc::default()
        }
    };
    let wake = signals::wake()?;
    signals::force_exit_after_timeout()?;
    let live = std::io::stderr().is_terminal();
    let mut watched = WatchOptions::default();
    watched.status_interval = live.then_some(Duration::from_secs(1));
    match &args.config {
        Some(file) => {
            watched.config = Config::read(file)?;
            watched.file = Some(std::path::absolute(file)?);
        }
        None => watched.config = config(args),
    }
    let (mut namer, mut judge) = (namer(), judge());
    let judge: Option<&mut dyn Judge> = Some(&mut judge);
    let signals = Signals { save: &save, reload: &reload, stop: &stop, wake: Some(&wake) };
    watch_until(watched, &mut namer, judge, &mut |event| report(&event, live), signals)?;
    if live {
        clear();
    }
    Ok(Done::Yes)
}

/// Says whether a configuration is right.
fn check(file: &Path) -> anyhow::Result<Done> {
    let config = Config::read(file)?;
    print(&format!(
        "{} is right: {}\n",
        visible_path(file),
        plural(config.triggers.len() as u64, "trigger")
    ))?;
    Ok(Done::Yes)
}

/// What the command line asks for.
fn config(args: &WatchArgs) -> Config {
    let mut config = Config::default();
    config.recorder = options(&args.recorder);
    config.socket_folder = unhitch_record::control::default_folder();
    config.folder = args.output.clone();
    config.verdict = args.verdict;
    let uid = rustix::process::geteuid();
    let stall = args.on_stall.map(|threshold| {
        let target = match uid.is_root() {
            true => Target::Anyone,
            false => Target::User(uid.as_raw()),
        };
        What::Stall(Watched { threshold, target, all_threads: false, idle_waits: false })
    });
    let when = args.when.clone().map(|command| What::Command { command, every: WHEN_PERIOD });
    let triggers = [("on-stall", stall), ("when", when)];
    config.triggers = triggers
        .into_iter()
        .filter_map(|(name, what)| {
            let name = name.to_owned();
            Some(TriggerConfig { name, delay: DELAY, min_interval: MIN_INTERVAL, what: what? })
        })
        .collect();
    config
}

fn report(event: &WatchEvent<'_>, live: bool) {
    if live && !matches!(event, WatchEvent::Status(_)) {
        clear();
    }
    match event {
        WatchEvent::Started { socket, warnings } => {
            warnings.iter().for_each(|warning| note(&format!("warning: {warning}")));
            note(&format!(
                "watching; `unhitch save` or SIGUSR2 to pid {} saves, Ctrl-C stops (socket {})",
                std::process::id(),
                socket.display()
            ));
        }
        WatchEvent::Status(status) if live => progress(&status_line(status)),
        WatchEvent::Saved(saved) => {
            report_saved(saved);
            let _ = print(&format!("{}\n", visible_path(&saved.path)));
        }
        WatchEvent::Judged { path, verdict } => {
            let words = |name: &str| verdict[name].as_str().map(str::trim);
            let line = words("line").or(words("error")).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            note(&format!("{}: {}", visible(&name), visible(line)));
        }
        WatchEvent::SaveFailed { error, kept } => {
            let kept = if *kept {
                "the trace is kept in memory and the save will be retried"
            } else {
                "recording continues"
            };
            complain(&format!("unhitch: save failed, {kept}: {}", error.with_causes()));
        }
        WatchEvent::Note(text) => note(text),
        _ => {}
    }
}

/// The history that all CPUs share and that of each CPU, event rate, memory and losses.
fn status_line(status: &Status) -> String {
    let seconds = |window: unhitch_model::Window| window.duration_ns() as f64 / 1e9;
    let per_cpu: Vec<String> =
        status.cpus.iter().take(8).map(|cpu| format!("{:.0}", seconds(cpu.held))).collect();
    let more = if status.cpus.len() > 8 { " …" } else { "" };
    let rate: f64 = status.rates.iter().map(|(_, rate)| rate).sum();
    let lost = if status.lost > 0 {
        format!(", {} lost", plural(status.lost, "record"))
    } else {
        String::new()
    };
    format!(
        "holds {:.1} s (CPUs: {}{more} s), {rate:.0} events/s, {:.0} MiB{lost}",
        seconds(status.common),
        per_cpu.join(" "),
        status.memory_bytes as f64 / f64::from(1 << 20)
    )
}
