//! The tables of one ELF file that naming needs: loadable segments, build id, functions.
//!
//! Format: System V ABI, chapters 4 and 5 (`elf(5)`), read with the `object` crate through
//! [`Limited`], which reads only what is needed. *Why so little is kept*: a recorder keeps these
//! tables as long as it runs, so a function takes 24 bytes and its name stays in the file until a
//! frame needs it.

use crate::limited::{Image, Limited};
use crate::lines;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{FileKind, Object, ObjectSection, elf};
use rustc_hash::FxHashMap;
use std::io::SeekFrom;
use std::ops::Range;

/// Maximum length of a page, bytes. Mappings start and end at pages, so a segment may reach this
/// far beyond its file range.
const MAX_PAGE_BYTES: u64 = 64 << 10;
/// Maximum number of symbols before an address that are searched for one that contains it.
/// Functions may contain others (cold parts, assembler labels).
const MAX_NESTING: usize = 64;
/// Maximum ratio of a section's unpacked to its packed length, which is zlib's own limit. A section
/// that claims more is not read.
const MAX_RATIO: u64 = 1032;
/// Maximum length of a symbol name, bytes. C++ has names of many kilobytes.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// A `PT_LOAD` segment.
#[derive(Debug)]
struct Segment {
    file_offsets: Range<u64>,
    svma: u64,
    executable: bool,
}

