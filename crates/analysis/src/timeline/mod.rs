//! Every thread's time as a gapless partition: ran, runnable, sleeping, unknown.
//!
//! Built in one pass over switches and wake-ups per core, each for its own threads. *Why cycles:*
//! what is stored per thread is not segments but cycles (left the CPU, was woken, came back): three
//! indices instead of three records, so that 20 million switches stay small. Segments are made on
//! demand.

mod builder;
mod cpu_shares;
pub(crate) mod cpus;
mod cycle;
mod losses;
pub(crate) mod process_times;
pub(crate) mod repair;
mod segment;

pub use segment::{Segment, State};

use crate::grouped::Grouped;
use builder::{Builder, fair_ranges};
use cycle::{Cycle, NONE, seen};
use losses::Losses;
use rayon::prelude::*;
use unhitch_model::{TaskState, ThreadId, Time, Trace, WakeFlags, Window};

/// The timelines of all threads of a trace.
pub struct Timeline {
    window: Window,
    /// Of ranges of the threads, which follow each other: the first thread of each, and the cycles.
    cycles: Vec<(usize, Grouped<Cycle>)>,
    lives: Vec<Window>,
    losses: Losses,
    redundant: Vec<u32>,
}

impl Timeline {
    /// Joins switches and wake-ups of `trace` inside its common window, each core for a range of
    /// the threads.
    pub fn new(trace: &Trace) -> Self {
        let window = trace.common_window();
        let threads = trace.threads.len();
        let parts: Vec<Builder> = fair_ranges(trace, rayon::current_num_threads(), threads)
            .into_par_iter()
            .map(|mine| {
                let mut builder = Builder::new(trace, mine, window);
                builder.follow(trace, window);
                builder
            })
            .collect();
        let cycles = parts.par_iter().map(|part| (part.first(), part.by_thread())).collect();
        let (mut lives, mut redundant) = (Vec::with_capacity(threads), Vec::new());
        for part in parts {
            lives.extend_from_slice(&part.lives);
            redundant.extend_from_slice(&part.redundant);
        }
        redundant.par_sort_unstable();
        Self { window, cycles, lives, losses: Losses::new(trace), redundant }
    }

    /// The window that all timelines partition: the trace's common window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The part of the window in which a thread existed.
    pub fn life(&self, thread: ThreadId) -> Window {
        self.lives.get(thread.index()).copied().unwrap_or_default()
    }

    /// The number of threads, including the idle thread.
    pub fn threads(&self) -> usize {
        self.lives.len()
    }

    /// Wake-ups that changed nothing, because the thread was awake or already woken.
    pub fn redundant_wakings(&self) -> &[u32] {
        &self.redundant
    }

    /// How often a thread left its CPU and came back. Leaving without coming back and coming
    /// without having left count, too.
    pub fn cycle_count(&self, thread: ThreadId) -> usize {
        self.cycles_of(thread).len()
    }

    /// The partition of a thread's time inside `window`, in order: gapless over the part of
    /// `window` in which the thread existed.
    pub fn segments(&self, trace: &Trace, thread: ThreadId, window: Window) -> Vec<Segment> {
        // Three of each cycle; most windows hold only one.
        let cycles = match window.intersect(self.life(thread)) == self.life(thread) {
            true => self.cycle_count(thread) + 1,
            false => 1,
        };
        let mut segments = Vec::with_capacity(3 * cycles);
        self.each_segment(trace, thread, window, &mut |segment| segments.push(segment));
        segments
    }

    /// The last of the same segments, without making those before its cycle.
    pub fn last_segment(&self, trace: &Trace, thread: ThreadId, window: Window) -> Option<Segment> {
        let cycles = self.cycles_of(thread);
        let begun = cycles.partition_point(|cycle| self.first_time(trace, cycle) < window.end);
        let begins = cycles[..begun].iter().rev().map(|cycle| self.first_time(trace, cycle));
        let inside = begins.take_while(|begin| *begin > window.start);
        // What a cycle leaves open, as a loss may, an earlier one tells.
        inside.chain([window.start]).find_map(|begin| {
            let mut last = None;
            let from = Window::new(begin, window.end);
            self.each_segment(trace, thread, from, &mut |segment| last = Some(segment));
            last
        })
    }

    /// Calls `take` with each of the same segments, without collecting them.
    pub fn each_segment(
        &self,
        trace: &Trace,
        thread: ThreadId,
        window: Window,
        take: &mut dyn FnMut(Segment),
    ) {
        self.each_of_cycle(trace, thread, window, &mut |_, segment| take(segment));
    }

    /// The events of a thread's cycle: the switch that began it, the wake-up, the switch that ended
    /// it. For no cycle, the time before the first, only its wake-up.
    pub(crate) fn events_of_cycle(
        &self,
        thread: ThreadId,
        cycle: Option<usize>,
    ) -> (Option<usize>, Option<usize>, Option<usize>) {
        match self.cycles_of(thread).get(cycle.unwrap_or(0)) {
            Some(known) if cycle.is_some() => (seen(known.out), seen(known.wake), seen(known.back)),
            Some(first) if first.out == NONE => (None, seen(first.wake), None),
            _ => (None, None, None),
        }
    }

