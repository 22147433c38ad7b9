//! The three measurements, for any lock.

use super::figures::{Contended, Starved};
use super::waits::Waits;
use crate::sys;
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Acquisitions per round of the uncontended measurement: takes some milliseconds.
pub const UNCONTENDED_LOCKS: u32 = 100_000;
/// One in this many acquisitions is timed if sections are so short that reading the clock would be
/// most of the work.
const TIMED_ONE_IN: u64 = 32;
/// Sections of at least this length are all timed.
const LONG_SECTION_NS: u64 = 5_000;
const HOLD_NS: u64 = 1_000_000;
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);
/// An owner that reacquires its lock this long after the planned release nearly lost it; see
/// `starve`.
const LATE_NS: u64 = 30_000;

/// The operations that all locks have.
pub(super) trait Contestant: Sync + Sized {
    fn make() -> io::Result<Self>;
    /// Runs `section` while holding the lock.
    fn locked<R>(&self, section: impl FnOnce() -> R) -> R;
}

/// Work of a known length that reads no clock.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    rounds_per_ns: f64,
}

impl Work {
    /// Measures how fast this machine is: the fastest of several tries, which was not preempted.
    pub fn calibrate() -> Self {
        const ROUNDS: u64 = 200_000;
        let fastest_ns = (0..10).map(|_| elapsed_ns(|| compute(ROUNDS))).min().unwrap_or(1).max(1);
        Self { rounds_per_ns: ROUNDS as f64 / fastest_ns as f64 }
    }

    fn rounds(self, ns: u64) -> u64 {
        (self.rounds_per_ns * ns as f64) as u64
    }
}

/// One combination of thread count and section length.
pub struct Cell {
    pub threads: usize,
    pub section_ns: u64,
    pub length: Duration,
    pub work: Work,
}

#[inline]
fn compute(rounds: u64) {
    let mut x = 1_u64;
    for _ in 0..rounds {
        x = black_box(x).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    black_box(x);
}

fn elapsed_ns(act: impl FnOnce()) -> u64 {
    let start_ns = sys::monotonic_ns();
    act();
    sys::monotonic_ns() - start_ns
}

/// Time for an uncontended lock and unlock, in nanoseconds.
pub fn uncontended_ns<L: Contestant>() -> io::Result<f64> {
    let lock = L::make()?;
    let done = AtomicBool::new(false);
    let all_ns = thread::scope(|scope| {
        // There must be a second thread, which sleeps: with only one thread, the C library uses no
        // atomic operations.
        let idle = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                thread::park();
            }
        });
        let all_ns = elapsed_ns(|| {
            for _ in 0..UNCONTENDED_LOCKS {
                black_box(&lock).locked(|| ());
            }
        });
        done.store(true, Ordering::Release);
        idle.thread().unpark();
        all_ns
    });
    Ok(all_ns as f64 / f64::from(UNCONTENDED_LOCKS))
}

/// What a contending thread did.
#[derive(Default)]
struct Share {
    acquisitions: u64,
    sleeps: u64,
    cpu_ns: u64,
    waits: Waits,
}

