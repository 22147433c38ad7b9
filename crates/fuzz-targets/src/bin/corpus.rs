//! Unpacks and updates the kept corpora; `tools/fuzz` runs it.
//!
//! `corpus targets` lists the targets, `corpus unpack TARGET FOLDER` writes its seeds and kept
//! inputs, `corpus keep TARGET FOLDER` keeps the folder's inputs, `corpus find TARGET NAME FILE`
//! keeps a find, `corpus run TARGET FILE…` runs inputs without a fuzzer. *Why small ones first*:
//! among inputs that reach the same code, the smallest is kept (libFuzzer's merge has dropped the
//! others), and inputs beyond a target's share are left out.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};
use unhitch_fuzz_targets::{TARGETS, Target, corpus, one_thread, run, seeds};

/// Maximum length of the packed inputs of one target, bytes. All targets together stay below a few
/// hundred KiB.
const MAX_KEPT_LEN: usize = 16 << 10;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["targets"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["unpack", name, folder] => unpack(name, Path::new(folder)),
        ["keep", name, folder] => keep(name, Path::new(folder)),
        ["find", name, input, file] => find(name, input, Path::new(file)),
        ["run", name, files @ ..] => run_files(name, files),
        _ => Err(io::Error::other(
            "usage: corpus targets | unpack TARGET FOLDER | keep TARGET FOLDER | \
             find TARGET NAME FILE | run TARGET FILE…",
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn named(name: &str) -> io::Result<&'static Target> {
    Target::named(name).ok_or_else(|| io::Error::other(format!("no target is called {name}")))
}

fn unpack(name: &str, folder: &Path) -> io::Result<()> {
    let seeds = seeds::of(named(name)?.name)
        .into_iter()
        .enumerate()
        .map(|(number, bytes)| (format!("seed-{number}"), bytes));
    fs::create_dir_all(folder)?;
    seeds
        .chain(corpus::read(name)?)
        .try_for_each(|(input, bytes)| fs::write(folder.join(input), bytes))
}

/// Keeps the inputs of a folder. Seeds need not be kept; finds (`find-…`) always are.
fn keep(name: &str, folder: &Path) -> io::Result<()> {
    let seeds = seeds::of(named(name)?.name);
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        inputs.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    let finds = corpus::read(name)?.into_iter().filter(|(input, _)| input.starts_with("find-"));
    inputs.retain(|(input, bytes)| !input.starts_with("find-") && !seeds.contains(bytes));
    inputs.extend(finds);
    inputs.sort_by_key(|(input, bytes)| (!input.starts_with("find-"), bytes.len(), input.clone()));
    corpus::write(name, &inputs, MAX_KEPT_LEN)
}

/// Adds a find, as `find-NAME`.
fn find(name: &str, input: &str, file: &Path) -> io::Result<()> {
    let mut inputs = corpus::read(named(name)?.name)?;
    inputs.insert(0, (format!("find-{input}"), fs::read(file)?));
    corpus::write(name, &inputs, MAX_KEPT_LEN)
}

fn run_files(name: &str, files: &[&str]) -> io::Result<()> {
    let target = named(name)?;
    one_thread();
    files.iter().try_for_each(|file| fs::read(file).map(|bytes| run(target, &bytes)))
}