/// A function symbol. Its name stays in the file, `name` bytes into the string table.
#[derive(Debug)]
struct Function {
    svmas: Range<u64>,
    name: u32,
    binding: Binding,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Binding {
    Global,
    Weak,
    Local,
}

/// The tables of one ELF file.
#[derive(Debug, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    functions: Vec<Function>,
    /// Where the names of `functions` are in the file.
    strings: Range<u64>,
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
        let cache = Limited::new(image);
        match FileKind::parse(&cache).ok()? {
            FileKind::Elf32 => Some(Self::from_file(
                &ElfFile::<elf::FileHeader32<object::Endianness>, _>::parse(&cache).ok()?,
            )),
            FileKind::Elf64 => Some(Self::from_file(
                &ElfFile::<elf::FileHeader64<object::Endianness>, _>::parse(&cache).ok()?,
            )),
            _ => None,
        }
    }

    fn from_file<'a, H: FileHeader, I: Image>(file: &ElfFile<'a, H, &'a Limited<I>>) -> Self {
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
            } else if name.starts_with(b".plt") {
                tables
                    .plt_svmas
                    .push(section.address()..section.address().saturating_add(section.size()));
            }
        }
        tables.dwarf_bytes = if has_debug_info && dwarf_bytes < u64::MAX { dwarf_bytes } else { 0 };
        tables.read_functions(file);
        tables
    }

    fn read_functions<'a, H: FileHeader, I: Image>(
        &mut self,
        file: &ElfFile<'a, H, &'a Limited<I>>,
    ) {
        let endian = file.endian();
        let sections = file.elf_section_table();
        let full = file.elf_symbol_table();
        self.has_symtab = full.symbols().iter().any(|symbol| symbol.st_type() == elf::STT_FUNC);
        let table = if self.has_symtab { full } else { file.elf_dynamic_symbol_table() };
        let Ok(strings) = sections.section(table.string_section()) else { return };
        let (start, size) = (strings.sh_offset(endian).into(), strings.sh_size(endian).into());
        self.strings = start..start.saturating_add(size);
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
            // A stripped file has only its exported symbols, so a symbol without a size need not
            // end at the next one.
            if size == 0 && !self.has_symtab {
                continue;
            }
            let end = if size == 0 { code_end } else { svma.saturating_add(size) };
            found.push((
                Function { svmas: svma..end, name: symbol.st_name(endian), binding },
                size == 0,
            ));
        }
        self.functions = settle(found);
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
        self.functions.capacity() * size_of::<Function>() + size_of::<Self>()
    }

    /// True if no function is known.
    pub(crate) fn is_nameless(&self) -> bool {
        self.functions.is_empty()
    }

    /// The linker symbol of the function that covers `svma`, read from `image`, which must be the
    /// file that the tables were read from.
    pub(crate) fn function_at(&self, image: &mut dyn Image, svma: u64) -> Option<String> {
        let after = self.functions.partition_point(|function| function.svmas.start <= svma);
        let before = self.functions.get(..after)?;
        let start = before
            .iter()
            .rev()
            .take(MAX_NESTING)
            .find(|function| svma < function.svmas.end)?
            .svmas
            .start;
        let aliases = before
            .iter()
            .rev()
            .skip_while(|function| function.svmas.start > start)
            .take_while(|function| function.svmas.start == start);
        // If a function has several names, people know the one without decoration: `read`, not
        // `__GI___read`.
        aliases
            .filter(|function| svma < function.svmas.end)
            .filter_map(|function| Some((self.name(image, function.name)?, function.binding)))
            .min_by_key(|(name, binding)| {
                (name.bytes().take_while(|&byte| byte == b'_').count(), *binding, name.clone())
            })
            .map(|(name, _)| name)
    }

    /// The extent of the function that covers `svma`; of nested functions, the innermost one.
    pub(crate) fn extent_at(&self, svma: u64) -> Option<Range<u64>> {
        let after = self.functions.partition_point(|function| function.svmas.start <= svma);
        let found = self
            .functions
            .get(..after)?
            .iter()
            .rev()
            .take(MAX_NESTING)
            .find(|function| svma < function.svmas.end)?;
        Some(found.svmas.clone())
    }

    /// The extents of the functions with each linker symbol. Several functions may share a name.
    pub(crate) fn functions_by_name(
        &self,
        image: &mut dyn Image,
    ) -> FxHashMap<String, Vec<Range<u64>>> {
        let mut by_name: FxHashMap<String, Vec<Range<u64>>> = FxHashMap::default();
        for function in &self.functions {
            if let Some(name) = self.name(image, function.name) {
                by_name.entry(name).or_default().push(function.svmas.clone());
            }
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

    fn name(&self, image: &mut dyn Image, offset: u32) -> Option<String> {
        let start = self.strings.start.checked_add(offset.into())?;
        let limit = self.strings.end.checked_sub(start)?.min(MAX_NAME_BYTES);
        image.seek(SeekFrom::Start(start)).ok()?;
        let mut name = Vec::new();
        let mut chunk = [0; 128];
        while (name.len() as u64) < limit {
            let read = image.read(&mut chunk).ok()?;
            let bytes = chunk.get(..read).filter(|bytes| !bytes.is_empty())?;
            match bytes.iter().position(|&byte| byte == 0) {
                None => name.extend_from_slice(bytes),
                Some(len) => {
                    name.extend_from_slice(&bytes[..len]);
                    // Symbols like `$x` mark instruction sets on Arm and RISC-V and name nothing.
                    return String::from_utf8(name)
                        .ok()
                        .filter(|name| !name.is_empty() && !name.starts_with('$'));
                }
            }
        }
        None
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

/// Sorts functions, and ends those without a size (the flag) at the next function. Drops those
/// inside another function, which are assembler labels.
fn settle(mut found: Vec<(Function, bool)>) -> Vec<Function> {
    found.sort_unstable_by_key(|(function, is_unsized)| {
        (function.svmas.start, *is_unsized, function.name)
    });
    let mut next_start = u64::MAX;
    let mut start_after = u64::MAX;
    for (function, is_unsized) in found.iter_mut().rev() {
        if function.svmas.start != next_start {
            (start_after, next_start) = (next_start, function.svmas.start);
        }
        if *is_unsized {
            function.svmas.end = function.svmas.end.min(start_after);
        }
    }
    let mut reach = 0;
    found.retain(|(function, is_unsized)| {
        let is_label = *is_unsized && function.svmas.start < reach;
        if !is_unsized {
            reach = reach.max(function.svmas.end);
        }
        !is_label && !function.svmas.is_empty()
    });
    found.into_iter().map(|(function, _)| function).collect()
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

    fn settled(symbols: &[(Range<u64>, bool)]) -> Vec<Range<u64>> {
        let found = symbols.iter().map(|(svmas, is_unsized)| {
            (Function { svmas: svmas.clone(), name: 1, binding: Binding::Local }, *is_unsized)
        });
        settle(found.collect()).into_iter().map(|function| function.svmas).collect()
    }

    #[test]
    fn functions_without_a_size_end_at_the_next_one_and_labels_are_dropped() {
        let symbols = [
            (0x10..0x20, false),
            (0x18..0x100, true),
            (0x20..0x100, true),
            (0x40..0x100, true),
            (0x40..0x50, false),
            (0x60..0x100, true),
        ];
        assert_eq!(settled(&symbols), [0x10..0x20, 0x20..0x40, 0x40..0x50, 0x60..0x100]);
        assert_eq!(settled(&[(0x30..0x30, false), (u64::MAX..u64::MAX, true)]), []);
    }
}
