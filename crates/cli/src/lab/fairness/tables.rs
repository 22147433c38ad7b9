//! The figures of `lab fairness` as tables: for a terminal, or as Markdown to be pasted into
//! `docs/locks.md` unchanged.
//!
//! In a terminal, contended throughput has one table per number of threads and length of critical
//! section, with a row per lock. In Markdown it has one table per figure, with a column per lock:
//! twelve tables would be too many to read.

use std::fmt::Write;
use unhitch_lab::fairness::{Contended, Fairness, LockFigures, Starved, Waits};
use unhitch_model::units::{count, duration};

struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new<'a>(
        title: impl Into<String>,
        head: impl IntoIterator<Item = &'a str>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// Aligns the first column to the left and the others to the right.
    fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let chars = |line: &Vec<String>, column: usize| {
            line.get(column).map_or(0, |cell| cell.chars().count())
        };
        let width = |column: usize| lines().map(|line| chars(line, column)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut out = format!("{}\n", self.title);
        for line in lines() {
            let cells =
                line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        out
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|---{}|\n", "|--:".repeat(self.head.len().saturating_sub(1)));
        format!(
            "**{}**\n\n{}{rule}{}",
            self.title,
            line(&self.head),
            self.rows.iter().map(|row| line(row)).collect::<String>()
        )
    }
}

/// All figures, for a terminal.
pub fn text(fairness: &Fairness) -> String {
    let mut out: String =
        fairness.locks.iter().map(|lock| format!("{:<12} {}\n", lock.name, lock.what)).collect();
    out += "for readers and writers\n";
    out.extend(fairness.rw_locks.iter().map(|lock| format!("{:<12} {}\n", lock.name, lock.what)));
    for table in starved(fairness)
        .chain([readers(fairness), uncontended(fairness)])
        .chain(contended_cells(fairness))
    {
        let _ = write!(out, "\n{}", table.text());
    }
    for note in &fairness.notes {
        let _ = writeln!(out, "\nnote: {note}");
    }
    out
}

/// All figures, for the documentation, below the sentences `measured` that say with what, how and
/// on which machine they were measured.
pub fn markdown(fairness: &Fairness, measured: &str) -> String {
    let mut out = format!("{measured}\n\n");
    for lock in &fairness.locks {
        let _ = writeln!(out, "* **{}**: {}", lock.name, lock.what);
    }
    for lock in &fairness.rw_locks {
        let _ = writeln!(out, "* **{}** for readers and writers: {}", lock.name, lock.what);
    }
    for table in starved(fairness)
        .chain([readers(fairness), uncontended(fairness)])
        .chain(contended_figures(fairness))
    {
        let _ = write!(out, "\n{}", table.markdown());
    }
    for note in &fairness.notes {
        let _ = writeln!(out, "\nNote: {note}.");
    }
    out
}

/// Median, 99th percentile and maximum.
fn quantiles(waits: &Waits) -> [String; 3] {
    [waits.quantile_ns(0.5), waits.quantile_ns(0.99), waits.max_ns()].map(duration)
}

fn starved(fairness: &Fairness) -> impl Iterator<Item = Table> {
    scenarios(fairness).map(|(title, of)| {
        let row = |lock: &LockFigures| {
            let starved: &Starved = of(lock)?;
            let [p50, p99, longest] = quantiles(&starved.waits);
            let cut = if starved.cut_short > 0 {
                count(starved.cut_short.into())
            } else {
                "–".to_owned()
            };
            let futile = format!("{:.1}", starved.vain_per_wait);
            Some(vec![
                lock.name.to_owned(),
                count(starved.waits.count()),
                p50,
                p99,
                longest,
                futile,
                count(starved.most_vain),
                cut,
            ])
        };
        Table::new(
            format!(
                "Waiting for an owner that holds the lock for 1 ms at a time with no gap, {title}"
            ),
            [
                "",
                "waits",
                "p50",
                "p99",
                "longest",
                "futile wake-ups/wait",
                "most in one wait",
                "cut off by the end of a run",
            ],
            fairness.locks.iter().filter_map(row),
        )
    })
}

fn readers(fairness: &Fairness) -> Table {
    Table::new(
        "A writer against four readers that hold the lock for 1 ms at a time with no gap",
        ["", "waits", "p50", "p99", "longest", "reads per second"],
        fairness.rw_locks.iter().map(|lock| {
            let [p50, p99, longest] = quantiles(&lock.waits);
            vec![
                lock.name.to_owned(),
                count(lock.waits.count()),
                p50,
                p99,
                longest,
                count(lock.reads_per_second() as u64),
            ]
        }),
    )
}

fn uncontended(fairness: &Fairness) -> Table {
    Table::new(
        "Uncontended: lock and unlock",
        ["", "ns"],
        fairness
            .locks
            .iter()
            .map(|lock| vec![lock.name.to_owned(), format!("{:.2}", lock.uncontended_ns)]),
    )
}

/// std's acquisitions per second in that cell.
fn std_per_second(fairness: &Fairness, cell: usize) -> f64 {
    let std = fairness
        .locks
        .iter()
        .find(|lock| lock.name == "std")
        .and_then(|lock| lock.contended.get(cell));
    std.map_or(f64::NAN, |std| std.per_second)
}

