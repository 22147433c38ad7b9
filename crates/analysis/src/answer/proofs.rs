//! Where each thread of a stall is seen to do what the answer says of it.

use crate::Analysis;
use crate::diagnose::Stall;
use crate::explain::{Hop, Piece, Share, fell_asleep, partition};
use crate::wording::{Event, Reference, Sentence, Span, Subject, units};
use unhitch_model::{ThreadId, Trace, Window};

/// The proofs of one stall.
pub(super) struct Proofs<'a> {
    pub(super) analysis: &'a Analysis<'a>,
    pub(super) stall: &'a Stall,
    pub(super) shares: Vec<Share>,
}

impl<'a> Proofs<'a> {
    pub(super) fn new(analysis: &'a Analysis<'a>, stall: &'a Stall) -> Self {
        Self { analysis, stall, shares: partition(analysis, &stall.explanation) }
    }

    /// The stall's time.
    pub(super) fn window(&self) -> Window {
        self.stall.explanation.window
    }

    /// A thread's name, not linked.
    pub(super) fn name(&self, thread: ThreadId) -> Span {
        let name = units::thread(self.analysis.trace, thread, self.window().end);
        Span::new(name, Subject::Thread(thread))
    }

    /// The victim's name, linked to the whole stall.
    pub(super) fn victim(&self) -> Span {
        self.name(self.stall.candidate.victim).seen_at(self.of_victim())
    }

    /// The whole stall as the victim's time.
    pub(super) fn of_victim(&self) -> Reference {
        let explanation = &self.stall.explanation;
        let longest = explanation.pieces.iter().max_by_key(|piece| piece.window.duration_ns());
        let own = explanation.hops.iter().filter(|hop| hop.depth == 1);
        let event = match own.max_by_key(|hop| hop.window.duration_ns()) {
            Some(hop) => hop
                .wake
                .map(Event::Waking)
                .or_else(|| fell_asleep(self.analysis, hop).map(Event::Switch)),
            None => longest.and_then(|piece| event_of(self.analysis.trace, piece)),
        };
        let thread = Some(self.stall.candidate.victim);
        Reference { thread, window: explanation.window, event }
    }

    /// The longest wait for a thread; else its own longest wait or piece.
    pub(super) fn of(&self, thread: ThreadId) -> Reference {
        let explanation = &self.stall.explanation;
        if thread == self.stall.candidate.victim {
            return self.of_victim();
        }
        let longest = |select: &dyn Fn(&&Hop) -> bool| {
            let hops = explanation.hops.iter().filter(select);
            hops.max_by_key(|hop| hop.window.duration_ns())
        };
        let hop =
            longest(&|hop| hop.by == thread).or_else(|| longest(&|hop| hop.sleeper == thread));
        if let Some(hop) = hop {
            let event = hop.wake.map(Event::Waking);
            return Reference { thread: Some(thread), window: hop.window, event };
        }
        let own = explanation.pieces.iter().filter(|piece| piece.thread == thread);
        match own.max_by_key(|piece| piece.window.duration_ns()) {
            Some(piece) => Reference {
                thread: Some(thread),
                window: piece.window,
                event: event_of(self.analysis.trace, piece),
            },
            None => Reference { thread: Some(thread), window: explanation.window, event: None },
        }
    }

    /// A sentence whose threads and groups are linked. One in which nothing is linked is linked as
    /// a whole to the victim's time, where no one event proves it.
    pub(super) fn link(&self, mut sentence: Sentence) -> Sentence {
        for span in &mut sentence.spans {
            if let Subject::Thread(thread) | Subject::ThreadGroup(thread) = span.subject
                && !thread.is_idle()
            {
                span.reference.get_or_insert_with(|| self.of(thread));
            }
        }
        if sentence.spans.iter().all(|span| span.reference.is_none()) {
            let thread = Some(self.stall.candidate.victim);
            let whole = Reference { thread, window: self.window(), event: None };
            sentence.spans.iter_mut().for_each(|span| span.reference = Some(whole));
        }
        sentence
    }
}

/// The event at which a piece is seen to begin, if its own thread takes part in it.
pub(super) fn event_of(trace: &Trace, piece: &Piece) -> Option<Event> {
    let takes_part = |switch: &usize| {
        [trace.switches.prev[*switch], trace.switches.next[*switch]].contains(&piece.thread)
    };
    let is_woken = |wake: &usize| trace.wakings.wakee[*wake] == piece.thread;
    let switch = piece.segment.back().or(piece.segment.out()).filter(takes_part);
    switch.map(Event::Switch).or(piece.segment.wake().filter(is_woken).map(Event::Waking))
}
