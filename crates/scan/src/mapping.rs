//! One mapping of a process, and the two ways to list them: asked for one by one (`PROCMAP_QUERY`),
//! or read from `/proc/PID/maps`.
//!
//! Both go through the address space upwards and hold one mapping at a time, so ten million of them
//! need no memory here. *Why asking is preferred:* it is made for programs, says the size of
//! hugetlb pages, and holds the process's lock for one mapping only, where a read of `maps` held it
//! for a page full of text before Linux 6.17.

use crate::maps_text::MapsText;
use crate::stall::Calls;
use crate::{Error, sys};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Kernels and hardware put user programs below this.
const USER_END: u64 = 1 << 56;
/// Long enough for most names; a longer one is asked for again with room for all that the kernel
/// allows.
const NAME_BYTES: usize = 256;
const LONGEST_NAME: usize = 4096;

/// What a program may do with a mapping's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Read them.
    pub read: bool,
    /// Write them.
    pub write: bool,
    /// Execute them.
    pub execute: bool,
    /// What one process writes others see.
    pub shared: bool,
}

impl Access {
    /// Whether the pages can be used at all.
    pub const fn any(self) -> bool {
        self.read || self.write || self.execute
    }
}

/// A mapping, as the kernel lists it. Addresses are those of the process (avma).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Its protection.
    pub access: Access,
    /// Size of its pages; zero where the kernel does not say (`maps`).
    pub page_bytes: u64,
    /// Zero where no file is mapped.
    pub inode: u64,
    /// The path, `[heap]` and the like, or nothing.
    pub name: &'a [u8],
}

/// How the mappings are listed.
enum Source {
    Query { maps: File, name: Vec<u8> },
    Text(MapsText),
}

/// The mappings of a process, upwards.
pub struct Mappings {
    source: Source,
    path: PathBuf,
    /// Where to go on: the end of the last one.
    from: u64,
}

impl Mappings {
    /// Of the process `pid`. `by_text`: read `maps` even where the kernel can be asked.
    pub fn open(pid: u32, by_text: bool) -> io::Result<Self> {
        let path = Path::new("/proc").join(pid.to_string()).join("maps");
        let maps = File::open(&path)?;
        let mut name = vec![0; NAME_BYTES];
        let can_query = !by_text
            && match sys::query_mapping(maps.as_fd(), 0, &mut name) {
                Ok(_) => true,
                Err(error) => {
                    error.raw_os_error() == Some(libc::ENAMETOOLONG)
                        || error.raw_os_error() == Some(libc::ESRCH)
                }
            };
        let source = if can_query {
            Source::Query { maps, name }
        } else {
            Source::Text(MapsText::new(maps, path.clone()))
        };
        Ok(Self { source, path, from: 0 })
    }

    /// The kernel interface in use, as it is called there.
    pub fn interface(&self) -> &'static str {
        match self.source {
            Source::Query { .. } => "PROCMAP_QUERY",
            Source::Text(_) => "/proc/PID/maps",
        }
    }

    /// The next mapping; `None` after the last, or when the process has ended. The kernel's calls
    /// are timed into `calls`.
    pub fn next(&mut self, calls: &mut Calls) -> Result<Option<Mapping<'_>>, Error> {
        let from = self.from;
        let found = match &mut self.source {
            Source::Query { maps, name } => query(maps, from, name, calls).map_err(|source| {
                Error::File { action: "ask for the mappings of", path: self.path.clone(), source }
            })?,
            Source::Text(text) => text.next(calls)?,
        };
        // What moved while we looked is not told twice. The gate page of x86 lies above all user
        // memory and belongs to the kernel.
        let found = found.filter(|mapping| mapping.start < USER_END);
        Ok(found.map(|mapping| {
            let start = mapping.start.max(from);
            self.from = mapping.end.max(start);
            Mapping { start, end: self.from, ..mapping }
        }))
    }
}

fn query<'a>(
    maps: &File,
    from: u64,
    name: &'a mut Vec<u8>,
    calls: &mut Calls,
) -> io::Result<Option<Mapping<'a>>> {
    let mut answer = calls.time("PROCMAP_QUERY", || sys::query_mapping(maps.as_fd(), from, name));
    if answer.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::ENAMETOOLONG))
        && name.len() < LONGEST_NAME
    {
        name.resize(LONGEST_NAME, 0);
        answer = calls.time("PROCMAP_QUERY", || sys::query_mapping(maps.as_fd(), from, name));
        // The kernel allocates and clears what it is offered, so the next is offered little again.
        if answer.is_err() {
            name.truncate(NAME_BYTES);
        }
    }
    let found = match answer {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
        Err(error) => return Err(error),
        Ok(found) => found,
    };
    Ok(found.map(|found| Mapping {
        start: found.start,
        end: found.end,
        access: Access {
            read: found.access & sys::READABLE != 0,
            write: found.access & sys::WRITABLE != 0,
            execute: found.access & sys::EXECUTABLE != 0,
            shared: found.access & sys::SHARED != 0,
        },
        page_bytes: found.page_bytes,
        inode: found.inode,
        name: name.get(..found.name_bytes).unwrap_or_default(),
    }))
}
