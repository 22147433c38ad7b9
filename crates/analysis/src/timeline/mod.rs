//! Every thread's time as a gapless partition: ran, runnable, sleeping, unknown.
//!
//! Built in one pass over switches and wake-ups per core, each for its own threads. What is stored
//! per thread is not segments but *cycles* (left the CPU, was woken, came back): three indices
//! instead of three records, so that 20 million switches stay small; segments are made on demand.

pub(crate) mod cpus;
pub(crate) mod repair;

use rayon::prelude::*;
use std::ops::Range;
use unhitch_model::{StackId, TaskState, ThreadId, Time, Trace, WakeFlags, Window};

const NONE: u32 = u32::MAX;

/// One trip off the CPU: indices into switches (`out`, `back`) and wakings (`wake`), `NONE` where
/// not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cycle {
    out: u32,
    wake: u32,
    back: u32,
}

/// What a thread was doing in a [`Segment`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// On a CPU.
    Ran,
    /// Wanted a CPU: woken, or preempted.
    Runnable {
        /// True when it was taken off the CPU rather than woken.
        preempted: bool,
    },
    /// Waiting for something other than a CPU.
    Sleeping(TaskState),
    /// Lost records or the recording's edge hide the truth.
    Unknown,
}

/// A stretch of one thread's time in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// From when to when.
    pub window: Window,
    /// In which state.
    pub state: State,
    /// The switch that took it off the CPU, whose stack is the wait stack (Runnable, Sleeping).
    pub out: Option<usize>,
    /// The wake-up that ended the sleep (Sleeping) or began the wait for a CPU (Runnable).
    pub wake: Option<usize>,
    /// The switch that put it on a CPU: at the end of Runnable, at the start of Ran.
    pub back: Option<usize>,
}

impl Segment {
    /// The wait stack, empty when none was recorded.
    pub fn wait_stack(&self, trace: &Trace) -> StackId {
        self.out.and_then(|out| trace.switches.stack.get(out)).copied().unwrap_or_default()
    }
}

/// The timelines of all threads of a trace.
pub struct Timeline {
    window: Window,
    starts: Vec<u32>,
    cycles: Vec<Cycle>,
    lives: Vec<Window>,
    losses: Losses,
    redundant: Vec<u32>,
}

/// What is known of a thread while the events go by.
#[derive(Clone, Copy)]
struct Progress {
    phase: Phase,
    out: u32,
    wake: u32,
    early: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Unseen,
    Running,
    Off,
}

