//! Tariffs in a cache (moka), of which main shows one every 20 ms. When the file of the argument appears, the
//! thread "changer" throws it away and computes it anew, and whoever needs it waits for that.
#[path = "../beat.rs"]
mod beat;

use moka::sync::Cache;
use std::time::Duration;

type Tariffs = Cache<u32, u64>;

#[inline(never)]
fn load_tariff(duration: Duration) -> u64 {
    beat::compute(duration)
}

#[inline(never)]
fn change_tariff(tariffs: &Tariffs) {
    tariffs.invalidate(&7);
    tariffs.get_with(7, || load_tariff(Duration::from_millis(1200)));
}

#[inline(never)]
fn show_tariff(tariffs: &Tariffs) {
    std::hint::black_box(tariffs.get_with(7, || load_tariff(Duration::ZERO)));
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let tariffs = Tariffs::new(100);
    let same = tariffs.clone();
    let changer = beat::start("changer", move || loop {
        if beat::told(&flag) {
            change_tariff(&same);
        }
        std::thread::sleep(Duration::from_millis(10));
    });
    println!("{{\"victim\": {}, \"changer\": {changer}}}", beat::thread_id());
    beat::rhythm(|| show_tariff(&tariffs));
}
