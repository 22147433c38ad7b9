//! One slice of a lane in full: what a thread or a CPU was doing at a time, and why.

use super::view::{lane_of, thread_lane};
use crate::Error;
use crate::loaded::Loaded;
use crate::params::{Params, wrong};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use unhitch_analysis::explain::awaited_cpu;
use unhitch_analysis::lod::{Lane, LaneState};
use unhitch_analysis::{Cancel, Occupancy, Segment, StackKind, State, WakeSource};
use unhitch_model::units;
use unhitch_model::{ThreadId, Time, Window};

/// Maximum threads listed that ran on a CPU while a thread waited for it.
const MAX_OCCUPANTS: usize = 8;

/// Which slice, relative to the one at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Here,
    Next,
    Previous,
}

/// `GET slice`
pub(super) fn slice(loaded: &Loaded<'_>, params: &Params, _: &Cancel) -> Result<Value, Error> {
    let word = params.text("lane")?;
    let at = params.time("at")?.ok_or_else(|| wrong("at", "", "a time"))?;
    let step =
        params.choice("step", &[("0", Step::Here), ("1", Step::Next), ("-1", Step::Previous)])?;
    let time = loaded.time(at);
    match lane_of(word).ok_or_else(|| wrong("lane", word, "c, t, sc or st with a number"))? {
        Lane::Cpu(cpu) => cpu_slice(loaded, cpu, time, step),
        Lane::Thread(thread) => thread_slice(loaded, loaded.thread(thread.0)?, time, step),
        Lane::CpuSamples(cpu) => {
            let samples = &loaded.trace.samples;
            sample(
                loaded,
                word,
                (0..samples.len())
                    .filter(|&at| samples.cpu.get(at) == Some(&cpu) && samples.is_work(at)),
                time,
                step,
            )
        }
        Lane::ThreadSamples(thread) => {
            let thread = loaded.thread(thread.0)?;
            let of_thread = loaded.analysis.samples.of_thread(
                loaded.trace,
                thread,
                Window::new(Time::ZERO, Time::MAX),
            );
            sample(loaded, word, of_thread.iter().map(|&at| at as usize), time, step)
        }
    }
}

/// The segment at a time, or a neighbour of it. Searched in growing windows, because a thread may
/// have millions of segments.
fn segment_at(loaded: &Loaded<'_>, thread: ThreadId, time: Time, step: Step) -> Option<Segment> {
    let whole = loaded.window();
    let mut reach_ns = 1u64;
    loop {
        let start = Time::from_nanos(time.nanos().saturating_sub(reach_ns)).max(whole.start);
        let end = time.plus(reach_ns).min(whole.end);
        let near = loaded.analysis.segments(thread, Window::new(start, end));
        let here = near.iter().position(|segment| segment.window.contains(time));
        let wanted = match (step, here) {
            (Step::Here, here) => here,
            (Step::Next, Some(here)) => (here + 1 < near.len()).then_some(here + 1),
            (Step::Next, None) => near.iter().position(|segment| segment.window.start > time),
            (Step::Previous, Some(here)) => here.checked_sub(1),
            (Step::Previous, None) => near.iter().rposition(|segment| segment.window.end <= time),
        };
        let is_all = start <= whole.start && end >= whole.end;
        if let Some(wanted) = wanted {
            let segment = near[wanted];
            // At the edge of the searched window, the segment may be longer.
            let cut = segment.window.start <= start && start > whole.start
                || segment.window.end >= end && end < whole.end;
            if !cut || is_all {
                return Some(segment);
            }
        }
        if is_all {
            return None;
        }
        reach_ns = reach_ns.saturating_mul(8);
    }
}

