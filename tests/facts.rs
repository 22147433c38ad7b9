//! Facts beside switches and wake-ups that BPF records on this machine's kernel: who sent which
//! signal, what a wait was about and who has the other end, who wrote to the page cache. Where BPF
//! does not load, the tests are skipped and print `SKIPPED name: reason` to stderr.
#![cfg(target_os = "linux")]

use rustix::fs::FlockOperation;
use std::fs::File;
use std::io::{BufRead, BufReader, Write, stderr};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, process, thread};
use unhitch_model::{DescriptorKind, KeptWait, Polled, Trace, Value};
use unhitch_record::{EngineChoice, Extras, Options, Recorder, SaveTarget};

fn start(test: &str) -> Option<Recorder> {
    let mut options = Options::default();
    options.engine = EngineChoice::Bpf;
    match Recorder::start(&options) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            let _ = writeln!(stderr(), "SKIPPED {test}: {error}");
            None
        }
    }
}

fn save(recorder: &mut Recorder) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.hitch");
    let prepared = recorder.snapshot().prepare(&Extras::default()).unwrap();
    prepared.save(&SaveTarget::File(path.clone())).unwrap();
    unhitch_formats::open(&path).unwrap()
}

/// The events of that name: their thread ids and fields.
fn events(trace: &Trace, name: &str) -> Vec<(u32, Vec<u64>)> {
    let is_named = |event: &usize| {
        trace.events.kind_of(*event).is_some_and(|kind| trace.name(kind.name) == name)
    };
    let read = |event: usize| {
        let number = |(_, value): &(_, Value<'_>)| value.as_u64().unwrap_or(0);
        let fields = trace.events.fields(event).iter().map(number).collect();
        (trace.threads.get(trace.events.thread[event]).tid, fields)
    };
    (0..trace.events.len()).filter(is_named).map(read).collect()
}

#[test]
fn live_a_signal_has_its_sender() {
    let Some(mut recorder) = start("live_a_signal_has_its_sender") else { return };
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    // The shell reports its own id and then sends the signal itself.
    let script = format!("kill -STOP {}; exec kill -CONT {0}", child.id());
    let mut sender = Command::new("bash").args(["-c", &script]).spawn().unwrap();
    sender.wait().unwrap();
    let trace = save(&mut recorder);
    child.kill().unwrap();
    child.wait().unwrap();
    let sent: Vec<_> = events(&trace, "signal_generate")
        .into_iter()
        .filter(|(_, fields)| fields[1] == u64::from(child.id()))
        .map(|(tid, fields)| (tid, fields[0]))
        .collect();
    assert_eq!(sent, [(sender.id(), 19), (sender.id(), 18)], "SIGSTOP, then SIGCONT");
}

#[test]
fn live_a_wait_that_has_not_ended_names_the_other_end_of_its_pipe() {
    let Some(mut recorder) =
        start("live_a_wait_that_has_not_ended_names_the_other_end_of_its_pipe")
    else {
        return;
    };
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    let trace = save(&mut recorder);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_ends(&trace, child.id());
}

/// What `reader` waited for was a pipe at its standard input, of which this process has the other
/// end.
fn assert_ends(trace: &Trace, reader: u32) {
    let of_reader = |wait: &&KeptWait| {
        trace.threads.get(wait.thread).tid == reader && wait.descriptor.is_some()
    };
    let wait = trace.kept_waits.iter().rfind(of_reader);
    let on = wait.and_then(|wait| wait.descriptor.as_deref()).expect("the wait's descriptor");
    assert_eq!((on.kind, on.fd), (DescriptorKind::Pipe, 0), "{on:?}");
    let holders = trace.holders.iter().filter(|holder| holder.inode == on.inode);
    let ends: Vec<(u32, bool, bool)> = holders
        .map(|holder| (trace.threads.process_of(holder.process).pid, holder.reads, holder.writes))
        .collect();
    for end in [(process::id(), false, true), (reader, true, false)] {
        assert!(ends.contains(&end), "{ends:?} have inode {}", on.inode);
    }
}

/// The wait ends while `unhitch record` writes the trace. At its end, nobody waits for the pipe.
#[test]
fn live_a_wait_that_was_written_names_the_other_end_of_its_pipe() {
    if start("live_a_wait_that_was_written_names_the_other_end_of_its_pipe").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.hitch");
    let mut record = Command::new(env!("CARGO_BIN_EXE_unhitch"))
        .args(["record", "--engine", "bpf", "--for", "4s", "-o"])
        .arg(&path)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !path.exists() {
        assert!(record.try_wait().unwrap().is_none(), "the recorder is gone");
        thread::sleep(Duration::from_millis(10));
    }
    let mut reader = Command::new("sh")
        .args(["-c", "read line; exec sleep 100"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_secs(1));
    let mut pipe = reader.stdin.take().unwrap();
    pipe.write_all(b"x\n").unwrap();
    assert!(record.wait().unwrap().success());
    reader.kill().unwrap();
    reader.wait().unwrap();
    drop(pipe);
    assert_ends(&unhitch_formats::open(&path).unwrap(), reader.id());
}

/// One poll ends by its timeout, the next one and a select have not ended at the save.
#[test]
fn live_a_poll_of_one_descriptor_says_which() {
    const POLLS: &str = "my $poll = IO::Poll->new; $poll->mask(*STDIN => POLLIN); \
                         $poll->poll(0.3); $poll->poll(100)";
    const SELECTS: &str = "my $set = ''; vec($set, 0, 1) = 1; select $set, undef, undef, 100";
    let Some(mut recorder) = start("live_a_poll_of_one_descriptor_says_which") else { return };
    let run = |script: &str| {
        let mut perl = Command::new("perl");
        perl.args(["-MIO::Poll", "-e", script]).stdin(Stdio::piped()).spawn().unwrap()
    };
    let mut children = [run(POLLS), run(SELECTS)];
    thread::sleep(Duration::from_secs(1));
    let trace = save(&mut recorder);
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (child, polls) in children.iter().zip([2, 1]) {
        assert_ends(&trace, child.id());
        let of_child =
            trace.kept_waits.iter().filter(|wait| trace.threads.get(wait.thread).tid == child.id());
        let polled: Vec<Polled> =
            of_child.filter_map(|wait| wait.descriptor.as_deref()?.polled).collect();
        assert_eq!(polled, vec![Polled { to_read: true, to_write: false }; polls]);
    }
}

/// A loop that is a client and a server, by TCP and by Unix sockets, beside a hundred pipes: it may have
/// asked by the connections that it made.
#[test]
fn live_an_event_loop_asks_by_the_connections_that_it_made() {
    const LOOP: &str = "
import os, select, socket, sys
services = [socket.create_server(('127.0.0.1', 0)), socket.socket(socket.AF_UNIX)]
services[1].bind(sys.argv[1])
services[1].listen()
clients = [socket.socket(service.family) for service in services]
for client, service in zip(clients, services):
    client.connect(service.getsockname())
accepted = [service.accept()[0] for service in services]
pipes = [os.pipe() for _ in range(100)]
loop = select.epoll()
for file in [reader for reader, _ in pipes] + services + clients + accepted:
    loop.register(file, select.EPOLLIN)
print(*[os.fstat(socket.fileno()).st_ino for socket in accepted], flush=True)
loop.poll(100)
";
    let test = "live_an_event_loop_asks_by_the_connections_that_it_made";
    let Some(mut recorder) = start(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut python = Command::new("python3")
        .args(["-c", LOOP])
        .arg(folder.path().join("service"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(python.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut accepted: Vec<u64> =
        line.split_whitespace().map(|inode| inode.parse().unwrap()).collect();
    accepted.sort_unstable();
    // Until it sleeps.
    let stat = format!("/proc/{}/wchan", python.id());
    while fs::read_to_string(&stat).unwrap() == "0" {
        thread::sleep(Duration::from_millis(10));
    }
    let trace = save(&mut recorder);
    python.kill().unwrap();
    python.wait().unwrap();
    let is_its = |process| trace.threads.process(process).pid == python.id();
    let of_it = trace.loop_peers.iter().filter(|(process, _)| is_its(*process));
    assert_eq!(of_it.map(|(_, inode)| *inode).collect::<Vec<u64>>(), accepted);
}

/// What a program has written over its command line is what it does at the save.
#[test]
fn live_a_title_is_read_at_the_save() {
    const TITLED: &str = "$| = 1; $0 = 'shop: idle'; print qq(a\n); <STDIN>; \
                          $0 = 'shop: idle in transaction'; print qq(b\n); sleep 100";
    let mut perl = Command::new("perl")
        .args(["-e", TITLED])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(perl.stdout.take().unwrap()).lines();
    said.next().unwrap().unwrap();
    let recorder = start("live_a_title_is_read_at_the_save");
    let trace = recorder.map(|mut recorder| {
        // The first save knows it as it was.
        save(&mut recorder);
        perl.stdin.take().unwrap().write_all(b"\n").unwrap();
        said.next().unwrap().unwrap();
        save(&mut recorder)
    });
    perl.kill().unwrap();
    perl.wait().unwrap();
    let Some(trace) = trace else { return };
    let of_it = trace.threads.processes().find(|(_, process)| process.pid == perl.id());
    let (_, process) = of_it.expect("the process");
    assert_eq!(trace.name(process.command_line), "shop: idle in transaction");
}

/// Nobody has accepted the connection, so that its other end is not a process's yet.
#[test]
fn live_a_connection_that_was_not_accepted_names_who_listens() {
    let test = "live_a_connection_that_was_not_accepted_names_who_listens";
    if !knows_listeners() {
        let _ = writeln!(stderr(), "SKIPPED {test}: this kernel does not keep who listens");
        return;
    }
    let Some(mut recorder) = start(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service");
    let _listener = UnixListener::bind(&path).unwrap();
    let script = format!(
        "my $to = IO::Socket::UNIX->new(Peer => '{}') or die; sysread $to, my $answer, 1",
        path.display()
    );
    let mut client =
        Command::new("perl").args(["-MIO::Socket::UNIX", "-e", &script]).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    let trace = save(&mut recorder);
    client.kill().unwrap();
    client.wait().unwrap();
    let of_client = |wait: &&KeptWait| {
        trace.threads.get(wait.thread).tid == client.id() && wait.descriptor.is_some()
    };
    let wait = trace.kept_waits.iter().rfind(of_client);
    let peer = wait.and_then(|wait| wait.descriptor.as_deref()?.peer_inode).expect("who listens");
    let holders = trace.holders.iter().filter(|holder| holder.inode == peer);
    let pids = holders.map(|holder| trace.threads.process_of(holder.process).pid);
    assert_eq!(pids.collect::<Vec<u32>>(), [process::id()]);
}

/// Linux 6.10 and later, and older ones that have its garbage collector of Unix sockets.
fn knows_listeners() -> bool {
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let has = |name: &[u8]| types.windows(name.len()).any(|bytes| bytes == name);
    has(b"\0unix_vertex\0")
}

#[test]
fn live_who_writes_to_the_page_cache_is_counted() {
    const MIB: u64 = 1 << 20;
    const WRITTEN: u64 = 24 * MIB;
    let test = "live_who_writes_to_the_page_cache_is_counted";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("facts-{}", process::id()));
    let file = File::create(&path).unwrap();
    // A file system without a disk, such as tmpfs, writes nothing back.
    let major = file.metadata().unwrap().dev() >> 8 & 0xfff;
    if major == 0 {
        let _ = writeln!(stderr(), "SKIPPED {test}: {} is on no disk", folder.display());
        fs::remove_file(&path).unwrap();
        return;
    }
    let Some(mut recorder) = start(test) else { return };
    let mut file = file;
    (0..WRITTEN / MIB).for_each(|_| file.write_all(&vec![1; MIB as usize]).unwrap());
    let trace = save(&mut recorder);
    fs::remove_file(&path).unwrap();
    let own = |tid: &u32| {
        let thread = trace.threads.at(*tid, trace.extent().end);
        thread.is_some_and(|thread| trace.threads.process_of(thread).pid == process::id())
    };
    let written: u64 = events(&trace, "writeback_dirty_folio")
        .iter()
        .filter(|(tid, _)| own(tid))
        .map(|(_, fields)| fields[0])
        .sum();
    // What is less than a MiB at the end is not noted, and a page may be written to twice.
    assert!((WRITTEN - MIB..=WRITTEN + 2 * MIB).contains(&written), "{written} bytes");
}

/// Two processes have a lock on a file each, and this one asks for both without waiting.
#[test]
fn live_a_lock_on_a_file_that_is_refused_names_its_holder() {
    let test = "live_a_lock_on_a_file_that_is_refused_names_its_holder";
    let Some(mut recorder) = start(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "import fcntl, sys
file = open(sys.argv[1], 'w')
getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX)
print('has it', flush=True)
sys.stdin.read()";
    for (call, event) in [("flock", "flock_lock_inode"), ("lockf", "posix_lock_inode")] {
        let path = folder.path().join(call);
        let mut holder = Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .arg(call)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let operation = FlockOperation::NonBlockingLockExclusive;
        let refused = match call {
            "flock" => rustix::fs::flock(&file, operation),
            _ => rustix::fs::fcntl_lock(&file, operation),
        };
        assert!(refused.is_err(), "{line}");
        let trace = save(&mut recorder);
        let named = events(&trace, event).into_iter().filter(|(_, fields)| {
            fields[..3] == [holder.id().into(), fields[1], file.metadata().unwrap().ino()]
        });
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_eq!(named.map(|(tid, _)| tid).collect::<Vec<_>>(), [own], "{event}");
        let is_name = |(_, value): &(_, Value<'_>)| value.as_str() == Some(call);
        let events = 0..trace.events.len();
        assert!(events.map(|event| trace.events.fields(event)).any(|of| of.iter().any(is_name)));
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
}
