//! `unhitch lab fairness`: what locks cost and how long threads wait for them, as tables (plain or
//! Markdown), as JSON or as a picture.

mod tables;

use super::tool::Tool;
use crate::args::LabArgs;
use crate::done::Done;
use crate::terminal::{note, print, print_json};
use anyhow::Context;
use std::fmt::Write;
use std::time::Duration;
use tables::{StarvedOf, scenarios};
use unhitch_lab::fairness::{Effort, Fairness, UNCONTENDED_LOCKS, measure};
use unhitch_model::units::{count, duration, plural};

pub(super) const TOOL: Tool = Tool {
    name: "fairness",
    summary: "compares Unhitch's own locks with others: their cost, and how long threads wait for \
              an owner that reacquires the lock at once",
    run,
};

fn run(args: &LabArgs) -> anyhow::Result<Done> {
    let effort = if args.quick { Effort::quick() } else { Effort::full() };
    let fairness = measure(&effort, note)?;
    match (args.json, args.markdown) {
        (true, _) => print_json(&fairness)?,
        (_, true) => {
            print(&tables::markdown(&fairness, &measured(&effort, args.quick, fairness.cpus)))?
        }
        _ => print(&tables::text(&fairness))?,
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, svg(&fairness)).with_context(|| unhitch_model::visible_path(path))?;
        note(&path.display().to_string());
    }
    Ok(Done::Yes)
}

/// Says with what, how and on which machine the figures were measured, as figures in the
/// documentation must.
fn measured(effort: &Effort, quick: bool, cpus: usize) -> String {
    let first = |path, start: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let found = text.lines().find_map(|line| {
            Some(line.strip_prefix(start)?.trim_start_matches(['\t', ' ', ':']).trim().to_owned())
        });
        found.unwrap_or_else(|| "?".to_owned())
    };
    let (model, release) =
        (first("/proc/cpuinfo", "model name"), first("/proc/sys/kernel/osrelease", ""));
    let quick = if quick { " --quick" } else { "" };
    let ns =
        |duration: Duration| self::duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    format!(
        "Measured with `unhitch lab fairness{quick} --markdown` on {cpus} CPUs ({model}), Linux \
         {release}. Each round measured all the locks, one after another. The tables \
         with \"no gap\" in their title count every wait in {} of {}. Uncontended times are \
         the fastest of {} of {} acquisitions. Contended rates are the median of {} of {}.",
        plural(effort.runs.into(), "run"),
        ns(effort.run),
        plural(effort.uncontended_rounds.into(), "round"),
        count(UNCONTENDED_LOCKS.into()),
        plural(effort.rounds.into(), "round"),
        ns(effort.cell),
    )
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 110.0;
const ROW: f64 = 30.0;
const HEAD: f64 = 56.0;
/// The logarithmic axis starts at 1 µs and spans seven decades, to 10 s.
const FIRST_NS: f64 = 1e3;
const DECADES: i32 = 7;

/// Each lock's waits in the scenarios with one owner: a bar from the median to the longest wait,
/// and a tick at the 99th percentile.
fn svg(fairness: &Fairness) -> String {
    let rows = fairness.locks.len() as f64;
    let panel = HEAD + ROW * rows + 34.0;
    let scenarios: Vec<_> = scenarios(fairness).collect();
    let height = 30.0 + panel * scenarios.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>How long threads wait for a lock</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"14\" y=\"22\" font-size=\"15\" font-weight=\"600\">Wait for a lock whose owner holds it for 1 ms at a time, with no gap</text>\n"
    );
    for (index, (title, of)) in scenarios.iter().enumerate() {
        panel_svg(fairness, title, *of, 30.0 + panel * index as f64, &mut out);
    }
    out + "</svg>\n"
}

fn panel_svg(fairness: &Fairness, title: &str, of: StarvedOf, top: f64, out: &mut String) {
    let x = |ns: u64| {
        let decades = (ns.max(1) as f64 / FIRST_NS).log10().clamp(0.0, f64::from(DECADES));
        LEFT + decades / f64::from(DECADES) * (WIDTH - LEFT - RIGHT)
    };
    let bottom = top + HEAD + ROW * fairness.locks.len() as f64;
    let _ = writeln!(
        out,
        "<text x=\"14\" y=\"{:.0}\" font-weight=\"600\">{title}</text><text x=\"{LEFT}\" \
         y=\"{:.0}\" fill=\"#555\">bar: median to longest wait, tick: 99th percentile; \
         logarithmic</text>",
        top + 26.0,
        top + 26.0
    );
    for decade in 0..=DECADES {
        let ns = FIRST_NS as u64 * 10_u64.pow(decade as u32);
        let at = x(ns);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.0}\" y2=\"{bottom:.0}\" \
             stroke=\"#ddd\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\" \
             fill=\"#555\">{}</text>",
            top + HEAD - 8.0,
            bottom + 16.0,
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
                .get(decade as usize)
                .copied()
                .unwrap_or_default(),
        );
    }
    for (row, lock) in fairness.locks.iter().enumerate() {
        let Some(starved) = of(lock) else { continue };
        let waits = &starved.waits;
        let y = top + HEAD + ROW * row as f64;
        let (from, tick, to) =
            (x(waits.quantile_ns(0.5)), x(waits.quantile_ns(0.99)), x(waits.max_ns()));
        let colour = if lock.name.starts_with("unhitch") { "#1a7f37" } else { "#57606a" };
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{from:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"12\" rx=\"2\" fill=\"{colour}\"><title>{}: {} waits, median {}, p99 {}, longest {}</title></rect>\
             <line x1=\"{tick:.1}\" x2=\"{tick:.1}\" y1=\"{:.0}\" y2=\"{:.0}\" stroke=\"#000\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            LEFT - 12.0,
            y + 14.0,
            lock.name,
            y + 4.0,
            (to - from).max(2.0),
            lock.name,
            count(waits.count()),
            duration(waits.quantile_ns(0.5)),
            duration(waits.quantile_ns(0.99)),
            duration(waits.max_ns()),
            y + 1.0,
            y + 19.0,
            to + 8.0,
            y + 14.0,
            duration(waits.max_ns()),
        );
    }
}
