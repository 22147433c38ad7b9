//! Fits a table into a terminal: how wide each column is, which ones are left out, and where a text
//! that is too long is cut.
//!
//! Numbers are never cut. Texts share the remaining width; the longest shrink first. *Why cut in
//! the middle:* rows that begin alike (a namespace, a folder) and rows that end alike (`(anonymous
//! class)::run()`) stay distinguishable. If they do not, the cut moves to where they differ.

use rustc_hash::{FxHashMap, FxHashSet};

/// Minimum width of a text, terminal columns, however narrow the terminal.
const MIN_TEXT_COLUMNS: usize = 8;
/// Spaces between two columns of a table.
pub(super) const GAP: usize = 2;

/// The width that a column of a table needs, in terminal columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// The width of its widest cell.
    pub cells: usize,
    /// The width of its header, which is not cut.
    pub header: usize,
    /// Whether its cells may be cut.
    pub is_text: bool,
    /// Whether it stays when others are left out: without it, the order of the rows makes no sense.
    pub is_key: bool,
}

impl Need {
    fn full_width(self) -> usize {
        self.cells.max(self.header)
    }

    fn min_width(self) -> usize {
        if self.is_text {
            self.full_width().min(self.header.max(MIN_TEXT_COLUMNS))
        } else {
            self.full_width()
        }
    }
}

/// The width of each column in a terminal of `width` columns; 0 for one that is left out.
pub(super) fn widths(needs: &[Need], width: usize) -> Vec<usize> {
    let mut is_shown = vec![true; needs.len()];
    let min_total = |is_shown: &[bool]| {
        let shown = || needs.iter().zip(is_shown).filter(|(_, shown)| **shown);
        shown().map(|(need, _)| need.min_width()).sum::<usize>()
            + GAP * shown().count().saturating_sub(1)
    };
    // Leave out columns from the right, except a text in the last column, which is long and tells
    // the most.
    let last = needs.len().saturating_sub(1);
    let is_last_text = needs.last().is_some_and(|need| need.is_text);
    for at in (1..last + usize::from(!is_last_text)).rev().chain(is_last_text.then_some(last)) {
        if min_total(&is_shown) > width && !needs[at].is_key && at > 0 {
            is_shown[at] = false;
        }
    }
    let shown: Vec<usize> = (0..needs.len()).filter(|&at| is_shown[at]).collect();
    let mut widths = vec![0; needs.len()];
    let total = |cap: usize| {
        let of = |&at: &usize| {
            if needs[at].is_text {
                needs[at].full_width().min(cap.max(needs[at].min_width()))
            } else {
                needs[at].full_width()
            }
        };
        shown.iter().map(of).sum::<usize>() + GAP * shown.len().saturating_sub(1)
    };
    // The maximum width of texts with which all columns fit.
    let (mut fits, mut too_wide) = (0, width + 1);
    while too_wide - fits > 1 {
        let cap = fits + (too_wide - fits) / 2;
        if total(cap) <= width { fits = cap } else { too_wide = cap }
    }
    let mut left = width.saturating_sub(total(fits));
    for &at in shown.iter().rev() {
        let need = needs[at];
        widths[at] = if need.is_text {
            need.full_width().min(fits.max(need.min_width()))
        } else {
            need.full_width()
        };
        let more = (need.full_width() - widths[at]).min(left);
        (widths[at], left) = (widths[at] + more, left - more);
    }
    widths
}

/// Cuts texts longer than `width`, so that different texts stay different.
pub(super) fn cut(cells: &mut [String], width: usize) {
    let mut by_cut: FxHashMap<String, FxHashSet<&str>> = FxHashMap::default();
    for cell in cells.iter() {
        by_cut.entry(middle(cell, width)).or_default().insert(cell);
    }
    let mut apart: FxHashMap<String, String> = FxHashMap::default();
    for alike in by_cut.into_values().filter(|alike| alike.len() > 1) {
        let mut alike: Vec<Vec<char>> =
            alike.into_iter().map(|text| text.chars().collect()).collect();
        alike.sort_unstable();
        for (at, text) in alike.iter().enumerate() {
            let common =
                |other: &Vec<char>| text.iter().zip(other).take_while(|(a, b)| a == b).count();
            let before = at.checked_sub(1).and_then(|before| alike.get(before)).map_or(0, common);
            let differs_at = before.max(alike.get(at + 1).map_or(0, common));
            apart.insert(text.iter().collect(), around(text, differs_at, width));
        }
    }
    for cell in cells.iter_mut() {
        *cell = apart.get(cell.as_str()).cloned().unwrap_or_else(|| middle(cell, width));
    }
}

