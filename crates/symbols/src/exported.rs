//! The symbols that a file exports, by exact names.
//!
//! *Why not by the `object` crate*: it reads each name by itself, and most of the files have thousands
//! and none of those that are looked for.

use crate::limited::{Image, Limited};
use object::{File, Object, ObjectSection};

/// Length of an entry of a symbol table.
const ENTRY: usize = 24;

/// A symbol.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    pub(crate) svma: u64,
    pub(crate) len: u64,
}

/// A symbol table.
pub(crate) struct Table<'a> {
    symbols: &'a [u8],
    names: &'a [u8],
}

impl<'a> Table<'a> {
    /// The symbols that the file exports; `None` if `marker` is not among them.
    pub(crate) fn exported<I: Image>(
        file: &File<'a, &'a Limited<I>>,
        marker: &[u8],
    ) -> Option<Self> {
        Self::open(file, [".dynsym", ".dynstr"], marker)
    }

    /// All symbols of the file; `None` if there is no table, or `marker` is not in it.
    pub(crate) fn all<I: Image>(file: &File<'a, &'a Limited<I>>, marker: &[u8]) -> Option<Self> {
        Self::open(file, [".symtab", ".strtab"], marker)
    }

    fn open<I: Image>(
        file: &File<'a, &'a Limited<I>>,
        [symbols, names]: [&str; 2],
        marker: &[u8],
    ) -> Option<Self> {
        let names = file.section_by_name(names)?.data().ok()?;
        let has_marker = names.windows(marker.len()).any(|name| name == marker);
        let symbols = has_marker.then(|| file.section_by_name(symbols))??.data().ok()?;
        Some(Self { symbols, names })
    }

    /// A defined symbol.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Found> {
        let entries = self.symbols.as_chunks::<ENTRY>().0;
        entries.iter().find_map(|entry| {
            let (head, rest) = entry.split_first_chunk::<4>()?;
            let own = self.names.get(u32::from_le_bytes(*head) as usize..)?;
            let is_it = own.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0));
            let word = |at: usize| {
                u64::from_le_bytes(rest[at..].first_chunk().copied().unwrap_or_default())
            };
            let found = Found { svma: word(4), len: word(12) };
            (is_it && found.svma != 0).then_some(found)
        })
    }
}
