//! [`SymbolPath`]: where to look for PDBs, in the syntax of `_NT_SYMBOL_PATH`.
//!
//! Format: "Symbol path for Windows debuggers" and "Using SymStore" of Microsoft's documentation:
//! folders, `cache*FOLDER`, and `srv*CACHE*…*SERVER`, with semicolons between them. *Why all
//! folders come before any server*: the id proves that a PDB is the right one, so the order only
//! changes how much goes over the network.

use super::server::PdbServer;
use super::{Pdb, PdbId};
use crate::fetch::Fetching;
use crate::files::open_regular;
use crate::server::Answer;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders to search in order, and servers to ask for PDBs that are in none of them. Clones share
/// the servers' answers.
#[derive(Clone, Default, Debug)]
pub struct SymbolPath {
    folders: Vec<PathBuf>,
    servers: Vec<Arc<PdbServer>>,
}

/// Why a PDB was not found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum NoPdb {
    /// In none of the folders, and on no server.
    NotThere,
    /// Only PDBs of other builds were found.
    OtherBuild,
    /// It is not a PDB, or is damaged.
    Damaged,
    /// A server may have it but did not send it; which one, and why.
    NotFetched(String),
    /// The store has it as a cabinet.
    Compressed,
}

impl SymbolPath {
    /// Parses `text` in the syntax of `_NT_SYMBOL_PATH`. Fetched files go into the first folder of
    /// the server's `srv*` element, else of the `cache*` element before it, else into `user_cache`.
    /// Without any of these, the server gets no requests.
    pub fn parse(text: &str, user_cache: Option<&Path>) -> Self {
        let mut path = Self::default();
        let mut cache = user_cache.map(Path::to_path_buf);
        for element in text.split(';').map(str::trim).filter(|element| !element.is_empty()) {
            let (kind, rest) = element.split_once('*').unwrap_or(("", element));
            let kind = kind.to_ascii_lowercase();
            let parts =
                rest.split('*').skip(usize::from(kind == "symsrv")).filter(|part| !part.is_empty());
            let (servers, stores): (Vec<&str>, Vec<&str>) =
                parts.partition(|part| part.contains("://"));
            let store = stores.first().map(PathBuf::from);
            path.folders.extend(stores.iter().map(PathBuf::from));
            if kind == "cache" {
                cache = store.clone();
            }
            for url in servers {
                let cache = store.as_ref().or(cache.as_ref());
                path.folders.extend(cache.filter(|cache| !path.folders.contains(cache)).cloned());
                path.servers.push(Arc::new(PdbServer::new(url, cache.cloned())));
            }
        }
        path
    }

    /// True if there is nowhere to look.
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.servers.is_empty()
    }

    /// The folders to search. Fetched files go into one of them.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// True if servers are asked for PDBs that are in none of the folders.
    pub fn has_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The URLs of the servers, without passwords.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.shown())
    }

    /// Opens the PDB with this id. `recorded` is the path to which the linker wrote it on the build
    /// machine.
    pub(crate) fn find(
        &self,
        recorded: &str,
        id: PdbId,
        fetching: &Fetching,
    ) -> Result<Pdb<File>, NoPdb> {
        let name = recorded.rsplit(['/', '\\']).next().unwrap_or_default();
        if name.is_empty() || name == "." || name == ".." || name.contains(':') {
            return Err(NoPdb::NotThere);
        }
        let mut why = NoPdb::NotThere;
        let open = |path: &Path| match open_regular(path) {
            Ok(file) => match Pdb::open(file) {
                Some(pdb) if pdb.id() == id => Ok(pdb),
                Some(_) => Err(NoPdb::OtherBuild),
                None => Err(NoPdb::Damaged),
            },
            Err(_) if is_there_compressed(path) => Err(NoPdb::Compressed),
            Err(_) => Err(NoPdb::NotThere),
        };
        let near = self
            .folders
            .iter()
            .flat_map(|folder| candidates(folder, name, id))
            .map(Answer::Fetched);
        let far = self.servers.iter().map(|server| server.request(name, id, fetching));
        for answer in near.chain(far) {
            let found = match answer {
                Answer::Fetched(path) => open(&path),
                Answer::NotThere => Err(NoPdb::NotThere),
                Answer::Failed(reason) => Err(NoPdb::NotFetched(reason)),
            };
            match found {
                Ok(pdb) => return Ok(pdb),
                Err(found) => why = why.max(found),
            }
        }
        Err(why)
    }
}

