//! Processes that have given up their rights try to use them.
//!
//! Rights are given up once, by a process with a single thread. So this program starts itself for
//! each role, and has no test harness, which would start threads.

#[cfg(target_os = "linux")]
mod linux {
    use rayon::prelude::*;
    use rustix::process::{Pid, getppid, test_kill_process};
    use std::collections::BTreeMap;
    use std::fs::{self, File, OpenOptions};
    use std::io::{self, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};
    use unhitch_confine::{Allowed, Limits, compute_only, confine, is_privileged, renounce};

    const ROLE: &str = "UNHITCH_ATTEMPTS_ROLE";
    const FOLDER: &str = "UNHITCH_ATTEMPTS_FOLDER";
    const OK: &str = "ok";
    const CONTENT: &str = "what the child was given";

    pub fn main() {
        match std::env::var(ROLE) {
            Ok(role) => play(&role),
            Err(_) => {
                who_renounces();
                who_only_computes();
                who_writes_to_a_file_that_it_was_given();
                who_answers();
                who_listens();
                who_runs();
            }
        }
    }

    /// What a role tried, and the result: "ok" or the error.
    struct Attempts(BTreeMap<String, String>);

    impl Attempts {
        fn of(role: &str, folder: &Path) -> Self {
            let output = start(role, folder);
            let text = String::from_utf8(output.stdout).unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{role}: {}\n{text}{errors}", output.status);
            println!("{role}:\n{text}");
            Self(
                text.lines()
                    .map(|line| line.split_once(": ").unwrap())
                    .map(|(a, b)| (a.to_owned(), b.to_owned()))
                    .collect(),
            )
        }

        fn works(&self, what: &str) {
            assert_eq!(self.0[what], OK, "{what}");
        }

        fn fails(&self, what: &str) {
            assert_ne!(self.0[what], OK, "{what}");
        }
    }

