//! `unhitch scan`: address spaces, once or at an interval.

use crate::args::ScanArgs;
use crate::done::Done;
use crate::signals;
use crate::terminal::{clear, complain, note, print, print_json, progress};
use anyhow::Context;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unhitch_model::units::{count, rounded_percent};
use unhitch_model::{visible, visible_path};
use unhitch_scan::{AddressSpace, Error, Growth, Options, Progress};

/// How often a sleep checks for a request to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// One scan of all processes: the results, and why others were skipped.
struct Round {
    spaces: Vec<AddressSpace>,
    skipped: Vec<(u32, Error)>,
    at: Instant,
}

/// Scans the processes named, or all.
pub fn scan(args: &ScanArgs) -> anyhow::Result<Done> {
    let mut pids = Vec::new();
    for who in &args.who {
        pids.extend(unhitch_scan::find(who)?);
    }
    if args.all {
        pids = unhitch_scan::all_pids()?;
    }
    pids.sort_unstable();
    pids.dedup();
    match args.every {
        Some(every) => repeatedly(args, &pids, every)?,
        None => once(args, &pids)?,
    }
    Ok(Done::Yes)
}

fn scan_all(args: &ScanArgs, pids: &[u32]) -> anyhow::Result<Round> {
    let options = Options { pages: args.pages, force: args.force, by_text: false };
    let mut round = Round { spaces: Vec::new(), skipped: Vec::new(), at: Instant::now() };
    let show = std::io::stderr().is_terminal();
    for &pid in pids {
        let size = std::cell::Cell::new(None);
        let mut progress = |progress: Progress| {
            if show {
                let size = size.get().unwrap_or_else(|| {
                    let found = unhitch_scan::Process::with_memory(pid)
                        .map_or(0, |process| process.size_bytes);
                    size.set(Some(found));
                    found
                });
                let share = rounded_percent(progress.bytes.min(size), size);
                self::progress(&format!(
                    "{pid}: {} mappings, {share} of the address space",
                    count(progress.mappings)
                ));
            }
        };
        match unhitch_scan::scan(pid, &options, &mut progress) {
            Ok(space) => round.spaces.push(space),
            // This is about us, not about the process.
            Err(error @ (Error::IdlePriority | Error::Missing { .. })) => return Err(error.into()),
            Err(error) => round.skipped.push((pid, error)),
        }
        if show {
            clear();
        }
    }
    if round.spaces.is_empty() && !round.skipped.is_empty() {
        return Err(round.skipped.swap_remove(0).1.into());
    }
    // Most mappings first: that process is usually the one of interest.
    round.spaces.sort_by_key(|space| (std::cmp::Reverse(space.total.mappings), space.process.pid));
    Ok(round)
}

impl Round {
    fn json(&self, growth: &[Growth]) -> serde_json::Value {
        let skipped = self
            .skipped
            .iter()
            .map(|(pid, why)| serde_json::json!({ "pid": pid, "why": why.to_string() }));
        let mut value = serde_json::json!({
            "version": 1,
            "processes": self.spaces,
            "skipped": skipped.collect::<Vec<_>>(),
        });
        if !growth.is_empty()
            && let Some(object) = value.as_object_mut()
        {
            object.insert("growth".to_owned(), serde_json::json!(growth));
        }
        value
    }

    /// Reports which processes were skipped. With --all, kernel threads are not worth mentioning.
    fn report_skipped(&self, all: bool) {
        let reported = self.skipped.iter().filter(|(_, why)| {
            !all || !matches!(
                why,
                Error::KernelThread { .. } | Error::Ended { .. } | Error::NoSuchProcess { .. }
            )
        });
        let reported: Vec<&Error> = reported.map(|(_, why)| why).collect();
        for why in reported.iter().take(3) {
            note(&format!("note: {why}"));
        }
        match reported.len().saturating_sub(3) {
            0 => {}
            1 => note("note: 1 more process was skipped"),
            more => note(&format!("note: {} more processes were skipped", count(more as u64))),
        }
    }
}

fn once(args: &ScanArgs, pids: &[u32]) -> anyhow::Result<()> {
    let round = scan_all(args, pids)?;
    if let Some(path) = &args.svg {
        draw(&round.spaces, path)?;
    }
    if args.json {
        print_json(&round.json(&[]))?;
    } else {
        let reports: Vec<String> = round.spaces.iter().map(unhitch_scan::text).collect();
        print(&reports.join("\n"))?;
        round.report_skipped(args.all);
    }
    Ok(())
}

/// Draws the address spaces: a single one into the given file, several into one file each, named
/// with the pid. Reports the names in the second case.
fn draw(spaces: &[AddressSpace], path: &Path) -> anyhow::Result<()> {
    let write = |path: &Path, space| {
        std::fs::write(path, unhitch_scan::svg(space))
            .with_context(|| format!("cannot write {}", visible_path(path)))
    };
    if let [space] = spaces {
        return write(path, space);
    }
    for space in spaces {
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{}", space.process.pid));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        let own = path.with_file_name(name);
        write(&own, space)?;
        note(&format!("{}: {}", own.display(), unhitch_scan::title(space)));
    }
    Ok(())
}

fn repeatedly(args: &ScanArgs, pids: &[u32], every: Duration) -> anyhow::Result<()> {
    let stop = signals::stop()?;
    let mut before = scan_all(args, pids)?;
    if args.json {
        print_json(&before.json(&[]))?;
    } else {
        let reports: Vec<String> = before.spaces.iter().map(unhitch_scan::text).collect();
        print(&(reports.join("\n") + "\n"))?;
        before.report_skipped(args.all);
    }
    let mut pids: Vec<u32> = before.spaces.iter().map(|space| space.process.pid).collect();
    let mut scans = 1;
    while args.times.is_none_or(|times| scans < times)
        && !pids.is_empty()
        && sleep(before.at + every, &stop)
    {
        let now = match scan_all(args, &pids) {
            Ok(now) => now,
            Err(error) => {
                // The last process has ended, which is the normal end.
                complain(&error.to_string());
                return Ok(());
            }
        };
        scans += 1;
        let seconds = (now.at - before.at).as_secs_f64();
        let was = |space: &AddressSpace| {
            before.spaces.iter().find(|old| old.process.is_same(&space.process))
        };
        let growth: Vec<Growth> = now
            .spaces
            .iter()
            .filter_map(|space| Some(Growth::between(was(space)?, space, seconds)))
            .collect();
        if args.json {
            print_json(&now.json(&growth))?;
        } else {
            let lines = growth.iter().map(|growth| {
                format!("{} {}: {}\n", visible(&growth.name), growth.pid, visible(&growth.text))
            });
            print(&lines.collect::<String>())?;
            now.report_skipped(false);
        }
        pids = now.spaces.iter().map(|space| space.process.pid).collect();
        before = now;
    }
    std::io::stdout().flush()?;
    Ok(())
}

/// Sleeps until `until`; false if asked to stop.
fn sleep(until: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STOP_CHECK_INTERVAL));
    }
    false
}
