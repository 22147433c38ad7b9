//! `address-space`: fills its address space in the way of one's choice, then maps a little code now
//! and then and says how long that took.
//!
//! It does not hang by itself: it is somebody for `unhitch scan` to look at, and it notices when
//! the one who looks keeps it waiting.
//!
//! *The bitmap* is the story of a browser whose mail could not be typed: a bitmap of the whole
//! address space, of 2 TiB, has a page of 4 KiB for each 256 KiB of code. Code is put at random
//! addresses; its page of the bitmap is committed, and stays when the code is freed. In the end
//! there are 24,866 pages of it, in 59 MiB of page tables, for 98 blocks of code. On Linux, where a
//! mapping is split by what may be done with it, these pages are nearly 50,000 mappings as well.

use crate::sys::{self, Mapping, StopSignals};
use std::collections::HashSet;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::time::Duration;

/// How the code lies in the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One block of 256 MiB.
    OneBig,
    /// Blocks of 16 MiB.
    FewBig,
    /// Blocks of 4 KiB, one page apart.
    ManyBlocks,
    /// Blocks of 4 KiB, 10 GiB apart.
    SuperSparse,
    /// Blocks of 4 KiB at random addresses.
    Random,
    /// 98 blocks at random addresses, and the bitmap of all that there ever were.
    Bitmap,
}

/// All layouts by the word that the user types.
pub const LAYOUTS: [(&str, Layout); 6] = [
    ("one-big", Layout::OneBig),
    ("few-big", Layout::FewBig),
    ("many-blocks", Layout::ManyBlocks),
    ("super-sparse", Layout::SuperSparse),
    ("random", Layout::Random),
    ("bitmap", Layout::Bitmap),
];

/// How the program is to be run.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    /// How it fills its address space.
    pub layout: Layout,
    /// How many blocks; by default what the layout is known for.
    pub blocks: Option<usize>,
    /// How often it maps 4 KiB of code.
    pub period: Duration,
    /// A mapping that took longer is told at once.
    pub limit: Duration,
    /// How long it does so, once its address space is filled; at most an hour.
    pub run: Duration,
}

const PAGE: usize = 4 << 10;
const BIG: usize = 256 << 20;
const SPARSE_STRIDE: usize = 10 << 30;
/// Where nothing is by itself: from 1 TiB to 126 TiB.
const LOWEST: usize = 1 << 40;
const HIGHEST: usize = 126 << 40;

const BITMAP_BYTES: usize = 2 << 40;
/// Code that one page of the bitmap stands for.
const CODE_PER_PAGE: usize = 256 << 10;
const BITMAP_PAGES: usize = 24_866;
const BLOCKS_LEFT: usize = 98;
/// Compilers put code beside code. With so many stretches of 128 MiB (2 MiB of the bitmap, a page
/// table) its page tables are the 59 MiB of the story.
const CODE_STRETCHES: usize = 17_500;
const STRETCH: usize = 128 << 20;

const LONGEST: Duration = Duration::from_secs(3600);

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * end as u128) >> 64) as usize
    }
}

/// Addresses that were mapped in order, until there are enough; those that are taken are left out.
fn blocks(
    bytes: usize,
    wanted: usize,
    mut addresses: impl Iterator<Item = usize>,
) -> io::Result<Vec<Mapping>> {
    let mut blocks = Vec::new();
    while blocks.len() < wanted
        && let Some(address) = addresses.next()
    {
        if let Some(block) = Mapping::executable_at(address, bytes)? {
            let block = block.in_small_pages();
            block.populate(true)?;
            blocks.push(block);
        }
    }
    Ok(blocks)
}

/// Fills this process's address space, until what is returned is dropped.
pub(crate) fn fill(layout: Layout, wanted: Option<usize>) -> io::Result<Vec<Mapping>> {
    let mut dice = Dice(1);
    let stride = |stride: usize| (LOWEST..HIGHEST).step_by(stride);
    match layout {
        Layout::OneBig => blocks(BIG, wanted.unwrap_or(1), stride(2 * BIG)),
        Layout::FewBig => blocks(BIG / 16, wanted.unwrap_or(16), stride(BIG)),
        Layout::ManyBlocks => blocks(PAGE, wanted.unwrap_or(16 << 10), stride(2 * PAGE)),
        Layout::SuperSparse => blocks(PAGE, wanted.unwrap_or(usize::MAX), stride(SPARSE_STRIDE)),
        Layout::Random => {
            let anywhere =
                std::iter::repeat_with(|| LOWEST + dice.below((HIGHEST - LOWEST) / PAGE) * PAGE);
            blocks(PAGE, wanted.unwrap_or(16 << 10), anywhere)
        }
        Layout::Bitmap => bitmap(&mut dice, wanted.unwrap_or(BITMAP_PAGES)),
    }
}

