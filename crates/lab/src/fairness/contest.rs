//! The three measurements, for any lock.

use super::locks::Contestant;
use super::{Contended, Starved, Waits};
use crate::sys;
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How often the lock is taken in a round when nobody else wants it: some milliseconds.
pub const UNCONTENDED_LOCKS: u32 = 100_000;
/// One in so many acquisitions is timed where reading the clock would be most of the work.
const TIMED_ONE_IN: u64 = 32;
const LONG_SECTION_NS: u64 = 5_000;
const HOLD_NS: u64 = 1_000_000;
const REQUEST_INTERVAL: Duration = Duration::from_millis(20);
/// A lock taken again this long after its release was planned was nearly lost; see `starve`.
const LATE_NS: u64 = 30_000;

/// Work of a known length that reads no clock.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    rounds_per_ns: f64,
}

impl Work {
    /// Finds out how fast this machine is; the fastest of some tries, which preemption has not
    /// lengthened.
    pub fn calibrate() -> Self {
        const ROUNDS: u64 = 200_000;
        let fastest_ns = (0..10).map(|_| elapsed_ns(|| compute(ROUNDS))).min().unwrap_or(1).max(1);
        Self { rounds_per_ns: ROUNDS as f64 / fastest_ns as f64 }
    }

    fn rounds(self, ns: u64) -> u64 {
        (self.rounds_per_ns * ns as f64) as u64
    }
}

/// A cell of the table of contention.
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

/// Locking and unlocking with nobody else there, nanoseconds.
pub fn uncontended_ns<L: Contestant>() -> io::Result<f64> {
    let lock = L::make()?;
    let done = AtomicBool::new(false);
    let all_ns = thread::scope(|scope| {
        // Beside a second thread, which sleeps: the C library takes no atomic operation as long as
        // there is only one.
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

/// Several threads that want the lock all the time. Fails when the lock let in two at once.
pub fn contended<L: Contestant>(cell: &Cell) -> io::Result<Contended> {
    let lock = L::make()?;
    let (stop, start) = (AtomicBool::new(false), Barrier::new(cell.threads + 1));
    // Counted without an atomic addition, so that a lock that does not exclude loses counts.
    let total = AtomicU64::new(0);
    let rounds = cell.work.rounds(cell.section_ns);
    let timed_one_in = if cell.section_ns < LONG_SECTION_NS { TIMED_ONE_IN } else { 1 };
    let cpus = sys::allowed_cpus()?;
    let (cpus, contend) = (&cpus, &|cpu: usize| {
        let mut share = Share::default();
        // Spread over the CPUs, or two threads on one would do without contention. Where it fails
        // they are spread by the scheduler.
        let _ = sys::pin(0, &[cpu]);
        start.wait();
        let (sleeps_before, cpu_before_ns) = (sys::voluntary_switches(), sys::thread_cpu_ns());
        // At least once, also where a busy machine lets a thread begin late.
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
        return Err(io::Error::other("a lock let in two threads at once"));
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

/// One waits, on the first of these CPUs, for one who holds the lock for 1 ms at a time on the
/// other.
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
        let (mut starved, mut vain) = (Starved::default(), 0);
        loop {
            thread::sleep(REQUEST_INTERVAL);
            // At least one request, as above.
            if starved.waits.count() > 0 && stop.load(Ordering::Relaxed) {
                break;
            }
            let (from_ns, sleeps_before) = (sys::monotonic_ns(), sys::voluntary_switches());
            lock.locked(|| ());
            // The first sleep is the wait; each further one, a wake-up that did not get the lock.
            let vain_in_wait = (sys::voluntary_switches() - sleeps_before).saturating_sub(1);
            starved.waits.note(sys::monotonic_ns() - from_ns);
            starved.most_vain = starved.most_vain.max(vain_in_wait);
            vain += vain_in_wait;
            starved.cut_short = u32::from(stop.load(Ordering::Relaxed));
        }
        starved.vain_per_wait = vain as f64 / starved.waits.count().max(1) as f64;
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
