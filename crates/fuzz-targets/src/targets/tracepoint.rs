//! The kernel's descriptions of its tracepoints: single texts, and a file's section with all of
//! them.

use unhitch_formats::tracepoint::{EventFormat, TracingData};

/// The samples that fields are read from.
const RAW: [u8; 64] = [0x80; 64];
const FIELDS: [&str; 6] = ["prev_pid", "prev_state", "next_comm", "lock_addr", "common_flags", "x"];

pub(super) fn run(bytes: &[u8]) {
    if let Ok(data) = TracingData::decode(bytes) {
        data.events.iter().for_each(|(_, text)| format(text));
        // Invalid UTF-8 has become longer.
        let is_text =
            data.events.iter().all(|(system, _)| !system.contains(char::REPLACEMENT_CHARACTER));
        let again = TracingData::decode(&data.encode());
        assert!(
            !is_text || again.is_ok_and(|again| by_system(&again) == by_system(&data)),
            "not the same again"
        );
    }
    format(&String::from_utf8_lossy(bytes));
}

/// Writing groups the tracepoints by system. Names with a NUL cannot come from a file.
fn by_system(data: &TracingData) -> TracingData {
    let mut data = data.clone();
    data.events.sort_by(|a, b| a.0.cmp(&b.0));
    data
}

fn format(text: &str) {
    let Some(format) = EventFormat::parse(text) else { return };
    for field in FIELDS.into_iter().filter_map(|name| format.field(name)) {
        assert!(
            field.bytes(&RAW).is_none_or(|bytes| bytes.len() == field.size),
            "a field of another length"
        );
        let _ = field.value(&RAW);
    }
}
