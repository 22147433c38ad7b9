//! The traces that the page shows: the files of one folder, or one file. Nothing outside is ever
//! touched.
//!
//! A name from a request is a single path component that does not begin with a dot, and it must
//! name a plain file, not a link, so that no request leads anywhere else. *Why nothing is
//! overwritten:* a trace of a hang cannot be recorded again.

use crate::{Error, Unreadable, verdict};
use serde_json::{Map, Value, json};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;
use unhitch_formats::container;
use unhitch_model::{Date, Format};

/// Maximum length of a file name, bytes.
const MAX_NAME_BYTES: usize = 200;
/// Maximum length of notes, bytes.
pub(crate) const MAX_NOTES_BYTES: usize = 256 << 10;
/// Maximum files of a folder that are looked at.
const MAX_FILES: usize = 10_000;

/// The folder, or the one file in it that is shown.
pub(crate) struct TraceFolder {
    folder: PathBuf,
    single: Option<String>,
}

/// Identifies the content of a file: it changes when the file does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stamp {
    pub bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl TraceFolder {
    /// The traces at `path`, a folder or a file.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(Error::io("the trace or folder"))?;
        if path.is_dir() {
            // An unreadable folder must not look like an empty one.
            fs::read_dir(&path).map_err(Error::io("the folder"))?;
            return Ok(Self { folder: path, single: None });
        }
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name
            .filter(|name| is_name(name))
            .ok_or(Error::NotFound("file name that the page can show"))?;
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Self { folder, single: Some(name) })
    }

    /// The one trace that is shown, if it is not a folder.
    pub fn single(&self) -> Option<&str> {
        self.single.as_deref()
    }

    /// The folder's own name.
    pub fn folder_name(&self) -> String {
        self.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// A trace's path and current content.
    pub fn find(&self, name: &str) -> Result<(PathBuf, Stamp), Error> {
        let shown = self.single.as_deref().is_none_or(|single| single == name);
        if !is_name(name) || !shown {
            return Err(Error::NotFound("trace"));
        }
        let path = self.folder.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok((path, Stamp::of(&metadata))),
            _ => Err(Error::NotFound("trace")),
        }
    }

    /// The names of all files that are traces by their content, and of those that should be by
    /// their names: the list says what is wrong with them.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        if let Some(single) = &self.single {
            return Ok(vec![single.clone()]);
        }
        let entries = fs::read_dir(&self.folder).map_err(Error::io("the folder"))?;
        let names = entries
            .flatten()
            .take(MAX_FILES)
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names
            .filter(|name| {
                self.find(name)
                    .is_ok_and(|(path, _)| is_trace_name(name) || format_of(&path, name).is_some())
            })
            .collect())
    }

    /// What is known of a trace without opening it.
    pub fn entry(&self, name: &str) -> Result<Value, Error> {
        let (path, stamp) = self.find(name)?;
        let format = format_of(&path, name);
        let mut entry = json!({
            "name": name, "bytes": stamp.bytes, "modified": stamp.modified.map(utc), "format": format,
            "host": null, "kernel": null, "duration_ns": null, "cpus": null, "notes": "",
            "loaded": false, "judging": false, "first_answer": null, "error": null, "hint": "",
        });
        let mut unreadable = no_trace(format, stamp.bytes);
        match (format == Some("hitch")).then(|| container::read_meta(&path)) {
            Some(Ok(Some((meta, notes)))) => {
                let start = meta.spans.iter().map(|span| span.start_ns).max();
                let end = meta.spans.iter().map(|span| span.end_ns).max();
                entry["host"] = json!(meta.host);
                entry["kernel"] = json!(meta.kernel);
                entry["cpus"] = json!(meta.cpus);
                entry["duration_ns"] =
                    json!(start.zip(end).map(|(start, end)| end.saturating_sub(start)));
                entry["notes"] = json!(notes);
            }
            Some(Err(error)) => unreadable = Some(self.unreadable(&error)),
            Some(Ok(None)) | None => {}
        }
        for (key, text) in unreadable.iter().flat_map(Unreadable::entry) {
            entry[key] = text;
        }
        Ok(entry)
    }

    /// What the recorder found out about a trace when it had saved it: of this trace, not of another
    /// one that had its name.
    pub fn verdict(&self, name: &str) -> Option<Map<String, Value>> {
        let (path, _) = self.find(name).ok()?;
        let stored = container::read_verdict(&path)?;
        let (meta, _) = container::read_meta(&path).ok().flatten()?;
        let start = meta.spans.iter().map(|span| span.start_ns).max()?;
        (stored["start_ns"].as_u64() == Some(start)).then(|| verdict::stored(&stored)).flatten()
    }

    /// Begins an upload: the file that it is written to until it is complete. Only its owner may
    /// read it, then and later: a trace shows what all programs of a machine did.
    pub fn incoming(&self, name: &str) -> Result<NamedTempFile, Error> {
        self.changeable()?;
        self.free(name)?;
        tempfile::Builder::new()
            .prefix(".upload-")
            .tempfile_in(&self.folder)
            .map_err(Error::io("the folder"))
    }

    /// Ends an upload. A file that is not a trace is deleted.
    pub fn receive(&self, mut file: NamedTempFile, name: &str) -> Result<(), Error> {
        if format_of(file.path(), name).is_none() {
            return Err(Error::NoTrace("this file is not a trace".to_owned()));
        }
        file.flush().and_then(|()| file.as_file().sync_all()).map_err(Error::io("the upload"))?;
        match file.persist_noclobber(self.folder.join(name)) {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Taken),
            Err(error) => Err(Error::io("the upload")(error.error)),
        }
    }

    /// Gives a trace another name.
    pub fn rename(&self, name: &str, to: &str) -> Result<(), Error> {
        let (path, _) = self.find(name)?;
        if name == to {
            return Ok(());
        }
        self.changeable()?;
        self.free(to)?;
        // Link and remove, because renaming would overwrite a file created meanwhile.
        let target = self.folder.join(to);
        match fs::hard_link(&path, &target) {
            Ok(()) => fs::remove_file(&path).map_err(Error::io("the old name")),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Taken),
            // A file system without hard links.
            Err(_) => fs::rename(&path, &target).map_err(Error::io("renaming")),
        }?;
        if let (Some(verdict), Some(target)) = (verdict_of(&path), verdict_of(&target)) {
            // Without its verdict, the trace is judged again.
            let _ = fs::hard_link(&verdict, target).and_then(|()| fs::remove_file(verdict));
        }
        Ok(())
    }

    /// A trace's notes, if it can store them.
    pub fn notes(&self, name: &str) -> Option<String> {
        let (path, _) = self.find(name).ok()?;
        let facts = (format_of(&path, name) == Some("hitch"))
            .then(|| container::read_meta(&path).ok().flatten());
        facts.flatten().map(|(_, notes)| notes)
    }

    /// Replaces a trace's notes.
    pub fn annotate(&self, name: &str, notes: &str) -> Result<(), Error> {
        let (path, _) = self.find(name)?;
        if notes.len() > MAX_NOTES_BYTES {
            return Err(Error::Parameter {
                parameter: "notes",
                found: "a very long text".to_owned(),
                expected: "at most 256 KiB".to_owned(),
            });
        }
        if format_of(&path, name) != Some("hitch") {
            return Err(Error::Refused("only NAME.hitch files can store notes"));
        }
        container::set_notes(&path, notes)
            .map_err(|error| Error::Unreadable(self.unreadable(&error)))
    }

    /// Removes a trace.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.changeable()?;
        let (path, _) = self.find(name)?;
        fs::remove_file(&path).map_err(Error::io("the trace"))?;
        verdict_of(&path).map(fs::remove_file);
        Ok(())
    }

    /// A message without the folder's path.
    pub fn without_path(&self, message: &str) -> String {
        let folder = self.folder.display().to_string();
        message.replace(&format!("{folder}/"), "").replace(&folder, "the folder")
    }

    /// What an error means for a trace of this folder.
    fn unreadable(&self, error: &unhitch_formats::Error) -> Unreadable {
        Unreadable::of(error, self.without_path(&error.to_string()))
    }

    fn changeable(&self) -> Result<(), Error> {
        if self.single.is_some() { Err(Error::Single) } else { Ok(()) }
    }

    /// Whether a new file may have this name.
    fn free(&self, name: &str) -> Result<(), Error> {
        if !is_name(name) {
            let found: String =
                name.chars().filter(|letter| !letter.is_control()).take(80).collect();
            let expected = format!(
                "a file name of at most {MAX_NAME_BYTES} bytes, without slashes and without a dot at its start"
            );
            return Err(Error::Parameter { parameter: "name", found, expected });
        }
        // A dangling link takes the name, too.
        if self.folder.join(name).symlink_metadata().is_ok() { Err(Error::Taken) } else { Ok(()) }
    }
}