/// Where a PDB may lie in a folder: as in a symbol store, as in a store with two levels, or
/// directly in the folder.
fn candidates(folder: &Path, name: &str, id: PdbId) -> Vec<PathBuf> {
    let key = id.folder();
    let mut stores = Vec::new();
    // Windows servers ignore case; folders on other systems do not.
    for name in [name.to_owned(), name.to_ascii_lowercase()] {
        let level = name.get(..2).unwrap_or_default().to_owned();
        for key in [key.clone(), key.to_ascii_lowercase()] {
            stores.push(folder.join(&name).join(&key).join(&name));
            stores.push(folder.join(&level).join(&name).join(&key).join(&name));
        }
        stores.push(folder.join(&name));
        stores.push(folder.join("symbols").join("pdb").join(&name));
    }
    stores.dedup();
    stores
}

/// A store may hold `NAME.pd_` in place of `NAME.pdb`.
fn is_there_compressed(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.get(..text.len().saturating_sub(1))
        .is_some_and(|stem| Path::new(&format!("{stem}_")).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(path: &SymbolPath) -> Vec<&str> {
        path.folders.iter().map(|folder| folder.to_str().unwrap()).collect()
    }

    #[test]
    fn all_forms_of_an_element_are_known() {
        let text = "C:\\own;srv*/cache*https://msdl.microsoft.com/download/symbols; cache*/more ;;SRV*\\\\share\\symbols";
        let path = SymbolPath::parse(text, None);
        assert_eq!(folders(&path), ["C:\\own", "/cache", "/more", "\\\\share\\symbols"]);
        assert_eq!(
            path.servers().collect::<Vec<_>>(),
            ["https://msdl.microsoft.com/download/symbols"]
        );
        let path = SymbolPath::parse("symsrv*symsrv.dll*/a*/b*https://x", None);
        assert_eq!((folders(&path), path.servers().count()), (vec!["/a", "/b"], 1));
        assert!(SymbolPath::parse(" ; srv**;", Some(Path::new("/user"))).is_empty());
    }

    #[test]
    fn what_servers_give_goes_into_the_cache_that_the_path_says() {
        let caches = |text: &str| {
            let path = SymbolPath::parse(text, Some(Path::new("/user")));
            let caches = path
                .servers
                .iter()
                .map(|server| server.cache().unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>();
            assert!(
                caches.iter().all(|cache| folders(&path).contains(&cache.as_str())),
                "what was fetched is found again: {path:?}"
            );
            caches
        };
        assert_eq!(caches("srv*/a*/b*https://x;srv*https://y"), ["/a", "/user"]);
        assert_eq!(caches("srv**https://x"), ["/user"]);
        assert_eq!(
            caches("srv*https://x;cache*/c;srv*https://y;srv*/d*https://z"),
            ["/user", "/c", "/d"]
        );
        assert_eq!(caches("https://x"), ["/user"]);
        assert_eq!(SymbolPath::parse("srv*https://x", None).servers[0].cache(), None);
    }

    #[test]
    fn a_recorded_path_never_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = SymbolPath { folders: vec![folder.path().join("inner")], servers: Vec::new() };
        std::fs::write(folder.path().join("secret"), b"x").unwrap();
        let id = PdbId { guid: [1; 16], age: 1 };
        for recorded in ["..", "a\\..", "../secret", "c:secret", ""] {
            assert_eq!(
                path.find(recorded, id, &Fetching::default()).err(),
                Some(NoPdb::NotThere),
                "{recorded}"
            );
        }
    }
}
