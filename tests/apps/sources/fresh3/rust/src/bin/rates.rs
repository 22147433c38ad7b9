//! Exchange rates behind a lock for reading and writing (RwLock of parking_lot). Main reads one every 20 ms, and the
//! thread "updater" writes one every 10 ms. When the file of the argument appears, the thread "auditor" computes as a
//! reader: the updater waits for it, and whoever comes later waits behind the updater.
#[path = "../beat.rs"]
mod beat;

use parking_lot::RwLock;
use std::time::Duration;

static RATES: RwLock<[u64; 64]> = RwLock::new([7; 64]);

#[inline(never)]
fn sum_rates() -> u64 {
    beat::compute(Duration::from_millis(1200))
}

#[inline(never)]
fn audit_rates() {
    let rates = RATES.read();
    std::hint::black_box(rates[7] + sum_rates());
}

#[inline(never)]
fn update_rate() {
    RATES.write()[7] += 1;
}

#[inline(never)]
fn read_rate() {
    std::hint::black_box(RATES.read()[7]);
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let auditor = beat::start("auditor", move || loop {
        if beat::told(&flag) {
            audit_rates();
        }
        std::thread::sleep(Duration::from_millis(10));
    });
    let updater = beat::start("updater", || loop {
        update_rate();
        std::thread::sleep(Duration::from_millis(10));
    });
    println!("{{\"victim\": {}, \"auditor\": {auditor}, \"updater\": {updater}}}", beat::thread_id());
    beat::rhythm(read_rate);
}
