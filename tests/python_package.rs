//! `unhitch sql` and `unhitch fleet` hand over to the Python package, and say how to get it.

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
