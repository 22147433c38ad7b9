//! Who can read what: with capabilities on the binary, as root, and through files that are left
//! behind.
//!
//! `setpriv` runs a program as another user, which needs root; without it, a test reports that it
//! is skipped.
#![cfg(target_os = "linux")]

mod viewer;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use viewer::Viewer;

const UNHITCH: &str = env!("CARGO_BIN_EXE_unhitch");
const STRANGER: u32 = 4711;
const CAPABILITIES: &str =
    "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_ipc_lock+ep";

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/starve.hitch")
        .canonicalize()
        .unwrap()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A folder that everybody may enter, with a copy of the example trace that everybody may read.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let trace = folder.path().join("a.hitch");
    fs::copy(example(), &trace).unwrap();
    fs::set_permissions(trace, Permissions::from_mode(0o644)).unwrap();
    folder
}

/// A copy of the program with the recommended capabilities for recording, which everybody may run;
/// `None` if that is not possible.
fn with_capabilities(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("unhitch");
    fs::copy(UNHITCH, &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let given = Command::new("setcap").arg(CAPABILITIES).arg(&program).status();
    (is_root() && given.is_ok_and(|status| status.success())).then_some(program)
}

fn stranger(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([
            format!("--reuid={STRANGER}"),
            format!("--regid={STRANGER}"),
            "--clear-groups".to_owned(),
        ])
        .arg(program);
    command.env_remove("HOME").env_remove("XDG_CONFIG_HOME");
    command
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn capabilities_to_record_open_no_file_that_the_user_may_not_read() {
    let folder = open_folder();
    let Some(program) = with_capabilities(folder.path()) else {
        return eprintln!("SKIPPED: setcap takes root");
    };
    let secret = folder.path().join("secret.toml");
    fs::write(&secret, "hidden = 1\n").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    fs::copy(example(), closed.join("a.hitch")).unwrap();
    let trace = folder.path().join("a.hitch");
    let tries: [&[&Path]; 7] = [
        &["why".as_ref(), &trace, "--rules".as_ref(), &secret],
        &["why".as_ref(), &trace, "--rules".as_ref(), "/etc/shadow".as_ref()],
        &["why".as_ref(), &closed.join("a.hitch")],
        &["table".as_ref(), &closed.join("a.hitch"), "waits".as_ref()],
        &["info".as_ref(), &closed.join("a.hitch")],
        &["report".as_ref(), &closed.join("a.hitch"), "-o".as_ref(), "/dev/null".as_ref()],
        &["why".as_ref(), "/proc/1/environ".as_ref()],
    ];
    for words in tries {
        let output = stranger(&program).args(words).output().unwrap();
        let printed = printed(&output);
        assert!(
            output.status.code() == Some(1) && printed.contains("ermission denied"),
            "{words:?}: {printed}"
        );
        assert!(!printed.contains("hidden") && !printed.contains("root:"), "{words:?}: {printed}");
    }
    let output = stranger(&program).arg("why").arg(&trace).output().unwrap();
    assert!(
        output.status.success() && printed(&output).contains("lock starvation"),
        "{}",
        printed(&output)
    );
}

#[test]
fn a_rules_file_is_not_repeated_in_its_error() {
    let folder = open_folder();
    let rules = folder.path().join("shadow");
    fs::write(&rules, "root:$6$hidden$hidden:19000:0:99999:7:::\n").unwrap();
    let output = Command::new(UNHITCH)
        .arg("why")
        .arg(example())
        .arg("--rules")
        .arg(&rules)
        .output()
        .unwrap();
    let printed = printed(&output);
    assert!(
        !output.status.success()
            && printed.contains("line 1, column")
            && !printed.contains("hidden"),
        "{printed}"
    );
    let output = Command::new(UNHITCH).arg("why").arg(&rules).output().unwrap();
    assert!(
        !output.status.success() && !String::from_utf8_lossy(&output.stderr).contains("root:"),
        "{output:?}"
    );
}

fn view(mut program: Command, path: &Path) -> Viewer {
    Viewer::start(program.arg("view").arg(path))
}

fn status(viewer: &Viewer) -> String {
    fs::read_to_string(format!("/proc/{}/status", viewer.child.id())).unwrap()
}

#[test]
fn a_command_that_reads_traces_has_no_capability() {
    let folder = open_folder();
    if !is_root() {
        return eprintln!("SKIPPED: there are no capabilities to give up");
    }
    let its_status = status(&view(Command::new(UNHITCH), folder.path()));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(its_status.contains(&format!("{set}:\t0000000000000000")), "{set}: {its_status}");
    }
    assert!(
        its_status.contains("NoNewPrivs:\t1") && its_status.contains("Seccomp:\t2"),
        "{its_status}"
    );
    let Some(program) = with_capabilities(folder.path()) else {
        return eprintln!("SKIPPED: no setcap");
    };
    let command = stranger(&program);
    let viewer = view(command, &folder.path().join("a.hitch"));
    assert!(status(&viewer).contains("CapPrm:\t0000000000000000"), "{}", status(&viewer));
    let closed = stranger(&program).args(["view", "/root"]).stdin(Stdio::null()).output().unwrap();
    assert!(
        !closed.status.success() && printed(&closed).contains("ermission denied"),
        "{}",
        printed(&closed)
    );
}

/// Files that the page writes are private to its owner, even if that is root.
#[test]
fn uploads_and_notes_are_private_to_their_owner() {
    let folder = open_folder();
    let viewer = view(Command::new(UNHITCH), folder.path());
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().mode() & 0o777;
    let answer = viewer.ask("POST /api/traces?name=b.hitch", &fs::read(example()).unwrap());
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(mode("b.hitch"), 0o600);
    let answer = viewer.ask("PATCH /api/traces/b.hitch", br#"{"notes":"seen","name":"c.hitch"}"#);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("seen"), "{answer}");
    assert_eq!(mode("c.hitch"), 0o600);
    // A trace that an older version left readable for everybody becomes private when it is
    // rewritten.
    let answer = viewer.ask("PATCH /api/traces/a.hitch", br#"{"notes":"seen"}"#);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(mode("a.hitch"), 0o640);
}

/// As root, a command can only access what was named: a link in the trace folder leads nowhere
/// else.
#[test]
fn root_only_reads_what_was_named() {
    if !is_root() {
        return eprintln!("SKIPPED: only root is confined");
    }
    let (folder, other) = (open_folder(), open_folder());
    let rules = other.path().join("rules.toml");
    fs::write(&rules, "").unwrap();
    fs::create_dir(folder.path().join("unhitch")).unwrap();
    std::os::unix::fs::symlink(&rules, folder.path().join("unhitch/waits.toml")).unwrap();
    let named =
        Command::new(UNHITCH).arg("info").arg(folder.path().join("a.hitch")).output().unwrap();
    assert!(named.status.success() && !printed(&named).contains("Landlock"), "{}", printed(&named));
    // The rules in the user's configuration count as named.
    let output = Command::new(UNHITCH)
        .arg("why")
        .arg(folder.path().join("a.hitch"))
        .env("XDG_CONFIG_HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let svg = folder.path().join("why.svg");
    let output = Command::new(UNHITCH)
        .arg("why")
        .arg(folder.path().join("a.hitch"))
        .arg("--svg")
        .arg(&svg)
        .output()
        .unwrap();
    assert!(output.status.success() && svg.exists(), "{}", printed(&output));
    let output =
        Command::new(UNHITCH).arg("report").arg(folder.path().join("a.hitch")).output().unwrap();
    assert!(
        output.status.success() && folder.path().join("a.html").exists(),
        "{}",
        printed(&output)
    );
}

/// Connections of other users neither exhaust the server nor block its user.
#[test]
fn silent_connections_block_nobody_for_long() {
    let folder = open_folder();
    let viewer = view(Command::new(UNHITCH), folder.path());
    let idle: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", viewer.port)).unwrap();
            if number % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
            }
            stream
        })
        .collect();
    let answer = viewer.ask("GET /api/server", b"");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let open = fs::read_dir(format!("/proc/{}/fd", viewer.child.id())).unwrap().count();
    assert!(open < 180, "{open} descriptors");
    drop(idle);
}

/// Records for a moment with a permissive umask; `None` if that is not permitted.
fn recorded(trace: &Path, options: &[&str]) -> Option<fs::Metadata> {
    let script = "umask 0; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh", UNHITCH, "record", "--for", "200ms", "--buffer", "256K", "-o"])
        .arg(trace)
        .args(options);
    let output = command.output().unwrap();
    if output.status.success() {
        return Some(fs::metadata(trace).unwrap());
    }
    let printed = printed(&output);
    assert!(
        printed.contains("Recording is not permitted") || printed.contains("tracefs"),
        "{printed}"
    );
    eprintln!("SKIPPED: {printed}");
    None
}

