//! The tables of one ELF file that naming needs: loadable segments, build id, functions.
//!
//! Format: System V ABI, chapters 4 and 5 (`elf(5)`), read with the `object` crate through
//! [`Limited`], which reads only what is needed.

use crate::function_table::{Binding, FunctionSymbol, FunctionTable};
use crate::gopclntab;
use crate::limited::{Alone, Image, Limited};
use crate::lines;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{FileKind, Object, ObjectSection, elf};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Maximum length of a page, bytes. Mappings start and end at pages, so a segment may reach this
/// far beyond its file range.
const MAX_PAGE_BYTES: u64 = 64 << 10;
/// Maximum ratio of a section's unpacked to its packed length, which is zlib's own limit. A section
/// that claims more is not read.
const MAX_RATIO: u64 = 1032;

/// A `PT_LOAD` segment.
#[derive(Debug)]
struct Segment {
    file_offsets: Range<u64>,
    svma: u64,
    executable: bool,
}

/// The tables of one ELF file.
#[derive(Debug, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    /// The first one that has a function at an address names it.
    functions: Vec<FunctionTable>,
    /// Where `.gnu_debugdata`, the packed symbol table of a stripped file, is in the file.
    pub(crate) mini_debug_info: Option<Range<u64>>,
    /// The GNU build id, empty when there is none.
    pub(crate) build_id: Vec<u8>,
    /// `.gnu_debuglink`: file name and checksum of the separate debug file.
    pub(crate) debuglink: Option<(Vec<u8>, u32)>,
    /// `.gnu_debugaltlink`: file name and build id of the debug file shared with others (dwz).
    pub(crate) debugaltlink: Option<(Vec<u8>, Vec<u8>)>,
    /// True with a full symbol table, false if only exported functions are known.
    pub(crate) has_symtab: bool,
    /// Uncompressed size of the DWARF sections that are read, 0 without `.debug_info`.
    pub(crate) dwarf_bytes: u64,
    /// Where procedure linkage stubs are.
    pub(crate) plt_svmas: Vec<Range<u64>>,
    /// `e_machine`, the instruction set.
    pub(crate) machine: u16,
}

impl Elf {
    /// Reads the tables; `None` if `image` is not an ELF file or its headers are damaged.
    pub(crate) fn read(image: impl Image) -> Option<Self> {
        Self::from_image(&Limited::new(image), true)
    }

    /// The same for an image whose symbol table lacks functions, while no large file is read.
    pub(crate) fn read_incomplete(image: impl Image, alone: &Alone) -> Option<Self> {
        Self::from_image(&Limited::new_alone(image, alone), false)
    }

    fn from_image<I: Image>(image: &Limited<I>, is_whole: bool) -> Option<Self> {
        match FileKind::parse(image).ok()? {
            FileKind::Elf32 => Some(Self::from_file(
                &ElfFile::<elf::FileHeader32<object::Endianness>, _>::parse(image).ok()?,
                is_whole,
            )),
            FileKind::Elf64 => Some(Self::from_file(
                &ElfFile::<elf::FileHeader64<object::Endianness>, _>::parse(image).ok()?,
                is_whole,
            )),
            _ => None,
        }
    }