/// The combinations of thread count and critical-section length that were measured, with their
/// index in [`LockFigures::contended`].
fn cells(fairness: &Fairness) -> impl Iterator<Item = (usize, &Contended)> {
    fairness.locks.iter().take(1).flat_map(|lock| lock.contended.iter().enumerate())
}

/// Formats the length of the critical section; 0 means that there is none.
fn section(shape: &Contended) -> String {
    if shape.section_ns == 0 { "none".to_owned() } else { duration(shape.section_ns) }
}

fn contended_cells(fairness: &Fairness) -> impl Iterator<Item = Table> {
    cells(fairness).map(|(cell, shape)| {
        let row = |lock: &LockFigures| {
            let contended = lock.contended.get(cell)?;
            let [p50, p99, longest] = quantiles(&contended.waits);
            Some(vec![
                lock.name.to_owned(),
                count(contended.per_second as u64),
                format!("{:.2}", contended.per_second / std_per_second(fairness, cell)),
                p50,
                p99,
                longest,
                format!("{:.3}", contended.sleeps),
                duration(contended.cpu_ns as u64),
                format!("{:.0} %", contended.least_share * 100.0),
            ])
        };
        Table::new(
            match shape.section_ns {
                0 => format!(
                    "{} threads, empty critical sections and nothing between them",
                    shape.threads
                ),
                ns => format!(
                    "{} threads, critical sections of {} and gaps of the same length",
                    shape.threads,
                    duration(ns)
                ),
            },
            [
                "",
                "per second",
                "of std",
                "p50",
                "p99",
                "longest",
                "sleeps each",
                "CPU time each",
                "least",
            ],
            fairness.locks.iter().filter_map(row),
        )
    })
}

fn contended_figures(fairness: &Fairness) -> impl Iterator<Item = Table> {
    type Figure = fn(&Fairness, usize, &Contended) -> String;
    let figures: [(&str, Figure); 4] = [
        ("Contended: acquisitions per second as a share of std's", |fairness, cell, contended| {
            format!("{:.2}", contended.per_second / std_per_second(fairness, cell))
        }),
        ("Contended: waits, p50 / p99 / longest", |_, _, contended| {
            quantiles(&contended.waits).join(" / ")
        }),
        (
            "Contended: CPU time per acquisition, including the section and the gap",
            |_, _, contended| duration(contended.cpu_ns as u64),
        ),
        ("Contended: sleeps per acquisition", |_, _, contended| format!("{:.3}", contended.sleeps)),
    ];
    figures.into_iter().map(|(title, figure)| {
        let rows = cells(fairness).map(|(cell, shape)| {
            let of_locks = fairness.locks.iter().map(|lock| {
                lock.contended.get(cell).map(|contended| figure(fairness, cell, contended))
            });
            let shape = [count(shape.threads as u64), section(shape)];
            shape
                .into_iter()
                .chain(of_locks.map(|cell| cell.unwrap_or_else(|| "–".to_owned())))
                .collect()
        });
        Table::new(
            title,
            ["threads", "section"].into_iter().chain(fairness.locks.iter().map(|lock| lock.name)),
            rows,
        )
    })
}

pub(super) type StarvedOf = fn(&LockFigures) -> Option<&Starved>;

/// The starvation scenarios that were measured: their titles and where their figures are.
pub(super) fn scenarios(fairness: &Fairness) -> impl Iterator<Item = (&'static str, StarvedOf)> {
    let two: StarvedOf = |lock| lock.starved_two_cpus.as_ref();
    let one: StarvedOf = |lock| Some(&lock.starved_one_cpu);
    [("on two CPUs", two), ("both on one CPU", one)]
        .into_iter()
        .filter(|(_, of)| fairness.locks.iter().any(|lock| of(lock).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unhitch_lab::fairness::RwFigures;

    fn waits(ns: &[u64]) -> Waits {
        let mut waits = Waits::default();
        ns.iter().for_each(|ns| waits.note(*ns));
        waits
    }

    fn fairness() -> Fairness {
        let lock = |name, per_second| LockFigures {
            name,
            what: "a lock",
            uncontended_ns: 18.421,
            contended: [0, 10_000]
                .map(|section_ns| Contended {
                    threads: 16,
                    section_ns,
                    per_second,
                    least_share: 0.5,
                    sleeps: 0.25,
                    cpu_ns: 1_500.0,
                    waits: waits(&[1_000; 3]),
                })
                .into(),
            starved_two_cpus: Some(Starved {
                waits: waits(&[15, 1_000_000]),
                vain_per_wait: 2.5,
                most_vain: 4_321,
                cut_short: 1,
            }),
            starved_one_cpu: Starved { waits: waits(&[15]), ..Starved::default() },
        };
        let rw_lock = RwFigures {
            name: "std",
            what: "a lock",
            waits: waits(&[2_000_000]),
            reads: 7_400,
            reading_ns: 2_000_000_000,
        };
        Fairness {
            cpus: 2,
            locks: vec![lock("unhitch", 3e6), lock("std", 2e6)],
            rw_locks: vec![rw_lock],
            notes: vec!["so".to_owned()],
        }
    }

    #[test]
    fn tables_for_a_terminal() {
        insta::assert_snapshot!(text(&fairness()));
    }

    #[test]
    fn tables_for_the_documentation() {
        insta::assert_snapshot!(markdown(&fairness(), "Measured by somebody, somewhere."));
    }
}
