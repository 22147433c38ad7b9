//! What is fuzzed: every reader of bytes that somebody else made, and what must hold of what it
//! read.
//!
//! A [`Target`] is a function over bytes. `fuzz/` gives it bytes that a fuzzer makes up,
//! `tests/kept.rs` the kept ones; both run the same code. *Why a crate of its own*: the fuzzer
//! needs instrumented builds and a C++ runtime, the kept corpus needs neither and is read by every
//! `make test`. See docs/fuzzing.md.

pub mod check;
pub mod corpus;
pub mod memory;
pub mod perf;
pub mod perf_records;
pub mod seeds;
pub mod targets;
pub mod zips;

pub use targets::{TARGETS, Target};

/// Runs `target` once over `bytes`, and checks what it took.
///
/// # Panics
/// When the reader does, when what it read contradicts itself, or when it took more memory than it
/// may.
pub fn run(target: &Target, bytes: &[u8]) {
    let bytes = bytes.get(..target.max_len).unwrap_or(bytes);
    let before = memory::start(target.max_memory(bytes.len()));
    (target.run)(bytes);
    memory::finish(before, target.max_memory(bytes.len()));
}

/// Makes every reader work in the calling thread alone, so that a run is the same each time and no
/// time is lost to waking workers.
pub fn one_thread() {
    let _ = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
}
