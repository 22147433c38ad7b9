//! Writes a big synthetic trace for measuring: `cargo run --release --example generate FILE
//! [RECORDS] [STACKS]`.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::{fs::File, io::BufWriter};
use synthetic::{At, Chain, IDLE, SyntheticTrace, Task};
use unhitch_formats::perf_data::write;

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let path = words.next().expect("usage: generate FILE [RECORDS] [STACKS]");
    let records: u64 =
        words.next().map_or(4_000_000, |word| word.parse().expect("a number of records"));
    let stacks: u64 = words.next().map_or(64, |word| word.parse().expect("a number of stacks"));

    let tasks: Vec<Task> = (0..32)
        .map(|index| Task { pid: 1000 + index * 10, tid: 1000 + index * 10, comm: "worker" })
        .collect();
    let mut synthetic = SyntheticTrace::default();
    for task in &tasks {
        synthetic.comm(0, *task, false);
        synthetic.map(0, task.pid, 0x5000_0000_0000, 1 << 30, 0, "/usr/bin/worker");
        synthetic.map(0, task.pid, 0x7000_0000_0000, 1 << 30, 0, "/usr/lib/libc.so.6");
    }
    // A small generator of its own keeps the file the same everywhere.
    let mut state = 1u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let chains: Vec<(Vec<u64>, Vec<u64>)> = (0..stacks)
        .map(|_| {
            let kernel =
                (0..6 + random(6)).map(|_| 0xffff_ffff_8100_0000 + 50 * random(20_000)).collect();
            let user = (0..4 + random(10))
                .map(|_| 0x5000_0000_0000 + (random(2) << 45) + 50 * random(20_000))
                .collect();
            (kernel, user)
        })
        .collect();
    let mut current = [IDLE; 2];
    // Rounds of 256 KiB per CPU, as perf drains its rings.
    let mut ns = [1_000u64; 2];
    let mut written = 0;
    while written < records {
        for cpu in 0..2u32 {
            let until = synthetic.records.len() + (256 << 10);
            while synthetic.records.len() < until && written < records {
                let on = current[cpu as usize];
                let (kernel, user) = &chains[random(stacks) as usize];
                let chain = Chain { kernel, user: if on.tid == 0 { &[] } else { user } };
                ns[cpu as usize] += 1_000 + random(4_000);
                let at = At { ns: ns[cpu as usize], cpu };
                match random(8) {
                    0..4 => {
                        let next = if random(8) == 0 {
                            IDLE
                        } else {
                            tasks[random(16) as usize * 2 + cpu as usize]
                        };
                        synthetic.switch(at, on, 1, next, chain);
                        current[cpu as usize] = next;
                    }
                    4..7 => synthetic.waking(at, on, 0, tasks[random(32) as usize], chain),
                    _ => synthetic.clock(at, on, chain),
                }
                written += 1;
            }
        }
    }
    let mut out = BufWriter::new(File::create(path)?);
    let len = write(
        &mut out,
        &SyntheticTrace::events(),
        &SyntheticTrace::features(),
        &[&synthetic.records],
    )?;
    println!("{records} records, {len} bytes, {} bytes per record", len / records);
    Ok(())
}
