//! [`Server`]: a symbol server. Fetches its PDBs into a cache.
//!
//! Protocol: "SymSrv" of Microsoft's documentation: a GET of `SERVER/NAME/KEY/NAME`, where the key
//! is the GUID and the age. *Why the program `curl`*: Windows, macOS and nearly every Linux have
//! it, with the system's certificates and proxies. A linked client would be thirteen more crates to
//! build and to keep safe (`ureq`, C and assembly among them), for requests that most people never
//! make.

use super::{Pdb, PdbId};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tempfile::NamedTempFile;

/// Maximum time for fetching one file, seconds.
const MAX_FETCH_S: u64 = 3600;
/// Length of the HTTP status that curl writes behind the file, bytes.
const STATUS_LEN: u64 = 3;
/// curl's exit statuses for problems of the file, not the server: it ended early, or is too long.
const ENDED_EARLY: i32 = 18;
const TOO_LONG: i32 = 63;

/// How to fetch PDBs.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// Maximum length of a file, bytes.
    pub max_bytes: u64,
    /// Maximum time that a server may not answer or send anything (whole seconds).
    pub patience: Duration,
    /// Called with the URL of each file before the request.
    pub announce: fn(&str),
}

impl Default for Fetching {
    fn default() -> Self {
        // The largest known one has 4 GB, a browser's.
        Self { max_bytes: 8 << 30, patience: Duration::from_secs(30), announce: |_| {} }
    }
}

/// A server's answer to a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The file, fetched to this path.
    Fetched(PathBuf),
    /// The server does not have it.
    NotThere,
    /// Why it was not fetched.
    Failed(String),
}

/// A PDB's name and id.
type PdbKey = (String, PdbId);

/// A server with its answers. Nothing is requested twice.
#[derive(Debug)]
pub(super) struct Server {
    url: String,
    shown: String,
    cache: Option<PathBuf>,
    answers: Mutex<HashMap<PdbKey, Arc<OnceLock<Answer>>>>,
    /// Why it gets no more requests.
    given_up: OnceLock<String>,
}

/// Why a request failed: because of this file, or of the server.
enum Failure {
    NotThere,
    File(String),
    Server(String),
}

impl Server {
    pub(super) fn new(url: &str, cache: Option<PathBuf>) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        // `https://user:password@server/…`
        let shown = url.split_once("://").and_then(|(scheme, rest)| {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Some(format!("{scheme}://{}{path}", host.rsplit_once('@')?.1))
        });
        Self {
            shown: shown.unwrap_or_else(|| url.clone()),
            url,
            cache,
            answers: Mutex::default(),
            given_up: OnceLock::new(),
        }
    }

    /// Its URL without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    #[cfg(test)]
    pub(super) fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// Fetches the PDB called `name`, unless that was tried already.
    pub(super) fn request(&self, name: &str, id: PdbId, fetching: &Fetching) -> Answer {
        let answer = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.entry((name.to_owned(), id)).or_default())
        };
        let fetch = || {
            let fetched = match self.given_up.get() {
                Some(why) => Err(Failure::Server(why.clone())),
                None => self.fetch(name, id, fetching),
            };
            let reason = match fetched {
                Ok(path) => return Answer::Fetched(path),
                Err(Failure::NotThere) => return Answer::NotThere,
                Err(Failure::File(why)) => why,
                // If several requests run at once, the first failure counts for all.
                Err(Failure::Server(why)) => self.given_up.get_or_init(|| why).clone(),
            };
            Answer::Failed(format!("{} {reason}", self.shown))
        };
        answer.get_or_init(fetch).clone()
    }

    fn fetch(&self, name: &str, id: PdbId, fetching: &Fetching) -> Result<PathBuf, Failure> {
        let cache = self.cache.as_deref().ok_or_else(|| {
            Failure::Server("has no folder to fetch files into (srv*FOLDER*SERVER)".to_owned())
        })?;
        let unwritable = |error: io::Error| {
            Failure::Server(format!("was not asked: {}: {error}", cache.display()))
        };
        let mut file =
            fs::create_dir_all(cache).and_then(|()| new_file(cache)).map_err(unwritable)?;
        let (key, encoded) = (id.folder(), encoded(name));
        let place = format!("{encoded}/{key}/{encoded}");
        (fetching.announce)(&format!("{}/{place}", self.shown));
        get(&format!("{}/{place}", self.url), &mut file, fetching)?;
        match file.reopen().ok().and_then(Pdb::open) {
            Some(pdb) if pdb.id() == id => {}
            Some(_) => return Err(Failure::File("sent PDBs of other builds".to_owned())),
            None => return Err(Failure::File("sent something that is not a whole PDB".to_owned())),
        }
        let folder = cache.join(name).join(key);
        let path = folder.join(name);
        fs::create_dir_all(folder).and_then(|()| Ok(file.persist(&path)?)).map_err(unwritable)?;
        Ok(path)
    }
}

