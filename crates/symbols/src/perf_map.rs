//! Names JIT code from the map that its runtime writes to `/tmp/perf-PID.map`.
//!
//! Format: `tools/perf/Documentation/jit-interface.txt`: a line `START SIZE name` per function,
//! both numbers hexadecimal, the start an avma. *Why the last line wins*: runtimes only append, so
//! when they reuse memory they add another line for it.

use crate::files::{self, Files, Identity, Wanted};
use rustc_hash::FxHashMap;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;

/// Maximum number of bytes that are read of a map.
pub(crate) const MAX_MAP_BYTES: u64 = 32 << 20;
/// Maximum length of a line, bytes. A longer one is cut; no name is that long.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The names found in one process's map so far. *Why not the map itself*: it may have a million
/// functions, of which a trace uses a few hundred.
pub(crate) struct PerfMap {
    identity: Identity,
    names: FxHashMap<u64, Option<String>>,
}

impl PerfMap {
    /// Names each of `avmas` in the process `pid`, from `known` if the map has not changed since.
    /// `None` if the process has no map.
    pub(crate) fn read(
        files: &dyn Files,
        pid: u32,
        avmas: &[u64],
        known: Option<Self>,
    ) -> Option<Self> {
        let (file, identity) = files::open(files, &Wanted::PerfMap(pid)).ok()?;
        let known = known.filter(|known| known.identity == identity);
        let mut names = known.map(|known| known.names).unwrap_or_default();
        let fresh: Vec<u64> =
            avmas.iter().copied().filter(|avma| !names.contains_key(avma)).collect();
        if !fresh.is_empty() {
            let found =
                names_at(BufReader::with_capacity(256 << 10, file.take(MAX_MAP_BYTES)), &fresh);
            names.extend(fresh.into_iter().zip(found));
        }
        Some(Self { identity, names })
    }

    /// The function at one of the addresses passed to [`PerfMap::read`].
    pub(crate) fn function_at(&self, avma: u64) -> Option<String> {
        self.names.get(&avma).cloned().flatten()
    }

    /// True if the end of the map was not read.
    pub(crate) fn is_cut(&self) -> bool {
        self.identity.len_bytes > MAX_MAP_BYTES
    }
}

/// The function at each of `avmas`, from the lines of `map`. Damaged lines are skipped.
pub(crate) fn names_at(mut map: impl BufRead, avmas: &[u64]) -> Vec<Option<String>> {
    let mut sorted: Vec<(u64, usize)> = avmas.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let mut names: Vec<Option<String>> = vec![None; avmas.len()];
    let mut line = Vec::new();
    loop {
        line.clear();
        match map.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return names,
            Ok(_) => {}
        }
        let Some((code, name)) = parse(&line) else { continue };
        let first = sorted.partition_point(|&(avma, _)| avma < code.start);
        for &(_, index) in sorted[first..].iter().take_while(|(avma, _)| *avma < code.end) {
            names[index] = Some(String::from_utf8_lossy(&line[name.clone()]).into_owned());
        }
    }
}

/// The addresses and, as a range of `line`, the name.
fn parse(line: &[u8]) -> Option<(Range<u64>, Range<usize>)> {
    let line = line.trim_ascii_end();
    let (start_avma, start_end) = hexadecimal(line, 0)?;
    let (size, size_end) = hexadecimal(line, start_end + 1)?;
    let name = size_end + 1..line.len();
    (!name.is_empty()).then(|| (start_avma..start_avma.saturating_add(size.max(1)), name))
}

/// Parses the number that begins at `start` and ends at a blank. Also returns the blank's index.
/// This is fast because maps have millions of numbers.
fn hexadecimal(line: &[u8], start: usize) -> Option<(u64, usize)> {
    const DIGITS: usize = 16;
    let first = if line.get(start..)?.starts_with(b"0x") { start + 2 } else { start };
    let mut number = 0;
    for (at, &byte) in line.iter().enumerate().skip(first).take(DIGITS + 1) {
        match byte {
            b' ' if at > first => return Some((number, at)),
            _ if at == first + DIGITS => return None,
            _ => number = number << 4 | u64::from((byte as char).to_digit(16)?),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::LocalFiles;

    const PID: u32 = 4_194_305;

    fn files(dir: &tempfile::TempDir, text: &[u8]) -> LocalFiles {
        std::fs::write(dir.path().join(format!("perf-{PID}.map")), text).unwrap();
        LocalFiles { kallsyms: dir.path().join("none"), perf_map_dir: dir.path().to_owned() }
    }

    fn name(text: &[u8], avma: u64) -> Option<String> {
        names_at(text, &[avma]).remove(0)
    }

    #[test]
    fn names_with_spaces_prefixes_and_gaps() {
        let map = &b"1000 10 LazyCompile:~run /srv/app.js:3\n0x2000 0x20 stub\r\nnonsense\n3000 zz bad\n\n4000 10 \n"[..];
        assert_eq!(name(map, 0x100f).as_deref(), Some("LazyCompile:~run /srv/app.js:3"));
        assert_eq!(name(map, 0x2000).as_deref(), Some("stub"));
        for avma in [0, 0xfff, 0x1010, 0x2020, 0x3000, 0x4000, u64::MAX] {
            assert_eq!(name(map, avma), None, "{avma:#x}");
        }
    }

    #[test]
    fn reused_memory_has_the_last_name() {
        let map = &b"1000 100 old\n1000 10 new\n1080 10 newer\n1000 8 newest\n"[..];
        assert_eq!(name(map, 0x1000).as_deref(), Some("newest"));
        assert_eq!(name(map, 0x1008).as_deref(), Some("new"));
        assert_eq!(name(map, 0x1010).as_deref(), Some("old"));
        assert_eq!(name(map, 0x1085).as_deref(), Some("newer"));
        assert_eq!(name(map, 0x1090).as_deref(), Some("old"));
    }

    #[test]
    fn a_grown_map_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let map =
            PerfMap::read(&files(&dir, b"1000 10 a\n"), PID, &[0x1000, 0x2000], None).unwrap();
        assert_eq!(
            (map.function_at(0x1000).as_deref(), map.function_at(0x2000)),
            (Some("a"), None)
        );
        let grown = files(&dir, b"1000 10 a\n2000 10 b\n");
        let map = PerfMap::read(&grown, PID, &[0x2000], Some(map)).unwrap();
        assert_eq!(map.function_at(0x2000).as_deref(), Some("b"));
        assert!(!map.is_cut());
        std::fs::remove_file(dir.path().join(format!("perf-{PID}.map"))).unwrap();
        assert!(PerfMap::read(&grown, PID, &[0x2000], Some(map)).is_none());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(&dir, b"");
        std::fs::remove_file(dir.path().join(format!("perf-{PID}.map"))).unwrap();
        std::fs::write(dir.path().join("secret"), b"1000 10 secret\n").unwrap();
        std::os::unix::fs::symlink("secret", dir.path().join(format!("perf-{PID}.map"))).unwrap();
        assert!(PerfMap::read(&files, PID, &[0x1000], None).is_none());
    }

    #[test]
    fn every_truncation_is_read() {
        let text = b"fffffffffffffff0 ffff top\n1000 10 \xff\xfe\n";
        for len in 0..=text.len() {
            name(&text[..len], 0x1000);
        }
    }
}
