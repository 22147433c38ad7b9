//! A stall as a drawn timeline: the victim's lane on top, below it the threads its waits lead to,
//! arrows where one woke the other.
//!
//! States differ in pattern as well as in colour. If the stall has too many wake-ups to be
//! distinguished, a second panel magnifies the last few.

use crate::diagnose::Stall;
use crate::explain::class_of;
use crate::timeline::{Segment, State};
use crate::wording::units;
use crate::{Analysis, Hop, WaitClass};
use std::fmt::Write;
use unhitch_model::{ThreadId, Window, visible};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 190.0;
const LANE: f64 = 34.0;
const GAP: f64 = 14.0;
const MAX_LANES: usize = 7;
/// Maximum arrows in one panel; more would be a smear.
const MAX_ARROWS: usize = 24;
/// Wake-ups that the magnified panel shows.
const MAGNIFIED: usize = 5;

/// Draws a stall.
pub fn svg(analysis: &Analysis<'_>, stall: &Stall) -> String {
    let explanation = &stall.explanation;
    let mut lanes = vec![stall.candidate.victim];
    let mut hops: Vec<&Hop> = explanation.hops.iter().collect();
    hops.sort_by_key(|hop| (hop.depth, std::cmp::Reverse(hop.window.duration_ns())));
    for hop in &hops {
        for thread in [hop.sleeper, hop.by] {
            if !lanes.contains(&thread) && lanes.len() < MAX_LANES {
                lanes.push(thread);
            }
        }
    }
    let mut panels = vec![widen(explanation.window)];
    let mut wakes: Vec<&Hop> = explanation.hops.iter().filter(|hop| hop.wake.is_some()).collect();
    wakes.sort_by_key(|hop| hop.window.end);
    if let Some(first) = wakes.len().checked_sub(MAGNIFIED).filter(|_| wakes.len() > MAX_ARROWS) {
        panels.push(widen(Window::new(wakes[first].window.end, wakes[wakes.len() - 1].window.end)));
    }
    let panel_height = LANE * lanes.len() as f64 + 58.0;
    let height = 64.0 + panel_height * panels.len() as f64;
    let mut out = String::new();
    let name = |thread: ThreadId| analysis.trace.thread_name(thread, explanation.window.end);
    let by = stall
        .finding
        .culprit
        .filter(|culprit| *culprit != stall.candidate.victim)
        .map_or(String::new(), |culprit| format!(", by {}", name(culprit)));
    let title = format!(
        "{} of {}: {}{by}",
        units::duration(explanation.window.duration_ns()),
        name(stall.candidate.victim),
        stall.finding.pattern.name().replace('_', " ")
    );
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">"#
    );
    out.push_str(include_str!("svg_head.xml"));
    let title = escape(&title);
    let _ = writeln!(
        out,
        r#"<title>{title}</title><text x="12" y="24" font-size="15" font-weight="600">{title}</text>"#
    );
    legend(&mut out);
    for (index, &window) in panels.iter().enumerate() {
        let top = 70.0 + panel_height * index as f64;
        panel(analysis, stall, &lanes, window, top, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

/// The window with a little of what was before and after it.
fn widen(window: Window) -> Window {
    let margin = window.duration_ns() / 20 + 1_000;
    Window::new(window.start.minus(margin), window.end.plus(margin))
}

fn legend(out: &mut String) {
    let mut x = LEFT;
    for (class, words) in [
        ("ran", "ran"),
        ("runnable", "waited for a CPU"),
        ("lock", "waited for a lock"),
        ("sleep", "waited for something else"),
        ("unknown", "not recorded"),
    ] {
        let _ = writeln!(
            out,
            r#"<rect class="{class}" x="{x}" y="38" width="14" height="12"/><text x="{}" y="48">{words}</text>"#,
            x + 19.0
        );
        x += 36.0 + 6.6 * words.len() as f64;
    }
}

fn panel(
    analysis: &Analysis<'_>,
    stall: &Stall,
    lanes: &[ThreadId],
    window: Window,
    top: f64,
    out: &mut String,
) {
    let scale = (WIDTH - LEFT - 12.0) / window.duration_ns().max(1) as f64;
    let x = |time: unhitch_model::Time| LEFT + time.since(window.start) as f64 * scale;
    for (index, &thread) in lanes.iter().enumerate() {
        let y = top + LANE * index as f64;
        let name = units::thread(analysis.trace, thread, window.end);
        let (name, rest) = name
            .split_once(" (")
            .map_or((name.as_str(), ""), |(name, rest)| (name, rest.trim_end_matches(')')));
        let _ = writeln!(
            out,
            r#"<text x="12" y="{}" font-weight="600">{}</text><text x="12" y="{}" class="dim" font-size="10">{}</text>"#,
            y + 10.0,
            escape(name),
            y + 22.0,
            escape(rest)
        );
        for (class, from, to) in pixels(analysis, &analysis.segments(thread, window), &x) {
            let _ = writeln!(
                out,
                r#"<rect class="{class}" x="{from:.1}" y="{y:.1}" width="{:.1}" height="{}"/>"#,
                (to - from).max(0.3),
                LANE - GAP
            );
        }
    }
    let inside: Vec<&Hop> = stall
        .explanation
        .hops
        .iter()
        .filter(|hop| hop.wake.is_some() && window.contains(hop.window.end))
        .collect();
    if inside.len() <= MAX_ARROWS {
        for hop in inside {
            let lane = |thread: ThreadId| lanes.iter().position(|&lane| lane == thread);
            let (Some(from), Some(to)) = (lane(hop.by), lane(hop.sleeper)) else { continue };
            let middle = |lane: usize| top + LANE * lane as f64 + (LANE - GAP) / 2.0;
            let at = x(hop.window.end);
            let _ = writeln!(
                out,
                r##"<path class="arrow" marker-end="url(#head)" d="M{at:.1} {:.1}L{at:.1} {:.1}"/>"##,
                middle(from),
                middle(to)
            );
        }
    }
    let base = top + LANE * lanes.len() as f64;
    let zero = analysis.trace.origin();
    let _ = writeln!(out, r#"<path class="axis" d="M{LEFT} {base:.1}H{}"/>"#, WIDTH - 12.0);
    for tick in 0..=5u64 {
        let time = window.start.plus(window.duration_ns() / 5 * tick);
        let anchor = ["start", "middle", "middle", "middle", "middle", "end"][tick as usize];
        let _ = writeln!(
            out,
            r#"<path class="axis" d="M{:.1} {base:.1}v4"/><text x="{:.1}" y="{:.1}" text-anchor="{anchor}" class="dim">{:.4} s</text>"#,
            x(time),
            x(time),
            base + 17.0,
            time.since(zero) as f64 / 1e9
        );
    }
}

/// What a lane shows, at most one rectangle per pixel: of the segments in one pixel the longest
/// wins.
fn pixels(
    analysis: &Analysis<'_>,
    segments: &[Segment],
    x: &dyn Fn(unhitch_model::Time) -> f64,
) -> Vec<(&'static str, f64, f64)> {
    let mut drawn: Vec<(&'static str, f64, f64)> = Vec::new();
    let mut pending: Option<(&'static str, f64, f64, f64)> = None;
    for segment in segments {
        let (from, to) = (x(segment.window.start), x(segment.window.end));
        let class = class(analysis, segment);
        if to - from >= 1.0 {
            drawn.extend(pending.take().map(|(class, from, to, _)| (class, from, to)));
            drawn.push((class, from, to));
            continue;
        }
        pending = match pending {
            Some((known, start, _, longest)) if to - start < 1.0 => Some(if to - from > longest {
                (class, start, to, to - from)
            } else {
                (known, start, to, longest)
            }),
            other => {
                drawn.extend(other.map(|(class, from, to, _)| (class, from, to)));
                Some((class, from, to, to - from))
            }
        };
    }
    drawn.extend(pending.map(|(class, from, to, _)| (class, from, to)));
    drawn
}

fn class(analysis: &Analysis<'_>, segment: &Segment) -> &'static str {
    match segment.state {
        State::Ran => "ran",
        State::Runnable { .. } => "runnable",
        State::Sleeping(_) if class_of(analysis, segment) == WaitClass::Lock => "lock",
        State::Sleeping(_) => "sleep",
        State::Unknown => "unknown",
    }
}

fn escape(text: &str) -> String {
    // XML cannot hold most control characters, and others make viewers reverse text.
    visible(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
