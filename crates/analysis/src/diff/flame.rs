//! Two flame graphs as one tree, each node with its time on both sides.
//!
//! *Why by name:* keys and ids mean something in one trace only.

use super::who::plain_function;
use crate::flame::{Flame, Node};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A function at its place in the stacks, on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlameNode {
    /// The index of its parent; none for the first, which stands for all stacks.
    pub parent: Option<usize>,
    /// The function, without what changes from build to build.
    pub name: String,
    /// True for those of either side that were too narrow to be sent one by one.
    pub others: bool,
    /// True for kernel code.
    pub kernel: bool,
    /// Its time before, nanoseconds.
    pub before_ns: u64,
    /// Its time after.
    pub after_ns: u64,
}

/// Two trees laid over each other: nodes depth first, the widest child of either side first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlameDiff {
    /// The nodes.
    pub nodes: Vec<FlameNode>,
}

/// A node while the trees are joined.
#[derive(Default)]
struct Joined {
    name: String,
    others: bool,
    kernel: bool,
    ns: [u64; 2],
    children: FxHashMap<(bool, String), usize>,
}

impl FlameDiff {
    /// Joins the trees of both sides.
    pub fn new(before: &Flame, after: &Flame) -> Self {
        let mut joined = vec![Joined::default()];
        for (side, flame) in [before, after].into_iter().enumerate() {
            join(&mut joined, side, &flame.nodes);
        }
        let mut nodes = Vec::with_capacity(joined.len());
        // What is still to be written: a node and the index of its parent.
        let mut open = vec![(0, None)];
        while let Some((at, parent)) = open.pop() {
            let node = &joined[at];
            let mut children: Vec<usize> = node.children.values().copied().collect();
            children.sort_by_cached_key(|&child| {
                let child = &joined[child];
                (child.ns.iter().max().copied(), Reverse(child.name.clone()))
            });
            open.extend(children.into_iter().map(|child| (child, Some(nodes.len()))));
            nodes.push(FlameNode {
                parent,
                name: node.name.clone(),
                others: node.others,
                kernel: node.kernel,
                before_ns: node.ns[0],
                after_ns: node.ns[1],
            });
        }
        Self { nodes }
    }
}

/// Adds the nodes of one side.
fn join(joined: &mut Vec<Joined>, side: usize, nodes: &[Node]) {
    let mut place_of: Vec<usize> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let parent = node.parent.and_then(|parent| place_of.get(parent as usize).copied());
        let (others, name) = (node.key == Node::OTHERS, plain_function(&node.name).to_owned());
        let place = match parent {
            None => 0,
            Some(parent) => {
                let next = joined.len();
                let place = *joined[parent].children.entry((others, name.clone())).or_insert(next);
                if place == next {
                    joined.push(Joined::default());
                }
                place
            }
        };
        let own = &mut joined[place];
        (own.name, own.others, own.kernel) = (name, others, node.kernel);
        own.ns[side] = own.ns[side].saturating_add(node.total_ns);
        place_of.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(nodes: &[(Option<u32>, i64, &str, u64)]) -> Flame {
        let node = |&(parent, key, name, total_ns): &(Option<u32>, i64, &str, u64)| Node {
            parent,
            key,
            name: name.to_owned(),
            module: String::new(),
            kernel: false,
            total_ns,
            self_ns: 0,
            count: 1,
        };
        let all_ns = nodes[0].3;
        let nodes = nodes.iter().map(node).collect();
        Flame { all_ns, all_count: 1, root_ns: all_ns, nodes, merged: 0 }
    }

    #[test]
    fn places_are_joined_by_the_names_on_the_way_to_them() {
        let before = flame(&[
            (None, 0, "(all)", 100),
            (Some(0), 5, "main", 90),
            (Some(1), 6, "read.cold", 30),
            (Some(1), 7, "lock", 60),
            (Some(0), Node::OTHERS, "(others)", 10),
        ]);
        let after = flame(&[
            (None, 0, "(all)", 70),
            (Some(0), 9, "main", 70),
            // Another build has another suffix, and there are two such parts of it.
            (Some(1), 3, "read.part.1", 40),
            (Some(1), 4, "read", 10),
            (Some(1), 2, "write", 20),
        ]);
        let diff = FlameDiff::new(&before, &after);
        let lines: Vec<_> = diff
            .nodes
            .iter()
            .map(|node| (node.parent, &*node.name, node.before_ns, node.after_ns))
            .collect();
        let expected = [
            (None, "(all)", 100, 70),
            (Some(0), "main", 90, 70),
            (Some(1), "lock", 60, 0),
            (Some(1), "read", 30, 50),
            (Some(1), "write", 0, 20),
            (Some(0), "(others)", 10, 0),
        ];
        assert_eq!(lines, expected);
    }
}
