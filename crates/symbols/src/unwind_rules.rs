//! The rules for going from a function to its caller, in the short form that the recorder's part in
//! the kernel searches (`crates/record/bpf/unwind.h`).
//!
//! Format: `.eh_frame` of the Linux Standard Base, read with the `gimli` crate. A row holds from its
//! address up to the next row's. *Why so short*: only the frame's address, the return address and
//! `rbp` matter, because no other register is needed to find them.

use crate::java::{self, JavaRuntime};
use crate::limited::{Image, Limited};
use crate::python::{self, PythonRuntime};
use crate::{unwind_table, vdso};
use gimli::{CfaRule, CieOrFde, EhFrame, RegisterRule, UnwindContext, UnwindSection};
use object::read::elf::ProgramHeader;
use object::{File, Object, ObjectSection, elf};
use std::io::Cursor;

/// `rbp`, `rsp` and the return address in x86-64's DWARF numbering (System V ABI, figure 3.36).
const RBP: gimli::Register = gimli::Register(6);
const RSP: gimli::Register = gimli::Register(7);
const RETURN_ADDRESS: gimli::Register = gimli::Register(16);
/// Where the return address is, counted from the CFA.
const RETURN_ADDRESS_OFFSET: i64 = -8;
/// Maximum number of rows of one file: what the kernel's part can search.
const MAX_ROWS: usize = (1 << 21) - 1;
/// Code without a rule that is shorter than this lies between two functions and is never executed.
const MAX_PADDING_BYTES: u32 = 16;

/// How to find the caller, as `enum rule` of `unwind.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Rule {
    /// The CFA is `rsp` and an offset.
    Sp,
    /// The CFA is `rbp` and an offset.
    Bp,
    /// An entry of the procedure linkage table.
    Plt,
    /// The first function of a thread.
    End,
    /// A signal's frame.
    Signal,
    /// No rule: by frame pointer.
    None,
    /// A rule that has no short form.
    Cut,
}

/// The part of a file that is mapped together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeSegment {
    /// Where it is in the file.
    pub file_offset: u64,
    /// Its length in the file, bytes.
    pub len: u64,
    /// Where its code would be if the file's lowest address were 0.
    pub relative_svma: u64,
}

/// The rules of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnwindRules {
    /// The executable segments.
    pub segments: Vec<CodeSegment>,
    /// Sorted by their low 32 bits, the address relative to the file's lowest.
    pub rows: Vec<u64>,
    /// The Python interpreter in the file.
    pub python: Option<PythonRuntime>,
    /// The Java virtual machine in the file.
    pub java: Option<JavaRuntime>,
}

impl UnwindRules {
    /// The rules as bytes, for [`decode`](Self::decode).
    pub fn encode(&self) -> Vec<u8> {
        let segments = self
            .segments
            .iter()
            .flat_map(|segment| [segment.file_offset, segment.len, segment.relative_svma]);
        let python = self.python.map(|python| python.encode().to_vec()).unwrap_or_default();
        let java = self.java.map(|java| java.encode().to_vec()).unwrap_or_default();
        let counts = [self.segments.len(), python.len(), java.len()].map(|count| count as u64);
        counts
            .into_iter()
            .chain(segments)
            .chain(python)
            .chain(java)
            .chain(self.rows.iter().copied())
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Decodes rules that somebody else encoded; `None` if they are not sorted or too many.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words =
            bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let segments = words.next().filter(|&count| count <= bytes.len() as u64 / 24)?;
        let mut count = || words.next().filter(|&count| count <= bytes.len() as u64 / 8);
        let (python, java) = (count()?, count()?);
        let segments = (0..segments)
            .map(|_| {
                let (file_offset, len) = (words.next()?, words.next()?);
                Some(CodeSegment { file_offset, len, relative_svma: words.next()? })
            })
            .collect::<Option<_>>()?;
        let mut take = |count| words.by_ref().take(count as usize).collect::<Vec<u64>>();
        let (python, java) = (take(python), take(java));
        let python = PythonRuntime::decode_slice(&python);
        let java = JavaRuntime::decode_slice(&java);
        let rows: Vec<u64> = words.collect();
        let sorted = rows.is_sorted_by(|before, after| (*before as u32) < *after as u32);
        (sorted && rows.len() <= MAX_ROWS).then_some(Self { segments, rows, python, java })
    }
}

