//! Flame graphs and icicles: where threads waited, from where they were woken, or what they
//! executed, as one tree of functions.
//!
//! *Why top down:* most of a million stacks differ only where they are narrower than a pixel. So
//! the stacks are split function by function, and only visible parts are split further. What is not
//! drawn is never built, and parts of different functions are split on different cores.

use crate::Analysis;
use crate::cancel::{Cancel, Wanted};
use crate::stacks::StackKind;
use crate::table::{Selection, Stored};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use unhitch_model::{FrameId, NameId};

/// Minimum width of a node, pixels; narrower ones are merged.
pub const CUT_PX: f64 = 0.5;
/// Maximum depth, frames.
const MAX_DEPTH: usize = 512;
/// Minimum stacks that are worth another core.
const MIN_PARALLEL: usize = 1 << 12;

/// What to draw, and how wide.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'q> {
    /// The rows of the stored table.
    pub selection: Selection<'q>,
    /// The width of the root, pixels.
    pub pixels: u32,
    /// The keys from the first level down to the node that fills the width; empty for all.
    pub root: &'q [i64],
    /// True to draw leaves first: an icicle of callers.
    pub inverted: bool,
    /// True to draw modules rather than functions.
    pub modules: bool,
}

/// A node. The first has no parent and stands for all stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The index of its parent; none for the first.
    pub parent: Option<u32>,
    /// Identifies it among its siblings; [`Node::OTHERS`] for those too narrow to draw.
    pub key: i64,
    /// The function or module.
    pub name: String,
    /// The module's file, empty where unknown.
    pub module: String,
    /// True for kernel code.
    pub kernel: bool,
    /// The time of its stacks, nanoseconds.
    pub total_ns: u64,
    /// The part of that in which it is the last of the stack.
    pub self_ns: u64,
    /// The number of stacks.
    pub count: u64,
}

impl Node {
    /// The key of merged siblings.
    pub const OTHERS: i64 = -1;
    /// The key of the first node.
    pub const ALL: i64 = 0;
}

/// A tree: its nodes depth first, the widest child first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flame {
    /// The time of all stacks.
    pub all_ns: u64,
    /// The number of all stacks.
    pub all_count: u64,
    /// The time of the node that fills the width.
    pub root_ns: u64,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The number of merged nodes.
    pub merged: u64,
}

/// A distinct stack, with its time and its number.
#[derive(Clone, Copy)]
struct Stack<'a> {
    frames: &'a [FrameId],
    ns: u64,
    count: u64,
}

/// Identifies a function or module: the id of its name, or of a frame without a name.
type Label = u32;
const UNNAMED: Label = 1 << 31;

/// A node while the tree is built.
struct Grown {
    depth: u32,
    label: Label,
    ns: u64,
    self_ns: u64,
    count: u64,
    frame: Option<FrameId>,
}

struct Grower<'a> {
    labels: &'a [Label],
    min_ns: u64,
    inverted: bool,
    cancel: &'a Cancel,
}

impl Flame {
    /// Draws the stacks of the rows of `stored`, which must be the table of `kind`.
    pub fn new(
        stored: &Stored<'_>,
        kind: StackKind,
        drawing: Drawing<'_>,
        cancel: &Cancel,
    ) -> Wanted<Self> {
        let analysis = stored.analysis();
        let labels = labels(analysis, drawing.modules);
        let mut stacks: Vec<Stack<'_>> = stored
            .weights(kind, drawing.selection, cancel)?
            .into_iter()
            .map(|(frames, count, ns)| Stack { frames, ns, count })
            .collect();
        let (all_ns, all_count) = sum(&stacks);
        let mut grower = Grower { labels: &labels, min_ns: 0, inverted: drawing.inverted, cancel };
        // The path to the node that fills the width.
        let mut path = Vec::new();
        for (depth, key) in drawing.root.iter().enumerate() {
            let Some(label) = key.checked_sub(1).and_then(|label| u32::try_from(label).ok()) else {
                break;
            };
            stacks.retain(|stack| grower.label(stack, depth) == Some(label));
            let Some(first) = stacks.first() else { break };
            let (ns, count) = sum(&stacks);
            path.push(Grown {
                depth: depth as u32 + 1,
                label,
                ns,
                self_ns: 0,
                count,
                frame: grower.frame(first, depth),
            });
        }
        let (root_ns, _) = sum(&stacks);
        grower.min_ns = (root_ns as f64 * CUT_PX / f64::from(drawing.pixels.max(1))).ceil() as u64;
        let (self_ns, below, merged) = grower.grow(&mut stacks, path.len())?;
        let mut grown = vec![Grown {
            depth: 0,
            label: 0,
            ns: all_ns,
            self_ns: 0,
            count: all_count,
            frame: None,
        }];
        grown.extend(path);
        if let Some(root) = grown.last_mut() {
            root.self_ns = self_ns;
        }
        grown.extend(below);
        Ok(Self {
            all_ns,
            all_count,
            root_ns,
            nodes: nodes(analysis, grown, drawing.modules),
            merged,
        })
    }
}

