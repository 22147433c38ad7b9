//! What a command takes from its options, or else from the user's environment and configuration.

use crate::args::{ReadingArgs, RulesArgs};
use crate::terminal::note;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unhitch_symbols::{Allowance, Debuginfod, Fetching, SymbolPath};

/// The variable with the path of PDBs.
pub const PDB_PATH: &str = "_NT_SYMBOL_PATH";
/// The variable with the servers of debug files.
pub const DEBUG_SERVERS: &str = "DEBUGINFOD_URLS";

/// Maximum length of a program or debug file from a server, bytes. Longer ones are not read.
const MAX_DEBUG_FILE_BYTES: u64 = 1 << 30;
/// Maximum time for fetching one.
const MAX_DEBUG_FILE_TIME: Duration = Duration::from_secs(600);
/// Maximum number of requests for them by one command, and of bytes in all answers.
const MAX_DEBUG_REQUESTS: u64 = 500;
const MAX_DEBUG_BYTES: u64 = 8 << 30;

/// Where to look for PDBs: from the options, or else the environment.
pub fn symbol_path(args: &ReadingArgs) -> SymbolPath {
    let path = args.symbols.clone().or_else(|| trusted(PDB_PATH)).unwrap_or_default();
    let cache =
        user_folder(if cfg!(windows) { "LOCALAPPDATA" } else { "XDG_CACHE_HOME" }, ".cache");
    SymbolPath::parse(&path, cache.map(|cache| cache.join("unhitch/symbols")).as_deref())
}

/// Where to look for debug files that are not on this machine: the servers that the environment
/// names.
pub fn debuginfod() -> Option<Debuginfod> {
    let urls = trusted(DEBUG_SERVERS)?;
    let own =
        || user_folder("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("debuginfod_client"));
    let cache = std::env::var_os("DEBUGINFOD_CACHE_PATH").filter(|path| !path.is_empty());
    let fetching = Fetching {
        max_bytes: MAX_DEBUG_FILE_BYTES,
        max_time: MAX_DEBUG_FILE_TIME,
        allowance: Allowance::new(MAX_DEBUG_REQUESTS, MAX_DEBUG_BYTES),
        ..fetching()
    };
    let found = Debuginfod::parse(&urls, cache.map(PathBuf::from).or_else(own)?, fetching);
    (!found.is_empty()).then_some(found)
}

/// True if the environment has this variable, and it is not used because this is root.
pub fn refuses(variable: &str) -> bool {
    unhitch_confine::is_root() && environment(variable).is_some()
}

/// What this variable says about symbols, if it may be used. *Why not by root*: what an ordinary
/// user puts into the environment must not make root send requests, and read and write files.
fn trusted(variable: &str) -> Option<String> {
    environment(variable).filter(|_| !unhitch_confine::is_root())
}

fn environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}

/// How files are fetched: with a line for each.
pub fn fetching() -> Fetching {
    let announce = |url: &str| note(&format!("unhitch: fetching {url}"));
    Fetching { announce, ..Fetching::default() }
}

/// The file of wait rules: the given one, or else the one in the user's configuration, if any.
pub fn rules_file(args: &RulesArgs) -> Option<PathBuf> {
    let configured = || {
        user_folder("XDG_CONFIG_HOME", ".config")
            .map(|folder| folder.join("unhitch/waits.toml"))
            .filter(|path| path.exists())
    };
    args.file.clone().or_else(configured)
}

/// A folder of the user: the one named by `variable`, or else `name` in the home folder.
fn user_folder(variable: &str, name: &str) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(name));
    std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(Into::into).or_else(home)
}