/// The beginning and the end, with … between them.
fn middle(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(1);
    // The end of a path, a name or a stack is a little more informative than its beginning.
    let head = prefix(text.chars(), keep * 2 / 5);
    let tail = prefix(text.chars().rev(), keep - keep * 2 / 5);
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

/// The beginning, and the part from `at` on; or the end, if that includes `at`.
fn around(text: &[char], at: usize, width: usize) -> String {
    let head = prefix(text.iter().copied(), width / 4);
    let room = width.saturating_sub(head.iter().copied().map(columns_of).sum::<usize>() + 1);
    let tail = prefix(text.iter().rev().copied(), room);
    if text.len() - tail.len() <= at {
        return head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect();
    }
    let rest = prefix(text.get(at..).unwrap_or(&[]).iter().copied(), room.saturating_sub(1));
    head.into_iter().chain(['…']).chain(rest).chain(['…']).collect()
}

/// The first letters that fit into `width` columns.
fn prefix(letters: impl Iterator<Item = char>, width: usize) -> Vec<char> {
    let mut used = 0;
    let fits = |c: &char| {
        used += columns_of(*c);
        used <= width
    };
    letters.take_while(fits).collect()
}

/// The number of terminal columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(columns_of).sum() }
}

/// East Asian wide letters and emoji take two columns (UAX #11), combining marks none.
const fn columns_of(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}' => 2,
        '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}' => 2,
        '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(cells: usize, header: usize, is_text: bool) -> Need {
        Need { cells, header, is_text, is_key: false }
    }

    #[test]
    fn all_fits_where_there_is_room() {
        assert_eq!(widths(&[need(4, 9, false), need(40, 6, true)], 80), [9, 40]);
    }

    #[test]
    fn the_longest_text_gives_first_and_numbers_never() {
        let needs = [need(10, 4, false), need(12, 6, true), need(200, 10, true)];
        assert_eq!(widths(&needs, 80), [10, 12, 54]);
        assert_eq!(widths(&needs, 40), [10, 12, 14]);
        assert_eq!(widths(&needs, 32), [10, 8, 10]);
    }

    #[test]
    fn what_has_no_room_is_left_out_from_the_right_but_for_the_last_and_the_key() {
        let mut needs = vec![need(10, 4, false); 8];
        needs.push(need(100, 10, true));
        needs[6].is_key = true;
        let found = widths(&needs, 60);
        assert_eq!(found, [10, 10, 10, 0, 0, 0, 10, 0, 12]);
        for width in 0..200 {
            let found = widths(&needs, width);
            let used: usize =
                found.iter().filter(|width| **width > 0).map(|width| width + GAP).sum::<usize>()
                    - GAP;
            // The first column and the key stay however narrow it is.
            assert!(used <= width.max(22), "{width}: {found:?}");
        }
    }

    #[test]
    fn texts_are_cut_in_the_middle() {
        let cut = |texts: &[&str], width| {
            let mut cells: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            cut(&mut cells, width);
            cells
        };
        assert_eq!(
            cut(&["short", "/usr/lib/x86_64-linux-gnu/libc.so.6"], 16),
            ["short", "/usr/l…libc.so.6"]
        );
        assert_eq!(cut(&["漢字漢字漢字"], 7), ["漢…漢字"], "a wide letter takes two columns");
    }

    #[test]
    fn texts_that_differ_in_their_middle_go_on_to_differ() {
        let text = |what: &str| {
            format!(
                "std::thread::Builder::spawn_unchecked::{what}::poll_with_the_same_end_everywhere"
            )
        };
        for width in MIN_TEXT_COLUMNS..90 {
            let mut cells: Vec<String> = ["reader", "writer", "x", "reader"].map(text).to_vec();
            cut(&mut cells, width);
            assert!(
                cells[0] != cells[1] && cells[0] != cells[2] && cells[1] != cells[2],
                "{width}: {cells:?}"
            );
            assert_eq!(cells[0], cells[3]);
            assert!(cells.iter().all(|cell| columns(cell) <= width), "{width}: {cells:?}");
        }
    }
}
