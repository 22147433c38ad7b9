//! [`Pdb`]: the symbol file of a Windows image, and the functions at RVAs of that image.
//!
//! Format: "The PDB File Format" of the LLVM documentation, and microsoft/microsoft-pdb. *Why all
//! RVAs are named together*: a browser's PDB has millions of symbols and a trace has thousands of
//! RVAs, so the symbols are walked once and only those that some RVA needs are kept.

mod lookups;
mod msf;
mod omap;
mod sections;
pub(crate) mod server;
pub(crate) mod store;

use lookups::Lookups;
use msf::{Bytes, Msf};
use omap::Omap;
use sections::{Section, section, sections_of};
use std::io::{Read, Seek};

/// Numbers of streams that every PDB has.
const INFORMATION: usize = 1;
const DEBUG_INFORMATION: usize = 3;
/// Indices in the list of optional streams.
const OMAP_TO_SOURCE: usize = 3;
const SECTIONS: usize = 5;
const ORIGINAL_SECTIONS: usize = 10;
/// Marks a missing stream.
const NONE: u16 = 0xffff;
const CONTRIBUTIONS_V60: u32 = 0xeffe_0000 + 19_970_605;
const CONTRIBUTIONS_V2: u32 = 0xeffe_0000 + 20_140_516;

/// What links an image and its PDB: the GUID as it lies in memory, and the age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PdbId {
    pub(crate) guid: [u8; 16],
    pub(crate) age: u32,
}

impl PdbId {
    /// From a module's build id; `None` if it was not recorded.
    pub(crate) fn from_build_id(build_id: &[u8]) -> Option<Self> {
        let (guid, age) = build_id.split_first_chunk::<16>()?;
        Some(Self { guid: *guid, age: u32::from_le_bytes(*age.first_chunk()?) })
    }

    /// The folder in a symbol store: the GUID's 32 digits and the age.
    pub(crate) fn folder(&self) -> String {
        let [a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..] = self.guid;
        let (a, b, c) = (
            u32::from_le_bytes([a0, a1, a2, a3]),
            u16::from_le_bytes([b0, b1]),
            u16::from_le_bytes([c0, c1]),
        );
        let rest: String = rest.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("{a:08X}{b:04X}{c:04X}{rest}{:X}", self.age)
    }
}

/// A module's stream, and the length of its symbols.
struct ModuleStream {
    stream: usize,
    symbol_bytes: usize,
}

/// Which module the code of a section comes from.
struct Contribution {
    start: u32,
    end: u32,
    module: u16,
}

/// An open PDB.
pub(crate) struct Pdb<F> {
    msf: Msf<F>,
    id: PdbId,
    records: usize,
    sections: Vec<Section>,
    contributions: Vec<Contribution>,
    modules: Vec<ModuleStream>,
    omap: Option<Omap>,
}

impl<F: Read + Seek> Pdb<F> {
    /// Reads the tables; `None` if it is not a PDB, or is damaged.
    pub(crate) fn open(file: F) -> Option<Self> {
        let mut msf = Msf::open(file)?;
        let information = msf.stream(INFORMATION)?;
        let mut head = Bytes(&information);
        let (_version, _signature, first_age) = (head.u32()?, head.u32()?, head.u32()?);
        let guid = *head.take(16)?.first_chunk()?;

        let debug = msf.stream(DEBUG_INFORMATION)?;
        let mut head = Bytes(&debug);
        let (_signature, _version, age) = (head.u32()?, head.u32()?, head.u32()?);
        head.take(8)?;
        let records = usize::from(head.u16()?);
        head.take(2)?;
        let mut lens = [0; 5];
        for len in &mut lens {
            *len = head.u32()? as usize;
        }
        let [modules_len, contributions_len, section_map_len, sources_len, type_servers_len] = lens;
        head.take(4)?;
        let (optional_len, edit_len) = (head.u32()? as usize, head.u32()? as usize);
        head.take(8)?;
        let modules = modules(head.take(modules_len)?);
        let contributions = head.take(contributions_len)?;
        head.take(section_map_len)?;
        head.take(sources_len)?;
        head.take(type_servers_len)?;
        head.take(edit_len)?;
        let optional = head.take(optional_len)?;
        let optional = |number: usize| {
            let stream = Bytes(optional.get(number * 2..)?).u16()?;
            (stream != NONE).then_some(usize::from(stream))
        };
        // If tools moved the code after linking, the symbols still have the old RVAs.
        let omap = optional(OMAP_TO_SOURCE).and_then(|stream| Omap::parse(&msf.stream(stream)?));
        let sections = omap
            .as_ref()
            .and_then(|_| optional(ORIGINAL_SECTIONS))
            .or_else(|| optional(SECTIONS))?;
        let sections = sections_of(&msf.stream(sections)?);
        let contributions = contributions_of(contributions, &sections);
        let age = if age == 0 { first_age } else { age };
        Some(Self { msf, id: PdbId { guid, age }, records, sections, contributions, modules, omap })
    }

