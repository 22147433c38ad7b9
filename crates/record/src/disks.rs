//! What was done on each disk, from `/proc/diskstats`.
//!
//! Format: `Documentation/admin-guide/iostats.rst`. A sector is 512 bytes there, whatever the disk's.

use crate::procfs::read_small;
use std::collections::BTreeMap;
use std::path::Path;
use unhitch_formats::container::DiskTotals;

/// Maximum number of disks in a reading.
const MAX_DISKS: usize = 256;
const SECTOR_BYTES: u64 = 512;
const MS: u64 = 1_000_000;

/// The disks that were used since the machine was started.
pub(crate) fn read() -> BTreeMap<String, DiskTotals> {
    let text = read_small(Path::new("/proc/diskstats")).unwrap_or_default();
    // Partitions are listed, too, but have no folder there: they would count twice.
    let is_whole = |name: &str| Path::new("/sys/block").join(name.replace('/', "!")).exists();
    parse(&text).filter(|(name, _)| is_whole(name)).take(MAX_DISKS).collect()
}

fn parse(text: &str) -> impl Iterator<Item = (String, DiskTotals)> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next()?;
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let &[_, _, read, _, _, _, written, _, _, busy_ms, queued_ms, ..] = numbers.as_slice()
        else {
            return None;
        };
        let totals = DiskTotals {
            read_bytes: read.saturating_mul(SECTOR_BYTES),
            written_bytes: written.saturating_mul(SECTOR_BYTES),
            busy_ns: busy_ms.saturating_mul(MS),
            queued_ns: queued_ms.saturating_mul(MS),
        };
        (totals != DiskTotals::default()).then(|| (name.to_owned(), totals))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_that_were_used_are_found() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda 2012 81 8633 369 \
                    4339 305 1731 745 0 2015 4483 167 40 97 38 87 80\n 8 0 sda 1 2\nnonsense\n";
        let vda = DiskTotals {
            read_bytes: 8633 * 512,
            written_bytes: 1731 * 512,
            busy_ns: 2_015_000_000,
            queued_ns: 4_483_000_000,
        };
        assert_eq!(parse(text).collect::<Vec<_>>(), [("vda".to_owned(), vda)]);
    }
}
