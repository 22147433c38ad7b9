//! Names JIT code from the map that its runtime writes to `/tmp/perf-PID.map`.
//!
//! Format: `tools/perf/Documentation/jit-interface.txt`: a line `START SIZE name` per function,
//! both numbers hexadecimal, the start an avma. [`jit_name`] makes the names readable. *Why the
//! last line wins*: runtimes only append, so when they move code or reuse memory they add another
//! line for it.

use crate::files::{self, Files, Identity, Wanted};
use crate::function::Function;
use crate::jit_name;
use rustc_hash::FxHashMap;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of bytes that are read of a map.
pub(crate) const MAX_MAP_BYTES: u64 = 32 << 20;
/// Maximum length of a line, bytes. What is longer is read as several lines.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Maximum length of a name, bytes. Longer ones are cut.
const MAX_NAME_BYTES: usize = 2 << 10;
/// Maximum number of addresses whose names are kept for the next trace.
const MAX_KEPT: usize = 1 << 16;

/// The names found in one process's map so far. *Why not the map itself*: it may have a million
/// functions, of which a trace uses a few hundred.
pub(crate) struct PerfMap {
    identity: Identity,
    names: FxHashMap<u64, Option<Arc<str>>>,
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
        let known =
            known.filter(|known| known.identity == identity && known.names.len() <= MAX_KEPT);
        let mut names = known.map(|known| known.names).unwrap_or_default();
        let mut fresh: Vec<u64> =
            avmas.iter().copied().filter(|avma| !names.contains_key(avma)).collect();
        fresh.sort_unstable();
        if !fresh.is_empty() {
            let found =
                names_at(BufReader::with_capacity(256 << 10, file.take(MAX_MAP_BYTES)), &fresh);
            names.extend(fresh.into_iter().zip(found));
        }
        Some(Self { identity, names })
    }

    /// The function at one of the addresses passed to [`PerfMap::read`].
    pub(crate) fn function_at(&self, avma: u64) -> Option<Function> {
        self.names.get(&avma)?.as_deref().map(jit_name::function)
    }

    /// True if the end of the map was not read.
    pub(crate) fn is_cut(&self) -> bool {
        self.identity.len_bytes > MAX_MAP_BYTES
    }
}

/// The function at each of `avmas`, which are sorted, from the lines of `map`. Damaged lines are
/// skipped.
pub(crate) fn names_at(mut map: impl BufRead, avmas: &[u64]) -> Vec<Option<Arc<str>>> {
    let mut names = Newest::new(avmas.len());
    let mut line = Vec::new();
    loop {
        line.clear();
        match map.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return (0..avmas.len()).map(|place| names.get(place)).collect(),
            Ok(_) => {}
        }
        let Some((code, name)) = parse(&line) else { continue };
        let place = |end: u64| avmas.partition_point(|&avma| avma < end);
        let places = place(code.start)..place(code.end);
        if !places.is_empty() {
            let name = &line[name];
            let name = &name[..name.len().min(MAX_NAME_BYTES)];
            names.put(places, String::from_utf8_lossy(name).into());
        }
    }
}

/// The newest name put over each place.
///
/// A segment tree: place `n` is node `len + n`, and node `n` covers the places of its children
/// `2 * n` and `2 * n + 1`. *Why a tree*: each line of a map may cover every address of a trace. So
/// putting takes as many steps as the tree is high, and a name is in memory once.
struct Newest {
    nodes: Vec<Option<(usize, Arc<str>)>>,
    put: usize,
}

impl Newest {
    fn new(len: usize) -> Self {
        Self { nodes: vec![None; 2 * len], put: 0 }
    }

    fn put(&mut self, places: Range<usize>, name: Arc<str>) {
        let len = self.nodes.len() / 2;
        let (mut start, mut end) = (places.start + len, places.end + len);
        self.put += 1;
        while start < end {
            if start % 2 == 1 {
                self.nodes[start] = Some((self.put, Arc::clone(&name)));
                start += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                self.nodes[end] = Some((self.put, Arc::clone(&name)));
            }
            (start, end) = (start / 2, end / 2);
        }
    }

    fn get(&self, place: usize) -> Option<Arc<str>> {
        let leaf = place + self.nodes.len() / 2;
        let above =
            std::iter::successors(Some(leaf), |node| Some(node / 2).filter(|&node| node > 0));
        let newest = above.filter_map(|node| self.nodes[node].as_ref()).max_by_key(|(put, _)| *put);
        newest.map(|(_, name)| Arc::clone(name))
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

    fn name(text: &[u8], avma: u64) -> Option<Arc<str>> {
        names_at(text, &[avma]).remove(0)
    }

    #[test]
    fn regression_a_name_is_in_memory_once_and_has_its_limit() {
        let map = [b"0 ffffffffffffffff ", "\u{e9}".repeat(MAX_NAME_BYTES).as_bytes()].concat();
        let names = names_at(&*map, &[1, 2, 3, 4, 5]);
        let names: Vec<Arc<str>> = names.into_iter().flatten().collect();
        assert_eq!((names.len(), names[0].len()), (5, MAX_NAME_BYTES));
        assert!(names.iter().all(|name| Arc::ptr_eq(name, &names[0])));
    }

    #[test]
    fn the_last_line_wins_at_every_address() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for len in 1..40_u64 {
            let mut expected = vec![None; 40];
            let mut map = String::new();
            for line in 0..20 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let (start, size) = (random % 40, random >> 32 & 15);
                map += &format!("{start:x} {size:x} f{line}\n");
                let end = (start + size.max(1)).min(40);
                expected[start as usize..end as usize].fill(Some(format!("f{line}")));
            }
            let avmas: Vec<u64> = (40 - len..40).collect();
            let names = names_at(map.as_bytes(), &avmas);
            let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
            let expected: Vec<Option<&str>> = expected.iter().map(Option::as_deref).collect();
            assert_eq!(names, expected[(40 - len) as usize..], "{map}");
        }
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
            (map.function_at(0x1000).map(|function| function.name), map.function_at(0x2000)),
            (Some("a".to_owned()), None)
        );
        let grown = files(&dir, b"1000 10 a\n2000 10 b\n");
        let map = PerfMap::read(&grown, PID, &[0x2000], Some(map)).unwrap();
        assert_eq!(map.function_at(0x2000).unwrap().name, "b");
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
