//! Opens files of other users with the recorder's rights, following strict rules and never
//! blocking.
//!
//! A file that a process has mapped is opened through the mapping if the kernel allows it
//! (`/proc/PID/map_files`, proc(5)): then it is the file that ran, whatever is at its path by now.
//! Otherwise, and for debug files and JIT maps, it is opened by its path, without following links
//! ([`beneath`](super::beneath)). We only open regular files, only on file systems that do not depend on another
//! process ([`mounts`](super::mounts)), and only files that the process's user could have read. A
//! disk can still be slow, so a thread opens the files, and it can be left behind.

use super::beneath::{self, Through, open_beneath, place};
use super::mounts::Mounts;
use super::programs::{Program, Programs};
use crate::procfs;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use unhitch_model::Module;
use unhitch_symbols::Wanted;

/// How long opening a file may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of root's files that may time out; after more, no files are opened.
const MAX_TIMEOUTS: usize = 3;
/// Where separate debug files are installed; only root can write there.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
type Answer = Result<File, Errno>;

/// Opens files for the process that names frames.
pub(super) struct Opener {
    programs: Arc<Programs>,
    thread: Option<(Sender<Wanted>, Receiver<Answer>)>,
    /// Users whose files timed out: their files are no longer opened.
    timed_out_users: Vec<u32>,
    timeouts: usize,
}

impl Opener {
    pub(super) fn new(programs: Arc<Programs>) -> Self {
        Self { programs, thread: None, timed_out_users: Vec::new(), timeouts: 0 }
    }

    /// Opens the file, or returns why not.
    pub(super) fn open(&mut self, wanted: Wanted) -> Answer {
        let user = self.programs.user_of(&wanted);
        if self.timeouts > MAX_TIMEOUTS
            || user.is_some_and(|user| self.timed_out_users.contains(&user))
        {
            return Err(Errno::TIMEDOUT);
        }
        let programs = &self.programs;
        let (ask, answers) = self.thread.get_or_insert_with(|| start(Arc::clone(programs)));
        let answer = match ask.send(wanted) {
            Ok(()) => answers.recv_timeout(OPEN_TIMEOUT).ok(),
            Err(_) => None,
        };
        answer.unwrap_or_else(|| {
            // The thread may hang forever; a new one replaces it.
            self.thread = None;
            match user.filter(|&user| user != 0) {
                Some(user) => self.timed_out_users.push(user),
                None => self.timeouts += 1,
            }
            Err(Errno::TIMEDOUT)
        })
    }
}

fn start(programs: Arc<Programs>) -> (Sender<Wanted>, Receiver<Answer>) {
    let (ask, asked) = channel::<Wanted>();
    let (answer, answers) = channel();
    let run = move || {
        let mounts = Mounts::read();
        asked.into_iter().try_for_each(|wanted| answer.send(open(&programs, &mounts, &wanted)))
    };
    // Without a thread there is no answer, which is handled like a timeout.
    let _ = std::thread::Builder::new().name("unhitch-open".to_owned()).spawn(run);
    (ask, answers)
}

fn open(programs: &Programs, mounts: &Mounts, wanted: &Wanted) -> Answer {
    match wanted {
        Wanted::KernelSymbols => of_kernel("/proc/kallsyms"),
        Wanted::KernelModules => of_kernel("/proc/modules"),
        Wanted::Mapped(path) => open_mapped(programs, mounts, path),
        Wanted::Debug { path, of } => open_debug(programs, mounts, path, of),
        Wanted::PerfMap(pid) => open_perf_map(mounts, *pid),
    }
}

fn of_kernel(path: &str) -> Answer {
    File::open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn open_mapped(programs: &Programs, mounts: &Mounts, path: &Path) -> Answer {
    let mappings = programs.mappings_of(path);
    let by_mapping = |program: &Program| {
        let range =
            format!("{:x}-{:x}", program.start_avma, program.start_avma.checked_add(program.len)?);
        let link = Path::new("/proc").join(program.pid.to_string()).join("map_files").join(range);
        // This is the kernel's link to the mapped file, and the only link that we follow.
        reopen(&place(&link).ok()?, mounts, program.pid, |file| programs.may_be(path, file)).ok()
    };
    let found = mappings.iter().find_map(by_mapping);
    if found.is_none() && path.to_str().and_then(Module::path_before).is_some() {
        return Err(Errno::NOENT);
    }
    let is_allowed = |file: &Stat| is_readable_by(file, mappings) && programs.may_be(path, file);
    found.map_or_else(|| by_path(mounts, path, is_allowed), Ok)
}

fn open_debug(programs: &Programs, mounts: &Mounts, path: &Path, of: &Path) -> Answer {
    if path.starts_with(DEBUG_FOLDER) {
        let below = path.strip_prefix(DEBUG_FOLDER).map_err(|_| Errno::INVAL)?;
        let folder = mounts.open(Path::new(DEBUG_FOLDER))?;
        // Packages install links there, from one debug file to another.
        let place = open_beneath(folder, below, Through::Links)?;
        return reopen(&place, mounts, std::process::id(), |file| file.st_uid == 0);
    }
    let folder = of.parent().ok_or(Errno::INVAL)?;
    let is_beside =
        path.parent().is_some_and(|parent| parent == folder || parent == folder.join(".debug"));
    if !is_beside {
        return Err(Errno::PERM);
    }
    let mappings = programs.mappings_of(of);
    by_path(mounts, path, |file| is_readable_by(file, mappings))
}

/// Opens the JIT map of a process. It must belong to the process's user, because anybody can create
/// a file of that name in `/tmp`, or in the `/tmp` of another mount namespace.
fn open_perf_map(mounts: &Mounts, pid: u32) -> Answer {
    // If the process has exited, only a map of root's is accepted.
    let owner = procfs::user(pid).unwrap_or(0);
    let is_own = |file: &Stat| file.st_uid == owner;
    by_path(mounts, &Path::new("/tmp").join(format!("perf-{pid}.map")), is_own).or_else(|_| {
        let inner = unhitch_symbols::files::contained_perf_map(pid).map_err(|_| Errno::NOENT)?;
        let name = inner.file_name().ok_or(Errno::NOENT)?;
        let root = place(Path::new(&format!("/proc/{pid}/root")))?;
        // Check the file system that is mounted at `/tmp` there before looking up a name in it.
        let temporary = open_beneath(root, Path::new("tmp"), Through::Mounts)?;
        if !mounts.is_answering(&temporary, pid)? {
            return Err(Errno::PERM);
        }
        let place = open_beneath(temporary, Path::new(name), Through::Folders)?;
        reopen(&place, mounts, pid, is_own)
    })
}

/// Flags to open a file for reading; does not block if it is a pipe.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn by_path(mounts: &Mounts, path: &Path, is_allowed: impl Fn(&Stat) -> bool) -> Answer {
    let place = mounts.open(path)?;
    reopen(&place, mounts, std::process::id(), is_allowed)
}