/// The naming process of the recorder.
#[test]
fn live_the_naming_process_has_no_rights() {
    if !is_root() {
        return eprintln!(
            "SKIPPED live_the_naming_process_has_no_rights: there are none to give up"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut namer = Command::new(UNHITCH)
        .arg("name-frames")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    // Asked to prepare itself, it requests a file: already without rights.
    (&ours).write_all(b"P").unwrap();
    (&ours).read_exact(&mut [0]).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", namer.id())).unwrap();
    drop(ours);
    namer.wait().unwrap();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{set}: {status}");
    }
    for line in ["Uid:\t65534\t65534\t65534\t65534", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }

    let trace = folder.path().join("named.hitch");
    if recorded(&trace, &[]).is_none() {
        return;
    }
    let info = printed(&Command::new(UNHITCH).arg("info").arg(&trace).output().unwrap());
    assert!(
        !info.contains("not fully confined") && !info.contains("program functions have no names"),
        "{info}"
    );
}

#[test]
fn live_a_trace_is_readable_by_its_owner_or_the_given_group() {
    let folder = tempfile::tempdir().unwrap();
    let Some(own) = recorded(&folder.path().join("own.hitch"), &[]) else { return };
    assert_eq!(own.mode() & 0o777, 0o600);
    let group = if is_root() { STRANGER } else { own.gid() };
    let shared =
        recorded(&folder.path().join("shared.hitch"), &["--group", &group.to_string()]).unwrap();
    assert_eq!((shared.mode() & 0o777, shared.gid()), (0o640, group));
}

#[test]
fn a_foreign_group_is_refused_before_recording() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can be somebody else");
    }
    let folder = open_folder();
    let program = folder.path().join("unhitch");
    fs::copy(UNHITCH, &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    for (group, why) in
        [("4712", "you are not a member of this group"), ("no-such-group", "no such group")]
    {
        let output =
            stranger(&program).args(["record", "--for", "1s", "--group", group]).output().unwrap();
        assert!(
            output.status.code() == Some(2) && printed(&output).contains(why),
            "{}",
            printed(&output)
        );
    }
}