impl Timeline {
    /// Joins switches and wake-ups of `trace` inside its common window, on all cores: each takes a
    /// range of the threads.
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
        let total: usize = parts.iter().map(|part| part.closed.len()).sum();
        let mut timeline = Self {
            window,
            starts: Vec::with_capacity(threads + 1),
            cycles: Vec::with_capacity(total),
            lives: Vec::with_capacity(threads),
            losses: Losses::new(trace),
            redundant: Vec::new(),
        };
        let grouped: Vec<(Vec<u32>, Vec<Cycle>)> =
            parts.par_iter().map(|part| group_by_thread(&part.closed, &part.mine)).collect();
        for (part, (starts, cycles)) in parts.into_iter().zip(grouped) {
            let before = timeline.cycles.len() as u32;
            timeline.starts.extend(starts[..starts.len() - 1].iter().map(|start| before + start));
            timeline.cycles.extend_from_slice(&cycles);
            timeline.lives.extend_from_slice(&part.lives);
            timeline.redundant.extend_from_slice(&part.redundant);
        }
        timeline.starts.push(timeline.cycles.len() as u32);
        timeline.redundant.par_sort_unstable();
        timeline
    }

    /// The window that all timelines partition: the trace's common window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The part of the window in which a thread existed.
    pub fn life(&self, thread: ThreadId) -> Window {
        self.lives.get(thread.index()).copied().unwrap_or_default()
    }

    /// How many threads there are, the idle thread included.
    pub fn threads(&self) -> usize {
        self.lives.len()
    }

    /// Wake-ups that changed nothing, because the thread was awake or already woken.
    pub fn redundant_wakings(&self) -> &[u32] {
        &self.redundant
    }

    /// How often a thread left its CPU or came on one, both together counting once: about how much
    /// there is to say of it.
    pub fn trips(&self, thread: ThreadId) -> usize {
        self.cycles_of(thread).len()
    }

    /// The partition of a thread's time inside `window`, in order: gapless over the part of
    /// `window` in which the thread existed.
    pub fn segments(&self, trace: &Trace, thread: ThreadId, window: Window) -> Vec<Segment> {
        let mut segments = Vec::new();
        self.each_segment(trace, thread, window, &mut |segment| segments.push(segment));
        segments
    }

    /// The same, one after another, without keeping them.
    pub fn each_segment(
        &self,
        trace: &Trace,
        thread: ThreadId,
        window: Window,
        take: &mut dyn FnMut(Segment),
    ) {
        self.each_of_trip(trace, thread, window, &mut |_, segment| take(segment));
    }

    /// The events of a thread's trip off its CPU and back: the switch that began it, the wake-up,
    /// the switch that ended it; of what came before the first trip, its wake-up.
    pub(crate) fn events_of_trip(
        &self,
        thread: ThreadId,
        trip: Option<usize>,
    ) -> (Option<usize>, Option<usize>, Option<usize>) {
        match self.cycles_of(thread).get(trip.unwrap_or(0)) {
            Some(cycle) if trip.is_some() => {
                (index(cycle.out), index(cycle.wake), index(cycle.back))
            }
            Some(first) if first.out == NONE => (None, index(first.wake), None),
            _ => (None, None, None),
        }
    }

    /// Every segment with the number of the trip that it belongs to; none before the first.
    pub(crate) fn each_of_trip(
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
            self.before_first(trace, thread, cycles.first(), &mut |segment| {
                self.push(trace, segment, window, &mut |segment| take(None, segment))
            });
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
                self.push(trace, segment, window, &mut |segment| take(Some(index), segment));
            });
        }
    }

    /// The switch by which a thread last came on a CPU among its trips that have a part in
    /// `window`; that may be after its end.
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
        cycles.get(before..begun)?.iter().rev().find_map(|cycle| index(cycle.back))
    }

    fn cycles_of(&self, thread: ThreadId) -> &[Cycle] {
        let (Some(&start), Some(&end)) =
            (self.starts.get(thread.index()), self.starts.get(thread.index() + 1))
        else {
            return &[];
        };
        &self.cycles[start as usize..end as usize]
    }

    /// The time of the first event of a cycle that belongs to it.
    fn first_time(&self, trace: &Trace, cycle: &Cycle) -> Time {
        if cycle.out != NONE {
            trace.switches.time[cycle.out as usize]
        } else if cycle.wake != NONE {
            trace.wakings.time[cycle.wake as usize]
        } else {
            trace.switches.time[cycle.back as usize]
        }
    }

    /// What a thread did from its start to its first event, concluded backwards from that event.
    fn before_first(
        &self,
        trace: &Trace,
        thread: ThreadId,
        first: Option<&Cycle>,
        emit: &mut dyn FnMut(Segment),
    ) {
        let life = self.life(thread);
        let Some(first) = first else {
            return emit(Segment {
                window: life,
                state: State::Unknown,
                out: None,
                wake: None,
                back: None,
            });
        };
        let window = Window::new(life.start, self.first_time(trace, first));
        let wake = index(first.wake);
        let state = match wake {
            _ if first.out != NONE => State::Ran,
            Some(wake) if !trace.wakings.flags[wake].has(WakeFlags::NEW) => {
                State::Sleeping(TaskState::Sleeping)
            }
            // It was created then, or came on without a wake-up: that one came before the window.
            _ => State::Unknown,
        };
        emit(Segment {
            window,
            state,
            out: None,
            wake: wake.filter(|_| first.out == NONE),
            back: None,
        });
    }

    /// The segments of one cycle: off the CPU, runnable, and the run (or the unknown) up to `end`,
    /// the next cycle's first event.
    fn cycle(
        &self,
        trace: &Trace,
        cycle: &Cycle,
        end: Time,
        next_lost: bool,
        emit: &mut dyn FnMut(Segment),
    ) {
        let (out, wake, back) = (index(cycle.out), index(cycle.wake), index(cycle.back));
        let segment =
            |start: Time, end: Time, state: State, wake: Option<usize>, back: Option<usize>| {
                Segment { window: Window::new(start, end), state, out, wake, back }
            };
        let begin = self.first_time(trace, cycle);
        let off_end = back.map_or(end, |back| trace.switches.time[back]);
        let prev_state = out.map(|out| trace.switches.prev_state[out]);
        match (prev_state, wake.map(|wake| trace.wakings.time[wake])) {
            // Its life ends here; if it is seen again, its id was reused and the new thread's birth
            // is lost.
            (Some(TaskState::Dead), None) if back.is_none() => {
                emit(segment(begin, end, State::Unknown, None, None))
            }
            // Woken, but its next event is a departure: where it got the CPU is lost.
            (None, Some(_)) if back.is_none() && end < self.window.end => {
                emit(segment(begin, end, State::Unknown, None, None))
            }
            // Preempted, but its next event is another departure: when it got the CPU back is lost.
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
            // It slept, but its next event is another departure: what was in between is lost.
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
            emit(Segment {
                window: Window::new(off_end, end),
                state,
                out: None,
                wake: None,
                back: Some(back),
            });
        }
    }

    /// Gives a segment, clipped to `window`, with the stretches hidden by losses turned into
    /// Unknown.
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
                .then(|| segment.back.map(|back| trace.switches.cpu[back]))
                .flatten();
            for hidden in self.losses.hiding(own_cpu, segment.window) {
                let seen = Window::new(segment.window.start, hidden.start);
                if !seen.is_empty() {
                    take(Segment { window: seen, ..segment });
                }
                take(Segment {
                    window: hidden,
                    state: State::Unknown,
                    out: None,
                    wake: None,
                    back: None,
                });
                segment.window.start = hidden.end;
            }
        }
        if !segment.window.is_empty() {
            take(segment);
        }
    }
}

