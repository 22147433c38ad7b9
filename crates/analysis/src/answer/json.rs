//! The answer as JSON: a contract. Fields may be added, never changed or removed.

use super::saved::SavedJson;
use super::spans_json::{SentenceJson, sentences};
use super::thread_json::{ThreadJson, thread_json};
use super::waker_vs_holder::WakerVsHolder;
use crate::diagnose::Stall;
use crate::explain::{ChainLink, LinkState, partition};
use crate::wording::units;
use crate::{Analysis, Evidence, Hop, WakeContext};
use serde::Serialize;
use std::fmt::Write;
use unhitch_model::{FrameId, StackId, ThreadId, Throttling, Time, Trace};

/// What `unhitch why --json` prints.
#[derive(Serialize, Debug)]
pub struct Why {
    version: u32,
    trace: TraceJson,
    /// Why the trace was saved, if it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<SavedJson>,
    stalls: Vec<StallJson>,
}

#[derive(Serialize, Debug)]
struct TraceJson {
    file: String,
    /// What times in text and of `--from` and `--to` count from, on the same clock as all `…_ns`.
    origin_ns: u64,
    start_ns: u64,
    duration_ns: u64,
    cpus: usize,
    switches: usize,
    wakings: usize,
    samples: usize,
    lost: u64,
    warnings: Vec<String>,
}

#[derive(Serialize, Debug)]
struct StallJson {
    id: usize,
    kind: &'static str,
    start_ns: u64,
    end_ns: u64,
    duration_ns: u64,
    victim: ThreadJson,
    victims: usize,
    other_victims: Vec<ThreadJson>,
    cause: CauseJson,
    figures: FiguresJson,
    chain: Vec<LinkJson>,
    partition: Vec<ShareJson>,
    text: String,
    /// The sentences of the answer in their parts.
    sentences: Vec<SentenceJson>,
}

#[derive(Serialize, Debug)]
struct CauseJson {
    pattern: &'static str,
    culprit: Option<ThreadJson>,
    function: String,
    evidence: &'static str,
    evidence_words: String,
    /// Where the victim's last waker is not the holder of its lock: both.
    readings: Option<ReadingsJson>,
    /// The quota that kept the victim, or who held it up, from CPUs for most of it.
    throttling: Option<ThrottlingJson>,
}

#[derive(Serialize, Debug)]
struct ThrottlingJson {
    group: String,
    hierarchy: String,
    /// Null where the limit was lifted meanwhile.
    quota_ns: Option<u64>,
    period_ns: u64,
    /// Periods in which the group wanted to run, and those of them in which it used up its quota.
    periods: u64,
    throttled_periods: u64,
    /// Summed over CPUs.
    throttled_ns: u64,
    /// Between which readings of the counters.
    from_ns: u64,
    to_ns: u64,
}

#[derive(Serialize, Debug)]
struct ReadingsJson {
    last_waker: ReadingJson,
    holder: ReadingJson,
    /// How the waits between the two are known to be for one lock: `address` or `code`; null where
    /// they are for several.
    same_lock_by: Option<&'static str>,
}

#[derive(Serialize, Debug)]
struct ReadingJson {
    #[serde(flatten)]
    thread: ThreadJson,
    /// For how much of the stall it had the lock.
    held_ns: u64,
    /// When it let it go; null where the recording ends first.
    at_ns: Option<u64>,
    stack: Vec<String>,
    evidence: &'static str,
}

#[derive(Serialize, Debug)]
struct FiguresJson {
    wakes: usize,
    wakes_in_vain: usize,
    idle_share: Option<f64>,
}

#[derive(Serialize, Debug)]
struct LinkJson {
    #[serde(flatten)]
    thread: ThreadJson,
    state: &'static str,
    from_ns: u64,
    to_ns: u64,
    class: &'static str,
    stack: Vec<String>,
    /// How long the whole wait was of which this link is the part that counts.
    waited_ns: u64,
    /// The lock it waited for, by its address, where the kernel or the system call tells it.
    lock: Option<String>,
    /// Who held the lock when the wait began, where the lock's memory said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<ThreadJson>,
    pieces: usize,
    wake: Option<WakeJson>,
}

