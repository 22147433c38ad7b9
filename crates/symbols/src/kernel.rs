//! Names kernel addresses from the running kernel's symbol list.
//!
//! Format: `/proc/kallsyms`, a line `ADDRESS TYPE name[\t[module]]` per symbol
//! (`kernel/kallsyms.c`, `s_show`), with the types of `nm(1)`. *Why all types are kept*: symbols
//! have no size, so a function ends where anything else begins.

use crate::files::{Files, Wanted};
use rustc_hash::FxHashSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Maximum number of bytes that are read of the list. Real ones have 5 to 20 MB.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// Maximum length of a function, bytes. The last function of a module is followed by a gap.
const MAX_FUNCTION_BYTES: u64 = 64 << 10;

/// The kernel's symbols. They are read again when modules come or go, or when an address is not
/// found.
#[derive(Default)]
pub(crate) struct Kernel {
    table: Table,
    /// The module list when the table was read.
    modules: Option<Vec<u8>>,
    /// Addresses that the table does not have.
    unknown: FxHashSet<u64>,
}

/// Why kernel frames have no names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unnamed {
    /// The list cannot be read.
    Unreadable(PathBuf, io::ErrorKind),
    /// The list has zeros instead of addresses.
    Hidden(PathBuf),
}

impl Unnamed {
    /// The warning.
    pub(crate) fn warning(&self) -> String {
        match self {
            Self::Unreadable(path, kind) => format!(
                "kernel functions have no names: {} cannot be read ({kind})",
                path.display()
            ),
            Self::Hidden(path) => format!(
                "kernel functions have no names: {} hides its addresses; run as root or with CAP_SYSLOG, or set `sysctl -w \
                 kernel.kptr_restrict=0 \
                 kernel.perf_event_paranoid=1` (kernel.kptr_restrict=2 hides them from root too)",
                path.display()
            ),
        }
    }
}

impl Kernel {
    /// Names each of `avmas` from the list in `kallsyms`.
    pub(crate) fn name(
        &mut self,
        files: &dyn Files,
        kallsyms: &Path,
        avmas: &[u64],
    ) -> Result<Vec<Option<String>>, Unnamed> {
        let modules = files.open(&Wanted::KernelModules).and_then(read).unwrap_or_default();
        let is_new =
            |avma: &u64| !self.unknown.contains(avma) && self.table.function_at(*avma).is_none();
        if self.modules.as_ref() != Some(&modules) || avmas.iter().any(is_new) {
            self.table = Table::read(files.open(&Wanted::KernelSymbols), kallsyms)?;
            self.modules = Some(modules);
            self.unknown = avmas
                .iter()
                .copied()
                .filter(|avma| self.table.function_at(*avma).is_none())
                .collect();
        }
        Ok(avmas.iter().map(|avma| self.table.function_at(*avma)).collect())
    }
}

/// From the start of the function at `avma` to the next symbol, by the list in `kallsyms`.
pub(crate) fn extent_at(kallsyms: &Path, avma: u64) -> Option<Range<u64>> {
    Table::read(File::open(kallsyms), kallsyms).ok()?.extent_at(avma)
}

/// Names each of `avmas` from a list in memory.
pub(crate) fn names(list: Vec<u8>, avmas: &[u64]) -> Vec<Option<String>> {
    let table = Table::parse(list);
    avmas.iter().map(|&avma| table.function_at(avma)).collect()
}

