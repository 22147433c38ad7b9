//! Finds the files of a trace that was not merged: xperf's `kernel.etl` and `user.etl`, PerfView's
//! `NAME.etl` and `NAME.kernel.etl`.

use std::path::{Path, PathBuf};

/// The files in the folder of `path` whose names say that they are of the same recording. Only
/// their content shows whether they are.
pub(crate) fn sibling_files(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let names = names(name).into_iter().map(|name| path.with_file_name(name));
    names.filter(|other| other.is_file()).collect()
}

fn names(name: &str) -> Vec<String> {
    const PARTS: [&str; 3] = [".kernel", ".user", ".clrRundown"];
    let Some(stem) = name
        .get(name.len().saturating_sub(4)..)
        .filter(|end| end.eq_ignore_ascii_case(".etl"))
        .and_then(|_| name.get(..name.len() - 4))
    else {
        return Vec::new();
    };
    match stem {
        "kernel" => return vec!["user.etl".to_owned()],
        "user" => return vec!["kernel.etl".to_owned()],
        _ => {}
    }
    let whole = PARTS.iter().find_map(|part| stem.strip_suffix(part)).unwrap_or(stem);
    let all = std::iter::once("").chain(PARTS).map(|part| format!("{whole}{part}.etl"));
    all.filter(|other| other != name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_recording() {
        assert_eq!(names("kernel.etl"), ["user.etl"]);
        assert_eq!(names("a.ETL"), ["a.etl", "a.kernel.etl", "a.user.etl", "a.clrRundown.etl"]);
        assert_eq!(names("a.kernel.etl"), ["a.etl", "a.user.etl", "a.clrRundown.etl"]);
        assert!(names("a.txt").is_empty() && names("").is_empty() && names("é").is_empty());
    }
}
