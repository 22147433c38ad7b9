//! [`Debuginfod`]: servers that have the programs and debug files of distributions, by build id.
//!
//! Protocol: `debuginfod(8)`: a GET of `SERVER/buildid/BUILDID/debuginfo` or `…/executable`. The
//! folder of fetched files has the layout of `debuginfod_find_debuginfo(3)`,
//! `BUILDID/debuginfo`, so that gdb and other programs share it. *Why no server is asked that must
//! sign its files*: signatures cannot be checked here, and those programs trust what is in the
//! folder.

use crate::elf::Elf;
use crate::fetch::Fetching;
use crate::files::open_regular;
use crate::server::{Answer, Request, Server};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use unhitch_model::units::hex;

/// Lengths of build ids, bytes. Linkers make 8, 16 or 20.
const BUILD_ID_LEN: std::ops::RangeInclusive<usize> = 4..=64;

/// Why a server is not asked.
const UNSIGNED: &str =
    "was not asked: DEBUGINFOD_URLS demands signatures (ima:enforcing), which unhitch cannot check";

/// Servers to ask for programs and debug files. Clones share the answers.
#[derive(Clone, Debug, Default)]
pub struct Debuginfod {
    servers: Vec<Arc<Server>>,
    cache: PathBuf,
    fetching: Fetching,
    failures: Arc<Mutex<BTreeSet<String>>>,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The program or library itself.
    Executable,
    /// Its debug file.
    DebugInfo,
}

impl Debuginfod {
    /// The servers in `urls`, in the syntax of `DEBUGINFOD_URLS`: separated by blanks. Those after
    /// `ima:enforcing` must sign their files, until `ima:ignore`. Fetched files go into `cache`.
    pub fn parse(urls: &str, cache: PathBuf, fetching: Fetching) -> Self {
        let (mut must_sign, mut servers) = (false, Vec::new());
        for word in urls.split_ascii_whitespace() {
            if let Some(policy) = word.strip_prefix("ima:") {
                must_sign = policy != "ignore";
            } else if word.starts_with("http://") || word.starts_with("https://") {
                servers.push(Arc::new(match must_sign {
                    true => Server::given_up(word, UNSIGNED),
                    false => Server::new(word),
                }));
            }
        }
        Self { servers, cache, fetching, failures: Arc::default() }
    }

    /// True if there is no server to ask.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Finds a file with this build id, among those fetched before or on the servers.
    pub(crate) fn find(&self, kind: Kind, build_id: &[u8]) -> Option<PathBuf> {
        if self.is_empty() || !BUILD_ID_LEN.contains(&build_id.len()) {
            return None;
        }
        let hex = hex(build_id);
        let (name, what) = match kind {
            Kind::Executable => ("executable", "program"),
            Kind::DebugInfo => ("debuginfo", "debug file"),
        };
        let kept_at = Path::new(&hex).join(name);
        let check = |sent: File| match Elf::read(sent) {
            Some(elf) if elf.build_id == build_id => Ok(()),
            Some(_) => Err("sent files of other builds"),
            None => Err("sent something that is not an ELF file"),
        };
        let known = self.cache.join(&kept_at);
        if open_regular(&known).is_ok_and(|file| check(file).is_ok()) {
            return Some(known);
        }
        let place = format!("buildid/{hex}/{name}");
        let request = Request { place, what, cache: &self.cache, kept_at, check: &check };
        self.servers.iter().find_map(|server| match server.request(&request, &self.fetching) {
            Answer::Fetched(path) => Some(path),
            Answer::NotThere => None,
            Answer::Failed(why) => {
                self.failures.lock().unwrap_or_else(PoisonError::into_inner).insert(why);
                None
            }
        })
    }

    /// True if the file at `path` is one that was fetched.
    pub(crate) fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.cache)
    }

    /// Why files were not fetched, one line per reason, since the last call.
    pub(crate) fn take_failures(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
