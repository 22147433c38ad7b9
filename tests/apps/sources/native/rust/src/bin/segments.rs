//! A store behind a mutex of parking_lot: it takes an entry every 20 ms. When the file of the first
//! argument appears, the thread "compactor" merges its segments, and has the mutex all the time.

use native_hangs::{rhythm, thread_id, told, LONG};
use parking_lot::{const_mutex, Mutex};
use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

static STORE: Mutex<[u64; 1024]> = const_mutex([0; 1024]);

#[inline(never)]
fn put(entry: u64) {
    let mut store = STORE.lock();
    store[7] = black_box(store[7].wrapping_add(entry));
}

#[inline(never)]
fn merge_segments(store: &mut [u64]) {
    let begin = Instant::now();
    while begin.elapsed() < LONG {
        for entry in store.iter_mut() {
            *entry = black_box(entry.wrapping_mul(6364136223846793005).wrapping_add(1));
        }
    }
}

#[inline(never)]
fn compact() {
    let mut store = STORE.lock();
    merge_segments(&mut *store);
}

fn main() {
    let flag = std::env::args().nth(1).unwrap_or_default();
    let (send, receive) = mpsc::channel();
    let compactor = std::thread::Builder::new().name("compactor".into());
    let started = compactor.spawn(move || {
        send.send(thread_id()).expect("main waits for it");
        loop {
            if told(&flag) {
                compact();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    started.expect("a thread");
    let compactor = receive.recv().expect("its id");
    println!("{{\"victim\": {}, \"compactor\": {compactor}}}", thread_id());
    rhythm(|| put(1));
}
