//! Cuts rings to runs of blocks, and walks the records of a run.

use super::layout::{BLOCK_BYTES, Fragment, Record, Records, RingPiece, kind};
use super::layout::{u32_at, u64_at};
use std::slice;

/// Length of a run, unless the ring ends: enough work for one core at a time.
const RUN_BYTES: u64 = 4 << 20;

/// Fragments of one ring that follow each other without a gap; the first one begins its block.
pub(super) struct Run<'a> {
    fragments: Vec<Fragment<'a>>,
    /// What follows without a gap, in another run.
    pub(super) next: Option<Fragment<'a>>,
    /// Bytes of the ring that are missing before it.
    pub(super) missing_bytes: u64,
}

impl<'a> Run<'a> {
    pub(super) fn cpu(&self) -> u16 {
        self.fragments.first().map_or(0, |first| first.cpu)
    }

    pub(super) fn len(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.bytes.len() as u64).sum()
    }

    /// When its blocks begin.
    fn blocks_begin(&self) -> impl Iterator<Item = u64> {
        let blocks = self.fragments.iter().filter(|of| of.offset == 0 && of.has_own_header());
        blocks.map(|fragment| u64_at(fragment.bytes, 8))
    }

    pub(super) fn walk(&self) -> Walk<'_, 'a> {
        Walk {
            fragments: self.fragments.iter(),
            fragment: None,
            records: Records::none(),
            is_readable: false,
            current: 0,
            base_ns: 0,
            damaged_blocks: 0,
            covered: None,
        }
    }
}