    /// The build it belongs to.
    pub(crate) fn id(&self) -> PdbId {
        self.id
    }

    /// The linker's names of the functions at `rvas`; `None` where there is no function.
    pub(crate) fn names(&mut self, rvas: &[u32]) -> Vec<Option<String>> {
        let at_source = |rva: &u32| self.omap.as_ref().map_or(Some(*rva), |omap| omap.source(*rva));
        let mut lookups = Lookups::new(rvas.iter().map(at_source));
        // Module symbols have the functions' lengths, so they take precedence over public symbols.
        for module in self.modules_of(&lookups) {
            let Some(ModuleStream { stream, symbol_bytes }) = self.modules.get(usize::from(module))
            else {
                continue;
            };
            let Some(bytes) = self.msf.stream(*stream) else { continue };
            let symbols = bytes
                .get(..(*symbol_bytes).min(bytes.len()))
                .and_then(|symbols| symbols.get(4..))
                .unwrap_or(&[]);
            lookups.add_procedures(symbols, &self.sections);
        }
        if let Some(records) = self.msf.stream(self.records) {
            lookups.add_publics(&records, &self.sections);
        }
        lookups.into_names()
    }

    /// The modules that contain the RVAs, each once.
    fn modules_of(&self, lookups: &Lookups) -> Vec<u16> {
        let module_at = |rva: u32| {
            let before = self
                .contributions
                .partition_point(|contribution| contribution.start <= rva)
                .checked_sub(1)?;
            self.contributions
                .get(before)
                .filter(|contribution| rva < contribution.end)
                .map(|contribution| contribution.module)
        };
        let mut modules: Vec<u16> = lookups.rvas().filter_map(module_at).collect();
        modules.sort_unstable();
        modules.dedup();
        modules
    }
}

/// The contributions to executable sections, by RVA.
fn contributions_of(bytes: &[u8], sections: &[Section]) -> Vec<Contribution> {
    let mut bytes = Bytes(bytes);
    let len = match bytes.u32() {
        Some(CONTRIBUTIONS_V60) => 28,
        Some(CONTRIBUTIONS_V2) => 32,
        _ => return Vec::new(),
    };
    let contribution = |entry: &[u8]| {
        let mut entry = Bytes(entry);
        let number = entry.u16()?;
        entry.take(2)?;
        let (offset, len) = (entry.u32()?, entry.u32()?);
        entry.take(4)?;
        let section = section(sections, number).filter(|section| section.executable)?;
        let start = section.rva(offset)?;
        Some(Contribution { start, end: start.checked_add(len)?, module: entry.u16()? })
    };
    let mut contributions: Vec<Contribution> =
        bytes.0.chunks_exact(len).filter_map(contribution).collect();
    contributions.sort_by_key(|contribution| contribution.start);
    contributions
}

fn modules(bytes: &[u8]) -> Vec<ModuleStream> {
    let mut rest = Bytes(bytes);
    let mut modules = Vec::new();
    let mut next = || -> Option<ModuleStream> {
        rest.take(34)?;
        let stream = usize::from(rest.u16()?);
        let symbol_bytes = rest.u32()? as usize;
        rest.take(24)?;
        let names = rest.text()?.len() + 1 + rest.text()?.len() + 1;
        rest.take(names.next_multiple_of(4) - names)?;
        Some(ModuleStream { stream, symbol_bytes })
    };
    while let Some(module) = next() {
        modules.push(module);
    }
    modules
}
