//! Prints a table as text for people, and as CSV and JSON for programs.
//!
//! In the text, times count from the trace's origin. All durations have one unit and the same
//! number of digits, so that they can be compared down a column and along a row. Stacks come last,
//! cut to the most informative functions. CSV and JSON have nanoseconds and whole stacks, root
//! first. Their points in time are on the trace's clock, as in `why --json`. The JSON has the
//! origin from which the text counts (`origin_ns`); the CSV has each time twice, in nanoseconds on
//! the clock and in seconds since the origin, which `--from` takes. The JSON is a contract: fields
//! may be added, never changed or removed.

use super::cells::time;
use super::column::Kind;
use super::run::{Output, Table};
use super::source::Source;
use super::{Cell, NONE, Name, fit};
use crate::stacks::StackKind;
use crate::stacks::text::{brief_stack_text, no_stack};
use crate::wording::recording::{self, Lack};
use crate::wording::units;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use std::fmt::Write;
use unhitch_model::{Recorded, StackId, Time, Trace, visible};

/// How a table is laid out for people.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fit {
    /// The terminal's width, columns. Without it, lines may have any length and no text is cut.
    pub width: Option<usize>,
    /// Whether to show whole stacks, and cut nothing whatever the width.
    pub whole: bool,
}

impl Output {
    /// The key in JSON and CSV: `sum_waited_ns`.
    fn key(&self) -> String {
        self.shown.key()
    }

