//! How long it takes to save two full rings, by parts: the first save, which must read the
//! programs' symbols, and a later one.

use crate::cost::Spread;
use crate::recorder::{run, storm};
use crate::table::Table;
use std::path::Path;
use unhitch_record::{Extras, Namer, NamingProcess, Options, Recorder, SaveTarget, Timings};

const ROUNDS: usize = 3;
/// More than a ring of 16 MiB holds, with records of some 200 bytes.
const ROUND_TRIPS: u32 = 60_000;

/// Fills the rings of the first two CPUs, saves, and saves again.
pub fn save(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let mut saves: [Vec<Timings>; 2] = Default::default();
    for _ in 0..ROUNDS {
        let mut recorder = Recorder::start(&Options::default())?;
        // As `unhitch watch` does.
        let mut namer =
            NamingProcess::new(env!("CARGO_BIN_EXE_unhitch").into(), vec!["name-frames".into()]);
        namer.prepare();
        for of_kind in &mut saves {
            fill()?;
            let target = SaveTarget::Folder { folder: folder.to_owned(), what: "bench".to_owned() };
            let saved = recorder.snapshot().save(&target, &mut namer, &Extras::default())?;
            std::fs::remove_file(&saved.path)?;
            of_kind.push(saved.timings);
        }
    }
    let ms = |timings: &[Timings], part: fn(&Timings) -> u64| {
        Spread::of(timings.iter().map(|timings| part(timings) as f64 / 1e6))
    };
    let all: Vec<Timings> = saves.concat();
    let secured = ms(&all, |timings| timings.ring_copy_ns + timings.proc_ns);
    table.ours(
        "saving 2 × 16 MiB: ms until rings and /proc are copied",
        format!("{secured:.0}"),
        "",
        None,
    );
    for (which, timings) in ["first", "later"].iter().zip(&saves) {
        let whole = ms(timings, Timings::total_ns);
        table.ours(
            &format!("  {which} save, all of it, ms"),
            format!("{whole:.0}"),
            "< 200",
            Some(whole.median < 200.0),
        );
        let parts = [
            ("copy rings", ms(timings, |timings| timings.ring_copy_ns)),
            ("/proc", ms(timings, |timings| timings.proc_ns)),
            ("encode", ms(timings, |timings| timings.encode_ns)),
            ("write and sync", ms(timings, |timings| timings.write_ns)),
            ("read back and name", ms(timings, |timings| timings.names_ns)),
        ];
        let parts: Vec<String> =
            parts.iter().map(|(part, spread)| format!("{part} {:.0}", spread.median)).collect();
        table.ours("    of which", parts.join(", "), "", None);
    }
    Ok(())
}

/// A storm on each of the first two CPUs at once.
fn fill() -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let storms = ["0", "1"].map(|cpu| {
            scope.spawn(move || {
                let words = storm(cpu, ROUND_TRIPS);
                run(&words.iter().map(String::as_str).collect::<Vec<_>>())
            })
        });
        storms.into_iter().try_for_each(|storm| {
            storm.join().unwrap_or_else(|_| anyhow::bail!("the storm's thread panicked"))
        })
    })
}