fn thread_slice(
    loaded: &Loaded<'_>,
    thread: ThreadId,
    time: Time,
    step: Step,
) -> Result<Value, Error> {
    let segment = segment_at(loaded, thread, time, step).ok_or(Error::NotFound("slice"))?;
    let (trace, window) = (loaded.trace, segment.window);
    let sleeps = matches!(segment.state, State::Sleeping(_));
    let class =
        sleeps.then(|| unhitch_analysis::explain::class_of(loaded.analysis, &segment).name());
    let state = LaneState::of(loaded.analysis, &segment);
    let runnable = matches!(segment.state, State::Runnable { .. });
    let awaited = awaited_cpu(loaded.analysis, &segment, window);
    let occupants = awaited.map_or(Vec::new(), |cpu| occupants(loaded, cpu, window));
    let cpu = awaited.or(loaded.analysis.cpu_of(&segment));
    let in_window = loaded.analysis.samples.of_thread(trace, thread, window);
    let samples = in_window.first().filter(|_| segment.state == State::Ran).map(|_| {
        let top = unhitch_analysis::samples::hot_spot(loaded.analysis, &[(thread, window)]);
        json!({ "count": in_window.len(), "top": top.map(|spot| loaded.stack(StackKind::Sample, spot.stack)) })
    });
    let wake = segment.wake().filter(|_| sleeps || runnable).map(|wake| wake_of(loaded, wake));
    let own_stack =
        (sleeps || runnable).then(|| loaded.stack(StackKind::Wait, segment.wait_stack(trace)));
    let prio = segment
        .back()
        .filter(|_| segment.state == State::Ran)
        .and_then(|back| trace.switches.next_prio.get(back));
    Ok(json!({
        "lane": thread_lane(thread), "who": loaded.who(thread, window.start), "state": state.words().0,
        "from": loaded.at(window.start), "to": loaded.at(window.end), "cpu": cpu, "class": class,
        "preempted": matches!(segment.state, State::Runnable { preempted: true }),
        "switch": segment.out(), "back": segment.back(), "waking": segment.wake(),
        "wait_stack": own_stack, "wake": wake, "occupants": occupants, "samples": samples, "prio": prio,
        "text": words(loaded, &segment, state, class),
    }))
}

/// A segment in one sentence.
fn words(loaded: &Loaded<'_>, segment: &Segment, state: LaneState, class: Option<&str>) -> String {
    let length = units::duration(segment.window.duration_ns());
    let sentence = match (segment.state, class) {
        (State::Sleeping(_), Some(class)) if state.words().0 == class => {
            format!("slept {length}: {}", state.words().1)
        }
        (State::Sleeping(_), Some(class)) => {
            format!("slept {length}: {} ({})", state.words().1, class.replace('_', " "))
        }
        (State::Runnable { preempted: true }, _) => {
            format!("was preempted and waited {length} for a CPU")
        }
        (State::Runnable { .. }, _) => format!("was woken and waited {length} for a CPU"),
        (State::Ran, _) => format!("ran {length}"),
        _ => {
            format!("unknown for {length}: events were lost, or this time is outside the recording")
        }
    };
    let ended = segment.wake().filter(|_| matches!(segment.state, State::Sleeping(_))).map_or(
        String::new(),
        |wake| {
            let source = loaded.analysis.stacks.wake_source(loaded.trace, wake);
            let waker = loaded.trace.wakings.waker[wake];
            match source.context.is_task() {
                true => {
                    let (name, tid) = (
                        loaded.trace.thread_name(waker, loaded.trace.wakings.time[wake]),
                        loaded.trace.threads.get(waker).tid,
                    );
                    format!("; ended by {name} {tid}")
                }
                false => match interrupt_words(source) {
                    Some(words) => format!("; ended by an interrupt ({words})"),
                    None => "; ended by an interrupt".to_owned(),
                },
            }
        },
    );
    sentence + &ended
}

/// The interrupt behind a wake-up, in words.
pub(super) fn interrupt_words(source: WakeSource) -> Option<&'static str> {
    Some(source.interrupt?.words()?.1)
}

/// A wake-up as JSON.
pub(super) fn wake_of(loaded: &Loaded<'_>, wake: usize) -> Value {
    let wakings = &loaded.trace.wakings;
    let (time, source) =
        (wakings.time[wake], loaded.analysis.stacks.wake_source(loaded.trace, wake));
    let by = source.context.is_task().then(|| loaded.who(wakings.waker[wake], time));
    json!({
        "at": loaded.at(time), "cpu": wakings.cpu[wake], "waking": wake, "context": source.context.name(),
        "source": interrupt_words(source), "by": by,
        "stack": loaded.stack(StackKind::Wake, wakings.stack[wake]),
    })
}

