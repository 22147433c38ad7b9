//! Opens, with the recorder's rights, files that belong to other users: by rules, and without waiting for any.
//!
//! What a process has mapped is opened as that mapping where the kernel lets us (`/proc/PID/map_files`, proc(5)): then it is what ran,
//! whatever lies at its path by now. Else, and for debug files and JIT maps, by the path, without following links (openat2(2)), only
//! regular files, none of the kernel's own file systems, and none that its process's user could not have read. *Why on a thread that can
//! be left behind*: opening a file on a dead server, or on a file system whose owner stopped it, may take for ever.

use super::programs::{Program, Programs};
use crate::procfs;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, fstatfs, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use unhitch_symbols::Wanted;

/// How long opening a file may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Files of root that do not answer, after which none is opened any more.
const MAX_SILENT: usize = 3;
/// Where separate debug files lie: only root can put them there.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
/// proc, sysfs, tracefs, debugfs, securityfs, cgroup 1 and 2, bpf, selinux, pstore, efivarfs, devpts, mqueue, configfs, fusectl, binfmt
/// (`include/uapi/linux/magic.h`): reading there has effects, or never ends.
const KERNEL_FILE_SYSTEMS: [u32; 16] = [
    0x9fa0,
    0x6265_6572,
    0x7472_6163,
    0x6462_6720,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0xf97c_ff8c,
    0x6165_676c,
    0xde5e_81e4,
    0x1cd1,
    0x1980_0202,
    0x6265_6570,
    0x6573_5543,
    0x4249_4e4d,
];

type Answer = Result<File, Errno>;

/// Opens files for the process that names frames.
pub(super) struct Opener {
    programs: Arc<Programs>,
    thread: Option<(Sender<Wanted>, Receiver<Answer>)>,
    /// Users whose files did not answer: none of theirs is waited for again.
    silent_users: Vec<u32>,
    silent: usize,
}

impl Opener {
    pub(super) fn new(programs: Arc<Programs>) -> Self {
        Self { programs, thread: None, silent_users: Vec::new(), silent: 0 }
    }

    /// Opens the file, or says why not.
    pub(super) fn open(&mut self, wanted: Wanted) -> Answer {
        let user = self.programs.user_of(&wanted);
        if self.silent > MAX_SILENT || user.is_some_and(|user| self.silent_users.contains(&user)) {
            return Err(Errno::TIMEDOUT);
        }
        let programs = &self.programs;
        let (ask, answers) = self.thread.get_or_insert_with(|| start(Arc::clone(programs)));
        let answer = match ask.send(wanted) {
            Ok(()) => answers.recv_timeout(PATIENCE).ok(),
            Err(_) => None,
        };
        answer.unwrap_or_else(|| {
            // It may hang for ever; a new one takes its place.
            self.thread = None;
            match user.filter(|&user| user != 0) {
                Some(user) => self.silent_users.push(user),
                None => self.silent += 1,
            }
            Err(Errno::TIMEDOUT)
        })
    }
}

fn start(programs: Arc<Programs>) -> (Sender<Wanted>, Receiver<Answer>) {
    let (ask, asked) = channel::<Wanted>();
    let (answer, answers) = channel();
    let run = move || asked.into_iter().try_for_each(|wanted| answer.send(open(&programs, &wanted)));
    // Without a thread nobody answers, which is an answer too.
    let _ = std::thread::Builder::new().name("unhitch-open".to_owned()).spawn(run);
    (ask, answers)
}

fn open(programs: &Programs, wanted: &Wanted) -> Answer {
    match wanted {
        Wanted::KernelSymbols => of_kernel("/proc/kallsyms"),
        Wanted::KernelModules => of_kernel("/proc/modules"),
        Wanted::Mapped(path) => open_mapped(programs, path),
        Wanted::Debug { path, of } => open_debug(programs, path, of),
        Wanted::PerfMap(pid) => open_perf_map(*pid),
    }
}

fn of_kernel(path: &str) -> Answer {
    File::open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn open_mapped(programs: &Programs, path: &Path) -> Answer {
    let mappings = programs.mappings_of(path);
    let by_mapping = mappings.iter().filter_map(|program| {
        let range = format!("{:x}-{:x}", program.start_avma, program.start_avma.checked_add(program.len)?);
        let link = Path::new("/proc").join(program.pid.to_string()).join("map_files").join(range);
        // The kernel's link, to what is mapped: the one link to follow.
        regular(openat2(CWD, &link, READ, Mode::empty(), ResolveFlags::empty()).ok()?, |_| true).ok()
    });
    let mut by_mapping = by_mapping;
    by_mapping.next().map_or_else(|| by_path(CWD, path, |file| is_readable_by(file, mappings)), Ok)
}

fn open_debug(programs: &Programs, path: &Path, of: &Path) -> Answer {
    if path.starts_with(DEBUG_FOLDER) && !path.components().any(|part| part == std::path::Component::ParentDir) {
        let folder = openat2(CWD, DEBUG_FOLDER, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), NO_LINKS)?;
        let below = path.strip_prefix(DEBUG_FOLDER).map_err(|_| Errno::INVAL)?;
        // Packages put links there, from one debug file to another.
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        return regular(openat2(folder, below, READ, Mode::empty(), beneath)?, |file| file.st_uid == 0);
    }
    let folder = of.parent().ok_or(Errno::INVAL)?;
    let beside = path.parent().is_some_and(|parent| parent == folder || parent == folder.join(".debug"));
    if !beside {
        return Err(Errno::PERM);
    }
    let mappings = programs.mappings_of(of);
    by_path(CWD, path, |file| is_readable_by(file, mappings))
}

