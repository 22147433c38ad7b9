//! Inlined functions and source lines of one file, from its DWARF.
//!
//! Format: DWARF 2 to 5, read with the `addr2line` crate. Split DWARF (`.dwo`, `.dwp`) is not read.
//! *Why it stays open between saves*: opening decompresses and indexes all of it, which takes 150
//! ms for libc.

use crate::demangle::demangle;
use crate::files::{self, Files, Identity, Wanted};
use crate::function::Function;
use crate::limited::Limited;
use crate::section::{MappedFile, SectionBytes};
use addr2line::Context;
use gimli::{EndianReader, RunTimeEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Maximum DWARF of a file, bytes. A file with more gets no lines, because reading it could take
/// longer, and more memory, than the recorder may use.
pub(crate) const MAX_DWARF_BYTES: u64 = 48 << 20;

/// The sections that names and lines need. Locations of variables and macros are often as long, and
/// are not read.
const NEEDED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// True for a section that is read, by its name in the file.
pub(crate) fn is_needed(name: &[u8]) -> bool {
    let name = name.strip_prefix(b".z").or(name.strip_prefix(b".")).unwrap_or_default();
    NEEDED.iter().any(|id| id.name().as_bytes().get(1..) == Some(name))
}

type Section = EndianReader<RunTimeEndian, SectionBytes>;

/// The DWARF of one file.
pub(crate) struct Lines {
    context: Context<Section>,
    shared: Option<(Wanted, Identity)>,
    memory: u64,
}

impl Lines {
    /// Reads the DWARF of `file`, and of the `shared` file that it refers to. `None` if it is
    /// damaged.
    pub(crate) fn read(
        files: &dyn Files,
        file: File,
        shared: Option<(Wanted, File, Identity)>,
    ) -> Option<Self> {
        let memory = Cell::new(0);
        let mut dwarf = load(files, file, &memory, |section| gimli::Dwarf::load(section))?;
        let shared = shared.and_then(|(wanted, file, identity)| {
            load(files, file, &memory, |section| dwarf.load_sup(section))?;
            Some((wanted, identity))
        });
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Some(Self { context: Context::from_dwarf(dwarf).ok()?, shared, memory: memory.get() })
    }

    /// Memory of the sections, bytes; those that are mapped take none.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// True if the shared file has not changed since.
    pub(crate) fn is_current(&self, files: &dyn Files) -> bool {
        self.shared
            .as_ref()
            .is_none_or(|(wanted, identity)| files::is_current(files, wanted, *identity))
    }

    /// The functions at `svma`, innermost first. The outermost function is the only one that is not
    /// inlined. It gets the name of the linker's `symbol`, if that is known.
    pub(crate) fn functions_at(&self, svma: u64, symbol: Option<&str>) -> Vec<Function> {
        let mut functions = Vec::new();
        // addr2line adds one to the address.
        if svma == u64::MAX {
            return functions;
        }
        let Ok(mut frames) = self.context.find_frames(svma).skip_all_loads() else {
            return functions;
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame
                .function
                .as_ref()
                .and_then(|function| function.raw_name().ok())
                .unwrap_or_default();
            let (file, line) =
                frame.location.map_or((None, None), |location| (location.file, location.line));
            functions.push(Function {
                name: demangle(&name),
                file: file.unwrap_or_default().to_owned(),
                line: line.unwrap_or(0),
            });
        }
        if let (Some(outermost), Some(symbol)) = (functions.last_mut(), symbol) {
            symbol.clone_into(&mut outermost.name);
        }
        functions.retain(|function| !function.name.is_empty());
        functions
    }
}

/// Calls `load` with a function that reads a section of `file`. Adds the memory that the sections
/// take to `memory`.
fn load<T>(
    files: &dyn Files,
    file: File,
    memory: &Cell<u64>,
    load: impl FnOnce(&dyn Fn(SectionId) -> gimli::Result<Section>) -> gimli::Result<T>,
) -> Option<T> {
    let mapped = if files.may_map(&file) { MappedFile::new(&file) } else { None };
    let limited = Limited::new(file.try_clone().ok()?);
    let object = object::File::parse(&limited).ok()?;
    let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| {
        let bytes = match NEEDED.contains(&id) {
            true => {
                section(&object, id.name(), &file, mapped.as_ref()).map_err(|_| gimli::Error::Io)?
            }
            false => Vec::new().into(),
        };
        memory.set(memory.get() + bytes.memory() as u64);
        Ok(Section::new(bytes, endian))
    };
    load(&section).ok()
}

/// The bytes of a section, unpacked; empty if the file has no such section.
fn section<'a>(
    object: &object::File<'a, &'a Limited<File>>,
    name: &str,
    file: &File,
    mapped: Option<&MappedFile>,
) -> io::Result<SectionBytes> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let Some(range) =
        object.section_by_name(name).and_then(|section| section.compressed_file_range().ok())
    else {
        return Ok(Vec::new().into());
    };
    if range.compressed_size.max(range.uncompressed_size) > MAX_DWARF_BYTES {
        return Err(damaged());
    }
    let bytes = match mapped {
        Some(mapped) => mapped.part(range.offset, range.compressed_size)?,
        None => copy(file, range.offset, range.compressed_size)?.into(),
    };
    if range.format == CompressionFormat::None {
        return Ok(bytes);
    }
    let packed = object::CompressedData {
        format: range.format,
        data: &bytes,
        uncompressed_size: range.uncompressed_size,
    };
    Ok(packed.decompress().map_err(|_| damaged())?.into_owned().into())
}

fn copy(mut file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    // The headers may claim more than there is, which must not take memory.
    let len = len.min(file.metadata()?.len().saturating_sub(offset));
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    file.seek(SeekFrom::Start(offset))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}
