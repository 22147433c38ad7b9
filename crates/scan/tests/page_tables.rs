//! The simulated page tables equal those allocated by this machine's kernel, to the byte, however
//! memory is used.
//!
//! Each case runs in its own process (this program again), which is scanned before and after it, so
//! that what the C library did before does not count. A busy machine may reclaim file pages in
//! between, which empties tables; then a case is repeated, up to five times.

#![allow(missing_docs)]

use memory::{PAGE, Region};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use unhitch_scan::{AddressSpace, Options, scan};

#[allow(unsafe_code)]
mod memory;

const CASE: &str = "UNHITCH_SCAN_CASE";
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
const TABLE: u64 = 4096;
/// An address where nothing is mapped by default; the start of a 512 GiB unit.
const HERE: usize = 0x1000_0000_0000;
const GUARD_INSTALL: i32 = 102;

type Case = (&'static str, fn() -> io::Result<()>);

fn private(bytes: usize) -> io::Result<Region> {
    Region::new(HERE, bytes, RW, false)
}

fn write_all(region: Region, range: std::ops::Range<usize>, step: usize) {
    range.step_by(step).for_each(|offset| region.write(offset));
}

/// A page, followed in the same 1 GiB unit by 64 MiB that are all freed again.
fn give_back(piece: usize) -> io::Result<()> {
    let region = private(66 * MIB)?;
    write_all(region, 0..1, PAGE);
    write_all(region, 2 * MIB..66 * MIB, PAGE);
    (2 * MIB..66 * MIB)
        .step_by(piece)
        .try_for_each(|offset| region.advise(offset, piece, libc::MADV_DONTNEED))
}

fn huge(shared: bool) -> io::Result<Region> {
    let region = Region::new(HERE, 16 * MIB, RW, shared)?;
    region.advise(0, 16 * MIB, libc::MADV_HUGEPAGE)?;
    write_all(region, 0..16 * MIB, 2 * MIB);
    Ok(region)
}

const CASES: &[Case] = &[
    ("sparse_2_mib", || private(GIB).map(|region| write_all(region, 0..GIB, 2 * MIB))),
    ("sparse_1_gib", || private(1536 * GIB).map(|region| write_all(region, 0..1536 * GIB, GIB))),
    ("dense", || private(65 * MIB).map(|region| write_all(region, 3 * PAGE..65 * MIB, PAGE))),
    ("huge", || huge(false).map(drop)),
    ("huge_zero", || {
        let region = private(16 * MIB)?;
        region.advise(0, 16 * MIB, libc::MADV_HUGEPAGE)?;
        (0..16 * MIB).step_by(2 * MIB).for_each(|offset| assert_eq!(region.read(offset), 0));
        Ok(())
    }),
    ("huge_shared", || huge(true).map(drop)),
    ("huge_split", || {
        let region = huge(false)?;
        // Half of one huge page becomes read-only, and one page of another is freed.
        region.protect(4 * MIB, MIB, libc::PROT_READ)?;
        region.advise(8 * MIB, PAGE, libc::MADV_DONTNEED)
    }),
    ("shared", || {
        Region::new(HERE, 40 * MIB, RW, true).map(|region| write_all(region, 0..40 * MIB, 5 * PAGE))
    }),
    ("zero_page", || {
        let region = private(GIB)?;
        (0..GIB).step_by(3 * MIB).for_each(|offset| assert_eq!(region.read(offset), 0));
        Ok(())
    }),
    ("no_access", || {
        let region = Region::new(HERE, 2048 * GIB, libc::PROT_NONE, false)?;
        // Written once, then made inaccessible.
        for offset in (0..2048 * GIB).step_by(7 * GIB) {
            region.protect(offset, PAGE, RW)?;
            region.write(offset);
            region.protect(offset, PAGE, libc::PROT_NONE)?;
        }
        Ok(())
    }),
    ("guards", || {
        let region = private(64 * MIB)?;
        // This needs Linux 6.13.
        match region.advise(0, 32 * MIB, GUARD_INSTALL) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }),
    ("given_back_by_4_kib", || give_back(PAGE)),
    ("given_back_by_1_mib", || give_back(MIB)),
    ("given_back_at_once", || give_back(64 * MIB)),
];

/// Not a test, but the process that is scanned.
#[test]
fn target() {
    let Ok(name) = std::env::var(CASE) else { return };
    let run = CASES.iter().find(|(case, _)| *case == name).unwrap().1;
    let mut line = String::new();
    // This also allocates what reading and writing need.
    println!("\nwaiting");
    io::stdin().read_line(&mut line).unwrap();
    run().unwrap();
    println!("ready");
    io::stdin().read_line(&mut line).unwrap();
}

struct Target {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Target {
    fn start(case: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "target", "--nocapture", "--test-threads=1"])
            .env(CASE, case)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self { child, stdout };
        target.wait_for("waiting");
        target
    }

    fn wait_for(&mut self, word: &str) {
        let mut all = String::new();
        while !all.trim_end().ends_with(word) {
            assert_ne!(
                self.stdout.read_line(&mut all).unwrap(),
                0,
                "the target ended, and printed {all:?}"
            );
        }
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        self.wait_for("ready");
    }

    fn scan(&self) -> AddressSpace {
        scan(self.child.id(), &Options { pages: true, force: true, by_text: false }, &mut |_| {})
            .unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.stdout.read_to_end(&mut Vec::new());
        let _ = self.child.wait();
    }
}

