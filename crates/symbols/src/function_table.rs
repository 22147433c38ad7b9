//! [`FunctionTable`]: where each function of a file is, and where its name is in the file.
//!
//! *Why so little is kept*: a recorder keeps these tables as long as it runs, so a function takes
//! 24 bytes and its name stays in the file until a frame needs it.

use crate::limited::Image;
use std::io::SeekFrom;
use std::ops::Range;

/// Maximum number of symbols before an address that are searched for one that contains it.
/// Functions may contain others (cold parts, assembler labels).
const MAX_NESTING: usize = 64;
/// Maximum length of a symbol name, bytes. C++ has names of many kilobytes.
const MAX_NAME_BYTES: u64 = 64 << 10;

/// A function symbol. Its name is `name` bytes into the string table.
#[derive(Debug)]
pub(crate) struct FunctionSymbol {
    pub(crate) svmas: Range<u64>,
    pub(crate) name: u32,
    pub(crate) binding: Binding,
}

/// Which of several names of a function is preferred: the first one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Binding {
    Global,
    Weak,
    Local,
}

/// The functions of one symbol table, by address.
#[derive(Debug, Default)]
pub(crate) struct FunctionTable {
    functions: Vec<FunctionSymbol>,
    /// Where their names are in the file.
    strings: Range<u64>,
}

impl FunctionTable {
    /// A table of `found` functions, in any order. The flag marks those without a size; their
    /// extent is as far as they may reach.
    pub(crate) fn new(found: Vec<(FunctionSymbol, bool)>, strings: Range<u64>) -> Self {
        Self { functions: settle(found), strings }
    }

    /// Memory that the table takes, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.functions.capacity() * size_of::<FunctionSymbol>()
    }

    /// True without any function.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The linker symbol of the function that covers `svma`, read from `image`, which must be the
    /// file that the table was read from.
    pub(crate) fn function_at(&self, image: &mut dyn Image, svma: u64) -> Option<String> {
        let (innermost, before) = self.innermost_at(svma)?;
        let start = innermost.svmas.start;
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
        Some(self.innermost_at(svma)?.0.svmas.clone())
    }

    /// Every name with its extent.
    pub(crate) fn names(&self, image: &mut dyn Image) -> Vec<(String, Range<u64>)> {
        self.functions
            .iter()
            .filter_map(|function| Some((self.name(image, function.name)?, function.svmas.clone())))
            .collect()
    }

    /// The innermost function that covers `svma`, and all functions that start at or before `svma`.
    fn innermost_at(&self, svma: u64) -> Option<(&FunctionSymbol, &[FunctionSymbol])> {
        let after = self.functions.partition_point(|function| function.svmas.start <= svma);
        let before = self.functions.get(..after)?;
        let innermost =
            before.iter().rev().take(MAX_NESTING).find(|function| svma < function.svmas.end)?;
        Some((innermost, before))
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

/// Sorts functions, and ends those without a size (the flag) at the next function. Drops those
/// inside another function, which are assembler labels.
fn settle(mut found: Vec<(FunctionSymbol, bool)>) -> Vec<FunctionSymbol> {
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

    fn settled(symbols: &[(Range<u64>, bool)]) -> Vec<Range<u64>> {
        let found = symbols.iter().map(|(svmas, is_unsized)| {
            let svmas = svmas.clone();
            (FunctionSymbol { svmas, name: 1, binding: Binding::Local }, *is_unsized)
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
