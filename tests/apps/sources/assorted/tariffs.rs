// Tariffs behind a read-write lock of the standard library: one is read every 20 ms. When the file of
// the argument appears, the thread "reloader" computes new ones while it has the lock for writing.
mod beat;
use std::sync::RwLock;
use std::time::Duration;

static TARIFFS: RwLock<u64> = RwLock::new(7);

#[inline(never)]
fn reload_tariffs() {
    let mut tariffs = TARIFFS.write().unwrap();
    *tariffs = beat::compute(Duration::from_millis(1200));
}

#[inline(never)]
fn quote_price() {
    std::hint::black_box(*TARIFFS.read().unwrap());
}

fn main() {
    let flag = std::env::args().nth(1).unwrap();
    let reloader = beat::start("reloader", move || loop {
        if beat::told(&flag) {
            reload_tariffs();
        }
        std::thread::sleep(Duration::from_millis(10));
    });
    println!("{{\"victim\": {}, \"reloader\": {reloader}}}", beat::thread_id());
    beat::rhythm(quote_price);
}
