//! The rings of the recorder that runs in the kernel (BPF), as they were copied from it.
//!
//! The member `rings.bin` of a container: a [`header`](layout), then the blocks of each ring, oldest
//! first. A switch or a wake-up is one word of 8 bytes there, where a `perf.data` has 112 to 220. The
//! layout of blocks and records is `ring.h`, which the kernel's part is compiled with;
//! [`layout`] has the same numbers. Threads, names and mappings come from the `perf.data` beside it.
//!
//! A recording that is written while it goes on has the same as pieces, in records of its `perf.data`:
//! a piece goes from where the last one ended to where the ring ended then, so nothing is written
//! twice. Only blocks that the kernel overwrote before they were read are missing between two
//! pieces.
//!
//! *Why decoded to the rows of `perf_data`*: threads, addresses and stacks are then resolved by one
//! piece of code, whoever recorded them.

mod decode;
mod encode;
pub(crate) mod facts;
mod kept_stacks;
mod layout;
pub(crate) mod replay;
mod segment;
mod sleepers;
mod stacks;
mod walk;

pub(crate) use decode::{Decoded, Gap, decode};
pub use encode::{encode, encode_pieces, encode_sleepers};
pub use facts::{SocketPorts, WaitedFor};
pub(crate) use layout::is_rings;
pub use layout::{BLOCK_BYTES, RingPart, RingPiece, count, started_ns};
pub use sleepers::SleeperPart;

#[cfg(test)]
mod tests;
