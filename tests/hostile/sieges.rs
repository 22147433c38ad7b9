//! Attacks that continue while root records, watches, saves, scans and reads traces.

use crate::attacker::JIT_AVMA;
use crate::elf::{self, Library, Sections};
use crate::harness::{Attacker, Attempt, Stage};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The attackers, and what they must not reach.
#[derive(Default)]
pub struct Siege {
    /// Dropped in this order.
    pub attackers: Vec<Attacker>,
    /// Files of root that nobody may read meanwhile.
    pub unread: Vec<PathBuf>,
    /// Files that nobody may even open, because opening or reading has side effects.
    pub unopened: Vec<PathBuf>,
}

impl From<Attacker> for Siege {
    fn from(attacker: Attacker) -> Self {
        Self { attackers: vec![attacker], ..Self::default() }
    }
}

const PLAIN: Library =
    Library { function: "hostile_spin", more_functions: 0, assembly: "", flags: &["-g"] };

/// A library that the user may change.
fn library(stage: &Stage, name: &str, library: &Library) -> Attempt<String> {
    let path = stage.mine(name);
    library.write(Path::new(&path))?;
    Ok(path)
}

fn plain(stage: &Stage) -> Attempt<String> {
    library(stage, "plain.so", &PLAIN)
}

/// Runs the code of the library at `path`.
fn spin(stage: &Stage, path: &str) -> Attempt<Siege> {
    stage.attack(&["spin", path]).map(Siege::from)
}

/// The same work without an attack, for comparison.
pub fn peace(stage: &Stage) -> Attempt<Siege> {
    spin(stage, &plain(stage)?)
}

pub fn cut_library(stage: &Stage) -> Attempt<Siege> {
    let path = library(
        stage,
        "cut.so",
        &Library { more_functions: 8_000, flags: &["-g", "-O0"], ..PLAIN },
    )?;
    stage.attack(&["cut", &path]).map(Siege::from)
}

pub fn replaced_library(stage: &Stage) -> Attempt<Siege> {
    let path = plain(stage)?;
    let other = library(stage, "other.so", &Library { more_functions: 1000, ..PLAIN })?;
    stage.attack(&["replace", &path, &other]).map(Siege::from)
}

/// A library without symbols, and the debug file that it links to.
fn with_debug_link(stage: &Stage, function: &str) -> Attempt<(String, PathBuf)> {
    let path = library(stage, "linked.so", &PLAIN)?;
    let debug = stage.root.join("linked.debug");
    Library { function, ..PLAIN }.write(&debug)?;
    let mut objcopy = Command::new("objcopy");
    objcopy.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", debug.display())).arg(&path);
    stage.run("objcopy", objcopy)?.succeeded("objcopy")?;
    Ok((path, debug))
}

pub fn endless_debug_file(stage: &Stage) -> Attempt<Siege> {
    let (path, debug) = with_debug_link(stage, "hostile_spin")?;
    elf::write_sparse(Path::new(&stage.mine("linked.debug")), &fs::read(debug)?, 200 << 30)?;
    spin(stage, &path)
}

pub fn debug_link_to_root(stage: &Stage) -> Attempt<Siege> {
    let (path, debug) = with_debug_link(stage, &stage.secret)?;
    let debug = stage.secret_file("secret.debug", fs::read(debug)?)?;
    fs::remove_file(stage.root.join("linked.debug"))?;
    symlink(&debug, stage.mine("linked.debug"))?;
    Ok(Siege { unread: vec![debug], ..spin(stage, &path)? })
}

pub fn huge_sections(stage: &Stage) -> Attempt<Siege> {
    let path = plain(stage)?;
    let mut sections = Sections::read(Path::new(&path))?;
    sections.claim(8 << 30);
    elf::write_sparse(Path::new(&path), &sections.bytes, 100 << 30)?;
    spin(stage, &path)
}

pub fn packed_sections(stage: &Stage) -> Attempt<Siege> {
    const MEBIBYTES: u64 = 1000;
    let path = plain(stage)?;
    let mut sections = Sections::read(Path::new(&path))?;
    let packed = elf::packed_zeros(MEBIBYTES);
    for section in [".debug_info", ".debug_line", ".debug_abbrev"] {
        sections.compress(section, &packed, MEBIBYTES << 20);
    }
    fs::write(&path, sections.bytes)?;
    spin(stage, &path)
}

