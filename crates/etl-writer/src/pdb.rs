//! [`Pdb`]: a symbol file with public symbols, as symbol servers have for stripped builds, and with
//! the functions of one module, as local builds have.
//!
//! Format: MSF 7.00 (blocks and streams); PDB information stream 1; debug information stream 3;
//! symbol records; section headers.

use crate::{Bytes, Guid};

const BLOCK: usize = 512;
const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";
const IMPLEMENTATION_VC70: u32 = 20_000_404;
const DEBUG_INFORMATION_V70: u32 = 19_990_903;
const SECTION_CONTRIBUTIONS_V60: u32 = 0xf12e_ba2d;
const NONE: u16 = 0xffff;
const S_PUB32: u16 = 0x110e;
const S_GPROC32: u16 = 0x1110;
const EXECUTABLE_CODE: u32 = 0x6050_0020;
/// Streams.
const SECTIONS: u16 = 5;
const RECORDS: u16 = 6;
const PUBLICS: u16 = 7;
const MODULE: u16 = 8;
/// RVA of the only section.
const TEXT_RVA: u32 = 0x1000;

/// A public symbol.
#[derive(Clone, Debug)]
pub struct Public {
    /// The linker's name, mangled for C++.
    pub name: String,
    /// Its RVA, not below 0x1000.
    pub rva: u32,
    /// True for a function.
    pub function: bool,
}

/// A function of the only module.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name in the source.
    pub name: String,
    /// Its RVA, not below 0x1000.
    pub rva: u32,
    /// Length of its code, bytes.
    pub len: u32,
}

/// A symbol file.
#[derive(Clone, Debug)]
pub struct Pdb {
    /// The build it belongs to.
    pub guid: Guid,
    /// How often the file was written.
    pub age: u32,
    /// The public symbols.
    pub publics: Vec<Public>,
    /// The functions of the module. Without any, there is no module.
    pub procedures: Vec<Procedure>,
}

impl Pdb {
    /// The whole file.
    pub fn encode(&self) -> Vec<u8> {
        let functions = self.procedures.iter().map(|procedure| procedure.rva + procedure.len);
        let end =
            self.publics.iter().map(|public| public.rva).chain(functions).max().unwrap_or(TEXT_RVA);
        let [debug, records, module] =
            [self.debug_information(), self.records(), self.module_symbols()];
        let sections = sections(end - TEXT_RVA + 0x1000);
        msf(&[
            Vec::new(),
            self.information(),
            types(),
            debug,
            types(),
            sections,
            records,
            self.hashes(),
            module,
        ])
    }

    fn information(&self) -> Vec<u8> {
        let head =
            Bytes::new().u32(IMPLEMENTATION_VC70).u32(0x5a5a_5a5a).u32(self.age).raw(&self.guid.0);
        // No named streams: no names, no hash slot in use, none deleted.
        head.u32(0).u32(0).u32(1).u32(0).u32(0).u32(0).u32(IMPLEMENTATION_VC70).0
    }

    fn debug_information(&self) -> Vec<u8> {
        let streams = [NONE, NONE, NONE, NONE, NONE, SECTIONS, NONE, NONE, NONE, NONE, NONE];
        let (modules, contributions) = (self.modules(), self.contributions());
        let head = Bytes::new()
            .u32(u32::MAX)
            .u32(DEBUG_INFORMATION_V70)
            .u32(self.age)
            .u16(NONE)
            .u16(0x8e1d)
            .u16(PUBLICS)
            .u16(0)
            .u16(RECORDS)
            .u16(0)
            // The lengths of modules, contributions, section map, sources and type servers.
            .u32(modules.len() as u32)
            .u32(contributions.len() as u32)
            .u32(4)
            .u32(4)
            .u32(0)
            .u32(0)
            .u32(streams.len() as u32 * 2)
            .u32(0)
            .u16(0)
            .u16(0x8664)
            .u32(0)
            .raw(&modules)
            .raw(&contributions)
            .u32(0)
            .u32(0);
        streams.iter().fold(head, |out, stream| out.u16(*stream)).0
    }

