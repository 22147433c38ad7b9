//! Writes the recordings of a fleet, with the truth about them:
//! `unhitch-synthetic FOLDER [--traces 2000] [--filler 100] [--waits N]`.
//!
//! Forty hosts run two versions of one program and save a recording now and then; most hold a hang
//! with one of twelve causes. `FOLDER/truth.json` says which recording holds which, and for how long.
//! `--filler` is the number of meaningless waits per thread and second, which sets the size of a
//! file; `--waits` writes one large recording of so many waits instead, for benchmarks.

mod causes;
mod fleet;
mod scene;
mod waits;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "unhitch-synthetic FOLDER [--traces N] [--filler N] [--waits N]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("unhitch-synthetic: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let (mut traces, mut filler, mut waits) = (2_000, 40, None);
    while let Some(option) = arguments.next() {
        let number: u64 = arguments.next().ok_or(USAGE)?.parse()?;
        match option.as_str() {
            "--traces" => traces = number,
            "--filler" => filler = number,
            "--waits" => waits = Some(number),
            _ => return Err(USAGE.into()),
        }
    }
    std::fs::create_dir_all(&folder)?;
    match waits {
        Some(waits) => waits::write(&folder.join("waits.perf.data"), waits)?,
        None => fleet::write(&folder, traces, filler)?,
    }
    Ok(())
}