/// A file under a temporary name until it is complete, with the permissions of ordinary files.
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fetching-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Writes what is at `url` to `file`.
fn get(url: &str, file: &mut NamedTempFile, fetching: &Fetching) -> Result<(), Failure> {
    let broken = |error: io::Error| Failure::Server(format!("cannot be reached: {error}"));
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
    option("--max-time", MAX_FETCH_S.to_string());
    option("--max-filesize", fetching.max_bytes.to_string());
    option("--user-agent", concat!("unhitch/", env!("CARGO_PKG_VERSION")).to_owned());
    option("--write-out", "%{http_code}".to_owned());
    if ["http://127.0.0.1", "http://localhost"].iter().any(|here| url.starts_with(here)) {
        option("--noproxy", "*".to_owned());
    }
    // Not as an argument, which other users can see: it may contain a password.
    option("--config", "-".to_owned());
    let piped = Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().map_err(
        |error| match error.kind() {
            io::ErrorKind::NotFound => Failure::Server(
                "was not asked: this needs the program curl, which is not installed".to_owned(),
            ),
            _ => broken(error),
        },
    )?;
    let mut copy = || {
        // If curl does not read the URL, it says why on standard error.
        let _ = child.stdin.take().map(|mut stdin| writeln!(stdin, "url = {url:?}"));
        let max_len = fetching.max_bytes.saturating_add(STATUS_LEN);
        child
            .stdout
            .take()
            .map_or(Ok(0), |out| io::copy(&mut out.take(max_len.saturating_add(1)), file))
            .map(|len| (len, len > max_len))
    };
    let copied = copy();
    if copied.as_ref().map_or(true, |(_, is_too_long)| *is_too_long) {
        // The rest of the file is not needed.
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(broken)?;
    let too_long =
        || Failure::File(format!("sent more than {} MiB for a PDB", fetching.max_bytes >> 20));
    let (len, is_too_long) = copied.map_err(broken)?;
    if is_too_long {
        return Err(too_long());
    }
    let len = len.saturating_sub(STATUS_LEN);
    let mut status = String::new();
    let file = file.as_file_mut();
    file.seek(SeekFrom::Start(len))
        .and_then(|_| file.read_to_string(&mut status))
        .and_then(|_| file.set_len(len))
        .map_err(broken)?;
    match (output.status.code(), status.as_str()) {
        (Some(0), "200") => Ok(()),
        (Some(TOO_LONG), _) => Err(too_long()),
        (Some(ENDED_EARLY), _) => {
            Err(Failure::File("stopped before the end of the PDB".to_owned()))
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

/// Percent-encodes a name for a URL.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown_and_names_are_encoded() {
        let shown = |url: &str| Server::new(url, None).shown().to_owned();
        assert_eq!(shown("https://me:secret@host:8080/store/"), "https://host:8080/store");
        assert_eq!(shown("https://host/a@b"), "https://host/a@b");
        assert_eq!(encoded("a b\u{e9}%?#.pdb"), "a%20b%C3%A9%25%3F%23.pdb");
    }
}
