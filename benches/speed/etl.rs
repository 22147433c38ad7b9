//! How fast Windows traces are read: a large synthetic one, plain and compressed, on both cores.
//!
//! The tests' encoder writes the file, because no real trace of that size is available: switches,
//! wake-ups and samples of 16 CPUs with keyed stacks, as UIforETW records them.

use crate::cost::Spread;
use crate::reading::load_afresh;
use crate::table::Table;
use std::path::Path;
use unhitch_etl_writer::{
    CSwitch, Compression, KernelEvent, Options, Process, ReadyThread, Rundown, StackCache,
    ThreadFacts, Writer,
};

const CPUS: u16 = 16;
const THREADS: u32 = 400;
/// Rounds of a wake-up, a switch to the thread, a sample and a switch away, with four stacks: about
/// twelve events each, since most stacks have left the cache.
const ROUNDS: u64 = 250_000;
const ROUND_NS: u64 = 40_000;
const LOADS: usize = 5;
const STACKS: u64 = 3_000;
const FRAMES: u64 = 24;
const FIRST_TID: u32 = 1_000;

/// Measures how fast the reader is.
pub fn reading(table: &mut Table, folder: &Path) -> anyhow::Result<()> {
    let (plain, packed) = (folder.join("plain.etl"), folder.join("packed.etl"));
    std::fs::write(&plain, file(Compression::Plain))?;
    std::fs::write(&packed, file(Compression::All))?;
    let plain_mb = std::fs::metadata(&plain)?.len() as f64 / 1e6;
    for (what, path) in [("plain", &plain), ("compressed", &packed)] {
        let loads = (0..LOADS).map(|_| load_afresh(path)).collect::<anyhow::Result<Vec<_>>>()?;
        let events = loads.first().map_or(0.0, |load| load.records) / 1e6;
        let rate = Spread::of(loads.iter().map(|load| load.records / load.seconds / 1e6));
        table.ours(
            &format!("reading {events:.1} M events of a {what} .etl: million events/s"),
            rate.to_string(),
            "≥ 3",
            Some(rate.median >= 3.0),
        );
        let bytes = Spread::of(loads.iter().map(|load| plain_mb / load.seconds));
        let wanted =
            if what == "plain" { ("", None) } else { ("≥ 400", Some(bytes.median >= 400.0)) };
        table.ours(
            &format!("  MB of the {plain_mb:.0} MB of buffers a second"),
            bytes.to_string(),
            wanted.0,
            wanted.1,
        );
    }
    Ok(())
}

fn file(compression: Compression) -> Vec<u8> {
    let mut writer = Writer::new(Options {
        cpus: CPUS,
        compression,
        buffer_bytes: 1 << 20,
        ..Options::default()
    });
    let mut stacks = StackCache::new(4_096);
    let process =
        Process { pid: 100, parent: 4, image: "made-up.exe", command_line: "made-up.exe" };
    writer.kernel(0, 0, &KernelEvent::Process(Rundown::First, process));
    for tid in (FIRST_TID..).step_by(4).take(THREADS as usize) {
        writer.kernel(
            0,
            0,
            &KernelEvent::Thread(
                Rundown::First,
                ThreadFacts { pid: 100, tid, name: Some("") },
                (4, 8),
            ),
        );
    }
    for round in 0..ROUNDS {
        let (cpu, ns) =
            ((round % u64::from(CPUS)) as u16, 1_000_000 + round * ROUND_NS / u64::from(CPUS));
        let tid = FIRST_TID + 4 * (round * 7 % u64::from(THREADS)) as u32;
        let (kernel, user) = stack(round * 31 % STACKS);
        writer.kernel(cpu, ns, &KernelEvent::ReadyThread(ReadyThread { tid, in_dpc: false }));
        stacks.log(&mut writer, cpu, ns, (0, 0), &kernel, &[]);
        let on = CSwitch { new_tid: tid, old_tid: 0, old_state: 2, ..CSwitch::default() };
        writer.kernel(cpu, ns + 5_000, &KernelEvent::CSwitch(on));
        stacks.log(&mut writer, cpu, ns + 5_000, (100, tid), &kernel, &user);
        writer.kernel(
            cpu,
            ns + 15_000,
            &KernelEvent::Sample { instruction: user[0], tid, in_dpc: false },
        );
        stacks.log(&mut writer, cpu, ns + 15_000, (100, tid), &kernel, &user);
        let off = CSwitch {
            new_tid: 0,
            old_tid: tid,
            old_state: 5,
            old_wait_reason: 6,
            ..CSwitch::default()
        };
        writer.kernel(cpu, ns + 30_000, &KernelEvent::CSwitch(off));
        stacks.log(&mut writer, cpu, ns + 30_000, (0, 0), &kernel, &[]);
    }
    stacks.finish(&mut writer, 0, 2_000_000 + ROUNDS * ROUND_NS);
    writer.finish()
}

fn stack(number: u64) -> (Vec<u64>, Vec<u64>) {
    let frames =
        |base: u64| (0..FRAMES / 2).map(|depth| base + (number + depth * STACKS) * 16).collect();
    (frames(0xffff_f800_0000_1000), frames(0x7ff6_0000_1000))
}
