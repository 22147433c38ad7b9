//! The partition as a short table: its largest lines, and the rest as one.

use super::partition::{Share, What};
use crate::wording::{ThreadGroup, thread_groups, units};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use unhitch_model::{ThreadId, Time, Trace};

/// Maximum lines; the rest is summed, so that the lines always add up.
const MAX_LINES: usize = 6;

/// A line: what the time went to, who was responsible, how long. Threads of one name, none of which
/// accounts for much, share one.
#[derive(Clone, Copy)]
pub struct ShareLine {
    /// What the time went to.
    pub what: What,
    /// Who was responsible; none where nobody is known.
    pub who: Option<ThreadGroup>,
    /// How long, nanoseconds.
    pub ns: u64,
}

/// The lines, largest first, and what they leave out.
pub struct ShareLines {
    /// The largest.
    pub shown: Vec<ShareLine>,
    /// Time of the rest, nanoseconds, and the number of shares in it; none if all are shown.
    pub rest: Option<(u64, u64)>,
}

impl ShareLines {
    /// The lines of a partition, with the names that threads had at `at`.
    pub fn of(trace: &Trace, at: Time, shares: &[Share]) -> Self {
        let mut shown = lines(trace, at, shares);
        let keep = if shown.len() > MAX_LINES + 1 { MAX_LINES } else { shown.len() };
        let rest = shown.split_off(keep);
        let members = |line: &ShareLine| line.who.map_or(1, |who| who.members as u64);
        let rest = (!rest.is_empty()).then(|| {
            (rest.iter().map(|line| line.ns).sum(), rest.iter().map(members).sum::<u64>())
        });
        Self { shown, rest }
    }

    /// How much of the whole each line is, the rest last. They add up to exactly 100.0 %.
    pub fn percents(&self) -> Vec<String> {
        let shown = self.shown.iter().map(|line| line.ns);
        units::percents(&shown.chain(self.rest.map(|(ns, _)| ns)).collect::<Vec<_>>())
    }
}

fn lines(trace: &Trace, at: Time, shares: &[Share]) -> Vec<ShareLine> {
    let mut by_what: BTreeMap<What, Vec<(ThreadId, u64)>> = BTreeMap::new();
    let mut lines = Vec::new();
    for share in shares {
        match share.who {
            Some(who) => by_what.entry(share.what).or_default().push((who, share.ns)),
            None => lines.push(ShareLine { what: share.what, who: None, ns: share.ns }),
        }
    }
    for (what, times) in by_what {
        let groups = thread_groups(trace, at, times).into_iter();
        lines.extend(groups.map(|group| ShareLine { what, who: Some(group), ns: group.ns }));
    }
    lines.sort_by_key(|line| (Reverse(line.ns), line.what, line.who.map(|who| who.thread)));
    lines
}