    fn modules(&self) -> Vec<u8> {
        if self.procedures.is_empty() {
            return Vec::new();
        }
        let head = Bytes::new()
            .u32(0)
            .raw(&[0; 28])
            .u16(0)
            .u16(MODULE)
            .u32(self.module_symbols().len() as u32);
        head.raw(&[0; 24]).ansi("C:\\made-up\\main.obj").ansi("C:\\made-up\\main.obj").align(4).0
    }

    fn contributions(&self) -> Vec<u8> {
        let contribution = |out: Bytes, procedure: &Procedure| {
            let (offset, len) = (procedure.rva - TEXT_RVA, procedure.len);
            out.u16(1).u16(0).u32(offset).u32(len).u32(EXECUTABLE_CODE).u16(0).u16(0).u32(0).u32(0)
        };
        self.procedures.iter().fold(Bytes::new().u32(SECTION_CONTRIBUTIONS_V60), contribution).0
    }

    fn module_symbols(&self) -> Vec<u8> {
        let mut out = Bytes::new().u32(4).0;
        for procedure in &self.procedures {
            let body = Bytes::new().u16(S_GPROC32).raw(&[0; 12]).u32(procedure.len).raw(&[0; 12]);
            put(&mut out, &body.u32(procedure.rva - TEXT_RVA).u16(1).u8(0).ansi(&procedure.name).0);
        }
        out
    }

    fn records(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for public in &self.publics {
            let body = Bytes::new()
                .u16(S_PUB32)
                .u32(if public.function { 2 } else { 0 })
                .u32(public.rva.checked_sub(TEXT_RVA).expect("in the one section"))
                .u16(1)
                .ansi(&public.name)
                .0;
            put(&mut out, &body);
        }
        out
    }

    /// The hash table of names. It is empty, because readers that need all names read the
    /// records.
    fn hashes(&self) -> Vec<u8> {
        Bytes::new().raw(&[0; 28]).0
    }
}

/// Adds a record: its length, kind and fields, padded.
fn put(out: &mut Vec<u8>, body: &[u8]) {
    let len = (body.len() + 2).next_multiple_of(4) - 2;
    out.extend_from_slice(&(len as u16).to_le_bytes());
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// An empty type stream.
fn types() -> Vec<u8> {
    let head = Bytes::new()
        .u32(20_040_203)
        .u32(56)
        .u32(0x1000)
        .u32(0x1000)
        .u32(0)
        .u16(NONE)
        .u16(NONE)
        .u32(4)
        .u32(0x3ffff);
    head.raw(&[0; 24]).0
}

/// `IMAGE_SECTION_HEADER` of the code.
fn sections(len: u32) -> Vec<u8> {
    Bytes::new()
        .raw(b".text\0\0\0")
        .u32(len)
        .u32(TEXT_RVA)
        .u32(len)
        .u32(0x400)
        .raw(&[0; 12])
        .u32(0x6000_0020)
        .0
}

/// Lays streams out in blocks: superblock, two free-block maps, streams, directory, and the
/// location of the directory.
fn msf(streams: &[Vec<u8>]) -> Vec<u8> {
    let mut blocks: Vec<Vec<u8>> = vec![Vec::new(); 3];
    let mut add = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .chunks(BLOCK)
            .map(|chunk| {
                blocks.push(chunk.to_vec());
                blocks.len() as u32 - 1
            })
            .collect()
    };
    let placed: Vec<Vec<u32>> = streams.iter().map(|stream| add(stream)).collect();
    let sizes = streams
        .iter()
        .fold(Bytes::new().u32(streams.len() as u32), |out, stream| out.u32(stream.len() as u32));
    let directory = placed.iter().flatten().fold(sizes, |out, block| out.u32(*block)).0;
    let directory_blocks = add(&directory);
    let map = directory_blocks.iter().fold(Bytes::new(), |out, block| out.u32(*block)).0;
    let map_blocks = add(&map);
    assert_eq!(map_blocks.len(), 1, "a larger file needs larger blocks");
    let superblock = Bytes::new()
        .raw(MAGIC)
        .u32(BLOCK as u32)
        .u32(1)
        .u32(blocks.len() as u32)
        .u32(directory.len() as u32)
        .u32(0)
        .u32(map_blocks[0]);
    blocks[0] = superblock.0;
    assert!(blocks.len() < BLOCK, "a larger file has more maps of free blocks");
    let mut out = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        out.extend_from_slice(block);
        out.resize((number + 1) * BLOCK, 0);
    }
    out
}
