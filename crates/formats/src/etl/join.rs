//! Stacks to their events.
//!
//! A `StackWalk` event names its event by time alone; the thread and the CPU settle ties. The
//! kernel's part is told at once. The user's part is told when the thread returns to user mode,
//! once, under the time of the first event that waits for it: it belongs to all of the thread's
//! events that have a kernel part and no user part yet.

use super::{
    event::NOBODY,
    rows::{Definition, PartRef, StackRecord},
};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use unhitch_model::Warnings;

/// An event that may have a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub ticks: i64,
    /// Whose stack it would be; [`NOBODY`] when only the stack tells.
    pub tid: u32,
    pub cpu: u16,
}

/// The stack of an event: numbers of parts, 0 for none, and whose stack it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Joined {
    pub kernel: u32,
    pub user: u32,
    pub pid: u32,
    pub tid: u32,
}

/// So many events of one time are looked at: more are no machine's, and would take forever.
const MOST_AT_ONCE: usize = 256;

/// So many records are sought at least before a core begins anew, far from the last one.
const FEWEST_SOUGHT: usize = 1 << 15;

/// Which column, and which row of it.
type Place = (usize, usize);

/// Finds the event of every stack. `columns` hold the events by time, `records` are in the order in
/// which they were told. Returns the stacks of each column's events.
pub(super) fn join<const N: usize>(
    columns: [&[Target]; N],
    records: &[StackRecord],
    definitions: &Definitions,
    is_kernel: impl Fn(u32) -> bool + Sync,
    warnings: &mut Warnings,
) -> [Vec<Joined>; N] {
    let mut joined = columns.map(|column| vec![Joined::default(); column.len()]);
    let mut waiting: FxHashMap<u32, Vec<Place>> = FxHashMap::default();
    let mut undefined = 0_u64;
    let mut join_all = |records: &[StackRecord], sought: Vec<Sought<N>>| {
        for (record, sought) in records.iter().zip(sought) {
            let Sought { part: Some((part, user)), first } = sought else {
                undefined += 1;
                continue;
            };
            let place = find(&columns, &joined, &first, record, user);
            if let Some(stack) =
                place.and_then(|(column, row)| joined.get_mut(column)?.get_mut(row))
            {
                (stack.pid, stack.tid) = (record.pid, record.tid);
                if user {
                    stack.user = part;
                } else {
                    stack.kernel = part;
                }
            }
            // Threads of the system never return to user mode.
            let returns = !record.own && record.pid != 0 && record.pid != 4;
            if !user && returns {
                waiting.entry(record.tid).or_default().extend(place);
            } else if user && returns {
                for (column, row) in
                    waiting.get_mut(&record.tid).map(std::mem::take).unwrap_or_default()
                {
                    if let Some(stack) = joined
                        .get_mut(column)
                        .and_then(|column| column.get_mut(row))
                        .filter(|stack| stack.user == 0)
                    {
                        stack.user = part;
                    }
                }
            }
        }
    };
    // Records are joined in their order, on one core; the others seek for those that come next.
    let mut sought: (&[StackRecord], Vec<Sought<N>>) = (&[], Vec::new());
    for next in records.chunks(FEWEST_SOUGHT * 4 * rayon::current_num_threads()) {
        let (records, found) = sought;
        let ((), found) = rayon::join(
            || join_all(records, found),
            || seek_all(&columns, next, definitions, &is_kernel),
        );
        sought = (next, found);
    }
    join_all(sought.0, sought.1);
    if undefined > 0 {
        warnings.add(format!("{undefined} parts of stacks are missing: the session never told what their keys stand for"));
    }
    joined
}

/// What is known of a record before it is its turn.
struct Sought<const N: usize> {
    /// Which part it tells, and whether that is the user's; none when its key was never defined.
    part: Option<(u32, bool)>,
    /// In each column the first event that is not before the record's.
    first: [u32; N],
}

