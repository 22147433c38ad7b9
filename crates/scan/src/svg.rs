//! An address space as a picture: its areas from the lowest address to the highest, with sizes on a
//! logarithmic scale.
//!
//! *Why logarithmic:* a program of 100 MiB may reserve 2 TiB in an address space of 128 TiB; on a
//! linear scale nothing would be visible. Every area has a tooltip that describes it.

use crate::address_space::AddressSpace;
use crate::areas::Area;
use crate::groups::Kind;
use crate::text::{lines, title};
use std::fmt::Write;
use unhitch_model::units::{bytes, plural};
use unhitch_model::visible;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 96.0;
const HEIGHT: f64 = 260.0;
/// The scale goes from a page to the whole user address space.
const FROM: u64 = 4 << 10;
const TO: u64 = 128 << 40;
/// A gap is drawn this much narrower than an area of its size.
const GAP_PART: f64 = 0.15;
const LINE_CHARS: usize = 150;
/// Areas of at least this width have their address below them.
const MIN_LABELLED_WIDTH: f64 = 30.0;

/// Draws the address space.
pub fn svg(space: &AddressSpace) -> String {
    let findings: Vec<String> =
        space.findings.iter().take(2).flat_map(|finding| lines(finding, LINE_CHARS)).collect();
    let top = TOP + 16.0 * findings.len() as f64;
    let height = top + HEIGHT + 110.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n"
    );
    out += include_str!("svg_head.xml");
    let total = &space.total;
    let head = format!(
        "{}: {}, {} reserved, {} committed, {} of page tables",
        title(space),
        plural(total.mappings, "mapping"),
        bytes(total.reserved_bytes),
        bytes(total.committed_bytes),
        bytes(space.page_tables.allocated_bytes)
    );
    let head = escape(&head);
    let _ = writeln!(
        out,
        r#"<title>{head}</title><text x="12" y="26" font-size="15" font-weight="600">{head}</text>"#
    );
    for (index, line) in findings.iter().enumerate() {
        let _ = writeln!(
            out,
            r#"<text x="12" y="{:.0}">{}</text>"#,
            48.0 + 16.0 * index as f64,
            escape(line)
        );
    }
    legend(space, top - 26.0, &mut out);
    axis(top, &mut out);
    draw_areas(&space.areas, space.total.pages.is_some(), top, &mut out);
    let note = "From the lowest address up; sizes on a logarithmic scale. Outline: reserved; \
                light: committed; solid: resident (with --pages); red line: executable.";
    let _ = writeln!(
        out,
        r#"<text class="dim" x="{LEFT}" y="{:.0}" font-size="11">{note}</text>"#,
        top + HEIGHT + 96.0
    );
    out.push_str("</svg>\n");
    out
}

/// The position of a size on the scale, 0 to 1.
fn scaled(size: u64) -> f64 {
    let log = |size: u64| (size.clamp(FROM, TO) as f64).log2();
    if size == 0 { 0.0 } else { (log(size) - log(FROM) + 1.0) / (log(TO) - log(FROM) + 1.0) }
}

fn axis(top: f64, out: &mut String) {
    for shift in [12, 20, 30, 40, 47] {
        let y = top + HEIGHT * (1.0 - scaled(1 << shift));
        let _ = writeln!(
            out,
            r#"<line class="grid" x1="{LEFT}" x2="{:.0}" y1="{y:.1}" y2="{y:.1}"/><text class="dim" x="{:.0}" y="{:.1}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            bytes(1 << shift)
        );
    }
}