/// Opens a handle for reading if its file system certainly answers and it is a regular file. *Why
/// in two steps:* opening a device or a pipe may have side effects.
fn reopen(
    place: &OwnedFd,
    mounts: &Mounts,
    pid: u32,
    is_allowed: impl Fn(&Stat) -> bool,
) -> Answer {
    if !mounts.is_answering(place, pid)? || !is_regular(&fstat(place)?) {
        return Err(Errno::PERM);
    }
    let file = beneath::reopen(place, READ)?;
    let about = fstat(&file)?;
    if is_regular(&about) && is_allowed(&about) { Ok(file.into()) } else { Err(Errno::PERM) }
}

fn is_regular(file: &Stat) -> bool {
    FileType::from_raw_mode(file.st_mode) == FileType::RegularFile
}

/// True if everybody can read the file, or a user who mapped it can.
fn is_readable_by(file: &Stat, mappings: &[Program]) -> bool {
    file.st_mode & 0o004 != 0
        || mappings
            .iter()
            .any(|program| program.user == Some(file.st_uid) || program.user == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    fn programs(path: &Path, user: u32) -> Programs {
        let program = Program { pid: u32::MAX, user: Some(user), start_avma: 0, len: 0 };
        Programs::from_iter([(path.to_owned(), program)])
    }

    fn mapped(programs: &Programs, path: &Path) -> Option<Errno> {
        open(programs, &Mounts::read(), &Wanted::Mapped(path.to_owned())).err()
    }

    #[test]
    fn only_files_that_their_user_can_read_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = folder.join("library");
        fs::write(&path, b"x").unwrap();
        let me = fs::metadata(&path)
            .map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata))
            .unwrap();
        let (own, stranger) = (programs(&path, me), programs(&path, me + 1));
        assert_eq!((mapped(&own, &path), mapped(&stranger, &path)), (None, None));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!((mapped(&own, &path), mapped(&stranger, &path)), (None, Some(Errno::PERM)));
        let link = folder.join("link");
        symlink(&path, &link).unwrap();
        assert_eq!(mapped(&programs(&link, me), &link), Some(Errno::LOOP));
        for special in [
            "/proc/kmsg",
            "/proc/self/mem",
            "/dev/null",
            "/sys/kernel/notes",
            "/proc/self/root/etc/passwd",
        ] {
            assert!(
                mapped(&programs(Path::new(special), 0), Path::new(special)).is_some(),
                "{special}"
            );
        }
    }

    #[test]
    fn debug_files_are_found_beside_the_program_or_in_the_debug_folder() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let of = folder.join("program");
        fs::create_dir(folder.join(".debug")).unwrap();
        fs::create_dir(folder.join("elsewhere")).unwrap();
        let programs = programs(&of, rustix::process::getuid().as_raw());
        let found = |name: &str| {
            fs::write(folder.join(name), b"x").unwrap();
            open(
                &programs,
                &Mounts::read(),
                &Wanted::Debug { path: folder.join(name), of: of.clone() },
            )
            .is_ok()
        };
        assert!(found("a.debug") && found(".debug/a.debug"));
        assert!(!found("elsewhere/a.debug"));
        let outside = PathBuf::from(DEBUG_FOLDER).join("../../../etc/passwd");
        assert!(open(&programs, &Mounts::read(), &Wanted::Debug { path: outside, of }).is_err());
    }

    #[test]
    fn a_jit_map_belongs_to_its_process() {
        let own = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
        fs::write(&own, b"1000 10 a\n").unwrap();
        let opened = open_perf_map(&Mounts::read(), std::process::id()).is_ok();
        fs::remove_file(&own).unwrap();
        symlink("/etc/passwd", &own).unwrap();
        let followed = open_perf_map(&Mounts::read(), std::process::id()).is_ok();
        fs::remove_file(&own).unwrap();
        assert!(opened && !followed);
    }
}
