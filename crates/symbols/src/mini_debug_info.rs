//! [`MiniDebugInfo`]: the functions that a stripped file does not export, from the file itself.
//!
//! Format: "MiniDebugInfo" of the GDB manual: the section `.gnu_debugdata` is an ELF file, packed
//! with xz, with symbols of functions that are not in the dynamic symbol table. Fedora and its
//! relatives ship all programs with it. *Why it stays unpacked in memory*: names are read when a
//! frame needs them.

use crate::elf::Elf;
use crate::limited::{Alone, Image, alone};
use crate::xz::{self, Unpacked};
use std::io::{Cursor, Read, SeekFrom};
use std::ops::Range;

/// Maximum length of the packed section, bytes. That of the largest browsers has 3 MB.
pub(crate) const MAX_PACKED_BYTES: u64 = 8 << 20;
/// Maximum length of the unpacked file, bytes.
pub(crate) const MAX_UNPACKED_BYTES: u32 = 32 << 20;

/// An unpacked `.gnu_debugdata`.
pub(crate) struct MiniDebugInfo {
    elf: Elf,
    image: Vec<u8>,
}

/// Why a section names nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unusable {
    Damaged,
    TooLarge,
}

impl MiniDebugInfo {
    /// Unpacks the section at these file offsets of `image`, if it `may_take` the memory that the
    /// result needs, in bytes. Until that is decided, no other large file is read.
    pub(crate) fn read(
        image: &mut dyn Image,
        section: &Range<u64>,
        may_take: impl FnOnce(u64) -> bool,
    ) -> Result<Self, Unusable> {
        let len = section.end.saturating_sub(section.start);
        if len > MAX_PACKED_BYTES {
            return Err(Unusable::TooLarge);
        }
        let alone = alone();
        let mut packed = Vec::new();
        image
            .seek(SeekFrom::Start(section.start))
            .and_then(|_| image.take(len).read_to_end(&mut packed))
            .map_err(|_| Unusable::Damaged)?;
        let mini = Self::unpack(&packed, &alone)?;
        if may_take(mini.memory() as u64) { Ok(mini) } else { Err(Unusable::TooLarge) }
    }

    /// Unpacks the content of such a section.
    pub(crate) fn unpack(packed: &[u8], alone: &Alone) -> Result<Self, Unusable> {
        let mut image = match xz::unpack(packed, MAX_UNPACKED_BYTES) {
            Some(Unpacked::All(image)) => image,
            Some(Unpacked::TooLong) => return Err(Unusable::TooLarge),
            None => return Err(Unusable::Damaged),
        };
        image.shrink_to_fit();
        let elf = Elf::read_incomplete(Cursor::new(&image), alone).ok_or(Unusable::Damaged)?;
        Ok(Self { elf, image })
    }

    /// The tables in it. Their svmas are those of the stripped file.
    pub(crate) fn elf(&self) -> &Elf {
        &self.elf
    }

    /// The linker symbol of the function that covers `svma`.
    pub(crate) fn function_at(&self, svma: u64) -> Option<String> {
        self.elf.function_at(&mut Cursor::new(&self.image), svma)
    }

    /// Memory that it takes, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.elf.memory() + self.image.capacity()
    }
}
