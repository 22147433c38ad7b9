//! The test environment: two users, root's secret, the recorder under attack, and measurements of
//! it.

use crate::fuse;
use crate::usage::Usage;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// User id of the attacker.
pub const USER: u32 = 4711;
/// User id of the owner of files and sockets that are in the way.
pub const OTHER: u32 = 4712;
/// A command that takes longer counts as hung.
const LIMIT: Duration = Duration::from_secs(15);
/// How long SIGTERM may take.
const END: Duration = Duration::from_secs(1);

/// Why an attack was not withstood.
#[derive(Debug)]
pub enum Miss {
    /// The attack is not possible on this machine.
    Skipped(String),
    /// The attack succeeded.
    Failed(String),
    /// The attack cost time, which may be chance on a busy machine.
    Slow(String),
}

impl<E: std::fmt::Display> From<E> for Miss {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

pub type Attempt<T> = Result<T, Miss>;

/// Fails with what succeeded.
pub fn fail<T>(what: impl Into<String>) -> Attempt<T> {
    Err(Miss::Failed(what.into()))
}

/// The costs with an attack, and without it.
#[derive(Clone, Copy, Default)]
pub struct Costs {
    pub without: Duration,
    pub with: Duration,
    pub mebibytes: u64,
}

impl Costs {
    /// The costs of a command, without and with the attack.
    pub fn of(without: &Run, with: &Run) -> Self {
        Self { without: without.elapsed, with: with.elapsed, mebibytes: with.mebibytes }
    }

    /// The worst of several.
    pub fn most(runs: &[Run]) -> Self {
        let mut costs = Self::default();
        runs.iter().for_each(|run| costs.add(run));
        costs
    }

    /// Adds a command that was attacked.
    pub fn add(&mut self, run: &Run) {
        self.with = self.with.max(run.elapsed);
        self.mebibytes = self.mebibytes.max(run.mebibytes);
    }
}

/// The folders of one attack. Root's folder can be listed, but its files not read; the user's
/// folder belongs to the user.
pub struct Stage {
    /// The folder of the user.
    pub user: PathBuf,
    /// The folder of root.
    pub root: PathBuf,
    /// The secret that only root may read.
    pub secret: String,
    /// A trace that was recorded without an attack.
    pub trace: PathBuf,
    folder: tempfile::TempDir,
    unhitch: PathBuf,
    this: PathBuf,
}

/// The programs under test, held open because a file system may be mounted over their folder.
pub struct Programs {
    unhitch: Vec<u8>,
    this: Vec<u8>,
}

impl Programs {
    pub fn read() -> std::io::Result<Self> {
        Ok(Self {
            unhitch: fs::read(env!("CARGO_BIN_EXE_unhitch"))?,
            this: fs::read("/proc/self/exe")?,
        })
    }

    /// Writes them to where everybody may run them.
    pub fn install(self, folder: &Path) -> std::io::Result<()> {
        fs::create_dir(folder)?;
        for (name, content) in [("unhitch", self.unhitch), ("hostile", self.this)] {
            fs::write(folder.join(name), content)?;
            fs::set_permissions(folder.join(name), Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}

impl Stage {
    pub fn new(programs: &Path) -> std::io::Result<Self> {
        // This cannot be in /tmp, which a user mounts over.
        let folder = tempfile::tempdir_in("/run")?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let (user, root) = (folder.path().join("user"), folder.path().join("root"));
        fs::create_dir(&user)?;
        fs::create_dir(&root)?;
        chown(&user, Some(USER), Some(USER))?;
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let secret = format!("secret{:016x}", u64::from_le_bytes(random));
        let trace = programs.join("peace.hitch");
        Ok(Self {
            user,
            root,
            secret,
            trace,
            folder,
            unhitch: programs.join("unhitch"),
            this: programs.join("hostile"),
        })
    }

    /// A file of root that contains the secret.
    pub fn secret_file(&self, name: &str, content: impl AsRef<[u8]>) -> std::io::Result<PathBuf> {
        let path = self.root.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(path)
    }

    /// Serves `content` as the only file on a file system of the user that everybody may use.
    /// Returns its path.
    pub fn serve(&self, content: &str) -> Attempt<(Attacker, String)> {
        let folder = self.folder.path().join("mount");
        fs::create_dir(&folder)?;
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|error| Miss::Skipped(format!("no FUSE here: {error}")))?;
        let options = format!(
            "fd={},rootmode=40000,user_id={USER},group_id={USER},allow_other",
            device.as_raw_fd()
        );
        mount(
            "hostile",
            &folder,
            "fuse",
            MountFlags::NODEV | MountFlags::NOSUID,
            &*CString::new(options)?,
        )?;
        let mut command = self.part(&["fuse", content]);
        command.uid(USER).gid(USER).stdin(device);
        let mut server = Attacker::start(command, "fuse")?;
        server.mount = Some(folder.clone());
        Ok((server, folder.join(fuse::FILE_NAME).to_str().expect("text").to_owned()))
    }

    /// Makes the file system stop answering.
    pub fn silence(&self) {
        let _ = fs::metadata(self.folder.path().join("mount").join(fuse::SILENCE));
    }

    /// A path in the user's folder, as text.
    pub fn mine(&self, name: &str) -> String {
        self.user.join(name).to_str().expect("text").to_owned()
    }

    /// Gives everything in the user's folder to the user.
    fn hand_over(&self) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.user)? {
            std::os::unix::fs::lchown(entry?.path(), Some(USER), Some(USER))?;
        }
        Ok(())
    }

