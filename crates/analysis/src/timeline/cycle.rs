//! What is stored of a thread's time: its cycles.

/// The index of an event that was not seen.
pub(super) const NONE: u32 = u32::MAX;

/// One cycle off the CPU and back: indices into switches (`out`, `back`) and wakings (`wake`),
/// [`NONE`] where not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cycle {
    pub out: u32,
    pub wake: u32,
    pub back: u32,
}

/// An index as it is stored.
pub(super) fn number(index: Option<usize>) -> u32 {
    index.map_or(NONE, |index| index as u32)
}

/// The index of an event, if it was seen.
pub(super) fn seen(index: u32) -> Option<usize> {
    (index != NONE).then_some(index as usize)
}
