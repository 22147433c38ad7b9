//! How long each thread had a CPU in any window, without a walk over all of its switches there.
//!
//! *Why:* a storm has a million switches in a second, and every stall in it asks who had the CPUs.

use rustc_hash::FxHashMap;
use unhitch_model::{ThreadId, Time, Trace, Window};

/// How many switches of a CPU are summed up together.
const BLOCK_LEN: usize = 1024;

/// How long each thread had one CPU in a window.
#[derive(Default)]
pub struct Shares {
    /// By thread, nanoseconds; none for time of which it was not recorded who had the CPU.
    pub ns: FxHashMap<Option<ThreadId>, u64>,
    /// The longest that one had it without a switch, other than the idle thread, nanoseconds.
    pub longest_busy_ns: u64,
}

impl Shares {
    /// Adds that a thread had the CPU without a switch.
    pub(super) fn add(&mut self, thread: Option<ThreadId>, ns: u64) {
        *self.ns.entry(thread).or_default() += ns;
        if thread.is_none_or(|thread| !thread.is_idle()) {
            self.longest_busy_ns = self.longest_busy_ns.max(ns);
        }
    }
}

/// The sums of one CPU, by [`BLOCK_LEN`] switches.
pub(super) struct Blocks(Vec<Block>);

/// From one switch to the one [`BLOCK_LEN`] later.
struct Block {
    ns: Vec<(ThreadId, u64)>,
    longest_busy_ns: u64,
}

impl Blocks {
    /// Sums up the `switches` of one CPU.
    pub(super) fn new(trace: &Trace, switches: &[u32]) -> Self {
        let (times, next) = (&trace.switches.time, &trace.switches.next);
        let mut shares = Shares::default();
        let block = |(block, last): (&[u32], &u32)| {
            let ends = block.iter().skip(1).chain([last]);
            for (&index, &end) in block.iter().zip(ends) {
                let ns = times[end as usize].since(times[index as usize]);
                shares.add(Some(next[index as usize]), ns);
            }
            let Shares { ns, longest_busy_ns } = std::mem::take(&mut shares);
            let known = ns.into_iter().filter_map(|(thread, ns)| Some((thread?, ns)));
            Block { ns: known.filter(|(_, ns)| *ns > 0).collect(), longest_busy_ns }
        };
        let after = switches.iter().skip(BLOCK_LEN).step_by(BLOCK_LEN);
        Self(switches.chunks(BLOCK_LEN).zip(after).map(block).collect())
    }

    /// Adds the whole blocks inside `window` to `shares`, and returns which time that was.
    pub(super) fn add(
        &self,
        trace: &Trace,
        switches: &[u32],
        window: Window,
        shares: &mut Shares,
    ) -> Option<Window> {
        let time = |index: usize| trace.switches.time[switches[index] as usize];
        let before =
            |limit: Time| switches.partition_point(|at| trace.switches.time[*at as usize] < limit);
        let from = before(window.start).div_ceil(BLOCK_LEN);
        let to = before(window.end).checked_sub(1)? / BLOCK_LEN;
        for block in self.0.get(from..to)? {
            block
                .ns
                .iter()
                .for_each(|&(thread, ns)| *shares.ns.entry(Some(thread)).or_default() += ns);
            shares.longest_busy_ns = shares.longest_busy_ns.max(block.longest_busy_ns);
        }
        (from < to).then(|| Window::new(time(from * BLOCK_LEN), time(to * BLOCK_LEN)))
    }
}
