//! `address-space`: fills its address space with the chosen layout, then keeps mapping a little
//! code and prints how long that takes.
//!
//! It does not hang by itself: it is a target for `unhitch scan`, and it notices when a scanner
//! makes it wait.
//!
//! *The bitmap* comes from the story of a browser in which an e-mail could not be typed. A bitmap
//! of the whole address space, 2 TiB large, has a page of 4 KiB for each 256 KiB of code. Code is
//! placed at random addresses; its page of the bitmap is committed, and stays committed when the
//! code is freed. In the end there are 24,866 pages, in 59 MiB of page tables, for 98 blocks of
//! code. On Linux, where a mapping is split by its protection, these pages are also nearly 50,000
//! mappings.

use crate::sys::{self, Mapping, StopSignals};
use std::collections::HashSet;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::time::Duration;

/// The layout of the code in the address space.
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
    /// 98 blocks at random addresses, and the bitmap of all blocks that ever existed.
    Bitmap,
}

/// All layouts, by the name that the user types.
pub const LAYOUTS: [(&str, Layout); 6] = [
    ("one-big", Layout::OneBig),
    ("few-big", Layout::FewBig),
    ("many-blocks", Layout::ManyBlocks),
    ("super-sparse", Layout::SuperSparse),
    ("random", Layout::Random),
    ("bitmap", Layout::Bitmap),
];

/// How to run the program.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    /// The layout of its address space.
    pub layout: Layout,
    /// Number of blocks; by default, what the layout is known for.
    pub blocks: Option<usize>,
    /// Interval at which to map 4 KiB of code.
    pub period: Duration,
    /// A mapping that takes longer than this is reported at once.
    pub limit: Duration,
    /// How long to do so once the address space is filled; at most an hour.
    pub run: Duration,
}

const PAGE: usize = 4 << 10;
const BIG: usize = 256 << 20;
const SPARSE_STRIDE: usize = 10 << 30;
/// The range of addresses that is empty by default: 1 TiB to 126 TiB.
const RANGE_START: usize = 1 << 40;
const RANGE_END: usize = 126 << 40;

const BITMAP_BYTES: usize = 2 << 40;
/// Bytes of code that one page of the bitmap covers.
const CODE_PER_PAGE: usize = 256 << 10;
const BITMAP_PAGES: usize = 24_866;
const BLOCKS_LEFT: usize = 98;
/// Number of stretches of 128 MiB that contain code, as compilers place code next to code. A
/// stretch takes 2 MiB of the bitmap, which is one page table; with this many of them, the page
/// tables have the 59 MiB of the story.
const CODE_STRETCHES: usize = 17_500;
const STRETCH: usize = 128 << 20;

/// Maximum length of a run.
const MAX_RUN: Duration = Duration::from_secs(3600);

/// Pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * end as u128) >> 64) as usize
    }
}

/// Maps blocks at `addresses`, in order, until there are enough. Addresses in use are skipped.
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

/// Fills this process's address space until the result is dropped.
pub(crate) fn fill(layout: Layout, wanted: Option<usize>) -> io::Result<Vec<Mapping>> {
    let mut random = Random(1);
    let stride = |stride: usize| (RANGE_START..RANGE_END).step_by(stride);
    match layout {
        Layout::OneBig => blocks(BIG, wanted.unwrap_or(1), stride(2 * BIG)),
        Layout::FewBig => blocks(BIG / 16, wanted.unwrap_or(16), stride(BIG)),
        Layout::ManyBlocks => blocks(PAGE, wanted.unwrap_or(16 << 10), stride(2 * PAGE)),
        Layout::SuperSparse => blocks(PAGE, wanted.unwrap_or(usize::MAX), stride(SPARSE_STRIDE)),
        Layout::Random => {
            let anywhere = std::iter::repeat_with(|| {
                RANGE_START + random.below((RANGE_END - RANGE_START) / PAGE) * PAGE
            });
            blocks(PAGE, wanted.unwrap_or(16 << 10), anywhere)
        }
        Layout::Bitmap => bitmap(&mut random, wanted.unwrap_or(BITMAP_PAGES)),
    }
}

