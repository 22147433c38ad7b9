//! [`Omap`]: maps RVAs to those before the image was rearranged.
//!
//! Format: `OMAP_DATA` of `cvexefmt.h`: pairs of RVAs, sorted by the first. Each holds up to the
//! next. Until Windows 8, Windows' own images were rearranged by use after their PDBs were made.

use super::msf::Bytes;

pub(super) struct Omap(Vec<(u32, u32)>);

impl Omap {
    /// Reads the pairs; `None` if there are none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let pair = |pair: &[u8]| {
            let mut pair = Bytes(pair);
            Some((pair.u32()?, pair.u32()?))
        };
        let mut pairs: Vec<(u32, u32)> = bytes.chunks_exact(8).filter_map(pair).collect();
        pairs.sort_unstable();
        (!pairs.is_empty()).then_some(Self(pairs))
    }

    /// The old RVA of the code that is at `rva` now; `None` for code that was added.
    pub(super) fn source(&self, rva: u32) -> Option<u32> {
        let (from, to) =
            *self.0.get(self.0.partition_point(|(from, _)| *from <= rva).checked_sub(1)?)?;
        (to != 0).then(|| to.checked_add(rva.checked_sub(from)?))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_holds_up_to_the_next() {
        let pairs = [(0x1000_u32, 0x5000_u32), (0x1100, 0), (0x1200, 0x3000)];
        let bytes: Vec<u8> = pairs
            .iter()
            .flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()].concat())
            .collect();
        let omap = Omap::parse(&bytes).unwrap();
        let sources = [0xfff, 0x1000, 0x10ff, 0x1100, 0x1234].map(|rva| omap.source(rva));
        assert_eq!(sources, [None, Some(0x5000), Some(0x50ff), None, Some(0x3034)]);
    }
}