    fn from_file<'a, H: FileHeader, I: Image>(
        file: &ElfFile<'a, H, &'a Limited<I>>,
        is_whole: bool,
    ) -> Self {
        let mut tables = Self {
            segments: segments(file),
            machine: file.elf_header().e_machine(file.endian()).0,
            build_id: file.build_id().ok().flatten().unwrap_or_default().to_vec(),
            debuglink: file.gnu_debuglink().ok().flatten().map(|(name, crc)| (name.to_vec(), crc)),
            debugaltlink: file
                .gnu_debugaltlink()
                .ok()
                .flatten()
                .map(|(name, id)| (name.to_vec(), id.to_vec())),
            ..Self::default()
        };
        let mut dwarf_bytes = 0_u64;
        let mut has_debug_info = false;
        for section in file.sections() {
            let Ok(name) = section.name_bytes() else { continue };
            if lines::is_needed(name) {
                // A separate debug file has headers of sections whose content is in the stripped
                // file, and vice versa.
                let bytes = section.compressed_file_range().map_or(0, |range| {
                    match range.uncompressed_size {
                        claimed if claimed > range.compressed_size.saturating_mul(MAX_RATIO) => {
                            u64::MAX
                        }
                        bytes => bytes,
                    }
                });
                dwarf_bytes = dwarf_bytes.saturating_add(bytes);
                has_debug_info |= name.ends_with(b"debug_info") && bytes > 0;
            } else if name == b".gnu_debugdata" {
                tables.mini_debug_info =
                    section.file_range().map(|(start, len)| start..start.saturating_add(len));
            } else if name.starts_with(b".plt") {
                tables
                    .plt_svmas
                    .push(section.address()..section.address().saturating_add(section.size()));
            }
        }
        tables.dwarf_bytes = if has_debug_info && dwarf_bytes < u64::MAX { dwarf_bytes } else { 0 };
        tables.read_functions(file, is_whole);
        if !tables.has_symtab {
            tables.functions.extend(gopclntab::functions(file));
        }
        tables
    }

    fn read_functions<'a, H: FileHeader, I: Image>(
        &mut self,
        file: &ElfFile<'a, H, &'a Limited<I>>,
        is_whole: bool,
    ) {
        let endian = file.endian();
        let sections = file.elf_section_table();
        let full = file.elf_symbol_table();
        self.has_symtab = full.symbols().iter().any(|symbol| symbol.st_type() == elf::STT_FUNC);
        let table = if self.has_symtab { full } else { file.elf_dynamic_symbol_table() };
        let Ok(strings) = sections.section(table.string_section()) else { return };
        let (start, size) = (strings.sh_offset(endian).into(), strings.sh_size(endian).into());
        let strings = start..start.saturating_add(size);
        let code_ends: Vec<Option<u64>> = sections
            .iter()
            .map(|section| {
                let executable = section.sh_flags(endian).contains(elf::SHF_EXECINSTR);
                executable.then(|| {
                    section.sh_addr(endian).into().saturating_add(section.sh_size(endian).into())
                })
            })
            .collect();
        let mut found = Vec::new();
        for (index, symbol) in table.enumerate() {
            if !matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE) {
                continue;
            }
            let Ok(Some(section)) = table.symbol_section(endian, symbol, index) else { continue };
            let Some(&Some(code_end)) = code_ends.get(section.0) else { continue };
            let svma: u64 = symbol.st_value(endian).into();
            let size: u64 = symbol.st_size(endian).into();
            let binding = match symbol.st_bind() {
                elf::STB_LOCAL => Binding::Local,
                elf::STB_WEAK => Binding::Weak,
                _ => Binding::Global,
            };
            // Without all symbols, such as in a stripped file, a symbol without a size need not end
            // at the next one.
            if size == 0 && !(self.has_symtab && is_whole) {
                continue;
            }
            let end = if size == 0 { code_end } else { svma.saturating_add(size) };
            found.push((
                FunctionSymbol { svmas: svma..end, name: symbol.st_name(endian), binding },
                size == 0,
            ));
        }
        self.functions.push(FunctionTable::new(found, strings));
    }

    /// The svma of the byte at `file_offset`.
    ///
    /// Mappings are rounded to pages, so code may also run a little before and after the file range
    /// of its segment.
    pub(crate) fn svma(&self, file_offset: u64) -> Option<u64> {
        let distance = |segment: &Segment| match &segment.file_offsets {
            range if file_offset < range.start => range.start - file_offset,
            range if file_offset >= range.end => (file_offset - range.end).saturating_add(1),
            _ => 0,
        };
        let executable = self
            .segments
            .iter()
            .filter(|segment| segment.executable)
            .min_by_key(|segment| distance(segment));
        let nearest = executable.filter(|segment| distance(segment) < MAX_PAGE_BYTES);
        let segment =
            nearest.or_else(|| self.segments.iter().find(|segment| distance(segment) == 0))?;
        Some(segment.svma.wrapping_add(file_offset).wrapping_sub(segment.file_offsets.start))
    }

    /// Memory that the tables take, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.functions.iter().map(FunctionTable::memory).sum::<usize>() + size_of::<Self>()
    }

    /// True if no function is known.
    pub(crate) fn is_nameless(&self) -> bool {
        self.functions.iter().all(FunctionTable::is_empty)
    }

    /// The linker symbol of the function that covers `svma`, read from `image`, which must be the
    /// file that the tables were read from.
    pub(crate) fn function_at(&self, image: &mut dyn Image, svma: u64) -> Option<String> {
        self.functions.iter().find_map(|table| table.function_at(image, svma))
    }

    /// The extent of the function that covers `svma`; of nested functions, the innermost one.
    pub(crate) fn extent_at(&self, svma: u64) -> Option<Range<u64>> {
        self.functions.iter().find_map(|table| table.extent_at(svma))
    }

    /// The extents of the functions with each linker symbol. Several functions may share a name.
    pub(crate) fn functions_by_name(
        &self,
        image: &mut dyn Image,
    ) -> FxHashMap<String, Vec<Range<u64>>> {
        let mut by_name: FxHashMap<String, Vec<Range<u64>>> = FxHashMap::default();
        for (name, svmas) in self.functions.iter().flat_map(|table| table.names(image)) {
            by_name.entry(name).or_default().push(svmas);
        }
        by_name
    }

    /// The file offset of the byte at `svma`.
    pub(crate) fn file_offset(&self, svma: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let offset = segment.file_offsets.start.checked_add(svma.checked_sub(segment.svma)?)?;
            segment.file_offsets.contains(&offset).then_some(offset)
        })
    }
}

