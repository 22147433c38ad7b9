//! The main path of an explanation: from the victim to the end, each step to the wait that most of
//! the time leads through.

use super::who::{Who, plain_function};
use crate::explain::{Cause, Explanation, Hop, Piece};
use crate::samples::hot_spot;
use crate::stacks::text::{own_function, stack_functions};
use crate::{Analysis, WakeContext};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::cmp::Reverse;
use unhitch_model::{StackId, ThreadId, Window};

/// Maximum edges of a path.
const MAX_EDGES: usize = 32;

/// A step: who waited where, for whom, and where that one ended the wait.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Edge {
    /// Who waited.
    pub waiter: Who,
    /// What for.
    pub class: &'static str,
    /// Where: functions, outermost first.
    pub wait: Vec<String>,
    /// The one of them that is responsible.
    pub wait_in: String,
    /// Who ended the wait.
    pub waker: Who,
    /// Where it did.
    pub wake: Vec<String>,
    /// The one of them that is responsible.
    pub wake_in: String,
    /// How much of the stall leads through it, nanoseconds.
    pub ns: u64,
}

/// What the last thread of a path did.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct End {
    /// Who it is.
    pub who: Who,
    /// What most of its time went to.
    pub cause: &'static str,
    /// The function in which it ran or waited; empty if that is not known.
    pub function: String,
    /// How much of the stall that is, nanoseconds.
    pub ns: u64,
}

/// The main path of a stall.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Path {
    /// From the victim on.
    pub edges: Vec<Edge>,
    /// What it leads to.
    pub end: Option<End>,
}

/// What is alike about hops that are one edge.
type Key = (Who, Vec<String>, Who, Vec<String>);

/// When which threads did it.
type Runs = Vec<(ThreadId, Window)>;

impl Path {
    /// The main path of an explanation.
    pub fn of(analysis: &Analysis<'_>, explanation: &Explanation) -> Self {
        let under = time_under(explanation);
        let mut functions = Functions { analysis, known: FxHashMap::default() };
        let mut path = Self { edges: Vec::new(), end: None };
        // The hops that make up the last edge; none for the victim itself.
        let mut at: Option<FxHashSet<u32>> = None;
        loop {
            let is_here = |hop: Option<u32>| match (&at, hop) {
                (None, None) => true,
                (Some(at), Some(hop)) => at.contains(&hop),
                _ => false,
            };
            let own: Vec<&Piece> =
                explanation.pieces.iter().filter(|piece| is_here(piece.hop)).collect();
            let mut groups: FxHashMap<Key, (u64, FxHashSet<u32>, u32)> = FxHashMap::default();
            for (index, hop) in (0..).zip(&explanation.hops) {
                if is_here(hop.parent) {
                    let group = groups.entry(functions.key(hop)).or_default();
                    group.0 += under[index as usize];
                    group.1.insert(index);
                    group.2 = index;
                }
            }
            let own_ns: u64 = own.iter().map(|piece| piece.window.duration_ns()).sum();
            let largest = groups
                .into_iter()
                .max_by(|one, other| (one.1.0, &other.0).cmp(&(other.1.0, &one.0)));
            match largest {
                Some((key, (ns, hops, last))) if ns > own_ns && path.edges.len() < MAX_EDGES => {
                    let (waiter, wait, waker, wake) = key;
                    let hop = &explanation.hops[last as usize];
                    let class = hop.class.name();
                    let wait_in = functions.own(hop.wait_stack);
                    let wake_in = functions.own(wake_stack(analysis, hop));
                    path.edges.push(Edge {
                        waiter,
                        class,
                        wait,
                        wait_in,
                        waker,
                        wake,
                        wake_in,
                        ns,
                    });
                    at = Some(hops);
                }
                _ => {
                    path.end = functions.end(&own);
                    return path;
                }
            }
        }
    }
}