fn read(list: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    list.take(MAX_LIST_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Every symbol, by address.
#[derive(Default)]
struct Table {
    symbols: Vec<Symbol>,
    text: Vec<u8>,
}

/// A symbol. `name` is where its name starts in the text; the name ends with the line.
struct Symbol {
    avma: u64,
    name: u32,
    kind: u8,
}

impl Table {
    fn read(list: io::Result<File>, path: &Path) -> Result<Self, Unnamed> {
        let text = list
            .and_then(read)
            .map_err(|error| Unnamed::Unreadable(path.to_owned(), error.kind()))?;
        let table = Self::parse(text);
        if table.symbols.iter().all(|symbol| symbol.avma == 0) {
            Err(Unnamed::Hidden(path.to_owned()))
        } else {
            Ok(table)
        }
    }

    fn parse(text: Vec<u8>) -> Self {
        let mut symbols = Vec::with_capacity(text.len() / 32);
        let mut line_start = 0;
        for line in text.split(|&byte| byte == b'\n') {
            if let Some((avma, kind, name)) = parse_line(line) {
                symbols.push(Symbol {
                    avma,
                    name: u32::try_from(line_start + name).unwrap_or(u32::MAX),
                    kind,
                });
            }
            line_start += line.len() + 1;
        }
        // If an address has several names, the kernel itself prints the first global one.
        symbols.sort_by_key(|symbol| {
            (symbol.avma, !symbol.kind.is_ascii_uppercase() || symbol.kind == b'W', symbol.name)
        });
        Self { symbols, text }
    }

    /// The extent of the function at `avma`, at most [`MAX_FUNCTION_BYTES`] long.
    fn extent_at(&self, avma: u64) -> Option<Range<u64>> {
        let after = self.symbols.partition_point(|symbol| symbol.avma <= avma);
        let start_avma = self.symbols.get(after.checked_sub(1)?)?.avma;
        let end_avma = self
            .symbols
            .get(after)
            .map_or(u64::MAX, |symbol| symbol.avma)
            .min(start_avma.saturating_add(MAX_FUNCTION_BYTES));
        (start_avma != 0 && avma < end_avma).then_some(start_avma..end_avma)
    }

    fn function_at(&self, avma: u64) -> Option<String> {
        let after = self.symbols.partition_point(|symbol| symbol.avma <= avma);
        let start_avma = self.extent_at(avma)?.start;
        let first = self.symbols.partition_point(|symbol| symbol.avma < start_avma);
        let function = self
            .symbols
            .get(first..after)?
            .iter()
            .find(|symbol| matches!(symbol.kind, b't' | b'T' | b'w' | b'W'))?;
        let name = self.text.get(function.name as usize..)?;
        let line = name.split(|&byte| byte == b'\n').next()?;
        Some(String::from_utf8_lossy(line).trim_end().replace('\t', " "))
    }
}

/// Address, type and where the name starts in `line`. Addresses have 8 or 16 digits.
fn parse_line(line: &[u8]) -> Option<(u64, u8, usize)> {
    let digits =
        line.iter().position(|&byte| byte == b' ').filter(|digits| (1..=16).contains(digits))?;
    let avma = line[..digits].iter().try_fold(0_u64, |value, &digit| {
        Some(value << 4 | u64::from((digit as char).to_digit(16)?))
    })?;
    let [b' ', kind, b' ', _, ..] = line.get(digits..)? else { return None };
    Some((avma, *kind, digits + 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::LocalFiles;

    fn kernel_names(
        kernel: &mut Kernel,
        kallsyms: &Path,
        avmas: &[u64],
    ) -> Result<Vec<Option<String>>, Unnamed> {
        let files = LocalFiles { kallsyms: kallsyms.to_owned(), perf_map_dir: "/nowhere".into() };
        kernel.name(&files, kallsyms, avmas)
    }

    const LIST: &str = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 t helper\nffffffff81000100 W sys_alias\n\
        ffffffff81000100 T real\nffffffff81000200 d table\nffffffff81000300 t last\nffffffffc0000000 t ext4_find\t[ext4]\n\
        ffffffffc0100000 t bpf_prog_12ab_trace\t[bpf]\n";

    fn name(table: &Table, avma: u64) -> Option<String> {
        table.function_at(avma)
    }

    #[test]
    fn functions_end_where_anything_begins() {
        let table = Table::parse(LIST.into());
        assert_eq!(name(&table, 0xffff_ffff_8100_0000).as_deref(), Some("_stext"));
        assert_eq!(name(&table, 0xffff_ffff_8100_01ff).as_deref(), Some("real"));
        assert_eq!(name(&table, 0xffff_ffff_8100_0200), None, "data");
        assert_eq!(name(&table, 0xffff_ffff_8100_0301).as_deref(), Some("last"));
        assert_eq!(
            name(&table, 0xffff_ffff_8200_0000),
            None,
            "behind the last function of the kernel"
        );
        assert_eq!(name(&table, 0xffff_ffff_c000_0010).as_deref(), Some("ext4_find [ext4]"));
        assert_eq!(
            name(&table, 0xffff_ffff_c010_0000).as_deref(),
            Some("bpf_prog_12ab_trace [bpf]")
        );
        assert_eq!(name(&table, 0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(&table, 0), None);
        assert_eq!(name(&table, u64::MAX), None);
        assert_eq!(
            table.extent_at(0xffff_ffff_8100_01ff),
            Some(0xffff_ffff_8100_0100..0xffff_ffff_8100_0200)
        );
    }

    #[test]
    fn zeros_are_not_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        std::fs::write(&path, "0000000000000000 T _text\n0000000000000000 t helper\n").unwrap();
        let hidden = kernel_names(&mut Kernel::default(), &path, &[1]).unwrap_err();
        assert_eq!(hidden, Unnamed::Hidden(path));
        assert!(
            hidden.warning().contains("sysctl -w kernel.kptr_restrict=0"),
            "{}",
            hidden.warning()
        );
        let gone =
            kernel_names(&mut Kernel::default(), &dir.path().join("gone"), &[1]).unwrap_err();
        assert!(gone.warning().contains("entity not found"), "{}", gone.warning());
    }

    #[test]
    fn the_list_is_read_again_only_for_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kallsyms");
        let mut kernel = Kernel::default();
        let mut ask = |avma| kernel_names(&mut kernel, &path, &[avma]).unwrap()[0].clone();
        std::fs::write(&path, "1000 T one\n3000 d end\n").unwrap();
        assert_eq!(ask(0x1000).as_deref(), Some("one"));
        std::fs::write(&path, "1000 T uno\n2000 T two\n3000 d end\n4000 T four\n").unwrap();
        assert_eq!(ask(0x1000).as_deref(), Some("one"), "known: not read again");
        assert_eq!(ask(0x4000).as_deref(), Some("four"), "unknown: read again");
        assert_eq!(ask(0x5_0000), None);
        std::fs::write(&path, "5000 T five\n50000 T six\n").unwrap();
        assert_eq!(ask(0x5_0000), None, "known to be unknown");
        std::fs::write(dir.path().join("modules"), "ext4 1 0 - Live 0x0\n").unwrap();
        assert_eq!(ask(0x5_0000).as_deref(), Some("six"), "a module was loaded");
    }

    #[test]
    fn damaged_lists_are_read() {
        for len in 0..=LIST.len() {
            Table::parse(LIST.as_bytes()[..len].to_vec()).function_at(0xffff_ffff_8100_0000);
        }
        let table = Table::parse(
            b"\n \nzz T a\n10 T\n10 T \n10000000000000000 T long\n20 T \xff\xfe\n".to_vec(),
        );
        assert_eq!(name(&table, 0x20).as_deref(), Some("\u{fffd}\u{fffd}"));
        assert_eq!(name(&table, 0x10), None);
    }

    #[test]
    fn live_kallsyms_has_names() {
        let list = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let find = |name: &str| {
            list.lines()
                .find(|line| line.ends_with(name))
                .and_then(|line| u64::from_str_radix(&line[..16], 16).ok())
        };
        let Some(avma) = find(" T schedule").filter(|&avma| avma != 0) else {
            println!("skipped: /proc/kallsyms shows no addresses to this user");
            return;
        };
        let names =
            kernel_names(&mut Kernel::default(), Path::new("/proc/kallsyms"), &[avma + 1, 1])
                .unwrap();
        assert_eq!(names, [Some("schedule".to_owned()), None]);
    }
}
