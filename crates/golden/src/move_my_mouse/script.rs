//! The times and numbers of the script.

pub(super) const CPUS: usize = 48;
pub(super) const START_NS: u64 = 100_000_000_000;
pub(super) const HANG_FROM_NS: u64 = START_NS + 300_000_000;
pub(super) const HANG_NS: u64 = 1_125_000_000;
pub(super) const HANG_UNTIL_NS: u64 = HANG_FROM_NS + HANG_NS;
pub(super) const END_NS: u64 = HANG_UNTIL_NS + 300_000_000;
pub(super) const LONGEST_WAIT_NS: u64 = 115_600_000;
pub(super) const WAKES: usize = 5_768;
pub(super) const INSIDE: &str = "NtGdiCloseProcess";
/// CPU time inside [`INSIDE`]; below, the number of samples there.
pub(super) const INSIDE_NS: u64 = 1_085_000_000;
pub(super) const SAMPLES_INSIDE: usize = 1_085;
pub(super) const WAITED_NS: u64 = 63_300_000_000;
pub(super) const CHAIN_LEN: usize = 7;
