//! [`PdbServer`]: a symbol server of PDBs.
//!
//! Protocol: "SymSrv" of Microsoft's documentation: a GET of `SERVER/NAME/KEY/NAME`, where the key
//! is the GUID and the age. Fetched files are kept in a folder of the same layout.

use super::{Pdb, PdbId};
use crate::fetch::Fetching;
use crate::server::{Answer, Request, Server};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A symbol server, and the folder that its PDBs are kept in.
#[derive(Debug)]
pub(super) struct PdbServer {
    server: Server,
    cache: Option<PathBuf>,
}

impl PdbServer {
    pub(super) fn new(url: &str, cache: Option<PathBuf>) -> Self {
        Self { server: Server::new(url), cache }
    }

    /// Its URL without a password.
    pub(super) fn shown(&self) -> &str {
        self.server.shown()
    }

    #[cfg(test)]
    pub(super) fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// Fetches the PDB called `name`, unless that was tried already.
    pub(super) fn request(&self, name: &str, id: PdbId, fetching: &Fetching) -> Answer {
        let Some(cache) = &self.cache else {
            return Answer::Failed(format!(
                "{} has no folder to fetch files into (srv*FOLDER*SERVER)",
                self.shown()
            ));
        };
        let (key, encoded) = (id.folder(), encoded(name));
        let check = |sent: File| match Pdb::open(sent) {
            Some(pdb) if pdb.id() == id => Ok(()),
            Some(_) => Err("sent PDBs of other builds"),
            None => Err("sent something that is not a whole PDB"),
        };
        let request = Request {
            place: format!("{encoded}/{key}/{encoded}"),
            what: "PDB",
            cache,
            kept_at: Path::new(name).join(key).join(name),
            check: &check,
        };
        self.server.request(&request, fetching)
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
    fn names_are_encoded() {
        assert_eq!(encoded("a b\u{e9}%?#.pdb"), "a%20b%C3%A9%25%3F%23.pdb");
    }
}
