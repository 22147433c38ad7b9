//! Lanes of a timeline at any scale: CPUs, threads, samples and the busy-CPU curve, one screen at a
//! time.
//!
//! *Why pyramids:* a screen of 20 million switches has a few thousand columns, and each must be
//! computed without walking through its slices ([`pyramid`]). A lane's pyramid is built when it is
//! first shown, or earlier by [`Lanes::prepare_cpus`] and [`Lanes::prepare_threads`], on whichever
//! core is free. The lanes of CPUs need only the switches, so that a page can be drawn before any
//! wait is classified.

mod pyramid;
mod state;
mod view;

pub use state::LaneState;
pub use view::{Cell, MAX_COLUMNS, Screen, Slice, View};

use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use pyramid::{Kind, Pyramid, Stored};
use rayon::prelude::*;
use std::sync::OnceLock;
use unhitch_model::{ThreadId, Time, Window};
use view::{add_runs, look};

/// A lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lane {
    /// A CPU: who ran on it.
    Cpu(u16),
    /// A thread: its states.
    Thread(ThreadId),
    /// The samples on a CPU.
    CpuSamples(u16),
    /// The samples of a thread.
    ThreadSamples(ThreadId),
}

/// How much a thread ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Time on a CPU, nanoseconds.
    pub ns: u64,
    /// How often it came on a CPU.
    pub times: u64,
}

/// The lanes of one trace, each built when it is first needed.
pub struct Lanes {
    cpus: Vec<OnceLock<Pyramid>>,
    threads: Vec<OnceLock<Pyramid>>,
    cpu_samples: OnceLock<Vec<Vec<u32>>>,
}

impl Lanes {
    /// The lanes of an analysis, none of them built yet.
    pub fn new(analysis: &Analysis<'_>) -> Self {
        let empty = |count: usize| std::iter::repeat_with(OnceLock::new).take(count).collect();
        Self {
            cpus: empty(analysis.cpus.cpus()),
            threads: empty(analysis.timeline.threads()),
            cpu_samples: OnceLock::new(),
        }
    }

    /// Builds the lanes of all CPUs, on all cores.
    pub fn prepare_cpus(&self, analysis: &Analysis<'_>, cancel: &Cancel) -> Wanted<()> {
        (0..self.cpus.len()).into_par_iter().try_for_each(|cpu| {
            cancel.check()?;
            self.cpu(analysis, cpu as u16);
            Ok(())
        })
    }

    /// Builds the lanes of all threads, the busiest first, on all cores. Optional: it saves
    /// building them while a user waits.
    pub fn prepare_threads(&self, analysis: &Analysis<'_>, cancel: &Cancel) -> Wanted<()> {
        let mut threads: Vec<ThreadId> = (1..self.threads.len() as u32).map(ThreadId).collect();
        threads.sort_by_key(|&thread| std::cmp::Reverse(analysis.timeline.cycle_count(thread)));
        threads.into_par_iter().with_max_len(1).try_for_each(|thread| {
            cancel.check()?;
            self.thread(analysis, thread);
            Ok(())
        })
    }

    /// The number of slices in the lanes built so far, and the memory that they occupy, bytes.
    pub fn size(&self) -> (usize, usize) {
        let built = self.cpus.iter().chain(&self.threads).filter_map(OnceLock::get);
        built.fold((0, 0), |(slices, bytes), pyramid| {
            (slices + pyramid.len(), bytes + pyramid.bytes())
        })
    }

    /// Several lanes through one screen, in the order asked for, on all cores.
    pub fn views(
        &self,
        analysis: &Analysis<'_>,
        lanes: &[Lane],
        screen: &Screen,
        cancel: &Cancel,
    ) -> Wanted<Vec<View>> {
        lanes
            .par_iter()
            .with_max_len(1)
            .map(|&lane| self.view(analysis, lane, screen, cancel))
            .collect()
    }

