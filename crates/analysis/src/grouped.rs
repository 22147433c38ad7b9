//! Items by a small number that each has: its thread, its CPU.

use unhitch_model::{Time, Window};

/// Items by key, those of one key in the order in which they came.
pub(crate) struct Grouped<T> {
    /// Where the items of each key begin; one more than there are keys.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Grouped<T> {
    /// A counting sort of `items`, each after its key, which is less than `keys`. Walks them twice.
    pub fn by(keys: usize, items: impl Iterator<Item = (usize, T)> + Clone) -> Self {
        let mut starts = vec![0u32; keys + 1];
        items.clone().for_each(|(key, _)| starts[key + 1] += 1);
        (0..keys).for_each(|key| starts[key + 1] += starts[key]);
        let mut next = starts.clone();
        let any = items.clone().next();
        let mut grouped = any.map_or(Vec::new(), |(_, any)| vec![any; starts[keys] as usize]);
        items.for_each(|(key, item)| {
            let slot = &mut next[key];
            grouped[*slot as usize] = item;
            *slot += 1;
        });
        Self { starts, items: grouped }
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.starts.len() - 1
    }

    /// The items of a key; empty for one that there is not.
    pub fn of(&self, key: usize) -> &[T] {
        match (self.starts.get(key), self.starts.get(key + 1)) {
            (Some(&start), Some(&end)) => &self.items[start as usize..end as usize],
            _ => &[],
        }
    }
}

/// Where the items of each key begin in a slice that is in order of the keys.
pub(crate) struct Starts(Vec<u32>);

impl Starts {
    /// Looks for them: `key` is less than `keys`.
    pub fn new<T>(items: &[T], keys: usize, key: impl Fn(&T) -> usize) -> Self {
        let first = |at| items.partition_point(|item| key(item) < at) as u32;
        Self((0..=keys).map(first).collect())
    }

    /// The items of a key; none for one that there is not.
    pub fn of<'a, T>(&self, key: usize, items: &'a [T]) -> &'a [T] {
        let bounds = self.0.get(key).zip(self.0.get(key + 1));
        bounds.and_then(|(from, to)| items.get(*from as usize..*to as usize)).unwrap_or(&[])
    }
}

impl Grouped<u32> {
    /// Of the items of a key, indices into `times` in order of time, the time of the first since `since`.
    pub fn first_since(&self, key: usize, since: Time, times: &[Time]) -> Option<Time> {
        let all = self.of(key);
        let first = all.partition_point(|index| times[*index as usize] < since);
        Some(times[*all.get(first)? as usize])
    }

    /// Of the items of a key, indices into `times` in order of time, those inside `window`.
    pub fn inside(&self, key: usize, window: Window, times: &[Time]) -> &[u32] {
        let all = self.of(key);
        let time = |index: &u32| times[*index as usize];
        let from = all.partition_point(|index| time(index) < window.start);
        let after = &all[from..];
        // Most windows are short: their end is near.
        let mut near = 1;
        while after.get(near - 1).is_some_and(|index| time(index) < window.end) {
            near *= 2;
        }
        let (before, near) = (near / 2, near.min(after.len()));
        let known = before.min(near);
        let to = known + after[known..near].partition_point(|index| time(index) < window.end);
        &after[..to]
    }
}