/// Lets several threads contend for the lock. Fails if the lock had two owners at once.
pub fn contended<L: Contestant>(cell: &Cell) -> io::Result<Contended> {
    let lock = L::make()?;
    let (stop, start) = (AtomicBool::new(false), Barrier::new(cell.threads + 1));
    // This is not an atomic addition, so that counts get lost if the lock does not exclude.
    let total = AtomicU64::new(0);
    let rounds = cell.work.rounds(cell.section_ns);
    let timed_one_in = if cell.section_ns < LONG_SECTION_NS { TIMED_ONE_IN } else { 1 };
    let cpus = sys::allowed_cpus()?;
    let (cpus, contend) = (&cpus, &|cpu: usize| {
        let mut share = Share::default();
        // Spread the threads over the CPUs, because two threads on one CPU hardly contend. If this
        // fails, the scheduler spreads them.
        let _ = sys::pin(0, &[cpu]);
        start.wait();
        let (sleeps_before, cpu_before_ns) = (sys::voluntary_switches(), sys::thread_cpu_ns());
        // Do this at least once, even if a busy machine starts a thread late.
        while share.acquisitions == 0 || !stop.load(Ordering::Relaxed) {
            let from_ns = (share.acquisitions.is_multiple_of(timed_one_in)).then(sys::monotonic_ns);
            let to_ns = lock.locked(|| {
                let to_ns = from_ns.map(|_| sys::monotonic_ns());
                total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                compute(rounds);
                to_ns
            });
            if let (Some(from_ns), Some(to_ns)) = (from_ns, to_ns) {
                share.waits.note(to_ns - from_ns);
            }
            share.acquisitions += 1;
            compute(rounds);
        }
        share.sleeps = sys::voluntary_switches() - sleeps_before;
        share.cpu_ns = sys::thread_cpu_ns() - cpu_before_ns;
        share
    });
    let mut elapsed_ns = 0;
    let shares: Vec<Share> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cell.threads)
            .map(|index| scope.spawn(move || contend(cpus[index % cpus.len()])))
            .collect();
        start.wait();
        let start_ns = sys::monotonic_ns();
        thread::sleep(cell.length);
        stop.store(true, Ordering::Relaxed);
        let shares = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        elapsed_ns = sys::monotonic_ns() - start_ns;
        shares
    });
    let acquisitions: u64 = shares.iter().map(|share| share.acquisitions).sum();
    if total.into_inner() != acquisitions {
        return Err(io::Error::other("a lock had two owners at once"));
    }
    let mut waits = Waits::default();
    shares.iter().for_each(|share| waits.add(&share.waits));
    let least = shares.iter().map(|share| share.acquisitions).min().unwrap_or(0);
    Ok(Contended {
        threads: cell.threads,
        section_ns: cell.section_ns,
        per_second: acquisitions as f64 / (elapsed_ns as f64 / 1e9),
        least_share: least as f64 * cell.threads as f64 / acquisitions.max(1) as f64,
        sleeps: shares.iter().map(|share| share.sleeps).sum::<u64>() as f64
            / acquisitions.max(1) as f64,
        cpu_ns: shares.iter().map(|share| share.cpu_ns).sum::<u64>() as f64
            / acquisitions.max(1) as f64,
        waits,
    })
}

/// A thread on the first of these CPUs waits for an owner on the second, which holds the lock 1 ms
/// at a time.
pub fn starved<L: Contestant>(
    [waiter_cpu, holder_cpu]: [usize; 2],
    length: Duration,
) -> io::Result<Starved> {
    let lock = L::make()?;
    let (stop, start) = (AtomicBool::new(false), Barrier::new(2));
    let hold = || -> io::Result<()> {
        let pinned = sys::pin(0, &[holder_cpu]);
        start.wait();
        pinned?;
        let mut release_at_ns = 0;
        while !stop.load(Ordering::Relaxed) {
            lock.locked(|| {
                let now_ns = sys::monotonic_ns();
                release_at_ns =
                    if now_ns > release_at_ns + LATE_NS { now_ns } else { release_at_ns } + HOLD_NS;
                while sys::monotonic_ns() < release_at_ns {
                    compute(100);
                }
            });
        }
        Ok(())
    };
    let request = || -> io::Result<Starved> {
        let pinned = sys::pin(0, &[waiter_cpu]);
        start.wait();
        pinned?;
        let (mut starved, mut futile) = (Starved::default(), 0);
        loop {
            thread::sleep(REQUEST_INTERVAL);
            // Make at least one request, as above.
            if starved.waits.count() > 0 && stop.load(Ordering::Relaxed) {
                break;
            }
            let (from_ns, sleeps_before) = (sys::monotonic_ns(), sys::voluntary_switches());
            lock.locked(|| ());
            // The first sleep is the wait; each further one follows a futile wake-up.
            let futile_in_wait = (sys::voluntary_switches() - sleeps_before).saturating_sub(1);
            starved.waits.note(sys::monotonic_ns() - from_ns);
            starved.most_vain = starved.most_vain.max(futile_in_wait);
            futile += futile_in_wait;
            starved.cut_short = u32::from(stop.load(Ordering::Relaxed));
        }
        starved.vain_per_wait = futile as f64 / starved.waits.count().max(1) as f64;
        Ok(starved)
    };
    thread::scope(|scope| {
        let (holder, waiter) = (scope.spawn(hold), scope.spawn(request));
        thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        holder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        waiter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
