//! The queries of the page on a big trace: views, the busy curve, pivots, flame graphs. The trace
//! has 20 million switches, 64 CPUs, 2,000 threads and a million distinct stacks, generated in
//! memory.

#[path = "../../crates/analysis/examples/big/trace.rs"]
mod big;

use crate::cost::Spread;
use crate::table::Table;
use std::time::Instant;
use unhitch_analysis::flame::{Drawing, Flame};
use unhitch_analysis::lod::{Lane, Lanes, Screen};
use unhitch_analysis::table::{Name, PivotQuestion, Query, Selection, Stored, Words};
use unhitch_analysis::{Analysis, Cancel, Rules, StackKind};
use unhitch_model::{ThreadId, Trace, Window};

const SIZE: big::Size = big::Size {
    switches: 20_000_000,
    cpus: 64,
    threads: 2_000,
    stacks: 1_000_000,
    samples: 1_000_000,
};
const COLUMNS: u32 = 1600;
/// Number of windows whose views are measured.
const VIEWS: u64 = 200;
/// Number of rounds of everything else.
const ROUNDS: usize = 7;

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds of some rounds, and the result of the last.
fn rounds<T>(work: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<(T, Spread)> {
    let (first, ms) = timed(&work);
    let (mut last, mut all) = (first?, vec![ms]);
    for _ in 1..ROUNDS {
        let (done, ms) = timed(&work);
        (last, all) = (done?, [all, vec![ms]].concat());
    }
    Ok((last, Spread::of(all)))
}

/// The big trace.
pub fn trace() -> Trace {
    big::trace(&SIZE)
}

/// Measures everything here.
pub fn page(table: &mut Table) -> anyhow::Result<()> {
    let trace = trace();
    let ((analysis, lanes), first_ms) = timed(|| first_view(&trace));
    let what = "page: first view after loading 20 M switches: s";
    table.ours(what, format!("{:.2}", first_ms / 1e3), "≤ 3", Some(first_ms <= 3e3));
    views(table, &analysis, &lanes)?;
    let (slices, bytes) = lanes.size();
    table.ours(
        "  pyramids: slices, MB",
        format!("{:.1} M, {:.0}", slices as f64 / 1e6, bytes as f64 / 1e6),
        "",
        None,
    );
    drop(lanes);
    flames(table, &analysis)?;
    pivots(table, &analysis)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    table.ours("  peak memory of all that", peak.to_owned(), "", None);
    Ok(())
}

/// The indices, the lanes of all CPUs, and the first view of the page.
pub fn first_view(trace: &Trace) -> (Analysis<'_>, Lanes) {
    let analysis = Analysis::new(trace, &Rules::default());
    let lanes = Lanes::new(&analysis);
    let cpus: Vec<Lane> = trace.spans.iter().map(|span| Lane::Cpu(span.cpu)).collect();
    let screen = Screen::new(analysis.timeline.window(), COLUMNS);
    // Never cancelled.
    let _ = lanes.views(&analysis, &cpus, &screen, &Cancel::never());
    let _ = lanes.busy_ns(&analysis, &screen, &Cancel::never());
    (analysis, lanes)
}

fn views(table: &mut Table, analysis: &Analysis<'_>, lanes: &Lanes) -> anyhow::Result<()> {
    let never = Cancel::never();
    let whole = analysis.timeline.window();
    let threads: Vec<Lane> = (1..=40).map(|index| Lane::Thread(ThreadId(index))).collect();
    let cpus: Vec<Lane> = (0..SIZE.cpus).map(Lane::Cpu).collect();
    let everything = Screen::new(whole, COLUMNS);
    let (done, ms) = timed(|| lanes.views(analysis, &threads, &everything, &never));
    done?;
    table.ours("  40 threads never looked at: ms", format!("{ms:.1}"), "", None);
    let (done, ms) = timed(|| lanes.prepare_threads(analysis, &never));
    done?;
    table.ours(
        "  lanes of all threads, in the background: s",
        format!("{:.1}", ms / 1e3),
        "",
        None,
    );
    for (what, which) in [("64 CPUs", &cpus), ("40 threads", &threads)] {
        // Windows at every scale and place, the same in every run.
        let (mut times, mut seed) = (Vec::new(), 1u64);
        for view in 0..VIEWS {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let length = whole.duration_ns() >> (view % 20);
            let start =
                whole.start.plus((whole.duration_ns() - length).min(seed % whole.duration_ns()));
            let screen = Screen::new(Window::new(start, start.plus(length)), COLUMNS);
            let (done, ms) = timed(|| lanes.views(analysis, which, &screen, &never));
            done?;
            times.push(ms);
        }
        times.sort_by(f64::total_cmp);
        let (median, late) = (times[times.len() / 2], times[times.len() * 95 / 100]);
        let what = format!("  a view of {what}, 1,600 columns: ms, median and 95 %");
        table.ours(&what, format!("{median:.1}, {late:.1}"), "≤ 16", Some(late <= 16.0));
        let (_, ms) = rounds(|| Ok(lanes.views(analysis, which, &everything, &never)?))?;
        table.ours("    of everything", ms.to_string(), "≤ 16", Some(ms.median <= 16.0));
    }
    let (_, ms) = rounds(|| Ok(lanes.busy_ns(analysis, &everything, &never)?))?;
    table.ours(
        "  the busy curve of everything: ms",
        ms.to_string(),
        "≤ 16",
        Some(ms.median <= 16.0),
    );
    Ok(())
}

fn flames(table: &mut Table, analysis: &Analysis<'_>) -> anyhow::Result<()> {
    let stored = Stored::new(analysis, Name::Samples, analysis.timeline.window());
    flame(table, &stored, StackKind::Sample)?;
    let stored = Stored::new(analysis, Name::Wakes, analysis.timeline.window());
    flame(table, &stored, StackKind::Wake)
}

fn flame(table: &mut Table, stored: &Stored<'_>, kind: StackKind) -> anyhow::Result<()> {
    let drawing = Drawing {
        selection: Selection::default(),
        pixels: COLUMNS,
        root: &[],
        inverted: false,
        modules: false,
    };
    let (flame, ms) = rounds(|| Ok(Flame::new(stored, kind, drawing, &Cancel::never())?))?;
    let what =
        format!("  flame of {} stacks ({}), a million distinct: ms", flame.all_count, kind.word());
    table.ours(&what, ms.to_string(), "≤ 500", Some(ms.median <= 500.0));
    Ok(())
}

fn pivots(table: &mut Table, analysis: &Analysis<'_>) -> anyhow::Result<()> {
    let never = Cancel::never();
    let (stored, ms) = timed(|| Stored::new(analysis, Name::Waits, analysis.timeline.window()));
    let rows = stored.len() as f64 / 1e6;
    table.ours(&format!("  collecting {rows:.1} M waits: s"), format!("{:.1}", ms / 1e3), "", None);
    let show = Some("count,sum:waited,avg:waited,max:waited");
    for by in ["reason,thread", "thread,reason", "wait stack,thread"] {
        let query = Query::new(Name::Waits, Words { by: Some(by), show, ..Words::default() })?;
        let ask = |path: &[String]| {
            let opened = &query.groups()[..path.len()];
            let question = PivotQuestion {
                query: &query,
                opened,
                path,
                selection: Selection::default(),
                page: (0, 200),
            };
            Ok::<_, anyhow::Error>(stored.level(question, &never)?)
        };
        let (first, cold_ms) = timed(|| ask(&[]));
        first?;
        let (level, ms) = rounds(|| ask(&[]))?;
        let what = format!("  pivot of {rows:.1} M rows by {by}, {} groups: ms", level.total);
        table.ours(
            &what,
            format!("{ms:.0}; {cold_ms:.0} the first time"),
            "≤ 300",
            Some(ms.median <= 300.0),
        );
        if let Some(key) = level.lines.first().and_then(|line| line.key.clone()) {
            ask(std::slice::from_ref(&key))?;
            let (_, ms) = rounds(|| ask(std::slice::from_ref(&key)))?;
            table.ours(
                "    its largest group opened",
                format!("{ms:.0}"),
                "≤ 300",
                Some(ms.median <= 300.0),
            );
        }
    }
    Ok(())
}