/// Where events are missing. A running thread is hidden only by a loss on its own CPU; any other
/// thread by a loss on any CPU, because it may have run there.
struct Losses {
    any_cpu: Vec<Window>,
    by_cpu: Vec<Vec<Window>>,
}

impl Losses {
    fn new(trace: &Trace) -> Self {
        let mut by_cpu: Vec<Vec<Window>> = Vec::new();
        for loss in &trace.losses {
            let cpu = usize::from(loss.cpu);
            if by_cpu.len() <= cpu {
                by_cpu.resize(cpu + 1, Vec::new());
            }
            by_cpu[cpu].push(loss.window);
        }
        Self {
            any_cpu: disjoint(trace.losses.iter().map(|loss| loss.window).collect()),
            by_cpu: by_cpu.into_iter().map(disjoint).collect(),
        }
    }

    /// The losses inside `window`, clipped to it, in order and disjoint.
    fn hiding(&self, own_cpu: Option<u16>, window: Window) -> impl Iterator<Item = Window> + '_ {
        let list = match own_cpu {
            Some(cpu) => self.by_cpu.get(usize::from(cpu)).map_or(&[][..], Vec::as_slice),
            None => &self.any_cpu,
        };
        let first = list.partition_point(|loss| loss.end <= window.start);
        list[first..]
            .iter()
            .take_while(move |loss| loss.start < window.end)
            .map(move |loss| loss.intersect(window))
            .filter(|w| !w.is_empty())
    }
}

