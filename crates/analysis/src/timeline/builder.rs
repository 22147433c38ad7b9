//! Builds cycles from the events of a trace, for a range of its threads.

use super::cycle::{Cycle, NONE};
use crate::grouped::Grouped;
use std::ops::Range;
use unhitch_model::{TaskState, ThreadId, Time, Trace, WakeFlags, Window};

/// What is known of a thread up to the current event.
#[derive(Clone, Copy)]
struct Progress {
    phase: Phase,
    out: u32,
    wake: u32,
    /// A wake-up while it still ran.
    early: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Unseen,
    Running,
    Off,
}

/// Follows the events of a range of the threads.
pub(super) struct Builder {
    mine: Range<usize>,
    progress: Vec<Progress>,
    /// The cycles of all these threads, in order of time.
    closed: Vec<(ThreadId, Cycle)>,
    /// Wake-ups that changed nothing.
    pub redundant: Vec<u32>,
    pub lives: Vec<Window>,
}

impl Builder {
    pub fn new(trace: &Trace, mine: Range<usize>, window: Window) -> Self {
        let lives = trace.threads.iter().skip(mine.start).take(mine.len());
        Self {
            progress: vec![
                Progress { phase: Phase::Unseen, out: NONE, wake: NONE, early: NONE };
                mine.len()
            ],
            closed: Vec::new(),
            redundant: Vec::new(),
            lives: lives.map(|(_, thread)| life(thread.start, thread.end, window)).collect(),
            mine,
        }
    }

    /// The first thread of the range.
    pub fn first(&self) -> usize {
        self.mine.start
    }

    /// The position of a thread in the range; none for the idle thread and those outside.
    fn position(&self, thread: ThreadId) -> Option<usize> {
        thread
            .index()
            .checked_sub(self.mine.start)
            .filter(|position| *position < self.mine.len() && !thread.is_idle())
    }

    pub fn follow(&mut self, trace: &Trace, window: Window) {
        let (switches, wakings) = (trace.switches.range(window), trace.wakings.range(window));
        let mut waking = wakings.start;
        for switch in switches {
            while waking < wakings.end && trace.wakings.time[waking] <= trace.switches.time[switch]
            {
                self.wake(trace, waking);
                waking += 1;
            }
            self.switch(trace, switch);
        }
        (waking..wakings.end).for_each(|waking| self.wake(trace, waking));
        self.finish();
    }

    fn wake(&mut self, trace: &Trace, waking: usize) {
        let wakee = trace.wakings.wakee[waking];
        let Some(position) = self.position(wakee) else { return };
        let progress = &mut self.progress[position];
        let asleep = match progress.phase {
            Phase::Unseen => {
                if trace.wakings.flags[waking].has(WakeFlags::NEW) {
                    let life = &mut self.lives[position];
                    life.start = life.start.max(trace.wakings.time[waking]);
                    life.end = life.end.max(life.start);
                }
                true
            }
            Phase::Running => {
                progress.early = waking as u32;
                return;
            }
            Phase::Off => {
                progress.out == NONE
                    || !trace.switches.prev_state[progress.out as usize].is_runnable()
            }
        };
        if asleep && progress.wake == NONE {
            progress.wake = waking as u32;
        } else {
            self.redundant.push(waking as u32);
        }
    }

    fn switch(&mut self, trace: &Trace, switch: usize) {
        let (prev, next) = (trace.switches.prev[switch], trace.switches.next[switch]);
        if let Some(position) = self.position(prev) {
            let progress = &mut self.progress[position];
            if progress.phase == Phase::Off || progress.wake != NONE {
                self.closed
                    .push((prev, Cycle { out: progress.out, wake: progress.wake, back: NONE }));
            }
            if progress.early != NONE && trace.switches.prev_state[switch].is_runnable() {
                self.redundant.push(progress.early);
                progress.early = NONE;
            }
            let (life, time) = (&mut self.lives[position], trace.switches.time[switch]);
            // The kernel reports an exit before it is complete: until it is switched out dead, the
            // thread runs on and may even sleep.
            life.end = if trace.switches.prev_state[switch] == TaskState::Dead {
                time
            } else {
                life.end.max(time)
            };
            *progress = Progress {
                phase: Phase::Off,
                out: switch as u32,
                wake: NONE,
                early: progress.early,
            };
        }
        if let Some(position) = self.position(next) {
            let progress = &mut self.progress[position];
            let lost = progress.phase == Phase::Running;
            let (out, mut wake) = if lost { (NONE, NONE) } else { (progress.out, progress.wake) };
            if progress.early != NONE {
                // A wake-up seen while it still ran counts only if the sleep had no other.
                match wake == NONE && out != NONE {
                    true => wake = progress.early,
                    false => self.redundant.push(progress.early),
                }
            }
            self.closed.push((next, Cycle { out, wake, back: switch as u32 }));
            *progress = Progress { phase: Phase::Running, out: NONE, wake: NONE, early: NONE };
        }
    }

    /// The cycles of each thread of the range, in order of time.
    pub fn by_thread(&self) -> Grouped<Cycle> {
        let position = |thread: ThreadId| thread.index() - self.mine.start;
        let cycles = self.closed.iter().map(|&(thread, cycle)| (position(thread), cycle));
        Grouped::by(self.mine.len(), cycles)
    }

    fn finish(&mut self) {
        for (index, progress) in self.progress.iter().enumerate() {
            if progress.early != NONE {
                self.redundant.push(progress.early);
            }
            if progress.phase == Phase::Off || progress.wake != NONE {
                self.closed.push((
                    ThreadId((self.mine.start + index) as u32),
                    Cycle { out: progress.out, wake: progress.wake, back: NONE },
                ));
            }
        }
    }
}

fn life(start: Option<Time>, end: Option<Time>, window: Window) -> Window {
    Window::new(start.unwrap_or(window.start), end.unwrap_or(window.end)).intersect(window)
}

/// Divides the threads into ranges with about the same number of switches, about one per part.
pub(super) fn fair_ranges(trace: &Trace, parts: usize, threads: usize) -> Vec<Range<usize>> {
    let mut counts = vec![0u32; threads];
    // Every eighth switch is enough for an estimate.
    for prev in trace.switches.prev.iter().step_by(8) {
        if let Some(count) = counts.get_mut(prev.index()).filter(|_| !prev.is_idle()) {
            *count += 1;
        }
    }
    let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let share = all / parts.max(1) as u64 + 1;
    let (mut ranges, mut start, mut sum) = (Vec::new(), 0, 0);
    for (index, &count) in counts.iter().enumerate() {
        sum += u64::from(count);
        if sum >= share {
            ranges.push(start..index + 1);
            (start, sum) = (index + 1, 0);
        }
    }
    ranges.push(start..threads);
    ranges
}
