//! Attacks on a single command: through the place where it writes, the files that it reads, and its
//! sockets.

use crate::harness::{
    Attacker, Attempt, Costs, Guarded, Miss, OTHER, Run, Stage, USER, Watch, fail,
};
use crate::{bombs, sieges};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn record(stage: &Stage, path: &Path) -> Attempt<Run> {
    stage
        .run_program(&["record", "--for", "200ms", "-o", path.to_str().expect("text")])?
        .succeeded("record")
}

/// Records into a world-writable folder in which `prepare` has put an obstacle.
fn into_sticky_folder(
    stage: &Stage,
    prepare: impl FnOnce(&Path) -> Attempt<()>,
) -> Attempt<(Costs, PathBuf)> {
    let folder = stage.root.join("sticky");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, Permissions::from_mode(0o1777))?;
    let peace = record(stage, &stage.root.join("peace.hitch"))?;
    let path = folder.join("out.hitch");
    prepare(&path)?;
    let run = record(stage, &path)?;
    let Some(written) = run.printed.lines().find(|line| line.ends_with(".hitch")) else {
        return fail("no trace was written");
    };
    let metadata = fs::symlink_metadata(written)?;
    if !metadata.is_file() || metadata.mode() & 0o077 != 0 || metadata.uid() != 0 {
        return fail(format!("{written} is of uid {}, mode {:o}", metadata.uid(), metadata.mode()));
    }
    stage.check_trace(Path::new(written))?;
    Ok((Costs::of(&peace, &run), path))
}

pub fn output_is_a_dangling_link(stage: &Stage) -> Attempt<Costs> {
    let target = stage.root.join("made-by-link");
    let (costs, _) = into_sticky_folder(stage, |path| Ok(symlink(&target, path)?))?;
    if target.exists() { fail("the link was followed") } else { Ok(costs) }
}

pub fn output_is_a_fifo(stage: &Stage) -> Attempt<Costs> {
    let fifo = |path: &Path| {
        let mut command = Command::new("mkfifo");
        command.arg(path).uid(USER).gid(USER);
        stage.run("mkfifo", command)?.succeeded("mkfifo").map(drop)
    };
    Ok(into_sticky_folder(stage, fifo)?.0)
}

pub fn output_is_anothers_file(stage: &Stage) -> Attempt<Costs> {
    let place = |path: &Path| {
        fs::write(path, "another's")?;
        chown(path, Some(OTHER), Some(OTHER))?;
        Ok(fs::set_permissions(path, Permissions::from_mode(0o666))?)
    };
    let (costs, path) = into_sticky_folder(stage, place)?;
    if fs::read(path)? == b"another's" { Ok(costs) } else { fail("another's file was overwritten") }
}

pub fn output_appears(stage: &Stage) -> Attempt<Costs> {
    let mut attacker = None;
    let begin = |path: &Path| {
        let folder = path.parent().expect("a folder").to_str().expect("text");
        attacker = Some(stage.attack(&["appear", folder, "out.hitch"])?);
        Ok(())
    };
    let (costs, path) = into_sticky_folder(stage, begin)?;
    if path.with_file_name("elsewhere").exists() {
        fail("the link was followed")
    } else {
        Ok(costs)
    }
}

pub fn peek_at_traces(stage: &Stage) -> Attempt<Costs> {
    let traces = stage.root.join("traces");
    fs::create_dir(&traces)?;
    let peace = record(stage, &stage.root.join("peace.hitch"))?;
    let catch = stage.user.join("catch");
    let _attacker =
        stage.attack(&["peek", traces.to_str().expect("text"), catch.to_str().expect("text")])?;
    let run = record(stage, &traces.join("out.hitch"))?;
    match fs::read_to_string(catch) {
        Ok(name) => fail(format!("{name} could be read by everybody")),
        Err(_) => Ok(Costs::of(&peace, &run)),
    }
}

pub fn squatter_at_the_socket(stage: &Stage) -> Attempt<Costs> {
    let folder = PathBuf::from(format!("/tmp/unhitch-{USER}"));
    let mut squatter = stage.part(&["squat", folder.to_str().expect("text")]);
    squatter.uid(OTHER).gid(OTHER).current_dir("/tmp");
    let squatter = Attacker::start(squatter, "squat")?;
    let mut save = stage.unhitch();
    save.args(["save", "--note", "for my recorder"]).uid(USER).gid(USER);
    let run = stage.run("save", save);
    let shown = fs::read_to_string(folder.join("received"));
    drop(squatter);
    fs::remove_dir_all(&folder)?;
    let run = run?;
    match shown {
        Ok(shown) if !shown.is_empty() => {
            fail("another user's socket was trusted, and received the note")
        }
        _ if run.status.success() => fail("another's answer was believed"),
        _ => Ok(Costs::most(&[run])),
    }
}