/// A packed symbol table (`.gnu_debugdata`) of zeros, with the largest dictionary that `xz` offers.
pub fn packed_symbols(stage: &Stage) -> Attempt<Siege> {
    const LEN: u64 = 256 << 20;
    let path = library(stage, "mini.so", &PLAIN)?;
    let table = stage.root.join("mini");
    elf::write_sparse(&table, &[], LEN)?;
    let mut xz = Command::new("xz");
    xz.args(["-9", "--force"]).arg(&table);
    stage.run("xz", xz)?.succeeded("xz")?;
    let section = format!(".gnu_debugdata={}", table.with_extension("xz").display());
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--strip-all", "--add-section", &section, &path]);
    stage.run("objcopy", objcopy)?.succeeded("objcopy")?;
    spin(stage, &path)
}

pub fn endless_names(stage: &Stage) -> Attempt<Siege> {
    let path = plain(stage)?;
    let mut sections = Sections::read(Path::new(&path))?;
    sections.rename(&vec![b'a'; 256 << 20]);
    fs::write(&path, sections.bytes)?;
    spin(stage, &path)
}

pub fn endless_dwarf(stage: &Stage) -> Attempt<Siege> {
    let assembly = elf::endless_dwarf(100_000);
    let path = library(stage, "endless.so", &Library { assembly: &assembly, flags: &[], ..PLAIN })?;
    spin(stage, &path)
}

pub fn false_python(stage: &Stage) -> Attempt<Siege> {
    let assembly = elf::FALSE_PYTHON;
    let path = library(stage, "python.so", &Library { assembly, flags: &["-pthread"], ..PLAIN })?;
    spin(stage, &path)
}

pub fn long_perf_maps(stage: &Stage) -> Attempt<Siege> {
    let path = plain(stage)?;
    let attackers =
        (0..3).map(|_| stage.attack(&["jit", &path, "long", "264"])).collect::<Attempt<_>>()?;
    Ok(Siege { attackers, ..Siege::default() })
}

/// A perf map that belongs to root and would name the user's code.
fn secret_map(stage: &Stage) -> Attempt<PathBuf> {
    Ok(stage.secret_file("secret.map", format!("{JIT_AVMA:x} 1000 {}\n", stage.secret))?)
}

fn jit(stage: &Stage, kind: &str, detail: &Path) -> Attempt<Siege> {
    let path = plain(stage)?;
    stage.attack(&["jit", &path, kind, detail.to_str().expect("text")]).map(Siege::from)
}

pub fn perf_map_link(stage: &Stage) -> Attempt<Siege> {
    let map = secret_map(stage)?;
    Ok(Siege { unread: vec![map.clone()], ..jit(stage, "link", &map)? })
}

pub fn perf_map_hard_link(stage: &Stage) -> Attempt<Siege> {
    if fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|value| value.trim() != "0")
    {
        return Err(crate::harness::Miss::Skipped(
            "the kernel protects hard links (fs.protected_hardlinks)".to_owned(),
        ));
    }
    let map = secret_map(stage)?;
    Ok(Siege { unread: vec![map.clone()], ..jit(stage, "hard-link", &map)? })
}

pub fn perf_map_fifo(stage: &Stage) -> Attempt<Siege> {
    jit(stage, "fifo", Path::new(""))
}

fn from_namespace(stage: &Stage, kind: &str) -> Attempt<Siege> {
    let (path, map) = (plain(stage)?, secret_map(stage)?);
    let attacker =
        stage.attack_from_namespace(&["jit", &path, kind, map.to_str().expect("text")])?;
    Ok(Siege { attackers: vec![attacker], unread: vec![map], ..Siege::default() })
}

pub fn perf_map_bind(stage: &Stage) -> Attempt<Siege> {
    from_namespace(stage, "bind")
}

pub fn perf_map_namespace_link(stage: &Stage) -> Attempt<Siege> {
    from_namespace(stage, "link")
}

fn mapped_then(stage: &Stage, target: &Path) -> Attempt<Siege> {
    let path = plain(stage)?;
    stage.attack(&["spin-then-link", &path, target.to_str().expect("text")]).map(Siege::from)
}

