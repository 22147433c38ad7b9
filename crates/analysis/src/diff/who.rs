//! Names that mean the same in another recording.

use crate::Analysis;
use crate::stacks::name_patterns::base_name;
use serde::Serialize;
use std::fmt;
use unhitch_model::{ThreadId, Time};

/// A thread by what does not change from run to run: never its numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Debug)]
pub struct Who {
    /// The process's name, with digits folded.
    pub process: String,
    /// The thread's name, with digits folded: `tokio-rt-worker-#`.
    pub thread: String,
}

impl Who {
    /// Who a thread is.
    pub fn of(analysis: &Analysis<'_>, thread: ThreadId, at: Time) -> Self {
        let trace = analysis.trace;
        if thread.is_idle() {
            return Self { process: "nobody".to_owned(), thread: "nobody".to_owned() };
        }
        Self {
            process: folded(trace.process_name(thread, at)),
            thread: folded(trace.thread_name(thread, at)),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread.is_empty() || self.thread == self.process {
            true => f.write_str(&self.process),
            false => write!(f, "{} of {}", self.thread, self.process),
        }
    }
}

/// A name with each run of digits as `#`.
fn folded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(c),
        }
    }
    out
}

/// The digits of the hash in a Rust symbol.
const HASH_LEN: usize = 16;

/// A function's name without what changes from build to build: offsets, hashes, the compiler's
/// suffixes.
pub fn plain_function(name: &str) -> &str {
    let name = base_name(name.split("+0x").next().unwrap_or(name));
    let is_hash =
        |hash: &str| hash.len() == HASH_LEN && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match name.rsplit_once("::h") {
        Some((plain, hash)) if is_hash(hash) => plain,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_changes_from_run_to_run() {
        assert_eq!(folded("tokio-rt-worker-17"), "tokio-rt-worker-#");
        assert_eq!(folded("kworker/3:1H"), "kworker/#:#H");
        let functions = [
            ("find_run", "find_run"),
            ("find_run+0x1f", "find_run"),
            ("find_run.constprop.0", "find_run"),
            ("find_run.isra.0.cold", "find_run"),
            ("a::b::h0123456789abcdef", "a::b"),
            ("a::b::hello", "a::b::hello"),
            ("a::f.llvm.1234", "a::f"),
            ("cache.coldStart", "cache.coldStart"),
            ("com.example.part.Loader.run", "com.example.part.Loader.run"),
        ];
        functions.iter().for_each(|(name, plain)| assert_eq!(plain_function(name), *plain));
    }
}
