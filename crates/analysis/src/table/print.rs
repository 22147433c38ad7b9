//! A table as text for people, as CSV and as JSON for programs.
//!
//! In the text, times count from the start of the recording, all durations have one unit and the same digits, so that they compare down
//! a column and along a row, and stacks come last, cut to the functions that tell most. CSV and JSON hold nanoseconds and whole stacks, root first; their points in time are
//! those of the trace's clock, as in `why --json`. The JSON is a contract: fields may be added, never changed or removed.

use super::column::{Kind, StackKind, time};
use super::rows::Source;
use super::run::{Output, Table};
use super::{Cell, NONE};
use crate::answer::units;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use std::fmt::Write;
use unhitch_model::StackId;

/// A text longer than this is cut; the last column may be as long as it likes.
const WIDEST_TEXT: usize = 24;

impl Output {
    /// The key in JSON and CSV: `sum_waited_ns`.
    fn key(&self) -> String {
        let unit = if matches!(self.shown.kind(), Kind::Duration | Kind::Time) { "_ns" } else { "" };
        format!("{}{unit}", self.shown.title().to_lowercase().replace([' ', '-'], "_"))
    }

    /// On the right side of the text: what has no end.
    fn is_long(&self) -> bool {
        matches!(self.shown.kind(), Kind::Stack(_))
            || matches!(self.shown.title().as_str(), "cause" | "command line" | "function" | "address")
    }
}

/// How durations are written.
#[derive(Clone, Copy)]
struct Scale {
    unit: &'static str,
    ns: f64,
    digits: usize,
}

impl Scale {
    const SECONDS: Self = Self { unit: "s", ns: 1e9, digits: 6 };

    /// The unit in which the greatest of `cells` reads best.
    fn of(cells: impl Iterator<Item = Cell>) -> Self {
        match cells.max().unwrap_or(0) {
            1_000_000_000.. => Self::SECONDS,
            1_000_000.. => Self { unit: "ms", ns: 1e6, digits: 3 },
            _ => Self { unit: "µs", ns: 1e3, digits: 3 },
        }
    }

    fn write(self, ns: Cell) -> String {
        format!("{:.*}", self.digits, ns as f64 / self.ns)
    }
}

impl Table<'_> {
    /// For people. The last line says what was left out.
    pub fn text(&self) -> String {
        if self.total == 0 {
            let left_out = self.left_out().map_or(String::new(), |samples| format!(" ({samples} left out)"));
            return format!("Nothing: no row of {} passes here{left_out}.\n", self.source.name.info().word);
        }
        // What is long goes to the right.
        let (short, long): (Vec<&Output>, Vec<&Output>) = self.outputs.iter().partition(|output| !output.is_long());
        let columns: Vec<&Output> = short.into_iter().chain(long).collect();
        let durations = columns.iter().filter(|output| output.shown.kind() == Kind::Duration);
        let scale = Scale::of(durations.flat_map(|output| output.cells.iter().copied()));
        let mut lines = vec![String::new(); self.len + 1];
        for (at, output) in columns.iter().enumerate() {
            let cells = self.column(output, scale, at + 1 < columns.len());
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let numeric = !matches!(output.shown.kind(), Kind::Text | Kind::Stack(_));
            for (line, cell) in lines.iter_mut().zip(&cells) {
                let gap = if at == 0 { "" } else { "  " };
                let _ = match numeric {
                    true => write!(line, "{gap}{cell:>width$}"),
                    false => write!(line, "{gap}{cell:<width$}"),
                };
            }
        }
        let mut out: String = lines.iter().flat_map(|line| [line.trim_end(), "\n"]).collect();
        if self.total > self.len {
            let _ = writeln!(
                out,
                "… and {} more of {} rows{} (--top N)",
                units::count((self.total - self.len) as u64),
                units::count(self.total as u64),
                self.rest()
            );
        }
        if let Some(samples) = self.left_out() {
            let _ = writeln!(out, "Left out: {samples}.");
        }
        out
    }

    /// `73,208 samples of idle CPUs`, where the table has none of them.
    fn left_out(&self) -> Option<String> {
        let samples = &self.source.analysis.trace.samples;
        let idle = || samples.range(self.source.window).filter(|&sample| !samples.is_work(sample)).count() as u64;
        let idle = if self.source.name == super::Name::Samples { idle() } else { 0 };
        (idle > 0).then(|| format!("{} of idle CPUs", units::plural(idle, "sample")))
    }

    /// `, together count 12, sum waited 1.204 s`.
    fn rest(&self) -> String {
        let sums = self.outputs.iter().filter_map(|output| {
            let rest = u64::try_from(output.rest?).ok()?;
            let text = if output.shown.kind() == Kind::Duration { units::duration(rest) } else { units::count(rest) };
            Some(format!("{} {text}", output.shown.title()))
        });
        let sums: Vec<String> = sums.collect();
        if sums.is_empty() { String::new() } else { format!(", together {}", sums.join(", ")) }
    }

    /// The header and the cells of a column as text.
    fn column(&self, output: &Output, scale: Scale, cut: bool) -> Vec<String> {
        let start = time(self.source.analysis.timeline.window().start);
        let scale = match output.shown.kind() {
            Kind::Time => Scale::SECONDS,
            _ => scale,
        };
        let title = output.shown.title();
        let title = match output.shown.kind() {
            Kind::Duration | Kind::Time => format!("{title} ({})", scale.unit),
            _ => title,
        };
        let cell = |&cell: &Cell| match output.shown.kind() {
            _ if cell == NONE => "–".to_owned(),
            Kind::Duration => scale.write(cell),
            Kind::Time => scale.write(cell - start),
            Kind::Count => u64::try_from(cell).map_or_else(|_| cell.to_string(), units::count),
            Kind::Number => cell.to_string(),
            Kind::Text => self.source.with_text(cell, |text| if cut { shortened(text) } else { text.to_owned() }),
            Kind::Stack(kind) => self.brief(kind, stack(cell)),
        };
        std::iter::once(title).chain(output.cells.iter().map(cell)).collect()
    }

    fn brief(&self, kind: StackKind, stack: StackId) -> String {
        let (analysis, frames) = (self.source.analysis, self.source.frames(kind, stack));
        let skipped = if kind == StackKind::Sample { 0 } else { analysis.facts.noise_len(stack) };
        analysis.told_briefly(frames, analysis.trace.stacks.kernel_len(stack).saturating_sub(skipped))
    }

    /// Comma-separated values, by RFC 4180; stacks are joined by semicolons, root first.
    pub fn csv(&self) -> String {
        let mut out = self.outputs.iter().map(|output| quoted(&output.key())).collect::<Vec<_>>().join(",") + "\r\n";
        for row in 0..self.len {
            for (at, output) in self.outputs.iter().enumerate() {
                let cell = output.cells[row];
                out.push_str(if at == 0 { "" } else { "," });
                match output.shown.kind() {
                    _ if cell == NONE => {}
                    Kind::Text => self.source.with_text(cell, |text| out.push_str(&quoted(text))),
                    Kind::Stack(kind) => out.push_str(&quoted(&names(&self.source, kind, cell).join(";"))),
                    _ => {
                        let _ = write!(out, "{cell}");
                    }
                }
            }
            out.push_str("\r\n");
        }
        out
    }
}