/// The rules of the ELF file `image`; `None` if it is none for x86-64, or damaged.
pub(crate) fn read(image: impl Image) -> Option<UnwindRules> {
    let cache = Limited::new(image);
    let object::FileKind::Elf64 = object::FileKind::parse(&cache).ok()? else { return None };
    let file = File::parse(&cache).ok()?;
    if file.architecture() != object::Architecture::X86_64 || !file.is_little_endian() {
        return None;
    }
    let File::Elf64(headers) = &file else { return None };
    let loaded = || {
        headers
            .elf_program_headers()
            .iter()
            .filter(|segment| segment.p_type(headers.endian()) == elf::PT_LOAD)
    };
    let lowest = loaded().map(|segment| segment.p_vaddr(headers.endian())).min()? & !0xfff;
    let segments = loaded()
        .filter(|segment| segment.p_flags(headers.endian()).0 & elf::PF_X.0 != 0)
        .map(|segment| CodeSegment {
            file_offset: segment.p_offset(headers.endian()),
            len: segment.p_filesz(headers.endian()),
            relative_svma: segment.p_vaddr(headers.endian()).wrapping_sub(lowest),
        })
        .collect();
    let file_offset = |svma: u64| {
        loaded().find_map(|segment| {
            let into = svma.checked_sub(segment.p_vaddr(headers.endian()))?;
            let offset = segment.p_offset(headers.endian());
            (into < segment.p_filesz(headers.endian())).then(|| offset.checked_add(into))?
        })
    };
    let python = python::read(&file, lowest, file_offset, &cache);
    let java = java::read(&file, lowest, file_offset, &cache);
    Some(UnwindRules { segments, rows: rows(&file, lowest), python, java })
}

/// The rules of the kernel's own file in every process.
pub(crate) fn of_vdso() -> Option<UnwindRules> {
    read(Cursor::new(vdso::image().ok()?))
}

fn rows<'a, I: Image>(file: &File<'a, &'a Limited<I>>, lowest: u64) -> Vec<u64> {
    let Some((table, bases)) = unwind_table::open(file) else { return Vec::new() };
    let linkage: Vec<_> = file
        .sections()
        .filter(|section| section.name_bytes().is_ok_and(|name| name.starts_with(b".plt")))
        .map(|section| section.address()..section.address().saturating_add(section.size()))
        .collect();

    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut context = UnwindContext::new();
    let mut entries = table.entries(&bases);
    // After damage, what was read so far holds.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = function.initial_address();
        let is_linkage = linkage.iter().any(|section| section.contains(&start));
        let is_signal = function.is_signal_trampoline();
        let Ok(mut rows) = function.rows(&table, &bases, &mut context) else { continue };
        while let Ok(Some(row)) = rows.next_row() {
            found.push((row.start_address(), short(row, is_linkage, is_signal)));
        }
        found.push((function.end_address(), word(Rule::None, 0, 0)));
        if found.len() > 2 * MAX_ROWS {
            break;
        }
    }
    // Where a function begins at another's end, its row comes last and holds.
    found.sort_by_key(|&(svma, row)| (svma, row != word(Rule::None, 0, 0)));
    let mut rows: Vec<u64> = Vec::with_capacity(found.len());
    for (svma, row) in found {
        let Ok(pc) = u32::try_from(svma.wrapping_sub(lowest)) else { continue };
        match rows.last_mut() {
            Some(last) if *last as u32 == pc => {
                *last = row | u64::from(pc);
                continue;
            }
            // The same rule goes on.
            Some(last) if *last >> 32 == row >> 32 => continue,
            _ => rows.push(row | u64::from(pc)),
        }
    }
    let is_none = |row: u64| row >> 32 == word(Rule::None, 0, 0) >> 32;
    let ends: Vec<u32> = rows.iter().skip(1).map(|row| *row as u32).collect();
    let mut ends = ends.into_iter();
    rows.retain(|&row| {
        let end = ends.next().unwrap_or(u32::MAX);
        !is_none(row) || end - row as u32 >= MAX_PADDING_BYTES
    });
    rows.dedup_by(|next, before| *next >> 32 == *before >> 32);
    rows.truncate(MAX_ROWS);
    rows
}

