//! Which rights a command keeps: those who record and scan all, those who answer none.
//!
//! *Why*: a trace may come from a stranger, and its reader should be able to do no more than its
//! user asked for; and a binary that was given capabilities to record with must not open other
//! files with them ([`unhitch_confine`]). A command without capabilities opens what its user may
//! open. Root's own files need no capability: root is confined to what the command line names
//! besides.
//!
//! Two files of the kernel are opened before, because a capability shows what is in them: its
//! symbols and its code.

use crate::args::{Command, ReadingArgs, RulesArgs};
use crate::load;
use crate::terminal::note;
use anyhow::Context;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use unhitch_confine::Allowed;
use unhitch_model::{ModuleKind, Trace};
use unhitch_symbols::{CodeOptions, Options};

/// The folders at the top in which there are no programs, but the system's state and root's
/// secrets. Programs may be in any other.
const NO_PROGRAMS: &[&str] =
    &["boot", "dev", "etc", "lost+found", "proc", "root", "run", "sys", "tmp", "var"];
/// What naming frames, and counting CPUs, reads of the kernel.
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
/// What `curl` reads to find a server and to trust it, apart from programs.
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

/// What was opened while there were rights to.
struct Opened {
    kallsyms: Option<File>,
    kcore: Option<Arc<Mutex<File>>>,
}

static OPENED: OnceLock<Opened> = OnceLock::new();
/// Set in a process that is confined: what it may read.
static READABLE: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Gives up what the command does not need. To be called first.
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
            note(&format!("warning: this runs as root, and {line}"));
        }
        if missing.is_empty() {
            let _ = READABLE.set(allowed.read);
        }
    }
    Ok(())
}

/// Those who look at other processes, or let the kernel do so.
fn keeps_rights(command: &Command) -> bool {
    #[cfg(target_os = "linux")]
    let keeps = matches!(command, Command::Record(_) | Command::Watch(_) | Command::Lab(_) | Command::Scan(_) | Command::Threads(_))
        // Which gives up more than that, by itself.
        || matches!(command, Command::NameFrames);
    #[cfg(not(target_os = "linux"))]
    let keeps = {
        let _ = command;
        false
    };
    keeps
}

/// What a command that reads traces opens; `None` for those that read none.
fn reach(command: &Command) -> Option<Allowed> {
    let none = RulesArgs::default();
    let mut reach = match command {
        Command::Why(args) => Reach::new(&args.trace.path, &args.trace.reading, &args.rules)
            .output(args.svg.as_deref()),
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
        Command::View(args) => Reach::new(&args.path, &args.reading, &args.rules).shown(&args.path),
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

/// What a command may open, as it is gathered from the options.
struct Reach(Allowed);

impl Reach {
    fn new(trace: &Path, reading: &ReadingArgs, rules: &RulesArgs) -> Self {
        let mut reach =
            Self(Allowed::default()).input(Some(trace)).input(load::rules_file(rules).as_deref());
        if trace.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("etl")) {
            // Its other sessions lie beside it.
            reach.0.read.push(folder_of(trace));
        }
        reach.0.read.extend(reading.with.iter().cloned());
        let pdbs = load::symbol_path(reading);
        reach.0.read.extend(pdbs.folders().iter().cloned());
        if pdbs.has_servers() {
            reach.0.run = true;
            reach.0.read.extend(NETWORK.iter().map(PathBuf::from));
            reach.0.write.push("/dev/null".into());
            for folder in pdbs.folders() {
                // What is not there cannot be allowed; where it cannot be made, nothing is fetched.
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

    /// A file is written by making it in its folder.
    fn output(mut self, path: Option<&Path>) -> Self {
        self.0.write.extend(path.map(folder_of));
        self
    }

    /// The page changes notes, and a folder's traces.
    fn shown(mut self, path: &Path) -> Self {
        let folder = if path.is_dir() { path.to_owned() } else { folder_of(path) };
        self.0.read.push(folder.clone());
        self.0.write.push(folder);
        self.0.listen = true;
        self
    }
}

fn folder_of(path: &Path) -> PathBuf {
    // A link leads to the file: what is renamed or replaced is there.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// Whether this process is confined, so that a browser would be too.
pub fn is_confined() -> bool {
    READABLE.get().is_some()
}

/// Why the program at `path` cannot be read, where that is because this process may not look there.
pub fn out_of_reach(path: &str) -> Option<String> {
    let readable = READABLE.get()?;
    let is_hidden =
        path.starts_with('/') && !readable.iter().any(|folder| Path::new(path).starts_with(folder));
    let why = || {
        format!(
            "root reads no programs in such folders as /tmp, /var and /root: not {path}; --symbols FOLDER adds one"
        )
    };
    is_hidden.then(why)
}

/// Says so in the trace when its programs lie where this process may not look.
pub fn warn_of_programs(trace: &mut Trace) {
    let files = trace.modules.iter().filter(|(_, module)| module.kind == ModuleKind::File);
    let hidden: Vec<String> =
        files.filter_map(|(_, module)| out_of_reach(trace.name(module.path))).collect();
    if let Some(first) = hidden.first() {
        let line =
            format!("{} of the trace's programs were not read for names: {first}", hidden.len());
        trace.warnings.add(line);
    }
}

/// Where names are looked for, with what was opened before.
pub fn symbol_options() -> Options {
    let options = Options::default();
    Options { kallsyms: kallsyms().unwrap_or(options.kallsyms), ..options }
}

/// Where code is looked for, with what was opened before.
pub fn code_options() -> CodeOptions {
    let options = CodeOptions::default();
    let opened_kcore = OPENED.get().and_then(|opened| opened.kcore.clone());
    CodeOptions { kallsyms: kallsyms().unwrap_or(options.kallsyms), opened_kcore, ..options }
}

/// A copy of the kernel's symbols as they were when there were rights to see them, made when it is
/// first asked for: the kernel looks at who opens the list, so that it cannot be opened again.
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
