//! The times, numbers and stacks of the script.

use crate::code::Stack;
use crate::machine::{Machine, Thread};

pub(super) const CPUS: usize = 64;
pub(super) const HOLDER_CPU: usize = 60;
pub(super) const EDITOR_CPU: usize = 61;
pub(super) const LOOP_SAMPLES: [u64; 7] = [4, 41, 0, 7_498, 2, 1, 1];
pub(super) const HOLD_NS: u64 = 3_368_000_000;
/// The time between two samples: all samples of the loop are evenly over the hold.
pub(super) const PERIOD_NS: u64 = HOLD_NS / 7_547;
pub(super) const START_NS: u64 = 100_000_000_000;
pub(super) const HOLD_FROM_NS: u64 = START_NS + 200_000_000;
pub(super) const HOLD_UNTIL_NS: u64 = HOLD_FROM_NS + HOLD_NS;
pub(super) const RECOVERY_NS: u64 = 12_000_000;
pub(super) const RECOVERY_SWITCHES: u64 = 500;
pub(super) const END_NS: u64 = HOLD_UNTIL_NS + 200_000_000;
pub(super) const FALL_NS: u64 = 500_000_000;
/// Number of compilers that compute until they want the lock, all but [`FALL_CREATES`] to write.
pub(super) const COMPILERS: usize = 62;
pub(super) const FALL_CREATES: usize = 22;

pub(super) const CHECKPOINT: &str = "nt!PspSystemThreadStartup nt!ExpWorkerThread \
    ntfs!NtfsCheckpointAllVolumes ntfs!NtfsCheckpointVolume";
pub(super) const WRITE: &str =
    "kernelbase!WriteFile nt!NtWriteFile ntfs!NtfsFsdWrite ntfs!NtfsCommonWrite";
pub(super) const CREATE: &str =
    "kernelbase!CreateFileW nt!NtCreateFile ntfs!NtfsFsdCreate ntfs!NtfsCommonCreate";
pub(super) const ACQUIRE: &str = "nt!ExAcquireResourceExclusiveLite";
pub(super) const RELEASE: &str = "nt!ExReleaseResourceLite";

/// A compiler, its CPU, and when it begins to wait for the lock.
pub(super) struct Compiler {
    pub thread: Thread,
    pub cpu: usize,
    pub blocks: u64,
    pub creates: bool,
}

/// The stacks of working compilers.
pub(super) fn compiling(machine: &mut Machine) -> Vec<Stack> {
    [
        "c1xx!YYParse",
        "c1xx!SymbolTable::Lookup",
        "c2!CodeGenerator::Emit",
        "c2!GlobalOptimizer::Run",
        "c2!RegisterAllocator::Color",
    ]
    .map(|function| machine.code.stack(&format!("cl.exe!main {function}")))
    .to_vec()
}