impl Grower<'_> {
    fn frame(&self, stack: &Stack<'_>, depth: usize) -> Option<FrameId> {
        let at =
            if self.inverted { Some(depth) } else { stack.frames.len().checked_sub(depth + 1) };
        stack.frames.get(at?).copied()
    }

    fn label(&self, stack: &Stack<'_>, depth: usize) -> Option<Label> {
        self.labels.get(self.frame(stack, depth)?.index()).copied()
    }

    /// Splits stacks that agree in their first `depth` functions by the next one. Returns the time
    /// of those that end here, the nodes below, and the number of merged siblings.
    fn grow(&self, stacks: &mut [Stack<'_>], depth: usize) -> Wanted<(u64, Vec<Grown>, u64)> {
        self.cancel.check()?;
        if depth >= MAX_DEPTH {
            return Ok((sum(stacks).0, Vec::new(), 0));
        }
        let parts = self.split(stacks, depth);
        let ended_ns = parts.iter().find(|part| part.label.is_none()).map_or(0, |part| part.ns);
        let mut slices = Vec::new();
        let (mut rest, mut others) = (
            stacks,
            Grown { depth: depth as u32 + 1, label: 0, ns: 0, self_ns: 0, count: 0, frame: None },
        );
        let mut merged = 0;
        for part in &parts {
            let (own, after) = rest.split_at_mut(part.len);
            rest = after;
            match part.label {
                None => {}
                Some(label) if part.ns.max(1) >= self.min_ns => slices.push((label, part, own)),
                Some(_) => {
                    (others.ns, others.count) =
                        (others.ns.saturating_add(part.ns), others.count + part.count);
                    merged += 1;
                }
            }
        }
        let grow = |(label, part, own): (Label, &Part, &mut [Stack<'_>])| {
            let frame = own.first().and_then(|stack| self.frame(stack, depth));
            let (self_ns, below, merged) = self.grow(own, depth + 1)?;
            let mut nodes = vec![Grown {
                depth: depth as u32 + 1,
                label,
                ns: part.ns,
                self_ns,
                count: part.count,
                frame,
            }];
            nodes.extend(below);
            Ok((nodes, merged))
        };
        let many = slices.len() > 1
            && slices.iter().map(|(_, part, _)| part.len).sum::<usize>() >= MIN_PARALLEL;
        let grown: Vec<(Vec<Grown>, u64)> = match many {
            true => slices.into_par_iter().with_max_len(1).map(grow).collect::<Wanted<_>>()?,
            false => slices.into_iter().map(grow).collect::<Wanted<_>>()?,
        };
        merged += grown.iter().map(|(_, merged)| merged).sum::<u64>();
        let mut nodes: Vec<Grown> = grown.into_iter().flat_map(|(nodes, _)| nodes).collect();
        if others.count > 0 {
            others.self_ns = others.ns;
            nodes.push(others);
        }
        Ok((ended_ns, nodes, merged))
    }

    /// Sorts stacks by their next function, the one with the most time first.
    fn split(&self, stacks: &mut [Stack<'_>], depth: usize) -> Vec<Part> {
        let mut numbers: FxHashMap<Option<Label>, u32> = FxHashMap::default();
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of: Vec<u32> = Vec::with_capacity(stacks.len());
        let mut last = (None, u32::MAX);
        for stack in stacks.iter() {
            let label = self.label(stack, depth);
            let number = if last.1 != u32::MAX && last.0 == label {
                last.1
            } else {
                *numbers.entry(label).or_insert_with(|| {
                    parts.push(Part { label, len: 0, ns: 0, count: 0 });
                    parts.len() as u32 - 1
                })
            };
            last = (label, number);
            let part = &mut parts[number as usize];
            (part.len, part.ns, part.count) =
                (part.len + 1, part.ns.saturating_add(stack.ns), part.count + stack.count);
            part_of.push(number);
        }
        if parts.len() > 1 {
            let mut order: Vec<u32> = (0..parts.len() as u32).collect();
            order.sort_by_key(|&at| {
                (
                    Reverse((parts[at as usize].ns, parts[at as usize].count)),
                    parts[at as usize].label,
                )
            });
            let mut next = vec![0; parts.len()];
            let mut from = 0;
            for &at in &order {
                next[at as usize] = from;
                from += parts[at as usize].len;
            }
            let old = stacks.to_vec();
            for (stack, part) in old.into_iter().zip(&part_of) {
                let slot = &mut next[*part as usize];
                stacks[*slot] = stack;
                *slot += 1;
            }
            parts = order.into_iter().map(|at| parts[at as usize]).collect();
        }
        parts
    }
}

/// Stacks that continue with the same function; without a label, those that end.
#[derive(Clone, Copy)]
struct Part {
    label: Option<Label>,
    len: usize,
    ns: u64,
    count: u64,
}

fn sum(stacks: &[Stack<'_>]) -> (u64, u64) {
    stacks
        .iter()
        .fold((0, 0), |(ns, count), stack| (stack.ns.saturating_add(ns), stack.count + count))
}

/// The label of every frame of the trace: the function that holds the code, not those inlined into
/// it.
fn labels(analysis: &Analysis<'_>, modules: bool) -> Vec<Label> {
    let trace = analysis.trace;
    let module = |frame: FrameId| {
        trace
            .stacks
            .frame(frame)
            .and_then(|frame| trace.modules.get(frame.module))
            .map(|module| module.path)
    };
    let function = |frame: FrameId| trace.symbols.get(frame).last().map(|symbol| symbol.function);
    let frames = (0..trace.stacks.frames().len() as u32).into_par_iter().map(FrameId);
    frames
        .map(|frame| {
            if modules { module(frame) } else { function(frame) }
                .map_or(UNNAMED | frame.0, |name: NameId| name.0)
        })
        .collect()
}

fn nodes(analysis: &Analysis<'_>, grown: Vec<Grown>, modules: bool) -> Vec<Node> {
    let trace = analysis.trace;
    let mut nodes: Vec<Node> = Vec::with_capacity(grown.len());
    // The last node of each depth is the parent of the next nodes one level deeper.
    let mut parents: Vec<u32> = Vec::new();
    for one in grown {
        let depth = one.depth as usize;
        let (key, name) = match (one.frame, depth) {
            (_, 0) => (Node::ALL, "(all)".to_owned()),
            (None, _) => (Node::OTHERS, "(others)".to_owned()),
            (Some(_), _) if one.label < UNNAMED => {
                (i64::from(one.label) + 1, trace.name(NameId(one.label)).to_owned())
            }
            (Some(frame), _) => {
                (i64::from(one.label) + 1, trace.frame_names(frame).pop().unwrap_or_default())
            }
        };
        let module = one
            .frame
            .and_then(|frame| trace.stacks.frame(frame))
            .and_then(|frame| trace.modules.get(frame.module));
        nodes.push(Node {
            parent: depth.checked_sub(1).and_then(|above| parents.get(above)).copied(),
            key,
            module: module
                .filter(|_| !modules)
                .map_or(String::new(), |module| trace.name(module.path).to_owned()),
            kernel: module.is_some_and(|module| module.kind.is_kernel()),
            name,
            total_ns: one.ns,
            self_ns: one.self_ns,
            count: one.count,
        });
        parents.truncate(depth);
        parents.push(nodes.len() as u32 - 1);
    }
    nodes
}
