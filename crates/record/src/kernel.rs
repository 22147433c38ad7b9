//! The address and build id of the running kernel's code, so that perf can name its functions, too.
//!
//! `/proc/kallsyms` (proc(5)) gives the addresses, `/sys/kernel/notes` the build id as an ELF note
//! (elf(5)). perf stores both in a synthesized mapping record
//! (`perf_event__synthesize_kernel_mmap` in `tools/perf/util/synthetic-events.c`), and so do we.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use unhitch_formats::perf_data::record::{self, Mmap2, SampleId};

/// The mapping record of the kernel; empty if its addresses are hidden from us.
pub(crate) fn mapping() -> Vec<u8> {
    let mut out = Vec::new();
    let kallsyms = fs::File::open("/proc/kallsyms").map(BufReader::new);
    if let Some((start, end)) = kallsyms.ok().and_then(text_range) {
        let build_id = fs::read("/sys/kernel/notes").ok().and_then(|notes| build_id(&notes));
        let map = Mmap2 {
            pid: u32::MAX,
            start_avma: start,
            len: end - start,
            // perf uses this to find how far the kernel was relocated.
            file_offset: start,
            path: b"[kernel.kallsyms]_text",
            build_id: build_id.as_deref(),
            kernel: true,
            ..Mmap2::default()
        };
        record::mmap2(&mut out, &map, &SampleId::default());
    }
    out
}

/// Where the kernel's symbols are.
pub(crate) struct Symbols {
    /// Address and name of the functions, sorted.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the functions of the kernel itself; none if their addresses are hidden from us.
    pub(crate) fn read() -> Self {
        let list = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let mut functions: Vec<(u64, String)> = list.lines().filter_map(function).collect();
        functions.sort_unstable();
        Self { functions }
    }

    /// The name of the first function that `wanted` accepts.
    pub(crate) fn name(&self, wanted: impl Fn(&str) -> bool) -> Option<&str> {
        self.functions.iter().map(|(_, name)| name.as_str()).find(|name| wanted(name))
    }

    /// The code of the functions whose names `wanted` accepts, from the first to the last.
    pub(crate) fn of(&self, wanted: impl Fn(&str) -> bool) -> Range<u64> {
        let is_wanted = |(_, name): &(u64, String)| wanted(name);
        let first = self.functions.iter().position(is_wanted);
        let last = self.functions.iter().rposition(is_wanted);
        let range = first.zip(last).and_then(|(first, last)| {
            let end =
                self.functions[last..].iter().find(|(avma, _)| *avma > self.functions[last].0);
            Some(self.functions[first].0..end?.0)
        });
        range.unwrap_or(0..0)
    }
}

/// `address type name`, and a module in brackets.
fn function(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_ascii_whitespace();
    let (avma, kind, name, module) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next());
    let avma = u64::from_str_radix(avma, 16).ok().filter(|&avma| avma != 0)?;
    (matches!(kind, "t" | "T" | "w" | "W") && module.is_none()).then(|| (avma, name.to_owned()))
}

/// The addresses of `_text` and `_etext`.
fn text_range(kallsyms: impl BufRead) -> Option<(u64, u64)> {
    let (mut start, mut end) = (None, None);
    for line in kallsyms.lines() {
        let line = line.ok()?;
        let mut fields = line.split_ascii_whitespace();
        let (Some(avma), _, Some(name)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        match name {
            "_text" => start = u64::from_str_radix(avma, 16).ok(),
            "_etext" => end = u64::from_str_radix(avma, 16).ok(),
            _ => continue,
        }
        if let (Some(start), Some(end)) = (start, end) {
            return (start != 0 && start < end).then_some((start, end));
        }
    }
    None
}

/// Finds the build id in ELF notes. Each note has the lengths of its name and content, a type (3
/// for a build id), then the name (`GNU`) and the content, both padded to four bytes.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const NT_GNU_BUILD_ID: u32 = 3;
    loop {
        let header = notes.first_chunk::<12>()?;
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (name_len, content_len) =
            (usize::try_from(word(0)).ok()?, usize::try_from(word(4)).ok()?);
        let content_at = name_len.checked_next_multiple_of(4)?.checked_add(12)?;
        let content = notes.get(content_at..content_at.checked_add(content_len)?)?;
        if word(8) == NT_GNU_BUILD_ID && notes.get(12..16) == Some(b"GNU\0") {
            return Some(content.to_vec());
        }
        notes = notes.get(content_at + content_len.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_range_is_found_unless_addresses_are_hidden() {
        let kallsyms = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T \
                        _text\nffffffff81000040 T start [mod]\nffffffff8220bb08 T _etext\n";
        assert_eq!(
            text_range(kallsyms.as_bytes()),
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8220_bb08))
        );
        assert_eq!(
            text_range("0000000000000000 T _text\n0000000000000000 T _etext\n".as_bytes()),
            None
        );
    }

    #[test]
    fn the_build_id_is_found_in_notes() {
        let note = |kind: u32, name: &[u8; 4], content: &[u8]| {
            let mut note = [
                4u32.to_le_bytes(),
                (content.len() as u32).to_le_bytes(),
                kind.to_le_bytes(),
                *name,
            ]
            .concat();
            note.extend_from_slice(content);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let notes = [note(6, b"Xen\0", b"linux"), note(3, b"GNU\0", &[7; 20])].concat();
        assert_eq!(build_id(&notes), Some(vec![7; 20]));
        assert!((0..notes.len()).all(|len| build_id(&notes[..len]).is_none()));
    }
}
