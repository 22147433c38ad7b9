//! Answers over traces of made-up records, and the rules that a user may give for their waits.

use super::perf_data::in_frame;
use crate::check;
use std::sync::LazyLock;
use unhitch_analysis::Rules;
use unhitch_formats::read_bytes;

static RULES: LazyLock<Rules> = LazyLock::new(Rules::default);

pub(super) fn run(bytes: &[u8]) {
    if let Some(Ok(trace)) = in_frame(bytes).map(|file| read_bytes(&file)) {
        check::answers(trace, &RULES);
    }
}

pub(super) fn wait_rules(bytes: &[u8]) {
    if let Err(error) = Rules::with_user_rules(&String::from_utf8_lossy(bytes)) {
        assert!(!error.to_string().is_empty(), "an error that says nothing");
    }
}
