//! Names procedure linkage stubs after what they jump to, as `name@plt`.
//!
//! Format: the x86-64 psABI, section 5.2: a stub is `jmp *slot(%rip)`, possibly after `endbr64` or
//! with a `bnd` prefix, and a dynamic relocation says which function's address the slot gets. *Why
//! the code is decoded*: the order of stubs differs between linkers and between `.plt`, `.plt.sec`
//! and `.plt.got`, but the slot that a stub jumps through is always right.

use crate::limited::{Image, Limited};
use object::read::elf::{ElfFile64, FileHeader};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, elf};
use rustc_hash::FxHashMap;

/// Minimum length of a stub, bytes. Stubs have 8 bytes (`.plt.got`) or 16; no section mixes both.
const STUB_BYTES: usize = 8;
/// Maximum length of a section of stubs, bytes. No linker makes a longer one.
const MAX_SECTION_BYTES: u64 = 16 << 20;

/// All stubs of the file `image`: the svma of the 8 bytes that contain the jump, and the linker
/// symbol of its target.
pub(crate) fn stubs(image: impl Image) -> FxHashMap<u64, String> {
    let cache = Limited::new(image);
    read(&cache).unwrap_or_default()
}

fn read<I: Image>(cache: &Limited<I>) -> Option<FxHashMap<u64, String>> {
    let file = ElfFile64::<object::Endianness, _>::parse(cache).ok()?;
    if file.elf_header().e_machine(file.endian()) != elf::EM_X86_64 {
        return None;
    }
    let mut jumps = Vec::new();
    for section in file
        .sections()
        .filter(|section| section.name_bytes().is_ok_and(|name| name.starts_with(b".plt")))
    {
        if section.size() > MAX_SECTION_BYTES {
            continue;
        }
        let Ok(code) = section.data() else { continue };
        for at in 0..code.len().saturating_sub(5) {
            // FF 25: jmp *disp32(%rip), relative to the end of the instruction.
            let &[0xff, 0x25, a, b, c, d] = &code[at..at + 6] else { continue };
            let next_svma = section.address().wrapping_add(at as u64 + 6);
            let slot_svma = next_svma.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
            jumps.push((
                section.address().wrapping_add((at / STUB_BYTES * STUB_BYTES) as u64),
                slot_svma,
            ));
        }
    }
    let by_slot: FxHashMap<u64, u64> = jumps.into_iter().map(|(stub, slot)| (slot, stub)).collect();
    let mut names = FxHashMap::default();
    for (slot_svma, relocation) in file.dynamic_relocations()? {
        let RelocationFlags::Elf { r_type: elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT } =
            relocation.flags()
        else {
            continue;
        };
        let (Some(&stub), RelocationTarget::Symbol(index)) =
            (by_slot.get(&slot_svma), relocation.target())
        else {
            continue;
        };
        let Some(symbol) = file
            .dynamic_symbol_table()
            .and_then(|table| object::ObjectSymbolTable::symbol_by_index(&table, index).ok())
        else {
            continue;
        };
        if let Ok(name) = symbol.name() {
            names.insert(stub, name.to_owned());
        }
    }
    Some(names)
}
