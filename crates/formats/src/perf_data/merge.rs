//! Lists in order of time, merged to one.

use super::rows::Row;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Rows of several sources, each in order of time, in order of time; those of one time in the order of
/// the sources.
pub(crate) struct Merge<T, I> {
    sources: Vec<(Row<T>, I)>,
    /// The time of each source's next row, and the source.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<T, I: Iterator<Item = Row<T>>> Merge<T, I> {
    pub(crate) fn new(sources: impl IntoIterator<Item = I>) -> Self {
        let first = |mut source: I| Some((source.next()?, source));
        let sources: Vec<(Row<T>, I)> = sources.into_iter().filter_map(first).collect();
        let times = sources.iter().map(|(first, _)| first.time);
        let next = times.zip(0..).map(Reverse).collect();
        Self { sources, next }
    }
}

impl<T: Copy, I: Iterator<Item = Row<T>>> Iterator for Merge<T, I> {
    type Item = Row<T>;

    #[inline]
    fn next(&mut self) -> Option<Row<T>> {
        let mut first = self.next.peek_mut()?;
        let Reverse((_, at)) = *first;
        let (row, rest) = &mut self.sources[at];
        let out = *row;
        match rest.next() {
            Some(next) => {
                *row = next;
                *first = Reverse((next.time, at));
            }
            None => {
                PeekMut::pop(first);
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cpu: u16, times: &[u64]) -> std::vec::IntoIter<Row<()>> {
        let row = |time: &u64| Row { time: *time, stack: 0, cpu, of: () };
        times.iter().map(row).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn rows_come_by_time_and_then_by_source() {
        let sources = [rows(0, &[1, 4, 4, u64::MAX]), rows(1, &[]), rows(2, &[0, 4, 5])];
        let merged: Vec<(u64, u16)> = Merge::new(sources).map(|row| (row.time, row.cpu)).collect();
        assert_eq!(merged, [(0, 2), (1, 0), (4, 0), (4, 0), (4, 2), (5, 2), (u64::MAX, 0)]);
        assert!(Merge::new([rows(0, &[])]).next().is_none());
    }
}
