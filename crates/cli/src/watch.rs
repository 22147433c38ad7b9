//! `unhitch watch`: the always-on recorder.

use crate::args::WatchArgs;
use crate::done::Done;
use crate::names::namer;
use crate::record::{options, report_saved};
use crate::signals;
use crate::terminal::{clear, complain, note, print, progress};
use std::io::IsTerminal;
use unhitch_model::units::plural;
use unhitch_model::visible_path;
use unhitch_record::{Status, WatchEvent, control, watch as watch_until};

/// Records until Ctrl-C. Prints a status line on a terminal, and the names of saved files to
/// standard output.
pub fn watch(args: &WatchArgs) -> anyhow::Result<Done> {
    let (stop, save) = (signals::stop()?, signals::save()?);
    signals::force_exit_after_timeout()?;
    let live = std::io::stderr().is_terminal();
    let mut namer = namer();
    let clear = || {
        if live {
            clear()
        }
    };
    watch_until(
        &options(&args.recorder),
        &args.output,
        &control::default_folder(),
        &mut namer,
        |event| match event {
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
                clear();
                report_saved(saved);
                let _ = print(&format!("{}\n", visible_path(&saved.path)));
            }
            WatchEvent::SaveFailed { error, kept } => {
                clear();
                let kept = if kept {
                    "the trace is kept in memory and the save will be retried"
                } else {
                    "recording continues"
                };
                complain(&format!("unhitch: save failed, {kept}: {}", error.with_causes()));
            }
            _ => {}
        },
        &save,
        &stop,
    )?;
    clear();
    Ok(Done::Yes)
}

/// The history that all CPUs share and that of each CPU, event rate, memory and losses.
fn status_line(status: &Status) -> String {
    let seconds = |window: unhitch_model::Window| window.duration_ns() as f64 / 1e9;
    let per_cpu: Vec<String> =
        status.cpus.iter().take(8).map(|cpu| format!("{:.0}", seconds(cpu.held))).collect();
    let more = if status.cpus.len() > 8 { " …" } else { "" };
    let rate: f64 = status.rates.iter().map(|(_, rate)| rate).sum();
    let lost = if status.sideband_lost > 0 {
        format!(", {} of processes lost", plural(status.sideband_lost, "record"))
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
