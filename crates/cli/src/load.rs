//! Opens a trace and names its frames.

use anyhow::Context;
use std::path::Path;
use unhitch_analysis::Rules;
use unhitch_model::{Format, Trace};
use unhitch_symbols::{Options, Symbolizer};

/// Reads a trace; frames that the file does not name are named from this machine's files, where those are the ones recorded.
pub fn trace(path: &Path) -> anyhow::Result<Trace> {
    let mut trace = match unhitch_formats::open(path) {
        // It names the file itself.
        Err(error @ unhitch_formats::Error::Io { .. }) => return Err(error.into()),
        result => result.with_context(|| path.display().to_string())?,
    };
    unhitch_analysis::mend(&mut trace);
    // Our own files carry the names found on the recording machine; another machine's kernel addresses mean nothing here.
    if trace.meta.format == Format::PerfData {
        if is_this_machine(&trace) {
            Symbolizer::new(Options::default()).resolve(&mut trace);
        } else {
            trace.warnings.add(format!(
                "no function names: recorded on {} with kernel {}, which is not this machine",
                trace.meta.host, trace.meta.kernel
            ));
        }
    }
    Ok(trace)
}

fn is_this_machine(trace: &Trace) -> bool {
    let read = |name: &str| std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default();
    let same = |recorded: &str, here: String| recorded.is_empty() || recorded == here.trim();
    same(&trace.meta.kernel, read("osrelease")) && same(&trace.meta.host, read("hostname"))
}

/// The wait rules: the given file's, else the user's, before the built-in ones.
pub fn rules(file: Option<&Path>) -> anyhow::Result<Rules> {
    let configured = || {
        let folder = std::env::var_os("XDG_CONFIG_HOME").map(Into::into);
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
        folder.or_else(home).map(|folder: std::path::PathBuf| folder.join("unhitch/waits.toml")).filter(|path| path.exists())
    };
    match file.map(Path::to_path_buf).or_else(configured) {
        Some(path) => {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            Rules::with_user_rules(&text).with_context(|| path.display().to_string())
        }
        None => Ok(Rules::default()),
    }
}
