//! What a link of the chain shows besides its thread and its wake-up: the same in JSON and on the
//! page.

use crate::Analysis;
use crate::explain::{ChainLink, LinkState, class_of};
use crate::samples::hot_spot;
use crate::stacks::StackKind;
use unhitch_model::StackId;

/// The wait that a link is a part of; of a thread that ran, only where it did so most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkWait {
    /// The name of its class; empty for what is no wait.
    pub class: &'static str,
    /// What its stack was recorded for.
    pub kind: StackKind,
    /// Where; empty if that is not known.
    pub stack: StackId,
    /// How long the whole wait was, nanoseconds.
    pub waited_ns: u64,
}

impl ChainLink {
    /// Maximum links of a chain for programs; neighbours absorb the short ones.
    pub const MAX: usize = 32;

    /// The wait that it is a part of.
    pub fn wait(&self, analysis: &Analysis<'_>) -> LinkWait {
        let segment = &self.piece.segment;
        let own_stack = segment.wait_stack(analysis.trace);
        let of =
            |class, stack, waited_ns| LinkWait { class, kind: StackKind::Wait, stack, waited_ns };
        match (&self.hop, self.state) {
            (Some(hop), _) => of(hop.class.name(), hop.wait_stack, hop.slept.duration_ns()),
            (None, LinkState::Sleeping) => {
                let class = class_of(analysis, segment);
                of(class.name(), own_stack, segment.window.duration_ns())
            }
            (None, LinkState::Running) => {
                let hot = hot_spot(analysis, &[(self.thread, self.window)]);
                let stack = hot.map_or(StackId::EMPTY, |spot| spot.stack);
                LinkWait { kind: StackKind::Sample, ..of("", stack, 0) }
            }
            (None, LinkState::Runnable | LinkState::Unknown) => of("", own_stack, 0),
        }
    }
}
