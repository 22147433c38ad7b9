//! A program that makes a thumbnail every 20 ms, in a pool of rayon with two threads. When the file of
//! the first argument appears, somebody else runs uploads in the same pool; they fail, and wait before
//! they try again, instead of leaving the threads to those that compute.

use native_hangs::{rhythm, thread_id, told, LONG};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

const THREADS: usize = 2;

static UPLOADED: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn retry_upload() {
    std::thread::sleep(LONG);
    UPLOADED.fetch_add(1, Ordering::Relaxed);
}

#[inline(never)]
fn scale_row(row: u64) -> u64 {
    (0..1000).fold(row, |sum, pixel| black_box(sum.wrapping_mul(31).wrapping_add(pixel)))
}

#[inline(never)]
fn make_thumbnail(pool: &ThreadPool) {
    let sum: u64 = pool.install(|| (0..64_u64).into_par_iter().map(|row| scale_row(row) & 255).sum());
    black_box(sum);
}

fn main() {
    let flag = std::env::args().nth(1).unwrap_or_default();
    let builder = ThreadPoolBuilder::new().num_threads(THREADS);
    let pool = Arc::new(builder.thread_name(|n| format!("pool-{n}")).build().expect("a pool"));
    let workers = pool.broadcast(|_| thread_id());
    println!("{{\"victim\": {}, \"workers\": {workers:?}}}", thread_id());
    let uploads = pool.clone();
    std::thread::spawn(move || loop {
        if told(&flag) {
            for _ in 0..THREADS {
                uploads.spawn(retry_upload);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    });
    rhythm(|| make_thumbnail(&pool));
}
