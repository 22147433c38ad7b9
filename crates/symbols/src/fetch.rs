//! Fetches a file from a server with the program `curl`.
//!
//! *Why the program*: Windows, macOS and nearly every Linux have it, with the system's certificates
//! and proxies. A linked client would be thirteen more crates to build and to keep safe (`ureq`, C
//! and assembly among them), for requests that most people never make.

use crate::budget::Budget;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;
use unhitch_model::units;

/// Length of the HTTP status that curl writes behind the file, bytes.
const STATUS_LEN: u64 = 3;
/// curl's exit statuses for problems of the file, not the server: it ended early, or is too long.
const ENDED_EARLY: i32 = 18;
const TOO_LONG: i32 = 63;

/// How the names of files that are being fetched begin.
const UNFINISHED: &str = ".fetching-";

/// How to fetch files from servers.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// Maximum length of a file, bytes.
    pub max_bytes: u64,
    /// Maximum time for one file (whole seconds).
    pub max_time: Duration,
    /// Maximum time that a server may not answer or send anything (whole seconds).
    pub patience: Duration,
    /// What may be fetched in all.
    pub allowance: Allowance,
    /// Called with the URL of each file before the request.
    pub announce: fn(&str),
}

impl Default for Fetching {
    fn default() -> Self {
        Self {
            // The largest known PDB has 4 GB, a browser's.
            max_bytes: 8 << 30,
            max_time: Duration::from_secs(3600),
            patience: Duration::from_secs(30),
            // A trace of Windows has some hundred images.
            allowance: Allowance::new(2_000, 64 << 30),
            announce: |_| {},
        }
    }
}

/// What may be fetched in all. Clones share it. *Why there is a limit*: a trace decides which files
/// are asked for, and it may be a stranger's.
#[derive(Clone, Debug)]
pub struct Allowance {
    max: (u64, u64),
    left: Arc<(Budget, Budget)>,
}

impl Allowance {
    /// This many requests, and this many bytes in all files.
    pub fn new(requests: u64, bytes: u64) -> Self {
        let left = Arc::new((Budget::new(requests), Budget::new(bytes)));
        Self { max: (requests, bytes), left }
    }

    /// Takes one request.
    pub(crate) fn take_request(&self) -> Result<(), Failure> {
        if self.left.0.take(1) { Ok(()) } else { Err(self.exhausted()) }
    }

    fn take_bytes(&self, bytes: u64) -> Result<(), Failure> {
        if self.left.1.take(bytes) { Ok(()) } else { Err(self.exhausted()) }
    }

    fn exhausted(&self) -> Failure {
        let (requests, bytes) = (units::count(self.max.0), units::bytes(self.max.1));
        Failure::Server(format!(
            "is not asked any more: the limit for one command is {requests} requests and {bytes}"
        ))
    }
}

/// Why a request failed: because of this file, of the server, or of the folder that it goes into.
pub(crate) enum Failure {
    NotThere,
    File(String),
    Server(String),
    Folder(io::Error),
}

