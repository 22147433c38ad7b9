//! The verdict beside a trace, `NAME.verdict.json`: what was found out about it after it was saved.
//! docs/trace-file.md has its fields.

use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of a verdict that is read, bytes.
const MAX_LEN: u64 = 1 << 20;

/// Where the verdict on the trace at `trace` is stored.
pub fn verdict_path(trace: &Path) -> PathBuf {
    trace.with_extension("verdict.json")
}

/// The stored verdict on a trace, a JSON object. It counts only if it is a file of the trace's owner.
pub fn read_verdict(trace: &Path) -> Option<Value> {
    let file = open(&verdict_path(trace)).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || !have_one_owner(&about, &fs::symlink_metadata(trace).ok()?) {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_LEN).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok().filter(Value::is_object)
}

/// Opens a file that anybody may have put there: neither follows a link nor waits for a pipe.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn have_one_owner(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    one.uid() == other.uid()
}

/// Windows' access lists already keep others from writing there.
#[cfg(not(unix))]
const fn have_one_owner(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_verdict_is_an_object_in_a_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.hitch");
        fs::write(&trace, "").unwrap();
        let path = verdict_path(&trace);
        assert_eq!(path, folder.path().join("a.verdict.json"));
        assert_eq!(read_verdict(&trace), None);
        fs::write(&path, "[1]").unwrap();
        assert_eq!(read_verdict(&trace), None);
        fs::write(&path, r#"{"line":"it hung"}"#).unwrap();
        assert_eq!(read_verdict(&trace), Some(json!({ "line": "it hung" })));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_or_a_pipe_is_no_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.hitch");
        fs::write(&trace, "").unwrap();
        fs::write(folder.path().join("other"), r#"{"line":"it hung"}"#).unwrap();
        let path = verdict_path(&trace);
        std::os::unix::fs::symlink(folder.path().join("other"), &path).unwrap();
        assert_eq!(read_verdict(&trace), None);
        fs::remove_file(&path).unwrap();
        let (owner, fifo) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, owner, 0).unwrap();
        assert_eq!(read_verdict(&trace), None);
    }
}
