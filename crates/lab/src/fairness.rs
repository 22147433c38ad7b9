//! `fairness`: what a lock costs and how long threads wait for it; compares ours with common locks.
//!
//! Three measurements for each lock of [`LOCKS`]: its cost when uncontended; throughput when many
//! threads contend; and how long a waiter waits while an owner holds it 1 ms at a time with no gap,
//! on two CPUs and on one. The last scenario is that of `starve`, in which an unfair lock hangs a
//! program for seconds. And one measurement for each reader-writer lock of [`RW_LOCKS`]: how long a
//! writer waits while there is always a reader.
//!
//! *Why the locks take turns:* the machine changes during a measurement. Every round measures all
//! locks, one after another.

mod contest;
mod figures;
mod locks;
mod readers;
mod waits;

pub use contest::UNCONTENDED_LOCKS;
pub use figures::{Contended, Fairness, LockFigures, Starved};
pub use locks::LOCKS;
pub use readers::{RW_LOCKS, RwFigures};
pub use waits::Waits;

use crate::sys;
use std::io;
use std::time::Duration;

/// How much to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    /// Rounds of the uncontended measurement; the fastest counts.
    pub uncontended_rounds: u32,
    /// Rounds of every contended cell; the median counts.
    pub rounds: u32,
    /// Length of a contended cell.
    pub cell: Duration,
    /// Numbers of contending threads.
    pub threads: Vec<usize>,
    /// Lengths of the critical sections in nanoseconds.
    pub sections_ns: Vec<u64>,
    /// Runs of each starvation scenario.
    pub runs: u32,
    /// Length of such a run.
    pub run: Duration,
}

impl Effort {
    /// The full measurement, which takes about five minutes.
    pub fn full() -> Self {
        Self {
            uncontended_rounds: 15,
            rounds: 5,
            cell: Duration::from_millis(150),
            threads: vec![2, 4, 16],
            sections_ns: vec![0, 100, 10_000, 1_000_000],
            runs: 10,
            run: Duration::from_millis(1_000),
        }
    }

    /// A short measurement, which takes about twenty seconds.
    pub fn quick() -> Self {
        Self {
            uncontended_rounds: 5,
            rounds: 1,
            cell: Duration::from_millis(60),
            threads: vec![2, 16],
            sections_ns: vec![100, 10_000],
            runs: 1,
            run: Duration::from_millis(800),
        }
    }
}

/// Measures, and reports the progress.
///
/// # Errors
/// When a system call fails.
pub fn measure(effort: &Effort, mut progress: impl FnMut(&str)) -> io::Result<Fairness> {
    // If this is allowed, other load disturbs less. It ends with the process.
    let _ = sys::set_nice(-10);
    let cpus = sys::allowed_cpus()?;
    let mut figures: Vec<LockFigures> = LOCKS
        .iter()
        .map(|lock| LockFigures {
            name: lock.name,
            what: lock.what,
            uncontended_ns: f64::INFINITY,
            contended: vec![],
            starved_two_cpus: (cpus.len() > 1).then(Starved::default),
            starved_one_cpu: Starved::default(),
        })
        .collect();
    progress("uncontended");
    for _ in 0..effort.uncontended_rounds {
        for (lock, figures) in LOCKS.iter().zip(&mut figures) {
            figures.uncontended_ns = figures.uncontended_ns.min((lock.uncontended_ns)()?);
        }
    }
    let work = contest::Work::calibrate();
    for &section_ns in &effort.sections_ns {
        for &threads in &effort.threads {
            progress(&format!("contended: {threads} threads, sections of {section_ns} ns"));
            let mut rounds: Vec<Vec<Contended>> = vec![vec![]; LOCKS.len()];
            for _ in 0..effort.rounds {
                for (lock, rounds) in LOCKS.iter().zip(&mut rounds) {
                    rounds.push((lock.contended)(&contest::Cell {
                        threads,
                        section_ns,
                        length: effort.cell,
                        work,
                    })?);
                }
            }
            for (figures, mut rounds) in figures.iter_mut().zip(rounds) {
                rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
                let middle = rounds.len() / 2;
                figures.contended.extend(rounds.into_iter().nth(middle));
            }
        }
    }
    for run in 0..effort.runs {
        progress(&format!("an owner with no gap: run {} of {}", run + 1, effort.runs));
        for (lock, figures) in LOCKS.iter().zip(&mut figures) {
            if let (Some(starved), &[first, .., last]) =
                (&mut figures.starved_two_cpus, cpus.as_slice())
            {
                starved.add((lock.starved)([first, last], effort.run)?);
            }
            let only = cpus.first().copied().unwrap_or(0);
            figures.starved_one_cpu.add((lock.starved)([only, only], effort.run)?);
        }
    }
    let mut rw_locks: Vec<RwFigures> = RW_LOCKS.iter().map(RwFigures::new).collect();
    for run in 0..effort.runs {
        progress(&format!("a writer against readers: run {} of {}", run + 1, effort.runs));
        for (lock, figures) in RW_LOCKS.iter().zip(&mut rw_locks) {
            figures.add(&(lock.against_readers)(effort.run)?);
        }
    }
    let notes = (cpus.len() < 2).then(|| {
        format!("this process may use {} CPU: there is no starvation on a single CPU", cpus.len())
    });
    Ok(Fairness { cpus: cpus.len(), locks: figures, rw_locks, notes: notes.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_is_measured_in_every_way() {
        let effort = Effort {
            uncontended_rounds: 1,
            rounds: 1,
            cell: Duration::from_millis(3),
            threads: vec![2],
            sections_ns: vec![0, 10_000],
            runs: 1,
            run: Duration::from_millis(60),
        };
        let mut reports = 0;
        let fairness = measure(&effort, |_| reports += 1).unwrap();
        assert_eq!(reports, 5);
        assert!(LOCKS.iter().map(|lock| lock.name).eq(fairness.locks.iter().map(|lock| lock.name)));
        for lock in &fairness.locks {
            assert!(lock.uncontended_ns.is_finite() && lock.uncontended_ns > 0.0, "{}", lock.name);
            assert_eq!(lock.contended.len(), 2);
            assert!(
                lock.contended.iter().all(|cell| cell.per_second > 0.0 && cell.least_share <= 1.0),
                "{}",
                lock.name
            );
            assert_eq!(lock.starved_two_cpus.is_some(), fairness.cpus > 1);
            assert!(lock.starved_one_cpu.waits.count() > 0, "{}", lock.name);
            assert!(lock.contended.iter().all(|cell| cell.cpu_ns > 0.0), "{}", lock.name);
        }
        assert!(
            RW_LOCKS
                .iter()
                .map(|lock| lock.name)
                .eq(fairness.rw_locks.iter().map(|lock| lock.name))
        );
        for lock in &fairness.rw_locks {
            assert!(lock.waits.count() > 0 && lock.reads_per_second() > 0.0, "{}", lock.name);
        }
    }

    /// A futile wake-up takes a hold of 1 ms, so the bound of 5 ms allows six of them. On a busy
    /// machine, a few other sleeps may be counted, too. Nothing here depends on how long anything
    /// takes.
    #[test]
    fn our_bound_limits_futile_wake_ups() {
        let cpus = sys::allowed_cpus().unwrap();
        let ours = LOCKS.iter().find(|lock| lock.name == "unhitch").unwrap();
        let [first, last] = [cpus[0], cpus[cpus.len() - 1]];
        let starved = (ours.starved)([first, last], Duration::from_millis(1_000)).unwrap();
        assert!(starved.waits.count() > 0 && starved.most_vain <= 12, "{starved:?}");
    }
}