/// By hop: the time that leads through it.
fn time_under(explanation: &Explanation) -> Vec<u64> {
    let mut under = vec![0; explanation.hops.len()];
    for piece in &explanation.pieces {
        if let Some(slot) = piece.hop.and_then(|hop| under.get_mut(hop as usize)) {
            *slot += piece.window.duration_ns();
        }
    }
    // A hop comes after the one that led to it.
    for (index, hop) in explanation.hops.iter().enumerate().rev() {
        if let Some(parent) = hop.parent {
            under[parent as usize] += under[index];
        }
    }
    under
}

/// The functions of stacks, each looked up once.
pub(super) struct Functions<'a, 't> {
    pub(super) analysis: &'a Analysis<'t>,
    pub(super) known: FxHashMap<StackId, Vec<String>>,
}

impl Functions<'_, '_> {
    /// The functions of a stack that mean something, outermost first.
    pub(super) fn of(&mut self, stack: StackId) -> &[String] {
        self.known.entry(stack).or_insert_with(|| {
            let names = stack_functions(self.analysis, stack);
            names.iter().map(|name| plain_function(name).to_owned()).collect()
        })
    }

    /// The function of a stack that is responsible.
    pub(super) fn own(&self, stack: StackId) -> String {
        plain_function(&own_function(self.analysis, stack)).to_owned()
    }

    fn key(&mut self, hop: &Hop) -> Key {
        let at = hop.window.end;
        let who = |thread: ThreadId| Who::of(self.analysis, thread, at);
        let (waiter, waker) = (who(hop.sleeper), who(hop.by));
        let wake = wake_stack(self.analysis, hop);
        (waiter, self.of(hop.wait_stack).to_vec(), waker, self.of(wake).to_vec())
    }

    /// What most of these pieces were.
    fn end(&mut self, pieces: &[&Piece]) -> Option<End> {
        let mut sums = FxHashMap::<(Cause, Who), (u64, Runs)>::default();
        for piece in pieces {
            let who = Who::of(self.analysis, piece.thread, piece.window.start);
            let sum = sums.entry((piece.cause, who)).or_default();
            sum.0 += piece.window.duration_ns();
            sum.1.push((piece.thread, piece.span()));
        }
        let ((cause, who), (ns, mut runs)) = sums
            .into_iter()
            .max_by_key(|((cause, who), (ns, _))| (*ns, Reverse(*cause), Reverse(who.clone())))?;
        // Several pieces of one burst share its window.
        runs.dedup();
        let function = match cause {
            Cause::Ran => hot_spot(self.analysis, &runs)
                .map(|spot| self.analysis.trace.name(spot.function).to_owned()),
            _ => {
                let longest = pieces
                    .iter()
                    .filter(|piece| piece.cause == cause)
                    .max_by_key(|piece| piece.window.duration_ns())?;
                let stack = longest.segment.wait_stack(self.analysis.trace);
                Some(own_function(self.analysis, stack))
            }
        };
        let function = plain_function(&function.unwrap_or_default()).to_owned();
        Some(End { who, cause: words(cause), function, ns })
    }
}

/// Where the waker ended a wait; no stack for an interrupt, whose stack is somebody else's.
fn wake_stack(analysis: &Analysis<'_>, hop: &Hop) -> StackId {
    let by_task = hop.source.context == WakeContext::Task;
    let wake = hop.wake.filter(|_| by_task);
    wake.map_or(StackId::EMPTY, |wake| analysis.trace.wakings.stack[wake])
}

/// What a cause is called.
const fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Ran => "ran",
        Cause::WaitedForCpu => "waited for a CPU",
        Cause::Timer => "slept until a time it had set",
        Cause::Timeout => "waited until its own timeout",
        Cause::Io => "waited for a disk",
        Cause::Device => "waited for a device",
        Cause::Memory => "waited for memory",
        Cause::Message => "waited for a message from outside",
        Cause::Stopped => "was stopped",
        Cause::UnknownWaker => "waited, and who ended that is not known",
        Cause::Lost => "did something that is not known",
    }
}
