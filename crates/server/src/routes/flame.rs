//! Stacks: the flame graph and the butterfly.

use crate::Error;
use crate::loaded::Loaded;
use crate::params::{Params, wrong};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use unhitch_analysis::Cancel;
use unhitch_analysis::flame::{CUT_PX, Drawing, Flame};
use unhitch_analysis::table::{Butterfly, Direction, Level, Node, Of, Ranking};

/// Of a butterfly's wing, children with less than this part of the function's time are cut.
const SMALLEST_PART: u64 = 1000;
/// And beyond so many levels.
const DEEPEST_WING: usize = 64;

fn of(params: &Params) -> Result<Of, Error> {
    params.choice("of", &[("wait", Of::Wait), ("wake", Of::Wake), ("sample", Of::Sample)])
}

fn level(params: &Params) -> Result<Level, Error> {
    params.choice(
        "by",
        &[("function", Level::Function), ("module", Level::Module), ("file", Level::File)],
    )
}

/// `GET flame`
pub(super) fn flame(loaded: &Loaded<'_>, params: &Params, cancel: &Cancel) -> Result<Value, Error> {
    let (of, selection) = (of(params)?, params.selection(loaded)?);
    let filter = selection.filter(of.table())?;
    let root = params.get("root").map_or(Ok(Vec::new()), |text| {
        let key = |key: &str| {
            key.parse().map_err(|_| wrong("root", key, "keys of nodes, joined by dots"))
        };
        text.split('.').map(key).collect::<Result<Vec<i64>, _>>()
    })?;
    let drawing = Drawing {
        selection: selection.of_rows(filter.as_ref()),
        pixels: params.number("px", 1000, 1..=super::view::MOST_PIXELS)? as u32,
        root: &root,
        inverted: params.flag("inverted")?,
        modules: params.choice("by", &[("function", false), ("module", true)])?,
    };
    let stored = loaded.table(of.table(), selection.window, cancel)?;
    let flame = Flame::new(&stored, of, drawing, cancel)?;
    // As far down as the selection has such nodes.
    let reached = root
        .iter()
        .zip(flame.nodes.iter().skip(1))
        .take_while(|(key, node)| **key == node.key)
        .count();
    let mut strings: Vec<&str> = Vec::new();
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    let mut place = |text| {
        *places.entry(text).or_insert_with(|| {
            strings.push(text);
            strings.len() - 1
        })
    };
    let name: Vec<usize> = flame.nodes.iter().map(|node| place(&node.name)).collect();
    let module: Vec<i64> = flame
        .nodes
        .iter()
        .map(|node| if node.module.is_empty() { -1 } else { place(&node.module) as i64 })
        .collect();
    Ok(json!({
        "of": of.word(), "unit": "ns", "total": flame.all_ns, "count": flame.all_count,
        "root": root[..reached], "root_value": flame.root_ns, "others": flame.merged, "cut_px": CUT_PX,
        "nodes": {
            "parent": flame.nodes.iter().map(|node| node.parent.map_or(-1, i64::from)).collect::<Vec<_>>(),
            "name": name, "module": module,
            "key": flame.nodes.iter().map(|node| node.key).collect::<Vec<_>>(),
            "value": flame.nodes.iter().map(|node| node.total_ns).collect::<Vec<_>>(),
            "self": flame.nodes.iter().map(|node| node.self_ns).collect::<Vec<_>>(),
            "count": flame.nodes.iter().map(|node| node.count).collect::<Vec<_>>(),
            "kernel": flame.nodes.iter().map(|node| u8::from(node.kernel)).collect::<Vec<_>>(),
        },
        "strings": strings,
    }))
}

/// `GET butterfly`
pub(super) fn butterfly(
    loaded: &Loaded<'_>,
    params: &Params,
    cancel: &Cancel,
) -> Result<Value, Error> {
    let (of, level, selection) = (of(params)?, level(params)?, params.selection(loaded)?);
    let filter = selection.filter(of.table())?;
    let rows = selection.of_rows(filter.as_ref());
    let stored = loaded.table(of.table(), selection.window, cancel)?;
    let Some(function) = params.get("function") else {
        let ranking = Ranking::of(&stored, of, level, rows, cancel)?;
        let limit = params.number("limit", 200, 1..=10_000)?;
        return Ok(json!({
            "of": of.word(), "by": level.word(), "all_count": ranking.all_count, "all_total_ns": ranking.all_total_ns,
            "total": ranking.ranking.len(), "ranking": ranking.ranking.iter().take(limit).collect::<Vec<_>>(),
        }));
    };
    let wing = |direction| {
        let tree = Butterfly::of(&stored, (of, level, direction), function, rows, cancel)?;
        tree.ok_or(Error::NotFound("function on these stacks"))
    };
    let (callers, callees) = (wing(Direction::Callers)?, wing(Direction::Callees)?);
    let told = |tree: &Node| node(tree, tree.total_ns / SMALLEST_PART, DEEPEST_WING);
    Ok(json!({
        "of": of.word(), "by": level.word(), "matched": callers.matched,
        "all_count": callers.all_count, "all_total_ns": callers.all_total_ns,
        "callers": told(&callers.tree), "callees": told(&callees.tree),
    }))
}

/// A wing without its smallest feathers.
fn node(tree: &Node, least_ns: u64, deepest: usize) -> Value {
    let shown = tree.children.iter().filter(|child| deepest > 0 && child.total_ns >= least_ns);
    let children: Vec<Value> = shown.map(|child| node(child, least_ns, deepest - 1)).collect();
    let cut = tree.children.len() - children.len();
    json!({ "name": tree.name, "count": tree.count, "total_ns": tree.total_ns, "children": children, "cut": cut })
}
