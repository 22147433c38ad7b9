//! Joins stacks to their events.
//!
//! A `StackWalk` event refers to its event by time only; the thread and the CPU settle ties. The
//! kernel part is written at once. The user part is written once, when the thread returns to user
//! mode, with the time of the first event that waits for it. It belongs to all events of the thread
//! that have a kernel part and no user part yet.

use super::{
    event::NOBODY,
    rows::{Definition, PartRef, StackRecord},
};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use unhitch_model::{Warnings, units};

/// An event that may have a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub ticks: i64,
    /// The thread whose stack it would be; [`NOBODY`] if only the stack knows.
    pub tid: u32,
    pub cpu: u16,
}

/// The stack of an event: the numbers of its parts (0 for none), its process and its thread.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Joined {
    pub kernel: u32,
    pub user: u32,
    pub pid: u32,
    pub tid: u32,
}

/// Maximum number of events of one time that are looked at. No machine has more, and looking at
/// more would take forever.
const MAX_AT_ONCE: usize = 256;

/// Minimum number of records per job, since the first search of a job starts far from its target.
const MIN_PER_JOB: usize = 1 << 15;

/// Index of a column, and index of a row in it.
type RowIndex = (usize, usize);

/// Finds the event of every stack. `columns` hold the events by time, `records` are in the order in
/// which they were written. Returns the stacks of each column's events.
pub(super) fn join<const N: usize>(
    columns: [&[Target]; N],
    records: &[StackRecord],
    definitions: &Definitions,
    is_kernel: impl Fn(u32) -> bool + Sync,
    warnings: &mut Warnings,
) -> [Vec<Joined>; N] {
    let mut joined = columns.map(|column| vec![Joined::default(); column.len()]);
    let mut waiting: FxHashMap<u32, Vec<RowIndex>> = FxHashMap::default();
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
            // Threads of the System process never return to user mode.
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
    // One core joins the records in their order, while the others search for the next ones.
    let mut sought: (&[StackRecord], Vec<Sought<N>>) = (&[], Vec::new());
    for next in records.chunks(MIN_PER_JOB * 4 * rayon::current_num_threads()) {
        let (records, found) = sought;
        let ((), found) = rayon::join(
            || join_all(records, found),
            || seek_all(&columns, next, definitions, &is_kernel),
        );
        sought = (next, found);
    }
    join_all(sought.0, sought.1);
    if undefined > 0 {
        warnings.add(format!(
            "parts of stacks are missing: {} to stack keys that the session never defined",
            units::plural(undefined, "reference")
        ));
    }
    joined
}

/// The result of searching for a record, before it is joined.
struct Sought<const N: usize> {
    /// Its part, and whether that is a user part; `None` if its key was never defined.
    part: Option<(u32, bool)>,
    /// In each column, the first event that is not earlier than the record's event.
    first: [u32; N],
}

/// Searches for these records on all cores.
fn seek_all<const N: usize>(
    columns: &[&[Target]; N],
    records: &[StackRecord],
    definitions: &Definitions,
    is_kernel: impl Fn(u32) -> bool + Sync,
) -> Vec<Sought<N>> {
    // Where the last search ended, for each column and each key.
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
    records.par_iter().with_min_len(MIN_PER_JOB).map_init(hints, seek_one).collect()
}