    /// One lane through a screen; an empty view for a lane that the trace does not have.
    pub fn view(
        &self,
        analysis: &Analysis<'_>,
        lane: Lane,
        screen: &Screen,
        cancel: &Cancel,
    ) -> Wanted<View> {
        cancel.check()?;
        Ok(match lane {
            Lane::Cpu(cpu) => self.view_cpu(analysis, cpu, screen),
            Lane::Thread(thread) => self.view_thread(analysis, thread, screen),
            Lane::CpuSamples(cpu) => {
                let by_cpu = self.cpu_samples.get_or_init(|| samples_by_cpu(analysis));
                view_samples(
                    analysis,
                    by_cpu.get(usize::from(cpu)).map_or(&[], Vec::as_slice),
                    screen,
                )
            }
            Lane::ThreadSamples(thread) => view_samples(
                analysis,
                analysis.samples.of_thread(analysis.trace, thread, screen.window),
                screen,
            ),
        })
    }

    /// The busy time of all CPUs together in each column, nanoseconds.
    pub fn busy_ns(
        &self,
        analysis: &Analysis<'_>,
        screen: &Screen,
        cancel: &Cancel,
    ) -> Wanted<Vec<u64>> {
        let zero = || vec![0u64; screen.columns() as usize];
        (0..self.cpus.len())
            .into_par_iter()
            .with_max_len(1)
            .map(|cpu| {
                cancel.check()?;
                let mut busy_ns = zero();
                self.cpu(analysis, cpu as u16)
                    .into_iter()
                    .for_each(|pyramid| add_runs(pyramid, screen, &mut busy_ns));
                Ok(busy_ns)
            })
            .try_reduce(zero, |mut all, one| {
                all.iter_mut().zip(one).for_each(|(sum, busy)| *sum += busy);
                Ok(all)
            })
    }

    /// The busy time of a CPU inside `window`, nanoseconds.
    pub fn cpu_busy_ns(&self, analysis: &Analysis<'_>, cpu: u16, window: Window) -> u64 {
        self.cpu(analysis, cpu).map_or(0, |pyramid| pyramid.sum_inside(LaneState::Ran, window))
    }

    /// How much every thread ran inside `window`, by thread id. Computed from the lanes of the
    /// CPUs, because those of the threads may not be built yet.
    pub fn ran(
        &self,
        analysis: &Analysis<'_>,
        window: Window,
        cancel: &Cancel,
    ) -> Wanted<Vec<Ran>> {
        let none = || vec![Ran::default(); self.threads.len()];
        let add = |mut ran: Vec<Ran>, cpu: usize| {
            cancel.check()?;
            self.cpu(analysis, cpu as u16).into_iter().for_each(|pyramid| {
                pyramid.each_run(window, |thread, ns, comes| {
                    if let Some(ran) = ran.get_mut(thread.index()) {
                        (ran.ns, ran.times) = (ran.ns + ns, ran.times + u64::from(comes));
                    }
                });
            });
            Ok(ran)
        };
        (0..self.cpus.len()).into_par_iter().with_max_len(1).try_fold(none, add).try_reduce(
            none,
            |mut all, more| {
                all.iter_mut().zip(more).for_each(|(ran, more)| {
                    (ran.ns, ran.times) = (ran.ns + more.ns, ran.times + more.times)
                });
                Ok(all)
            },
        )
    }

    /// How long a thread was runnable inside `window`, nanoseconds; none while its lane is not
    /// built.
    pub fn runnable_ns(&self, thread: ThreadId, window: Window) -> Option<u64> {
        Some(self.threads.get(thread.index())?.get()?.sum_inside(LaneState::Runnable, window))
    }

    fn cpu(&self, analysis: &Analysis<'_>, cpu: u16) -> Option<&Pyramid> {
        Some(self.cpus.get(usize::from(cpu))?.get_or_init(|| build_cpu(analysis, cpu)))
    }

    fn thread(&self, analysis: &Analysis<'_>, thread: ThreadId) -> Option<&Pyramid> {
        Some(self.threads.get(thread.index())?.get_or_init(|| build_thread(analysis, thread)))
    }

