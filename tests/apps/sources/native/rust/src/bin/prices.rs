//! Prices in a concurrent map (dashmap): one is changed every 20 ms. When the file of the first argument
//! appears, the thread "printer" prints an invoice, and refers to an article of the map all the time.

use dashmap::DashMap;
use native_hangs::{rhythm, thread_id, told, LONG};
use std::hint::black_box;
use std::sync::{mpsc, LazyLock};
use std::time::{Duration, Instant};

static PRICES: LazyLock<DashMap<u32, u64>> = LazyLock::new(|| (0..1000).map(|n| (n, 0)).collect());

#[inline(never)]
fn change_price(article: u32) {
    if let Some(mut price) = PRICES.get_mut(&article) {
        *price = black_box(price.wrapping_add(1));
    }
}

#[inline(never)]
fn print_invoice(price: &u64) -> u64 {
    let (mut sum, begin) = (*price, Instant::now());
    while begin.elapsed() < LONG {
        for n in 0..10_000 {
            sum = black_box(sum.wrapping_mul(6364136223846793005).wrapping_add(n));
        }
    }
    sum
}

#[inline(never)]
fn sell(article: u32) {
    if let Some(price) = PRICES.get(&article) {
        black_box(print_invoice(&price));
    }
}

fn main() {
    let flag = std::env::args().nth(1).unwrap_or_default();
    let (send, receive) = mpsc::channel();
    let printer = std::thread::Builder::new().name("printer".into());
    let started = printer.spawn(move || {
        send.send(thread_id()).expect("main waits for it");
        loop {
            if told(&flag) {
                sell(7);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    started.expect("a thread can be started");
    let printer = receive.recv().expect("the thread sends its id");
    println!("{{\"victim\": {}, \"printer\": {printer}}}", thread_id());
    rhythm(|| change_price(7));
}
