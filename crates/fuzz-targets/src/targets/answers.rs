//! Answers about traces of synthetic records, and users' rules for wait classes.

use super::perf_data::in_frame;
use crate::check;
use std::sync::LazyLock;
use unhitch_analysis::Rules;
use unhitch_formats::read_bytes;

static RULES: LazyLock<Rules> = LazyLock::new(Rules::default);

/// Maximum length of a trace, nanoseconds: 52 days. In a longer one, sums over many CPUs may exceed
/// 64 bits. Readers accept such a trace if a damaged record has a wrong time.
const MAX_TRACE_NS: u64 = 1 << 52;

pub(super) fn run(bytes: &[u8]) {
    of_any_length(bytes, MAX_TRACE_NS);
}

/// The same, for traces up to that length.
pub fn of_any_length(bytes: &[u8], max_ns: u64) {
    if let Some(Ok(trace)) = in_frame(bytes).map(|file| read_bytes(&file)) {
        check::answers(trace, &RULES, max_ns);
    }
}

pub(super) fn wait_rules(bytes: &[u8]) {
    if let Err(error) = Rules::with_user_rules(&String::from_utf8_lossy(bytes)) {
        assert!(!error.to_string().is_empty(), "an error without a message");
    }
}