    /// True for columns with long texts, which go to the right.
    fn is_long(&self) -> bool {
        matches!(self.shown.kind(), Kind::Stack(_))
            || matches!(
                self.shown.title().as_str(),
                "cause" | "command line" | "function" | "address"
            )
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

    /// The unit that suits the maximum of `cells`.
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
    /// As text, of any width.
    pub fn text(&self) -> String {
        self.fitted(Fit::default())
    }

    /// As text. The last lines show what was left out, what lies outside the span that all CPUs
    /// cover, and what was not recorded.
    pub fn fitted(&self, fit: Fit) -> String {
        let mut out = String::new();
        if self.total == 0 {
            let table = self.source.name;
            let lacks = table.needs().or((table == Name::Stalls).then_some(Recorded::Switches));
            match lacks.and_then(|what| recording::not_recorded(self.trace(), what, "")) {
                Some(sentence) => return sentence,
                None => {
                    let left_out = self
                        .left_out()
                        .map_or(String::new(), |samples| format!(" ({samples} left out)"));
                    let _ = writeln!(out, "No row of {} matches{left_out}.", table.info().word);
                }
            }
        } else {
            self.lines(fit, &mut out);
        }
        if self.total > self.len {
            let _ = writeln!(
                out,
                "… and {} more of {} rows{} (--top N)",
                units::count((self.total - self.len) as u64),
                units::count(self.total as u64),
                self.rest()
            );
        }
        if let Some(samples) = self.left_out().filter(|_| self.total > 0) {
            let _ = writeln!(out, "Left out: {samples}.");
        }
        out.extend(self.uncovered());
        out.extend(self.lacking().iter().filter_map(|(what, columns)| {
            let columns = format!(" ({})", columns.join(", "));
            recording::not_recorded(self.trace(), *what, &columns)
        }));
        out
    }

    fn trace(&self) -> &Trace {
        self.source.analysis.trace
    }

    /// The header and the rows.
    fn lines(&self, fit: Fit, out: &mut String) {
        // Long columns go to the right.
        let (short, long): (Vec<&Output>, Vec<&Output>) =
            self.outputs.iter().partition(|output| !output.is_long());
        let columns: Vec<&Output> = short.into_iter().chain(long).collect();
        let durations = columns.iter().filter(|output| output.shown.kind() == Kind::Duration);
        let scale = Scale::of(durations.flat_map(|output| output.cells.iter().copied()));
        let mut texts: Vec<Vec<String>> =
            columns.iter().map(|output| self.column(output, scale, fit.whole)).collect();
        let widest =
            |cells: &[String]| cells.iter().map(|cell| fit::columns(cell)).max().unwrap_or(0);
        let need = |(output, cells): (&&Output, &Vec<String>)| fit::Need {
            cells: cells.get(1..).map_or(0, widest),
            header: cells.first().map_or(0, |header| fit::columns(header)),
            is_text: matches!(output.shown.kind(), Kind::Text | Kind::Stack(_)),
            is_key: output.shown.same(self.sort),
        };
        let needs: Vec<fit::Need> = columns.iter().zip(&texts).map(need).collect();
        let widths = match fit.width.filter(|_| !fit.whole) {
            Some(width) => fit::widths(&needs, width),
            None => texts.iter().map(|cells| widest(cells)).collect(),
        };
        for ((cells, need), &width) in texts.iter_mut().zip(&needs).zip(&widths) {
            if need.is_text && width < need.cells {
                fit::cut(&mut cells[1..], width);
            }
        }
        for row in 0..=self.len {
            let mut line = String::new();
            for ((cells, need), &width) in
                texts.iter().zip(&needs).zip(&widths).filter(|(_, width)| **width > 0)
            {
                let gap = if line.is_empty() { 0 } else { fit::GAP };
                let padding = width.saturating_sub(fit::columns(&cells[row]));
                let (before, after) =
                    if need.is_text { (gap, padding) } else { (gap + padding, 0) };
                let _ = write!(line, "{:before$}{}{:after$}", "", cells[row], "");
            }
            let _ = writeln!(out, "{}", line.trim_end());
        }
        let gone: Vec<String> = columns
            .iter()
            .zip(&widths)
            .filter(|(_, width)| **width == 0)
            .map(|(output, _)| output.shown.title())
            .collect();
        if !gone.is_empty() {
            let _ = writeln!(out, "Too narrow for: {} (--wide shows all).", gone.join(", "));
        }
    }

    /// What lies outside the span that all CPUs cover: the number of such rows or, for sums of
    /// time, of the events that the sums do not include.
    fn uncovered(&self) -> Option<String> {
        let (trace, covered, passed) =
            (self.trace(), self.source.analysis.timeline.window(), self.passed as u64);
        let second = |time: Time| units::seconds(time.since(trace.origin()));
        let span = format!("{} to {}", second(covered.start), second(covered.end));
        if self.outside > 0 {
            let rows = units::plural(passed, "row");
            let outside = units::count(self.outside as u64);
            let lie = if self.outside == 1 { "lies" } else { "lie" };
            return Some(format!(
                "{outside} of {rows} {lie} outside the span that was recorded on every CPU ({span}).\n"
            ));
        }
        let adds_up =
            matches!(self.source.name, Name::Waits | Name::Threads | Name::Cpus | Name::Stalls);
        let events = if adds_up { trace.uncovered_events() } else { 0 };
        (events > 0).then(|| {
            let lie = if events == 1 { "lies" } else { "lie" };
            let events = units::plural(events, "event");
            format!("Sums of time cover only the span that was recorded on every CPU ({span}); {events} in the file {lie} outside it.\n")
        })
    }

    /// What was not recorded, with the shown columns that would hold it.
    fn lacking(&self) -> Vec<(Recorded, Vec<String>)> {
        let mut found: Vec<(Recorded, Vec<String>)> = Vec::new();
        for output in &self.outputs {
            let Some(what) = self.lacks(output) else { continue };
            match found.iter_mut().find(|(known, _)| *known == what) {
                Some((_, titles)) => titles.push(output.shown.title()),
                None => found.push((what, vec![output.shown.title()])),
            }
        }
        found
    }

    /// What must have been recorded for a column to hold anything, if it was not.
    pub(super) fn lacks(&self, output: &Output) -> Option<Recorded> {
        output.shown.column()?.needs(self.source.name).find(|what| !self.trace().has(*what))
    }

    /// `73,208 samples of idle CPUs`, if the table leaves them out.
    fn left_out(&self) -> Option<String> {
        let samples = &self.source.analysis.trace.samples;
        let idle = || {
            samples.range(self.source.window).filter(|&sample| !samples.is_work(sample)).count()
                as u64
        };
        let idle = if self.source.name == Name::Samples { idle() } else { 0 };
        (idle > 0).then(|| format!("{} of idle CPUs", units::plural(idle, "sample")))
    }

    /// `, together count 12, sum waited 1.204 s`.
    fn rest(&self) -> String {
        let sums = self.outputs.iter().filter_map(|output| {
            if self.lacks(output).is_some() {
                return None;
            }
            let rest = u64::try_from(output.rest?).ok()?;
            let text = if output.shown.kind() == Kind::Duration {
                units::duration(rest)
            } else {
                units::count(rest)
            };
            Some(format!("{} {text}", output.shown.title()))
        });
        let sums: Vec<String> = sums.collect();
        if sums.is_empty() { String::new() } else { format!(", together {}", sums.join(", ")) }
    }

    /// The header and the cells of a column as text.
    fn column(&self, output: &Output, scale: Scale, whole_stacks: bool) -> Vec<String> {
        let start = time(self.trace().origin());
        let nothing = if self.lacks(output).is_some() { "not recorded" } else { "–" };
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
            _ if cell == NONE => nothing.to_owned(),
            Kind::Duration => scale.write(cell),
            Kind::Time => scale.write(cell - start),
            Kind::Count => u64::try_from(cell).map_or_else(|_| cell.to_string(), units::count),
            Kind::Number => cell.to_string(),
            Kind::Text => self.source.with_text(cell, |text| visible(text).into_owned()),
            Kind::Stack(kind) if whole_stacks => {
                visible(&names(&self.source, kind, cell).join(" → ")).into_owned()
            }
            Kind::Stack(kind) => visible(&self.brief(kind, stack(cell))).into_owned(),
        };
        std::iter::once(title).chain(output.cells.iter().map(cell)).collect()
    }

    fn brief(&self, kind: StackKind, stack: StackId) -> String {
        let analysis = self.source.analysis;
        let (_, kernel_len) = analysis.stacks.trimmed(analysis.trace, kind, stack);
        brief_stack_text(analysis, stack, self.source.frames(kind, stack), kernel_len)
    }