#[derive(Serialize, Debug)]
struct WakeJson {
    context: &'static str,
    by: Option<ThreadJson>,
    at_ns: Option<u64>,
    stack: Vec<String>,
}

#[derive(Serialize, Debug)]
struct ShareJson {
    what: &'static str,
    who: Option<ThreadJson>,
    ns: u64,
}

impl Why {
    /// The answer for `stalls`, of which the JSON shows the `top` worst.
    pub fn new(analysis: &Analysis<'_>, file: &str, stalls: &[Stall], top: usize) -> Self {
        let (trace, window) = (analysis.trace, analysis.timeline.window());
        Self {
            version: 1,
            trace: TraceJson {
                file: file.to_owned(),
                origin_ns: trace.origin().nanos(),
                start_ns: window.start.nanos(),
                duration_ns: window.duration_ns(),
                cpus: analysis.cpus.seen(),
                switches: trace.switches.len(),
                wakings: trace.wakings.len(),
                samples: trace.samples.len(),
                lost: trace.lost_events(),
                warnings: trace.warnings.lines().collect(),
            },
            saved: trace.meta.save.as_ref().map(|save| SavedJson::new(trace, save)),
            stalls: stalls
                .iter()
                .take(top)
                .enumerate()
                .map(|(index, stall)| stall_json(analysis, index + 1, stall))
                .collect(),
        }
    }
}

fn stall_json(analysis: &Analysis<'_>, id: usize, stall: &Stall) -> StallJson {
    let (trace, window) = (analysis.trace, stall.explanation.window);
    let who = |thread: ThreadId| thread_json(analysis, thread, window.end);
    let (wakes, in_vain) = stall.figures(analysis);
    let mut text = String::new();
    for part in stall.finding.sentences.iter().chain([&stall.finding.cause]) {
        let _ = writeln!(text, "{part}");
    }
    StallJson {
        id,
        kind: stall.candidate.kind.name(),
        start_ns: window.start.nanos(),
        end_ns: window.end.nanos(),
        duration_ns: window.duration_ns(),
        victim: who(stall.candidate.victim),
        victims: stall.victims.len(),
        other_victims: stall
            .victims
            .iter()
            .filter(|&&victim| victim != stall.candidate.victim)
            .map(|&victim| who(victim))
            .collect(),
        cause: CauseJson {
            pattern: stall.finding.pattern.name(),
            culprit: stall.finding.culprit.map(who),
            function: stall.finding.function.clone(),
            evidence: stall.finding.evidence.name(),
            evidence_words: stall.finding.evidence_words.to_string(),
            readings: readings_json(analysis, stall),
            throttling: stall
                .throttling
                .as_ref()
                .map(|throttling| throttling_json(trace, throttling)),
        },
        figures: FiguresJson {
            wakes,
            wakes_in_vain: in_vain,
            idle_share: analysis.cpus.idle_share(trace, window),
        },
        chain: stall
            .explanation
            .chain(ChainLink::MAX)
            .iter()
            .rev()
            .map(|link| link_json(analysis, link, window.end))
            .collect(),
        partition: partition(analysis, &stall.explanation)
            .iter()
            .map(|share| ShareJson {
                what: share.what.name(),
                who: share.who.map(who),
                ns: share.ns,
            })
            .collect(),
        text: format!(
            "{} {}\n{text}",
            units::duration(window.duration_ns()),
            units::thread(trace, stall.candidate.victim, window.end)
        ),
        sentences: sentences(analysis, stall),
    }
}