/// The threads that ran on a CPU, the longest first.
pub(super) fn occupants(loaded: &Loaded<'_>, cpu: u16, window: Window) -> Vec<Value> {
    let mut sums: FxHashMap<Option<ThreadId>, u64> = FxHashMap::default();
    for Occupancy { window, thread, .. } in
        loaded.analysis.cpus.occupancy(loaded.trace, cpu, window)
    {
        *sums.entry(thread).or_default() += window.duration_ns();
    }
    let mut sums: Vec<(Option<ThreadId>, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|&(thread, ns)| (std::cmp::Reverse(ns), thread));
    let value = |&(thread, ns): &(Option<ThreadId>, u64)| json!({ "who": thread.map(|id| loaded.who(id, window.end)), "ns": ns });
    sums.iter().take(MAX_OCCUPANTS).map(value).collect()
}

fn cpu_slice(loaded: &Loaded<'_>, cpu: u16, time: Time, step: Step) -> Result<Value, Error> {
    let (trace, whole) = (loaded.trace, loaded.window());
    let switches = loaded.analysis.cpus.switches_of(cpu);
    if switches.is_empty() || !whole.contains(time) {
        return Err(Error::NotFound("slice"));
    }
    let at = |index: usize| trace.switches.time[switches[index] as usize];
    // The number of switches by then. As many slices have begun, besides the first, in which the
    // recording began.
    let begun = switches.partition_point(|&index| trace.switches.time[index as usize] <= time);
    let begun = match step {
        Step::Here => begun,
        Step::Next => begun + 1,
        Step::Previous => begun.checked_sub(1).ok_or(Error::NotFound("slice"))?,
    };
    if begun > switches.len() {
        return Err(Error::NotFound("slice"));
    }
    let start = begun.checked_sub(1).map_or(whole.start, at).max(whole.start);
    let end = if begun < switches.len() { at(begun) } else { whole.end }.min(whole.end);
    if start >= end {
        return Err(Error::NotFound("slice"));
    }
    let back = begun.checked_sub(1).map(|index| switches[index] as usize);
    let out = switches.get(begun).map(|&index| index as usize);
    let who = back.map_or_else(
        || trace.switches.prev[switches[0] as usize],
        |back| trace.switches.next[back],
    );
    let window = Window::new(start, end);
    let state = if who.is_idle() { LaneState::Idle } else { LaneState::Ran };
    let in_window = loaded.analysis.samples.of_thread(trace, who, window);
    let samples = in_window.first().filter(|_| !who.is_idle()).map(|_| {
        let top = unhitch_analysis::samples::hot_spot(loaded.analysis, &[(who, window)]);
        json!({ "count": in_window.len(), "top": top.map(|spot| loaded.stack(StackKind::Sample, spot.stack)) })
    });
    let length = units::duration(window.duration_ns());
    let text = if who.is_idle() {
        format!("idle for {length}")
    } else {
        format!("{} ran {length}", trace.thread_name(who, start))
    };
    Ok(json!({
        "lane": format!("c{cpu}"), "who": loaded.who(who, start), "state": state.words().0,
        "from": loaded.at(start), "to": loaded.at(end), "cpu": cpu, "class": null, "preempted": false,
        "switch": out, "back": back, "waking": null, "wait_stack": null, "wake": null, "occupants": [], "samples": samples,
        "prio": back.map(|back| trace.switches.next_prio[back]), "text": text,
    }))
}

/// The sample at or after a time, the one after that, or the one before.
fn sample(
    loaded: &Loaded<'_>,
    lane: &str,
    samples: impl Iterator<Item = usize>,
    time: Time,
    step: Step,
) -> Result<Value, Error> {
    let times = &loaded.trace.samples.time;
    let list: Vec<usize> = samples.collect();
    let later = list.partition_point(|&sample| {
        if step == Step::Next { times[sample] <= time } else { times[sample] < time }
    });
    let index = if step == Step::Previous { later.checked_sub(1) } else { Some(later) };
    let sample =
        index.and_then(|index| list.get(index)).copied().ok_or(Error::NotFound("sample"))?;
    let samples = &loaded.trace.samples;
    let (thread, at) = (samples.thread[sample], samples.time[sample]);
    let stack = loaded.stack(StackKind::Sample, samples.stack[sample]);
    Ok(json!({
        "lane": lane, "who": loaded.who(thread, at), "state": LaneState::Ran.words().0, "from": loaded.at(at), "to": loaded.at(at),
        "cpu": samples.cpu[sample], "sample": sample, "samples": { "count": 1, "top": stack }, "text": loaded.stack_text(StackKind::Sample, samples.stack[sample]),
    }))
}