    /// As comma-separated values (RFC 4180), with stacks joined by semicolons, root first. The last
    /// columns repeat points in time in seconds since the trace's origin.
    pub fn csv(&self) -> String {
        let origin = time(self.trace().origin());
        let times = || self.outputs.iter().filter(|output| output.shown.kind() == Kind::Time);
        let seconds = times().map(|output| output.key().replace("_ns", "_s"));
        let keys: Vec<String> =
            self.outputs.iter().map(Output::key).chain(seconds).map(|key| quoted(&key)).collect();
        let mut out = keys.join(",") + "\r\n";
        for row in 0..self.len {
            for (at, output) in self.outputs.iter().enumerate() {
                let cell = output.cells[row];
                out.push_str(if at == 0 { "" } else { "," });
                match output.shown.kind() {
                    _ if cell == NONE => {}
                    Kind::Text => self.source.with_text(cell, |text| out.push_str(&quoted(text))),
                    Kind::Stack(kind) => {
                        out.push_str(&quoted(&names(&self.source, kind, cell).join(";")))
                    }
                    _ => {
                        let _ = write!(out, "{cell}");
                    }
                }
            }
            for cell in times().map(|output| output.cells[row]) {
                out.push(',');
                if cell != NONE {
                    out.push_str(&seconds_since(origin, cell));
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
    let frames = analysis.stacks.untrimmed(analysis.trace, kind, stack);
    let mut names: Vec<String> =
        frames.iter().flat_map(|&frame| analysis.trace.frame_names(frame)).collect();
    names.extend((stack == StackId::OVER_BUDGET).then(|| no_stack(stack).to_owned()));
    names.reverse();
    names
}

/// Seconds with all nine digits, as `--from` takes them.
fn seconds_since(origin: Cell, time: Cell) -> String {
    let since = time.saturating_sub(origin);
    let (sign, ns) = (if since < 0 { "-" } else { "" }, since.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

impl Serialize for Table<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns: Vec<_> = self
            .outputs
            .iter()
            .map(|output| ColumnJson { name: output.key(), kind: output.shown.kind().word() })
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &1)?;
        map.serialize_entry("table", self.source.name.info().word)?;
        let (trace, covered) = (self.trace(), self.source.analysis.timeline.window());
        // Sums of time have the window that they are added up over.
        let window = if self.source.name == Name::Threads {
            self.source.window.intersect(covered)
        } else {
            self.source.window
        };
        map.serialize_entry("origin_ns", &trace.origin().nanos())?;
        map.serialize_entry("start_ns", &window.start.nanos())?;
        map.serialize_entry("end_ns", &window.end.nanos())?;
        map.serialize_entry("covered_start_ns", &covered.start.nanos())?;
        map.serialize_entry("covered_end_ns", &covered.end.nanos())?;
        map.serialize_entry("total_rows", &self.total)?;
        map.serialize_entry("outside_rows", &self.outside)?;
        map.serialize_entry("not_recorded", &self.not_recorded_json())?;
        map.serialize_entry("columns", &columns)?;
        map.serialize_entry(
            "rows",
            &Rows(self, columns.iter().map(|column| column.name.as_str()).collect()),
        )?;
        map.serialize_entry(
            "warnings",
            &self.source.analysis.trace.warnings.lines().collect::<Vec<_>>(),
        )?;
        map.end()
    }
}

impl Table<'_> {
    fn not_recorded_json(&self) -> Vec<Lack> {
        let of_table = self.source.name.needs().filter(|what| !self.trace().has(*what));
        let of_columns = self
            .outputs
            .iter()
            .filter_map(|output| Some((self.lacks(output)?, Some(output.key()))));
        let mut found: Vec<Lack> = Vec::new();
        for (what, column) in of_table.map(|what| (what, None)).into_iter().chain(of_columns) {
            match found.iter_mut().find(|known| known.what == what.name()) {
                Some(known) => known.columns.extend(column),
                None => {
                    let lack = Lack::of(self.trace(), what);
                    let columns = column.into_iter().collect();
                    found.extend(lack.map(|lack| Lack { columns, ..lack }));
                }
            }
        }
        found
    }
}

#[derive(Serialize)]
pub(super) struct ColumnJson {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
}

struct Rows<'t, 'a>(&'t Table<'a>, Vec<&'t str>);
struct RowJson<'t, 'a>(&'t Rows<'t, 'a>, usize);
pub(super) struct CellJson<'t, 'a>(pub &'t Source<'a>, pub Kind, pub Cell);

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
            map.serialize_entry(
                key,
                &CellJson(&table.source, output.shown.kind(), output.cells[self.1]),
            )?;
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
    fn durations_have_one_unit_and_the_same_digits() {
        let scale = Scale::of([900, 1_200_000].into_iter());
        assert_eq!(
            (scale.write(900), scale.write(1_200_000), scale.unit),
            ("0.001".to_owned(), "1.200".to_owned(), "ms")
        );
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"hi\""), "\"say \"\"hi\"\"\"");
    }
}
