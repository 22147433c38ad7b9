//! Finds where functions without a symbol begin and end, from the table for unwinding exceptions,
//! which even stripped files have.
//!
//! Format: `.eh_frame` of the Linux Standard Base, read with the `gimli` crate. *Why all of it is
//! walked*: there is only one address to look up, and not every file has the sorted index
//! `.eh_frame_hdr`.

use crate::limited::{Image, Limited};
use gimli::{BaseAddresses, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::{File, Object, ObjectSection};
use std::ops::Range;

/// The svmas of the function that covers `svma` in the file `image`.
pub(crate) fn extent_at(image: impl Image, svma: u64) -> Option<Range<u64>> {
    let cache = Limited::new(image);
    let (table, bases) = open(&File::parse(&cache).ok()?)?;
    let entry = table.fde_for_address(&bases, svma, EhFrame::cie_from_offset).ok()?;
    let extent = entry.initial_address()..entry.initial_address().checked_add(entry.len())?;
    extent.contains(&svma).then_some(extent)
}

/// The table of a file, and the addresses that it is relative to.
pub(crate) fn open<'a, I: Image>(
    file: &File<'a, &'a Limited<I>>,
) -> Option<(EhFrame<EndianSlice<'a, RunTimeEndian>>, BaseAddresses)> {
    let section = file.section_by_name(".eh_frame")?;
    let address_of = |name| file.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(address_of(".text"))
        .set_got(address_of(".got"));
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut table = EhFrame::from(EndianSlice::new(section.data().ok()?, endian));
    table.set_address_size(if file.is_64() { 8 } else { 4 });
    Some((table, bases))
}
