//! What running something costs. CPU time comes first: on a shared machine, other programs decide
//! the wall time.
//!
//! Formats: `/proc/self/stat`, `/proc/stat` (proc(5)), in ticks of 10 ms: measure seconds, not
//! milliseconds.

use std::time::Instant;

const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU time of exited child processes, and of their children.
    pub children_s: f64,
    /// CPU time of this process.
    pub own_s: f64,
    /// CPU time of the whole machine, interrupts included.
    pub machine_s: f64,
    /// Wall time.
    pub wall_s: f64,
}

impl Cost {
    /// Runs something and measures it.
    pub fn of<T>(run: impl FnOnce() -> T) -> (T, Cost) {
        let before = Self::so_far();
        let start = Instant::now();
        let result = run();
        let wall_s = start.elapsed().as_secs_f64();
        let after = Self::so_far();
        let cost = Cost {
            children_s: after.children_s - before.children_s,
            own_s: after.own_s - before.own_s,
            machine_s: after.machine_s - before.machine_s,
            wall_s,
        };
        (result, cost)
    }

    /// This process and its children.
    pub fn cpu_s(&self) -> f64 {
        self.children_s + self.own_s
    }

    fn so_far() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let seconds = |words: &[f64]| words.iter().sum::<f64>() / TICKS_PER_SECOND;
        // The name in parentheses may contain spaces; utime, stime, cutime and cstime are the 12th
        // to 15th words after it.
        let own = numbers(read("/proc/self/stat").rsplit(')').next().unwrap_or_default());
        // cpu user nice system idle iowait irq softirq steal: all but idle, iowait and steal.
        let machine = numbers(read("/proc/stat").lines().next().unwrap_or_default());
        Cost {
            own_s: seconds(own.get(11..13).unwrap_or_default()),
            children_s: seconds(own.get(13..15).unwrap_or_default()),
            machine_s: seconds(machine.get(1..4).unwrap_or_default())
                + seconds(machine.get(6..8).unwrap_or_default()),
            wall_s: 0.0,
        }
    }
}

/// The words as numbers; 0 for a word that is not a number.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).collect()
}

/// Minimum, median and maximum of some measurements.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let middle = (at(values.len().saturating_sub(1) / 2) + at(values.len() / 2)) / 2.0;
        Self { least: at(0), median: middle, most: at(values.len().saturating_sub(1)) }
    }

    /// The range, relative to the median.
    pub fn noise(&self) -> f64 {
        ((self.most - self.least) / self.median).abs()
    }
}

/// `median (least … most)`
impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$} … {:.digits$})", self.median, self.least, self.most)
    }
}