/// The event of a stack: among all events of that time, preferably one of the same thread, then one
/// of the same CPU, then one without a stack.
fn find<const N: usize>(
    columns: &[&[Target]; N],
    joined: &[Vec<Joined>; N],
    first: &[u32; N],
    record: &StackRecord,
    user: bool,
) -> Option<RowIndex> {
    let mut best: Option<((bool, bool, bool), RowIndex)> = None;
    for (index, (column, first)) in columns.iter().zip(first).enumerate() {
        for (row, target) in column
            .iter()
            .enumerate()
            .skip(*first as usize)
            .take(MAX_AT_ONCE)
            .take_while(|(_, target)| target.ticks == record.of)
        {
            let same_thread = target.tid == record.tid;
            let same_cpu = target.cpu == record.cpu;
            // A stack is never given to another thread's event.
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

/// The index of the first row that is not `early`. The search starts at `hint` and grows its steps,
/// because records come nearly in the order of their events.
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

/// The stack parts that keys stand for. Keys are kernel addresses, which are reused. A key is
/// defined when it is withdrawn, or at the end of the session.
#[derive(Default)]
pub(super) struct Definitions {
    /// Each key's index in `of_key`.
    keys: FxHashMap<u64, u32>,
    of_key: Vec<OfKey>,
}

/// The definitions of one key, each with its time and its part, by time.
#[derive(Default)]
struct OfKey {
    in_advance: Vec<(i64, u32)>,
    others: Vec<(i64, u32)>,
}

impl Definitions {
    /// From definitions by time.
    pub(super) fn new(definitions: impl Iterator<Item = Definition>) -> Self {
        let mut all = Self::default();
        for Definition { key, at, part, first } in definitions {
            let place = *all.keys.entry(key).or_insert(all.of_key.len() as u32) as usize;
            if place == all.of_key.len() {
                all.of_key.push(OfKey::default());
            }
            let Some(of_key) = all.of_key.get_mut(place) else { continue };
            let known = if first { &mut of_key.in_advance } else { &mut of_key.others };
            known.push((at, part));
        }
        all
    }

    /// The part that `key` stood for at a time: the first definition then or later, else the last
    /// one that was written in advance. `hints` has for each key where the last search ended.
    pub(super) fn part(&self, key: u64, at: i64, hints: &mut [usize]) -> Option<u32> {
        let place = *self.keys.get(&key)? as usize;
        let (of_key, hint) = (self.of_key.get(place)?, hints.get_mut(place)?);
        *hint = seek(&of_key.others, *hint, |(defined, _)| *defined < at);
        let earlier = || {
            let next = of_key.in_advance.partition_point(|(defined, _)| *defined < at);
            of_key.in_advance.get(next.checked_sub(1)?)
        };
        of_key.others.get(*hint).or_else(earlier).map(|(_, part)| *part)
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
    fn a_key_stands_for_what_is_defined_next() {
        let defined = |at, part, first| Definition { at, key: 7, part, first };
        let definitions =
            Definitions::new([defined(10, 1, false), defined(20, 2, false)].into_iter());
        assert_eq!(
            [5, 10, 11, 20, 21].map(|at| definitions.part(7, at, &mut [0])),
            [Some(1), Some(1), Some(2), Some(2), None]
        );
        assert_eq!(definitions.part(8, 0, &mut [0]), None);
        let in_advance = Definitions::new([defined(10, 1, true), defined(20, 2, true)].into_iter());
        assert_eq!(
            [5, 15, 25].map(|at| in_advance.part(7, at, &mut [1])),
            [None, Some(1), Some(2)]
        );
    }

    /// Each key is asked for between definitions of the other sort.
    #[test]
    fn definitions_of_one_key_are_not_looked_at_one_after_the_other() {
        const MANY: i64 = 200_000;
        let defined = |at: i64, first| Definition { at, key: 7, part: at as u32, first };
        let in_advance = (1..=MANY).map(|at| defined(at, true));
        let definitions = Definitions::new(in_advance.chain([defined(MANY + 1, false)]));
        let mut hints = [0];
        for at in 0..=MANY {
            assert_eq!(definitions.part(7, at, &mut hints), Some(MANY as u32 + 1));
        }
        let withdrawn = (2..=MANY).map(|at| defined(at, false));
        let definitions = Definitions::new([defined(1, true)].into_iter().chain(withdrawn));
        for at in MANY + 1..2 * MANY {
            assert_eq!(definitions.part(7, at, &mut hints), Some(1));
        }
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