pub fn deleted_library(stage: &Stage) -> Attempt<Siege> {
    mapped_then(stage, Path::new(""))
}

pub fn library_link_to_root(stage: &Stage) -> Attempt<Siege> {
    let made = stage.root.join("made.so");
    Library { function: &stage.secret, ..PLAIN }.write(&made)?;
    let secret = stage.secret_file("secret.so", fs::read(&made)?)?;
    fs::remove_file(made)?;
    Ok(Siege { unread: vec![secret.clone()], ..mapped_then(stage, &secret)? })
}

pub fn library_link_to_kmsg(stage: &Stage) -> Attempt<Siege> {
    let target = PathBuf::from("/proc/kmsg");
    Ok(Siege { unopened: vec![target.clone()], ..mapped_then(stage, &target)? })
}

pub fn library_link_to_trace_pipe(stage: &Stage) -> Attempt<Siege> {
    let target = PathBuf::from("/sys/kernel/tracing/trace_pipe");
    Ok(Siege { unopened: vec![target.clone()], ..mapped_then(stage, &target)? })
}

pub fn library_link_to_memory(stage: &Stage) -> Attempt<Siege> {
    mapped_then(stage, Path::new("/proc/self/mem"))
}

/// Attackers that use a file system of the user that stops answering.
fn on_silent_files(
    stage: &Stage,
    begin: impl Fn(&str, &str) -> Attempt<Vec<Attacker>>,
) -> Attempt<Siege> {
    let path = plain(stage)?;
    let (server, file) = stage.serve(&path)?;
    // It must end first: processes that wait for its files cannot be killed before.
    let mut attackers = vec![server];
    attackers.extend(begin(&path, &file)?);
    stage.silence();
    Ok(Siege { attackers, ..Siege::default() })
}

pub fn silent_library(stage: &Stage) -> Attempt<Siege> {
    on_silent_files(stage, |_, file| Ok(vec![stage.attack(&["spin", file])?]))
}

pub fn silent_perf_map(stage: &Stage) -> Attempt<Siege> {
    on_silent_files(stage, |path, file| {
        (0..3).map(|_| stage.attack(&["jit", path, "link", file])).collect()
    })
}

/// More processes than the recorder waits for.
pub fn silent_futexes(stage: &Stage) -> Attempt<Siege> {
    on_silent_files(stage, |_, file| (0..12).map(|_| stage.attack(&["futex", file])).collect())
}

pub fn short_lived(stage: &Stage) -> Attempt<Siege> {
    let spinner = stage.attack(&["spin", &plain(stage)?])?;
    Ok(Siege { attackers: vec![stage.attack(&["short-lived"])?, spinner], ..Siege::default() })
}

pub fn code_mappings(stage: &Stage) -> Attempt<Siege> {
    stage.attack(&["code-mappings", "10000"]).map(Siege::from)
}

pub fn file_mappings(stage: &Stage) -> Attempt<Siege> {
    stage.attack(&["file-mappings", &stage.mine(""), "10000"]).map(Siege::from)
}

pub fn thousands_of_threads(stage: &Stage) -> Attempt<Siege> {
    stage.attack(&["threads", "5000"]).map(Siege::from)
}

pub fn long_words(stage: &Stage) -> Attempt<Siege> {
    stage.attack(&["again-with-long-words", &plain(stage)?]).map(Siege::from)
}

/// Only root may use the socket, so these clients run as root, like a broken program of root's.
fn at_socket(stage: &Stage, words: &[&str]) -> Attempt<Siege> {
    Attacker::start(stage.part(words), words[0]).map(Siege::from)
}

pub const SOCKET: &str = "/run/unhitch/control.sock";

pub fn slow_client(stage: &Stage) -> Attempt<Siege> {
    at_socket(stage, &["dribble", SOCKET, "1"])
}

pub fn many_clients(stage: &Stage) -> Attempt<Siege> {
    at_socket(stage, &["dribble", SOCKET, "100"])
}

pub fn endless_line(stage: &Stage) -> Attempt<Siege> {
    at_socket(stage, &["endless-line", SOCKET])
}
