//! One mapping of a process.

/// The protection of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Its pages can be read.
    pub read: bool,
    /// Its pages can be written.
    pub write: bool,
    /// Its pages can be executed.
    pub execute: bool,
    /// Other processes see what one writes.
    pub shared: bool,
}

impl Access {
    /// True if its pages can be accessed at all.
    pub const fn any(self) -> bool {
        self.read || self.write || self.execute
    }
}

/// A mapping, as the kernel lists it. Addresses are those of the process (avma).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// Address just after the last byte.
    pub end: u64,
    /// Its protection.
    pub access: Access,
    /// Size of its pages in bytes; zero if the kernel does not say (`maps`).
    pub page_bytes: u64,
    /// Inode of the file; zero if there is none.
    pub inode: u64,
    /// The path, a name such as `[heap]`, or empty.
    pub name: &'a [u8],
}
