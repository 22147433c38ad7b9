//! `unhitch sql`, `unhitch export --to parquet` and `unhitch fleet` hand over to the Python package,
//! and say how to get it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(python: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    command.args(arguments).env("UNHITCH_PYTHON", python).output().expect("unhitch runs")
}

/// A program in place of Python.
fn stand_in(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("python");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn without_python_one_line_says_how_to_get_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let without_package = stand_in(folder.path(), "exit 76");
    for python in [folder.path().join("no-such-python"), without_package] {
        for (arguments, extra) in [
            (&["sql", "a.hitch", "select 1"][..], "unhitch[sql]"),
            (&["fleet", "report", "a"][..], "unhitch[fleet]"),
            (&["export", "a.hitch", "--to", "parquet"][..], "unhitch[arrow]"),
        ] {
            let output = run(&python, arguments);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
            assert!(said.contains(&format!("pip install '{extra}'")), "{said}");
        }
    }
}

#[test]
fn arguments_reach_the_package_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let python = stand_in(folder.path(), "shift 2; printf '<%s>' \"$@\"; exit 5");
    let printed = |arguments: &[&str]| {
        let output = run(&python, arguments);
        assert_eq!(output.status.code(), Some(5), "the package's own exit code");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        printed(&["sql", "a b.hitch", "select '--x'"]),
        "<sql><--><a b.hitch><select '--x'>"
    );
    assert_eq!(printed(&["sql", "--json", "a", "q"]), "<sql><--json><--><a><q>");
    assert_eq!(printed(&["fleet", "--help"]), "<fleet><--help>");
    assert_eq!(
        printed(&["fleet", "ingest", "d", "--into", "x y"]),
        "<fleet><ingest><d><--into><x y>"
    );
    let rules = folder.path().join("my.toml");
    let output = folder.path().join("out.parquet");
    let [rules, output] = [&rules, &output].map(|path| path.to_str().unwrap());
    assert_eq!(
        printed(&["export", "--to", "parquet", "-o", output, "--rules", rules, "--", "-a.hitch"]),
        format!("<parquet><--output><{output}><--rules><{rules}><--><-a.hitch>")
    );
}

#[test]
fn the_package_is_not_looked_for_in_the_current_folder() {
    let Ok(version) = Command::new("python3").arg("--version").output() else {
        println!("SKIPPED the_package_is_not_looked_for_in_the_current_folder: no python3");
        return;
    };
    assert!(version.status.success());
    let folder = tempfile::tempdir().unwrap();
    let planted = folder.path().join("unhitch");
    fs::create_dir(&planted).unwrap();
    fs::write(planted.join("__init__.py"), "").unwrap();
    fs::write(planted.join("__main__.py"), "def main():\n    print('planted')\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_unhitch"));
    command.args(["sql", "nothing.hitch", "select 1"]).current_dir(folder.path());
    let output = command.env_remove("UNHITCH_PYTHON").env_remove("PYTHONPATH").output().unwrap();
    assert!(!output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("planted"));
}

/// The names in the lines of a section of a manifest.
fn names<'t>(manifest: &'t str, section: &str) -> Vec<&'t str> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    own.filter_map(|line| line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()))
        .collect()
}

/// `python/` has a lock file of its own, and is built with `--locked`.
#[test]
fn the_packages_lock_file_has_what_our_crates_need() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lock = fs::read_to_string(root.join("python/Cargo.lock")).unwrap();
    let mut crates = 0;
    for package in lock.split("[[package]]\n").skip(1) {
        let name = package.split('"').nth(1).unwrap();
        let folder = root.join("crates").join(name.trim_start_matches("unhitch-"));
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        crates += 1;
        for needed in names(&manifest, "[dependencies]") {
            // Where there are two versions, the name is followed by one.
            let is_locked = [format!(" \"{needed}\","), format!(" \"{needed} ")]
                .iter()
                .any(|line| package.contains(line));
            assert!(is_locked, "{name} needs {needed}: run `cargo metadata >/dev/null` in python/");
        }
    }
    assert!(crates >= 4, "{crates}");
}

/// Everything that any package of the workspace may depend on is in its lock file; `python/` has its own.
#[test]
fn nothing_of_the_package_is_in_the_default_build() {
    let packages = |lock: &str| -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(lock);
        let lock = fs::read_to_string(path).unwrap();
        lock.lines().filter_map(|line| line.strip_prefix("name = ")).map(str::to_owned).collect()
    };
    let foreign = |name: &String| {
        ["arrow", "duckdb", "parquet", "pyo3"].iter().any(|part| name.contains(part))
    };
    let own = packages("Cargo.lock");
    assert!(own.len() > 100 && !own.iter().any(foreign), "{own:?}");
    assert!(packages("python/Cargo.lock").iter().any(foreign));
}
