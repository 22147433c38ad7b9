//! The traces that may be seen: the files of one folder, or one file. Nothing outside is ever
//! touched.
//!
//! A name from a request is a single path component that begins with no dot, and what it names must
//! be a plain file, not a link; so no request leads anywhere else. Nothing is overwritten: a trace
//! of a hang cannot be made again.

use crate::Error;
use serde_json::{Value, json};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;
use unhitch_formats::container;

/// Longer names are refused.
const LONGEST_NAME: usize = 200;
/// Longer notes are refused.
pub(crate) const LONGEST_NOTES: usize = 256 << 10;
/// More files of a folder are not looked at.
const MOST_FILES: usize = 10_000;

/// The folder, or the one file of it that is shown.
pub(crate) struct Shelf {
    folder: PathBuf,
    single: Option<String>,
}

/// What tells one content of a file from another.
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

impl Shelf {
    /// The traces at `path`, a folder or a file.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(Error::io("the trace or folder"))?;
        if path.is_dir() {
            // One that may not be read should not look like an empty one.
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

    /// The one trace that is shown, if it is one.
    pub fn single(&self) -> Option<&str> {
        self.single.as_deref()
    }

    /// The folder's own name.
    pub fn folder_name(&self) -> String {
        self.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Where a trace lies, and what content it has now.
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

    /// The names of all traces, by their content.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        if let Some(single) = &self.single {
            return Ok(vec![single.clone()]);
        }
        let entries = fs::read_dir(&self.folder).map_err(Error::io("the folder"))?;
        let names = entries
            .flatten()
            .take(MOST_FILES)
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names
            .filter(|name| self.find(name).is_ok_and(|(path, _)| format_of(&path, name).is_some()))
            .collect())
    }

    /// What is known of a trace without opening it.
    pub fn entry(&self, name: &str) -> Result<Value, Error> {
        let (path, stamp) = self.find(name)?;
        let format = format_of(&path, name);
        let mut entry = json!({
            "name": name, "bytes": stamp.bytes, "modified": stamp.modified.map(utc), "format": format,
            "host": null, "kernel": null, "duration_ns": null, "cpus": null, "notes": "",
            "loaded": false, "first_answer": null, "error": null,
        });
        if format != Some("hitch") {
            return Ok(entry);
        }
        match container::read_meta(&path) {
            Ok(Some((meta, notes))) => {
                let start = meta.spans.iter().map(|span| span.start_ns).max();
                let end = meta.spans.iter().map(|span| span.end_ns).max();
                entry["host"] = json!(meta.host);
                entry["kernel"] = json!(meta.kernel);
                entry["cpus"] = json!(meta.cpus);
                entry["duration_ns"] =
                    json!(start.zip(end).map(|(start, end)| end.saturating_sub(start)));
                entry["notes"] = json!(notes);
            }
            Ok(None) => {}
            Err(error) => entry["error"] = json!(self.without_path(&error.to_string())),
        }
        Ok(entry)
    }

    /// Begins an upload: where it grows until it is whole. It is its owner's alone, then and later:
    /// a trace shows what all programs of a machine did.
    pub fn incoming(&self, name: &str) -> Result<NamedTempFile, Error> {
        self.changeable()?;
        self.free(name)?;
        tempfile::Builder::new()
            .prefix(".upload-")
            .tempfile_in(&self.folder)
            .map_err(Error::io("the folder"))
    }

    /// Ends an upload: what is no trace is dropped.
    pub fn receive(&self, mut file: NamedTempFile, name: &str) -> Result<(), Error> {
        if format_of(file.path(), name).is_none() {
            return Err(Error::Unreadable("this is no trace".to_owned()));
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
        // A link, because renaming would overwrite what came in between.
        let target = self.folder.join(to);
        match fs::hard_link(&path, &target) {
            Ok(()) => fs::remove_file(&path).map_err(Error::io("the old name")),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Taken),
            // A file system without hard links.
            Err(_) => fs::rename(&path, &target).map_err(Error::io("renaming")),
        }
    }

    /// A trace's notes, if it has a place for them.
    pub fn notes(&self, name: &str) -> Option<String> {
        let (path, _) = self.find(name).ok()?;
        let facts = (format_of(&path, name) == Some("hitch"))
            .then(|| container::read_meta(&path).ok().flatten());
        facts.flatten().map(|(_, notes)| notes)
    }

    /// Replaces a trace's notes.
    pub fn annotate(&self, name: &str, notes: &str) -> Result<(), Error> {
        let (path, _) = self.find(name)?;
        if notes.len() > LONGEST_NOTES {
            return Err(Error::Parameter {
                parameter: "notes",
                found: "a very long text".to_owned(),
                expected: "at most 256 KiB".to_owned(),
            });
        }
        if format_of(&path, name) != Some("hitch") {
            return Err(Error::Refused("only NAME.hitch files have a place for notes"));
        }
        container::set_notes(&path, notes)
            .map_err(|error| Error::Unreadable(self.without_path(&error.to_string())))
    }

    /// Removes a trace.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.changeable()?;
        let (path, _) = self.find(name)?;
        fs::remove_file(path).map_err(Error::io("the trace"))
    }

    /// A message without the folder's path.
    pub fn without_path(&self, message: &str) -> String {
        let folder = self.folder.display().to_string();
        message.replace(&format!("{folder}/"), "").replace(&folder, "the folder")
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
                "a file name of at most {LONGEST_NAME} bytes, without slashes and without a dot at its start"
            );
            return Err(Error::Parameter { parameter: "name", found, expected });
        }
        // A dangling link is a name that is taken, too.
        if self.folder.join(name).symlink_metadata().is_ok() { Err(Error::Taken) } else { Ok(()) }
    }
}

/// One component of a path, visible, and the same on every system.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && !name.chars().any(|letter| letter.is_control() || "/\\:*?\"<>|".contains(letter))
}

/// The kind of trace that a file called `name` seems to be, by its first bytes.
fn format_of(path: &Path, name: &str) -> Option<&'static str> {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(39).read_to_end(&mut start)).ok()?;
    let ends = |extension: &str| name.to_ascii_lowercase().ends_with(extension);
    match start.as_slice() {
        // Every zip begins alike; in ours the first entry is the perf.data.
        [b'P', b'K', 3, 4, ..] if start.ends_with(b"perf.data") || ends(".hitch") => Some("hitch"),
        [b'P', b'K', 3, 4, ..] => Some("etl").filter(|_| container::holds_etl(path)),
        [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..]
        | [b'2', b'E', b'L', b'I', b'F', b'R', b'E', b'P', ..] => Some("perf.data"),
        // ETL files begin with the size of their buffers, which is no mark.
        [_, ..] if ends(".etl") => Some("etl"),
        _ => None,
    }
}

/// `2026-01-02T03:04:05Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Civil date from the count of days, in years that begin in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
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
