//! A stall's waits as a tree of edges: where somebody waited, and where whoever ended that wait was.
//!
//! *Total blame* of an edge is the stall's time that hangs on it: what its own waker did, and what
//! hangs on the waits of that waker in turn. The own times of all edges sum to the stall exactly.

use crate::content_id::ContentId;
use crate::fleet::normal::{folded, function};
use crate::opened::Opened;
use rustc_hash::FxHashMap;
use unhitch_analysis::{Explanation, Hop, StackKind, Stall, text};
use unhitch_model::{StackId, ThreadId};

/// An edge of a stall's tree; the first is the victim itself, which waited for nobody.
pub struct Edge {
    /// The edge that led here.
    pub parent: Option<usize>,
    /// 0 for the victim itself, 1 for its own waits.
    pub depth: u32,
    /// The wait's class; empty for the victim itself.
    pub class: &'static str,
    /// Who waited, and who ended the wait: process and thread, digits folded.
    pub sleeper: String,
    pub waker: String,
    /// Where they were.
    pub wait_stack: Option<ContentId>,
    pub wake_stack: Option<ContentId>,
    /// The responsible functions there, normalised.
    pub wait_function: String,
    pub wake_function: String,
    /// Nanoseconds that its waker accounts for, and those that hang on it.
    pub own_ns: i64,
    pub total_ns: i64,
    /// How many waits it stands for.
    pub waits: i64,
}

/// What an edge is known by among those of its parent.
type Key = (usize, &'static str, String, String, Option<ContentId>, Option<ContentId>);

/// The tree of a stall, parents first.
pub fn edges(opened: &Opened, stall: &Stall) -> Vec<Edge> {
    let explanation = &stall.explanation;
    let victim = role(opened, explanation, explanation.victim);
    let mut tree = Tree {
        opened,
        explanation,
        edges: vec![Edge {
            parent: None,
            depth: 0,
            class: "",
            sleeper: String::new(),
            waker: victim,
            wait_stack: None,
            wake_stack: None,
            wait_function: String::new(),
            wake_function: String::new(),
            own_ns: 0,
            total_ns: 0,
            waits: 0,
        }],
        of_hop: vec![None; explanation.hops.len()],
        by_key: FxHashMap::default(),
    };
    for hop in 0..explanation.hops.len() {
        let edge = tree.edge_of(hop);
        tree.edges[edge].waits += i64::from(explanation.hops[hop].waits);
    }
    for piece in &explanation.pieces {
        let edge = piece.hop.map_or(0, |hop| tree.edge_of(hop as usize));
        let ns = i64::try_from(piece.window.duration_ns()).unwrap_or(i64::MAX);
        tree.edges[edge].own_ns = tree.edges[edge].own_ns.saturating_add(ns);
    }
    let mut edges = tree.edges;
    for at in (0..edges.len()).rev() {
        edges[at].total_ns = edges[at].total_ns.saturating_add(edges[at].own_ns);
        if let Some(parent) = edges[at].parent {
            edges[parent].total_ns = edges[parent].total_ns.saturating_add(edges[at].total_ns);
        }
    }
    edges
}

struct Tree<'o> {
    opened: &'o Opened,
    explanation: &'o Explanation,
    edges: Vec<Edge>,
    of_hop: Vec<Option<usize>>,
    by_key: FxHashMap<Key, usize>,
}

impl Tree<'_> {
    /// The edge that a hop belongs to, made if new, after those that led to it.
    fn edge_of(&mut self, hop: usize) -> usize {
        let mut path = Vec::new();
        let mut at = Some(hop);
        // A hop's parent comes before it, so this ends.
        while let Some(index) = at.filter(|&index| self.of_hop.get(index) == Some(&None)) {
            path.push(index);
            let parent = self.explanation.hops[index].parent.map(|parent| parent as usize);
            at = parent.filter(|&parent| parent < index);
        }
        let mut edge = at.and_then(|index| self.of_hop.get(index).copied().flatten()).unwrap_or(0);
        for index in path.into_iter().rev() {
            edge = self.child(edge, self.explanation.hops[index]);
            self.of_hop[index] = Some(edge);
        }
        edge
    }

    fn child(&mut self, parent: usize, hop: Hop) -> usize {
        let (opened, trace) = (self.opened, self.opened.trace());
        let wake = hop.wake.map_or(StackId::EMPTY, |wake| trace.wakings.stack[wake]);
        let id = |kind, stack| opened.ids().of_stack(opened.analysis(), kind, stack);
        let sleeper = role(opened, self.explanation, hop.sleeper);
        let waker = role(opened, self.explanation, hop.by);
        let stacks = (id(StackKind::Wait, hop.wait_stack), id(StackKind::Wake, wake));
        let key = (parent, hop.class.name(), sleeper, waker, stacks.0, stacks.1);
        if let Some(&known) = self.by_key.get(&key) {
            return known;
        }
        let edge = Edge {
            parent: Some(parent),
            depth: self.edges[parent].depth + 1,
            class: key.1,
            sleeper: key.2.clone(),
            waker: key.3.clone(),
            wait_stack: key.4,
            wake_stack: key.5,
            wait_function: function(&text::own_function(opened.analysis(), hop.wait_stack)),
            wake_function: function(&text::own_function(opened.analysis(), wake)),
            own_ns: 0,
            total_ns: 0,
            waits: 0,
        };
        self.edges.push(edge);
        self.by_key.insert(key, self.edges.len() - 1);
        self.edges.len() - 1
    }
}

/// Who a thread is in every recording: process and thread, digits folded.
pub fn role(opened: &Opened, explanation: &Explanation, thread: ThreadId) -> String {
    let (trace, at) = (opened.trace(), explanation.window.end);
    let process = folded(trace.process_name(thread, at));
    let name = folded(trace.thread_name(thread, at));
    if process == name || name.is_empty() { process } else { format!("{process}/{name}") }
}

/// The path of functions from the victim to an edge, as it is in every build.
pub fn path(edges: &[Edge], edge: usize) -> String {
    let mut steps = Vec::new();
    let mut at = edge;
    while let Some(parent) = edges[at].parent {
        let Edge { class, wait_function, wake_function, .. } = &edges[at];
        steps.push(format!("{class} in {wait_function} <- {wake_function}"));
        at = parent;
    }
    steps.reverse();
    steps.join(" | ")
}
