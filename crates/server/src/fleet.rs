//! The report over a fleet (docs/fleet.md), as the page shows it above the traces of its folder.
//!
//! The file is what `unhitch fleet report --json` printed. *Why the server does not make it:* that
//! takes Python, and the server of a page runs as little as possible.

use crate::Error;
use crate::trace_folder::TraceFolder;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The version of the report that this server knows.
const VERSION: u64 = 1;
/// Maximum size of a report, bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Where the report is.
pub(crate) struct Fleet(PathBuf);

/// What the page shows of a report.
#[derive(Deserialize, Serialize)]
pub(crate) struct Report {
    version: u64,
    fleet: Summary,
    since: Option<String>,
    causes: Vec<Cause>,
    coverage: Vec<Point>,
    regressions: Vec<Regression>,
    contrast: Vec<Contrast>,
    clusters: Vec<Cluster>,
}

#[derive(Deserialize, Serialize)]
struct Summary {
    traces: u64,
    hosts: u64,
    first_day: String,
    last_day: String,
    stalls: Option<u64>,
    with_stalls: u64,
    with_losses: u64,
    total_ns: u64,
}

#[derive(Deserialize, Serialize)]
struct Cause {
    pattern: String,
    culprit: Option<String>,
    function: String,
    stalls: u64,
    hosts: u64,
    total_ns: u64,
    worst_ns: u64,
    share: f64,
    first_day: String,
    is_new: bool,
    exemplars: Vec<Exemplar>,
}

#[derive(Deserialize, Serialize)]
struct Point {
    causes: u64,
    share: f64,
}

#[derive(Deserialize, Serialize)]
struct Regression {
    change: String,
    program: String,
    pattern: String,
    function: String,
    before: Side,
    after: Side,
    false_discovery_rate: f64,
}

#[derive(Deserialize, Serialize)]
struct Contrast {
    process: String,
    pattern: String,
    slow: Side,
    fast: Side,
    least_ns: u64,
    false_discovery_rate: f64,
}

#[derive(Deserialize, Serialize)]
struct Side {
    build_id: Option<String>,
    traces: u64,
    hits: u64,
}

#[derive(Deserialize, Serialize)]
struct Cluster {
    stalls: u64,
    total_ns: u64,
    pattern: String,
    function: String,
    exemplars: Vec<Exemplar>,
}

/// A recording to open.
#[derive(Deserialize, Serialize)]
struct Exemplar {
    /// Its file name; in the report, its path.
    file: Option<String>,
    /// The stall's number in it.
    stall: u64,
    duration_ns: u64,
    /// Whether the folder has a file of that name, so that the page can open it.
    #[serde(skip_deserializing)]
    is_here: bool,
}

impl Fleet {
    /// A report at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no report.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let fleet = Self(path.to_owned());
        fleet.read()?;
        Ok(fleet)
    }

    /// The report as it is now, with what `folder` has of its recordings.
    ///
    /// # Errors
    /// When it cannot be read, or is no report.
    pub fn report(&self, folder: &TraceFolder) -> Result<Report, Error> {
        let mut report = self.read()?;
        let of_causes = report.causes.iter_mut().flat_map(|cause| &mut cause.exemplars);
        let of_clusters = report.clusters.iter_mut().flat_map(|cluster| &mut cluster.exemplars);
        for exemplar in of_causes.chain(of_clusters) {
            let name = exemplar.file.as_deref().and_then(|path| Path::new(path).file_name());
            let name = name.and_then(|name| name.to_str()).map(str::to_owned);
            exemplar.is_here = name.as_deref().is_some_and(|name| folder.find(name).is_ok());
            exemplar.file = name;
        }
        Ok(report)
    }

    fn read(&self) -> Result<Report, Error> {
        let mut text = Vec::new();
        let file = File::open(&self.0).map_err(Error::io("the report of the fleet"))?;
        file.take(MAX_BYTES)
            .read_to_end(&mut text)
            .map_err(Error::io("the report of the fleet"))?;
        let report: Report =
            serde_json::from_slice(&text).map_err(|error| Error::NoReport(error.to_string()))?;
        if report.version != VERSION {
            return Err(Error::NoReport(format!(
                "its version is {}, not {VERSION}",
                report.version
            )));
        }
        Ok(report)
    }
}