fn short(row: &gimli::UnwindTableRow<usize>, is_linkage: bool, is_signal: bool) -> u64 {
    match row.register(RETURN_ADDRESS) {
        Some(RegisterRule::Offset(RETURN_ADDRESS_OFFSET)) => {}
        Some(RegisterRule::Undefined) => return word(Rule::End, 0, 0),
        _ if is_signal => return word(Rule::Signal, 0, 0),
        _ => return word(Rule::Cut, 0, 0),
    }
    let (rule, offset) = match row.cfa() {
        CfaRule::RegisterAndOffset { register: RSP, offset } => (Rule::Sp, *offset),
        CfaRule::RegisterAndOffset { register: RBP, offset } => (Rule::Bp, *offset),
        CfaRule::Expression(_) if is_linkage => return word(Rule::Plt, 0, 0),
        _ => return word(Rule::Cut, 0, 0),
    };
    let saved = match row.register(RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(0),
        Some(RegisterRule::Offset(offset)) if offset != 0 => {
            words(offset).and_then(|words| i8::try_from(words).ok())
        }
        _ => None,
    };
    match (words(offset), saved) {
        (Some(offset), Some(saved)) => word(rule, offset, saved),
        _ => word(Rule::Cut, 0, 0),
    }
}

fn words(bytes: i64) -> Option<i16> {
    i16::try_from(bytes / 8).ok().filter(|_| bytes % 8 == 0)
}

/// A row without its address.
fn word(rule: Rule, offset: i16, saved_rbp: i8) -> u64 {
    u64::from(rule as u8) << 56 | u64::from(saved_rbp as u8) << 48 | u64::from(offset as u16) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pc: u32, rule: Rule, offset: i16, saved_rbp: i8) -> u64 {
        word(rule, offset, saved_rbp) | u64::from(pc)
    }

    #[test]
    fn rules_survive_a_round_trip_and_bad_ones_are_refused() {
        let segments = vec![CodeSegment { file_offset: 0x1000, len: 64, relative_svma: 0x2000 }];
        let rows = vec![row(1, Rule::Sp, 1, 0), row(5, Rule::Bp, 2, -2), row(9, Rule::None, 0, 0)];
        let rules = UnwindRules { segments, rows, ..UnwindRules::default() };
        let bytes = rules.encode();
        assert_eq!(UnwindRules::decode(&bytes), Some(rules.clone()));
        let unsorted = UnwindRules { rows: vec![rules.rows[1], rules.rows[0]], ..rules };
        assert_eq!(UnwindRules::decode(&unsorted.encode()), None);
        assert_eq!(UnwindRules::decode(&u64::MAX.to_le_bytes()), None);
        assert_eq!(UnwindRules::decode(&[]), None);
    }

    /// The rules of this test's own program, at the return address of a function that it calls.
    #[test]
    fn own_code_has_rules() {
        let program = std::env::current_exe().unwrap();
        let rules = read(std::fs::File::open(program).unwrap()).unwrap();
        assert!(rules.rows.len() > 1000 && !rules.segments.is_empty());
        let kinds = |rule: Rule| rules.rows.iter().filter(|row| *row >> 56 == rule as u64).count();
        let cut = kinds(Rule::Cut);
        assert!(kinds(Rule::Sp) > cut * 20 && kinds(Rule::End) > 0, "{cut} rules are cut");
        assert!(rules.rows.is_sorted_by_key(|row| *row as u32));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_vdso_has_rules() {
        assert!(of_vdso().unwrap().rows.len() > 4);
    }

    #[test]
    fn other_files_have_none() {
        assert_eq!(read(Cursor::new(b"#!/bin/sh\n")), None);
        assert_eq!(read(Cursor::new(b"\x7fELF\x02\x01\x01")), None);
    }
}
