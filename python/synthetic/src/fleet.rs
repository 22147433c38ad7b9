//! The recordings of forty hosts, and the truth about them.

use crate::causes::{CAUSES, Cause};
use crate::scene::{Wanted, build_id, record};
use serde::Serialize;
use std::path::Path;
use unhitch_golden::SplitMix64;

const HOSTS: u64 = 40;
/// Noon of 2026-09-01 UTC.
const FIRST_DAY_NS: u64 = 1_788_264_000_000_000_000;
const DAY_NS: u64 = 86_400_000_000_000;
const DAYS: u64 = 30;
/// From this day on, hosts have version 2.
const UPDATE_DAY: u64 = 15;

#[derive(Serialize)]
struct Truth {
    causes: Vec<CauseTruth>,
    traces: Vec<TraceTruth>,
}

#[derive(Serialize)]
struct CauseTruth {
    name: &'static str,
    pattern: &'static str,
    function: &'static str,
}

#[derive(Serialize)]
struct TraceTruth {
    file: String,
    host: String,
    day: String,
    build_id: String,
    version: usize,
    cause: Option<&'static str>,
    hang_ns: u64,
}

/// Writes `traces` recordings and `truth.json`.
pub fn write(folder: &Path, traces: u64, filler: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut random = SplitMix64::new(2026);
    let mut truths = Vec::new();
    for number in 0..traces {
        let day = number * DAYS / traces;
        let version = usize::from(day >= UPDATE_DAY);
        let host = format!("host{:02}", random.between(0, HOSTS));
        let cause = draw(&mut random, version);
        let wall_ns = FIRST_DAY_NS + day * DAY_NS + random.between(0, DAY_NS / 4);
        let wanted = Wanted { host: host.clone(), wall_ns, version, cause, filler };
        let golden = record(&wanted, &mut random);
        let file = format!("{number:05}-{host}.hitch");
        let path = folder.join(&file);
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        golden.write(&path)?;
        truths.push(TraceTruth {
            file,
            host,
            day: format!("2026-09-{:02}", day + 1),
            build_id: build_id(version).iter().map(|byte| format!("{byte:02x}")).collect(),
            version: version + 1,
            cause: cause.map(|cause| cause.name),
            hang_ns: golden.figures,
        });
    }
    let causes = CAUSES
        .iter()
        .map(|cause| CauseTruth {
            name: cause.name,
            pattern: cause.pattern,
            function: cause.function,
        })
        .collect();
    let truth = Truth { causes, traces: truths };
    std::fs::write(folder.join("truth.json"), serde_json::to_vec_pretty(&truth)?)?;
    Ok(())
}

/// A cause, as often as it happens in this version; none in the rest.
fn draw(random: &mut SplitMix64, version: usize) -> Option<&'static Cause> {
    let mut at = random.between(0, 1_000);
    for cause in &CAUSES {
        match at.checked_sub(cause.per_mille[version]) {
            Some(rest) => at = rest,
            None => return Some(cause),
        }
    }
    None
}
