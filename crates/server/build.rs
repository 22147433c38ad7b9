//! Embeds the page, if it was built: every file of `ui/dist` becomes an entry of a table. The crate
//! builds without it, too.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let ui = crate_folder.join("../../ui");
    let built = ui.join("dist");
    // Cargo rebuilds each time if a watched path is missing. So until npm has run, watch the parent
    // folder, which npm will change; it is small until then.
    let is_npm_run = ui.join("node_modules").exists();
    let watched =
        [(&built, built.exists() || is_npm_run), (&ui, ui.exists()), (&crate_folder, true)];
    let (watched, _) = watched.iter().find(|(_, fits)| *fits).expect("the last one fits");
    println!("cargo::rerun-if-changed={}", watched.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(&built, &mut files);
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file
            .strip_prefix(&built)
            .expect("it was found there")
            .to_string_lossy()
            .replace('\\', "/");
        let path = file.canonicalize().unwrap_or_else(|_| file.clone());
        let _ =
            writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    table.push_str("]\n");
    fs::write(out.join("files.rs"), table).expect("cargo's output folder can be written");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_none_or(|extension| extension != "map") {
            files.push(path);
        }
    }
}
