//! Which rights a command keeps: commands that record or scan keep all of them, commands that read
//! traces keep none.
//!
//! *Why*: a trace may come from a stranger, so the program that reads it should be able to do no
//! more than its user asked for. And a binary that was given capabilities for recording must not
//! open other files with them ([`unhitch_confine`]). Without capabilities a command can open what
//! its user can open. Root, however, needs no capability for its own files, so root is also
//! confined to the files that the command line names.
//!
//! Two files of the kernel are opened before that, because their content can only be seen with a
//! capability: the kernel's symbols and its code.

use crate::args::{Command, ExportFormat, ReadingArgs, RulesArgs};
use crate::settings::{rules_file, symbol_path};
use crate::terminal::note;
use anyhow::Context;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use unhitch_confine::Allowed;
use unhitch_model::{ModuleKind, Trace};
use unhitch_symbols::{CodeOptions, Options};

/// Top-level folders that hold no programs, but the system's state and root's secrets. Programs may
/// be in any other.
const NO_PROGRAMS: &[&str] =
    &["boot", "dev", "etc", "lost+found", "proc", "root", "run", "sys", "tmp", "var"];
/// Kernel files that are read to name frames and to count CPUs.
const KERNEL: &[&str] = &[
    "/proc/self",
    "/proc/stat",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/kallsyms",
    "/proc/sys/kernel",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];
/// What `curl` reads to find a server and to verify it, apart from programs.
const NETWORK: &[&str] = &[
    "/dev/null",
    "/dev/urandom",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/run/systemd/resolve",
];

/// Files opened before the rights were given up.
struct Opened {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "Linux has that file"))]
    kallsyms: Option<File>,
    kcore: Option<Arc<Mutex<File>>>,
}

static OPENED: OnceLock<Opened> = OnceLock::new();
/// What a confined process may read; not set if it is not confined.
static READABLE: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Gives up the rights that the command does not need. Must be called first.
pub fn give_up(command: &Command) -> anyhow::Result<()> {
    if keeps_rights(command) {
        return Ok(());
    }
    if unhitch_confine::is_privileged()? {
        let _ = OPENED.set(Opened {
            kallsyms: File::open("/proc/kallsyms").ok(),
            kcore: File::open("/proc/kcore").ok().map(|file| Arc::new(Mutex::new(file))),
        });
        unhitch_confine::renounce().context("cannot give up the rights to record")?;
    }
    if let Some(allowed) = reach(command).filter(|_| unhitch_confine::is_root()) {
        let missing = unhitch_confine::confine(&allowed);
        for line in &missing {
            note(&format!("warning: running as root, and {line}"));
        }
        if missing.is_empty() {
            let _ = READABLE.set(allowed.read);
        }
    }
    Ok(())
}

/// True for commands that inspect other processes, or have the kernel do so.
fn keeps_rights(command: &Command) -> bool {
    #[cfg(target_os = "linux")]
    let keeps = match command {
        Command::Record(_)
        | Command::Watch(_)
        | Command::Lab(_)
        | Command::Scan(_)
        | Command::Threads(_) => true,
        // It may have to record, and then starts another process, which reads the trace.
        Command::Why(args) => args.live,
        // This command gives up even more, by itself.
        Command::NameFrames | Command::JudgeTrace => true,
        _ => false,
    };
    #[cfg(not(target_os = "linux"))]
    let keeps = {
        let _ = command;
        false
    };
    keeps
}

/// What a command that reads traces needs to open; `None` for other commands.
fn reach(command: &Command) -> Option<Allowed> {
    let none = RulesArgs::default();
    let mut reach = match command {
        Command::Why(args) => Reach::new(args.trace.as_deref()?, &args.reading, &args.rules)
            .output(args.svg.as_deref())
            .output(args.checks.junit.as_deref()),
        Command::Waits(args) => Reach::new(&args.trace.path, &args.trace.reading, &args.rules),
        Command::Hot(args) => Reach::new(&args.trace.path, &args.trace.reading, &none)
            .input(args.kernel_image.as_deref()),
        Command::Info(args) => Reach::new(&args.trace.path, &args.trace.reading, &none),
        Command::Table(args) => Reach::new(args.trace.as_deref()?, &args.reading, &args.rules),
        Command::Callers(args) | Command::Callees(args) => {
            Reach::new(&args.trace.path, &args.trace.reading, &args.rules)
        }
        Command::Report(args) => {
            let reach = Reach::new(&args.trace.path, &args.trace.reading, &args.rules);
            reach.output(Some(args.output.as_deref().unwrap_or(&args.trace.path)))
        }
        // Python has its own modules, wherever those are.
        Command::Export(args) if matches!(args.to, ExportFormat::Parquet) => return None,
        Command::Export(args) => {
            let reach = Reach::new(&args.trace.path, &args.trace.reading, &args.rules);
            reach.output(Some(&args.output()))
        }
        Command::Diff(args) => {
            Reach::new(&args.before, &args.reading, &args.rules).input(Some(&args.after))
        }
        Command::View(args) => Reach::new(&args.path, &args.reading, &args.rules)
            .shown(&args.path)
            .input(args.fleet.as_deref()),
        #[cfg(target_os = "linux")]
        Command::List(args) => Reach(Allowed::default()).input(Some(&crate::list::folder(args))),
        _ => return None,
    };
    reach.0.read.extend(program_folders());
    reach.0.read.extend(KERNEL.iter().map(PathBuf::from));
    Some(reach.0)
}