/// Cuts rings to runs, in the order of CPU and position. Those that were `streamed` were written
/// from their beginning on.
pub(super) fn runs(mut pieces: Vec<RingPiece<'_>>, streamed: bool) -> Vec<Run<'_>> {
    pieces.sort_by_key(|piece| (piece.cpu, piece.start));
    let (mut runs, mut end, mut len) = (Vec::<Run<'_>>::new(), None, 0);
    for fragment in pieces.iter().flat_map(RingPiece::fragments) {
        let block = BLOCK_BYTES as u64;
        let start = fragment.number.saturating_mul(block).saturating_add(fragment.offset as u64);
        let follows = end == Some((fragment.cpu, start));
        match runs.last_mut() {
            Some(run) if follows && (len < RUN_BYTES || fragment.offset > 0) => {
                run.fragments.push(fragment);
            }
            last => {
                len = 0;
                let missing_bytes = match end {
                    Some((cpu, end)) if cpu == fragment.cpu => start.saturating_sub(end),
                    _ if streamed => start,
                    _ => 0,
                };
                if let Some(run) = last.filter(|_| follows) {
                    run.next = Some(fragment);
                }
                runs.push(Run { fragments: vec![fragment], next: None, missing_bytes });
            }
        }
        len += fragment.bytes.len() as u64;
        end = Some((fragment.cpu, start.saturating_add(fragment.bytes.len() as u64)));
    }
    runs
}

/// When the newest `len` bytes of all rings begin; 0 if the rings are not longer.
pub(super) fn newest(runs: &[Run<'_>], len: u64) -> u64 {
    let mut begin: Vec<u64> = runs.iter().flat_map(Run::blocks_begin).collect();
    begin.sort_unstable();
    let blocks = usize::try_from(len / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
    let older = begin.len().saturating_sub(blocks);
    if older > 0 { begin.get(older).copied().unwrap_or(0) } else { 0 }
}

/// A record, when it was written, and which thread was on the CPU then.
pub(super) struct Visit<'r, 'a> {
    pub(super) time: u64,
    /// Before the record, if that says who it is.
    pub(super) current: u32,
    pub(super) record: Record<'a>,
    fragment: &'r Fragment<'a>,
}

impl Visit<'_, '_> {
    /// The position of the record in the ring, in words.
    pub(super) fn position(&self) -> u64 {
        self.fragment.position(&self.record)
    }
}

/// The records of a run. A record belongs to the thread that is on the CPU, which the block's header
/// names and every switch changes.
pub(super) struct Walk<'r, 'a> {
    fragments: slice::Iter<'r, Fragment<'a>>,
    fragment: Option<&'r Fragment<'a>>,
    records: Records<'a>,
    is_readable: bool,
    /// The thread on the CPU.
    pub(super) current: u32,
    base_ns: u64,
    pub(super) damaged_blocks: u64,
    /// First and last time; `None` without a block.
    pub(super) covered: Option<(u64, u64)>,
}

impl<'r, 'a> Walk<'r, 'a> {
    /// Goes on to the next fragment that can be read. `None` at the end.
    fn enter(&mut self) -> Option<()> {
        if self.records.damaged {
            self.damaged_blocks += 1;
            self.is_readable = false;
        }
        self.records = Records::none();
        let fragment = self.fragments.next()?;
        self.fragment = Some(fragment);
        if fragment.offset == 0 {
            self.is_readable = fragment.has_own_header();
            self.damaged_blocks += u64::from(!self.is_readable);
            if self.is_readable {
                self.base_ns = u64_at(fragment.bytes, 8);
                self.current = u32_at(fragment.bytes, 16);
                self.cover(self.base_ns);
            }
        }
        if self.is_readable {
            self.records = fragment.records();
        }
        Some(())
    }

    #[inline]
    fn cover(&mut self, time: u64) {
        let (first, last) = self.covered.unwrap_or((time, time));
        self.covered = Some((first.min(time), last.max(time)));
    }
}

impl Walk<'_, '_> {
    /// The next switch or the next wake-up, as `of_type` says: its time, which thread was on the CPU
    /// then, and its payload. What comes before it is passed.
    #[inline]
    pub(super) fn next_of(&mut self, of_type: u64) -> Option<(u64, u32, u64)> {
        loop {
            let at = self.records.offset();
            let Some(word) = self.records.next_word() else {
                self.enter()?;
                continue;
            };
            let (current, payload, own_type) = (self.current, word >> 35, word >> 32 & 7);
            if own_type == kind::SWITCH {
                self.current = next_thread(payload);
            } else if own_type == kind::LONG && payload & 31 == kind::REPAIR {
                self.current = u32_at(self.records.passed(at), 8);
            }
            if own_type == of_type {
                let time = self.base_ns.saturating_add(word & 0xffff_ffff);
                return Some((time, current, payload));
            }
        }
    }
}

impl<'r, 'a> Walk<'r, 'a> {
    /// The next record that is neither a switch nor a wake-up. Those before it go to `short`: time, the
    /// thread on the CPU, word. *Why so*: nearly all records are short, and this is where each of them is
    /// looked at first.
    #[inline]
    pub(super) fn next_long(
        &mut self,
        mut short: impl FnMut(u64, u32, u64),
    ) -> Option<Visit<'r, 'a>> {
        loop {
            if let Some(fragment) = self.fragment {
                let (base_ns, mut current, mut last) = (self.base_ns, self.current, None);
                self.records.pass_short(|word| {
                    let time = base_ns.saturating_add(word & 0xffff_ffff);
                    last = last.max(Some(time));
                    short(time, current, word);
                    if word >> 32 & 7 == kind::SWITCH {
                        current = next_thread(word >> 35);
                    }
                });
                self.current = current;
                last.into_iter().for_each(|last| self.cover(last));
                if let Some(record) = self.records.next() {
                    let time = base_ns.saturating_add(record.delta_ns());
                    self.cover(time);
                    if record.is_long(kind::REPAIR) {
                        self.current = u32_at(record.bytes, 8);
                    }
                    return Some(Visit { time, current, record, fragment });
                }
            }
            self.enter()?;
        }
    }
}

/// The thread that came on the CPU, of a switch; that was woken, of a wake-up.
#[inline]
pub(super) fn next_thread(payload: u64) -> u32 {
    payload as u32 & 0x3f_ffff
}
