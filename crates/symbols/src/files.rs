//! The files that naming needs, and how this process opens them itself.
//!
//! *Why a trait*: the files that a trace mentions belong to other users, who may change them while
//! they are read. A recorder that runs as root reads them in a process without rights, which
//! requests file descriptors. Everybody else opens them with the user's own rights.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use unhitch_model::Module;

/// A file that naming needs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Wanted {
    /// A file that a process had mapped, by the path of its module. If the file is no longer there
    /// ([`Module::path_before`]), only who reaches the memory of the process can open it.
    ///
    /// [`Module::path_before`]: unhitch_model::Module::path_before
    Mapped(PathBuf),
    /// A candidate for the debug file of a mapped file.
    Debug {
        /// Where the candidate lies.
        path: PathBuf,
        /// The mapped file.
        of: PathBuf,
    },
    /// The JIT map that the runtime of this process wrote.
    PerfMap(u32),
    /// The kernel's symbol list.
    KernelSymbols,
    /// The list of loaded kernel modules.
    KernelModules,
}

impl Wanted {
    /// A candidate for a debug file of the same mapped file.
    pub(crate) fn debug(&self, path: PathBuf) -> Self {
        let of = match self {
            Self::Mapped(of) | Self::Debug { of, .. } => of.clone(),
            Self::PerfMap(_) | Self::KernelSymbols | Self::KernelModules => PathBuf::new(),
        };
        Self::Debug { path, of }
    }

    /// Where it lies; empty if it has no path of its own.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Mapped(path) | Self::Debug { path, .. } => path,
            Self::PerfMap(_) | Self::KernelSymbols | Self::KernelModules => Path::new(""),
        }
    }
}

/// Opens files.
pub trait Files: Send + Sync {
    /// Opens a file for reading. Only regular files, and those of the kernel, are opened.
    ///
    /// # Errors
    /// The system's error, or why the file must not be opened.
    fn open(&self, wanted: &Wanted) -> io::Result<File>;

    /// True if the file may be mapped: if somebody truncates it, this process dies.
    fn may_map(&self, _file: &File) -> bool {
        false
    }
}

/// The state of a file, which changes when the file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) len_bytes: u64,
    /// When it was last written or, where that is known, came to its place: a package's new file is
    /// as old as its build.
    pub(crate) changed: Option<SystemTime>,
    inode: u64,
    /// The owner; 0 on systems without owners.
    pub(crate) owner: u32,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        let written = metadata.modified().ok();
        #[cfg(unix)]
        let (inode, owner, changed) = {
            use std::os::unix::fs::MetadataExt;
            let seconds = std::time::Duration::from_secs(metadata.ctime().max(0).unsigned_abs());
            let nanos =
                std::time::Duration::from_nanos(metadata.ctime_nsec().max(0).unsigned_abs());
            let moved = SystemTime::UNIX_EPOCH.checked_add(seconds + nanos);
            (metadata.ino(), metadata.uid(), written.max(moved))
        };
        #[cfg(not(unix))]
        let (inode, owner, changed) = (0, 0, written);
        Self { len_bytes: metadata.len(), changed, inode, owner }
    }
}

/// Opens a regular file. Also returns its state.
pub(crate) fn open(files: &dyn Files, wanted: &Wanted) -> io::Result<(File, Identity)> {
    let file = files.open(wanted)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((file, Identity::of(&metadata)))
}

/// True if the file is still in that state.
pub(crate) fn is_current(files: &dyn Files, wanted: &Wanted, identity: Identity) -> bool {
    open(files, wanted).is_ok_and(|(_, now)| now == identity)
}

/// Files opened by this process, with its own rights.
#[derive(Clone, Debug)]
pub struct LocalFiles {
    /// The kernel's symbol list. The list of its modules is in the same folder.
    pub kallsyms: PathBuf,
    /// The folder of JIT maps, `perf-PID.map`.
    pub perf_map_dir: PathBuf,
}

impl Files for LocalFiles {
    fn open(&self, wanted: &Wanted) -> io::Result<File> {
        match wanted {
            Wanted::Mapped(path) if path.to_str().and_then(Module::path_before).is_some() => {
                Err(io::ErrorKind::NotFound.into())
            }
            Wanted::Mapped(path) | Wanted::Debug { path, .. } => open_regular(path),
            Wanted::KernelSymbols => File::open(&self.kallsyms),
            Wanted::KernelModules => File::open(self.kallsyms.with_file_name("modules")),
            Wanted::PerfMap(pid) => {
                let map = open_own(&self.perf_map_dir.join(format!("perf-{pid}.map")), *pid);
                map.or_else(|_| open_own(&contained_perf_map(*pid)?, *pid))
            }
        }
    }
}

/// The perf map of a process in a container, which is in the container's `/tmp`, under the pid
/// inside the container.
///
/// # Errors
/// If the process is gone.
pub fn contained_perf_map(pid: u32) -> io::Result<PathBuf> {
    let process = Path::new("/proc").join(pid.to_string());
    let status = std::fs::read_to_string(process.join("status"))?;
    let inner = status.lines().find_map(|line| {
        line.strip_prefix("NSpid:")?.split_whitespace().last()?.parse::<u32>().ok()
    });
    let inner = inner.ok_or(io::ErrorKind::NotFound)?;
    Ok(process.join("root/tmp").join(format!("perf-{inner}.map")))
}

/// Opens the regular file at `path` for reading, without blocking. Opening a pipe or a device that
/// somebody put there would block or have side effects.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    open_with_flags(path, 0)
}

/// The same for a file that the process `pid` wrote. Anybody may write to `/tmp`, so the file must
/// belong to the process's user, to root or to this process's user.
fn open_own(path: &Path, pid: u32) -> io::Result<File> {
    /// `O_NOFOLLOW` of `asm-generic/fcntl.h`, the same on every machine with perf except Alpha and
    /// PA-RISC.
    const O_NOFOLLOW: i32 =
        if cfg!(any(target_arch = "arm", target_arch = "aarch64")) { 0o100_000 } else { 0o400_000 };
    let file = open_with_flags(path, O_NOFOLLOW)?;
    let owner = Identity::of(&file.metadata()?).owner;
    let owner_of =
        |path: PathBuf| std::fs::metadata(path).ok().map(|metadata| Identity::of(&metadata).owner);
    let trusted = [Some(0), owner_of("/proc/self".into()), owner_of(format!("/proc/{pid}").into())];
    if cfg!(target_os = "linux") && !trusted.contains(&Some(owner)) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(file)
}

fn open_with_flags(path: &Path, flags: i32) -> io::Result<File> {
    if !std::fs::symlink_metadata(path)?.is_file()
        && (flags != 0 || !std::fs::metadata(path)?.is_file())
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        /// `O_NONBLOCK` of `asm-generic/fcntl.h`, in case somebody put a pipe here after the check
        /// above.
        const O_NONBLOCK: i32 = 0o4000;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, O_NONBLOCK | flags);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = flags;
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}
