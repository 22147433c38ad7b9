//! The packaged unit, as systemd reads it: nothing in it is unknown or wrong, and what the service
//! could do if it were taken over stays small.

use std::fs;
use std::io::Write;
use std::process::{Command, Output};

/// Maximum exposure by `systemd-analyze security`, in tenths.
const MAX_EXPOSURE: u32 = 30;

/// What systemd's own check says about the unit; `None`, and said, where it is not installed.
fn analyzed(test: &str, arguments: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let unit = include_str!("../packaging/unhitch.service");
    // The program that was built need not be installed.
    let unit = unit.replace("/usr/bin/unhitch", env!("CARGO_BIN_EXE_unhitch"));
    let file = folder.path().join("unhitch.service");
    fs::write(&file, unit).unwrap();
    let output = Command::new("systemd-analyze").args(arguments).arg(file).output();
    // Not by `eprintln`, of which the harness shows nothing if a test passes.
    let skip = |error| writeln!(std::io::stderr(), "SKIPPED {test}: systemd-analyze: {error}");
    output.map_err(skip).ok()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().iter().map(|byte| char::from(*byte)).collect()
}

#[test]
fn the_unit_is_understood_by_systemd() {
    let test = "the_unit_is_understood_by_systemd";
    let Some(output) = analyzed(test, &["verify", "--man=no"]) else { return };
    // What it does not know, it only mentions.
    let about_us = text(&output).lines().filter(|line| line.contains("unhitch")).count();
    assert!(output.status.success() && about_us == 0, "{}", text(&output));
}

#[test]
fn the_units_exposure_is_small() {
    let test = "the_units_exposure_is_small";
    let threshold = format!("--threshold={MAX_EXPOSURE}");
    let arguments = ["security", "--offline=yes", "--no-pager", &threshold];
    let Some(output) = analyzed(test, &arguments) else { return };
    let text = text(&output);
    assert!(
        output.status.success() && text.contains("exposure level for unhitch.service"),
        "{text}"
    );
}