fn segments<'a, H: FileHeader, I: Image>(file: &ElfFile<'a, H, &'a Limited<I>>) -> Vec<Segment> {
    let endian = file.endian();
    let loads =
        file.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    loads
        .map(|header| {
            let (start, size) = header.file_range(endian);
            Segment {
                file_offsets: start..start.saturating_add(size),
                svma: header.p_vaddr(endian).into(),
                executable: header.p_flags(endian).contains(elf::PF_X),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(file_offsets: Range<u64>, svma: u64, executable: bool) -> Segment {
        Segment { file_offsets, svma, executable }
    }

    /// The segments of a library linked by lld. The mapping of its code starts at file offset
    /// 0x11a0000: before the segment, on a page that it shares.
    #[test]
    fn offsets_of_the_page_before_a_segment_belong_to_it() {
        let segments = vec![
            segment(0..0x11a_0bc4, 0, false),
            segment(0x11a_0c00..0x4cb_d5c0, 0x11a_1c00, true),
            segment(0x4cb_d5c0..0x4f0_c108, 0x4cb_f5c0, false),
            segment(0x500_0000..0x7be_2b8c, 0x500_0000, true),
        ];
        let elf = Elf { segments, ..Elf::default() };
        assert_eq!(elf.svma(0x11a_0c00), Some(0x11a_1c00));
        assert_eq!(elf.svma(0x11a_0000), Some(0x11a_1000), "the start of the mapping");
        assert_eq!(elf.svma(0x4cb_d5bf), Some(0x4cb_e5bf));
        assert_eq!(elf.svma(0x4cb_dfff), Some(0x4cb_efff), "the rest of the last page");
        assert_eq!(elf.svma(0x500_0010), Some(0x500_0010));
        assert_eq!(elf.svma(0x1000), Some(0x1000), "not code, but mapped");
        assert_eq!(elf.svma(0x900_0000), None);
        assert_eq!(elf.svma(u64::MAX), None);
    }
}