/// What a case added.
#[derive(Debug)]
struct Added {
    allocated: u64,
    needed: u64,
    huge: u64,
    resident: u64,
}

/// Empty tables in it, in bytes.
impl Added {
    fn empty(&self) -> u64 {
        self.allocated.checked_sub(self.needed).expect("no page is without a table")
    }
}

/// Runs a case until `is_expected`, at most five times.
fn run(case: &str, is_expected: impl Fn(&Added) -> bool) -> Added {
    let mut tried = Vec::new();
    for _ in 0..5 {
        let mut target = Target::start(case);
        let before = target.scan();
        target.go();
        let after = target.scan();
        let needed = |space: &AddressSpace| space.page_tables.needed_bytes.unwrap();
        let pages = |space: &AddressSpace| space.total.pages.unwrap();
        assert!(after.warnings.is_empty(), "{case}: {:?}", after.warnings);
        let by_group: u64 = after.groups.iter().map(|group| group.figures.table_bytes()).sum();
        assert_eq!(
            by_group,
            pages(&after).table_bytes,
            "{case}: what the groups need is what all need"
        );
        let added = Added {
            allocated: after.page_tables.allocated_bytes - before.page_tables.allocated_bytes,
            needed: needed(&after) - needed(&before),
            huge: pages(&after).huge_bytes - pages(&before).huge_bytes,
            resident: pages(&after).resident_bytes.saturating_sub(pages(&before).resident_bytes),
        };
        if is_expected(&added) {
            return added;
        }
        tried.push(added);
    }
    panic!("{case}: not as expected in five runs: {tried:?}");
}

fn equal(added: &Added) -> bool {
    added.allocated == added.needed
}

#[test]
fn scattered_pages() {
    // 512 tables for 512 pages, a directory for their 1 GiB, and one above for their 512 GiB.
    assert_eq!(run("sparse_2_mib", equal).needed, (512 + 1 + 1) * TABLE);
    // A table and a directory for each page, three above for 1.5 TiB.
    assert_eq!(run("sparse_1_gib", equal).needed, (1536 + 1536 + 3) * TABLE);
}

#[test]
fn dense_and_shared_memory() {
    let dense = run("dense", equal);
    assert_eq!(
        (dense.needed, dense.resident >= 65 * MIB as u64 - 3 * TABLE),
        ((33 + 2) * TABLE, true)
    );
    assert_eq!(run("shared", equal).needed, (20 + 2) * TABLE);
}

#[test]
fn pages_without_memory() {
    // Every third MiB of a GiB, 342 in all, is in its own 2 MiB unit.
    let zero = run("zero_page", equal);
    assert_eq!((zero.needed, zero.resident < MIB as u64), ((342 + 2) * TABLE, true));
    // 293 pages, 7 GiB apart: each needs a table and a directory; four above.
    assert_eq!(run("no_access", equal).needed, (293 + 293 + 4) * TABLE);
    // 16 tables, if the kernel has such guards.
    let guards = run("guards", equal).needed;
    assert!(guards == (16 + 2) * TABLE || guards == 0, "{guards}");
}

#[test]
fn huge_pages_whole_and_split() {
    for case in ["huge", "huge_zero", "huge_split"] {
        // Eight tables, in use or in reserve.
        assert_eq!(run(case, equal).needed, (8 + 2) * TABLE, "{case}");
    }
    let tables = |huge: u64| 8 - huge / (2 * MIB as u64) + 2;
    let shared = run("huge_shared", equal);
    assert_eq!(shared.needed, tables(shared.huge) * TABLE);
    let (whole, split) = (run("huge", equal), run("huge_split", equal));
    if whole.huge == 0 || split.huge == 0 {
        println!(
            "SKIPPED huge_pages_whole_and_split: no huge pages to be had, so only small ones were counted"
        );
        return;
    }
    assert!(whole.huge <= 16 * MIB as u64 && split.huge <= 12 * MIB as u64, "{whole:?} {split:?}");
}

#[test]
fn memory_freed_in_pieces_keeps_its_tables() {
    let leak = 32 * TABLE;
    for case in ["given_back_by_4_kib", "given_back_by_1_mib"] {
        let added = run(case, |added| added.empty() == leak);
        assert_eq!(added.needed, 3 * TABLE, "{case}: what the page that is left needs");
    }
    // Since Linux 6.14, tables are freed together with everything they map.
    run("given_back_at_once", |added| added.empty() == 0 || added.empty() == leak);
}

#[test]
fn both_ways_to_list_mappings_agree() {
    let mut target = Target::start("no_access");
    target.go();
    let options = |by_text| Options { pages: true, force: true, by_text };
    let scan_by = |by_text| scan(target.child.id(), &options(by_text), &mut |_| {}).unwrap();
    let mut tries = (0..5).map(|_| [false, true].map(scan_by));
    // If the machine reclaims pages between the two, repeat both.
    let [asked, read] = tries
        .find(|[asked, read]| asked.groups == read.groups)
        .expect("one of five pairs is of the same pages");
    assert_eq!(read.method.interface, "/proc/PID/maps");
    assert_eq!(asked.groups, read.groups);
    assert_eq!((&asked.total, asked.page_tables), (&read.total, read.page_tables));
    assert!(asked.method.calls.longest_call_ns > 0);
    // Before Linux 6.11, both use the text.
    assert!(
        asked.method.calls.calls > asked.total.mappings
            || asked.method.interface == read.method.interface
    );
}
