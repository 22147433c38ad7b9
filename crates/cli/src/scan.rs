//! `unhitch scan`: address spaces, once or again and again.

use crate::args::ScanArgs;
use crate::terminal::{clear, complain, note, print, print_json, progress};
use crate::{Done, signals};
use anyhow::Context;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unhitch_model::units::{count, rounded_percent};
use unhitch_model::{visible, visible_path};
use unhitch_scan::{AddressSpace, Error, Growth, Options, Progress};

/// How long a sleep lasts before it looks whether somebody wants us to stop.
const NAP: Duration = Duration::from_millis(50);

/// The processes that were looked at, and why the others were not.
struct Look {
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
        Some(every) => again_and_again(args, &pids, every)?,
        None => once(args, &pids)?,
    }
    Ok(Done::Yes)
}

fn look(args: &ScanArgs, pids: &[u32]) -> anyhow::Result<Look> {
    let options = Options { pages: args.pages, force: args.force, by_text: false };
    let mut look = Look { spaces: Vec::new(), skipped: Vec::new(), at: Instant::now() };
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
            Ok(space) => look.spaces.push(space),
            // It is about us, not about that process.
            Err(error @ (Error::IdlePriority | Error::Missing { .. })) => return Err(error.into()),
            Err(error) => look.skipped.push((pid, error)),
        }
        if show {
            clear();
        }
    }
    if look.spaces.is_empty() && !look.skipped.is_empty() {
        return Err(look.skipped.swap_remove(0).1.into());
    }
    // The one with most mappings is the one that is looked for.
    look.spaces.sort_by_key(|space| (std::cmp::Reverse(space.total.mappings), space.process.pid));
    Ok(look)
}

impl Look {
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

    /// What was left out. With --all threads of the kernel are nothing to speak of.
    fn tell_skipped(&self, all: bool) {
        let told = self.skipped.iter().filter(|(_, why)| {
            !all || !matches!(
                why,
                Error::KernelThread { .. } | Error::Ended { .. } | Error::NoSuchProcess { .. }
            )
        });
        let told: Vec<&Error> = told.map(|(_, why)| why).collect();
        for why in told.iter().take(3) {
            note(&format!("note: {why}"));
        }
        if told.len() > 3 {
            note(&format!(
                "note: {} more processes were not looked at",
                count(told.len() as u64 - 3)
            ));
        }
    }
}

fn once(args: &ScanArgs, pids: &[u32]) -> anyhow::Result<()> {
    let look = look(args, pids)?;
    if let Some(path) = &args.svg {
        draw(&look.spaces, path)?;
    }
    if args.json {
        print_json(&look.json(&[]))?;
    } else {
        let reports: Vec<String> = look.spaces.iter().map(unhitch_scan::text).collect();
        print(&reports.join("\n"))?;
        look.tell_skipped(args.all);
    }
    Ok(())
}

/// Draws each process: one into the file named, several into a file each, whose name also has the
/// process's number. Tells which.
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

fn again_and_again(args: &ScanArgs, pids: &[u32], every: Duration) -> anyhow::Result<()> {
    let stop = signals::stop()?;
    let mut before = look(args, pids)?;
    if args.json {
        print_json(&before.json(&[]))?;
    } else {
        let reports: Vec<String> = before.spaces.iter().map(unhitch_scan::text).collect();
        print(&(reports.join("\n") + "\n"))?;
        before.tell_skipped(args.all);
    }
    let mut pids: Vec<u32> = before.spaces.iter().map(|space| space.process.pid).collect();
    let mut scans = 1;
    while args.times.is_none_or(|times| scans < times)
        && !pids.is_empty()
        && sleep(before.at + every, &stop)
    {
        let now = match look(args, &pids) {
            Ok(now) => now,
            Err(error) => {
                // The last of them has ended; that is how this is to end.
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
            now.tell_skipped(false);
        }
        pids = now.spaces.iter().map(|space| space.process.pid).collect();
        before = now;
    }
    std::io::stdout().flush()?;
    Ok(())
}

/// Sleeps until then; false when we are to stop.
fn sleep(until: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
    false
}
