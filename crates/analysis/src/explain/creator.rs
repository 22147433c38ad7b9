//! Who started a thread: until its birth, whoever waited for what it did waited for that one.

use super::explanation::{Explanation, Hop};
use crate::stacks::classes::{WakeContext, WakeSource};
use crate::timeline::State;
use crate::{Analysis, WaitClass};
use rustc_hash::FxHashSet;
use unhitch_model::{ThreadId, Window};

/// A hop, and those that started, one the other, the thread to which it leads. *Why the others need not be
/// compared with each other:* each was born before the one that it started.
pub(super) struct Line {
    hop: Option<u32>,
    /// The threads on the way to the hop, the victim included, once they are asked for.
    chain: Option<FxHashSet<ThreadId>>,
}

impl Line {
    pub(super) fn new(hop: Option<u32>) -> Self {
        Self { hop, chain: None }
    }

    fn is_in_chain(&mut self, explanation: &Explanation, thread: ThreadId) -> bool {
        let chain = self.chain.get_or_insert_with(|| {
            let hops = explanation.hops_to(self.hop).flat_map(|(_, hop)| [hop.by, hop.sleeper]);
            hops.chain([explanation.victim]).collect()
        });
        chain.contains(&thread)
    }
}

/// The hop for the part of a wait that was over when the thread that ended it was born: it leads to the
/// thread that started that one, if that is known.
pub(super) fn until_birth(
    analysis: &Analysis<'_>,
    explanation: &Explanation,
    hop: Option<u32>,
    window: Window,
    line: &mut Line,
) -> Option<Hop> {
    let led = explanation.hop(hop)?;
    // Who had the lock before is not known by that.
    if led.class == WaitClass::Lock {
        return None;
    }
    let creator = creator(analysis, led.by)?;
    (!line.is_in_chain(explanation, creator)).then_some(Hop {
        window,
        by: creator,
        started: Some(led.by),
        wake: None,
        released: None,
        meanwhile: None,
        gave_up: false,
        source: WakeSource { context: WakeContext::Task, interrupt: None },
        ..*led
    })
}

/// The only thread of the same process, or of the process that started it, that was on a CPU when
/// `thread` was born.
fn creator(analysis: &Analysis<'_>, thread: ThreadId) -> Option<ThreadId> {
    let threads = &analysis.trace.threads;
    let birth = analysis.timeline.life(thread).start;
    let own = threads.process_of(thread);
    let process = match own.leader == thread {
        true => threads.get(threads.at(own.parent_pid?, birth)?).process,
        false => threads.get(thread).process,
    };
    let just_before = Window::new(birth.minus(1), birth);
    let ran = |other: &&ThreadId| {
        let segments = analysis.segments(**other, just_before);
        **other != thread && segments.first().is_some_and(|segment| segment.state == State::Ran)
    };
    let mut running = analysis.threads_of(process).iter().filter(ran);
    let only = running.next()?;
    running.next().is_none().then_some(*only)
}
