//! What grew between two scans of a process, per second.

use crate::address_space::AddressSpace;
use crate::findings::described;
use crate::groups::Group;
use serde::Serialize;
use unhitch_model::units::{bytes, count, plural};

/// Change per second of a process's figures; negative if they shrank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Time between the scans in seconds.
    pub seconds: f64,
    /// Mappings.
    pub mappings_per_second: f64,
    /// Address space.
    pub reserved_bytes_per_second: f64,
    /// Memory that can be accessed.
    pub committed_bytes_per_second: f64,
    /// Memory in use.
    pub resident_bytes_per_second: f64,
    /// Swapped memory.
    pub swapped_bytes_per_second: f64,
    /// Page tables.
    pub table_bytes_per_second: f64,
    /// Mappings that can be executed.
    pub executable_blocks_per_second: f64,
    /// All of this in words.
    pub text: String,
}

impl Growth {
    /// Compares two scans of one process, `seconds` apart.
    pub fn between(before: &AddressSpace, after: &AddressSpace, seconds: f64) -> Self {
        let seconds = seconds.max(1e-3);
        let rate = |before: u64, after: u64| (after as f64 - before as f64) / seconds;
        let of = |value: fn(&AddressSpace) -> u64| rate(value(before), value(after));
        let mut growth = Self {
            pid: after.process.pid,
            name: after.process.name.clone(),
            seconds,
            mappings_per_second: of(|space| space.total.mappings),
            reserved_bytes_per_second: of(|space| space.total.reserved_bytes),
            committed_bytes_per_second: of(|space| space.total.committed_bytes),
            resident_bytes_per_second: of(|space| space.process.resident_bytes),
            swapped_bytes_per_second: of(|space| space.process.swapped_bytes),
            table_bytes_per_second: of(|space| space.page_tables.allocated_bytes),
            executable_blocks_per_second: of(|space| space.total.executable_blocks),
            text: String::new(),
        };
        growth.text = growth.words(before, after);
        growth
    }

    fn words(&self, before: &AddressSpace, after: &AddressSpace) -> String {
        let sizes = [
            (self.reserved_bytes_per_second, "reserved"),
            (self.committed_bytes_per_second, "committed"),
            (self.resident_bytes_per_second, "resident"),
            (self.swapped_bytes_per_second, "swapped"),
            (self.table_bytes_per_second, "page tables"),
        ];
        let counts = [
            (self.mappings_per_second, "mappings"),
            (self.executable_blocks_per_second, "executable blocks"),
        ];
        let mut changes: Vec<String> = counts
            .iter()
            .filter(|(rate, _)| *rate != 0.0)
            .map(|(rate, what)| format!("{} {what}", signed(*rate)))
            .collect();
        changes.extend(
            sizes
                .iter()
                .filter(|(rate, _)| *rate != 0.0)
                .map(|(rate, what)| format!("{} {what}", signed_bytes(*rate))),
        );
        if changes.is_empty() {
            return format!(
                "no change in {:.1} s; {}",
                self.seconds,
                plural(after.total.mappings, "mapping")
            );
        }
        let mut text = format!(
            "per second: {}; now {}",
            changes.join(", "),
            plural(after.total.mappings, "mapping")
        );
        if let Some((group, more)) = fastest(before, after) {
            text += &format!(
                ". {} grows fastest: {} more in {:.1} s",
                described(group),
                plural(more, "mapping"),
                self.seconds
            );
        }
        text
    }
}

/// The group that gained the most mappings.
fn fastest<'a>(before: &AddressSpace, after: &'a AddressSpace) -> Option<(&'a Group, u64)> {
    let had = |group: &Group| {
        let same = before
            .groups
            .iter()
            .find(|old| (old.kind, &old.name, old.start) == (group.kind, &group.name, group.start));
        same.map_or(0, |old| old.figures.mappings)
    };
    let grown =
        after.groups.iter().map(|group| (group, group.figures.mappings.saturating_sub(had(group))));
    // If several are equal, take the first.
    grown
        .filter(|(_, more)| *more > 0)
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn signed(rate: f64) -> String {
    let sign = if rate < 0.0 { "−" } else { "+" };
    match rate.abs() {
        few @ ..10.0 => format!("{sign}{few:.1}"),
        many => format!("{sign}{}", count(many.round() as u64)),
    }
}

fn signed_bytes(rate: f64) -> String {
    format!("{}{}", if rate < 0.0 { "−" } else { "+" }, bytes(rate.abs().round() as u64))
}