/// Seeks for these records, on all cores.
fn seek_all<const N: usize>(
    columns: &[&[Target]; N],
    records: &[StackRecord],
    definitions: &Definitions,
    is_kernel: impl Fn(u32) -> bool + Sync,
) -> Vec<Sought<N>> {
    // Where the last search ended, in the columns and for each key.
    let hints = || ([0; N], vec![0; definitions.of_key.len()]);
    let seek_one = |(rows, places): &mut ([usize; N], Vec<usize>), record: &StackRecord| {
        let part = match record.part {
            PartRef::Here(part) => Some((part, !is_kernel(part))),
            PartRef::Key { key, user } => {
                definitions.part(key, record.at, places).map(|part| (part, user))
            }
        };
        for (column, row) in columns.iter().zip(rows.iter_mut()) {
            *row = seek(column, *row, |target| target.ticks < record.of);
        }
        Sought { part, first: rows.map(|row| row as u32) }
    };
    records.par_iter().with_min_len(FEWEST_SOUGHT).map_init(hints, seek_one).collect()
}

/// The event of a stack: of all at that very time the one of the same thread, then of the same CPU,
/// then one that has none yet.
fn find<const N: usize>(
    columns: &[&[Target]; N],
    joined: &[Vec<Joined>; N],
    first: &[u32; N],
    record: &StackRecord,
    user: bool,
) -> Option<Place> {
    let mut best: Option<((bool, bool, bool), Place)> = None;
    for (index, (column, first)) in columns.iter().zip(first).enumerate() {
        for (row, target) in column
            .iter()
            .enumerate()
            .skip(*first as usize)
            .take(MOST_AT_ONCE)
            .take_while(|(_, target)| target.ticks == record.of)
        {
            let same_thread = target.tid == record.tid;
            let same_cpu = target.cpu == record.cpu;
            // Another thread's stack is never taken for this one's.
            let may_be = same_thread || same_cpu && target.tid == NOBODY;
            if !may_be {
                continue;
            }
            let has_one = joined.get(index).and_then(|joined| joined.get(row)).is_some_and(
                |stack| match user {
                    true => stack.user != 0,
                    false => stack.kernel != 0,
                },
            );
            let rank = (same_thread, same_cpu, !has_one);
            if best.is_none_or(|(known, _)| rank > known) {
                best = Some((rank, (index, row)));
            }
        }
    }
    best.map(|(_, place)| place)
}

/// The first in `column` that is not `early`, searched from `hint` in growing steps: records come
/// nearly in the order of their events.
fn seek<T>(column: &[T], hint: usize, early: impl Fn(&T) -> bool) -> usize {
    let before = |at: usize| column.get(at).is_some_and(&early);
    let mut step = 1;
    let (mut low, mut high);
    if before(hint) {
        (low, high) = (hint, hint.saturating_add(step));
        while before(high) {
            low = high;
            step *= 2;
            high = high.saturating_add(step);
        }
        high = high.min(column.len());
    } else {
        high = hint.min(column.len());
        low = high.saturating_sub(step);
        while low > 0 && !before(low) {
            high = low;
            step *= 2;
            low = low.saturating_sub(step);
        }
    }
    low + column.get(low..high).unwrap_or_default().partition_point(&early)
}

/// What keys of stored stacks stand for. Keys are addresses in the kernel and used again: what was
/// meant is told when the key is taken back, or at the end.
#[derive(Default)]
pub(super) struct Definitions {
    /// Each key's place in `of_key`.
    keys: FxHashMap<u64, u32>,
    of_key: Vec<Vec<Definition>>,
}

impl Definitions {
    /// From definitions in the order of time.
    pub(super) fn new(definitions: impl Iterator<Item = Definition>) -> Self {
        let mut all = Self::default();
        for definition in definitions {
            let place = *all.keys.entry(definition.key).or_insert(all.of_key.len() as u32) as usize;
            match all.of_key.get_mut(place) {
                Some(known) => known.push(definition),
                None => all.of_key.push(vec![definition]),
            }
        }
        all
    }