fn draw_areas(areas: &[Area], has_pages: bool, top: f64, out: &mut String) {
    let gap_after = |index: usize| match (areas.get(index), areas.get(index + 1)) {
        (Some(area), Some(next)) => next.start.saturating_sub(area.end),
        _ => 0,
    };
    let weight = |index: usize, area: &Area| {
        (scaled(area.reserved_bytes), GAP_PART * scaled(gap_after(index)))
    };
    let sum: f64 = areas
        .iter()
        .enumerate()
        .map(|(index, area)| weight(index, area))
        .map(|(own, gap)| own + gap)
        .sum();
    let scale = (WIDTH - LEFT - RIGHT) / sum.max(1e-9);
    let (mut x, bottom) = (LEFT, top + HEIGHT);
    let mut label_end = 0.0;
    for (index, area) in areas.iter().enumerate() {
        let (own, gap) = weight(index, area);
        let width = (own * scale).max(0.5);
        let class = class(area.kind);
        let mut tooltip = format!(
            "{} at {:#x}: {}, {} reserved, {} committed",
            name(area.kind),
            area.start,
            plural(area.mappings, "mapping"),
            bytes(area.reserved_bytes),
            bytes(area.committed_bytes)
        );
        if has_pages {
            let _ = write!(tooltip, ", {} resident", bytes(area.resident_bytes));
        }
        let _ = writeln!(out, "<g><title>{}</title>", escape(&tooltip));
        let mut bar = |what: &str, size: u64, max_height: f64| {
            let height = scaled(size) * max_height;
            let _ = writeln!(
                out,
                r#"<rect class="{what}" x="{x:.2}" y="{:.2}" width="{width:.2}" height="{height:.2}"/>"#,
                bottom - height
            );
        };
        bar("reserved", area.reserved_bytes, HEIGHT);
        bar(&format!("{class} committed"), area.committed_bytes, HEIGHT);
        if has_pages {
            bar(class, area.resident_bytes, HEIGHT);
        }
        if area.executable_bytes > 0 {
            let _ = writeln!(
                out,
                r#"<rect class="executable" x="{x:.2}" y="{bottom:.2}" width="{width:.2}" height="5"/>"#
            );
        }
        out.push_str("</g>\n");
        if width >= MIN_LABELLED_WIDTH && x > label_end {
            let _ = writeln!(
                out,
                r#"<text class="dim" font-size="10" transform="translate({:.1} {:.1}) rotate(35)">{:#x}</text>"#,
                x + 2.0,
                bottom + 16.0,
                area.start
            );
            label_end = x + MIN_LABELLED_WIDTH;
        }
        x += (own + gap) * scale;
    }
}

fn legend(space: &AddressSpace, y: f64, out: &mut String) {
    let mut kinds: Vec<Kind> = space.areas.iter().map(|area| area.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut x = LEFT;
    for kind in kinds {
        let (class, name) = (class(kind), name(kind));
        let _ = writeln!(
            out,
            r#"<rect class="{class}" x="{x:.0}" y="{:.0}" width="12" height="12"/><text x="{:.0}" y="{y:.0}">{name}</text>"#,
            y - 10.0,
            x + 17.0
        );
        x += 34.0 + 7.0 * name.len() as f64;
    }
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Heap => "heap",
        Kind::Stack => "stack",
        Kind::Anonymous => "anonymous",
        Kind::Shared => "shared",
        Kind::Jit => "jit",
        Kind::Reservation => "reservation",
        Kind::Device => "device",
        Kind::Kernel => "kernel",
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Jit => "code generated at run time",
        Kind::Anonymous => "anonymous memory",
        Kind::Shared => "shared memory",
        _ => class(kind),
    }
}

/// Escapes text for XML; control characters are made visible.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in visible(text).chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_on_a_logarithmic_scale() {
        assert_eq!(scaled(0), 0.0);
        assert!(
            scaled(1) > 0.0
                && scaled(4096) == scaled(1)
                && scaled(TO) == 1.0
                && scaled(u64::MAX) == 1.0
        );
        let steps = [scaled(8 << 10) - scaled(4 << 10), scaled(2 << 40) - scaled(1 << 40)];
        assert!((steps[0] - steps[1]).abs() < 1e-12);
    }

    #[test]
    fn names_cannot_break_the_picture() {
        assert_eq!(escape("<a> & \"b\"\n\u{1}"), r"&lt;a&gt; &amp; &quot;b&quot;\n\x01");
    }
}