    fn view_cpu(&self, analysis: &Analysis<'_>, cpu: u16, screen: &Screen) -> View {
        let mut view = View { lost: lost(analysis, cpu, screen), ..View::default() };
        let Some(pyramid) = self.cpu(analysis, cpu) else { return view };
        let raw = look(pyramid, screen, true);
        let slices = CpuSlices::new(analysis, cpu);
        view.slices = raw.whole.iter().map(|slice| slices.slice(slice)).collect();
        view.cells = raw.cells;
        for (cell, run) in view.cells.iter_mut().zip(raw.runs) {
            cell.thread = run.and_then(|run| pyramid.who(run));
        }
        view
    }

    fn view_thread(&self, analysis: &Analysis<'_>, thread: ThreadId, screen: &Screen) -> View {
        let Some(pyramid) = self.thread(analysis, thread) else { return View::default() };
        let raw = look(pyramid, screen, false);
        let slices =
            raw.whole.iter().map(|stored| identify(analysis, thread, pyramid, stored)).collect();
        View { slices, cells: raw.cells, lost: Vec::new() }
    }
}

/// The slices of a CPU's lane by number: slice 0 is the thread on it when the window began, slice
/// `n` the one that came with the `n`th switch inside it.
struct CpuSlices<'a> {
    analysis: &'a Analysis<'a>,
    all: &'a [u32],
    /// The first switch after the window's start.
    first: usize,
}

impl<'a> CpuSlices<'a> {
    fn new(analysis: &'a Analysis<'_>, cpu: u16) -> Self {
        let all = analysis.cpus.switches_of(cpu);
        let start = analysis.timeline.window().start;
        let first =
            all.partition_point(|&switch| analysis.trace.switches.time[switch as usize] <= start);
        Self { analysis, all, first }
    }

    /// The thread on the CPU in a slice, and the switch that put it there.
    fn who(&self, slice: u32) -> (Option<ThreadId>, Option<usize>) {
        let switches = &self.analysis.trace.switches;
        match (self.first + slice as usize).checked_sub(1).and_then(|at| self.all.get(at)) {
            Some(&switch) => (Some(switches.next[switch as usize]), Some(switch as usize)),
            // No earlier switch: the first thread to leave was on the CPU.
            None => (self.all.first().map(|&switch| switches.prev[switch as usize]), None),
        }
    }

    fn slice(&self, stored: &Stored) -> Slice {
        let (who, back) = self.who(stored.index);
        let out = self.all.get(self.first + stored.index as usize).map(|&switch| switch as usize);
        Slice {
            window: window_of(stored),
            state: stored.state,
            thread: who,
            out,
            wake: None,
            back,
            sample: None,
        }
    }
}

fn window_of(stored: &Stored) -> Window {
    Window::new(Time::from_nanos(stored.start), Time::from_nanos(stored.end))
}

fn build_cpu(analysis: &Analysis<'_>, cpu: u16) -> Pyramid {
    let (window, switches) = (analysis.timeline.window(), &analysis.trace.switches);
    let slices = CpuSlices::new(analysis, cpu);
    let mut pyramid = Pyramid::new(Kind::Cpu, slices.all.len() - slices.first + 1);
    let state = |who: Option<ThreadId>| match who {
        Some(thread) if thread.is_idle() => LaneState::Idle,
        Some(_) => LaneState::Ran,
        None => LaneState::Unknown,
    };
    let first = slices.who(0).0;
    pyramid.push_run(window.start, state(first), first.unwrap_or_default());
    for &switch in slices.all[slices.first..]
        .iter()
        .take_while(|&&switch| switches.time[switch as usize] < window.end)
    {
        let next = switches.next[switch as usize];
        pyramid.push_run(switches.time[switch as usize], state(Some(next)), next);
    }
    pyramid.finish(window.end)
}

fn build_thread(analysis: &Analysis<'_>, thread: ThreadId) -> Pyramid {
    let mut pyramid = Pyramid::new(Kind::Thread, analysis.timeline.cycle_count(thread) * 3 + 1);
    let mut end = analysis.timeline.life(thread).start;
    let mut known = None;
    analysis.timeline.each_of_cycle(
        analysis.trace,
        thread,
        analysis.timeline.window(),
        &mut |cycle, segment| {
            pyramid.push(segment.window.start, LaneState::of(analysis, &segment), cycle != known);
            (end, known) = (segment.window.end, cycle);
        },
    );
    pyramid.finish(end)
}