/// The bitmap, and the remaining blocks of code.
fn bitmap(random: &mut Random, pages: usize) -> io::Result<Vec<Mapping>> {
    let bitmap = Mapping::reserved(BITMAP_BYTES)?;
    let stretches: Vec<usize> = (0..CODE_STRETCHES)
        .map(|_| RANGE_START + random.below((RANGE_END - RANGE_START) / STRETCH) * STRETCH)
        .collect();
    let (mut committed, mut left) = (HashSet::new(), Vec::new());
    while committed.len() < pages {
        let stretch = stretches.get(random.below(stretches.len())).copied().unwrap_or(RANGE_START);
        let address = stretch + random.below(STRETCH / CODE_PER_PAGE) * CODE_PER_PAGE;
        // Other code is still there, or the bitmap itself.
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

/// Counts by duration, in powers of two of a microsecond.
#[derive(Default)]
struct Histogram {
    counts: [u64; 32],
    max_ns: u64,
}

impl Histogram {
    fn note(&mut self, ns: u64) {
        let class = ns.div_ceil(1000).max(1).next_power_of_two().trailing_zeros() as usize;
        if let Some(count) = self.counts.get_mut(class.min(31)) {
            *count += 1;
        }
        self.max_ns = self.max_ns.max(ns);
    }

    fn print(&self) {
        let total: u64 = self.counts.iter().sum();
        print(format_args!(
            "mapped {total} times; the slowest took {:.1} µs",
            self.max_ns as f64 / 1e3
        ));
        for (class, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bar = "█".repeat((count * 50).div_ceil(total.max(1)) as usize);
            print(format_args!("  ≤ {:>8} µs {count:>8}  {bar}", 1_u64 << class));
        }
    }
}

impl AddressSpace {
    /// Runs the program. It prints when its address space is filled, each mapping that took too
    /// long, and at the end a histogram of all mappings. Ends after [`Self::run`], or on SIGINT or
    /// SIGTERM.
    ///
    /// # Errors
    /// When an option is out of range, the address space cannot be filled, or a system call fails.
    pub fn run(&self) -> io::Result<()> {
        if self.run > MAX_RUN || self.period.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a run can be at most an hour long (--seconds), and --period must not be zero",
            ));
        }
        sys::set_name("lab-addr-space")?;
        sys::bound_this_process(u32::try_from(MAX_RUN.as_secs()).unwrap_or(3600) + 60)?;
        let start_ns = sys::monotonic_ns();
        let filled = fill(self.layout, self.blocks).map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => io::Error::new(
                error.kind(),
                "the kernel allows no more mappings (sysctl \
                 vm.max_map_count), or memory has run out",
            ),
            _ => error,
        })?;
        let word =
            LAYOUTS.iter().find(|(_, layout)| *layout == self.layout).map_or("", |(word, _)| word);
        print(format_args!(
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

    /// Maps code again and again. It is unmapped at once, which is not timed, so the address space
    /// stays the same.
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
                // The signal must be taken, or it would end the program once it is no longer
                // blocked.
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
                print(format_args!(
                    "{at_s:9.3} s  mapping 4 KiB of code took {:.1} µs",
                    took_ns as f64 / 1e3
                ));
            }
            // Missed periods are not made up for.
            next_ns = (next_ns + ns(self.period)).max(sys::monotonic_ns());
        }
    }
}

/// Prints a line to standard output, which may be closed.
fn print(text: Arguments) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_powers_of_two() {
        let mut histogram = Histogram::default();
        for ns in [0, 1000, 1001, 2000, 5000, u64::MAX] {
            histogram.note(ns);
        }
        assert_eq!((&histogram.counts[..4], histogram.counts[31]), (&[2, 2, 0, 1][..], 1));
        assert_eq!(histogram.max_ns, u64::MAX);
    }

    #[test]
    fn random_numbers_are_in_range_and_uniform() {
        let mut random = Random(1);
        let mut seen = [0; 7];
        (0..7_000).for_each(|_| seen[random.below(7)] += 1);
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
