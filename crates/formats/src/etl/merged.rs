//! [`Merged`]: what the workers decoded, with one table of stack parts and one of event kinds.

use super::{
    decode::Decoder,
    kinds::{KindKey, KindTable, MAX_KINDS},
    parts::Parts,
    rows::{Chunk, PartRef},
};
use rustc_hash::FxHashMap;
use unhitch_model::{Warnings, units};

/// Damaged buffers get a warning each up to this number; the others are only counted.
const MAX_DAMAGE_WARNINGS: u64 = 8;

/// All buffers with their rows, by CPU, file and time. Numbers of parts and kinds in the rows are
/// those of the tables here.
pub(super) struct Merged {
    pub chunks: Vec<Chunk>,
    pub parts: Parts,
    pub kinds: KindTable,
}

/// What the workers counted.
#[derive(Default)]
struct Counts {
    damaged_buffers: u64,
    with_counters: u64,
    too_short: u64,
    miscounted: u64,
}

impl Merged {
    /// Merges the workers' tables. What they counted goes to `warnings`.
    pub(super) fn new(decoders: Vec<Decoder>, warnings: &mut Warnings) -> Self {
        let mut merged =
            Self { chunks: Vec::new(), parts: Parts::default(), kinds: KindTable::default() };
        let mut known: FxHashMap<KindKey, u32> = FxHashMap::default();
        let mut counts = Counts::default();
        for mut decoder in decoders {
            let parts = merged.parts.union(&decoder.parts);
            let kinds = merged.kinds.union(decoder.kinds, &mut known);
            for chunk in &mut decoder.chunks {
                renumber(chunk, &parts, &kinds);
                if let Some(damage) = chunk.damage.take() {
                    counts.damaged_buffers += 1;
                    if counts.damaged_buffers <= MAX_DAMAGE_WARNINGS {
                        warnings.add(format!("the buffer at offset {} {damage}", place(chunk)));
                    }
                }
            }
            merged.chunks.append(&mut decoder.chunks);
            counts.with_counters += decoder.with_counters;
            counts.too_short += decoder.too_short;
            counts.miscounted += decoder.miscounted;
        }
        counts.warn(warnings);
        if merged.kinds.beyond > 0 {
            warnings.add(format!(
                "the trace has more than {} kinds of events; {} of the other kinds count as unknown",
                units::count(MAX_KINDS as u64),
                units::plural(merged.kinds.beyond, "event")
            ));
        }
        merged.chunks.sort_by_key(|chunk| {
            (chunk.cpu, chunk.file, chunk.ticks.map_or(i64::MIN, |ticks| ticks.0))
        });
        merged
    }
}

/// Replaces a worker's numbers by those of the merged tables.
fn renumber(chunk: &mut Chunk, parts: &[u32], kinds: &[u32]) {
    let new = |numbers: &[u32], old: u32| numbers.get(old as usize).copied().unwrap_or(0);
    for event in &mut chunk.provider_events {
        event.kind = new(kinds, event.kind);
    }
    for definition in &mut chunk.definitions {
        definition.part = new(parts, definition.part);
    }
    for record in &mut chunk.stacks {
        if let PartRef::Here(part) = &mut record.part {
            *part = new(parts, *part);
        }
    }
}

/// Where a buffer lies, for a warning.
fn place(chunk: &Chunk) -> String {
    match chunk.file {
        0 => chunk.offset.to_string(),
        file => format!("{} of file {}", chunk.offset, file + 1),
    }
}

impl Counts {
    fn warn(&self, warnings: &mut Warnings) {
        if self.damaged_buffers > MAX_DAMAGE_WARNINGS {
            let more = self.damaged_buffers - MAX_DAMAGE_WARNINGS;
            let more = units::plural(more, "more buffer");
            warnings.add(format!("damage was found in {more}"));
        }
        if self.with_counters > 0 {
            warnings.add(format!(
                "cannot read {} with hardware counters; record without hardware counters",
                units::plural(self.with_counters, "scheduling event")
            ));
        }
        if self.too_short > 0 {
            warnings.add(format!(
                "left out {} with fewer bytes than the layout of such events has",
                units::plural(self.too_short, "event")
            ));
        }
        match self.miscounted {
            0 => {}
            1 => warnings.add("1 CPU sample has a count other than 1; it counts as one sample"),
            n => warnings.add(format!(
                "{n} CPU samples have a count other than 1; each counts as one sample"
            )),
        }
    }
}
