//! Stalls, their chains and lost events as slices on tracks of their own, with flows to the
//! wake-ups.

use super::fields::{ROOT, annotation, packet, track_event as field};
use super::interned::Interner;
use super::packets::{Packets, Sequence};
use crate::frames::Frames;
use crate::job::Job;
use crate::protobuf::Message;
use crate::stalls::stalls;
use rustc_hash::FxHashSet;
use std::io;
use unhitch_analysis::explain::partition;
use unhitch_analysis::wording::units;
use unhitch_analysis::{ChainLink, LinkState, Stall};
use unhitch_model::{StackId, ThreadId, Time, Window};

/// Ids of tracks. Those of threads and chains follow.
const STALLS: u64 = ROOT + 1;
const LOSSES: u64 = ROOT + 2;
const CHAINS: u64 = ROOT + (1 << 32);
const THREADS: u64 = ROOT + (2 << 32);

/// Writes the stalls of the selection. Returns their number.
pub(super) fn write(job: &Job<'_>, packets: &mut Packets<'_>) -> io::Result<u64> {
    let (analysis, selection) = (job.analysis, job.selection);
    let stalls = stalls(job);
    let losses = analysis.trace.losses.iter();
    let losses: Vec<_> = losses.filter(|loss| loss.window.overlaps(selection.window)).collect();
    if stalls.is_empty() && losses.is_empty() {
        return Ok(0);
    }
    let frames = Frames::new(analysis.trace);
    let mut tracks = Tracks {
        job,
        packets,
        interner: Interner::new(analysis.trace, &frames),
        threads: FxHashSet::default(),
        flows: 0,
    };
    for (index, stall) in stalls.iter().enumerate() {
        tracks.stall(index as u64, stall)?;
    }
    for (index, loss) in losses.into_iter().enumerate() {
        // Losses of several CPUs overlap.
        let track = LOSSES + index as u64;
        tracks.track(track, "lost events")?;
        let name = match loss.events {
            0 => format!("events lost on CPU {}", loss.cpu),
            events => format!("{} lost on CPU {}", units::plural(events, "event"), loss.cpu),
        };
        tracks.slice(track, loss.window, &name, "lost", |_| {})?;
    }
    Ok(stalls.len() as u64)
}

/// Writes tracks and what is on them.
struct Tracks<'t, 'p, 'o> {
    job: &'t Job<'t>,
    packets: &'p mut Packets<'o>,
    interner: Interner<'t>,
    /// Threads that have a track.
    threads: FxHashSet<ThreadId>,
    flows: u64,
}

