//! Loads a trace and prints how fast: `cargo run --release --example load FILE`.

use std::time::Instant;

/// The process's peak memory in MiB, mapped pages included.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn main() -> Result<(), unhitch_formats::Error> {
    let path = std::path::PathBuf::from(std::env::args().nth(1).expect("usage: load FILE"));
    let len = std::fs::metadata(&path).map_or(0, |about| about.len());
    let start = Instant::now();
    let trace = unhitch_formats::open(&path)?;
    let seconds = start.elapsed().as_secs_f64();
    let records: u64 = trace.by_kind.values().sum();
    println!(
        "{records} records in {:.0} ms: {:.2} million/s, {:.0} MB/s; peak {} MiB for a file of {} MiB",
        seconds * 1e3,
        records as f64 / seconds / 1e6,
        len as f64 / seconds / 1e6,
        peak_mib(),
        len >> 20
    );
    println!(
        "{} switches, {} wakings, {} samples, {} contentions, {} stacks, {} frames, {} modules, {} threads",
        trace.switches.len(),
        trace.wakings.len(),
        trace.samples.len(),
        trace.contentions.len(),
        trace.stacks.len(),
        trace.stacks.frames().len(),
        trace.modules.len(),
        trace.threads.len()
    );
    println!("{:?}", trace.by_kind);
    println!("{:?}\n{:?}\n{:?}", trace.meta, trace.spans, trace.losses);
    trace.warnings.lines().for_each(|line| println!("warning: {line}"));
    Ok(())
}
