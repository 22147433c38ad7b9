//! Commands of the Python package `unhitch`: `sql`, `export --to parquet` and `fleet`. This program
//! finds a Python that has it, and says how to get it where there is none.

use crate::args::{ExportArgs, FleetArgs, SqlArgs};
use crate::done::Done;
use crate::settings::rules_file;
use anyhow::{Context, bail};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// Names the Python to use.
const PYTHON: &str = "UNHITCH_PYTHON";
/// Exit code of the starter where the package is not installed.
const NO_PACKAGE: i32 = 76;
/// Starts the package's commands. *Why not `-m`:* that would look for the package in the current
/// folder first, which may belong to somebody else.
const STARTER: &str = "import sys\n\
    sys.path[:1] = []\n\
    try:\n    import unhitch.__main__ as commands\n\
    except ModuleNotFoundError as error:\n    \
        sys.exit(76 if error.name == 'unhitch' else str(error))\n\
    sys.exit(commands.main())\n";

/// Answers an SQL query over the tables of a trace.
pub fn sql(args: &SqlArgs) -> anyhow::Result<Done> {
    let form = match (args.json, args.csv) {
        (true, _) => Some("--json"),
        (_, true) => Some("--csv"),
        _ => None,
    };
    let words = [OsStr::new("sql")].into_iter().chain(form.map(OsStr::new));
    let names = [OsStr::new("--"), args.trace.as_os_str(), OsStr::new(&args.query)];
    run("sql", "sql", words.chain(names))
}

/// Writes the tables of a trace as a folder of Parquet files.
pub fn parquet(args: &ExportArgs, folder: &Path) -> anyhow::Result<Done> {
    let mut words = vec![OsStr::new("parquet"), OsStr::new("--output"), folder.as_os_str()];
    let rules = rules_file(&args.rules);
    if let Some(rules) = &rules {
        words.extend([OsStr::new("--rules"), rules.as_os_str()]);
    }
    for other in &args.trace.reading.with {
        words.extend([OsStr::new("--with"), other.as_os_str()]);
    }
    if args.force {
        words.push(OsStr::new("--force"));
    }
    words.extend([OsStr::new("--"), args.trace.path.as_os_str()]);
    run("export --to parquet", "arrow", words.into_iter())
}

/// Runs a command over the recordings of a fleet.
pub fn fleet(args: &FleetArgs) -> anyhow::Result<Done> {
    let words = args.words.iter().map(OsString::as_os_str);
    run("fleet", "fleet", [OsStr::new("fleet")].into_iter().chain(words))
}

/// Runs `command` of this program, by the package with the extra named so.
fn run<'w>(
    command: &str,
    extra: &str,
    words: impl Iterator<Item = &'w OsStr>,
) -> anyhow::Result<Done> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let how = format!(
        "`unhitch {command}` needs Python with the package unhitch: pip install \
         'unhitch[{extra}]', or name a Python that has it in {PYTHON}"
    );
    let status = match Command::new(&python).arg("-c").arg(STARTER).args(words).status() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{how}"),
        status => status.with_context(|| python.to_string_lossy().into_owned())?,
    };
    match status.code() {
        Some(0) => Ok(Done::Yes),
        Some(NO_PACKAGE) => bail!("{how}"),
        // It has said why.
        Some(code) => std::process::exit(code),
        None => bail!("{}: {status}", python.to_string_lossy()),
    }
}