fn throttling_json(trace: &Trace, throttling: &Throttling) -> ThrottlingJson {
    let group = trace.machine.group(throttling.group).cloned().unwrap_or_default();
    ThrottlingJson {
        group: group.path,
        hierarchy: group.hierarchy,
        quota_ns: throttling.quota_ns,
        period_ns: throttling.period_ns,
        periods: throttling.periods,
        throttled_periods: throttling.throttled_periods,
        throttled_ns: throttling.throttled_ns,
        from_ns: throttling.between.start.nanos(),
        to_ns: throttling.between.end.nanos(),
    }
}

fn readings_json(analysis: &Analysis<'_>, stall: &Stall) -> Option<ReadingsJson> {
    let (trace, both) = (analysis.trace, WakerVsHolder::new(analysis, stall)?);
    let reading = |hop: &Hop, held_ns: u64, evidence: Evidence| ReadingJson {
        thread: thread_json(analysis, hop.by, stall.explanation.window.end),
        held_ns,
        at_ns: hop.release().map(|wake| trace.wakings.time[wake].nanos()),
        stack: trace
            .stack_names(hop.release().map_or(StackId::EMPTY, |wake| trace.wakings.stack[wake])),
        evidence: evidence.name(),
    };
    Some(ReadingsJson {
        last_waker: reading(both.last, both.last_ns, both.waker_evidence()),
        holder: reading(both.held, both.held_ns, stall.finding.evidence),
        same_lock_by: both.same_lock.map(|same| same.name()),
    })
}

fn link_json(analysis: &Analysis<'_>, link: &ChainLink, at: Time) -> LinkJson {
    let trace = analysis.trace;
    let wait = link.wait(analysis);
    let wake = match &link.hop {
        Some(hop) => {
            let wake_stack = hop.release().map_or(StackId::EMPTY, |wake| trace.wakings.stack[wake]);
            Some(WakeJson {
                context: hop.source.context.name(),
                by: Some(thread_json(analysis, hop.by, at)),
                at_ns: hop.release().map(|wake| trace.wakings.time[wake].nanos()),
                stack: trace.stack_names(wake_stack),
            })
        }
        None if link.state == LinkState::Sleeping => {
            link.piece.segment.wake().map(|wake| WakeJson {
                context: analysis.stacks.wake_source(trace, wake).context.name(),
                by: None,
                at_ns: Some(trace.wakings.time[wake].nanos()),
                stack: names(trace, analysis.stacks.own_frames(trace, trace.wakings.stack[wake])),
            })
        }
        None => None,
    };
    LinkJson {
        thread: thread_json(analysis, link.thread, at),
        state: link.state.name(),
        from_ns: link.window.start.nanos(),
        to_ns: link.window.end.nanos(),
        class: wait.class,
        stack: trace.stack_names(wait.stack),
        waited_ns: wait.waited_ns,
        lock: link.hop.and_then(|hop| hop.lock_avma).map(|avma| format!("{avma:#x}")),
        owner: link.hop.and_then(|hop| hop.owner).map(|owner| thread_json(analysis, owner, at)),
        pieces: link.pieces,
        wake,
    }
}

/// What frames (leaf first) print, root first.
fn names(trace: &Trace, frames: &[FrameId]) -> Vec<String> {
    let mut names: Vec<String> =
        frames.iter().flat_map(|&frame| trace.frame_names(frame)).collect();
    names.reverse();
    names
}

impl Stall {
    /// How many times the victim was woken from its main operation (or from any wait that was
    /// followed), and how many times in vain.
    pub fn figures(&self, analysis: &Analysis<'_>) -> (usize, usize) {
        match &self.finding.operation {
            Some(operation) => (operation.wakes.len(), operation.wakes_in_vain()),
            None => {
                let by_tasks = |hop: &&Hop| {
                    hop.depth == 1
                        && hop.wake.is_some_and(|wake| {
                            analysis.stacks.wake_source(analysis.trace, wake).context
                                != WakeContext::Idle
                        })
                };
                let waits = self.explanation.hops.iter().filter(by_tasks);
                (waits.map(|hop| hop.waits as usize).sum(), 0)
            }
        }
    }
}
