//! Names JIT code from the map that its runtime writes to `/tmp/perf-PID.map`.
//!
//! Format: `tools/perf/Documentation/jit-interface.txt`: a line `START SIZE name` per function, both numbers hexadecimal, the start an
//! avma. *Why the last line wins*: runtimes only append, and write again where they reuse memory.

use crate::file::{Identity, open_regular};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A map longer than this is read up to here.
const MAX_MAP_BYTES: u64 = 256 << 20;

/// One process's JIT code.
pub(crate) struct PerfMap {
    path: PathBuf,
    identity: Identity,
    functions: Functions,
}

impl PerfMap {
    /// The map of the process `pid`, from `dir` or, when it lives in a container, from its own `/tmp`.
    pub(crate) fn open(pid: u32, dir: &Path) -> Option<Self> {
        Self::read(dir.join(format!("perf-{pid}.map"))).or_else(|| {
            let process = Path::new("/proc").join(pid.to_string());
            let status = std::fs::read_to_string(process.join("status")).ok()?;
            let inner_pid: u32 = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()?;
            Self::read(process.join("root/tmp").join(format!("perf-{inner_pid}.map")))
        })
    }

    fn read(path: PathBuf) -> Option<Self> {
        let (file, identity) = open_regular(&path).ok()?;
        let mut text = Vec::new();
        file.take(MAX_MAP_BYTES).read_to_end(&mut text).ok()?;
        Some(Self { path, identity, functions: Functions::read(text) })
    }

    /// True when the file has not grown or been replaced since.
    pub(crate) fn is_current(&self) -> bool {
        Identity::at(&self.path) == Some(self.identity)
    }

    /// The function at `avma`.
    pub(crate) fn function_at(&self, avma: u64) -> Option<String> {
        self.functions.at(avma)
    }
}

/// What a map says.
pub(crate) struct Functions {
    text: Vec<u8>,
    /// By start; where two overlap, the one written last comes first. The name is a range of `text`.
    list: Vec<(Range<u64>, Range<usize>)>,
}

impl Functions {
    /// Reads the lines of a map; one that is damaged is left out.
    pub(crate) fn read(text: Vec<u8>) -> Self {
        let mut list = Vec::new();
        let mut line_start = 0;
        for line in text.split(|&byte| byte == b'\n') {
            if let Some((avmas, name)) = parse(line) {
                list.push((avmas, line_start + name.start..line_start + name.end));
            }
            line_start += line.len() + 1;
        }
        list.sort_by_key(|(avmas, name)| (avmas.start, name.start));
        Self { text, list }
    }

    /// The function at `avma`.
    pub(crate) fn at(&self, avma: u64) -> Option<String> {
        let after = self.list.partition_point(|(avmas, _)| avmas.start <= avma);
        let before = self.list.get(..after)?.iter().rev().take(MAX_OVERLAPS);
        let (_, name) = before.filter(|(avmas, _)| avmas.contains(&avma)).max_by_key(|(_, name)| name.start)?;
        Some(String::from_utf8_lossy(self.text.get(name.clone())?).into_owned())
    }
}

/// How many functions are looked at before an address for those that contain it.
const MAX_OVERLAPS: usize = 64;

/// The addresses and, as a range of `line`, the name.
fn parse(line: &[u8]) -> Option<(Range<u64>, Range<usize>)> {
    let line = line.trim_ascii_end();
    let first_end = line.iter().position(|&byte| byte == b' ')?;
    let second_end = first_end + 1 + line.get(first_end + 1..)?.iter().position(|&byte| byte == b' ')?;
    let number = |range: Range<usize>| {
        let text = std::str::from_utf8(line.get(range)?).ok()?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    let (start_avma, size) = (number(0..first_end)?, number(first_end + 1..second_end)?);
    let name = second_end + 1..line.len();
    (!name.is_empty()).then(|| (start_avma..start_avma.saturating_add(size.max(1)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &[u8]) -> (tempfile::TempDir, PerfMap) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("perf-4194305.map"), text).unwrap();
        let map = PerfMap::open(4_194_305, dir.path()).unwrap();
        (dir, map)
    }

    #[test]
    fn names_with_spaces_prefixes_and_gaps() {
        let (_dir, map) = map(b"1000 10 LazyCompile:~run /srv/app.js:3\n0x2000 0x20 stub\r\nnonsense\n3000 zz bad\n\n4000 10 \n");
        assert_eq!(map.function_at(0x100f).as_deref(), Some("LazyCompile:~run /srv/app.js:3"));
        assert_eq!(map.function_at(0x2000).as_deref(), Some("stub"));
        for avma in [0, 0xfff, 0x1010, 0x2020, 0x3000, 0x4000, u64::MAX] {
            assert_eq!(map.function_at(avma), None, "{avma:#x}");
        }
    }

    #[test]
    fn reused_memory_has_the_last_name() {
        let (_dir, map) = map(b"1000 100 old\n1000 10 new\n1080 10 newer\n1000 8 newest\n");
        assert_eq!(map.function_at(0x1000).as_deref(), Some("newest"));
        assert_eq!(map.function_at(0x1008).as_deref(), Some("new"));
        assert_eq!(map.function_at(0x1010).as_deref(), Some("old"));
        assert_eq!(map.function_at(0x1085).as_deref(), Some("newer"));
        assert_eq!(map.function_at(0x1090).as_deref(), Some("old"));
    }

    #[test]
    fn a_grown_map_is_noticed() {
        let (dir, map) = map(b"1000 10 a\n");
        assert!(map.is_current());
        std::fs::write(dir.path().join("perf-4194305.map"), b"1000 10 a\n2000 10 b\n").unwrap();
        assert!(!map.is_current());
    }

    #[test]
    fn every_truncation_is_read() {
        let text = b"fffffffffffffff0 ffff top\n1000 10 \xff\xfe\n";
        for len in 0..=text.len() {
            let (_dir, map) = map(&text[..len]);
            map.function_at(0x1000);
        }
    }
}
