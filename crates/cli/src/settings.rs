//! What a command takes from its options, or else from the user's environment and configuration.

use crate::args::{ReadingArgs, RulesArgs};
use std::path::{Path, PathBuf};
use unhitch_symbols::SymbolPath;

/// Where to look for PDBs: from the options, or else the environment.
pub fn symbol_path(args: &ReadingArgs) -> SymbolPath {
    let path =
        args.symbols.clone().or_else(|| std::env::var("_NT_SYMBOL_PATH").ok()).unwrap_or_default();
    let cache =
        user_folder(if cfg!(windows) { "LOCALAPPDATA" } else { "XDG_CACHE_HOME" }, ".cache");
    SymbolPath::parse(&path, cache.map(|cache| cache.join("unhitch/symbols")).as_deref())
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