impl Tracks<'_, '_, '_> {
    /// A track below "Unhitch".
    fn track(&mut self, id: u64, name: &str) -> io::Result<()> {
        self.packets.write(Sequence::Answers, None, |packet| {
            packet.nest(packet::TRACK_DESCRIPTOR, |track| {
                track.uint(1, id);
                track.uint(5, ROOT);
                track.put(2, name);
            });
        })
    }

    /// The track of a thread, for what happens on it.
    fn thread_track(&mut self, thread: ThreadId) -> io::Result<u64> {
        let id = THREADS + u64::from(thread.0);
        if self.threads.insert(thread) {
            let threads = &self.job.analysis.trace.threads;
            let (pid, tid) = (threads.process_of(thread).pid, threads.get(thread).tid);
            self.packets.write(Sequence::Answers, None, |packet| {
                packet.nest(packet::TRACK_DESCRIPTOR, |track| {
                    track.uint(1, id);
                    track.nest(4, |of| {
                        of.tid(1, pid);
                        of.tid(2, tid);
                    });
                });
            })?;
        }
        Ok(id)
    }

    fn slice(
        &mut self,
        track: u64,
        window: Window,
        name: &str,
        category: &str,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        self.event(track, window.start, field::SLICE_BEGIN, |event| {
            event.put(field::NAME, name);
            event.put(field::CATEGORIES, category);
            fill(event);
        })?;
        self.event(track, window.end, field::SLICE_END, |_| {})
    }

    fn event(
        &mut self,
        track: u64,
        time: Time,
        kind: u64,
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        let interner = &mut self.interner;
        self.packets.write(Sequence::Answers, Some(time), |packet| {
            interner.write_new(packet);
            packet.nest(packet::TRACK_EVENT, |event| {
                event.uint(field::TYPE, kind);
                event.uint(field::TRACK, track);
                fill(event);
            });
        })
    }

    /// A stall: a slice, a track with its chain, and an instant for each wake-up on the way.
    fn stall(&mut self, index: u64, stall: &Stall) -> io::Result<()> {
        let (job, window) = (self.job, stall.explanation.window);
        let chain = stall.explanation.chain(ChainLink::MAX);
        let first_flow = self.flows + 1;
        let woken = |link: &&ChainLink| link.hop.is_some_and(|hop| hop.wake.is_some());
        let flows = chain.iter().filter(woken).count() as u64;
        self.flows += flows;
        // Stalls may overlap, so each has a track; Perfetto joins those of one name.
        let track = STALLS + ((index + 1) << 40);
        self.track(track, "stalls")?;
        let name = format!(
            "{}: {} of {}",
            stall.finding.pattern.name(),
            units::duration(window.duration_ns()),
            units::thread(job.analysis.trace, stall.candidate.victim, window.start)
        );
        self.slice(track, window, &name, "stall", |event| {
            (first_flow..first_flow + flows).for_each(|id| event.fixed64(field::FLOW_IDS, id));
            annotate(job, stall, event);
        })?;
        let track = CHAINS + index;
        self.track(track, &format!("chain of stall {}", index + 1))?;
        let mut flow = first_flow;
        for link in &chain {
            let has_flow = woken(&link);
            self.link(track, link, has_flow.then_some(flow))?;
            flow += u64::from(has_flow);
        }
        Ok(())
    }

    fn link(&mut self, track: u64, link: &ChainLink, flow: Option<u64>) -> io::Result<()> {
        let trace = self.job.analysis.trace;
        let who = |thread| units::thread(trace, thread, link.window.start);
        let does = match (link.state, &link.hop) {
            (_, Some(hop)) => format!("waits for {} ({})", who(hop.by), hop.class.name()),
            (LinkState::Running, _) => "runs".to_owned(),
            (LinkState::Runnable, _) => "waits for a CPU".to_owned(),
            (LinkState::Sleeping, _) => "sleeps".to_owned(),
            (LinkState::Unknown, _) => "not known".to_owned(),
        };
        let stack = match &link.hop {
            Some(hop) => hop.wait_stack,
            None => link.piece.segment.wait_stack(trace),
        };
        let callstack = self.callstack(stack);
        let name = format!("{} {does}", who(link.thread));
        self.slice(track, link.window, &name, "chain", |event| {
            flow.into_iter().for_each(|id| event.fixed64(field::FLOW_IDS, id));
            callstack.into_iter().for_each(|id| event.uint(field::CALLSTACK, id));
        })?;
        let Some((hop, flow)) = link.hop.zip(flow) else { return Ok(()) };
        let Some(wake) = hop.wake else { return Ok(()) };
        let (time, stack) = (trace.wakings.time[wake], trace.wakings.stack[wake]);
        let track = self.thread_track(hop.by)?;
        let callstack = self.callstack(stack);
        let name = format!("wakes {}", who(hop.sleeper));
        self.event(track, time, field::INSTANT, |event| {
            event.put(field::NAME, &name);
            event.put(field::CATEGORIES, "wake");
            event.fixed64(field::FLOW_IDS, flow);
            callstack.into_iter().for_each(|id| event.uint(field::CALLSTACK, id));
        })
    }

    fn callstack(&mut self, stack: StackId) -> Option<u64> {
        (!stack.is_empty()).then(|| self.interner.stack(stack))
    }
}

/// The verdict, as the arguments of a slice.
fn annotate(job: &Job<'_>, stall: &Stall, event: &mut Message) {
    let (analysis, window) = (job.analysis, stall.explanation.window);
    let who = |thread| units::thread(analysis.trace, thread, window.end);
    let finding = &stall.finding;
    let sentences: Vec<String> = finding.sentences.iter().map(ToString::to_string).collect();
    let texts = [
        ("cause", finding.cause.to_string()),
        ("pattern", finding.pattern.name().to_owned()),
        ("culprit", finding.culprit.map(who).unwrap_or_default()),
        ("function", finding.function.clone()),
        ("evidence", finding.evidence.name().to_owned()),
        ("evidence in words", finding.evidence_words.to_string()),
        ("what happened", sentences.join(" ")),
        ("kind", stall.candidate.kind.name().to_owned()),
    ];
    for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        event.nest(field::ANNOTATIONS, |argument| {
            argument.put(annotation::NAME, name);
            argument.put(annotation::TEXT, text);
        });
    }
    event.nest(field::ANNOTATIONS, |argument| {
        argument.put(annotation::NAME, "partition, ns");
        for share in partition(analysis, &stall.explanation) {
            let name = match share.who {
                Some(thread) if thread.is_idle() => share.what.words_of_idle().to_owned(),
                Some(thread) => format!("{} {}", share.what.words(), who(thread)),
                None => share.what.words().to_owned(),
            };
            argument.nest(annotation::ENTRIES, |entry| {
                entry.put(annotation::NAME, name);
                entry.uint(annotation::NUMBER, share.ns);
            });
        }
    });
}
