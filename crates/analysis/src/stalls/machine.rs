//! Machine-wide stalls: busy CPUs fall to a few, and return at once when many long waits end within
//! milliseconds.
//!
//! *Why it looks at the recovery:* while the machine falls, one thread after the other goes to
//! sleep, which says nothing. When it recovers, the first to be woken names the root, and those
//! after it show the way of the lock. A fall without a mass release is work that ran out, and no
//! stall.

use crate::candidate::{Candidate, MassRelease, StallKind};
use crate::stacks::text::own_function;
use crate::waits::waits_ended_in;
use crate::wording::sentence::{count, duration, function, plural, sentence};
use crate::wording::{Sentence, Span, Subject, units};
use crate::{Analysis, WaitClass};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{ThreadId, Time, Window};

/// Maximum time between two ends of long waits in one release, nanoseconds.
const APART_NS: u64 = 5_000_000;
/// Minimum threads of a mass release.
const MIN_THREADS: usize = 4;
/// Maximum releases that are judged, those that ended the longest waits. *Why:* each takes a look at all
/// CPUs for as long as its longest wait, and no more stalls are explained.
const MAX_JUDGED: usize = 64;
/// Resolution of the busy-CPU curve.
const BUCKET_NS: u64 = 1_000_000;
/// Time examined before the fall and after the release, nanoseconds.
const AROUND_NS: u64 = 100_000_000;
/// Time after the release in which all CPUs must be busy again, nanoseconds.
const SETTLE_NS: u64 = 10_000_000;
/// Maximum share of the CPUs busy around the stall that are busy in it.
const FALLEN: f64 = 0.6;
/// Minimum number of CPUs that fell idle: of a machine that hardly did anything, any share is one
/// thread that rests.
const MIN_FALL_CPUS: f64 = 0.8;
/// So much of what was busy before is busy again: a mean over milliseconds seldom reaches all of it.
const RECOVERED: f64 = 0.98;
/// Buckets of the curve over which the CPUs that are busy after the release are averaged.
const MEAN_BUCKETS: usize = 10;

/// The machine-wide stalls behind the long waits in `candidates`.
pub(crate) fn find(analysis: &Analysis<'_>, candidates: &[Candidate]) -> Vec<Candidate> {
    let mut waits: Vec<&Candidate> =
        candidates.iter().filter(|candidate| candidate.kind == StallKind::UnwantedWait).collect();
    waits.sort_by_key(|wait| (released_at(analysis, wait), wait.victim));
    let groups =
        waits.chunk_by(|a, b| released_at(analysis, b).since(released_at(analysis, a)) <= APART_NS);
    let mut groups: Vec<&[&Candidate]> =
        groups.filter(|group| group.len() >= MIN_THREADS).collect();
    groups
        .sort_by_cached_key(|group| Reverse(longest(group).map(|wait| wait.window.duration_ns())));
    groups.truncate(MAX_JUDGED);
    groups.sort_by_key(|group| released_at(analysis, group[0]));
    groups.into_iter().filter_map(|group| judge(analysis, group)).collect()
}

/// The longest wait of a group.
fn longest<'a>(group: &[&'a Candidate]) -> Option<&'a Candidate> {
    group.iter().copied().max_by_key(|wait| (wait.window.duration_ns(), Reverse(wait.victim)))
}

/// When the wake-up came that ended it.
fn released_at(analysis: &Analysis<'_>, wait: &Candidate) -> Time {
    let wake = wait.operation.as_ref().and_then(|operation| operation.wakes.last());
    wake.map_or(wait.window.end, |&wake| analysis.trace.wakings.time[wake])
}

fn judge(analysis: &Analysis<'_>, group: &[&Candidate]) -> Option<Candidate> {
    let longest = longest(group)?;
    let (fell, first) = (longest.window.start, released_at(analysis, group.first()?));
    let last = released_at(analysis, group.last()?);
    let recorded = analysis.timeline.window();
    if last >= recorded.end || first <= fell {
        return None;
    }
    let around = Window::new(fell.minus(AROUND_NS), last.plus(AROUND_NS)).intersect(recorded);
    let curve = analysis.cpus.busy_curve(analysis.trace, around, BUCKET_NS);
    let bucket = |time: Time| (time.since(around.start) / BUCKET_NS) as usize;
    let mean = |from: Time, to: Time| {
        let range = curve
            .get(bucket(from)..bucket(to).max(bucket(from) + 1).min(curve.len()))
            .unwrap_or(&[]);
        range.iter().sum::<f64>() / range.len().max(1) as f64
    };
    // The second half: the first may still be falling.
    let low = mean(fell.plus(first.since(fell) / 2), first);
    let after = curve
        .get(bucket(first)..)
        .unwrap_or(&[])
        .chunks(MEAN_BUCKETS)
        .map(|some| some.iter().sum::<f64>() / some.len() as f64)
        .fold(0.0, f64::max);
    let before = if fell.since(around.start) >= AROUND_NS / 2 {
        mean(around.start, fell).max(after)
    } else {
        after
    };
    if low > before * FALLEN || before - low < MIN_FALL_CPUS {
        return None;
    }
    let recovered = (bucket(first)..curve.len()).find(|&at| curve[at] >= before * RECOVERED)?;
    let by_curve = around.start.plus((recovered as u64 + 1) * BUCKET_NS).max(first);
    let until =
        all_back(analysis, Window::new(first, by_curve.plus(SETTLE_NS)), before.round() as usize)
            .unwrap_or(by_curve);
    // The switch that brought the last one back included.
    let recovery = Window::new(first, until.plus(1));
    // All waits for locks and the like that the release ended, the shorter ones included.
    let classes: Vec<WaitClass> = group
        .iter()
        .filter_map(|wait| wait.operation.as_ref())
        .map(|operation| operation.class)
        .collect();
    let ended_waits =
        waits_ended_in(analysis, Window::new(first.minus(1), last.max(recovery.end)), |class| {
            classes.contains(&class)
        });
    let released: Vec<(ThreadId, Time, u64, String)> = ended_waits
        .into_iter()
        .filter(|(_, woken, waited, _)| woken.minus(*waited) < first)
        .map(|(thread, woken, waited, stack)| {
            (thread, woken, waited, own_function(analysis, stack))
        })
        .collect();
    let falling = Window::new(fell, fell.plus(first.since(fell) / 2));
    let leaders = analysis
        .trace
        .threads
        .iter()
        .filter(|(id, _)| analysis.trace.threads.process_of(*id).leader == *id);
    let ended =
        leaders.filter(|(_, thread)| thread.end.is_some_and(|end| falling.contains(end))).count();
    let machine = MassRelease {
        before,
        low,
        recovery_ns: until.since(first),
        switches: analysis.trace.switches.range(recovery).len(),
        released,
        ended,
    };
    Some(Candidate {
        kind: StallKind::Machine,
        machine: Some(Box::new(machine)),
        ..longest.clone()
    })
}

