//! Brings the side-band and the rows of each kind into one order, and writes them.

use super::super::{record, write::write_streamed};
use super::describe;
use super::order::Kind;
use super::records::Records;
use super::selection::{Exported, Selection};
use super::side_band::SideBand;
use std::io::{self, Seek, Write};
use unhitch_model::{Time, Trace, Window};

/// After how many events perf is told that everything so far is in order.
const ROUND: u64 = 10_000;

/// Writes the selected events, and everything that is needed to name their threads and code, to the
/// start of `out`. `producer` names the program that writes it.
///
/// # Errors
/// Those of `out`.
pub fn export(
    trace: &Trace,
    selection: &Selection,
    producer: &str,
    out: &mut (impl Write + Seek),
) -> io::Result<Exported> {
    export_showing(trace, selection, producer, &mut |_| {}, out)
}

/// The same; `show` gets the share of the work that is done, from 0 to 1, now and then.
///
/// # Errors
/// Those of `out`.
pub fn export_showing(
    trace: &Trace,
    selection: &Selection,
    producer: &str,
    show: &mut dyn FnMut(f64),
    out: &mut (impl Write + Seek),
) -> io::Result<Exported> {
    let events = describe::events(trace);
    let features = describe::features(trace, selection.window, producer);
    write_streamed(out, &events, &features, |out| write_records(trace, selection, show, out))
}

fn write_records(
    trace: &Trace,
    selection: &Selection,
    show: &mut dyn FnMut(f64),
    out: &mut impl Write,
) -> io::Result<Exported> {
    let mut side_band = SideBand::new(trace, selection.window.end);
    let mut records = Records::new(trace);
    let mut next = Next::new(trace, selection.window);
    let (mut count, rows) = (0, next.left());
    loop {
        let heads =
            [side_band.peek(), next.waking(), next.sample(), next.contention(), next.switch()];
        let Some((_, kind)) = heads.into_iter().flatten().min() else { break };
        match kind {
            Kind::SideBand | Kind::Exit => side_band.take(records.buffer()),
            Kind::Waking => records.waking(next.wakings.advance(), selection),
            Kind::Sample => records.sample(next.samples.advance(), selection),
            Kind::Contention => records.contention(next.contentions.advance(), selection),
            Kind::Switch => records.switch(next.switches.advance(), selection),
        }
        count += 1;
        if count % ROUND == 0 {
            record::finished_round(records.buffer());
            show(1.0 - next.left() as f64 / rows.max(1) as f64);
        }
        out.write_all(records.buffer())?;
        records.buffer().clear();
    }
    Ok(records.exported)
}

/// The rows of a kind of event that are still to come.
struct Rows(std::ops::Range<usize>);

impl Rows {
    fn peek(&self, times: &[Time], kind: Kind) -> Option<(Time, Kind)> {
        (!self.0.is_empty()).then(|| Some((*times.get(self.0.start)?, kind)))?
    }

    fn advance(&mut self) -> usize {
        self.0.start += 1;
        self.0.start - 1
    }
}

/// The next row of each kind of event.
struct Next<'t> {
    trace: &'t Trace,
    wakings: Rows,
    samples: Rows,
    contentions: Rows,
    switches: Rows,
}

impl<'t> Next<'t> {
    fn new(trace: &'t Trace, window: Window) -> Self {
        Self {
            trace,
            wakings: Rows(trace.wakings.range(window)),
            samples: Rows(trace.samples.range(window)),
            contentions: Rows(trace.contentions.range(window)),
            switches: Rows(trace.switches.range(window)),
        }
    }

    /// How many rows are still to come.
    fn left(&self) -> usize {
        [&self.wakings, &self.samples, &self.contentions, &self.switches]
            .map(|rows| rows.0.len())
            .iter()
            .sum()
    }

    fn waking(&self) -> Option<(Time, Kind)> {
        self.wakings.peek(&self.trace.wakings.time, Kind::Waking)
    }

    fn sample(&self) -> Option<(Time, Kind)> {
        self.samples.peek(&self.trace.samples.time, Kind::Sample)
    }

    fn contention(&self) -> Option<(Time, Kind)> {
        self.contentions.peek(&self.trace.contentions.time, Kind::Contention)
    }

    fn switch(&self) -> Option<(Time, Kind)> {
        self.switches.peek(&self.trace.switches.time, Kind::Switch)
    }
}
