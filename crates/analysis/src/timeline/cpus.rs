//! Which thread was on each CPU, and when.

use super::cpu_shares::{Blocks, Shares};
use crate::grouped::Grouped;
use std::sync::OnceLock;
use unhitch_model::{ThreadId, Trace, Window};

/// Maximum buckets of a curve, 32 MiB: a damaged time can make a window of centuries.
pub const MAX_BUCKETS: u64 = 1 << 22;

/// An interval of one thread on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// When, clipped to the window asked for.
    pub window: Window,
    /// The thread on the CPU, possibly the idle thread; none if that was not recorded.
    pub thread: Option<ThreadId>,
    /// Its kernel priority at its switch-in.
    pub prio: Option<i16>,
}

/// The switches of every CPU, in order of time.
pub struct CpuTimes {
    window: Window,
    switches: Grouped<u32>,
    /// By CPU: true if it has samples.
    sampled: Vec<bool>,
    /// By CPU: who had it, summed up on first use.
    blocks: Vec<OnceLock<Blocks>>,
}

impl CpuTimes {
    /// Groups the switches of `trace` by CPU.
    pub fn new(trace: &Trace, window: Window) -> Self {
        let last = trace.switches.cpu.iter().chain(&trace.samples.cpu).max();
        let cpus = last.map_or(0, |&cpu| usize::from(cpu) + 1);
        let by_cpu = trace.switches.cpu.iter().map(|&cpu| usize::from(cpu)).zip(0..);
        let switches = Grouped::by(cpus, by_cpu);
        let mut sampled = vec![false; cpus];
        for &cpu in &trace.samples.cpu {
            sampled[usize::from(cpu)] = true;
        }
        let blocks = (0..cpus).map(|_| OnceLock::new()).collect();
        Self { window, switches, sampled, blocks }
    }

    /// The number of CPUs, up to the last one with switches or samples.
    pub fn cpus(&self) -> usize {
        self.switches.keys()
    }

    /// The number of CPUs that were recorded: they have switches or samples.
    pub fn seen(&self) -> usize {
        (0..self.cpus())
            .filter(|&cpu| !self.switches.of(cpu).is_empty() || self.sampled[cpu])
            .count()
    }

    /// The CPUs that often went idle, but whose idle thread has not a single wake-up in `trace`:
    /// there, interrupts end waits unseen. Empty if no wake-ups were recorded at all.
    pub fn silent_cpus(&self, trace: &Trace) -> Vec<u16> {
        /// Minimum times that a CPU went idle.
        const MIN_IDLE_TIMES: usize = 16;
        let mut idle_wakes = vec![0u32; self.cpus()];
        let by_idle =
            trace.wakings.waker.iter().zip(&trace.wakings.cpu).filter(|(waker, _)| waker.is_idle());
        by_idle.for_each(|(_, &cpu)| {
            if let Some(count) = idle_wakes.get_mut(usize::from(cpu)) {
                *count += 1;
            }
        });
        let went_idle = |cpu: u16| {
            let idles = self
                .switches_of(cpu)
                .iter()
                .filter(|&&index| trace.switches.next[index as usize].is_idle());
            idles.take(MIN_IDLE_TIMES).count() == MIN_IDLE_TIMES
        };
        let silent = idle_wakes
            .iter()
            .enumerate()
            .filter(|(_, count)| **count == 0)
            .map(|(cpu, _)| cpu as u16);
        silent.filter(|&cpu| !trace.wakings.is_empty() && went_idle(cpu)).collect()
    }

    /// The switches of `cpu`, indices in order of time; empty for a CPU without any.
    pub fn switches_of(&self, cpu: u16) -> &[u32] {
        self.switches.of(usize::from(cpu))
    }

