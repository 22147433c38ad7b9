//! `fairness`: what a lock costs, and how long it lets wait: ours beside those that people use.
//!
//! Three questions to each lock of [`LOCKS`]: what it costs when nobody else wants it; how much
//! gets done when many do; and how long one waits who wants it while another holds it 1 ms at a
//! time with no gap, on two CPUs and on one. That last play is the one of `starve`, where an unfair
//! lock hangs a program for seconds. And one to each reader-writer lock of [`RW_LOCKS`]: how long a
//! writer waits beside readers that are never all gone.
//!
//! *Why the locks take turns:* a machine changes while one measures. Every round asks all the
//! locks, one after another.

mod contest;
mod locks;
mod readers;
mod waits;

pub use contest::UNCONTENDED_LOCKS;
pub use locks::LOCKS;
pub use readers::{RW_LOCKS, RwFigures};
pub use waits::Waits;

use crate::sys;
use serde::Serialize;
use std::io;
use std::time::Duration;

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    /// Rounds of the uncontended measurement; the fastest counts.
    pub uncontended_rounds: u32,
    /// Rounds of every contended cell; the one in the middle counts.
    pub rounds: u32,
    /// Length of a contended cell.
    pub cell: Duration,
    /// How many threads contend.
    pub threads: Vec<usize>,
    /// Length of the critical sections, nanoseconds.
    pub sections_ns: Vec<u64>,
    /// Runs of each play in which one starves.
    pub runs: u32,
    /// Length of such a run.
    pub run: Duration,
}

impl Effort {
    /// Everything: some five minutes.
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

    /// A look: some twenty seconds.
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

/// What was measured, of all locks in the order of [`LOCKS`].
#[derive(Clone, Debug, Serialize)]
pub struct Fairness {
    /// CPUs that the process may use.
    pub cpus: usize,
    /// One entry per lock.
    pub locks: Vec<LockFigures>,
    /// One entry per reader-writer lock, in the order of [`RW_LOCKS`].
    pub rw_locks: Vec<RwFigures>,
    /// What was not measured, and why.
    pub notes: Vec<String>,
}

/// What was measured of one lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockFigures {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// Locking and unlocking when nobody else does, nanoseconds.
    pub uncontended_ns: f64,
    /// One per number of threads and length of section.
    pub contended: Vec<Contended>,
    /// Waiting for one who holds it 1 ms at a time with no gap, on another CPU; none where there is
    /// only one.
    pub starved_two_cpus: Option<Starved>,
    /// The same with both on one CPU.
    pub starved_one_cpu: Starved,
}

/// Several threads that want a lock as often as they can get it.
#[derive(Clone, Debug, Serialize)]
pub struct Contended {
    /// How many.
    pub threads: usize,
    /// How long each holds it; it then stays away as long.
    pub section_ns: u64,
    /// Acquisitions per second, all threads together.
    pub per_second: f64,
    /// Acquisitions of the thread that got fewest, as a share of the average.
    pub least_share: f64,
    /// How often a thread went to sleep, per acquisition.
    pub sleeps: f64,
    /// CPU time of all threads per acquisition, the section and the time away included,
    /// nanoseconds: hardly depends on other load.
    pub cpu_ns: f64,
    /// Waits for the lock; where sections are short only one in 32 is timed.
    pub waits: Waits,
}

/// One that wants the lock fifty times a second while another holds it 1 ms at a time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Starved {
    /// How long each request waited. A wait that the end of a run cut short counts as long as it
    /// was.
    pub waits: Waits,
    /// Wake-ups that did not get the lock, per wait.
    pub vain_per_wait: f64,
    /// The most in one wait.
    pub most_vain: u64,
    /// Runs that ended before the last wait did.
    pub cut_short: u32,
}

/// Measures; tells `say` now and then how far it is.
///
/// Fails when a system call does.
pub fn measure(effort: &Effort, mut say: impl FnMut(&str)) -> io::Result<Fairness> {
    // Where it is allowed, so that other load disturbs less. It ends with the process.
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
    say("uncontended");
    for _ in 0..effort.uncontended_rounds {
        for (lock, figures) in LOCKS.iter().zip(&mut figures) {
            figures.uncontended_ns = figures.uncontended_ns.min((lock.uncontended_ns)()?);
        }
    }
    let work = contest::Work::calibrate();
    for &section_ns in &effort.sections_ns {
        for &threads in &effort.threads {
            say(&format!("contended: {threads} threads, sections of {section_ns} ns"));
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
        say(&format!("a holder with no gap: run {} of {}", run + 1, effort.runs));
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
        say(&format!("readers that are never all gone: run {} of {}", run + 1, effort.runs));
        for (lock, figures) in RW_LOCKS.iter().zip(&mut rw_locks) {
            figures.add(&(lock.beside_readers)(effort.run)?);
        }
    }
    let notes = (cpus.len() < 2)
        .then(|| format!("this process may use {} CPU: nobody starves on one", cpus.len()));
    Ok(Fairness { cpus: cpus.len(), locks: figures, rw_locks, notes: notes.into_iter().collect() })
}

impl Starved {
    fn add(&mut self, run: Self) {
        let (before, of_run) = (self.waits.count() as f64, run.waits.count() as f64);
        self.vain_per_wait =
            (self.vain_per_wait * before + run.vain_per_wait * of_run) / (before + of_run).max(1.0);
        self.waits.add(&run.waits);
        self.most_vain = self.most_vain.max(run.most_vain);
        self.cut_short += run.cut_short;
    }
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
        let mut said = 0;
        let fairness = measure(&effort, |_| said += 1).unwrap();
        assert_eq!(said, 5);
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

    /// A wake-up in vain is a hold of 1 ms that the waiter was there for, so the bound of 5 ms
    /// allows six; and the accounting of a busy machine a few sleeps on something else. Nothing
    /// here depends on how long anything took.
    #[test]
    fn our_bound_bounds_the_wake_ups_in_vain() {
        let cpus = sys::allowed_cpus().unwrap();
        let ours = LOCKS.iter().find(|lock| lock.name == "unhitch").unwrap();
        let [first, last] = [cpus[0], cpus[cpus.len() - 1]];
        let starved = (ours.starved)([first, last], Duration::from_millis(1_000)).unwrap();
        assert!(starved.waits.count() > 0 && starved.most_vain <= 12, "{starved:?}");
    }
}