/// A file under a temporary name until it is complete, with the permissions of ordinary files.
/// Removes those that were left when a command was killed: what has not been written to for
/// `max_time` is being fetched by nobody.
pub(crate) fn new_file(folder: &Path, max_time: Duration) -> io::Result<NamedTempFile> {
    fs::create_dir_all(folder)?;
    let too_old = SystemTime::now().checked_sub(max_time);
    for entry in fs::read_dir(folder)?.flatten() {
        let is_old = || Some(entry.metadata().ok()?.modified().ok()? < too_old?);
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) && is_old() == Some(true) {
            // Perhaps another command has removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(UNFINISHED);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Writes what is at `url` to `file`. `what` it is, for messages.
pub(crate) fn get(
    url: &str,
    what: &str,
    file: &mut NamedTempFile,
    fetching: &Fetching,
) -> Result<(), Failure> {
    let piped = Stdio::piped;
    let mut child =
        command(url, fetching).stdin(piped()).stdout(piped()).stderr(piped()).spawn().map_err(
            |error| match error.kind() {
                io::ErrorKind::NotFound => Failure::Server(
                    "was not asked: this needs the program curl, which is not installed".to_owned(),
                ),
                _ => broken(error),
            },
        )?;
    // If curl does not read the URL, it says why on standard error.
    let _ = child.stdin.take().map(|mut stdin| writeln!(stdin, "url = {url:?}"));
    let sent = child.stdout.take().map(|sent| copy(sent, file, what, fetching));
    let copied = sent.unwrap_or(Ok(0));
    if copied.is_err() {
        // The rest of the file is not needed.
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(broken)?;
    let len = copied?.saturating_sub(STATUS_LEN);
    let mut status = String::new();
    let file = file.as_file_mut();
    file.seek(SeekFrom::Start(len))
        .and_then(|_| file.read_to_string(&mut status))
        .and_then(|_| file.set_len(len))
        .map_err(Failure::Folder)?;
    match (output.status.code(), status.as_str()) {
        (Some(0), "200") => Ok(()),
        (Some(TOO_LONG), _) => Err(too_long(what, fetching)),
        (Some(ENDED_EARLY), _) => {
            Err(Failure::File(format!("stopped before the end of the {what}")))
        }
        (_, "404" | "410") => Err(Failure::NotThere),
        // A server may refuse single files. Other statuses apply to all.
        (_, "403") => Err(Failure::File("answered with status 403".to_owned())),
        (Some(0 | 22), status) => Err(Failure::Server(format!("answered with status {status}"))),
        // For some errors curl prints much more than the reason.
        _ => Err(Failure::Server(format!(
            "did not answer ({})",
            String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default()
        ))),
    }
}

/// Copies all that `sent` has to `file`, within the limits. Returns its length.
fn copy(
    mut sent: impl Read,
    file: &mut NamedTempFile,
    what: &str,
    fetching: &Fetching,
) -> Result<u64, Failure> {
    let max_len = fetching.max_bytes.saturating_add(STATUS_LEN);
    let (mut len, mut chunk) = (0, vec![0; 64 << 10]);
    loop {
        let read = match sent.read(&mut chunk) {
            Ok(0) => return Ok(len),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(error)),
        };
        len += read as u64;
        if len > max_len {
            return Err(too_long(what, fetching));
        }
        fetching.allowance.take_bytes(read as u64)?;
        file.write_all(&chunk[..read]).map_err(Failure::Folder)?;
    }
}

fn broken(error: io::Error) -> Failure {
    Failure::Server(format!("cannot be reached: {error}"))
}

fn too_long(what: &str, fetching: &Fetching) -> Failure {
    Failure::File(format!("sent more than {} MiB for a {what}", fetching.max_bytes >> 20))
}

/// The program and its options. The URL is not among them, because other users can see options,
/// and it may contain a password.
fn command(url: &str, fetching: &Fetching) -> Command {
    let mut command = Command::new("curl");
    let mut option = |name: &str, value: String| {
        command.arg(name).arg(value);
    };
    let patience = fetching.patience.as_secs().max(1).to_string();
    // First, so that the user's own options cannot change the output.
    option("--disable", "--silent".to_owned());
    option("--show-error", "--fail".to_owned());
    option("--location", "--globoff".to_owned());
    option("--max-redirs", 5.to_string());
    option("--proto", if url.starts_with("https:") { "=https" } else { "=http,https" }.to_owned());
    option("--connect-timeout", patience.clone());
    option("--speed-time", patience);
    option("--speed-limit", 1.to_string());
    option("--max-time", fetching.max_time.as_secs().max(1).to_string());
    option("--max-filesize", fetching.max_bytes.to_string());
    option("--user-agent", concat!("unhitch/", env!("CARGO_PKG_VERSION")).to_owned());
    option("--write-out", "%{http_code}".to_owned());
    if ["http://127.0.0.1", "http://localhost"].iter().any(|here| url.starts_with(here)) {
        option("--noproxy", "*".to_owned());
    }
    option("--config", "-".to_owned());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_files_of_killed_commands_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let hour = Duration::from_secs(3600);
        for (name, age) in
            [(".fetching-old", 2 * hour), (".fetching-new", hour / 2), ("kept", 2 * hour)]
        {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        let file = new_file(dir.path(), hour).unwrap();
        let is_there = |name: &str| dir.path().join(name).exists();
        assert_eq!([".fetching-old", ".fetching-new", "kept"].map(is_there), [false, true, true]);
        assert!(file.path().exists());
    }

    /// `/dev/full` is a disk that is full.
    #[cfg(target_os = "linux")]
    #[test]
    fn regression_a_full_disk_is_not_the_servers_fault() {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let path = NamedTempFile::new().unwrap().into_temp_path();
        let mut file = NamedTempFile::from_parts(full, path);
        let copied = copy(&b"ELF"[..], &mut file, "program", &Fetching::default());
        assert!(matches!(copied, Err(Failure::Folder(_))));
    }
}
