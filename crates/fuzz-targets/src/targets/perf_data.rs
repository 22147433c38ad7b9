//! `perf.data`: whole files and pipes, and mutated records in otherwise valid files and pipes.

use crate::{check, perf};
use std::sync::LazyLock;
use unhitch_formats::read_bytes;

pub(super) fn file(bytes: &[u8]) {
    // Zips and Windows traces have targets of their own.
    if bytes.starts_with(b"PERFILE2") {
        read_twice(bytes);
    }
}

fn read_twice(bytes: &[u8]) {
    let Ok(trace) = read_bytes(bytes) else { return };
    check::trace(&trace);
    // Reading twice takes twice as long. A fraction of the inputs is enough, because a difference
    // shows for many inputs.
    if bytes.len().is_multiple_of(8) && bytes.last().is_some_and(|byte| byte % 4 == 0) {
        check::same(&trace, &read_bytes(bytes).expect("what was read once is read again"));
    }
}

/// The bytes before the records of a file, with the offset of the records' length, and the bytes
/// behind them.
pub(crate) struct Frame {
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// Where a file's header has the length of its records.
const DATA_LEN_AT: usize = 48;
/// Bytes that no header contains.
const MARK: &[u8] = b"<records>";

static FILE: LazyLock<Frame> = LazyLock::new(|| {
    let file = perf::file(MARK);
    let at = file
        .windows(MARK.len())
        .position(|window| window == MARK)
        .expect("the records are in the file");
    Frame { head: file[..at].to_vec(), tail: file[at + MARK.len()..].to_vec() }
});
static PIPE: LazyLock<Vec<u8>> = LazyLock::new(perf::pipe_head);

/// The first byte selects file or pipe, the rest are the records.
pub(super) fn in_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let (&first, records) = bytes.split_first()?;
    if first % 2 == 0 {
        return Some([PIPE.as_slice(), records].concat());
    }
    let Frame { head, tail } = &*FILE;
    let mut out = Vec::with_capacity(head.len() + records.len() + tail.len());
    out.extend_from_slice(head);
    out.extend_from_slice(records);
    // The feature sections' offsets count from the start of the file, so the table behind the
    // records moves with them.
    let mut tail = tail.clone();
    let moved = (records.len() as u64).wrapping_sub(MARK.len() as u64);
    let (at, end) = (head.len() + MARK.len(), tail.len());
    let first_section = u64::from_le_bytes(*tail.first_chunk()?) as usize;
    for entry in tail[..(first_section - at).min(end)].chunks_exact_mut(16) {
        let offset = u64::from_le_bytes(*entry.first_chunk()?);
        entry[..8].copy_from_slice(&offset.wrapping_add(moved).to_le_bytes());
    }
    out.extend(tail);
    out[DATA_LEN_AT..DATA_LEN_AT + 8].copy_from_slice(&(records.len() as u64).to_le_bytes());
    Some(out)
}

pub(super) fn records(bytes: &[u8]) {
    if let Some(file) = in_frame(bytes) {
        read_twice(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_records;

    #[test]
    fn both_frames_hold_the_same_events() {
        let records = perf_records::perf_records();
        let read =
            |kind: u8| read_bytes(&in_frame(&[&[kind][..], &records].concat()).unwrap()).unwrap();
        let (pipe, file) = (read(0), read(1));
        let warnings: Vec<String> = file.warnings.lines().collect();
        assert_eq!(warnings, ["CPU 1 lost 3 events: the recorder could not keep up"]);
        assert_eq!(
            (file.switches.len(), file.wakings.len(), file.samples.len(), file.contentions.len()),
            (4, 2, 1, 2)
        );
        assert_eq!(
            (pipe.switches.time, pipe.switches.prev),
            (file.switches.time, file.switches.prev)
        );
        assert_eq!(file.meta.cpus, 2);
    }
}