    /// The threads on `cpu` inside `window`: a gapless partition of it, in order of time.
    pub fn occupancy(
        &self,
        trace: &Trace,
        cpu: u16,
        window: Window,
    ) -> impl Iterator<Item = Occupancy> {
        let switches = self.switches_of(cpu);
        let time = |index: u32| trace.switches.time[index as usize];
        let came_on = |index: u32| {
            (
                Some(trace.switches.next[index as usize]),
                Some(trace.switches.next_prio[index as usize]),
            )
        };
        let first = switches.partition_point(|&index| time(index) <= window.start);
        let mut from = window.start;
        let mut current = match first.checked_sub(1) {
            Some(before) => came_on(switches[before]),
            // No earlier switch: the first thread to leave was on the CPU.
            None => {
                let leaving = switches.first().map(|&index| index as usize);
                (
                    leaving.map(|index| trace.switches.prev[index]),
                    leaving.map(|index| trace.switches.prev_prio[index]),
                )
            }
        };
        let inside = switches[first..].iter().take_while(move |&&index| time(index) < window.end);
        let changes = inside.map(move |&index| (time(index), came_on(index)));
        changes.chain([(window.end, (None, None))]).filter_map(move |(until, next)| {
            let (window, (thread, prio)) = (Window::new(from, until), current);
            (from, current) = (until, next);
            (!window.is_empty()).then_some(Occupancy { window, thread, prio })
        })
    }

    /// How long each thread had `cpu` inside `window`: the sums of [`occupancy`](Self::occupancy).
    pub fn shares(&self, trace: &Trace, cpu: u16, window: Window) -> Shares {
        let mut shares = Shares::default();
        let switches = self.switches_of(cpu);
        let blocks = self.blocks.get(usize::from(cpu));
        let blocks = blocks.map(|blocks| blocks.get_or_init(|| Blocks::new(trace, switches)));
        let summed = blocks.and_then(|all| all.add(trace, switches, window, &mut shares));
        let rest = match summed {
            Some(summed) => {
                [Window::new(window.start, summed.start), Window::new(summed.end, window.end)]
            }
            None => [window, Window::default()],
        };
        let had = rest.into_iter().flat_map(|rest| self.occupancy(trace, cpu, rest));
        had.for_each(|had| shares.add(had.thread, had.window.duration_ns()));
        shares
    }

    /// How many CPUs were busy, on average, in each `bucket_ns` of `window`; nothing for a window of more
    /// than [`MAX_BUCKETS`] of them.
    pub fn busy_curve(&self, trace: &Trace, window: Window, bucket_ns: u64) -> Vec<f64> {
        let bucket_ns = bucket_ns.max(1);
        let buckets = window.duration_ns().div_ceil(bucket_ns);
        if buckets > MAX_BUCKETS {
            return Vec::new();
        }
        let mut busy_ns = vec![0u64; buckets as usize];
        for cpu in 0..self.cpus() {
            for run in self
                .occupancy(trace, cpu as u16, window)
                .filter(|run| run.thread.is_some_and(|thread| !thread.is_idle()))
            {
                let (mut from, end) =
                    (run.window.start.since(window.start), run.window.end.since(window.start));
                while from < end {
                    let bucket = from / bucket_ns;
                    let to = end.min((bucket + 1) * bucket_ns);
                    busy_ns[bucket as usize] += to - from;
                    from = to;
                }
            }
        }
        busy_ns.into_iter().map(|busy| busy as f64 / bucket_ns as f64).collect()
    }

    /// The idle share of the CPUs' time inside `window` of which it is known who had them, 0.0 to
    /// 1.0; none without switches.
    pub fn idle_share(&self, trace: &Trace, window: Window) -> Option<f64> {
        if trace.switches.is_empty() {
            return None;
        }
        let window = window.intersect(self.window);
        // A damaged time can make a window of centuries. Times a few CPUs, it does not fit 64 bits.
        let (mut idle, mut total) = (0u128, 0u128);
        for cpu in 0..self.cpus() {
            for (thread, ns) in self.shares(trace, cpu as u16, window).ns {
                // Without a switch, a thread that is sampled had the CPU all the time.
                if thread.is_none() && !self.sampled[cpu] {
                    continue;
                }
                total += u128::from(ns);
                if thread.is_some_and(ThreadId::is_idle) {
                    idle += u128::from(ns);
                }
            }
        }
        (total > 0).then(|| idle as f64 / total as f64)
    }
}