/// A thread's slice with its events.
fn identify(
    analysis: &Analysis<'_>,
    thread: ThreadId,
    pyramid: &Pyramid,
    stored: &Stored,
) -> Slice {
    let (out, wake, back) =
        analysis.timeline.events_of_cycle(thread, pyramid.cycle_of(stored.index));
    let (out, wake, back) = match stored.state {
        LaneState::Unknown => (None, None, None),
        LaneState::Ran => (None, None, back),
        LaneState::Runnable => (out, wake, back),
        _ => (out, wake, None),
    };
    let by_task = |wake: &usize| analysis.stacks.is_by_task(analysis.trace, *wake);
    let waker = wake.filter(by_task).map(|wake| analysis.trace.wakings.waker[wake]);
    Slice {
        window: window_of(stored),
        state: stored.state,
        thread: waker,
        out,
        wake,
        back,
        sample: None,
    }
}

/// Where a CPU's events were lost, clipped to the screen, joined where they touch.
fn lost(analysis: &Analysis<'_>, cpu: u16, screen: &Screen) -> Vec<Window> {
    let own = analysis
        .trace
        .losses
        .iter()
        .filter(|loss| loss.cpu == cpu)
        .map(|loss| loss.window.intersect(screen.window));
    Window::disjoint(own.filter(|window| !window.is_empty()).collect())
}

/// The samples of each CPU, except those that found it idle.
fn samples_by_cpu(analysis: &Analysis<'_>) -> Vec<Vec<u32>> {
    let mut lists: Vec<Vec<u32>> = Vec::new();
    let all = &analysis.trace.samples;
    for (index, &cpu) in all.cpu.iter().enumerate().filter(|(index, _)| all.is_work(*index)) {
        if lists.len() <= usize::from(cpu) {
            lists.resize_with(usize::from(cpu) + 1, Vec::new);
        }
        lists[usize::from(cpu)].push(index as u32);
    }
    lists
}

/// Samples, in order of time, through a screen. A sample with a distance of three columns to its
/// neighbours becomes a slice without length; the others are counted by column.
fn view_samples(analysis: &Analysis<'_>, samples: &[u32], screen: &Screen) -> View {
    let times = &analysis.trace.samples.time;
    let time = |sample: &u32| times[*sample as usize];
    let from = samples.partition_point(|sample| time(sample) < screen.window.start);
    let to = samples.partition_point(|sample| time(sample) < screen.window.end).max(from);
    let min_ns = screen.min_whole_ns();
    let mut view = View::default();
    let alone = |at: usize| {
        let own = time(&samples[at]);
        let before =
            at.checked_sub(1).is_none_or(|before| own.since(time(&samples[before])) >= min_ns);
        before && samples.get(at + 1).is_none_or(|after| time(after).since(own) >= min_ns)
    };
    let mut at = from;
    while at < to {
        let start = time(&samples[at]);
        if alone(at) {
            let thread = Some(analysis.trace.samples.thread[samples[at] as usize]);
            let (window, sample) = (Window::new(start, start), Some(samples[at] as usize));
            view.slices.push(Slice {
                window,
                state: LaneState::Ran,
                thread,
                out: None,
                wake: None,
                back: None,
                sample,
            });
            at += 1;
            continue;
        }
        let column = screen.column_of(start);
        let end = screen.edge(column + 1);
        let all = samples[at..to].partition_point(|sample| time(sample) < end).max(1);
        // If one of them is alone, it is the last of its column.
        let count = if all > 1 && alone(at + all - 1) { all - 1 } else { all };
        view.cells.push(Cell {
            column,
            state: LaneState::Ran,
            thread: None,
            busy_ns: 0,
            ns: 0,
            samples: count as u32,
        });
        at += count;
    }
    view
}
