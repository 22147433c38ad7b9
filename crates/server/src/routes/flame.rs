//! Stacks: the flame graph and the butterfly.

use crate::Error;
use crate::loaded::Loaded;
use crate::params::{Params, wrong};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use unhitch_analysis::Cancel;
use unhitch_analysis::StackKind;
use unhitch_analysis::flame::{CUT_PX, Drawing, Flame};
use unhitch_analysis::table::{Butterfly, Direction, GroupBy, Name, Node, Ranking, Selection};

/// Minimum share of the function's time for a node of a wing: a thousandth.
const MIN_SHARE: u64 = 1000;
/// Maximum depth of a wing, levels.
const MAX_WING_DEPTH: usize = 64;

pub(super) fn kind(params: &Params) -> Result<StackKind, Error> {
    params.choice("of", &StackKind::ALL.map(|kind| (kind.word(), kind)))
}

fn group_by(params: &Params) -> Result<GroupBy, Error> {
    params.choice(
        "by",
        &[("function", GroupBy::Function), ("module", GroupBy::Module), ("file", GroupBy::File)],
    )
}

/// `GET flame`
pub(super) fn flame(loaded: &Loaded<'_>, params: &Params, cancel: &Cancel) -> Result<Value, Error> {
    let (kind, selection) = (kind(params)?, params.selection(loaded)?);
    let filter = selection.filter(Name::of_stacks(kind))?;
    let root = params.get("root").map_or(Ok(Vec::new()), |text| {
        let key = |key: &str| {
            key.parse().map_err(|_| wrong("root", key, "keys of nodes, joined by dots"))
        };
        text.split('.').map(key).collect::<Result<Vec<i64>, _>>()
    })?;
    let drawing = Drawing {
        selection: selection.of_rows(filter.as_ref()),
        pixels: params.number("px", 1000, 1..=super::view::MAX_PIXELS)? as u32,
        root: &root,
        inverted: params.flag("inverted")?,
        modules: params.choice("by", &[("function", false), ("module", true)])?,
    };
    let stored = loaded.table(Name::of_stacks(kind), selection.window, cancel)?;
    let flame = Flame::new(&stored, kind, drawing, cancel)?;
    // The selection may not have all of these nodes.
    let reached = root
        .iter()
        .zip(flame.nodes.iter().skip(1))
        .take_while(|(key, node)| **key == node.key)
        .count();
    let mut strings: Vec<&str> = Vec::new();
    let mut indices: FxHashMap<&str, usize> = FxHashMap::default();
    let mut index_of = |text| {
        *indices.entry(text).or_insert_with(|| {
            strings.push(text);
            strings.len() - 1
        })
    };
    let name: Vec<usize> = flame.nodes.iter().map(|node| index_of(&node.name)).collect();
    let module: Vec<i64> = flame
        .nodes
        .iter()
        .map(|node| if node.module.is_empty() { -1 } else { index_of(&node.module) as i64 })
        .collect();
    Ok(json!({
        "of": kind.word(), "unit": "ns", "total": flame.all_ns, "count": flame.all_count,
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
    let (kind, by, selection) = (kind(params)?, group_by(params)?, params.selection(loaded)?);
    let filter = selection.filter(Name::of_stacks(kind))?;
    let rows = selection.of_rows(filter.as_ref());
    let stored = loaded.table(Name::of_stacks(kind), selection.window, cancel)?;
    let Some(function) = params.get("function") else {
        let ranking = Ranking::of(&stored, kind, by, rows, cancel)?;
        let limit = params.number("limit", 200, 1..=10_000)?;
        return Ok(json!({
            "of": kind.word(), "by": by.word(), "all_count": ranking.all_count, "all_total_ns": ranking.all_total_ns,
            "total": ranking.ranking.len(), "ranking": ranking.ranking.iter().take(limit).collect::<Vec<_>>(),
        }));
    };
    let wing = |direction| Butterfly::of(&stored, (kind, by, direction), function, rows, cancel);
    let (Some(callers), Some(callees)) = (wing(Direction::Callers)?, wing(Direction::Callees)?)
    else {
        if !is_on_any_stack(loaded, by, function, cancel)? {
            return Err(Error::NotFound("function on these stacks"));
        }
        return Ok(json!({
            "of": kind.word(), "by": by.word(), "matched": [], "all_count": 0, "all_total_ns": 0,
            "callers": null, "callees": null,
        }));
    };
    let wing_json = |tree: &Node| wing_json(tree, tree.total_ns / MIN_SHARE, MAX_WING_DEPTH);
    Ok(json!({
        "of": kind.word(), "by": by.word(), "matched": callers.matched,
        "all_count": callers.all_count, "all_total_ns": callers.all_total_ns,
        "callers": wing_json(&callers.tree), "callees": wing_json(&callees.tree),
    }))
}

/// Whether a function is on any stack of the trace, of any kind.
fn is_on_any_stack(
    loaded: &Loaded<'_>,
    by: GroupBy,
    function: &str,
    cancel: &Cancel,
) -> Result<bool, Error> {
    for kind in StackKind::ALL {
        let stored = loaded.table(Name::of_stacks(kind), loaded.window(), cancel)?;
        let question = (kind, by, Direction::Callers);
        if Butterfly::of(&stored, question, function, Selection::default(), cancel)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A wing, without nodes of less than `min_ns` or deeper than `max_depth`.
fn wing_json(tree: &Node, min_ns: u64, max_depth: usize) -> Value {
    let shown = tree.children.iter().filter(|child| max_depth > 0 && child.total_ns >= min_ns);
    let children: Vec<Value> = shown.map(|child| wing_json(child, min_ns, max_depth - 1)).collect();
    let cut = tree.children.len() - children.len();
    json!({ "name": tree.name, "count": tree.count, "total_ns": tree.total_ns, "children": children, "cut": cut })
}