fn stack(cell: Cell) -> StackId {
    u32::try_from(cell).map_or(StackId::EMPTY, StackId)
}

/// The functions of a stack, root first; the bystander's of an interrupt left out.
fn names(source: &Source<'_>, kind: StackKind, cell: Cell) -> Vec<String> {
    let (analysis, stack) = (source.analysis, stack(cell));
    let frames = match kind {
        StackKind::Wake => analysis.facts.own_frames(analysis.trace, stack),
        StackKind::Wait | StackKind::Sample => analysis.trace.stacks.frames_of(stack),
    };
    let mut names: Vec<String> = frames.iter().flat_map(|&frame| analysis.trace.frame_names(frame)).collect();
    names.reverse();
    names
}

fn shortened(text: &str) -> String {
    match text.chars().count() {
        0..=WIDEST_TEXT => text.to_owned(),
        // The end of a path says more than its beginning.
        len if text.starts_with('/') => format!("…{}", text.chars().skip(len + 1 - WIDEST_TEXT).collect::<String>()),
        _ => format!("{}…", text.chars().take(WIDEST_TEXT - 1).collect::<String>()),
    }
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns: Vec<_> =
            self.outputs.iter().map(|output| ColumnJson { name: output.key(), kind: output.shown.kind().word() }).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &1)?;
        map.serialize_entry("table", self.source.name.info().word)?;
        map.serialize_entry("start_ns", &self.source.window.start.nanos())?;
        map.serialize_entry("end_ns", &self.source.window.end.nanos())?;
        map.serialize_entry("total_rows", &self.total)?;
        map.serialize_entry("columns", &columns)?;
        map.serialize_entry("rows", &Rows(self, columns.iter().map(|column| column.name.as_str()).collect()))?;
        map.serialize_entry("warnings", &self.source.analysis.trace.warnings.lines().collect::<Vec<_>>())?;
        map.end()
    }
}

#[derive(Serialize)]
struct ColumnJson {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
}

struct Rows<'t, 'a>(&'t Table<'a>, Vec<&'t str>);
struct RowJson<'t, 'a>(&'t Rows<'t, 'a>, usize);
struct CellJson<'t, 'a>(&'t Source<'a>, Kind, Cell);

impl Serialize for Rows<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.0.len))?;
        (0..self.0.len).try_for_each(|row| rows.serialize_element(&RowJson(self, row)))?;
        rows.end()
    }
}

impl Serialize for RowJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Rows(table, keys) = self.0;
        let mut map = serializer.serialize_map(Some(keys.len()))?;
        for (output, key) in table.outputs.iter().zip(keys) {
            map.serialize_entry(key, &CellJson(&table.source, output.shown.kind(), output.cells[self.1]))?;
        }
        map.end()
    }
}

impl Serialize for CellJson<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(source, kind, cell) = *self;
        match kind {
            _ if cell == NONE => serializer.serialize_none(),
            Kind::Text => source.with_text(cell, |text| serializer.serialize_str(text)),
            Kind::Stack(kind) => serializer.collect_seq(names(source, kind, cell)),
            _ => serializer.serialize_i64(cell),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit_and_as_many_digits_everywhere() {
        let scale = Scale::of([900, 1_200_000].into_iter());
        assert_eq!((scale.write(900), scale.write(1_200_000), scale.unit), ("0.001".to_owned(), "1.200".to_owned(), "ms"));
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
    }

    #[test]
    fn long_texts_keep_what_tells_most() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened("/usr/lib/x86_64-linux-gnu/libc.so.6"), "…_64-linux-gnu/libc.so.6");
        assert_eq!(shortened(&"x".repeat(30)).chars().count(), WIDEST_TEXT);
    }
}