fn program_folders() -> impl Iterator<Item = PathBuf> {
    let top = std::fs::read_dir("/").into_iter().flatten().flatten();
    top.filter(|entry| NO_PROGRAMS.iter().all(|name| entry.file_name() != *name))
        .map(|entry| entry.path())
}

/// Collects what a command may open from its options.
struct Reach(Allowed);

impl Reach {
    fn new(trace: &Path, reading: &ReadingArgs, rules: &RulesArgs) -> Self {
        let mut reach =
            Self(Allowed::default()).input(Some(trace)).input(rules_file(rules).as_deref());
        if trace.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl")) {
            // The other sessions of the recording are in the same folder.
            reach.0.read.push(folder_of(trace));
        }
        if trace.file_name().is_some_and(|name| name == "metadata") {
            // The events of a CTF trace are in the same folder.
            reach.0.read.push(folder_of(trace));
        }
        reach.0.read.extend(reading.with.iter().cloned());
        let pdbs = symbol_path(reading);
        reach.0.read.extend(pdbs.folders().iter().cloned());
        if pdbs.has_servers() {
            reach.0.run = true;
            reach.0.read.extend(NETWORK.iter().map(PathBuf::from));
            reach.0.write.push("/dev/null".into());
            for folder in pdbs.folders() {
                // A folder must exist to be allowed. If it cannot be made, nothing is fetched.
                let _ = std::fs::create_dir_all(folder);
                reach.0.write.push(folder.clone());
            }
        }
        reach
    }

    fn input(mut self, path: Option<&Path>) -> Self {
        self.0.read.extend(path.map(Path::to_path_buf));
        self
    }

    /// Allows writing to the folder of `path`, as the file is created there.
    fn output(mut self, path: Option<&Path>) -> Self {
        self.0.write.extend(path.map(folder_of));
        self
    }

    /// Allows writing to the folder of `path`: the page edits notes, and adds and removes traces.
    fn shown(mut self, path: &Path) -> Self {
        let folder = if path.is_dir() { path.to_owned() } else { folder_of(path) };
        self.0.read.push(folder.clone());
        self.0.write.push(folder);
        self.0.listen = true;
        self
    }
}

fn folder_of(path: &Path) -> PathBuf {
    // Follow links: the file is renamed or replaced where it really is.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// True when this process is confined: a browser that it starts would be confined, too.
pub fn is_confined() -> bool {
    READABLE.get().is_some()
}

/// Why the program at `path` cannot be read, if the reason is that this process is confined.
pub fn out_of_reach(path: &str) -> Option<String> {
    let readable = READABLE.get()?;
    let is_hidden =
        path.starts_with('/') && !readable.iter().any(|folder| Path::new(path).starts_with(folder));
    let why = || {
        format!(
            "as root, unhitch does not read programs in folders such as /tmp, /var and /root, so it does not read {path}; --symbols FOLDER allows a folder"
        )
    };
    is_hidden.then(why)
}

/// Adds a warning to the trace if this process may not read some of its programs.
pub fn warn_of_programs(trace: &mut Trace) {
    let files = trace.modules.iter().filter(|(_, module)| module.kind == ModuleKind::File);
    let hidden: Vec<String> =
        files.filter_map(|(_, module)| out_of_reach(trace.name(module.path))).collect();
    if let Some(first) = hidden.first() {
        let line = format!(
            "function names are missing for {} of the trace's programs: {first}",
            hidden.len()
        );
        trace.warnings.add(line);
    }
}

/// Options for naming frames, with the kernel files opened before.
pub fn symbol_options() -> Options {
    let options = Options::default();
    Options { kallsyms: kallsyms().unwrap_or(options.kallsyms), ..options }
}

/// Options for reading code, with the kernel files opened before.
pub fn code_options() -> CodeOptions {
    let options = CodeOptions::default();
    let opened_kcore = OPENED.get().and_then(|opened| opened.kcore.clone());
    CodeOptions { kallsyms: kallsyms().unwrap_or(options.kallsyms), opened_kcore, ..options }
}

/// A copy of the kernel's symbols, made on first use from the file opened while we had the rights.
///
/// *Why a copy*: the kernel checks the rights of whoever opens the list, so it cannot be reopened.
#[cfg(target_os = "linux")]
fn kallsyms() -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    use std::sync::LazyLock;
    static COPY: LazyLock<Option<File>> = LazyLock::new(|| {
        let mut list = OPENED.get()?.kallsyms.as_ref()?;
        let mut copy =
            File::from(rustix::fs::memfd_create("kallsyms", rustix::fs::MemfdFlags::CLOEXEC).ok()?);
        std::io::copy(&mut list, &mut copy).ok()?;
        Some(copy)
    });
    COPY.as_ref().map(|copy| PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd())))
}

#[cfg(not(target_os = "linux"))]
fn kallsyms() -> Option<PathBuf> {
    None
}
