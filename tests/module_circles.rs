//! No module of a crate may import, directly or through others, a module that imports it.
//!
//! *Why*: in a circle no file can be read on its own, and none can be moved without the others.
//! Cargo forbids circles between crates; inside a crate nothing does.
//!
//! The rules:
//!
//! * A node is a source file below `crates/*/src`, without binaries in `src/bin`. A module written
//!   inline belongs to its file. Code under `#[cfg(test)]` does not count.
//! * An arrow leads from a file to the file that *defines* an item it names, by a `use` or by a
//!   path. Reaching an item through a module that only re-exports it does not count as using that
//!   module.
//! * Declaring a child (`mod child;`) or re-exporting its items (`pub use child::Item;`) is no
//!   arrow. Using them is. So a child may use what its parent defines as long as the parent only
//!   declares and re-exports the child.
//!
//! The reader works on tokens and resolves paths by name. It knows no types and expands no macros, so
//! it does not see what a file uses by method calls alone, or inside a macro's expansion.

#[path = "module_circles/source.rs"]
mod source;

use source::{Crate, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that still have circles, with the number of files in them. The numbers may only fall, and
/// a crate without circles leaves the list. No crate may be added.
const STILL_CIRCULAR: &[(&str, usize)] = &[];

/// For each file, the files it uses, each with the path by which it does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

fn graph(source: &Crate) -> Graph {
    let mut graph = Graph::new();
    for file in source.files() {
        let arrows = graph.entry(file.to_owned()).or_default();
        for (path, target) in source.used(file) {
            if let Target::Item(other) | Target::Unknown(other) = target
                && other != file
            {
                arrows.entry(other).or_insert(path);
            }
        }
    }
    graph
}

/// All files that `start` uses, directly or through others, each with the file before it on a
/// shortest way.
fn reached<'a>(graph: &'a Graph, start: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut before = BTreeMap::new();
    let mut next = vec![start];
    while !next.is_empty() {
        let mut later = Vec::new();
        for file in next {
            for other in graph.get(file).into_iter().flat_map(BTreeMap::keys) {
                if !before.contains_key(other.as_str()) {
                    before.insert(other.as_str(), file);
                    later.push(other.as_str());
                }
            }
        }
        next = later;
    }
    before
}

/// A shortest circle through `start`, one arrow on each line; its first file is the first by name.
fn circle(graph: &Graph, start: &str) -> Option<String> {
    let before = reached(graph, start);
    let mut files = Vec::new();
    let mut file = start;
    loop {
        file = before.get(file)?;
        files.push(file);
        if file == start {
            break;
        }
    }
    files.reverse();
    let first = files.iter().enumerate().min_by_key(|(_, file)| **file)?.0;
    files.rotate_left(first);
    let arrows = files.iter().zip(files.iter().cycle().skip(1));
    let lines: Vec<String> =
        arrows.map(|(from, to)| format!("    {from} uses {to} ({})", graph[*from][*to])).collect();
    Some(lines.join("\n"))
}

/// The shortest circle through each file that is in one.
fn circles(graph: &Graph) -> Vec<String> {
    graph.keys().filter_map(|file| circle(graph, file)).collect()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let mut complaints = Vec::new();
    let mut names: Vec<String> = fs::read_dir(crates())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| crates().join(name).join("src").is_dir())
        .collect();
    names.sort();
    for name in &names {
        let circles = circles(&graph(&Crate::read(&crates().join(name).join("src"))));
        let allowed = STILL_CIRCULAR.iter().find(|(known, _)| known == name);
        match allowed {
            Some(_) if circles.is_empty() => {
                complaints.push(format!("{name} has no circles left: take it off STILL_CIRCULAR"));
            }
            _ if circles.len() > allowed.map_or(0, |(_, files)| *files) => {
                let files = circles.len();
                let distinct: BTreeSet<&String> = circles.iter().collect();
                let text: Vec<&str> = distinct.iter().map(|circle| circle.as_str()).collect();
                complaints.push(format!("{name}: {files} files in circles\n{}", text.join("\n\n")));
            }
            _ => {}
        }
    }
    for (name, _) in STILL_CIRCULAR {
        if !names.iter().any(|known| known == name) {
            complaints.push(format!("STILL_CIRCULAR names {name}, which is no crate"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

/// The circles of a crate with these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    circles(&graph(&Crate::of(files.iter().map(|(path, text)| ((*path).into(), (*text).into())))))
}

#[test]
fn a_circle_is_found_and_shown() {
    let found = circles_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B; fn f() { super::c::g(\"crate::a::X\") } // crate::a::X"),
        ("c.rs", "use crate::{a::{self as x, A}, b}; pub fn g(_: &str) { x::h(b::B) }"),
    ]);
    let expected = "    a.rs uses b.rs (crate::b::B)\n    b.rs uses c.rs (super::c::g)\n    \
                    c.rs uses a.rs (crate::a::A)";
    assert_eq!((found.len(), found[0].as_str()), (3, expected));
}

#[test]
fn a_parent_that_only_re_exports_is_not_used() {
    // The children use each other through the parent, in one direction only.
    let children = [
        ("lib.rs", "mod p;"),
        ("p/a.rs", "use super::B; pub struct A(B);"),
        (
            "p/b.rs",
            "pub struct B; pub const N: u8 = super::LEN; #[cfg(test)] mod t { use crate::p::A; }",
        ),
    ];
    let with = |parent| circles_of(&[&children[..], &[("p/mod.rs", parent)]].concat());
    assert!(with("mod a; mod b; pub use a::A; pub use b::B; const LEN: u8 = 1;").is_empty());
    let parent_uses = "mod a; mod b; pub use b::B; const LEN: u8 = 1; fn f(_: B) {}";
    assert_eq!(with(parent_uses).len(), 2, "it uses the item that it re-exports");
    assert_eq!(with("mod a; mod b; use b::B; const LEN: u8 = b::N;").len(), 2);
}