    /// Calls `take` with every segment and the number of its cycle; none before the first.
    pub(crate) fn each_of_cycle(
        &self,
        trace: &Trace,
        thread: ThreadId,
        window: Window,
        take: &mut dyn FnMut(Option<usize>, Segment),
    ) {
        let window = window.intersect(self.life(thread));
        self.each_uncut(trace, thread, window, &mut |cycle, segment| {
            self.push(trace, segment, window, &mut |segment| take(cycle, segment));
        });
    }

    /// The same of segments that neither the window nor losses cut; some lie beside the window.
    pub(crate) fn each_uncut(
        &self,
        trace: &Trace,
        thread: ThreadId,
        window: Window,
        take: &mut dyn FnMut(Option<usize>, Segment),
    ) {
        let window = window.intersect(self.life(thread));
        if window.is_empty() || thread.is_idle() {
            return;
        }
        let cycles = self.cycles_of(thread);
        let first = cycles
            .partition_point(|cycle| self.first_time(trace, cycle) <= window.start)
            .saturating_sub(1);
        if cycles.is_empty() || first == 0 {
            self.before_first(trace, thread, cycles.first(), &mut |segment| take(None, segment));
        }
        for index in first..cycles.len() {
            if self.first_time(trace, &cycles[index]) >= window.end {
                break;
            }
            let end = cycles
                .get(index + 1)
                .map_or(self.life(thread).end, |next| self.first_time(trace, next));
            let next_lost = cycles.get(index + 1).is_some_and(|next| next.out == NONE);
            self.cycle(trace, &cycles[index], end, next_lost, &mut |segment| {
                take(Some(index), segment);
            });
        }
    }

    /// True if events of any CPU may be missing at `time`.
    pub(crate) fn is_lost(&self, time: Time) -> bool {
        self.losses.hiding(None, Window::new(time, time.plus(1))).next().is_some()
    }

    /// When a sleep ended, whatever window it was cut to, even one before it (a sleep may stand for
    /// earlier ones); the end of the recording, if that came first.
    pub(crate) fn end_of_sleep(&self, trace: &Trace, thread: ThreadId, sleep: &Segment) -> Time {
        let cycles = self.cycles_of(thread);
        let left = sleep.left(trace).map_or(Time::ZERO, |left| left.plus(1));
        let inside = sleep.window.end.max(left);
        let next = cycles.partition_point(|cycle| self.first_time(trace, cycle) < inside);
        let own = next.checked_sub(1).and_then(|own| cycles.get(own));
        let woken = sleep.wake().map(|wake| trace.wakings.time[wake]);
        let back = || own.and_then(|own| seen(own.back)).map(|back| trace.switches.time[back]);
        let later = || cycles.get(next).map(|next| self.first_time(trace, next));
        woken.or_else(back).or_else(later).unwrap_or(self.life(thread).end).min(self.window.end)
    }

    /// The switch with which a thread last came on a CPU, among its cycles that have a part in
    /// `window`. It may come after the end of `window`.
    pub(crate) fn last_arrival(
        &self,
        trace: &Trace,
        thread: ThreadId,
        window: Window,
    ) -> Option<usize> {
        let cycles = self.cycles_of(thread);
        let begun = cycles.partition_point(|cycle| self.first_time(trace, cycle) < window.end);
        let before = cycles
            .partition_point(|cycle| self.first_time(trace, cycle) <= window.start)
            .saturating_sub(1);
        cycles.get(before..begun)?.iter().rev().find_map(|cycle| seen(cycle.back))
    }

    fn cycles_of(&self, thread: ThreadId) -> &[Cycle] {
        let next = self.cycles.partition_point(|(first, _)| *first <= thread.index());
        let part = next.checked_sub(1).and_then(|part| self.cycles.get(part));
        part.map_or(&[], |(first, cycles)| cycles.of(thread.index() - first))
    }

    /// The time of a cycle's first event.
    fn first_time(&self, trace: &Trace, cycle: &Cycle) -> Time {
        if cycle.out != NONE {
            trace.switches.time[cycle.out as usize]
        } else if cycle.wake != NONE {
            trace.wakings.time[cycle.wake as usize]
        } else {
            trace.switches.time[cycle.back as usize]
        }
    }