/// The map must belong to its process's user: anybody can put a file of that name into `/tmp`, or into the `/tmp` of his own mounts.
fn open_perf_map(pid: u32) -> Answer {
    // Of one that has ended, a map of root's is no stranger's.
    let owner = procfs::user(pid).unwrap_or(0);
    let host = by_path(CWD, &Path::new("/tmp").join(format!("perf-{pid}.map")), |file| file.st_uid == owner);
    host.or_else(|_| {
        let root = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat2(CWD, format!("/proc/{pid}/root"), root, Mode::empty(), ResolveFlags::empty())?;
        let inner = unhitch_symbols::files::contained_perf_map(pid).map_err(|_| Errno::NOENT)?;
        let name = PathBuf::from("tmp").join(inner.file_name().ok_or(Errno::NOENT)?);
        by_path(root, &name, |file| file.st_uid == owner)
    })
}

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
/// Without waiting, should it be a pipe.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn by_path(folder: impl rustix::fd::AsFd, path: &Path, is_allowed: impl Fn(&Stat) -> bool) -> Answer {
    // Before it is opened: opening a device or a pipe may have effects.
    let place = openat2(&folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), NO_LINKS)?;
    if FileType::from_raw_mode(fstat(&place)?.st_mode) != FileType::RegularFile || is_kernels(&place)? {
        return Err(Errno::PERM);
    }
    regular(openat2(folder, path, READ, Mode::empty(), NO_LINKS)?, is_allowed)
}

/// The descriptor, if it is of a file that may be read.
fn regular(file: rustix::fd::OwnedFd, is_allowed: impl Fn(&Stat) -> bool) -> Answer {
    let about = fstat(&file)?;
    let is_regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    if is_regular && is_allowed(&about) && !is_kernels(&file)? { Ok(file.into()) } else { Err(Errno::PERM) }
}

fn is_kernels(file: impl rustix::fd::AsFd) -> Result<bool, Errno> {
    Ok(KERNEL_FILE_SYSTEMS.contains(&(fstatfs(file)?.f_type as u32)))
}

/// Whether the users who mapped it could have read it, or anybody.
fn is_readable_by(file: &Stat, mappings: &[Program]) -> bool {
    file.st_mode & 0o004 != 0 || mappings.iter().any(|program| program.user == Some(file.st_uid) || program.user == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn programs(path: &Path, user: u32) -> Programs {
        let program = Program { pid: u32::MAX, user: Some(user), start_avma: 0, len: 0 };
        Programs::from_iter([(path.to_owned(), program)])
    }

    fn mapped(programs: &Programs, path: &Path) -> Option<Errno> {
        open(programs, &Wanted::Mapped(path.to_owned())).err()
    }

    #[test]
    fn only_files_that_their_user_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = folder.join("library");
        fs::write(&path, b"x").unwrap();
        let me = fs::metadata(&path).map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata)).unwrap();
        let (own, stranger) = (programs(&path, me), programs(&path, me + 1));
        assert_eq!((mapped(&own, &path), mapped(&stranger, &path)), (None, None));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!((mapped(&own, &path), mapped(&stranger, &path)), (None, Some(Errno::PERM)));
        let link = folder.join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(mapped(&programs(&link, me), &link), Some(Errno::LOOP));
        for special in ["/proc/kmsg", "/proc/self/mem", "/dev/null", "/sys/kernel/notes", "/proc/self/root/etc/passwd"] {
            assert!(mapped(&programs(Path::new(special), 0), Path::new(special)).is_some(), "{special}");
        }
    }

    #[test]
    fn debug_files_lie_beside_or_where_packages_put_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let of = folder.join("program");
        fs::create_dir(folder.join(".debug")).unwrap();
        fs::create_dir(folder.join("elsewhere")).unwrap();
        let programs = programs(&of, rustix::process::getuid().as_raw());
        let found = |name: &str| {
            fs::write(folder.join(name), b"x").unwrap();
            open(&programs, &Wanted::Debug { path: folder.join(name), of: of.clone() }).is_ok()
        };
        assert!(found("a.debug") && found(".debug/a.debug"));
        assert!(!found("elsewhere/a.debug"));
        let outside = PathBuf::from(DEBUG_FOLDER).join("../../../etc/passwd");
        assert!(open(&programs, &Wanted::Debug { path: outside, of }).is_err());
    }

    #[test]
    fn a_jit_map_belongs_to_its_process() {
        let own = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
        fs::write(&own, b"1000 10 a\n").unwrap();
        let opened = open_perf_map(std::process::id()).is_ok();
        fs::remove_file(&own).unwrap();
        symlink("/etc/passwd", &own).unwrap();
        let followed = open_perf_map(std::process::id()).is_ok();
        fs::remove_file(&own).unwrap();
        assert!(opened && !followed);
    }
}
