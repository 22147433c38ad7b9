//! [`Walker`]: the serial part of reading, kept small.
//!
//! A record only says where the next one begins, so one thread must go from header to header before
//! others can share the work. On the way it collects everything that is not a sample.

use super::{
    expand,
    feature::{self, FileDescription},
    record::kind,
    records::{Record, Records},
    side_band,
};
use crate::ring;
use std::collections::BTreeMap;
use unhitch_model::Warnings;

/// Length of a chunk, bytes: large enough that the cost per chunk does not matter, small enough for
/// a core's cache.
const CHUNK_LEN: usize = 512 << 10;

/// Cuts the data into chunks of whole records, and collects the side-band.
pub(crate) struct Walker<'a> {
    pub data: &'a [u8],
    records: Records<'a>,
    pub side_band: Vec<Record<'a>>,
    /// Pieces of the rings of the recorder that runs in the kernel.
    pub rings: Vec<&'a [u8]>,
    /// Number of records that are not samples, by type.
    pub counts: BTreeMap<u32, u64>,
    /// Build ids, which perf writes last.
    pub build_ids: FileDescription,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            records: Records::new(data),
            side_band: Vec::new(),
            rings: Vec::new(),
            counts: BTreeMap::new(),
            build_ids: FileDescription::default(),
        }
    }

    /// What ended the walk before the data did.
    pub(crate) fn damage(&self) -> Option<String> {
        self.records.damage()
    }

    fn side(&mut self, record: Record<'a>) {
        if record.kind == kind::AUXTRACE && ring::is_rings(record.payload) {
            self.rings.push(record.payload);
            return;
        }
        *self.counts.entry(record.kind).or_default() += 1;
        if side_band::is_known(record.kind) {
            self.side_band.push(record);
        } else if record.kind == kind::BUILD_ID {
            self.build_ids.read_build_id(record.misc, record.body);
        }
    }
}

impl<'a> Iterator for Walker<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.records.position();
        // Going from header to header, every step would wait for memory. Touching all cache lines
        // first makes these waits overlap.
        let ahead = &self.data[start..self.data.len().min(start + CHUNK_LEN)];
        std::hint::black_box(ahead.iter().step_by(64).fold(0, |all, byte| all ^ byte));
        while self.records.position() - start < CHUNK_LEN {
            match self.records.next() {
                Some(record) if record.kind == kind::SAMPLE => {}
                Some(record) => self.side(record),
                None => break,
            }
        }
        let end = self.records.position();
        (end > start).then(|| &self.data[start..end])
    }
}

/// Reads what the records before the first sample say about the file. In a pipe that is all there
/// is; in a file it is nothing new. True if the samples are compressed.
pub(crate) fn read_prologue(
    data: &[u8],
    about: &mut FileDescription,
    warnings: &mut Warnings,
) -> bool {
    for record in Records::new(data) {
        let understood = match record.kind {
            kind::SAMPLE => return false,
            packed if expand::is_packed(packed) => return true,
            kind::ATTR => about.read_attr(record.body),
            kind::TRACING_DATA => about.read_section(feature::TRACING_DATA, record.payload),
            kind::EVENT_UPDATE => about.read_event_update(record.body),
            kind::FEATURE => about.read_feature(record.body),
            _ => Some(()),
        };
        if understood.is_none() {
            warnings
                .add(format!("a {} record is damaged and was left out", kind::name(record.kind)));
        }
    }
    false
}