/// True for a name that is a single visible path component on every system.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && !name.chars().any(|letter| letter.is_control() || "/\\:*?\"<>|".contains(letter))
}

/// Where the recorder stores its verdict on the trace at `path`; only its own traces have one.
fn verdict_of(path: &Path) -> Option<PathBuf> {
    path.extension().is_some_and(|end| end == "hitch").then(|| container::verdict_path(path))
}

/// What is wrong with a file that is called like a trace but is none.
fn no_trace(format: Option<&str>, bytes: u64) -> Option<Unreadable> {
    match (format, bytes) {
        (_, 0) => Some(Unreadable::Empty),
        (None, _) => {
            Some(Unreadable::Damaged("this is no trace: it does not begin like one".to_owned()))
        }
        _ => None,
    }
}

/// True for a name with which traces are saved.
fn is_trace_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let endings = [".hitch", ".etl", ".pftrace", ".perfetto-trace", ".perf.data", ".trace.dat"];
    endings.iter().any(|end| name.ends_with(end)) || ["perf.data", "trace.dat"].contains(&&*name)
}

/// The format of the trace at `path`, a file called `name`, by its first bytes; none if it is not a
/// trace.
fn format_of(path: &Path, name: &str) -> Option<&'static str> {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(39).read_to_end(&mut start)).ok()?;
    let ends = |extension: &str| name.to_ascii_lowercase().ends_with(extension);
    match start.as_slice() {
        // All zip files begin alike; in ours the first entry is the perf.data.
        [b'P', b'K', 3, 4, ..] if start.ends_with(b"perf.data") || ends(".hitch") => Some("hitch"),
        [b'P', b'K', 3, 4, ..] => Some("etl").filter(|_| container::holds_etl(path)),
        [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..]
        | [b'2', b'E', b'L', b'I', b'F', b'R', b'E', b'P', ..] => Some("perf.data"),
        // ETL files begin with the size of their buffers, which identifies nothing.
        [_, ..] if ends(".etl") => Some("etl"),
        [0x17, 0x08, b'D', b't', b'r', ..] => Some("trace.dat"),
        _ => format_of_import(path),
    }
}

/// The format of a trace of another tool that nothing short identifies.
fn format_of_import(path: &Path) -> Option<&'static str> {
    /// What the formats are recognised by, bytes.
    const HEAD: u64 = 64 << 10;
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head)).ok()?;
    unhitch_formats::import::format_of(&head).map(Format::name)
}

/// `2026-01-02T03:04:05Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let date = Date::after_epoch(days as i64);
    format!("{date}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_names() {
        for good in ["a.hitch", "2026-01-02_03-04-05_was hängt.hitch", "perf.data"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "../x",
            "a/b",
            "a\\b",
            "a\0b",
            "c:x",
            "a\nb",
            &"x".repeat(201),
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_767_323_045), "2026-01-02T03:04:05Z");
    }
}
