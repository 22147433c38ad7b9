//! Fuzz targets: every reader of foreign bytes, with checks of what it read.
//!
//! A [`Target`] is a function over bytes. `fuzz/` calls it with bytes from a fuzzer,
//! `tests/kept.rs` with the kept ones; both run the same code. *Why a crate of its own*: the fuzzer
//! needs instrumented builds and a C++ runtime. The kept corpus needs neither and is read by every
//! `make test`. See docs/fuzzing.md.

pub mod check;
pub mod corpus;
mod import_seeds;
pub mod memory;
pub mod perf;
pub mod perf_records;
pub mod seeds;
pub mod targets;
pub mod zips;

pub use targets::{TARGETS, Target};

/// Runs `target` once over `bytes`, and checks how much memory it took.
///
/// # Panics
/// If the reader panics, if what it read contradicts itself, or if it took more memory than
/// allowed.
pub fn run(target: &Target, bytes: &[u8]) {
    let bytes = bytes.get(..target.max_len).unwrap_or(bytes);
    let before = memory::start(target.max_memory(bytes.len()));
    (target.run)(bytes);
    memory::finish(before, target.max_memory(bytes.len()));
}

/// Makes every reader work in the calling thread only, so that runs are repeatable and lose no time
/// waking workers.
pub fn one_thread() {
    let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
}
