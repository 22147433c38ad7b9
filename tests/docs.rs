//! The tables of the documentation are tables: a tool that wraps lines can turn one into prose,
//! which looks like a line of text full of bars. And what `docs/not-known.md` quotes is what the
//! program says.

use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown files of the project's root and of `docs`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = |folder: PathBuf| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    files(root.clone()).chain(files(root.join("docs"))).collect()
}

/// The lines of `page` that contain the rule below a table's head, but are not that rule, or whose
/// neighbours are no rows of a table; and rows without a head. Fenced code is left out.
fn broken_tables(page: &str) -> Vec<&str> {
    let mut fenced = false;
    let prose = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    let lines: Vec<&str> = prose.collect();
    let is_row = |at: Option<usize>| {
        let line = at.and_then(|at| lines.get(at)).map_or("", |line| line.trim());
        line.len() > 1 && line.starts_with('|') && line.ends_with('|')
    };
    let is_rule = |line: &str| line.trim().chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    let broken = lines.iter().enumerate().filter(|(at, line)| {
        let (above, below) = (at.checked_sub(1), at.checked_add(1));
        let is_table = is_rule(line) && is_row(above) && is_row(Some(*at)) && is_row(below);
        let is_head = || below.and_then(|at| lines.get(at)).is_some_and(|line| is_rule(line));
        line.contains("|--") && !is_table || is_row(Some(*at)) && !is_row(above) && !is_head()
    });
    broken.map(|(_, line)| *line).collect()
}

#[test]
fn what_counts_as_broken() {
    let table = "| a | b |\n|---|--:|\n| 1 | 2 |\n";
    assert_eq!(broken_tables(table), [""; 0]);
    let wrapped = "| a | b | |---|--:| | 1\n| 2 |\n";
    assert_eq!(broken_tables(wrapped), ["| a | b | |---|--:| | 1", "| 2 |"]);
    assert_eq!(broken_tables(&format!("```\n{wrapped}```\n")), [""; 0]);
    assert_eq!(broken_tables("|---|\n| 1 |\n"), ["|---|"], "without a head");
    let torn = "| a |\n|---|\n| 1 |\n\n| 2 |\n| 3 |\n";
    assert_eq!(broken_tables(torn), ["| 2 |"]);
}

#[test]
fn no_table_was_wrapped() {
    let pages = pages();
    assert!(pages.len() > 20, "{pages:?}");
    for path in pages {
        let page = fs::read_to_string(&path).unwrap();
        let broken = broken_tables(&page);
        assert!(broken.is_empty(), "{}: {broken:#?}", path.display());
    }
}

/// The source of all crates, with strings that go on in the next line joined.
fn sources() -> String {
    fn add(folder: &Path, sources: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).unwrap();
                let mut lines = source.split("\\\n");
                sources.push_str(lines.next().unwrap_or_default());
                lines.for_each(|line| sources.push_str(line.trim_start()));
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = String::new();
    for entry in fs::read_dir(crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.is_dir() {
            add(&source, &mut sources);
        }
    }
    sources
}

/// The parts of a quoted phrase between what varies: numbers, letters that stand for one, names in
/// capitals, `…`.
fn fixed_parts(phrase: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in phrase.split(' ') {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '…');
        let varies = bare.is_empty()
            || bare.contains('…')
            || bare.starts_with(|c: char| c.is_ascii_digit())
            || bare.chars().all(|c| c.is_ascii_uppercase()) && !["CPU", "CPUs"].contains(&bare);
        match (varies, parts.last_mut()) {
            (false, Some(part)) if part.is_empty() => part.push_str(word),
            (false, Some(part)) => *part = format!("{part} {word}"),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| part.len() >= 8);
    parts
}

#[test]
fn fixed_parts_are_what_does_not_vary() {
    assert_eq!(fixed_parts("polled N times before that"), ["times before that"]);
    assert_eq!(fixed_parts("1,234 events outside it"), ["events outside it"]);
    assert_eq!(fixed_parts("… no wake-ups …"), ["no wake-ups"]);
}

#[test]
fn every_phrase_about_what_is_not_known_is_one_that_the_program_says() {
    let page = include_str!("../docs/not-known.md");
    let said = page.split_once("\n## Stacks").unwrap().0;
    let sources = sources();
    let first_cells = said.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let mut phrases = 0;
    let mut unknown = Vec::new();
    for cell in first_cells {
        for phrase in format!("`{cell}").split('`').skip(1).step_by(2) {
            phrases += 1;
            let parts = fixed_parts(phrase);
            unknown.extend(parts.into_iter().filter(|part| !sources.contains(part.as_str())));
        }
    }
    assert!(phrases > 30, "{phrases}");
    assert!(unknown.is_empty(), "in docs/not-known.md, but nowhere in the program: {unknown:#?}");
}

/// The workflow that users copy fetches the version that its page belongs to.
#[test]
fn the_workflow_for_users_installs_this_version() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ci.md");
    let page = fs::read_to_string(page).unwrap();
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let named: Vec<&str> = page
        .split(|c: char| !(c.is_alphanumeric() || c == '.'))
        .filter(|word| {
            let numbers = word.strip_prefix('v').unwrap_or_default();
            numbers.split('.').count() == 3 && numbers.starts_with(|c: char| c.is_ascii_digit())
        })
        .collect();
    assert_eq!(named, [version; 2], "the folder of the release, and the file in it");
}