/// From when on, inside `window`, at least `busy` CPUs were busy for a millisecond without a break.
fn all_back(analysis: &Analysis<'_>, window: Window, busy: usize) -> Option<Time> {
    let window = window.intersect(analysis.timeline.window());
    let cpus = analysis.cpus.cpus();
    // CPUs fall idle, or are busy again.
    let mut turns: Vec<(Time, bool)> = Vec::new();
    for cpu in 0..cpus {
        for run in analysis.cpus.occupancy(analysis.trace, cpu as u16, window) {
            if run.thread.is_some_and(ThreadId::is_idle) {
                turns.extend([(run.window.start, true), (run.window.end, false)]);
            }
        }
    }
    turns.sort_unstable();
    let (mut idle, mut since) = (0usize, Some(window.start));
    for moment in turns.chunk_by(|a, b| a.0 == b.0) {
        let time = moment[0].0;
        let fallen = moment.iter().filter(|(_, fallen)| *fallen).count();
        idle = (idle + fallen).saturating_sub(moment.len() - fallen);
        let all = idle + busy <= cpus;
        match since {
            Some(since) if time.since(since) >= BUCKET_NS => return Some(since),
            None if all => since = Some(time),
            Some(_) if !all => since = None,
            _ => {}
        }
    }
    since.filter(|&since| window.end.since(since) >= BUCKET_NS)
}

/// The first line of the answer.
pub(crate) fn headline(release: &MassRelease) -> String {
    format!(
        "whole machine: {:.0} → {:.0} busy CPUs, busy again within {} of the release",
        release.before,
        release.low,
        units::duration(release.recovery_ns)
    )
}

/// How the release went on, and what the fall was not.
pub(crate) fn sentences(analysis: &Analysis<'_>, release: &MassRelease) -> Vec<Sentence> {
    /// Maximum released threads that are listed.
    const MAX_LISTED: usize = 2;
    let listed = release.released.iter().take(MAX_LISTED).map(|(thread, at, waited, _)| {
        let name = units::thread(analysis.trace, *thread, *at);
        let name = Span::new(name, Subject::Thread(*thread));
        sentence!("{} (waited {})", name, duration(*waited))
    });
    let ends = release.released.first().zip(release.released.last());
    let span = ends.map_or(0, |(first, last)| last.1.since(first.1));
    let more = match release.released.len().saturating_sub(MAX_LISTED) as u64 {
        0 => Sentence::default(),
        more => sentence!(", then {}", plural(more, "more thread")),
    };
    let mut sentences = vec![sentence!(
        "When the stall ended, {}{} were woken within {}. It took {} context switches until the \
         machine was busy again.",
        Sentence::join(listed, ", "),
        more,
        duration(span),
        count(release.switches as u64)
    )];
    let mut by_function: FxHashMap<&str, (u64, u64)> = FxHashMap::default();
    for (_, _, waited, name) in &release.released {
        let sum = by_function.entry(name).or_default();
        *sum = (sum.0 + 1, sum.1 + waited);
    }
    let most =
        by_function.into_iter().max_by_key(|(name, (threads, _))| (*threads, Reverse(*name)));
    if let Some((name, (threads, waited))) = most {
        sentences.push(sentence!(
            "{} had waited in {}, {} on average.",
            plural(threads, "thread"),
            function(name),
            duration(waited / threads.max(1))
        ));
    }
    sentences.push(match release.ended as u64 {
        0 => Sentence::from(
            "No process ended while the machine fell idle, so it did not fall idle because its \
             work was done.",
        ),
        1 => Sentence::from("1 process ended while the machine fell idle."),
        ended => sentence!("{} processes ended while the machine fell idle.", count(ended)),
    });
    sentences
}
