//! [`Server`]: a server of symbol files. What it sends is checked, and kept in a folder.

use crate::fetch::{self, Failure, Fetching};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A server's answer to a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The file, fetched to this path.
    Fetched(PathBuf),
    /// The server does not have it.
    NotThere,
    /// Why it was not fetched.
    Failed(String),
}

/// A file that a server may have.
pub(crate) struct Request<'a> {
    /// Its path below the server's URL, percent-encoded.
    pub(crate) place: String,
    /// What kind of file it is, for messages.
    pub(crate) what: &'a str,
    /// The folder of fetched files.
    pub(crate) cache: &'a Path,
    /// Its path in that folder.
    pub(crate) kept_at: PathBuf,
    /// Checks what was sent, and returns what is wrong with it.
    pub(crate) check: &'a dyn Fn(File) -> Result<(), &'static str>,
}

/// A server with its answers. Nothing is requested twice.
#[derive(Debug)]
pub(crate) struct Server {
    url: String,
    shown: String,
    answers: Mutex<HashMap<String, Arc<OnceLock<Answer>>>>,
    /// Why it gets no more requests.
    given_up: OnceLock<String>,
}

impl Server {
    /// A server that gets no requests, and why.
    pub(crate) fn given_up(url: &str, why: &str) -> Self {
        Self { given_up: why.to_owned().into(), ..Self::new(url) }
    }

    pub(crate) fn new(url: &str) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        // `https://user:password@server/…`
        let shown = url.split_once("://").and_then(|(scheme, rest)| {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            Some(format!("{scheme}://{}{path}", host.rsplit_once('@')?.1))
        });
        Self {
            shown: shown.unwrap_or_else(|| url.clone()),
            url,
            answers: Mutex::default(),
            given_up: OnceLock::new(),
        }
    }

    /// Its URL without a password.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Fetches a file, unless that was tried already.
    pub(crate) fn request(&self, request: &Request<'_>, fetching: &Fetching) -> Answer {
        let answer = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(answers.entry(request.place.clone()).or_default())
        };
        let fetch = || {
            let fetched = match self.given_up.get() {
                Some(why) => Err(Failure::Server(why.clone())),
                None => self.fetch(request, fetching),
            };
            let reason = match fetched {
                Ok(path) => return Answer::Fetched(path),
                Err(Failure::NotThere) => return Answer::NotThere,
                Err(Failure::File(why)) => why,
                // If several requests run at once, the first failure counts for all.
                Err(Failure::Server(why)) => self.given_up.get_or_init(|| why).clone(),
                Err(Failure::Folder(error)) => {
                    let (what, cache) = (request.what, request.cache.display());
                    let why = || format!("sent a {what} that cannot be kept: {cache}: {error}");
                    self.given_up.get_or_init(why).clone()
                }
            };
            Answer::Failed(format!("{} {reason}", self.shown))
        };
        answer.get_or_init(fetch).clone()
    }

    fn fetch(&self, request: &Request<'_>, fetching: &Fetching) -> Result<PathBuf, Failure> {
        let Request { place, what, cache, kept_at, check } = request;
        let unwritable = |error: io::Error| {
            Failure::Server(format!("was not asked: {}: {error}", cache.display()))
        };
        let mut file = fetch::new_file(cache, fetching.max_time).map_err(unwritable)?;
        fetching.allowance.take_request()?;
        (fetching.announce)(&format!("{}/{place}", self.shown));
        fetch::get(&format!("{}/{place}", self.url), what, &mut file, fetching)?;
        let sent = file.reopen().map_err(Failure::Folder)?;
        check(sent).map_err(|wrong| Failure::File(wrong.to_owned()))?;
        let path = cache.join(kept_at);
        let folder = path.parent().unwrap_or(cache);
        fs::create_dir_all(folder)
            .and_then(|()| Ok(file.persist(&path)?))
            .map_err(Failure::Folder)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |url: &str| Server::new(url).shown().to_owned();
        assert_eq!(shown("https://me:secret@host:8080/store/"), "https://host:8080/store");
        assert_eq!(shown("https://host/a@b"), "https://host/a@b");
    }
}