    /// The program under test.
    pub fn unhitch(&self) -> Command {
        let mut command = Command::new(&self.unhitch);
        command.current_dir(self.folder.path()).env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// Where the program under test is.
    pub fn unhitch_path(&self) -> &Path {
        &self.unhitch
    }

    /// This program, as an attacker.
    pub fn part(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.this);
        command.arg("attack").args(words).current_dir(&self.user);
        command
    }

    /// Starts a part as the user.
    pub fn attack(&self, words: &[&str]) -> Attempt<Attacker> {
        self.hand_over()?;
        let mut command = self.part(words);
        command.uid(USER).gid(USER);
        Attacker::start(command, words[0])
    }

    /// Starts a part as the user, in separate user and mount namespaces where the user is root.
    pub fn attack_from_namespace(&self, words: &[&str]) -> Attempt<Attacker> {
        self.hand_over()?;
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
        ]);
        command.args(["mount -t tmpfs tmpfs /tmp 2>/dev/null; exec \"$@\"", "sh"]);
        command.arg(&self.this).arg("attack").args(words);
        command.uid(USER).gid(USER).current_dir("/");
        Attacker::start(command, words[0]).map_err(|miss| match miss {
            Miss::Failed(why) => Miss::Skipped(format!("no namespaces for users: {why}")),
            other => other,
        })
    }

    /// Fails if `bytes` contains the secret.
    pub fn holds_no_secret(&self, bytes: &[u8], place: &str) -> Attempt<()> {
        let found = bytes.windows(self.secret.len()).any(|window| window == self.secret.as_bytes());
        if found { fail(format!("root's secret is in {place}")) } else { Ok(()) }
    }

    /// Fails unless the trace opens and does not contain the secret. Returns its length.
    pub fn check_trace(&self, path: &Path) -> Attempt<()> {
        let trace = unhitch_formats::open(path)?;
        if trace.switches.is_empty() {
            return fail(format!("{} holds no switches", path.display()));
        }
        let mut zip = zip::ZipArchive::new(File::open(path)?)?;
        for index in 0..zip.len() {
            let mut content = Vec::new();
            let mut member = zip.by_index(index)?;
            let name = member.name()?.into_owned();
            member.read_to_end(&mut content)?;
            self.holds_no_secret(&content, &format!("{name} of the trace"))?;
        }
        Ok(())
    }

    /// Runs `command` until it exits; fails if it hangs, is killed, or prints the secret.
    pub fn run(&self, what: &str, mut command: Command) -> Attempt<Run> {
        let output = self.folder.path().join("output");
        let file = File::create(&output)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let begun = Instant::now();
        let mut child = Guarded(command.spawn()?);
        let mut usage = Usage::default();
        let status = loop {
            usage.look(child.0.id());
            if let Some(status) = child.0.try_wait()? {
                break status;
            }
            if begun.elapsed() > LIMIT {
                return fail(format!("{what}: hung"));
            }
            thread::sleep(Duration::from_millis(5));
        };
        let elapsed = begun.elapsed().saturating_sub(usage.waited());
        let printed = fs::read(&output)?;
        self.holds_no_secret(&printed, &format!("the output of {what}"))?;
        if let Some(signal) = status.signal() {
            return fail(format!("{what}: killed by signal {signal}"));
        }
        if printed.contains(&0x1b) {
            return fail(format!("{what}: an escape reaches the output"));
        }
        Ok(Run {
            status,
            elapsed,
            mebibytes: usage.peak_mebibytes(),
            printed: String::from_utf8_lossy(&printed).into_owned(),
        })
    }

    /// Runs the program under test with `words`.
    pub fn run_program(&self, words: &[&str]) -> Attempt<Run> {
        let mut command = self.unhitch();
        command.args(words);
        self.run(words[0], command)
    }
}

/// A finished command.
pub struct Run {
    pub status: ExitStatus,
    /// Without the time in which it was ready to run and had no CPU: others may keep the machine busy.
    pub elapsed: Duration,
    pub mebibytes: u64,
    pub printed: String,
}

impl Run {
    /// Fails unless it succeeded.
    pub fn succeeded(self, what: &str) -> Attempt<Self> {
        if self.status.success() {
            Ok(self)
        } else {
            fail(format!("{what}: {}: {}", self.status, self.last_line()))
        }
    }