pub fn stranger_at_the_socket(stage: &Stage) -> Attempt<Costs> {
    let mut watch = Watch::start(stage)?;
    match stage.attack(&["endless-line", sieges::SOCKET]) {
        Ok(_) => return fail("a stranger reaches root's socket"),
        Err(Miss::Failed(_)) => {}
        Err(miss) => return Err(miss),
    }
    let mut costs = Costs::default();
    watch.save(&mut costs)?;
    watch.end()?;
    Ok(costs)
}

/// Runs commands on a trace: each may succeed or refuse, within the limits for a trace.
fn read_by_root(stage: &Stage, path: &Path) -> Attempt<Costs> {
    let path = path.to_str().expect("text");
    let questions: [&[&str]; 4] =
        [&["info", path], &["why", path], &["table", path, "switches"], &["waits", path]];
    let runs = questions
        .into_iter()
        .map(|words| stage.run_program(words))
        .collect::<Attempt<Vec<Run>>>()?;
    Ok(Costs::most(&runs))
}

fn blown_up(stage: &Stage, member: &str) -> Attempt<Costs> {
    let path = stage.user.join("bomb.hitch");
    bombs::blow_up(&stage.trace, &path, member, 2 << 30)?;
    read_by_root(stage, &path)
}

pub fn bomb_of_records(stage: &Stage) -> Attempt<Costs> {
    blown_up(stage, "perf.data")
}

pub fn bomb_of_names(stage: &Stage) -> Attempt<Costs> {
    blown_up(stage, "symbols.json")
}

pub fn million_members(stage: &Stage) -> Attempt<Costs> {
    let path = stage.user.join("many.hitch");
    bombs::many_members(&path, 1_000_000)?;
    read_by_root(stage, &path)
}

pub fn cut_trace(stage: &Stage) -> Attempt<Costs> {
    let path = stage.user.join("cut.hitch");
    fs::copy(&stage.trace, &path)?;
    let path = path.to_str().expect("text");
    let _attacker = stage.attack(&["cut-trace", path])?;
    let mut most = Costs::default();
    for _ in 0..5 {
        let costs = read_by_root(stage, Path::new(path))?;
        most = Costs {
            with: most.with.max(costs.with),
            mebibytes: most.mebibytes.max(costs.mebibytes),
            ..most
        };
    }
    Ok(most)
}

/// What the documentation recommended for recording without root.
const CAPABILITIES: &str =
    "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog,cap_dac_read_search,cap_ipc_lock+ep";

pub fn roots_files_through_capabilities(stage: &Stage) -> Attempt<Costs> {
    let binary = stage.user.join("unhitch");
    fs::copy(stage.unhitch_path(), &binary)?;
    let mut setcap = Command::new("setcap");
    setcap.arg(CAPABILITIES).arg(&binary);
    stage
        .run("setcap", setcap)
        .and_then(|run| run.succeeded("setcap"))
        .map_err(|_| Miss::Skipped("no setcap".to_owned()))?;
    let secret = stage.secret_file("shadow", format!("{0}:{0}\n", stage.secret))?;
    let trace = stage.root.join("trace.hitch");
    fs::copy(&stage.trace, &trace)?;
    fs::set_permissions(&trace, Permissions::from_mode(0o600))?;
    let (secret, trace, peace) = (
        secret.to_str().expect("text"),
        trace.to_str().expect("text"),
        stage.trace.to_str().expect("text"),
    );
    let as_user = |words: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(words).uid(USER).gid(USER);
        stage.run(words[0], command)
    };
    let mut runs = vec![as_user(&["why", peace, "--rules", secret])?, as_user(&["info", secret])?];
    for words in [
        &["info", trace][..],
        &["why", trace],
        &["table", trace, "switches"],
        &["report", trace, "-o", "/dev/null"],
    ] {
        let run = as_user(words)?;
        if run.status.success() {
            return fail(format!("{} reads root's trace for everybody", words[0]));
        }
        runs.push(run);
    }
    Ok(Costs::most(&runs))
}

pub fn slow_clients_of_the_page(stage: &Stage) -> Attempt<Costs> {
    let mut view = stage.unhitch();
    view.arg("view").arg(&stage.trace).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut view = Guarded::spawn(view)?;
    let mut line = String::new();
    BufReader::new(view.stdout()).read_line(&mut line)?;
    let Some((port, token)) = line
        .trim_end()
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.split_once("/?token="))
    else {
        return fail(format!("view printed {line}"));
    };
    let without = ask(port, token)?;
    let _attacker = stage.attack(&["slow-page", port, "500"])?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(Costs { without, with: ask(port, token)?, mebibytes: view.mebibytes() })
}

fn ask(port: &str, token: &str) -> Attempt<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(15)))?;
    write!(
        stream,
        "GET /api/server HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") {
        Ok(begun.elapsed())
    } else {
        fail("the page does not answer")
    }
}
