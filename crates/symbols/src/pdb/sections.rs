//! [`Section`]: a section of an image, from its `IMAGE_SECTION_HEADER`.

use super::msf::Bytes;

/// Length of an `IMAGE_SECTION_HEADER`, bytes.
const SECTION_LEN: usize = 40;
const EXECUTABLE: u32 = 0x2000_0000;

/// A section of an image.
#[derive(Clone, Copy)]
pub(super) struct Section {
    rva: u32,
    len: u32,
    pub(super) executable: bool,
}

impl Section {
    /// The RVA of an offset in the section.
    pub(super) fn rva(&self, offset: u32) -> Option<u32> {
        (offset < self.len).then(|| self.rva.checked_add(offset))?
    }
}

/// The section with this number, from 1.
pub(super) fn section(sections: &[Section], number: u16) -> Option<&Section> {
    sections.get(usize::from(number).checked_sub(1)?)
}

pub(super) fn sections_of(bytes: &[u8]) -> Vec<Section> {
    let section = |header: &[u8]| {
        let mut header = Bytes(header);
        header.take(8)?;
        let (virtual_len, rva, file_len) = (header.u32()?, header.u32()?, header.u32()?);
        header.take(16)?;
        Some(Section {
            rva,
            len: virtual_len.max(file_len),
            executable: header.u32()? & EXECUTABLE != 0,
        })
    };
    bytes.chunks_exact(SECTION_LEN).filter_map(section).collect()
}
