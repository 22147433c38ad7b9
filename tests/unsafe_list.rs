//! docs/unsafe.md lists every `unsafe` with its reason; this test counts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Rust files below `folder`, without build output.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if entry.file_type().unwrap().is_dir() {
            let built = name == "target"
                || name == "node_modules"
                || name.to_string_lossy().starts_with('.');
            if !built {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// How often `unsafe` starts a block, a function, an implementation, a foreign block, or an
/// attribute. Comments and strings do not count.
fn count(source: &str) -> usize {
    const OPENS: [&str; 6] = ["{", "fn ", "impl", "extern", "trait", "("];
    let code = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let words = code.flat_map(|line| line.split("unsafe").skip(1));
    words
        .filter(|rest| {
            OPENS.iter().any(|open| rest.trim_start().starts_with(open) && !rest.starts_with('_'))
        })
        .count()
}

#[test]
fn what_counts_as_unsafe() {
    assert_eq!(
        count(
            "let a = unsafe { b() }; unsafe fn c() {}\nunsafe impl<T> Send for T {} // unsafe { }\n#[unsafe(no_mangle)]"
        ),
        4
    );
    assert_eq!(
        count(
            "#![allow(unsafe_code)]\n//! The one `unsafe` module.\n\"style-src 'unsafe-inline'\""
        ),
        0
    );
}

#[test]
fn every_unsafe_is_listed_with_its_reason() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let relative =
        |path: &Path| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    let counted: BTreeMap<String, usize> = files
        .iter()
        .map(|path| (relative(path), count(&fs::read_to_string(path).unwrap())))
        .filter(|(_, count)| *count > 0)
        .collect();
    // Here, `unsafe` is in a string that is searched for.
    let counted: BTreeMap<String, usize> =
        counted.into_iter().filter(|(path, _)| path != "tests/unsafe_list.rs").collect();

    let page = fs::read_to_string(root().join("docs/unsafe.md")).unwrap();
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, path, number, reason, _] = cells[..] else {
            panic!("not file, number, reason: {row}")
        };
        assert!(!reason.is_empty(), "without a reason: {row}");
        *listed.entry(path.trim_matches('`').to_owned()).or_default() +=
            number.parse::<usize>().unwrap();
    }
    assert_eq!(listed, counted, "left: what docs/unsafe.md lists; right: what there is");
}
