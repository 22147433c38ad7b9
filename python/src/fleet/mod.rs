//! The rows of one recording for the tables of a fleet (docs/fleet.md): a pure function of the file.
//!
//! *Why pure:* a cluster recomputes what it lost, and adding a recording twice must change nothing.
//! Nothing here depends on the path, the time or the machine that reads.

mod edges;
mod normal;
mod rows;

use crate::failure::{Outcome, check_fork, of_file};
use crate::opened::{Opened, Reading};
use crate::table::Table;
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The rows of a recording, by table.
type Tables = Vec<(&'static str, RecordBatch)>;

/// The first 128 bits of the SHA-256 of the file, and its length.
fn content(path: &Path) -> Outcome<(String, u64)> {
    let failed = |error| of_file(&path.display().to_string(), error);
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut hash = Sha256::new();
    let length = std::io::copy(&mut file, &mut hash).map_err(failed)?;
    let digits = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok((digits, length))
}

fn read(path: &Path) -> Outcome<(String, String, Tables)> {
    check_fork()?;
    let (id, bytes) = content(path)?;
    // Names from this machine's files would make the rows depend on the machine.
    let opened = Opened::new(path, &Reading::default())?;
    let day = rows::day(opened.trace());
    let tables = rows::all(&opened, &id, bytes)?;
    Ok((id, day, tables))
}

/// The content id of a file, by which a fleet knows it.
#[pyfunction]
pub fn content_id(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    Ok(py.detach(|| content(&path))?.0)
}

/// A recording's content id, the day on which it begins (UTC), and its rows by table.
type Rows = (String, String, Vec<(&'static str, Table)>);

/// The rows of a recording.
#[pyfunction]
pub fn fleet_rows(py: Python<'_>, path: PathBuf) -> PyResult<Rows> {
    let (id, day, tables) = py.detach(|| read(&path))?;
    Ok((id, day, tables.into_iter().map(|(name, rows)| (name, Table::new(rows))).collect()))
}

/// A function's or thread's name as it is in every build and on every host.
#[pyfunction]
pub fn normal_name(name: &str) -> String {
    normal::function(name)
}