    /// What a thread did from its start to its first event, inferred from that event, and from what
    /// the recorder knows of waits that began earlier.
    fn before_first(
        &self,
        trace: &Trace,
        thread: ThreadId,
        first: Option<&Cycle>,
        emit: &mut dyn FnMut(Segment),
    ) {
        let life = self.life(thread);
        let wake = first.and_then(|first| seen(first.wake).filter(|_| first.out == NONE));
        let end = first.map_or(life.end, |first| self.first_time(trace, first));
        let waited = |at: &usize| {
            let earlier = &trace.earlier_waits[*at];
            match (first, earlier.until) {
                (None, until) => until.is_none(),
                (Some(first), Some(until)) => first.out == NONE && until >= end,
                (Some(_), None) => false,
            }
        };
        let of_thread = trace.earlier_waits.binary_search_by_key(&thread, |wait| wait.thread);
        let earlier = of_thread.ok().filter(waited);
        let state = match (earlier, wake) {
            (Some(earlier), _) => State::Sleeping(trace.earlier_waits[earlier].state),
            (None, Some(wake)) if !trace.wakings.flags[wake].has(WakeFlags::NEW) => {
                State::Sleeping(TaskState::Sleeping)
            }
            (None, None) if first.is_some_and(|first| first.out != NONE) => State::Ran,
            // It was created then. Or it came on without a wake-up, which was before the window.
            _ => State::Unknown,
        };
        let window = Window::new(life.start, end);
        emit(Segment::new(window, state).with_earlier(earlier).with_wake(wake));
    }

    /// The segments of one cycle: off the CPU, runnable, and running (or unknown) up to `end`, the
    /// next cycle's first event.
    fn cycle(
        &self,
        trace: &Trace,
        cycle: &Cycle,
        end: Time,
        next_lost: bool,
        emit: &mut dyn FnMut(Segment),
    ) {
        let (out, wake, back) = (seen(cycle.out), seen(cycle.wake), seen(cycle.back));
        let segment =
            |start: Time, end: Time, state: State, wake: Option<usize>, back: Option<usize>| {
                let whole = Segment::new(Window::new(start, end), state);
                whole.with_out(out).with_wake(wake).with_back(back)
            };
        let begin = self.first_time(trace, cycle);
        let off_end = back.map_or(end, |back| trace.switches.time[back]);
        let prev_state = out.map(|out| trace.switches.prev_state[out]);
        match (prev_state, wake.map(|wake| trace.wakings.time[wake])) {
            // Its life ends here. If it is seen again, its id was reused, and the new thread's
            // creation is lost.
            (Some(TaskState::Dead), None) if back.is_none() => {
                emit(segment(begin, end, State::Unknown, None, None))
            }
            // Woken, but its next event is a switch-out: the switch-in is lost.
            (None, Some(_)) if back.is_none() && end < self.window.end => {
                emit(segment(begin, end, State::Unknown, None, None))
            }
            // Preempted, but its next event is another switch-out: the switch-in is lost.
            (Some(state), _) if state.is_runnable() && back.is_none() && end < self.window.end => {
                emit(segment(begin, end, State::Unknown, None, None));
            }
            (Some(state), _) if state.is_runnable() => {
                emit(segment(begin, off_end, State::Runnable { preempted: true }, None, back))
            }
            (Some(state), Some(woken)) if woken > begin => {
                emit(segment(begin, woken, State::Sleeping(state), wake, None));
                if back.is_some() || end == self.window.end {
                    emit(segment(woken, off_end, State::Runnable { preempted: false }, wake, back));
                } else {
                    emit(segment(woken, end, State::Unknown, None, None));
                }
            }
            // Woken before it had left the CPU: it never slept.
            (Some(_), Some(_)) => {
                emit(segment(begin, off_end, State::Runnable { preempted: false }, wake, back))
            }
            // It slept, but its next event is another switch-out: what was in between is lost.
            (Some(_), None) if back.is_none() && end < self.window.end => {
                emit(segment(begin, end, State::Unknown, None, None))
            }
            (Some(state), None) => {
                emit(segment(begin, off_end, State::Sleeping(state), None, None))
            }
            (None, Some(_)) => {
                emit(segment(begin, off_end, State::Runnable { preempted: false }, wake, back))
            }
            (None, None) => {}
        }
        if let Some(back) = back {
            let state = if next_lost { State::Unknown } else { State::Ran };
            let window = Window::new(off_end, end);
            emit(Segment::new(window, state).with_back(Some(back)));
        }
    }

    /// Passes on a segment, clipped to `window`, with the parts hidden by losses as Unknown.
    fn push(
        &self,
        trace: &Trace,
        mut segment: Segment,
        window: Window,
        take: &mut dyn FnMut(Segment),
    ) {
        segment.window = segment.window.intersect(window);
        if segment.window.is_empty() {
            return;
        }
        if segment.state != State::Unknown {
            let own_cpu = (segment.state == State::Ran)
                .then(|| segment.back().map(|back| trace.switches.cpu[back]))
                .flatten();
            for hidden in self.losses.hiding(own_cpu, segment.window) {
                let before = Window::new(segment.window.start, hidden.start);
                if !before.is_empty() {
                    take(segment.within(before));
                }
                take(Segment::unknown(hidden));
                segment.window.start = hidden.end;
            }
        }
        if !segment.window.is_empty() {
            take(segment);
        }
    }
}