    /// The part that `key` meant at a time: the first definition then or later; else the last one
    /// that was told in advance. `hints` say for each key where the last search ended.
    pub(super) fn part(&self, key: u64, at: i64, hints: &mut [usize]) -> Option<u32> {
        let place = *self.keys.get(&key)? as usize;
        let (definitions, hint) = (self.of_key.get(place)?, hints.get_mut(place)?);
        let next = seek(definitions, *hint, |definition| definition.at < at);
        *hint = next;
        let later = definitions.get(next..)?.iter().find(|definition| !definition.first);
        let earlier = || definitions.get(..next)?.iter().rev().find(|definition| definition.first);
        later.or_else(earlier).map(|definition| definition.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(ticks: i64, tid: u32, cpu: u16) -> Target {
        Target { ticks, tid, cpu }
    }

    fn record(at: i64, of: i64, tid: u32, part: u32) -> StackRecord {
        StackRecord { at, of, cpu: 0, pid: 100, tid, part: PartRef::Here(part), own: false }
    }

    /// Parts below 100 are the kernel's.
    fn join_one(targets: &[Target], records: &[StackRecord]) -> Vec<(u32, u32)> {
        let [joined] = join(
            [targets],
            records,
            &Definitions::default(),
            |part| part < 100,
            &mut Warnings::default(),
        );
        joined.iter().map(|stack| (stack.kernel, stack.user)).collect()
    }

    #[test]
    fn a_user_part_belongs_to_all_that_wait_for_it() {
        let targets = [target(10, 1, 0), target(11, 2, 0), target(12, 1, 0), target(20, 1, 0)];
        let records = [
            record(10, 10, 1, 1),
            record(11, 11, 2, 2),
            record(12, 12, 1, 3),
            record(15, 10, 1, 100),
            record(20, 20, 1, 4),
            record(21, 20, 1, 101),
        ];
        assert_eq!(join_one(&targets, &records), [(1, 100), (2, 0), (3, 100), (4, 101)]);
    }

    #[test]
    fn the_thread_settles_ties_before_the_cpu() {
        let targets = [target(10, 1, 0), target(10, 2, 1), target(10, NOBODY, 0)];
        assert_eq!(join_one(&targets, &[record(10, 10, 2, 5)]), [(0, 0), (5, 0), (0, 0)]);
        assert_eq!(join_one(&targets, &[record(10, 10, 3, 5)]), [(0, 0), (0, 0), (5, 0)]);
        assert_eq!(join_one(&targets[..2], &[record(10, 10, 3, 5)]), [(0, 0), (0, 0)]);
    }

    #[test]
    fn keys_mean_what_is_told_next() {
        let told = |at, part, first| Definition { at, key: 7, part, first };
        let definitions = Definitions::new([told(10, 1, false), told(20, 2, false)].into_iter());
        assert_eq!(
            [5, 10, 11, 20, 21].map(|at| definitions.part(7, at, &mut [0])),
            [Some(1), Some(1), Some(2), Some(2), None]
        );
        assert_eq!(definitions.part(8, 0, &mut [0]), None);
        let in_advance = Definitions::new([told(10, 1, true), told(20, 2, true)].into_iter());
        assert_eq!(
            [5, 15, 25].map(|at| in_advance.part(7, at, &mut [1])),
            [None, Some(1), Some(2)]
        );
    }

    #[test]
    fn seeking_finds_the_first_from_anywhere() {
        let column: Vec<Target> =
            [1, 3, 3, 3, 7, 9, 9, 12].map(|ticks| target(ticks, 1, 0)).to_vec();
        for ticks in 0..15 {
            let first =
                column.iter().position(|target| target.ticks >= ticks).unwrap_or(column.len());
            for hint in 0..=column.len() + 3 {
                assert_eq!(
                    seek(&column, hint, |target| target.ticks < ticks),
                    first,
                    "{ticks} from {hint}"
                );
            }
        }
    }
}
