//! The functions of a Go program, from the table that its own stack traces use. `go build -ldflags
//! "-s -w"` and `strip` cannot remove it.
//!
//! Format: `runtime.pcHeader` and `runtime.functab` of Go 1.18 and later (`src/runtime/symtab.go`).
//! *Why the start of the text is searched for*: all addresses are relative to it. The header had it
//! until Go 1.25; since then only the module data has. In position-independent programs both are
//! zero in the file, and a relocation sets them.

use crate::function_table::{Binding, FunctionSymbol, FunctionTable};
use crate::limited::{Image, Limited};
use object::read::elf::{ElfFile, FileHeader};
use object::{Object, ObjectSection, RelocationTarget};

/// The first word of the table: Go 1.18 and 1.19, and 1.20 and later.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Where the words of the header start, bytes: after the magic, two zeros, the length of an
/// instruction and that of a word.
const WORDS_AT: u64 = 8;
/// The words of the header, by their index.
const FUNCTIONS: u64 = 0;
const TEXT_START: u64 = 2;
const NAMES_AT: u64 = 3;
const TABLE_AT: u64 = 7;
/// The index of the text's start among the words of `runtime.moduledata`.
const MODULE_TEXT_START: u64 = 22;
/// Length of an entry of the table: where the function starts, and where its description is.
const ENTRY_LEN: usize = 8;
/// Maximum number of functions. The largest Go programs have some hundred thousand.
const MAX_FUNCTIONS: usize = 2 << 20;
/// Where the name's offset is in a function's description, bytes.
const NAME_IN_DESCRIPTION: usize = 4;

/// The functions of a Go program; `None` if `file` is not one, or its table is damaged.
pub(crate) fn functions<'a, H: FileHeader, I: Image>(
    file: &ElfFile<'a, H, &'a Limited<I>>,
) -> Option<FunctionTable> {
    let width = if file.is_64() { 8 } else { 4 };
    let Place { svma, file_offset, bytes } = find(file, width)?;
    let header = |index: u64| Words { bytes, width }.word(WORDS_AT + index * width);
    let text_svma = header(TEXT_START)
        .filter(|&svma| svma != 0)
        .or_else(|| relocated(file, svma.wrapping_add(WORDS_AT + TEXT_START * width)))
        .or_else(|| text_of_module(file, width))
        .or_else(|| Some(file.section_by_name(".text")?.address()))?;
    let found = read(
        bytes.get(usize::try_from(header(TABLE_AT)?).ok()?..)?,
        usize::try_from(header(FUNCTIONS)?).ok()?,
        text_svma,
    )?;
    let names = file_offset.checked_add(header(NAMES_AT)?)?;
    Some(FunctionTable::new(found, names..file_offset.checked_add(bytes.len() as u64)?))
}

/// Where the table is, and all that follows in its section.
struct Place<'a> {
    svma: u64,
    file_offset: u64,
    bytes: &'a [u8],
}

/// Finds the table. It has a section of its own, unless the system's linker has put it among the
/// relocated data of a position-independent program.
fn find<'a, H: FileHeader, I: Image>(
    file: &ElfFile<'a, H, &'a Limited<I>>,
    width: u64,
) -> Option<Place<'a>> {
    let own = file
        .sections()
        .find(|section| section.name_bytes().is_ok_and(|name| name.ends_with(b".gopclntab")));
    let section = own.or_else(|| {
        file.section_by_name(".go.buildinfo")?;
        file.section_by_name(".data.rel.ro")
    })?;
    let bytes = section.data().ok()?;
    let is_header = |header: &[u8]| {
        u32_at(header, 0).is_some_and(|magic| MAGICS.contains(&magic))
            && matches!(header, [_, _, _, _, 0, 0, 1 | 2 | 4, len, ..] if u64::from(*len) == width)
    };
    let at = (0..bytes.len()).step_by(WORDS_AT as usize).find(|&at| is_header(&bytes[at..]))?;
    Some(Place {
        svma: section.address().wrapping_add(at as u64),
        file_offset: section.file_range()?.0.checked_add(at as u64)?,
        bytes: &bytes[at..],
    })
}

/// Reads `count` entries. Each function ends where the next one starts; one more entry ends the
/// last function. The descriptions follow the entries. `None` if there are fewer or too many.
fn read(table: &[u8], count: usize, text_svma: u64) -> Option<Vec<(FunctionSymbol, bool)>> {
    if count > MAX_FUNCTIONS {
        return None;
    }
    let entries = table.get(..count * ENTRY_LEN + 4)?;
    let mut found = Vec::new();
    for at in (0..count).map(|index| index * ENTRY_LEN) {
        let svma = |at| Some(text_svma.wrapping_add(u32_at(entries, at)?.into()));
        let svmas = svma(at)?..svma(at + ENTRY_LEN)?;
        if svmas.is_empty() {
            continue;
        }
        let description = usize::try_from(u32_at(entries, at + 4)?).ok()?;
        let name = description.checked_add(NAME_IN_DESCRIPTION);
        let Some(name) = name.and_then(|at| u32_at(table, at)) else { continue };
        found.push((FunctionSymbol { svmas, name, binding: Binding::Global }, false));
    }
    Some(found)
}

/// The start of the text, from the module data, which has a section of its own since Go 1.26.
fn text_of_module<'a, H: FileHeader, I: Image>(
    file: &ElfFile<'a, H, &'a Limited<I>>,
    width: u64,
) -> Option<u64> {
    let module = file.section_by_name(".go.module")?;
    let at = MODULE_TEXT_START * width;
    let word = Words { bytes: module.data().ok()?, width }.word(at);
    word.filter(|&svma| svma != 0).or_else(|| relocated(file, module.address().wrapping_add(at)))
}

/// What the loader writes to `svma`, if that is an address of the file itself.
fn relocated<'a, H: FileHeader, I: Image>(
    file: &ElfFile<'a, H, &'a Limited<I>>,
    svma: u64,
) -> Option<u64> {
    let (_, relocation) = file.dynamic_relocations()?.find(|(at, _)| *at == svma)?;
    let is_own = relocation.target() == RelocationTarget::Absolute;
    u64::try_from(relocation.addend()).ok().filter(|&svma| is_own && svma != 0)
}

/// Words of the machine's width.
struct Words<'a> {
    bytes: &'a [u8],
    width: u64,
}

impl Words<'_> {
    fn word(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        match self.width {
            8 => Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?)),
            _ => u32_at(self.bytes, at).map(u64::from),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_sparse_file_takes_no_memory() {
        let zeros = vec![0; (MAX_FUNCTIONS + 1) * ENTRY_LEN + 4];
        assert!(read(&zeros, MAX_FUNCTIONS + 1, 0x1000).is_none());
        let empty = read(&zeros, MAX_FUNCTIONS, 0x1000);
        assert_eq!(empty.map(|found| found.capacity()), Some(0));
    }
}
