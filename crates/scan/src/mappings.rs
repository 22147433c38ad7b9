//! Lists the mappings of a process in one of two ways: by querying one at a time (`PROCMAP_QUERY`),
//! or by reading `/proc/PID/maps`.
//!
//! Both go through the address space in ascending order and hold one mapping at a time, so ten
//! million mappings need no memory here. *Why queries are preferred:* they are made for programs,
//! return the size of hugetlb pages, and hold the process's lock for one mapping only. Before Linux
//! 6.17, a read of `maps` held it for a page of text.

use crate::error::Error;
use crate::mapping::{Access, Mapping};
use crate::maps_text::MapsText;
use crate::stall::Calls;
use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// User-space addresses are below this.
const USER_END: u64 = 1 << 56;
/// Length of the name buffer in bytes: enough for most names. For a longer name, the query is
/// repeated with the maximum that the kernel allows.
const NAME_BYTES: usize = 256;
/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 4096;

/// How to list the mappings.
enum Source {
    Query { maps: File, name: Vec<u8> },
    Text(MapsText),
}

/// The mappings of a process, in ascending order.
pub struct Mappings {
    source: Source,
    path: PathBuf,
    /// Where to continue: the end of the last mapping.
    from: u64,
}

impl Mappings {
    /// The mappings of process `pid`. `by_text` reads `maps` even if the kernel supports queries.
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

    /// The name of the kernel interface in use.
    pub fn interface(&self) -> &'static str {
        match self.source {
            Source::Query { .. } => "PROCMAP_QUERY",
            Source::Text(_) => "/proc/PID/maps",
        }
    }

    /// The next mapping; `None` after the last, or if the process has exited. The time of system
    /// calls is added to `calls`.
    pub fn next(&mut self, calls: &mut Calls) -> Result<Option<Mapping<'_>>, Error> {
        let from = self.from;
        let found = match &mut self.source {
            Source::Query { maps, name } => query(maps, from, name, calls).map_err(|source| {
                Error::File { action: "query the mappings in", path: self.path.clone(), source }
            })?,
            Source::Text(text) => text.next(calls)?,
        };
        // A mapping that moved during the scan is not reported twice. The gate page of x86 is above
        // all user memory and belongs to the kernel.
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
        && name.len() < MAX_NAME_BYTES
    {
        name.resize(MAX_NAME_BYTES, 0);
        answer = calls.time("PROCMAP_QUERY", || sys::query_mapping(maps.as_fd(), from, name));
        // The kernel allocates and clears a buffer of the offered size, so offer little next time.
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