    pub fn last_line(&self) -> &str {
        self.printed.trim_end().lines().last().unwrap_or("no output")
    }
}

/// A child process that does not outlive us.
pub struct Guarded(Child);

impl Guarded {
    pub fn spawn(mut command: Command) -> std::io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Its piped output.
    pub fn stdout(&mut self) -> ChildStdout {
        self.0.stdout.take().expect("piped")
    }

    /// Peak memory, with its children.
    pub fn mebibytes(&self) -> u64 {
        let mut usage = Usage::default();
        usage.look(self.0.id());
        usage.peak_mebibytes()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        reap(&mut self.0);
    }
}

/// Waits for a killed child, but not for long: a process that waits for files that never answer
/// does not exit before the attacker does.
fn reap(child: &mut Child) {
    const TIMEOUT: Duration = Duration::from_secs(5);
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process of an attack, with all its children.
pub struct Attacker {
    child: Child,
    /// Returned at the end.
    mount: Option<PathBuf>,
}

impl Attacker {
    /// Starts it, and waits until it is ready.
    pub fn start(mut command: Command, name: &str) -> Attempt<Self> {
        command.stdout(Stdio::piped()).process_group(0);
        let child = command
            .spawn()
            .map_err(|error| Miss::Failed(format!("{name} cannot be started: {error}")))?;
        let mut attacker = Self { child, mount: None };
        let mut line = String::new();
        BufReader::new(attacker.child.stdout.take().expect("piped")).read_line(&mut line)?;
        if line == "ready\n" {
            Ok(attacker)
        } else {
            fail(format!("the attacker {name} could not begin"))
        }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id as i32).expect("a process")
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = kill_process_group(pid(self.child.id()), Signal::KILL);
        reap(&mut self.child);
        if let Some(mount) = &self.mount {
            let _ = Command::new("umount").arg("--lazy").arg(mount).status();
        }
    }
}

/// A watching recorder.
pub struct Watch<'a> {
    stage: &'a Stage,
    child: Guarded,
    traces: PathBuf,
}

impl<'a> Watch<'a> {
    pub fn start(stage: &'a Stage) -> Attempt<Self> {
        let traces = stage.folder.path().join("traces");
        fs::create_dir_all(&traces)?;
        let errors = File::create(stage.folder.path().join("watch"))?;
        let mut command = stage.unhitch();
        command
            .args(["watch", "-o"])
            .arg(&traces)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        let watch = Self { stage, child: Guarded(command.spawn()?), traces };
        let begun = Instant::now();
        while !watch.printed()?.contains("watching;") {
            if begun.elapsed() > LIMIT {
                return fail(format!("watch does not begin: {}", watch.printed()?));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(watch)
    }

    fn printed(&self) -> Attempt<String> {
        Ok(fs::read_to_string(self.stage.folder.path().join("watch"))?)
    }

    /// The folder of the traces.
    pub fn traces(&self) -> &Path {
        &self.traces
    }

    /// Makes it save and returns the trace; measures the time and the peak memory of all processes.
    pub fn save(&mut self, costs: &mut Costs) -> Attempt<PathBuf> {
        let stage = self.stage;
        let watcher = self.child.0.id();
        let (saved, usage) = while_measured(watcher, || {
            let run = stage.run_program(&["save", "--note", "a note"]);
            if let Some(status) = self.child.0.try_wait()? {
                return fail(format!("watch ended: {status}"));
            }
            run?.succeeded("save")
        });
        costs.mebibytes = costs.mebibytes.max(usage.peak_mebibytes());
        let mut saved = saved?;
        saved.elapsed = saved.elapsed.saturating_sub(usage.waited());
        costs.add(&saved);
        let path = saved.printed.lines().find(|line| line.ends_with(".hitch")).map(PathBuf::from);
        path.ok_or_else(|| Miss::Failed(format!("save: {}", saved.last_line())))
    }

    /// Ends it with SIGTERM during a save; it must exit in time.
    pub fn end(mut self) -> Attempt<()> {
        let mut save = self.stage.unhitch();
        let _asking =
            Guarded(save.arg("save").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        thread::sleep(Duration::from_millis(30));
        kill_process(pid(self.child.0.id()), Signal::TERM)?;
        let begun = Instant::now();
        while self.child.0.try_wait()?.is_none() {
            if begun.elapsed() > END {
                return fail("watch: deaf to SIGTERM");
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.stage.holds_no_secret(self.printed()?.as_bytes(), "the output of watch")
    }
}

/// The result of `work`, and what the process used meanwhile.
fn while_measured<T>(pid: u32, work: impl FnOnce() -> T) -> (T, Usage) {
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut usage = Usage::default();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                usage.look(pid);
                thread::sleep(Duration::from_millis(5));
            }
            usage
        });
        let result = work();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (result, sampler.join().expect("the sampler"))
    })
}