/// Sorts windows and joins those that touch.
fn disjoint(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_unstable();
    let mut joined: Vec<Window> = Vec::new();
    for window in windows {
        match joined.last_mut() {
            Some(last) if window.start <= last.end => last.end = last.end.max(window.end),
            _ => joined.push(window),
        }
    }
    joined
}

/// Follows a range of the threads.
struct Builder {
    mine: Range<usize>,
    progress: Vec<Progress>,
    closed: Vec<(ThreadId, Cycle)>,
    redundant: Vec<u32>,
    lives: Vec<Window>,
}

impl Builder {
    fn new(trace: &Trace, mine: Range<usize>, window: Window) -> Self {
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

    /// The place of a thread among those followed; none for the idle thread and for the others'.
    fn place(&self, thread: ThreadId) -> Option<usize> {
        thread
            .index()
            .checked_sub(self.mine.start)
            .filter(|place| *place < self.mine.len() && !thread.is_idle())
    }

    fn follow(&mut self, trace: &Trace, window: Window) {
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
        let Some(place) = self.place(wakee) else { return };
        let progress = &mut self.progress[place];
        let asleep = match progress.phase {
            Phase::Unseen => {
                if trace.wakings.flags[waking].has(WakeFlags::NEW) {
                    let life = &mut self.lives[place];
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
        if let Some(place) = self.place(prev) {
            let progress = &mut self.progress[place];
            if progress.phase == Phase::Off || progress.wake != NONE {
                self.closed
                    .push((prev, Cycle { out: progress.out, wake: progress.wake, back: NONE }));
            }
            if progress.early != NONE && trace.switches.prev_state[switch].is_runnable() {
                self.redundant.push(progress.early);
                progress.early = NONE;
            }
            let (life, time) = (&mut self.lives[place], trace.switches.time[switch]);
            // The kernel reports an exit before it is over: until it leaves dead, a thread runs on
            // and may even sleep.
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
        if let Some(place) = self.place(next) {
            let progress = &mut self.progress[place];
            let lost = progress.phase == Phase::Running;
            let (out, mut wake) = if lost { (NONE, NONE) } else { (progress.out, progress.wake) };
            if progress.early != NONE {
                // A wake-up seen while it still ran counts only when the sleep saw no other.
                match wake == NONE && out != NONE {
                    true => wake = progress.early,
                    false => self.redundant.push(progress.early),
                }
            }
            self.closed.push((next, Cycle { out, wake, back: switch as u32 }));
            *progress = Progress { phase: Phase::Running, out: NONE, wake: NONE, early: NONE };
        }
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

fn index(index: u32) -> Option<usize> {
    (index != NONE).then_some(index as usize)
}

fn life(start: Option<Time>, end: Option<Time>, window: Window) -> Window {
    Window::new(start.unwrap_or(window.start), end.unwrap_or(window.end)).intersect(window)
}

/// Divides the threads into at most `parts` ranges with about as many switches each.
fn fair_ranges(trace: &Trace, parts: usize, threads: usize) -> Vec<Range<usize>> {
    let mut counts = vec![0u32; threads];
    // Every eighth tells enough.
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

/// Counting sort: the cycles of thread `mine.start + i` are `cycles[starts[i]..starts[i + 1]]`, in
/// order of time.
fn group_by_thread(closed: &[(ThreadId, Cycle)], mine: &Range<usize>) -> (Vec<u32>, Vec<Cycle>) {
    let mut starts = vec![0u32; mine.len() + 1];
    for (thread, _) in closed {
        starts[thread.index() - mine.start + 1] += 1;
    }
    for index in 0..mine.len() {
        starts[index + 1] += starts[index];
    }
    let mut next = starts.clone();
    let mut cycles = vec![Cycle { out: NONE, wake: NONE, back: NONE }; closed.len()];
    for &(thread, cycle) in closed {
        let slot = &mut next[thread.index() - mine.start];
        cycles[*slot as usize] = cycle;
        *slot += 1;
    }
    (starts, cycles)
}
