//! Inlined functions and source lines of one file, from its DWARF.
//!
//! Format: DWARF 2 to 5, read with the `addr2line` crate. Split DWARF (`.dwo`, `.dwp`) is not read.
//! *Why it stays open between saves*: opening decompresses and indexes all of it, which takes 150
//! ms for libc. *Why it is not mapped*: truncating a mapped file kills its reader.

use crate::demangle::demangle;
use crate::files::{self, Files, Identity, Wanted};
use crate::function::Function;
use crate::limited::Limited;
use addr2line::Context;
use gimli::{EndianArcSlice, RunTimeEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Maximum DWARF of a file, bytes. A file with more gets no lines, because reading it could take
/// longer, and more memory, than the recorder may use.
pub(crate) const MAX_DWARF_BYTES: u64 = 96 << 20;

type Section = EndianArcSlice<RunTimeEndian>;

/// The DWARF of one file.
pub(crate) struct Lines {
    context: Context<Section>,
    shared: Option<(Wanted, Identity)>,
}

impl Lines {
    /// Reads the DWARF of `file`, and of the `shared` file that it refers to. `None` if it is
    /// damaged.
    pub(crate) fn read(file: File, shared: Option<(Wanted, File, Identity)>) -> Option<Self> {
        let mut dwarf = load(file, |section| gimli::Dwarf::load(section))?;
        let shared = shared.and_then(|(wanted, file, identity)| {
            load(file, |section| dwarf.load_sup(section))?;
            Some((wanted, identity))
        });
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        Some(Self { context: Context::from_dwarf(dwarf).ok()?, shared })
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

/// Calls `load` with a function that reads a section of `file` into memory.
fn load<T>(
    file: File,
    load: impl FnOnce(&dyn Fn(SectionId) -> gimli::Result<Section>) -> gimli::Result<T>,
) -> Option<T> {
    let limited = Limited::new(file.try_clone().ok()?);
    let object = object::File::parse(&limited).ok()?;
    let endian = if object.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: SectionId| {
        let bytes = read(&object, id.name(), &file).map_err(|_| gimli::Error::Io)?;
        Ok(Section::new(Arc::from(bytes), endian))
    };
    load(&section).ok()
}

/// The bytes of a section, unpacked; empty if the file has no such section.
fn read<'a>(
    object: &object::File<'a, &'a Limited<File>>,
    name: &str,
    mut file: &File,
) -> io::Result<Vec<u8>> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let Some(range) =
        object.section_by_name(name).and_then(|section| section.compressed_file_range().ok())
    else {
        return Ok(Vec::new());
    };
    if range.compressed_size.max(range.uncompressed_size) > MAX_DWARF_BYTES {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(range.offset))?;
    file.take(range.compressed_size).read_to_end(&mut bytes)?;
    if range.format == CompressionFormat::None {
        return Ok(bytes);
    }
    let packed = object::CompressedData {
        format: range.format,
        data: &bytes,
        uncompressed_size: range.uncompressed_size,
    };
    Ok(packed.decompress().map_err(|_| damaged())?.into_owned())
}