    fn start(role: &str, folder: &Path) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .env(FOLDER, folder)
            .output()
            .unwrap()
    }

    /// A folder with the files `named` and `other`, and a folder `out` with a link to the latter.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("named"), CONTENT).unwrap();
        fs::write(folder.path().join("other"), "a secret").unwrap();
        fs::create_dir(folder.path().join("out")).unwrap();
        symlink(folder.path().join("other"), folder.path().join("out/link")).unwrap();
        folder
    }

    /// A kernel may lack Landlock, and then its effects cannot be tested.
    fn lacks_landlock(attempts: &Attempts) -> bool {
        let lacks = attempts.0.keys().any(|line| line.contains("Landlock"));
        if lacks {
            println!("SKIPPED files: this kernel has no Landlock");
        }
        lacks
    }

    fn who_renounces() {
        let attempts = Attempts::of("renounce", folder().path());
        attempts.works("has no capability");
        attempts.works("read other");
        attempts.works("run");
        if rustix::process::geteuid().is_root() {
            attempts.fails("read as root, with rights that nobody has");
        }
    }

    fn who_only_computes() {
        let attempts = Attempts::of("compute", folder().path());
        for what in [
            "threads",
            "memory",
            "read what was given",
            "its length",
            "send",
            "has no capability",
            "is not root",
        ] {
            attempts.works(what);
        }
        for what in [
            "read named",
            "read other",
            "list",
            "write",
            "socket",
            "run",
            "signal",
            "descriptor of another",
            "user root",
            "pid fd",
        ] {
            attempts.fails(what);
        }
        for what in ["much memory", "link", "rename"] {
            attempts.fails(what);
        }
    }

    fn who_writes_to_a_file_that_it_was_given() {
        let output = start("append", folder().path());
        assert_eq!(
            output.status.signal(),
            Some(rustix::process::Signal::XFSZ.as_raw()),
            "{output:?}"
        );
    }

    fn who_answers() {
        let attempts = Attempts::of("answer", folder().path());
        attempts.works("threads");
        attempts.works("read named");
        attempts.fails("socket");
        attempts.fails("run");
        attempts.fails("pid fd");
        if !lacks_landlock(&attempts) {
            attempts.works("write out");
            attempts.fails("read other");
            attempts.fails("read other through a link");
            attempts.fails("write");
            attempts.fails("signal");
        }
    }

    fn who_listens() {
        let attempts = Attempts::of("listen", folder().path());
        attempts.works("socket");
        attempts.fails("run");
        if !lacks_landlock(&attempts) {
            attempts.fails("connect");
        }
    }

    fn who_runs() {
        let attempts = Attempts::of("run", folder().path());
        attempts.works("run");
        attempts.works("what it runs has no capability");
        if !lacks_landlock(&attempts) {
            attempts.fails("what it runs reads other");
        }
    }

    fn play(role: &str) {
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        let mut given =
            OpenOptions::new().read(true).append(true).open(folder.join("named")).unwrap();
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let parent = getppid().unwrap();
        for line in give_up(role, &folder) {
            println!("{line}: warned");
        }
        report("threads", check((0..1000u64).into_par_iter().sum::<u64>() == 499_500));
        report(
            "memory",
            check(vec![1u8; 64 << 20].iter().map(|byte| u64::from(*byte)).sum::<u64>() == 64 << 20),
        );
        report(
            "much memory",
            Vec::<u8>::new().try_reserve_exact(4 << 30).map_err(io::Error::other),
        );
        let mut text = String::new();
        report(
            "read what was given",
            given.read_to_string(&mut text).and_then(|_| check(text == CONTENT)),
        );
        report(
            "its length",
            given.metadata().and_then(|about| check(about.len() == CONTENT.len() as u64)),
        );
        report("send", near.write_all(b"x").and_then(|()| far.read_exact(&mut [0])));
        report("has no capability", is_privileged().and_then(|is| check(!is)));
        report("is not root", check(!rustix::process::geteuid().is_root()));
        files(&folder);
        if role == "append" {
            report("append to what was given", given.write_all(b"more"));
        }
        others(parent, port);
        programs(&folder);
    }

    fn give_up(role: &str, folder: &Path) -> Vec<String> {
        let system = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/proc"]
            .map(PathBuf::from)
            .to_vec();
        match role {
            "renounce" => renounce().map(|()| Vec::new()).unwrap(),
            "compute" | "append" => compute_only(&Limits {
                address_space_bytes: 2 << 30,
                cpu_seconds: Some(60),
                open_files: 64,
            }),
            "answer" => confine(&Allowed {
                read: vec![folder.join("named"), folder.join("out")],
                write: vec![folder.join("out")],
                ..Allowed::default()
            }),
            "listen" => confine(&Allowed { listen: true, ..Allowed::default() }),
            "run" => confine(&Allowed { read: system, run: true, ..Allowed::default() }),
            _ => panic!("no such role: {role}"),
        }
    }

    fn files(folder: &Path) {
        report("read named", fs::read(folder.join("named")));
        report("read other", fs::read(folder.join("other")));
        report("list", fs::read_dir(folder));
        report("write", fs::write(folder.join("new"), "x"));
        report("write out", fs::write(folder.join("out/new"), "x"));
        report("link", symlink(folder.join("other"), folder.join("out/another")));
        report("read other through a link", fs::read(folder.join("out/link")));
        report("rename", fs::rename(folder.join("other"), folder.join("another")));
        // Its mode gives nobody access; root needs a capability to enter.
        report("read as root, with rights that nobody has", File::open("/proc/1/mem"));
    }

    fn others(parent: Pid, port: u16) {
        report("signal", test_kill_process(parent));
        report(
            "user root",
            rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).and_then(|()| unless_root()),
        );
        let pidfd = rustix::process::pidfd_open(parent, rustix::process::PidfdFlags::empty());
        report("descriptor of another", pidfd.as_ref().map_err(|error| *error).and_then(steal));
        report("pid fd", pidfd);
        report("socket", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        report("connect", TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
    }

    fn steal(pidfd: impl std::os::fd::AsFd) -> rustix::io::Result<()> {
        rustix::process::pidfd_getfd(pidfd, 1, rustix::process::PidfdGetfdFlags::empty()).map(drop)
    }

    /// Becoming the same user succeeds, but gains nothing.
    fn unless_root() -> rustix::io::Result<()> {
        if rustix::process::getuid().is_root() { Ok(()) } else { Err(rustix::io::Errno::PERM) }
    }

    fn programs(folder: &Path) {
        let output = |program: &str, argument: &Path| {
            let output = Command::new(program).arg(argument).output()?;
            check(output.status.success())
                .map(|()| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        report("run", output("true", Path::new("")));
        report("what it runs reads other", output("cat", &folder.join("other")));
        let status = output("cat", Path::new("/proc/self/status"));
        report(
            "what it runs has no capability",
            status.and_then(|status| check(status.contains("CapEff:\t0000000000000000"))),
        );
    }

    fn check(condition: bool) -> io::Result<()> {
        if condition { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn report<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) {
        match result {
            Ok(_) => println!("{what}: {OK}"),
            Err(error) => println!("{what}: {error}"),
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