/// The bitmap, and the blocks of code that are left.
fn bitmap(dice: &mut Dice, pages: usize) -> io::Result<Vec<Mapping>> {
    let bitmap = Mapping::reserved(BITMAP_BYTES)?;
    let stretches: Vec<usize> = (0..CODE_STRETCHES)
        .map(|_| LOWEST + dice.below((HIGHEST - LOWEST) / STRETCH) * STRETCH)
        .collect();
    let (mut committed, mut left) = (HashSet::new(), Vec::new());
    while committed.len() < pages {
        let stretch = stretches.get(dice.below(stretches.len())).copied().unwrap_or(LOWEST);
        let address = stretch + dice.below(STRETCH / CODE_PER_PAGE) * CODE_PER_PAGE;
        // Where other code still lies, or the bitmap itself.
        let Some(code) = Mapping::executable_at(address, PAGE)? else { continue };
        let page = address / CODE_PER_PAGE;
        if committed.insert(page) {
            bitmap.commit(page * PAGE, PAGE)?;
        }
        if left.len() < BLOCKS_LEFT
            && committed.len() * (BLOCKS_LEFT + 1) > (left.len() + 1) * pages
        {
            left.push(code);
        }
    }
    left.push(bitmap);
    Ok(left)
}

/// How many took how long, by powers of two of a microsecond.
#[derive(Default)]
struct Histogram {
    counts: [u64; 32],
    longest_ns: u64,
}

impl Histogram {
    fn note(&mut self, ns: u64) {
        let class = ns.div_ceil(1000).max(1).next_power_of_two().trailing_zeros() as usize;
        if let Some(count) = self.counts.get_mut(class.min(31)) {
            *count += 1;
        }
        self.longest_ns = self.longest_ns.max(ns);
    }

    fn print(&self) {
        let total: u64 = self.counts.iter().sum();
        say(format_args!("{total} times mapped; slowest {:.1} µs", self.longest_ns as f64 / 1e3));
        for (class, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bar = "█".repeat((count * 50).div_ceil(total.max(1)) as usize);
            say(format_args!("  ≤ {:>8} µs {count:>8}  {bar}", 1_u64 << class));
        }
    }
}

impl AddressSpace {
    /// Runs it: says on standard output when its address space is filled, each mapping that took
    /// too long, and in the end how long they took. Ends after [`Self::run`], or on SIGINT or
    /// SIGTERM.
    pub fn run(&self) -> io::Result<()> {
        if self.run > LONGEST || self.period.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it runs an hour at most, and its period is not zero",
            ));
        }
        sys::set_name("lab-addr-space")?;
        sys::bound_this_process(u32::try_from(LONGEST.as_secs()).unwrap_or(3600) + 60)?;
        let start_ns = sys::monotonic_ns();
        let filled = fill(self.layout, self.blocks).map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => {
                io::Error::new(error.kind(), "the kernel allows no more mappings (sysctl vm.max_map_count), or there is no more memory")
            }
            _ => error,
        })?;
        let word =
            LAYOUTS.iter().find(|(_, layout)| *layout == self.layout).map_or("", |(word, _)| word);
        say(format_args!(
            "ready: {word}, {} mapped in {:.3} s; process {}",
            if self.layout == Layout::Bitmap {
                format!(
                    "{} blocks of code and a bitmap of 2 TiB with {} pages",
                    filled.len() - 1,
                    self.blocks.unwrap_or(BITMAP_PAGES)
                )
            } else {
                format!("{} blocks of code", filled.len())
            },
            (sys::monotonic_ns() - start_ns) as f64 / 1e9,
            std::process::id()
        ));
        self.measure()?.print();
        Ok(())
    }

    /// Maps code again and again. It is unmapped at once, which is not timed: so the address space
    /// is the same all the time.
    #[inline(never)]
    fn measure(&self) -> io::Result<Histogram> {
        let signals = StopSignals::block()?;
        let mut histogram = Histogram::default();
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let start_ns = sys::monotonic_ns();
        let (mut next_ns, end_ns) = (start_ns + ns(self.period), start_ns + ns(self.run));
        loop {
            let until_ns = next_ns.min(end_ns);
            while sys::monotonic_ns() < until_ns {
                // Taken, or it would end the program as soon as it is no longer blocked.
                if sys::wait_readable([signals.as_fd()], until_ns)?[0] && signals.take().is_some() {
                    return Ok(histogram);
                }
            }
            if until_ns >= end_ns {
                return Ok(histogram);
            }
            let before_ns = sys::monotonic_ns();
            let code = Mapping::executable(PAGE)?;
            let took_ns = sys::monotonic_ns() - before_ns;
            drop(code);
            histogram.note(took_ns);
            if took_ns > ns(self.limit) {
                let at_s = (before_ns - start_ns) as f64 / 1e9;
                say(format_args!(
                    "{at_s:9.3} s  mapping 4 KiB of code took {:.1} µs",
                    took_ns as f64 / 1e3
                ));
            }
            // What was missed while it waited is not made up for.
            next_ns = (next_ns + ns(self.period)).max(sys::monotonic_ns());
        }
    }
}

/// A line on standard output, which somebody may have closed.
fn say(text: Arguments) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_powers_of_two() {
        let mut histogram = Histogram::default();
        for ns in [0, 1000, 1001, 2000, 5000, u64::MAX] {
            histogram.note(ns);
        }
        assert_eq!((&histogram.counts[..4], histogram.counts[31]), (&[2, 2, 0, 1][..], 1));
        assert_eq!(histogram.longest_ns, u64::MAX);
    }

    #[test]
    fn dice_stay_below_their_end_and_come_everywhere() {
        let mut dice = Dice(1);
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[dice.below(7)] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        let plan = AddressSpace {
            layout: Layout::OneBig,
            blocks: None,
            period: Duration::ZERO,
            limit: Duration::ZERO,
            run: Duration::from_secs(1),
        };
        assert_eq!(plan.run().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
